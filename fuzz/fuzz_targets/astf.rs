//! ASTF files, any bytes and damaged files. What is checked stands in `src/astf.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::astf::check(data));
