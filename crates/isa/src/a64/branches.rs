//! A64 control flow: branches, exception generation, barriers and waits.
//!
//! (address, word) ─▶ **control flow**
//!
//! The first byte selects the family, a table or a field the instruction. Covers the architecture up to Armv9.6.
//! Specification: Arm DDI 0487, "Branches, Exception Generating and System instructions".

use crate::Isa;
use crate::bits::signed;
use crate::control_flow::{ControlFlow, Decoded, Row, lookup, row};

/// Whether an A64 word is in the encoding group of branches, exception generation and system instructions. Of all
/// others only UDF does not fall through.
#[inline]
pub const fn is_a64_branch_or_system(word: u32) -> bool {
    word >> 26 & 0b111 == 0b101
}

/// The control flow of the word at `address`.
pub(crate) fn decode(address: u64, word: u32) -> Decoded {
    match word >> 24 {
        0x00 if word >> 16 == 0 => Decoded::of(ControlFlow::Undefined),
        0x14..=0x17 => branch(address, word, 0, 26),
        0x94..=0x97 => Decoded { link: true, ..branch(address, word, 0, 26) },
        0x34 | 0x35 | 0xb4 | 0xb5 => branch(address, word, 5, 19).conditionally(),
        0x36 | 0x37 | 0xb6 | 0xb7 => branch(address, word, 5, 14).conditionally(),
        // B.cond and BC.cond. The conditions AL and NV both mean "always": such a branch is unconditional.
        0x54 => Decoded { conditional: word & 0b1110 != 0b1110, ..branch(address, word, 5, 19) },
        0x55 => lookup(&RETURNS_BY_LABEL, word),
        0x74 | 0xf4 => compare_registers(address, word),
        0x75 | 0xf5 => compare_immediate(address, word),
        0xd4 => lookup(&EXCEPTIONS, word),
        0xd5 => lookup(&SYSTEM, word),
        0xd6 | 0xd7 => lookup(&BY_REGISTER, word),
        _ => Decoded::FALL_THROUGH,
    }
}

/// Branches whose target is in a register.
const BY_REGISTER: [Row; 11] = [
    row(0xffff_fc1f, 0xd65f_0000, Decoded::RETURN),           // RET
    row(0xffff_fc1f, 0xd63f_0000, Decoded::INDIRECT_CALL),    // BLR
    row(0xffff_fc1f, 0xd61f_0000, Decoded::INDIRECT),         // BR
    row(0xffff_fbe0, 0xd65f_0be0, Decoded::RETURN), // RETAA, RETAB (the low register is 31), RETAASPPCR, RETABSPPCR
    row(0xffff_f800, 0xd73f_0800, Decoded::INDIRECT_CALL), // BLRAA, BLRAB
    row(0xffff_f800, 0xd71f_0800, Decoded::INDIRECT), // BRAA, BRAB
    row(0xffff_f81f, 0xd63f_081f, Decoded::INDIRECT_CALL), // BLRAAZ, BLRABZ
    row(0xffff_f81f, 0xd61f_081f, Decoded::INDIRECT), // BRAAZ, BRABZ
    row(0xffff_ffff, 0xd69f_03e0, Decoded::EXCEPTION_RETURN), // ERET
    row(0xffff_fbff, 0xd69f_0bff, Decoded::EXCEPTION_RETURN), // ERETAA, ERETAB
    row(0xffff_ffff, 0xd6bf_03e0, Decoded::EXCEPTION_RETURN), // DRPS
];

/// Returns that name the address of the signing instruction. The label is not the target: that is in the link register.
const RETURNS_BY_LABEL: [Row; 1] = [
    row(0xffc0_001f, 0x5500_001f, Decoded::RETURN), // RETAASPPC, RETABSPPC
];

const EXCEPTIONS: [Row; 8] = [
    row(0xffe0_001f, 0xd400_0001, Decoded::of(ControlFlow::SupervisorCall)), // SVC
    row(0xffe0_001f, 0xd400_0002, Decoded::of(ControlFlow::HypervisorCall)), // HVC
    row(0xffe0_001f, 0xd400_0003, Decoded::of(ControlFlow::SecureMonitorCall)), // SMC
    row(0xffe0_001f, 0xd420_0000, Decoded::of(ControlFlow::Breakpoint)),     // BRK
    row(0xffe0_001f, 0xd440_0000, Decoded::of(ControlFlow::Halt)),           // HLT
    row(0xffe0_001f, 0xd4a0_0001, Decoded::of(ControlFlow::DebugChangeState)), // DCPS1, DCPS2, DCPS3
    row(0xffe0_001f, 0xd4a0_0002, Decoded::of(ControlFlow::DebugChangeState)),
    row(0xffe0_001f, 0xd4a0_0003, Decoded::of(ControlFlow::DebugChangeState)),
];

/// Barriers, hints and system instructions.
const SYSTEM: [Row; 4] = [
    row(0xffff_f0ff, 0xd503_30df, Decoded::ISB), // ISB
    row(0xffff_ffdf, 0xd503_205f, Decoded::WFX), // WFE, WFI
    row(0xffff_ffc0, 0xd503_1000, Decoded::WFX), // WFET, WFIT
    row(0xffff_ffe0, 0xd523_3060, Decoded::of(ControlFlow::TransactionStart)), // TSTART
];

/// CB<cc>, CBB<cc> and CBH<cc> of two registers.
fn compare_registers(address: u64, word: u32) -> Decoded {
    let is_64_bit = word >> 31 != 0;
    match (word >> 14 & 0b11, is_64_bit) {
        (0b00, _) | (0b10 | 0b11, false) if has_comparison(word) => branch(address, word, 5, 9).conditionally(),
        _ => Decoded::FALL_THROUGH,
    }
}

/// CB<cc> of a register and a number.
fn compare_immediate(address: u64, word: u32) -> Decoded {
    if word >> 14 & 1 == 0 && has_comparison(word) {
        branch(address, word, 5, 9).conditionally()
    } else {
        Decoded::FALL_THROUGH
    }
}

/// Six of the eight codes of the compare-and-branch instructions are comparisons; 0b100 and 0b101 are unallocated.
fn has_comparison(word: u32) -> bool {
    word >> 22 & 0b11 != 0b10
}

/// A branch by a signed number of words, in the `width` bits from bit `low` on.
fn branch(address: u64, word: u32, low: u32, width: u32) -> Decoded {
    Decoded::direct(Isa::A64, address.wrapping_add_signed(signed(word >> low, width) << 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_other_groups_fall_through() {
        // Every first byte with many low bits: the first byte alone selects the group.
        for first in 0..=0xff_u32 {
            for rest in (0..1 << 24).step_by(997) {
                let word = first << 24 | rest;
                let is_plain = matches!(decode(0, word).flow, ControlFlow::FallThrough | ControlFlow::Undefined);
                assert!(is_plain || is_a64_branch_or_system(word), "{word:#010x}");
            }
        }
    }
}
