//! System event logs, and the address spaces that they describe. The checks are in `src/events.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::events::check(data));
