//! Packets and code to what was executed, any bytes for either. What is checked stands in `src/flow.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::flow::check(data));
