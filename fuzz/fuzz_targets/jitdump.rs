//! jitdumps, any bytes and changed ones. The checks are in `src/jitdump.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::jitdump::check(data));
