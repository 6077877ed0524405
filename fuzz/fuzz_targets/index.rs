//! Indexes of any log, and any bytes as an index. The checks are in `src/index.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::index::check(data));
