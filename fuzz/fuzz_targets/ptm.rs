//! PTM packets, elements and flow, any configuration, code and bytes. The checks are in `src/ptm.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::ptm::check(data));
