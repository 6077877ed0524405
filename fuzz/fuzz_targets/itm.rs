//! ITM packets and elements, any bytes. The checks are in `src/itm.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::itm::check(data));
