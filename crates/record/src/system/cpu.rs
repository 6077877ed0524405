//! A CPU of a system: the block it executes, its log entries and its state.

use unspool_wire::{Access, Data};

use super::log::Entry;
use super::operands::Operand;
use super::processes::Translation;
use super::state::State;
use crate::registers::RegisterValue;

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub(super) number: u32,
    /// Instructions that were emitted.
    pub(super) emitted: u64,
    pub(super) held: Option<Held>,
    /// Entries that were logged since the block was started.
    pub(super) entries: Vec<Entry>,
    pub(super) accesses: Vec<(Access, Option<Data>)>,
    /// The data of the next access.
    pub(super) data: Option<Data>,
    /// Registers before instructions of the block.
    pub(super) operands: Vec<Operand>,
    /// Values that its instructions wrote to registers.
    pub(super) values: Vec<RegisterValue>,
    /// The block that accesses are made in, if that is another.
    pub(super) within: Option<usize>,
    pub(super) skipped: u16,
    /// The address where the next block is executed, if it was translated for another.
    pub(super) at: Option<u64>,
    /// The time of the last block that was emitted.
    pub(super) emitted_at: Option<u64>,
    /// The time of the next block.
    pub(super) time: Option<u64>,
    pub(super) state: State,
    pub(super) translation: Translation,
    /// Whether it is in AArch32: nothing is recorded.
    pub(super) is_aarch32: bool,
    /// The context has to be emitted before the next instruction.
    pub(super) is_context_due: bool,
    /// Records before the first exception: until then the level is unknown.
    pub(super) waiting: Vec<u8>,
    /// Number of waiting bytes that were searched for the level.
    pub(super) searched: usize,
    /// Whether it has executed an instruction.
    pub(super) has_run: bool,
    /// Its end was recorded.
    pub(super) has_ended: bool,
    /// Whether it has reached the limit.
    pub(super) is_done: bool,
}

/// A block that was started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) id: usize,
    /// The distance from where it was translated.
    pub(super) moved_by: u64,
    pub(super) skipped: usize,
    /// If the block was left: instructions before this one are complete.
    pub(super) left: Option<u16>,
    pub(super) time: Option<u64>,
}

impl Cpu {
    /// Drops the data of the current block.
    pub(super) fn forget_block(&mut self) {
        self.accesses.clear();
        self.operands.clear();
        self.values.clear();
        self.data = None;
    }

    /// Applies an entry to the state without a step.
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Taken(taken) => {
                self.is_aarch32 = false;
                let _ = self.state.take(taken);
            }
            Entry::Return { from, to, .. } => {
                let _ = self.state.exception_return(*from, *to);
            }
            Entry::ReturnToAarch32 { .. } => self.is_aarch32 = true,
            Entry::Served { .. } | Entry::Other(_) => {}
        }
        self.is_context_due = true;
    }
}
