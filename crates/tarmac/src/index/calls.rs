//! Call depth of a core.
//!
//! A branch that sets the link register to the next address is a call. An indirect branch to the return address of a
//! call, with its stack pointer, returns from that call and all calls within it.

use unspool_isa::decode;

use crate::opcode::isa;
use crate::record::{Instruction, InstructionSet};
use crate::state::{Pointer, Registers};

/// Maximum number of calls that can be returned from; further ones are ignored.
const MAX_FRAMES: usize = 1 << 16;

/// Maximum number of frames that a return is matched against.
const REACH: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Previous {
    pub(super) address: u64,
    /// The address of the following instruction in memory.
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
}

/// A discontinuity in the flow of execution: a call or a possible return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    /// Address after the instruction.
    next: u64,
    /// Address where execution continues.
    target: u64,
    /// Whether the instruction is a call; otherwise the link register decides.
    is_call: bool,
    /// Whether it may be a return.
    is_return: bool,
    pointers: Pointers,
}

/// Link register and stack pointer, as far as a part of a log determines them.
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

    /// The values, given the registers at the start of the part.
    pub(super) fn resolved(&self, start: &Registers) -> Self {
        Self { lr: Pointer::Is(self.lr.resolve(start, true)), sp: Pointer::Is(self.sp.resolve(start, false)) }
    }
}

/// A discontinuity from `previous` to `target`, with the current link register and stack pointer. `None`: neither a
/// call nor a return in any case.
pub(super) fn flow(previous: &Previous, target: u64, pointers: Pointers) -> Option<Flow> {
    let known = previous.set.map(isa).zip(previous.opcode).map(|(isa, opcode)| decode(isa, previous.address, opcode));
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
    /// Whether the link register has the address after the instruction.
    fn is_linked(&self, lr: Option<u64>) -> bool {
        lr.is_some_and(|lr| lr & !1 == self.next & !1)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    /// Return address and stack pointer of each.
    pub(super) frames: Vec<(u64, Option<u64>)>,
    /// Number of outer calls that are not kept as frames.
    pub(super) below: u64,
}

impl Calls {
    pub(super) fn depth(&self) -> u64 {
        self.below.saturating_add(self.frames.len() as u64)
    }

    /// Applies a call or possible return. `start`: the registers at the start of the part.
    pub(super) fn apply(&mut self, flow: &Flow, start: &Registers) {
        let sp = flow.pointers.sp.resolve(start, false);
        if flow.is_call || flow.is_linked(flow.pointers.lr.resolve(start, true)) {
            if self.frames.len() < MAX_FRAMES {
                self.frames.push((flow.next, sp));
            }
            return;
        }
        if !flow.is_return {
            return;
        }
        let is_match = |(address, other): &(u64, Option<u64>)| {
            *address == flow.target && (sp.is_none() || other.is_none() || sp == *other)
        };
        let found = self.frames.iter().rev().take(REACH).position(is_match);
        if let Some(above) = found {
            self.frames.truncate(self.frames.len() - above - 1);
        }
    }
}
