//! Cuts of any file. What is checked stands in `src/slice.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::slice::check(data));
