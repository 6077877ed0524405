//! Kernel modules, any bytes and changed ones. The checks are in `src/module.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::module::check(data));
