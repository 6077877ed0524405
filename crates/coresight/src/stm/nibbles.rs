//! A position in nibbles that moves forward and never past the end. Bits 3 to 0 of a byte come first.

use crate::cursor::Ended;

/// Nibbles, and the number of them that have been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nibbles<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Payloads start with their least significant nibble.
    least_first: bool,
}

impl<'a> Nibbles<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], at: usize, least_first: bool) -> Self {
        Self { bytes, at, least_first }
    }

    /// Number of nibbles before the next one.
    #[inline(always)]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next nibble.
    #[inline(always)]
    pub(super) fn one(&mut self) -> Result<u8, Ended> {
        let byte = *self.bytes.get(self.at / 2).ok_or(Ended)?;
        let nibble = if self.at.is_multiple_of(2) { byte & 0xf } else { byte >> 4 };
        self.at += 1;
        Ok(nibble)
    }

    /// A number of `count` nibbles, at most 16, in the order of payloads.
    #[inline(always)]
    pub(super) fn payload(&mut self, count: usize) -> Result<u64, Ended> {
        let value = self.number(count)?;
        Ok(if self.least_first { reverse(value, count) } else { value })
    }

    /// A number of `count` nibbles, at most 16, most significant first.
    #[inline(always)]
    pub(super) fn number(&mut self, count: usize) -> Result<u64, Ended> {
        let index = self.at / 2;
        let Some(&[a, b, c, d, e, f, g, h, next]) = self.bytes.get(index..).and_then(|rest| rest.first_chunk::<9>())
        else {
            return self.slow_number(count);
        };
        let word = swap(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        let word = if self.at.is_multiple_of(2) { word } else { word << 4 | u64::from(next & 0xf) };
        self.at += count;
        Ok(if count == 0 { 0 } else { word >> (64 - 4 * count) })
    }

    #[cold]
    #[inline(never)]
    fn slow_number(&mut self, count: usize) -> Result<u64, Ended> {
        (0..count).try_fold(0, |value, _| Ok(value << 4 | u64::from(self.one()?)))
    }
}

/// Exchanges the nibbles of each byte.
#[inline(always)]
fn swap(word: u64) -> u64 {
    const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    (word & LOW) << 4 | word >> 4 & LOW
}

/// Reverses the order of the low `count` nibbles.
pub(super) fn reverse(value: u64, count: usize) -> u64 {
    if count == 0 { 0 } else { swap(value.swap_bytes()) >> (64 - 4 * count) }
}
