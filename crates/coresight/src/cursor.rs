//! A position in bytes that moves forward and never past the end.
//!
//! Takes bytes, produces little-endian numbers and the fields that trace protocols continue with bit 7.

/// The bytes ended where a packet needed more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended;

/// A branch address of one to four bytes, as PTM and ETMv3 have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortAddress {
    /// 6 bits of the first byte after bit 0, 7 of each of the others.
    pub(crate) value: u32,
    /// Number of bytes.
    pub(crate) length: u8,
    /// The last byte.
    pub(crate) last: u8,
}

/// The branch address at the start of `bytes`, which continues while bit 7 is set. `None`: it is longer, or fewer than four
/// bytes are left. Without a branch per byte, since lengths cannot be predicted.
#[inline(always)]
pub(crate) fn short_address(bytes: &[u8]) -> Option<ShortAddress> {
    let word = u32::from_le_bytes(*bytes.first_chunk()?);
    let ends = !word & 0x8080_8080;
    if ends == 0 {
        return None;
    }
    let last = ends.trailing_zeros() & 0x18;
    let own = word & (ends ^ (ends - 1));
    Some(ShortAddress { value: address_bits(own), length: (last / 8 + 1) as u8, last: (word >> last) as u8 })
}

/// The bits of a branch address in its first four bytes.
#[inline(always)]
pub(crate) fn address_bits(word: u32) -> u32 {
    word >> 1 & 0x3f | (word >> 8 & 0x7f) << 6 | (word >> 16 & 0x7f) << 13 | (word >> 24 & 0x7f) << 20
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
