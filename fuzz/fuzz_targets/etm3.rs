//! ETMv3, any configuration, any code and any bytes. The checks are in `src/etm3.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::etm3::check(data));
