//! A thread of a program: the block it executes, with its accesses and register values.

use unspool_model::Isa;
use unspool_wire::{Access, Data};

use crate::registers::RegisterValue;

#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) core: u32,
    /// Instructions that were emitted.
    pub(super) emitted: u64,
    /// The block that starts next.
    pub(super) next: Option<usize>,
    /// The block that was started, and unusual facts about it.
    pub(super) held: Option<usize>,
    pub(super) unusual: Option<Unusual>,
    pub(super) accesses: Vec<Access>,
    /// Data of accesses, by their index among them; only of those that have any.
    pub(super) data: Vec<(usize, Data)>,
    pub(super) values: Vec<RegisterValue>,
    /// Instructions of the next block that are not recorded.
    pub(super) skipped: u16,
    /// The thread has ended; the end of its last block depends on how the program ended.
    pub(super) has_ended: bool,
    /// The instruction set that the last block leads to, if that does not depend on a register.
    pub(super) leads: Option<Isa>,
}

/// Unusual facts about the execution of a block; most blocks have none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unusual {
    pub(super) skipped: usize,
    /// The block was left: instructions before this one are complete.
    pub(super) left: Option<u16>,
    pub(super) call: Option<Call>,
    /// The thread was stopped in the block, and the last mark that it reached, if that is known.
    pub(super) stop: Option<Stop>,
    pub(super) mark: Option<u16>,
}

/// Reason why a thread stopped without an end of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// This signal, which its own code caused or which arrived between two blocks.
    Signal(i32),
    /// This signal, which arrived elsewhere, while it executed the block.
    CutOff(i32),
}

/// A system call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) number: i64,
    pub(super) result: Option<i64>,
}

/// The data of the access with this index.
#[inline]
pub(super) fn data_of(all: &[(usize, Data)], index: usize) -> Option<Data> {
    if all.is_empty() {
        return None;
    }
    let found = all.binary_search_by_key(&index, |(at, _)| *at).ok()?;
    all.get(found).map(|(_, data)| *data)
}
