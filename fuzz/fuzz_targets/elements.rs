//! Elements and speculation, any configuration and any bytes. The checks are in `src/elements.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::elements::check(data));
