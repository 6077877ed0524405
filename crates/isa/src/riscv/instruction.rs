//! A decoded RISC-V instruction, and the constructors, classes and fields that the decoders of all formats share.

use crate::Isa;
use crate::access::{Access, Operation};
use crate::bits::field;
use crate::class::{Class, Classes};
use crate::control_flow::{ControlFlow, Decoded};

/// Everything that an opcode encodes, destination registers aside.
#[derive(Clone, Copy)]
pub(crate) struct Instruction {
    /// Control flow and length.
    pub(crate) decoded: Decoded,
    pub(crate) access: Access,
    /// The classes; empty if it is not an instruction.
    pub(crate) classes: Classes,
}

impl Instruction {
    /// Not an instruction.
    pub(super) const NONE: Self = Self {
        decoded: Decoded::of(ControlFlow::Unknown),
        access: Access::of(Operation::Unknown),
        classes: Classes::NONE,
    };

    /// An instruction of these classes; without any it is none.
    const fn new(decoded: Decoded, access: Access, classes: Classes) -> Self {
        if classes.is_empty() { Self::NONE } else { Self { decoded, access, classes } }
    }

    /// Neither branches nor accesses memory.
    pub(super) const fn computes(classes: Classes) -> Self {
        Self::new(Decoded::FALL_THROUGH, Access::NOTHING, classes)
    }

    /// Accesses memory.
    pub(super) const fn accesses(access: Access, classes: Classes) -> Self {
        Self::new(Decoded::FALL_THROUGH, access, classes)
    }

    /// Changes control flow.
    pub(super) const fn diverts(decoded: Decoded, classes: Classes) -> Self {
        Self::new(decoded, Access::NOTHING, classes)
    }

    pub(super) const fn of_two_bytes(self) -> Self {
        Self { decoded: Decoded { length: 2, ..self.decoded }, ..self }
    }

    /// The same if the encoding is allocated.
    pub(super) const fn when(self, is_instruction: bool) -> Self {
        if is_instruction { self } else { Self::NONE }
    }
}

/// Branches on a condition, by `offset`.
pub(super) const fn branch(isa: Isa, address: u64, offset: i64) -> Instruction {
    let classes = Classes::of(&[Class::Branch, Class::Conditional]);
    Instruction::diverts(direct(isa, address, offset).conditionally(), classes)
}

/// Jumps by `offset`, and leaves the return address in the register `link`.
pub(super) const fn jump(isa: Isa, address: u64, offset: i64, link: u32) -> Instruction {
    let decoded = Decoded { link: is_link(link), ..direct(isa, address, offset) };
    Instruction::diverts(decoded, Classes::of(&[Class::Branch, Class::Jal]))
}

/// Jumps to the address in the register `base`, and leaves the return address in the register `link`.
///
/// If both are link registers, it is a call if they are the same, otherwise a return and a call, as in coroutines.
pub(super) const fn jump_by_register(base: u32, link: u32) -> Instruction {
    let decoded = Decoded { link: is_link(link), ret: is_link(base) && base != link, ..Decoded::INDIRECT };
    Instruction::diverts(decoded, Classes::of(&[Class::Branch, Class::Jalr]))
}

const fn direct(isa: Isa, address: u64, offset: i64) -> Decoded {
    Decoded::direct(isa, address.wrapping_add_signed(offset) & isa.address_mask())
}

pub(super) const BREAKPOINT: Instruction =
    Instruction::diverts(Decoded::of(ControlFlow::Breakpoint), INT.with(Class::System));

/// The registers that return addresses are kept in.
const fn is_link(register: u32) -> bool {
    matches!(register, 1 | 5)
}

/// Works on integers, without a further class.
pub(super) const INT: Classes = Classes::of(&[Class::Int]);
pub(super) const ARITH: Classes = INT.with(Class::Arith);
pub(super) const LOAD: Classes = INT.with(Class::Load);
pub(super) const STORE: Classes = INT.with(Class::Store);
/// Works on floating-point numbers, without a further class.
pub(super) const FLOAT: Classes = Classes::of(&[Class::Float]);
/// `ntl.p1`, `ntl.pall`, `ntl.s1` and `ntl.all`.
pub(super) const NON_TEMPORAL: Classes = Classes::of(&[Class::NonTemporal, Class::Hint]);

/// The three bits that distinguish the instructions of a major opcode.
pub(super) const fn funct3(word: u32) -> u32 {
    field(word, 12, 3)
}

/// Seven more bits that distinguish the instructions of a major opcode.
pub(super) const fn funct7(word: u32) -> u32 {
    field(word, 25, 7)
}

/// The field of the first source register.
pub(super) const fn rs1(word: u32) -> u32 {
    field(word, 15, 5)
}

/// The field of the second source register: `rs2`, and `vs2` of vector instructions.
pub(super) const fn rs2(word: u32) -> u32 {
    field(word, 20, 5)
}

/// The field of the destination register.
pub(super) const fn rd(word: u32) -> u32 {
    field(word, 7, 5)
}
