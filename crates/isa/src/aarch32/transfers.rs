//! Loads and stores of A32 and T32 in all their forms, as far as trace units distinguish them.
//!
//! Exclusive, acquire, release, floating-point and vector forms are included; preloads, barriers and moves to and from
//! coprocessors are not. Branches that load the PC are loads too. Specification: Arm DDI 0487, "A32 instruction set
//! encoding" and "T32 instruction set encoding", and DDI 0553 (Armv8-M).

use crate::access::Transfers;

/// What an A32 word transfers.
pub(crate) fn a32_transfers(word: u32) -> Transfers {
    let is_load = word >> 20 & 1 == 1;
    match word >> 25 & 0b111 {
        _ if word >> 28 == 0b1111 => a32_unconditional(word, is_load),
        0b010 | 0b100 => Transfers::one(is_load),
        0b011 if word >> 4 & 1 == 0 => Transfers::one(is_load),
        0b000 if word & 0x90 == 0x90 => a32_extra(word, is_load),
        0b110 => coprocessor(word, is_load),
        _ => Transfers::NONE,
    }
}

/// Halfwords, signed bytes, pairs and exclusives, in the encoding space of the multiplications.
fn a32_extra(word: u32, is_load: bool) -> Transfers {
    match (word >> 5 & 0b11, is_load) {
        // SWP and SWPB
        (0b00, false) if word & 0x01b0_0000 == 0x0100_0000 => Transfers { loads: true, stores: true },
        (0b00, _) if word & 0x0180_0000 == 0x0180_0000 => Transfers::one(is_load),
        (0b00, _) => Transfers::NONE,
        // LDRD
        (0b10, false) => Transfers::one(true),
        _ => Transfers::one(is_load),
    }
}

/// Advanced SIMD, SRS, RFE, LDC2 and STC2.
fn a32_unconditional(word: u32, is_load: bool) -> Transfers {
    match word >> 24 & 0xf {
        0b0100 if !is_load => Transfers::one(word >> 21 & 1 == 1),
        0b1000 | 0b1001 => Transfers::one(is_load),
        0b1100 | 0b1101 => coprocessor(word, is_load),
        _ => Transfers::NONE,
    }
}

/// Loads and stores of coprocessors and of floating-point registers; moves of two registers are in the same space.
fn coprocessor(word: u32, is_load: bool) -> Transfers {
    // MCRR, MRRC and VMOV of two registers; VSCCLRM, which clears registers.
    let is_move = matches!(word >> 21 & 0xf, 0b0000 | 0b0010);
    let clears = word & 0x0fbf_0e00 == 0x0c9f_0a00;
    if is_move || clears { Transfers::NONE } else { Transfers::one(is_load) }
}

/// What a T32 instruction transfers.
pub(crate) fn t32_transfers(opcode: u32, length: u8) -> Transfers {
    if length == 2 { narrow(opcode & 0xffff) } else { wide(opcode) }
}

fn narrow(half: u32) -> Transfers {
    let is_load = half >> 11 & 1 == 1;
    match half >> 12 {
        // LDR (literal)
        0b0100 if is_load => Transfers::one(true),
        // STR, STRH and STRB come first.
        0b0101 => Transfers::one(half >> 9 & 0b111 > 2),
        0b0110..=0b1001 | 0b1100 => Transfers::one(is_load),
        0b1011 if half & 0x0600 == 0x0400 => Transfers::one(is_load),
        _ => Transfers::NONE,
    }
}

fn wide(word: u32) -> Transfers {
    let is_load = word >> 20 & 1 == 1;
    match word >> 24 {
        0xe8 | 0xe9 => lists_and_exclusives(word, is_load),
        0xf8 | 0xf9 => single(word, is_load),
        0xec | 0xed => coprocessor(word, is_load),
        // The other coprocessor numbers are Advanced SIMD without a transfer.
        0xfc | 0xfd if word >> 9 & 0b111 == 0b111 => coprocessor(word, is_load),
        _ => Transfers::NONE,
    }
}

fn lists_and_exclusives(word: u32, is_load: bool) -> Transfers {
    let is_list = word >> 22 & 1 == 0;
    match () {
        // CLRM; SG; TT and its kin
        () if is_list && word & 0x009f_0000 == 0x009f_0000 => Transfers::NONE,
        () if word == 0xe97f_e97f || word & 0xfff0_f03f == 0xe840_f000 => Transfers::NONE,
        () => Transfers::one(is_load),
    }
}

/// One register; preloads have the PC as destination of a byte or halfword.
fn single(word: u32, is_load: bool) -> Transfers {
    let is_vector = word >> 24 == 0xf9 && !is_load;
    let is_word = word >> 21 & 0b11 == 0b10;
    match () {
        () if is_vector => Transfers::one(word >> 21 & 1 == 1),
        () if is_load && word >> 12 & 0xf == 0xf && !is_word => Transfers::NONE,
        () => Transfers::one(is_load),
    }
}
