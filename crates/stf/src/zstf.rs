//! .zstf: chunks of records, each a zstd frame, and an index of them at the end.
//!
//! ```text
//! ZSTF, M, E │ chunk 0 │ chunk 1 │ … │ E: N, N × (offset, PC, size)
//! ```
//!
//! M is the number of instructions in every chunk but the last, E the offset of the index, N the number of chunks.

pub(super) mod chunks;
pub(super) mod frame;
pub(super) mod writer;

pub(super) const MAGIC: [u8; 4] = *b"ZSTF";

/// Bytes before the first chunk.
pub(super) const HEADER: u64 = 20;

/// Bytes of an entry of the index.
pub(super) const ENTRY: u64 = 24;

/// Maximum number of threads. More would cost memory without a gain in speed.
pub(super) const MAX_THREADS: usize = 64;

/// Entry of the index: one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Entry {
    pub(super) offset: u64,
    /// Address of its first instruction.
    pub(super) pc: u64,
    /// Bytes of its records.
    pub(super) size: u64,
}

impl Entry {
    fn from_bytes(bytes: &[u8; ENTRY as usize]) -> Self {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Self { offset: word(0), pc: word(8), size: word(16) }
    }

    fn to_bytes(self) -> [u8; ENTRY as usize] {
        let mut bytes = [0; ENTRY as usize];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (bytes, word) in words.iter_mut().zip([self.offset, self.pc, self.size]) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }
}
