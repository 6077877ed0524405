//! Counts per group of instructions.

use unspool_model::{Direction, Security};

/// Core, level, Security state and process of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group {
    /// The core.
    pub core: u32,
    /// The Exception level or privilege mode, if reported.
    pub level: Option<u8>,
    /// The Security state, if reported.
    pub security: Option<Security>,
    /// The process, if reported.
    pub process: Option<u64>,
    /// Whether the group is of all processes beyond the limit.
    pub is_rest: bool,
}

/// Counts of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Instructions, executed or attempted.
    pub instructions: u64,
    /// Instructions whose condition failed.
    pub skipped: u64,
    /// Branches that were taken.
    pub taken: u64,
    /// Exceptions.
    pub exceptions: u64,
    /// Returns from exceptions.
    pub exception_returns: u64,
    /// Gaps.
    pub gaps: u64,
    /// Registers that were written.
    pub registers: u64,
    /// Accesses that read. An access that reads and writes is counted in both.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Accesses that write.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Accesses that neither read nor write, such as prefetches.
    pub neither: u64,
}

impl Tally {
    #[inline]
    pub(super) fn access(&mut self, direction: Direction, size: u64) {
        if matches!(direction, Direction::Read | Direction::Both) {
            self.reads += 1;
            self.read_bytes = self.read_bytes.saturating_add(size);
        }
        if matches!(direction, Direction::Write | Direction::Both) {
            self.writes += 1;
            self.written_bytes = self.written_bytes.saturating_add(size);
        }
        self.neither += u64::from(direction == Direction::Neither);
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.instructions += other.instructions;
        self.skipped += other.skipped;
        self.taken += other.taken;
        self.exceptions += other.exceptions;
        self.exception_returns += other.exception_returns;
        self.gaps += other.gaps;
        self.registers += other.registers;
        self.reads += other.reads;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.writes += other.writes;
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.neither += other.neither;
    }
}
