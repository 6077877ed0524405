//! A block of code: what its instructions are, and how it ended.
//!
//! code of the plugin ─▶ **block**; its accesses and where execution continues ─▶ how far it came

use unspool_isa::{Kind, RiscvFlow, Xlen, facts, riscv_facts};
use unspool_model::{Branch, Instruction, Isa};
use unspool_wire::Access;

use super::Held;
use crate::atomics::Atomics;

/// A block of code.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) instructions: Vec<Instruction>,
    pub(super) atomics: Atomics,
    pub(super) last: Last,
    /// The address after the last instruction.
    pub(super) end: u64,
}

/// How a block continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Last {
    /// After its last instruction.
    #[default]
    Behind,
    /// At the target, or after its last instruction.
    Conditional(u64),
    /// At the target.
    Direct(u64),
    /// At any address; a conditional one may also continue after its last instruction.
    Indirect { is_conditional: bool },
    /// Where the kernel returns to.
    Call,
    /// With an exception that is not a system call.
    Trap,
}

/// How a block ended.
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
        let last = instructions.last().map_or(Last::Behind, last);
        Self { atomics: Atomics::of(&instructions), instructions, last, end: address }
    }

    /// How the block ended, if execution continues at `next`.
    pub(super) fn ended(&self, held: &Held, next: Option<u64>, accesses: &[Access]) -> Ended {
        let whole = self.instructions.len();
        if let Some(completed) = held.unusual.left {
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
        let (count, branch, is_straight) = match (self.last, next) {
            (Last::Behind, Some(next)) if next != after => {
                let has_failed =
                    next == last.address || !accesses.iter().any(|access| usize::from(access.index) + 1 == whole);
                (whole - usize::from(has_failed && may_fail(last)), None, next == last.address)
            }
            (Last::Trap, _) => (whole - 1, None, false),
            (Last::Behind | Last::Call, _) => (whole, None, falls_through),
            (Last::Conditional(target), Some(next)) if next == target && next != after => {
                (whole, taken(Some(next)), true)
            }
            (Last::Conditional(_), Some(_)) if falls_through => (whole, not_taken, true),
            // A signal arrived right after it, and its outcome is unknown.
            (Last::Conditional(_), next) => (whole, None, next.is_none()),
            (Last::Direct(target), next) => (whole, taken(Some(target)), next.is_none_or(|next| next == target)),
            (Last::Indirect { is_conditional: true }, Some(_)) if falls_through => (whole, not_taken, true),
            (Last::Indirect { .. }, next) => (whole, taken(next), true),
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

/// How a block continues that ends with this instruction.
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
        // The opcode does not show whether it is in an IT block.
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
