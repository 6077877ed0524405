//! Program images, any bytes and changed ELF files. What is checked stands in `src/code.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::code::check(data));
