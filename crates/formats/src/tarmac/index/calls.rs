//! How deep in calls a core is.
//!
//! A branch that leaves the address behind it in the link register is a call; a branch that a register or memory decides
//! and that goes to the return address of a call, with its stack pointer, returns from it and from all within.

use unspool_isa::{Isa, Kind, facts};

use crate::tarmac::record::{Instruction, InstructionSet};
use crate::tarmac::registers::Slot;
use crate::tarmac::state::Registers;

/// Calls above these are counted, but cannot be returned from.
const MOST_FRAMES: usize = 1 << 16;

/// How far a return looks for its call.
const REACH: usize = 4096;

/// The instruction before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Previous {
    pub(super) address: u64,
    /// The address behind it.
    pub(super) next: u64,
    pub(super) opcode: Option<u32>,
    pub(super) set: Option<InstructionSet>,
}

impl Previous {
    #[inline]
    pub(super) fn of(instruction: &Instruction<'_>) -> Option<Self> {
        let address = instruction.address?;
        let next = address.wrapping_add(instruction.length.into());
        Some(Self { address, next, opcode: instruction.opcode, set: instruction.set })
    }

    fn isa(&self) -> Option<Isa> {
        Some(match self.set? {
            InstructionSet::O => Isa::A64,
            InstructionSet::A => Isa::A32,
            InstructionSet::T | InstructionSet::E => Isa::T32,
        })
    }
}

/// A call, or what may be a return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    /// A call: the address that it returns to. Otherwise where execution goes.
    pub(super) address: u64,
    pub(super) is_call: bool,
    pub(super) sp: Stack,
}

/// The stack pointer, as far as a part of a log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stack {
    /// What it is, if this part has written it.
    pub(super) value: Option<u64>,
    /// Which register it is.
    pub(super) slot: Slot,
    /// Another stack pointer, the last that was written in this part.
    pub(super) other: Option<u64>,
}

impl Stack {
    pub(super) fn of(registers: &Registers) -> Self {
        let (slot, value, other) = registers.stack();
        Self { value, slot, other }
    }

    /// What it is, with the registers as they were at the start of the part.
    fn resolve(&self, start: &Registers) -> Option<u64> {
        let before = || start.get(self.slot).and_then(|contents| contents.number());
        self.value.or_else(before).or(self.other).or_else(|| start.stack().2)
    }
}

/// Execution went from an instruction to an address that is not behind it; what link register and stack pointer are now.
/// `None`: neither call nor return.
pub(super) fn flow(previous: &Previous, target: u64, lr: Option<u64>, sp: Stack) -> Option<Flow> {
    let known = previous.isa().zip(previous.opcode).map(|(isa, opcode)| facts(isa, previous.address, opcode));
    let is_linked = lr.is_some_and(|lr| lr & !1 == previous.next & !1);
    let is_call = is_linked || known.is_some_and(|facts| facts.link);
    let is_return = known.is_none_or(|facts| facts.kind == Kind::Indirect);
    let address = if is_call { previous.next } else { target };
    (is_call || is_return).then_some(Flow { address, is_call, sp })
}

/// Calls that have not returned.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    /// The return address and the stack pointer of each.
    pub(super) frames: Vec<(u64, Option<u64>)>,
    /// Further calls around them, which cannot be returned from.
    pub(super) below: u64,
}

impl Calls {
    /// How many.
    pub(super) fn depth(&self) -> u64 {
        self.below.saturating_add(self.frames.len() as u64)
    }

    /// A call or what may be a return; `start` are the registers at the start of the part of the log.
    pub(super) fn take(&mut self, flow: &Flow, start: &Registers) {
        let sp = flow.sp.resolve(start);
        if flow.is_call {
            if self.frames.len() < MOST_FRAMES {
                self.frames.push((flow.address, sp));
            }
            return;
        }
        let is_it = |(address, other): &(u64, Option<u64>)| {
            *address == flow.address && (sp.is_none() || other.is_none() || sp == *other)
        };
        let found = self.frames.iter().rev().take(REACH).position(is_it);
        if let Some(above) = found {
            self.frames.truncate(self.frames.len() - above - 1);
        }
    }
}
