//! Captures in a zip archive, any bytes and damaged archives. The checks are in `src/zip.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::zip::check(data));
