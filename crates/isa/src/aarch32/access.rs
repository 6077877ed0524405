//! Memory accesses of AArch32 in their plain forms.
//!
//! Single registers, pairs and lists of registers; everything else (exclusives, vectors, coprocessors, branch tables)
//! is [`Operation::Unknown`]. Specification: Arm DDI 0487, "A32 instruction set encoding" and "T32 instruction set encoding".

use crate::access::{Access, Operation};

const UNKNOWN: Access = Access::of(Operation::Unknown);

/// The memory access of an A32 word.
pub(crate) fn a32_access(word: u32) -> Access {
    let is_load = word >> 20 & 1 == 1;
    match word >> 25 & 0b111 {
        // The words without a condition: prefetches, saved states, vectors.
        _ if word >> 28 == 0b1111 => UNKNOWN,
        // LDR, STR, LDRB, STRB; with the low bit by register, where bit 4 makes it something else.
        0b010 => single(is_load, if word >> 22 & 1 == 1 { 1 } else { 4 }),
        0b011 if word >> 4 & 1 == 0 => single(is_load, if word >> 22 & 1 == 1 { 1 } else { 4 }),
        // LDM, STM
        0b100 => single(is_load, 4 * (word & 0xffff).count_ones()),
        0b000 => extra(word, is_load),
        _ => UNKNOWN,
    }
}

/// Halfwords, signed bytes and pairs, which are encoded among the multiplications.
fn extra(word: u32, is_load: bool) -> Access {
    match (word >> 4 & 0xf, is_load) {
        (0b1011, _) => single(is_load, 2),
        (0b1101, true) => single(true, 1),
        (0b1111, true) => single(true, 2),
        (0b1101, false) => single(true, 8),
        (0b1111, false) => single(false, 8),
        _ => UNKNOWN,
    }
}

/// The memory access of a T32 instruction of two bytes, or of four with its first halfword in the high half.
pub(crate) fn t32_access(opcode: u32, length: u8) -> Access {
    if length == 2 { narrow(opcode & 0xffff) } else { wide(opcode) }
}

fn narrow(half: u32) -> Access {
    let is_load = half >> 11 & 1 == 1;
    match half >> 12 {
        // LDR of a literal; what else begins so computes or branches.
        0b0100 if is_load => single(true, 4),
        0b0101 => by_register(half),
        0b0110 | 0b1001 => single(is_load, 4),
        0b0111 => single(is_load, 1),
        0b1000 => single(is_load, 2),
        // PUSH and POP; bit 8 adds LR or PC.
        0b1011 if half & 0xf600 == 0xb400 => single(is_load, 4 * (half & 0x1ff).count_ones()),
        0b1100 => single(is_load, 4 * (half & 0xff).count_ones()),
        _ => UNKNOWN,
    }
}

/// STR, STRH, STRB, LDRSB, LDR, LDRH, LDRB, LDRSH.
fn by_register(half: u32) -> Access {
    match half >> 9 & 0b111 {
        0 => single(false, 4),
        1 => single(false, 2),
        2 => single(false, 1),
        3 | 6 => single(true, 1),
        4 => single(true, 4),
        _ => single(true, 2),
    }
}

fn wide(word: u32) -> Access {
    let is_load = word >> 20 & 1 == 1;
    match word >> 24 {
        0xe8 | 0xe9 => pairs_and_lists(word, is_load),
        // The register PC makes prefetches of loads of bytes and halfwords.
        0xf8 if word >> 12 & 0xf != 0xf => sized(word, is_load),
        // What does not load here is of vectors.
        0xf9 if is_load && word >> 12 & 0xf != 0xf => sized(word, true),
        0xf8 if word & 0x0070_0000 == 0x0050_0000 => single(true, 4),
        _ => UNKNOWN,
    }
}

/// LDRB to LDR and STRB to STR.
fn sized(word: u32, is_load: bool) -> Access {
    match word >> 21 & 0b11 {
        0 => single(is_load, 1),
        1 => single(is_load, 2),
        2 if word >> 24 == 0xf8 => single(is_load, 4),
        _ => UNKNOWN,
    }
}

/// LDM, STM, LDRD, STRD.
fn pairs_and_lists(word: u32, is_load: bool) -> Access {
    let is_list = matches!(word >> 22 & 0b111, 0b010 | 0b100);
    let is_pair = word >> 22 & 1 == 1 && (word >> 24 & 1 == 1 || word >> 21 & 1 == 1);
    match () {
        // With the PC as base it clears registers.
        () if is_list && word >> 16 & 0xf == 0xf => UNKNOWN,
        () if is_list => single(is_load, 4 * (word & 0xffff).count_ones()),
        () if is_pair && word & 0xff7f_0000 != 0xe97f_0000 => single(is_load, 8),
        () => UNKNOWN,
    }
}

/// A load or store of this number of bytes; an empty register list is unpredictable.
fn single(is_load: bool, bytes: u32) -> Access {
    match bytes {
        0 => UNKNOWN,
        _ if is_load => Access::sized(Operation::Load, bytes as u16),
        _ => Access::sized(Operation::Store, bytes as u16),
    }
}
