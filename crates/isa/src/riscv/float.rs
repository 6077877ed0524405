//! Floating-point numbers: F, D, Q, Zfh, Zfa and Zfbfmin.
//!
//! The five highest bits select the instruction, the two below them the format: single, double, half or quad.
//! Specification: The RISC-V Instruction Set Manual, volume I, "F", "D", "Q", "Zfh", "Zfa" and "BF16".

use super::instruction::{FLOAT, funct3, rs2};
use crate::Isa;
use crate::bits::field;
use crate::class::{Class, Classes};

const SINGLE: u32 = 0;
const DOUBLE: u32 = 1;
const HALF: u32 = 2;
const QUAD: u32 = 3;

/// Whether there is a rounding mode of this number.
pub(super) fn rounds(word: u32) -> bool {
    !matches!(funct3(word), 5 | 6)
}

/// The classes of a word of this family; none if it is no instruction.
pub(super) fn classes(isa: Isa, word: u32) -> Classes {
    let (source, mode) = (rs2(word), funct3(word));
    let class = match field(word, 27, 5) {
        // fadd, fsub; fmul; fdiv
        0b00000 | 0b00001 if rounds(word) => Class::Arith,
        0b00010 if rounds(word) => Class::Multiply,
        0b00011 if rounds(word) => Class::Divide,
        // fsgnj, fsgnjn, fsgnjx; fmin, fmax, fminm, fmaxm
        0b00100 if mode <= 2 => Class::Arith,
        0b00101 if mode <= 3 => Class::Arith,
        0b01000 if rounds(word) => return between_formats(word),
        0b01011 if rounds(word) && source == 0 => Class::SquareRoot,
        // fle, flt, feq, fleq, fltq
        0b10100 if matches!(mode, 0..=2 | 4 | 5) => Class::Compare,
        0b11000 if to_integer(isa, word) => Class::Convert,
        0b11010 if rounds(word) && is_integer(isa, source) => Class::Convert,
        0b10110 | 0b11100 | 0b11110 => return between_registers(isa, word),
        _ => return Classes::NONE,
    };
    FLOAT.with(class)
}

fn format(word: u32) -> u32 {
    field(word, 25, 2)
}

/// fcvt from one format to another, fround and froundnx.
fn between_formats(word: u32) -> Classes {
    match (rs2(word), format(word)) {
        (4 | 5, _) => FLOAT.with(Class::Arith),
        (source @ 0..=3, to) if source != to => FLOAT.with(Class::Convert),
        // fcvt.s.bf16, fcvt.bf16.s
        (6, SINGLE) | (8, HALF) => FLOAT.with(Class::Convert),
        _ => Classes::NONE,
    }
}

/// w, wu, l, lu.
fn is_integer(isa: Isa, number: u32) -> bool {
    number <= 1 || number <= 3 && isa == Isa::Rv64
}

/// fcvt to integers, and fcvtmod.w.d, which always truncates.
fn to_integer(isa: Isa, word: u32) -> bool {
    let is_modular = rs2(word) == 8 && format(word) == DOUBLE && funct3(word) == 1;
    is_modular || rounds(word) && is_integer(isa, rs2(word))
}

/// Moves between the two kinds of registers, and instructions that share their encoding: fclass and fli.
fn between_registers(isa: Isa, word: u32) -> Classes {
    let is_64_bit = isa == Isa::Rv64;
    let (to, from) = (0b11110, 0b11100);
    let class = match (field(word, 27, 5), rs2(word), funct3(word), format(word)) {
        (operation, 0, 0, SINGLE | HALF) if operation == to || operation == from => Class::Move,
        (operation, 0, 0, DOUBLE) if is_64_bit && (operation == to || operation == from) => Class::Move,
        (0b11100, 0, 1, _) => Class::Classify,
        // fli
        (0b11110, 1, 0, _) => Class::Arith,
        // fmvh.x.d, fmvh.x.q; fmvp.d.x, fmvp.q.x
        (0b11100, 1, 0, DOUBLE) | (0b10110, _, 0, DOUBLE) if !is_64_bit => Class::Move,
        (0b11100, 1, 0, QUAD) | (0b10110, _, 0, QUAD) if is_64_bit => Class::Move,
        _ => return Classes::NONE,
    };
    FLOAT.with(class)
}
