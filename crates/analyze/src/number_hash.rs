//! Hashing of numbers: addresses, pages, cores.
//!
//! number ─▶ **hash** for a table
//!
//! Much faster than the hash of the standard library, which withstands keys that were made to collide.

use std::hash::Hasher;

/// Fibonacci hasher. Page numbers differ in their lowest bits, but hash tables use the highest bits too.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fibonacci(u64);

impl Hasher for Fibonacci {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
