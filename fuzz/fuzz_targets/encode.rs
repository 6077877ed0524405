//! The trace unit and the encoder. The checks are in `src/encode.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::encode::check(data));
