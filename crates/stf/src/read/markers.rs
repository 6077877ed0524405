//! Markers: the records that measure the chunks of a .zstf file, one per instruction or transaction.

use crate::record::descriptor;

/// Number of markers (instructions or transactions) in the current chunk.
#[derive(Debug, Default)]
pub(super) struct MarkerCount {
    /// Number of the chunk, if any was read.
    pub(super) chunk: Option<u64>,
    /// So far.
    pub(super) found: u64,
    /// The whole chunk is counted.
    pub(super) is_known: bool,
}

/// Does the record count towards the size of a chunk?
#[inline(always)]
pub(super) fn is_marker(descriptor: u8) -> bool {
    matches!(descriptor, descriptor::INST_OPCODE32 | descriptor::INST_OPCODE16 | descriptor::TRANSACTION)
}

/// Sizes of the chunks of a .zstf file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkSizes {
    /// Number of instructions, or transactions, in every chunk but the last, according to the file.
    pub instructions: u64,
    /// Number of chunks; without an index it is known at the end.
    pub count: Option<u64>,
}
