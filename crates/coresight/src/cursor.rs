//! A position in bytes that moves forward and never past the end.
//!
//! Takes bytes, produces little-endian numbers and the fields that trace protocols continue with bit 7.

/// The bytes ended where a packet needed more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended;

/// A branch address of one to four bytes, as PTM and ETMv3 have it: 6 bits in the first byte after bit 0, 7 in each of the
/// others, continued while bit 7 is set. Returns the value and the number of bytes. `None`: it is longer, or fewer than four
/// bytes are left. Without a branch per byte, since lengths cannot be predicted.
#[inline(always)]
pub(crate) fn short_address(bytes: &[u8]) -> Option<(u32, u8)> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    let length = (!word & 0x8080_8080).trailing_zeros() / 8 + 1;
    if length > 4 {
        return None;
    }
    let own = word & u32::MAX >> (32 - 8 * length);
    let value = own >> 1 & 0x3f | (own >> 8 & 0x7f) << 6 | (own >> 16 & 0x7f) << 13 | (own >> 24 & 0x7f) << 20;
    Some((value, length as u8))
}

/// A field of 7 bits per byte, continued while bit 7 is set, at the start of eight bytes, the first one in the low bits.
/// Returns the value and the number of bytes, 9 if the field does not end in them. Without a branch per byte.
#[inline(always)]
pub(crate) fn continued(word: u64) -> (u64, u32) {
    let ends = !word & 0x8080_8080_8080_8080;
    let up_to_end = ends ^ ends.wrapping_sub(1);
    (sevens(word & up_to_end), ends.trailing_zeros() / 8 + 1)
}

/// Bits 6 to 0 of each byte, next to each other.
#[inline(always)]
pub(crate) fn sevens(word: u64) -> u64 {
    let pairs = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// Bytes, and the number of them that have been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Number of bytes read.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The bytes that have not been read.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    #[inline]
    pub(crate) fn skip(&mut self, count: usize) {
        self.at = (self.at + count).min(self.bytes.len());
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Ended> {
        let byte = *self.bytes.get(self.at).ok_or(Ended)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Ended> {
        let array = *self.rest().first_chunk::<N>().ok_or(Ended)?;
        self.at += N;
        Ok(array)
    }

    /// `count` bytes (at most 4), least significant first.
    #[inline]
    pub(crate) fn little_endian(&mut self, count: u8) -> Result<u32, Ended> {
        (0..u32::from(count.min(4))).try_fold(0, |value, index| Ok(value | u32::from(self.u8()?) << (8 * index)))
    }

    /// A field of 7 bits per byte, continued while bit 7 is set. Byte number `MAX` has 8 bits. Returns the value and its
    /// number of bits.
    #[inline]
    pub(crate) fn continued<const MAX: u32>(&mut self) -> Result<(u64, u8), Ended> {
        let mut value = 0;
        for index in 0..MAX - 1 {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok((value, (7 * (index + 1)) as u8));
            }
        }
        let last = u64::from(self.u8()?);
        Ok((value | last << (7 * (MAX - 1)), (7 * (MAX - 1) + 8) as u8))
    }

    /// A continued field of up to 32 bits.
    #[inline]
    pub(crate) fn continued_u32(&mut self) -> Result<u32, Ended> {
        Ok(self.continued::<5>()?.0 as u32)
    }

    /// A continued field of up to 20 bits, such as a cycle count.
    #[inline]
    pub(crate) fn continued_u20(&mut self) -> Result<u32, Ended> {
        Ok(self.continued::<3>()?.0 as u32 & 0xf_ffff)
    }
}
