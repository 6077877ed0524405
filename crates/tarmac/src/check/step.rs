//! An instruction with its effects, as the checks of accesses and control flow need it.

use unspool_isa::Decoded;

use super::super::read::Position;
use super::super::record::InstructionSet;

/// An instruction and its effects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) position: Position,
    pub(super) address: u64,
    pub(super) length: u8,
    pub(super) opcode: Option<u32>,
    pub(super) set: InstructionSet,
    pub(super) facts: Option<Decoded>,
    pub(super) is_executed: bool,
    pub(super) is_in_it: bool,
    /// Whether an event in between may have changed the flow.
    pub(super) is_exempt: bool,
    pub(super) branch: Option<(Position, u64)>,
    pub(super) read: u64,
    pub(super) written: u64,
}

impl Step {
    /// The address of the following instruction in memory.
    pub(super) fn fall_through(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.length))
    }
}
