//! Recordings of perf, any bytes and damaged ones. The checks are in `src/perf.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| unspool_fuzz::perf::check(data));
