//! Blocks of an index: compressed, with a checksum.

use std::io::{Read, Seek, SeekFrom, Write};

use super::bytes::{Cursor, Malformed, put};
use super::{IndexError, IndexResult};

/// Compression level: fast, since an index is written more often than read.
const LEVEL: i32 = 1;

/// Maximum number of bytes of a block, compressed or not.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Block {
    pub(super) offset: u64,
    stored: u32,
    raw: u32,
    sum: u32,
}

/// A compressed block that is not written yet.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    raw: u32,
    sum: u32,
}

impl Packed {
    pub(super) fn of(bytes: &[u8]) -> Self {
        // If compression fails, the empty block is reported as damaged when it is read.
        let packed = zstd::bulk::compress(bytes, LEVEL).unwrap_or_default();
        Self { sum: sum(&packed), raw: bytes.len() as u32, bytes: packed }
    }

    /// Writes the block at `end`, and advances it. Reading may have moved the position of the file.
    pub(super) fn save(&self, file: &mut (impl Write + Seek), end: &mut u64) -> IndexResult<Block> {
        file.seek(SeekFrom::Start(*end)).map_err(IndexError::Write)?;
        file.write_all(&self.bytes).map_err(IndexError::Write)?;
        let block = Block { offset: *end, stored: self.bytes.len() as u32, raw: self.raw, sum: self.sum };
        *end += self.bytes.len() as u64;
        Ok(block)
    }
}

impl Block {
    pub(super) fn load(&self, file: &mut (impl Read + Seek)) -> IndexResult<Vec<u8>> {
        let mut packed = vec![0; self.stored as usize];
        file.seek(SeekFrom::Start(self.offset)).map_err(IndexError::Read)?;
        file.read_exact(&mut packed).map_err(IndexError::of_read)?;
        if sum(&packed) != self.sum {
            return Err(IndexError::Damaged { offset: self.offset });
        }
        let bytes = zstd::bulk::decompress(&packed, self.raw as usize);
        bytes.ok().filter(|bytes| bytes.len() == self.raw as usize).ok_or(IndexError::Damaged { offset: self.offset })
    }

    /// Number of bytes of [`fixed`](Self::fixed).
    pub(super) const FIXED: usize = 20;

    /// Encodes the location with a fixed length.
    pub(super) fn fixed(&self) -> Vec<u8> {
        let mut out = self.offset.to_le_bytes().to_vec();
        [self.stored, self.raw, self.sum].iter().for_each(|number| out.extend(number.to_le_bytes()));
        out
    }

    /// Decodes the location from [`fixed`](Self::fixed); the block ends at `end`.
    pub(super) fn of_fixed(bytes: &[u8], end: u64) -> Option<Self> {
        let (offset, rest) = bytes.split_first_chunk()?;
        let [stored, raw, sum] = rest.as_chunks().0 else { return None };
        let [stored, raw, sum] = [stored, raw, sum].map(|number| u32::from_le_bytes(*number));
        let block = Self { offset: u64::from_le_bytes(*offset), stored, raw, sum };
        let is_whole = block.offset.checked_add(block.stored.into()) == Some(end);
        (is_whole && u64::from(block.raw) <= MAX_BYTES).then_some(block)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.offset, self.stored.into(), self.raw.into(), self.sum.into()] {
            put(out, number);
        }
    }

    /// Decodes a location; the block must end at or before `end`.
    pub(super) fn decode(cursor: &mut Cursor<'_>, end: u64) -> Result<Self, Malformed> {
        let [offset, stored, raw, sum] = [cursor.number()?, cursor.number()?, cursor.number()?, cursor.number()?];
        let fits = offset.checked_add(stored).is_some_and(|block_end| block_end <= end);
        if !fits || stored > MAX_BYTES || raw > MAX_BYTES {
            return Err(Malformed);
        }
        let sum = u32::try_from(sum).map_err(|_| Malformed)?;
        Ok(Self { offset, stored: stored as u32, raw: raw as u32, sum })
    }
}

pub(super) fn sum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}
