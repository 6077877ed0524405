//! Tarmac logs, any bytes. The checks are in `src/tarmac.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::tarmac::check(data));
