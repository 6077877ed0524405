//! Flow from packets and code, any bytes for either. The checks are in `src/flow.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::flow::check(data));
