//! Zcmp and Zcmt: pushes and pops of several registers, moves of pairs, and jumps by a table.
//!
//! (extensions, RV32 or RV64, halfword) ─▶ **instruction**
//!
//! The table of Zcmt is fetched like instructions, and so is not an access.
//! Specification: The RISC-V Instruction Set Manual, volume I, "Zc*".

use super::extensions::RiscvExtensions;
use super::instruction::{ARITH, Instruction, LOAD, STORE, jump_by_register};
use crate::Isa;
use crate::access::{Access, Operation};
use crate::bits::field;
use crate::class::{Class, Classes};
use crate::control_flow::Decoded;

/// Decodes a halfword that the extensions claim.
pub(super) fn decode(extensions: RiscvExtensions, isa: Isa, half: u32) -> Instruction {
    let instruction = match (field(half, 8, 5), field(half, 5, 2)) {
        // cm.jt, cm.jalt: the first 32 entries of the table are jumps, and the others calls
        (0b00000..=0b00011, _) if extensions.zcmt => jump_by_register(0, u32::from(field(half, 2, 8) >= 32)),
        _ if !extensions.zcmp => Instruction::NONE,
        (0b11000, _) => stack(Operation::Store, isa, half, STORE),
        (0b11010, _) => stack(Operation::Load, isa, half, LOAD),
        // cm.popretz, cm.popret
        (0b11100 | 0b11110, _) => returning(stack(Operation::Load, isa, half, LOAD)),
        // cm.mvsa01: two registers that differ
        (0b01100..=0b01111, 0b01) => Instruction::computes(MOVE).when(field(half, 7, 3) != field(half, 2, 3)),
        // cm.mva01s
        (0b01100..=0b01111, 0b11) => Instruction::computes(MOVE),
        _ => Instruction::NONE,
    };
    instruction.of_two_bytes()
}

const MOVE: Classes = ARITH.with(Class::Move);

/// The registers of a list: `ra` alone, and with it one to ten saved registers, or all twelve.
const fn stack(operation: Operation, isa: Isa, half: u32, classes: Classes) -> Instruction {
    let count = match field(half, 4, 4) as u16 {
        15 => 13,
        list @ 4..=14 => list - 3,
        _ => return Instruction::NONE,
    };
    let width = if matches!(isa, Isa::Rv64) { 8 } else { 4 };
    Instruction::accesses(Access::sized(operation, count * width), classes)
}

/// The same, and then returns.
const fn returning(pop: Instruction) -> Instruction {
    let classes = pop.classes.with(Class::Branch).with(Class::Jalr);
    Instruction { decoded: Decoded::RETURN, classes, ..pop }.when(!pop.classes.is_empty())
}
