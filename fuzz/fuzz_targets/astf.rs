//! ASTF files, any bytes and damaged files. The checks are in `src/astf.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::astf::check(data));
