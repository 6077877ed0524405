//! Opcodes: what the rules ask of them, remembered for those seen lately.
//!
//! (instruction set, opcode) ─▶ **what it does** to the flow of control and to memory, in the same words for every set
//!
//! Of opcodes that are unknown here, or may mean something else in this trace, nothing is asked.

mod a64;
mod riscv;

use unspool_isa::Xlen;

use super::header::Header;
pub(super) use a64::is_foreign as is_foreign_to_a64;

/// Whose opcodes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    Riscv(Xlen),
    A64,
    /// One of which nothing is known here.
    Other,
}

/// What an instruction does to the flow of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// Nothing: execution goes on behind it.
    On,
    /// Goes to the target, or on behind itself.
    Branch,
    /// Goes to the target.
    Jump,
    /// Goes where the opcode does not tell.
    Indirect,
    /// Returns from a trap.
    TrapReturn,
    /// Calls those above, or the debugger.
    Call,
}

/// What an instruction does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// More than the opcode decides whether it writes: a reservation, a comparison.
    pub(super) is_conditional: bool,
    /// It may have accesses, and need not: it announces them, manages caches, or keeps a stack of its own.
    pub(super) is_open: bool,
    /// How many bytes it reads, and writes; `None`: the opcode does not tell, and there may be none.
    pub(super) bytes: Option<u16>,
}

impl Memory {
    const NONE: Self = Self { reads: false, writes: false, is_conditional: false, is_open: false, bytes: None };
}

/// What is known of an opcode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opcode {
    set: Set,
    /// The rules below can be asked of it.
    pub(super) is_known: bool,
    /// Something has to be looked at, even if no record belongs to it.
    pub(super) is_special: bool,
    /// How many bytes its record has.
    pub(super) length: u8,
    /// The record has another length than the opcode.
    pub(super) is_misfit: bool,
    /// Only RV64 has it, and this is RV32.
    pub(super) is_of_rv64: bool,
    /// It can never be an instruction.
    pub(super) is_illegal: bool,
    pub(super) course: Course,
    /// From a direct branch to its target.
    offset: Option<u64>,
    pub(super) memory: Memory,
    pub(super) is_vector: bool,
}

impl Opcode {
    fn new(opcode: u32, length: u8, header: &Header) -> Self {
        let found = match header.set() {
            Set::A64 => a64::opcode(opcode),
            _ => riscv::opcode(opcode, length, header),
        };
        let found = if found.is_known {
            found
        } else {
            Self { course: Course::On, memory: Memory::NONE, offset: None, ..found }
        };
        let is_odd = found.is_misfit || found.is_of_rv64 || found.is_illegal;
        let has_memory = found.memory.reads || found.memory.writes;
        Self { is_special: is_odd || found.course != Course::On || has_memory, length, ..found }
    }

    /// Nothing is known of it.
    const fn unknown(set: Set) -> Self {
        Self {
            set,
            is_known: false,
            is_special: false,
            length: 4,
            is_misfit: false,
            is_of_rv64: false,
            is_illegal: false,
            course: Course::On,
            offset: None,
            memory: Memory::NONE,
            is_vector: false,
        }
    }

    /// Where a direct branch leads.
    pub(super) fn target(&self, pc: u64) -> Option<u64> {
        self.offset.map(|offset| self.address(pc.wrapping_add(offset)))
    }

    /// The address behind the instruction.
    pub(super) fn behind(&self, pc: u64) -> u64 {
        self.address(pc.wrapping_add(u64::from(self.length)))
    }

    /// The part of an address that counts.
    pub(super) fn address(&self, address: u64) -> u64 {
        if self.set == Set::Riscv(Xlen::Rv32) { address & 0xffff_ffff } else { address }
    }

    /// It goes elsewhere than behind itself, whatever happens.
    pub(super) fn always_diverts(&self) -> bool {
        matches!(self.course, Course::Jump | Course::Indirect | Course::TrapReturn)
    }

    /// The opcode does something: it is not the one that stands for nothing at all.
    pub(super) fn is_no_nop(&self, opcode: u32) -> bool {
        match self.set {
            Set::Riscv(_) => !matches!(opcode, 0x13 | 0x1),
            Set::A64 => opcode != 0xd503_201f,
            Set::Other => false,
        }
    }
}

/// Enough for the loops of most programs.
const ENTRIES: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 10;

/// The opcodes seen lately.
#[derive(Debug)]
pub(super) struct Opcodes {
    entries: Vec<Option<(u64, Opcode)>>,
}

impl Opcodes {
    pub(super) fn new() -> Self {
        Self { entries: vec![None; ENTRIES] }
    }

    /// What is known of the opcode of a record with so many bytes.
    #[inline]
    pub(super) fn look_up(&mut self, opcode: u32, length: u8, header: &Header) -> Opcode {
        let set = match header.set() {
            Set::Other => 0,
            Set::Riscv(Xlen::Rv32) => 1,
            Set::Riscv(Xlen::Rv64) => 2,
            Set::A64 => 3,
        };
        let key = u64::from(opcode) | u64::from(length) << 32 | set << 40;
        let entry = &mut self.entries[(opcode.wrapping_mul(0x9e37_79b1) >> (32 - INDEX_BITS)) as usize];
        match entry {
            Some((known, opcode)) if *known == key => *opcode,
            _ => entry.insert((key, Opcode::new(opcode, length, header))).1,
        }
    }
}
