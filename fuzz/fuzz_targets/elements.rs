//! Elements and speculation, any configuration and any bytes. What is checked stands in `src/elements.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::elements::check(data));
