//! Positions in the records of a trace, and the outcome of a scan of some of them.

use super::layout::Malformed;

/// Position of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Its number; the first is 0. After [`Reader::seek_instruction`](crate::read::Reader::seek_instruction), records
    /// may be counted from there.
    pub record: u64,
    /// Offset of its first byte in the uncompressed trace.
    pub offset: u64,
}

impl Position {
    /// The position after a record of this length.
    #[inline(always)]
    pub(super) fn after(self, length: usize) -> Self {
        Self { record: self.record + 1, offset: self.offset + length as u64 }
    }
}

/// Outcome of a scan of the window.
#[derive(Clone, Copy)]
pub(super) struct Stop {
    /// Everything before was emitted.
    pub(super) done: Position,
    /// Everything before is readable.
    pub(super) at: Position,
    /// Why it stopped; `None`: the caller wants no more.
    pub(super) why: Option<Malformed>,
    /// Number of emitted records that count towards the size of a chunk.
    pub(super) markers: u64,
}
