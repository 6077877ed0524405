//! Little-endian numbers: read from a slice, appended to a vector.

use super::layout::Malformed;

/// Position of a reader in a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    position: usize,
}

impl<'b> Cursor<'b> {
    #[inline(always)]
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Number of bytes read so far.
    #[inline(always)]
    pub(super) fn position(&self) -> usize {
        self.position
    }

    #[inline(always)]
    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let bytes = self.bytes[self.position..].get(..count).ok_or(Malformed::Truncated)?;
        self.position += count;
        Ok(bytes)
    }

    #[inline(always)]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let &array = self.bytes[self.position..].first_chunk().ok_or(Malformed::Truncated)?;
        self.position += N;
        Ok(array)
    }

    #[inline(always)]
    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline(always)]
    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline(always)]
    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline(always)]
    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes preceded by a 16-bit count.
    #[inline]
    pub(super) fn counted_u16(&mut self) -> Result<&'b [u8], Malformed> {
        let count = self.u16()?;
        self.take(count.into())
    }

    /// Bytes preceded by a 32-bit count.
    pub(super) fn counted_u32(&mut self) -> Result<&'b [u8], Malformed> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    /// The bytes that `read` consumes.
    pub(super) fn measured(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), Malformed>,
    ) -> Result<&'b [u8], Malformed> {
        let start = self.position;
        read(self)?;
        Ok(&self.bytes[start..self.position])
    }
}

pub(super) struct Output<'v>(&'v mut Vec<u8>);

impl<'v> Output<'v> {
    /// Starts a record.
    pub(super) fn new(bytes: &'v mut Vec<u8>, descriptor: u8) -> Self {
        bytes.push(descriptor);
        Self(bytes)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }
}
