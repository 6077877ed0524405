//! The stream of the plugin that records programs. The checks are in `src/record.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::record::check(data));
