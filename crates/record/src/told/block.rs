//! A block of code: what its instructions are, and how it ended.
//!
//! code of the plugin ─▶ **block**, and with where execution goes on and what it accessed ─▶ how far it came

use unspool_isa::{Kind, Operation, RiscvFlow, Xlen, facts, riscv_facts};
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
    pub(super) last: Last,
    /// The address behind it.
    pub(super) behind: u64,
}

/// How a block goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Last {
    /// Behind its last instruction.
    #[default]
    Behind,
    /// There, or behind its last instruction.
    Conditional(u64),
    /// There.
    Direct(u64),
    /// Anywhere; a condition may keep it from that.
    Indirect { is_conditional: bool },
    /// Where the kernel wants.
    Call,
    /// It raises an exception that is no call.
    Trap,
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
        let last = instructions.last().map_or(Last::Behind, last);
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
        let (count, branch, is_straight) = match (self.last, next) {
            (Last::Behind, Some(next)) if next != behind => {
                let has_failed =
                    next == last.address || !touches.iter().any(|touch| usize::from(touch.index) + 1 == whole);
                (whole - usize::from(has_failed && may_fail(last)), None, next == last.address)
            }
            (Last::Trap, _) => (whole - 1, None, false),
            (Last::Behind | Last::Call, _) => (whole, None, goes_behind),
            (Last::Conditional(target), Some(next)) if next == target && next != behind => {
                (whole, taken(Some(next)), true)
            }
            (Last::Conditional(_), Some(_)) if goes_behind => (whole, not_taken, true),
            // A signal came right behind it, and nobody knows which way it would have gone.
            (Last::Conditional(_), next) => (whole, None, next.is_none()),
            (Last::Direct(target), next) => (whole, taken(Some(target)), next.is_none_or(|next| next == target)),
            (Last::Indirect { is_conditional: true }, Some(_)) if goes_behind => (whole, not_taken, true),
            (Last::Indirect { .. }, next) => (whole, taken(next), true),
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
        Isa::A64 => unspool_isa::a64_access(opcode).operation == Operation::LoadStore,
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
    match (instruction.isa, instruction.opcode) {
        (Isa::A64, Some(opcode)) => unspool_isa::a64_access(opcode).operation.is_memory_access(),
        (Isa::Rv32 | Isa::Rv64, Some(opcode)) => {
            let facts = riscv_facts(xlen(instruction.isa), instruction.address, opcode);
            facts.access.reads() || facts.access.writes()
        }
        _ => true,
    }
}

fn xlen(isa: Isa) -> Xlen {
    if isa == Isa::Rv32 { Xlen::Rv32 } else { Xlen::Rv64 }
}

/// How a block goes on that ends with this instruction.
fn last(instruction: &Instruction) -> Last {
    let (address, Some(opcode)) = (instruction.address, instruction.opcode) else { return Last::Behind };
    let set = match instruction.isa {
        Isa::A64 => unspool_isa::Isa::A64,
        Isa::A32 => unspool_isa::Isa::A32,
        Isa::T32 => unspool_isa::Isa::T32,
        Isa::Rv32 | Isa::Rv64 => return last_of_riscv(instruction, opcode),
    };
    let found = facts(set, address, opcode);
    match (found.kind, found.target) {
        (Kind::Direct, Some(target)) if found.conditional => Last::Conditional(target.address),
        (Kind::Direct, Some(target)) => Last::Direct(target.address),
        // What an IT block makes conditional does not show in the opcode.
        (Kind::Indirect, _) => Last::Indirect { is_conditional: found.conditional || set == unspool_isa::Isa::T32 },
        _ => last_of_arm(set, opcode),
    }
}

fn last_of_arm(set: unspool_isa::Isa, opcode: u32) -> Last {
    use unspool_isa::Operation::{Breakpoint, Halt, SupervisorCall, Undefined};
    match set {
        unspool_isa::Isa::A64 => match unspool_isa::a64_access(opcode).operation {
            SupervisorCall => Last::Call,
            Breakpoint | Halt | Undefined => Last::Trap,
            _ => Last::Behind,
        },
        unspool_isa::Isa::A32 if opcode >> 24 & 0xf == 0xf => Last::Call,
        unspool_isa::Isa::T32 if opcode >> 8 == 0xdf => Last::Call,
        _ => Last::Behind,
    }
}

fn last_of_riscv(instruction: &Instruction, opcode: u32) -> Last {
    let found = riscv_facts(xlen(instruction.isa), instruction.address, opcode);
    match (found.flow, found.target) {
        (RiscvFlow::Branch, Some(target)) => Last::Conditional(target),
        (RiscvFlow::Jump, Some(target)) => Last::Direct(target),
        (RiscvFlow::IndirectJump | RiscvFlow::TrapReturn, _) => Last::Indirect { is_conditional: false },
        (RiscvFlow::Ecall, _) => Last::Call,
        (RiscvFlow::Ebreak, _) => Last::Trap,
        _ => Last::Behind,
    }
}
