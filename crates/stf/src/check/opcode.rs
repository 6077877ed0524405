//! Properties of opcodes that rules need, in a cache.
//!
//! (instruction set, opcode) ─▶ **effects** on control flow and memory, in the same terms for every instruction set
//!
//! Opcodes that are unknown, or may have another meaning in this trace, are not checked.

mod a64;
mod riscv;

use unspool_isa::{ControlFlow, Isa, OpcodeCache, OpcodeKey};

use super::header::Header;

/// Effect of an instruction on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Memory {
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// Whether it writes depends on more than the opcode: a reservation, a comparison.
    pub(super) is_conditional: bool,
    /// Accesses are optional: it is a prefetch, manages caches, or keeps a stack of its own.
    pub(super) is_optional: bool,
    /// Number of bytes that it reads and writes; `None`: the opcode does not determine it, and it may be zero.
    pub(super) bytes: Option<u16>,
}

/// Properties of an opcode.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Opcode {
    /// The instruction set; `None`: unknown here.
    set: Option<Isa>,
    /// The rules apply to it.
    pub(super) is_known: bool,
    /// It needs a check even if its group has no other record.
    pub(super) is_special: bool,
    /// Length of its record.
    pub(super) length: u8,
    /// The length of the record contradicts the opcode.
    pub(super) is_misfit: bool,
    /// It exists only in RV64, but the mode is RV32.
    pub(super) is_of_rv64: bool,
    /// It is never a valid instruction.
    pub(super) is_illegal: bool,
    pub(super) flow: ControlFlow,
    /// A direct branch that need not be taken.
    pub(super) conditional: bool,
    /// Offset from a direct branch to its target.
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
            Self {
                flow: ControlFlow::FallThrough,
                conditional: false,
                memory: Memory::default(),
                offset: None,
                ..found
            }
        };
        let is_odd = found.is_misfit || found.is_of_rv64 || found.is_illegal;
        let has_memory = found.memory.reads || found.memory.writes;
        Self { is_special: is_odd || found.flow.is_branch() || found.is_call() || has_memory, length, ..found }
    }

    /// Properties of an unknown opcode.
    fn unknown(set: Option<Isa>) -> Self {
        Self { set, length: 4, flow: ControlFlow::FallThrough, ..Self::default() }
    }

    /// The target of a direct branch.
    pub(super) fn target(&self, pc: u64) -> Option<u64> {
        self.offset.map(|offset| self.address(pc.wrapping_add(offset)))
    }

    pub(super) fn next_address(&self, pc: u64) -> u64 {
        self.address(pc.wrapping_add(u64::from(self.length)))
    }

    /// The significant part of an address.
    pub(super) fn address(&self, address: u64) -> u64 {
        self.set.map_or(address, |isa| address & isa.address_mask())
    }

    pub(super) fn always_diverts(&self) -> bool {
        self.flow.is_branch() && !self.conditional
    }

    /// Does it call a higher level or the debugger?
    pub(super) fn is_call(&self) -> bool {
        self.flow.is_exception() && self.flow != ControlFlow::Undefined
    }

    /// Is it something other than the canonical nop?
    pub(super) fn is_no_nop(&self, opcode: u32) -> bool {
        match self.set {
            Some(Isa::Rv32 | Isa::Rv64) => !matches!(opcode, 0x13 | 0x1),
            Some(Isa::A64) => opcode != 0xd503_201f,
            _ => false,
        }
    }
}

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

/// Cache of recent opcodes.
#[derive(Debug)]
pub(super) struct Opcodes(OpcodeCache<Key, Opcode>);

impl Default for Opcodes {
    /// A cache that suffices for the loops of most programs.
    fn default() -> Self {
        Self(OpcodeCache::new(10))
    }
}

impl Opcodes {
    /// Properties of the opcode of a record of `length` bytes.
    #[inline]
    pub(super) fn lookup(&mut self, opcode: u32, length: u8, header: &Header) -> Opcode {
        let key = Key { opcode, length, set: header.set() };
        *self.0.get_or_insert_with(key, || Opcode::new(opcode, length, header))
    }
}
