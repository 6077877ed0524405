//! A block of code: its instructions, and how it ended.
//!
//! code of the plugin ─▶ **block**; its accesses and where execution continues ─▶ how far it came

use unspool_isa::{ControlFlow, Decoded, access, decode};
use unspool_model::{Branch, Instruction, Isa};
use unspool_wire::Access;

use crate::atomics::Atomics;

#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) instructions: Vec<Instruction>,
    pub(super) atomics: Atomics,
    /// The control flow of the last instruction; an indirect branch of T32 counts as conditional.
    pub(super) last: Decoded,
    /// The address after the last instruction.
    pub(super) end: u64,
}

/// End of an execution of a block.
pub(super) struct Ended {
    /// The number of complete instructions.
    pub(super) count: usize,
    /// The outcome of the last instruction, if that is a branch.
    pub(super) branch: Option<Branch>,
    /// Execution continues as the code does, without the kernel.
    pub(super) is_straight: bool,
}

impl Block {
    pub(super) fn new(isa: Isa, address: u64, bytes: &[&[u8]]) -> Self {
        let mut address = address;
        let mut instructions = Vec::with_capacity(bytes.len());
        for bytes in bytes {
            let length = bytes.len() as u8;
            instructions.push(Instruction {
                address,
                opcode: opcode(isa, bytes),
                length,
                isa,
                ..Instruction::default()
            });
            address = address.wrapping_add(bytes.len() as u64);
        }
        let last = instructions.last().map_or(Decoded::FALL_THROUGH, last);
        Self { atomics: Atomics::of(&instructions), instructions, last, end: address }
    }

    /// The end of the block, if execution continues at `next`; if it was left, instructions before `left` are complete.
    pub(super) fn ended(&self, left: Option<u16>, next: Option<u64>, accesses: &[Access]) -> Ended {
        use ControlFlow::{Breakpoint, Direct, ExceptionReturn, Halt, Indirect, SupervisorCall, Undefined};
        let whole = self.instructions.len();
        if let Some(completed) = left {
            // The first instruction that may fail and is not complete has failed; what follows it was not executed.
            let failed = self.failed_after(usize::from(completed), accesses);
            return Ended { count: failed, branch: None, is_straight: false };
        }
        let Some(last) = self.instructions.last() else {
            return Ended { count: 0, branch: None, is_straight: true };
        };
        let after = last.address.wrapping_add(u64::from(last.length));
        let falls_through = next.is_none_or(|next| next == after);
        let not_taken = Some(Branch { taken: false, target: None });
        let taken = |target| Some(Branch { taken: true, target });
        let (conditional, target) = (self.last.conditional, self.last.target_address());
        let (count, branch, is_straight) = match (self.last.flow, next) {
            (Breakpoint | Halt | Undefined, _) => (whole - 1, None, false),
            (SupervisorCall, _) => (whole, None, falls_through),
            (Direct, Some(next)) if conditional && Some(next) == target && next != after => {
                (whole, taken(Some(next)), true)
            }
            (Direct, Some(_)) if conditional && falls_through => (whole, not_taken, true),
            // A signal arrived right after it, and its outcome is unknown.
            (Direct, next) if conditional => (whole, None, next.is_none()),
            (Direct, next) => (whole, taken(target), next.is_none_or(|next| Some(next) == target)),
            (Indirect | ExceptionReturn, Some(_)) if conditional && falls_through => (whole, not_taken, true),
            (Indirect | ExceptionReturn, next) => (whole, taken(next), true),
            (_, Some(next)) if next != after => {
                let has_failed =
                    next == last.address || !accesses.iter().any(|access| usize::from(access.index) + 1 == whole);
                (whole - usize::from(has_failed && may_fail(last)), None, next == last.address)
            }
            _ => (whole, None, falls_through),
        };
        Ended { count, branch, is_straight }
    }

    /// The instruction that failed, if those before `completed` are complete.
    fn failed_after(&self, completed: usize, accesses: &[Access]) -> usize {
        let seen = accesses.iter().map(|access| usize::from(access.index)).max().unwrap_or(0).max(completed);
        let rest = self.instructions.iter().enumerate().skip(seen);
        rest.filter(|(_, instruction)| may_fail(instruction)).map(|(index, _)| index).next().unwrap_or(seen)
    }
}

fn opcode(isa: Isa, bytes: &[u8]) -> Option<u32> {
    match (isa, bytes) {
        (_, &[a, b]) => Some(u32::from_le_bytes([a, b, 0, 0])),
        // The first halfword is the high one.
        (Isa::T32, &[a, b, c, d]) => Some(u32::from_le_bytes([c, d, a, b])),
        (_, &[a, b, c, d]) => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Whether it may access memory.
fn may_fail(instruction: &Instruction) -> bool {
    let is_aarch32 = matches!(instruction.isa, Isa::A32 | Isa::T32);
    instruction.opcode.is_none_or(|opcode| is_aarch32 || access(instruction.isa, opcode).is_memory_access())
}

/// The control flow of the last instruction of a block.
fn last(instruction: &Instruction) -> Decoded {
    let Some(opcode) = instruction.opcode else { return Decoded::FALL_THROUGH };
    let decoded = decode(instruction.isa, instruction.address, opcode);
    // The conditions of an IT block are not in the opcode.
    let may_be_in_it = instruction.isa == Isa::T32 && decoded.flow.is_indirect();
    Decoded { conditional: decoded.conditional || may_be_in_it, ..decoded }
}
