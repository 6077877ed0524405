//! The instructions of two bytes: C, which is Zca, Zcf and Zcd, and beside it Zcb and Zcmop.
//!
//! (RV32 or RV64, address, halfword) ─▶ **instruction**
//!
//! Each abbreviates an instruction of four bytes. The two lowest bits and the three highest select the family.
//! Specification: The RISC-V Instruction Set Manual, volume I, "C" and "Zc*".

use super::instruction::{
    ARITH, BREAKPOINT, FLOAT, Instruction, LOAD, NON_TEMPORAL, STORE, branch, jump, jump_by_register,
};
use crate::Isa;
use crate::access::{Access, Operation};
use crate::bits::{field, flag, signed};
use crate::class::{Class, Classes};

/// Decodes the halfword at `address`.
pub(super) fn decode(isa: Isa, address: u64, half: u16) -> Instruction {
    let half = u32::from(half);
    let instruction = match half & 0b11 {
        0b00 => registers_and_memory(isa, half),
        0b01 => numbers_and_branches(isa, address, half),
        _ => stack_and_registers(isa, half),
    };
    instruction.of_two_bytes()
}

fn registers_and_memory(isa: Isa, half: u32) -> Instruction {
    match (field(half, 13, 3), isa) {
        // c.addi4spn: a number of zero is not one, and a halfword of zeros is the illegal instruction.
        (0b000, _) => Instruction::computes(ARITH).when(field(half, 5, 8) != 0),
        (0b001, _) => float_load(8),
        (0b010, _) => load(4),
        (0b011, Isa::Rv64) => load(8),
        (0b011, _) => float_load(4),
        (0b100, _) => small(half),
        (0b101, _) => float_store(8),
        (0b110, _) => store(4),
        (_, Isa::Rv64) => store(8),
        (_, _) => float_store(4),
    }
}

/// The loads and stores of Zcb.
fn small(half: u32) -> Instruction {
    match (field(half, 10, 3), flag(half, 6)) {
        (0b000, _) => load(1),
        (0b001, _) => load(2),
        (0b010, _) => store(1),
        (0b011, false) => store(2),
        _ => Instruction::NONE,
    }
}

fn numbers_and_branches(isa: Isa, address: u64, half: u32) -> Instruction {
    let destination = field(half, 7, 5);
    match (field(half, 13, 3), isa) {
        // c.addi, c.nop, c.li
        (0b000 | 0b010, _) => Instruction::computes(ARITH),
        // c.addiw
        (0b001, Isa::Rv64) => Instruction::computes(ARITH).when(destination != 0),
        // c.jal
        (0b001, _) => jump(isa, address, jump_offset(half), 1),
        (0b011, _) => upper(half, destination),
        (0b100, _) => Instruction::computes(computation(isa, half)),
        // c.j
        (0b101, _) => jump(isa, address, jump_offset(half), 0),
        // c.beqz, c.bnez
        _ => branch(isa, address, branch_offset(half)),
    }
}

/// c.lui and c.addi16sp; where their number would be zero, c.mop.1 to c.mop.15.
fn upper(half: u32, destination: u32) -> Instruction {
    let has_number = half & 0x107c != 0;
    let is_operation = matches!(destination, 1 | 3 | 5 | 7 | 9 | 11 | 13 | 15) && !flag(half, 12);
    Instruction::computes(ARITH).when(has_number || is_operation)
}

/// Shifts, masks, and computations with two registers.
fn computation(isa: Isa, half: u32) -> Classes {
    let is_high = flag(half, 12);
    let is_64_bit = isa == Isa::Rv64;
    match (field(half, 10, 2), field(half, 5, 2), field(half, 2, 3)) {
        // c.srli, c.srai: a shift by 32 or more needs registers that wide
        (0b00 | 0b01, ..) if is_64_bit || !is_high => ARITH,
        // c.andi
        (0b10, ..) => ARITH,
        // c.sub, c.xor, c.or, c.and
        (0b11, ..) if !is_high => ARITH,
        // c.subw, c.addw
        (0b11, 0b00 | 0b01, _) if is_64_bit => ARITH,
        // c.mul
        (0b11, 0b10, _) => Classes::of(&[Class::Int, Class::Multiply]),
        // c.zext.b, c.sext.b, c.zext.h, c.sext.h, c.not
        (0b11, 0b11, 0b000..=0b011 | 0b101) => ARITH,
        // c.zext.w
        (0b11, 0b11, 0b100) if is_64_bit => ARITH,
        _ => Classes::NONE,
    }
}

fn stack_and_registers(isa: Isa, half: u32) -> Instruction {
    let destination = field(half, 7, 5);
    match (field(half, 13, 3), isa) {
        // c.slli
        (0b000, _) => Instruction::computes(ARITH).when(isa == Isa::Rv64 || !flag(half, 12)),
        (0b001, _) => float_load(8),
        (0b010, _) => load(4).when(destination != 0),
        (0b011, Isa::Rv64) => load(8).when(destination != 0),
        (0b011, _) => float_load(4),
        (0b100, _) => registers(half, destination),
        (0b101, _) => float_store(8),
        (0b110, _) => store(4),
        (_, Isa::Rv64) => store(8),
        (_, _) => float_store(4),
    }
}

/// c.jr, c.jalr, c.ebreak, c.mv, c.add, and the c.ntl that c.add is with the destination zero.
fn registers(half: u32, first: u32) -> Instruction {
    let second = field(half, 2, 5);
    match (flag(half, 12), first, second) {
        (false, 0, 0) => Instruction::NONE,
        (false, _, 0) => jump_by_register(first, 0),
        (true, 0, 0) => BREAKPOINT,
        (true, _, 0) => jump_by_register(first, 1),
        (false, ..) => Instruction::computes(ARITH.with(Class::Move)),
        (true, 0, 2..=5) => Instruction::computes(NON_TEMPORAL),
        (true, ..) => Instruction::computes(ARITH),
    }
}

const fn load(bytes: u16) -> Instruction {
    Instruction::accesses(Access::sized(Operation::Load, bytes), LOAD)
}

const fn store(bytes: u16) -> Instruction {
    Instruction::accesses(Access::sized(Operation::Store, bytes), STORE)
}

const fn float_load(bytes: u16) -> Instruction {
    Instruction::accesses(Access::sized(Operation::Load, bytes), FLOAT.with(Class::Load))
}

const fn float_store(bytes: u16) -> Instruction {
    Instruction::accesses(Access::sized(Operation::Store, bytes), FLOAT.with(Class::Store))
}

/// Gathers the bits of an offset: parts of (from bit, number of bits, to bit).
const fn gather(half: u32, parts: &[(u32, u32, u32)]) -> u32 {
    let (mut number, mut index) = (0, 0);
    while index < parts.len() {
        let (from, width, to) = parts[index];
        number |= field(half, from, width) << to;
        index += 1;
    }
    number
}

fn jump_offset(half: u32) -> i64 {
    const PARTS: [(u32, u32, u32); 8] =
        [(12, 1, 11), (11, 1, 4), (9, 2, 8), (8, 1, 10), (7, 1, 6), (6, 1, 7), (3, 3, 1), (2, 1, 5)];
    signed(gather(half, &PARTS), 12)
}

fn branch_offset(half: u32) -> i64 {
    const PARTS: [(u32, u32, u32); 5] = [(12, 1, 8), (10, 2, 3), (5, 2, 6), (3, 2, 1), (2, 1, 5)];
    signed(gather(half, &PARTS), 9)
}
