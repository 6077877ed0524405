//! Formatter frames, any bytes. The checks are in `src/frames.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::frames::check(data));
