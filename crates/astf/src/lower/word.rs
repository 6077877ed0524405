//! Opcodes: what lowering has to know of them, remembered for those seen lately.

use std::fmt;

use unspool_isa::{Access, Isa, Kind, Operation, a64_access, facts};
use unspool_model::Modes;

use super::super::builder::CallKind;
use super::operand::has_address;

/// What is known of an opcode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    /// What it does with memory.
    pub(super) access: Access,
    /// Where execution goes on.
    pub(super) flow: Flow,
    /// From a direct branch to its target.
    offset: u64,
    /// It may set what a context has.
    pub(super) sets: bool,
    /// It has an address that follows from registers, if no access is told.
    pub(super) has_address: bool,
}

/// Where execution goes on behind an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// Behind it, if nothing happens.
    Behind,
    /// At a target in the opcode, or behind it.
    Conditional,
    /// At a target in the opcode.
    Direct,
    /// At a target in a register.
    Indirect,
    /// Where an exception returns to.
    Return,
}

impl Word {
    pub(super) fn new(opcode: u32) -> Self {
        let facts = facts(Isa::A64, 0, opcode);
        let flow = match facts.kind {
            Kind::Direct if facts.conditional => Flow::Conditional,
            Kind::Direct => Flow::Direct,
            Kind::Indirect if facts.eret => Flow::Return,
            Kind::Indirect => Flow::Indirect,
            _ => Flow::Behind,
        };
        let offset = facts.target.map_or(0, |target| target.address);
        let access = a64_access(opcode);
        Self {
            access,
            flow,
            offset,
            sets: opcode >> 20 == 0xd50 && opcode & 0xf01f == 0x401f,
            has_address: has_address(access.operation),
        }
    }

    /// Where it goes from here, if the opcode says so.
    pub(super) fn target(&self, address: u64) -> Option<u64> {
        matches!(self.flow, Flow::Conditional | Flow::Direct).then(|| address.wrapping_add(self.offset))
    }

    /// Which call it makes, if it makes one.
    pub(super) fn call(&self) -> Option<CallKind> {
        Some(match self.access.operation {
            Operation::SupervisorCall => CallKind::Svc,
            Operation::HypervisorCall => CallKind::Hvc,
            Operation::SecureMonitorCall => CallKind::Smc,
            _ => return None,
        })
    }

    /// The class of the exception that it raises, if it can do nothing else.
    pub(super) fn class(&self) -> Option<u8> {
        Some(match self.access.operation {
            Operation::SupervisorCall => 0x15,
            Operation::HypervisorCall => 0x16,
            Operation::SecureMonitorCall => 0x17,
            Operation::Breakpoint => 0x3c,
            Operation::Undefined => 0,
            _ => return None,
        })
    }
}

/// Sets what an MSR of an immediate, SMSTART or SMSTOP sets: the stack pointer, and modes.
pub(super) fn set(opcode: u32, handler: &mut Option<bool>, modes: &mut Modes) {
    let immediate = opcode >> 8 & 0b1111;
    let value = immediate & 1 != 0;
    match (opcode & 0xffff_f0ff, immediate >> 1) {
        (0xd500_40bf, _) => *handler = Some(value),
        (0xd503_405f, _) => modes.dit = value,
        (0xd503_403f, _) => modes.ssbs = value,
        (0xd503_407f, 0b001 | 0b011) => modes.streaming = value,
        _ => {}
    }
}

/// A prefetch of a range, which has a register for the size.
pub(super) fn is_range_prefetch(opcode: u32) -> bool {
    opcode & 0xffe0_0c18 == 0xf8a0_0818
}

/// The opcodes seen lately.
pub(super) struct Words {
    entries: Box<[(u32, Word)]>,
}

/// Enough for the loops of most programs.
const INDEX_BITS: u32 = 10;

impl Words {
    pub(super) fn new() -> Self {
        // An entry for the opcode 0 is right in every place.
        Self { entries: vec![(0, Word::new(0)); 1 << INDEX_BITS].into_boxed_slice() }
    }

    #[inline]
    pub(super) fn of(&mut self, opcode: u32) -> &Word {
        // The golden ratio spreads opcodes that differ in a few bits.
        let index = (opcode.wrapping_mul(0x9e37_79b1) >> (u32::BITS - INDEX_BITS)) as usize;
        let entry = &mut self.entries[index];
        if entry.0 != opcode {
            *entry = (opcode, Word::new(opcode));
        }
        &entry.1
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").finish_non_exhaustive()
    }
}
