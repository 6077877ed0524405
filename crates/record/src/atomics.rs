//! Atomic instructions: the emulator reports other accesses than they make.
//!
//! Exclusive stores (STXR, STREX, SC): the emulator compares first, and reports that as a read. Read-modify-writes (LDADD,
//! SWP, CAS, AMO): with several threads the emulator reports a write only, with the operand as its data.

use unspool_isa::{Operation, access};
use unspool_model::{Instruction, Isa};
use unspool_wire::Access;

/// The atomic instructions of a block, by index.
#[derive(Debug, Default)]
pub(crate) struct Atomics {
    exclusive: Vec<u16>,
    modifying: Vec<u16>,
    /// Modifying instructions that do not write an operand unchanged.
    hiding: Vec<u16>,
}

impl Atomics {
    pub(crate) fn of(instructions: &[Instruction]) -> Self {
        let indexes = |is: fn(&Instruction) -> bool| {
            (0..).zip(instructions).filter(|(_, one)| is(one)).map(|(index, _)| index).collect()
        };
        let hides = |one: &Instruction| is_modifying(one) && !is_swap(one);
        Self { exclusive: indexes(is_exclusive_store), modifying: indexes(is_modifying), hiding: indexes(hides) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.exclusive.is_empty() && self.modifying.is_empty()
    }

    /// Whether an access is the comparison of an exclusive store.
    pub(crate) fn is_comparison(&self, access: &Access) -> bool {
        !access.is_write && self.exclusive.contains(&access.index)
    }

    /// Whether an access is the write of an instruction that also reads.
    pub(crate) fn is_modification(&self, access: &Access) -> bool {
        access.is_write && self.modifying.contains(&access.index)
    }

    /// Whether the data of an access may differ from the memory contents.
    pub(crate) fn hides_data(&self, access: &Access) -> bool {
        access.is_write && self.hiding.contains(&access.index)
    }
}

/// STXR and similar, STREX, SC.
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

/// LDADD, SWP, CAS and similar, SWP of A32, AMO.
fn is_modifying(instruction: &Instruction) -> bool {
    let Some(opcode) = instruction.opcode else { return false };
    match instruction.isa {
        Isa::A64 => access(Isa::A64, opcode).operation == Operation::LoadStore,
        Isa::A32 => opcode & 0x0fb0_0ff0 == 0x0100_0090,
        Isa::T32 => false,
        Isa::Rv32 | Isa::Rv64 => opcode & 0x7f == 0x2f && opcode >> 28 != 1,
    }
}

/// SWP and similar, AMOSWAP: the operand is written unchanged.
fn is_swap(instruction: &Instruction) -> bool {
    let Some(opcode) = instruction.opcode else { return false };
    match instruction.isa {
        Isa::A64 => opcode & 0x3f20_fc00 == 0x3820_8000,
        Isa::A32 => true,
        Isa::T32 => false,
        Isa::Rv32 | Isa::Rv64 => opcode >> 27 == 1,
    }
}
