//! Program images, any bytes and changed ELF files. The checks are in `src/code.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::code::check(data));
