//! Opcodes: what the rules ask of them, in a cache.
//!
//! (instruction set, opcode) ─▶ **what it does** to control flow and to memory, in the same words for every set
//!
//! Of opcodes that are unknown here, or may mean something else in this trace, nothing is asked.

mod a64;
mod riscv;

use unspool_isa::{ControlFlow, Isa, OpcodeCache, OpcodeKey};

use super::header::Header;
pub(super) use a64::is_foreign as is_foreign_to_a64;

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
    /// The instruction set; `None`: one of which nothing is known here.
    set: Option<Isa>,
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
    pub(super) flow: ControlFlow,
    /// A direct branch that need not be taken.
    pub(super) conditional: bool,
    /// From a direct branch to its target.
    offset: Option<u64>,
    pub(super) memory: Memory,
    pub(super) is_vector: bool,
}

impl Opcode {
    fn new(opcode: u32, length: u8, header: &Header) -> Self {
        let found = match header.set() {
            Some(Isa::A64) => a64::opcode(opcode),
            _ => riscv::opcode(opcode, length, header),
        };
        let found = if found.is_known {
            found
        } else {
            Self { flow: ControlFlow::FallThrough, conditional: false, memory: Memory::NONE, offset: None, ..found }
        };
        let is_odd = found.is_misfit || found.is_of_rv64 || found.is_illegal;
        let has_memory = found.memory.reads || found.memory.writes;
        Self { is_special: is_odd || found.flow.is_branch() || found.is_call() || has_memory, length, ..found }
    }

    /// Nothing is known of it.
    const fn unknown(set: Option<Isa>) -> Self {
        Self {
            set,
            is_known: false,
            is_special: false,
            length: 4,
            is_misfit: false,
            is_of_rv64: false,
            is_illegal: false,
            flow: ControlFlow::FallThrough,
            conditional: false,
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
        self.set.map_or(address, |isa| address & isa.address_mask())
    }

    /// It goes elsewhere than behind itself, whatever happens.
    pub(super) fn always_diverts(&self) -> bool {
        self.flow.is_branch() && !self.conditional
    }

    /// It calls a higher level, or the debugger.
    pub(super) fn is_call(&self) -> bool {
        self.flow.is_exception() && self.flow != ControlFlow::Undefined
    }

    /// The opcode does something: it is not the one that stands for nothing at all.
    pub(super) fn is_no_nop(&self, opcode: u32) -> bool {
        match self.set {
            Some(Isa::Rv32 | Isa::Rv64) => !matches!(opcode, 0x13 | 0x1),
            Some(Isa::A64) => opcode != 0xd503_201f,
            _ => false,
        }
    }
}

/// What an entry in the cache depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Key {
    opcode: u32,
    length: u8,
    set: Option<Isa>,
}

impl OpcodeKey for Key {
    #[inline]
    fn hash(&self) -> u32 {
        self.opcode.hash()
    }
}

/// The opcodes seen lately.
#[derive(Debug)]
pub(super) struct Opcodes(OpcodeCache<Key, Opcode>);

impl Opcodes {
    /// Enough for the loops of most programs.
    pub(super) fn new() -> Self {
        Self(OpcodeCache::new(10))
    }

    /// What is known of the opcode of a record of `length` bytes.
    #[inline]
    pub(super) fn look_up(&mut self, opcode: u32, length: u8, header: &Header) -> Opcode {
        let key = Key { opcode, length, set: header.set() };
        *self.0.get_or_insert_with(key, || Opcode::new(opcode, length, header))
    }
}
