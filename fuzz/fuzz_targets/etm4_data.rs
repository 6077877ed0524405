//! Packets and elements of the ETMv4 data stream, any bytes. The checks are in `src/etm4_data.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::etm4_data::check(data));
