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
        Ok(if self.least_first { reverse(value, count as u8) } else { value })
    }

    /// A number of `count` nibbles, at most 16, most significant first.
    #[inline(always)]
    pub(super) fn number(&mut self, count: usize) -> Result<u64, Ended> {
        let Some(word) = sixteen(self.bytes, self.at) else { return self.slow_number(count) };
        self.at += count;
        Ok(reverse(word, count as u8))
    }

    #[cold]
    #[inline(never)]
    fn slow_number(&mut self, count: usize) -> Result<u64, Ended> {
        (0..count).try_fold(0, |value, _| Ok(value << 4 | u64::from(self.one()?)))
    }
}

/// The 16 nibbles from a position on, the first one in the low bits. `None`: the bytes end before the one after them.
#[inline(always)]
pub(super) fn sixteen(bytes: &[u8], at: usize) -> Option<u64> {
    let &[a, b, c, d, e, f, g, h, next] = bytes.get(at / 2..)?.first_chunk()?;
    let shift = 4 * (at % 2);
    Some(u64::from_le_bytes([a, b, c, d, e, f, g, h]) >> shift | u64::from(next) << 1 << (63 - shift))
}

/// The low `count` nibbles of a word, at most 16, in reverse order.
#[inline(always)]
pub(super) fn reverse(word: u64, count: u8) -> u64 {
    let all = swap(word.swap_bytes());
    if count == 0 { 0 } else { all >> (64 - 4 * u32::from(count)) }
}

/// Exchanges the nibbles of each byte.
#[inline(always)]
fn swap(word: u64) -> u64 {
    const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    (word & LOW) << 4 | word >> 4 & LOW
}
