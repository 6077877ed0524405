//! Formatter frames, any bytes. What is checked stands in `src/frames.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::frames::check(data));
