//! A block of code: what its instructions are, and how it ended.
//!
//! code of the plugin ─▶ **block**, and with where execution goes on and what it accessed ─▶ how far it came

use unspool_isa::{ControlFlow, Decoded, Operation, access, decode};
use unspool_model::{Branch, Instruction, Isa};

use super::super::stream::Touch;
use super::Held;

/// A block of code.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) instructions: Vec<Instruction>,
    /// Those that store if they have memory for themselves. The emulator compares there first, and tells that as a read.
    pub(super) exclusive: Vec<u16>,
    /// Those that read and write as one. With several threads the emulator tells that as a write.
    pub(super) modifying: Vec<u16>,
    /// The control flow of its last instruction; in T32 an indirect branch counts as conditional.
    pub(super) last: Decoded,
    /// The address behind it.
    pub(super) behind: u64,
}

/// How a block ended.
pub(super) struct Ended {
    /// So many instructions are complete.
    pub(super) count: usize,
    /// What became of the last, if that is a branch.
    pub(super) branch: Option<Branch>,
    /// Execution goes on as the program has it.
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
        let those = |is: fn(&Instruction) -> bool| {
            (0..).zip(&instructions).filter(|(_, one)| is(one)).map(|(index, _)| index).collect()
        };
        let (exclusive, modifying) = (those(is_exclusive_store), those(is_modifying));
        Self { instructions, exclusive, modifying, last, behind: address }
    }

    /// Does the emulator tell what such an instruction has as an operand, and not what it writes to memory? With several
    /// threads it does so, unless that is the same.
    pub(super) fn hides_data(&self, index: u16) -> bool {
        self.modifying.contains(&index) && !self.instructions.get(usize::from(index)).is_some_and(is_swap)
    }

    /// How it ended, if execution goes on at `next`.
    pub(super) fn ended(&self, held: &Held, next: Option<u64>, touches: &[Touch]) -> Ended {
        use ControlFlow::{Breakpoint, Direct, ExceptionReturn, Halt, Indirect, SupervisorCall, Undefined};
        let whole = self.instructions.len();
        if let Some(mark) = held.special.left {
            // The first that may have failed is the one that was not marked as complete; what follows was not executed.
            let failed = self.failed_behind(usize::from(mark), touches);
            return Ended { count: failed, branch: None, is_straight: false };
        }
        let Some(last) = self.instructions.last() else {
            return Ended { count: 0, branch: None, is_straight: true };
        };
        let behind = last.address.wrapping_add(u64::from(last.length));
        let goes_behind = next.is_none_or(|next| next == behind);
        let not_taken = Some(Branch { taken: false, target: None });
        let taken = |target| Some(Branch { taken: true, target });
        let (conditional, target) = (self.last.conditional, self.last.target_address());
        let (count, branch, is_straight) = match (self.last.flow, next) {
            (Breakpoint | Halt | Undefined, _) => (whole - 1, None, false),
            (SupervisorCall, _) => (whole, None, goes_behind),
            (Direct, Some(next)) if conditional && Some(next) == target && next != behind => {
                (whole, taken(Some(next)), true)
            }
            (Direct, Some(_)) if conditional && goes_behind => (whole, not_taken, true),
            // A signal came right behind it, and nobody knows which way it would have gone.
            (Direct, next) if conditional => (whole, None, next.is_none()),
            (Direct, next) => (whole, taken(target), next.is_none_or(|next| Some(next) == target)),
            (Indirect | ExceptionReturn, Some(_)) if conditional && goes_behind => (whole, not_taken, true),
            (Indirect | ExceptionReturn, next) => (whole, taken(next), true),
            (_, Some(next)) if next != behind => {
                let has_failed =
                    next == last.address || !touches.iter().any(|touch| usize::from(touch.index) + 1 == whole);
                (whole - usize::from(has_failed && may_fail(last)), None, next == last.address)
            }
            _ => (whole, None, goes_behind),
        };
        Ended { count, branch, is_straight }
    }

    /// The instruction that was not complete, if those before `mark` were.
    fn failed_behind(&self, mark: usize, touches: &[Touch]) -> usize {
        let seen = touches.iter().map(|touch| usize::from(touch.index)).max().unwrap_or(0).max(mark);
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

/// Does it store if it has memory for itself: STXR and its like, STREX, SC?
fn is_exclusive_store(instruction: &Instruction) -> bool {
    let Some(opcode) = instruction.opcode else { return false };
    let is = |mask: u32, bits: u32| opcode & mask == bits;
    match instruction.isa {
        // Where a pair would have 32 bits less, it is a CASP.
        Isa::A64 => is(0x3fe0_0000, 0x0800_0000) || is(0xbfe0_0000, 0x8820_0000),
        Isa::A32 => is(0x0f90_0cf0, 0x0180_0c90),
        Isa::T32 => is(0xfff0_0000, 0xe840_0000) || is(0xfff0_0040, 0xe8c0_0040),
        Isa::Rv32 | Isa::Rv64 => is(0xf800_007f, 0x1800_002f),
    }
}

/// Does it read and write as one: LDADD, SWP, CAS and their like, SWP of A32, AMO?
fn is_modifying(instruction: &Instruction) -> bool {
    let Some(opcode) = instruction.opcode else { return false };
    match instruction.isa {
        Isa::A64 => access(Isa::A64, opcode).operation == Operation::LoadStore,
        Isa::A32 => opcode & 0x0fb0_0ff0 == 0x0100_0090,
        Isa::T32 => false,
        Isa::Rv32 | Isa::Rv64 => opcode & 0x7f == 0x2f && opcode >> 28 != 1,
    }
}

/// Does it write an operand as it is: SWP and its like, AMOSWAP?
fn is_swap(instruction: &Instruction) -> bool {
    let Some(opcode) = instruction.opcode else { return false };
    match instruction.isa {
        Isa::A64 => is_a64_swap(opcode),
        Isa::A32 => true,
        Isa::T32 => false,
        Isa::Rv32 | Isa::Rv64 => opcode >> 27 == 1,
    }
}

/// SWP and its like.
pub(in super::super) fn is_a64_swap(opcode: u32) -> bool {
    opcode & 0x3f20_fc00 == 0x3820_8000
}

/// May it access memory?
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
