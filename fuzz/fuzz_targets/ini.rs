//! Captures in a directory, any ini files. The checks are in `src/ini.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::ini::check(data));
