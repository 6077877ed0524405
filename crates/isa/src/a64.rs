//! A64: which of its words branch, synchronise or wait.
//!
//! (address, word) ─▶ **facts**
//!
//! The first byte selects the family, a table or a shape the instruction. Knows the architecture up to Armv9.6.
//! Specification: Arm DDI 0487, "Branches, Exception Generating and System instructions".

use crate::facts::{
    CALL, EXCEPTION_RETURN, Facts, INDIRECT, ISB, Isa, Kind, OTHER, RETURN, Row, WFX, direct, look_up, row, signed,
};

/// Is this word certainly of [`Kind::Other`]? All that is not is in one group of the encoding.
#[inline]
pub fn is_ordinary_a64(word: u32) -> bool {
    word >> 26 & 0b111 != 0b101
}

/// What the word does at `address`.
pub(crate) fn facts(address: u64, word: u32) -> Facts {
    match word >> 24 {
        0x14..=0x17 => branch(address, word, 0, 26),
        0x94..=0x97 => Facts { link: true, ..branch(address, word, 0, 26) },
        0x34 | 0x35 | 0xb4 | 0xb5 => conditional(branch(address, word, 5, 19)),
        0x36 | 0x37 | 0xb6 | 0xb7 => conditional(branch(address, word, 5, 14)),
        0x54 => on_condition(address, word),
        0x55 => look_up(&RETURNS_BY_LABEL, word),
        0x74 | 0xf4 => compare_registers(address, word),
        0x75 | 0xf5 => compare_immediate(address, word),
        0xd5 => look_up(&SYSTEM, word),
        0xd6 | 0xd7 => look_up(&BY_REGISTER, word),
        _ => OTHER,
    }
}

/// Branches whose target is in a register.
const BY_REGISTER: [Row; 11] = [
    // RET
    row(0xffff_fc1f, 0xd65f_0000, RETURN),
    // BLR
    row(0xffff_fc1f, 0xd63f_0000, CALL),
    // BR
    row(0xffff_fc1f, 0xd61f_0000, INDIRECT),
    // RETAA, RETAB (the low register is 31), RETAASPPCR, RETABSPPCR
    row(0xffff_fbe0, 0xd65f_0be0, RETURN),
    // BLRAA, BLRAB
    row(0xffff_f800, 0xd73f_0800, CALL),
    // BRAA, BRAB
    row(0xffff_f800, 0xd71f_0800, INDIRECT),
    // BLRAAZ, BLRABZ
    row(0xffff_f81f, 0xd63f_081f, CALL),
    // BRAAZ, BRABZ
    row(0xffff_f81f, 0xd61f_081f, INDIRECT),
    // ERET
    row(0xffff_ffff, 0xd69f_03e0, EXCEPTION_RETURN),
    // ERETAA, ERETAB
    row(0xffff_fbff, 0xd69f_0bff, EXCEPTION_RETURN),
    // DRPS
    row(0xffff_ffff, 0xd6bf_03e0, EXCEPTION_RETURN),
];

/// Returns that name the place of the signing instruction. The label is not where they go: that is in the link register.
const RETURNS_BY_LABEL: [Row; 1] = [
    // RETAASPPC, RETABSPPC
    row(0xffc0_001f, 0x5500_001f, RETURN),
];

/// Barriers, hints and system instructions.
const SYSTEM: [Row; 4] = [
    // ISB
    row(0xffff_f0ff, 0xd503_30df, ISB),
    // WFE, WFI
    row(0xffff_ffdf, 0xd503_205f, WFX),
    // WFET, WFIT
    row(0xffff_ffc0, 0xd503_1000, WFX),
    // TSTART
    row(0xffff_ffe0, 0xd523_3060, Facts { kind: Kind::TransactionStart, ..OTHER }),
];

/// B.cond and BC.cond.
///
/// The condition codes AL and NV both mean "always": such a branch cannot fail, whatever its name.
fn on_condition(address: u64, word: u32) -> Facts {
    Facts { conditional: word & 0b1110 != 0b1110, ..branch(address, word, 5, 19) }
}

/// CB<cc>, CBB<cc> and CBH<cc> of two registers.
fn compare_registers(address: u64, word: u32) -> Facts {
    let is_64_bit = word >> 31 != 0;
    match (word >> 14 & 0b11, is_64_bit) {
        (0b00, _) | (0b10 | 0b11, false) if has_comparison(word) => conditional(branch(address, word, 5, 9)),
        _ => OTHER,
    }
}

/// CB<cc> of a register and a number.
fn compare_immediate(address: u64, word: u32) -> Facts {
    if word >> 14 & 1 == 0 && has_comparison(word) { conditional(branch(address, word, 5, 9)) } else { OTHER }
}

/// Six of the eight codes of the compare-and-branch instructions are comparisons; 0b100 and 0b101 are unallocated.
fn has_comparison(word: u32) -> bool {
    word >> 22 & 0b11 != 0b10
}

fn conditional(facts: Facts) -> Facts {
    Facts { conditional: true, ..facts }
}

/// A branch by a signed number of words, in the `width` bits from bit `low` on.
fn branch(address: u64, word: u32, low: u32, width: u32) -> Facts {
    direct(address.wrapping_add_signed(signed(word >> low, width) << 2), Isa::A64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_ordinary_word_does_anything() {
        // Every first byte with many rests: the group is told by the first byte alone.
        for first in 0..=0xff_u32 {
            for rest in (0..1 << 24).step_by(997) {
                let word = first << 24 | rest;
                assert!(!is_ordinary_a64(word) || facts(0, word).kind == Kind::Other, "{word:#010x}");
            }
        }
    }
}
