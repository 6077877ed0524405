//! Steps of any file, in every format. The checks are in `src/steps.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::steps::check(data));
