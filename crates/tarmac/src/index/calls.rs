//! How deep in calls a core is.
//!
//! A branch that leaves the address behind it in the link register is a call; a branch that a register or memory decides
//! and that goes to the return address of a call, with its stack pointer, returns from it and from all within.

use unspool_isa::{Isa, decode};

use crate::record::{Instruction, InstructionSet};
use crate::state::{Pointer, Registers};

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

/// Execution went from an instruction to an address that is not behind it: a call, or what may be a return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    /// The address behind the instruction.
    next: u64,
    /// Where execution goes.
    target: u64,
    /// The instruction is a call; otherwise the link register tells.
    is_call: bool,
    /// It may return.
    is_return: bool,
    pointers: Pointers,
}

/// The link register and the stack pointer, as far as a part of a log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointers {
    pub(super) lr: Pointer,
    pub(super) sp: Pointer,
}

impl Pointers {
    #[inline]
    pub(super) fn of(registers: &Registers) -> Self {
        Self { lr: registers.link(), sp: registers.stack() }
    }

    /// What they are, with the registers as they were at the start of the part.
    pub(super) fn resolved(&self, start: &Registers) -> Self {
        Self { lr: Pointer::Is(self.lr.resolve(start, true)), sp: Pointer::Is(self.sp.resolve(start, false)) }
    }
}

/// Execution went from an instruction to an address that is not behind it; what link register and stack pointer are now.
/// `None`: neither call nor return, whatever was before.
pub(super) fn flow(previous: &Previous, target: u64, pointers: Pointers) -> Option<Flow> {
    let known = previous.isa().zip(previous.opcode).map(|(isa, opcode)| decode(isa, previous.address, opcode));
    let is_call = known.is_some_and(|facts| facts.link);
    let is_return = known.is_none_or(|facts| facts.flow.is_indirect());
    let flow = Flow { next: previous.next, target, is_call, is_return, pointers };
    let may_link = match pointers.lr {
        Pointer::Is(lr) => flow.is_linked(lr),
        Pointer::Depends { .. } => true,
    };
    (is_call || is_return || may_link).then_some(flow)
}

impl Flow {
    /// The link register has the address behind the instruction.
    fn is_linked(&self, lr: Option<u64>) -> bool {
        lr.is_some_and(|lr| lr & !1 == self.next & !1)
    }
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
        let sp = flow.pointers.sp.resolve(start, false);
        if flow.is_call || flow.is_linked(flow.pointers.lr.resolve(start, true)) {
            if self.frames.len() < MOST_FRAMES {
                self.frames.push((flow.next, sp));
            }
            return;
        }
        if !flow.is_return {
            return;
        }
        let is_it = |(address, other): &(u64, Option<u64>)| {
            *address == flow.target && (sp.is_none() || other.is_none() || sp == *other)
        };
        let found = self.frames.iter().rev().take(REACH).position(is_it);
        if let Some(above) = found {
            self.frames.truncate(self.frames.len() - above - 1);
        }
    }
}
