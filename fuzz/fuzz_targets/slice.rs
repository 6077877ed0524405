//! Slices of any file. The checks are in `src/slice.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::slice::check(data));
