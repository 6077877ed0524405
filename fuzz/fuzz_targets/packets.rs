//! ETE and ETMv4 packets, any configuration and any bytes. The checks are in `src/packets.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::packets::check(data));
