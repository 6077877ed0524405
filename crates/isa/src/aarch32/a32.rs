//! A32 control flow: branches, SVC, barriers and waits.
//!
//! (address, word) ─▶ **control flow**
//!
//! Every instruction that writes the PC is a branch, data processing and loads included. Forms that are unpredictable
//! with the PC as destination (shifts by register, LDRT, MOVW, multiplies, halfword loads) are not decoded as branches.
//! Of exception generation only SVC is decoded.
//! Specification: Arm DDI 0487, "A32 instruction set encoding".

use crate::Isa;
use crate::bits::{field, signed};
use crate::control_flow::{ControlFlow, Decoded, Row, lookup, row};

/// The control flow of the word at `address`.
pub(crate) fn decode(address: u64, word: u32) -> Decoded {
    match word >> 28 {
        0b1111 => unconditional(address, word),
        ALWAYS => executed(address, word),
        _ => executed(address, word).conditionally(),
    }
}

/// The condition that holds always.
const ALWAYS: u32 = 0b1110;
/// The number of the stack pointer.
const SP: u32 = 13;
/// The number of the program counter.
const PC: u32 = 15;

/// The control flow when the condition holds.
fn executed(address: u64, word: u32) -> Decoded {
    match word >> 24 & 0xf {
        0x0..=0x3 => data_processing(word),
        0x4..=0x7 => load(word),
        0x8 | 0x9 => load_multiple(word),
        0xa => Decoded::direct(Isa::A32, target(address, word)),
        0xb => Decoded { link: true, ..Decoded::direct(Isa::A32, target(address, word)) },
        0xe => lookup(&COPROCESSOR, word),
        0xf => Decoded::of(ControlFlow::SupervisorCall),
        _ => Decoded::FALL_THROUGH,
    }
}

/// The space of the words without a condition.
fn unconditional(address: u64, word: u32) -> Decoded {
    if word & 0xfe00_0000 == 0xfa00_0000 {
        // BLX: bit 24 is the halfword to start at.
        let halfword = u64::from(word >> 24 & 1) << 1;
        return Decoded { link: true, ..Decoded::direct(Isa::T32, target(address, word) | halfword) };
    }
    lookup(&UNCONDITIONAL, word)
}

const UNCONDITIONAL: [Row; 4] = [
    row(0xffff_fff0, 0xf57f_f040, Decoded::DATA_BARRIER),     // DSB
    row(0xffff_fff0, 0xf57f_f050, Decoded::DATA_BARRIER),     // DMB
    row(0xffff_fff0, 0xf57f_f060, Decoded::ISB),              // ISB
    row(0xfe50_ffff, 0xf810_0a00, Decoded::EXCEPTION_RETURN), // RFEDA, RFEIA, RFEDB, RFEIB
];

/// Encodings of comparisons without the S bit.
const MISCELLANEOUS: [Row; 7] = [
    row(0x0fff_ffff, 0x012f_ff1e, Decoded::RETURN),           // BX LR
    row(0x0fff_fff0, 0x012f_ff10, Decoded::INDIRECT),         // BX
    row(0x0fff_fff0, 0x012f_ff20, Decoded::INDIRECT),         // BXJ
    row(0x0fff_fff0, 0x012f_ff30, Decoded::INDIRECT_CALL),    // BLX
    row(0x0fff_ffff, 0x0160_006e, Decoded::EXCEPTION_RETURN), // ERET
    row(0x0fff_ffff, 0x0320_f002, Decoded::WFX),              // WFE
    row(0x0fff_ffff, 0x0320_f003, Decoded::WFX),              // WFI
];

/// MCR p15, 0, Rt, c7: how barriers were spelled before they had encodings. Trace units take them for such.
const COPROCESSOR: [Row; 3] = [
    row(0x0fff_0fff, 0x0e07_0f95, Decoded::ISB),          // c5, 4
    row(0x0fff_0fff, 0x0e07_0f9a, Decoded::DATA_BARRIER), // c10, 4: DSB
    row(0x0fff_0fff, 0x0e07_0fba, Decoded::DATA_BARRIER), // c10, 5: DMB
];

/// Data processing with the PC as destination; with the S bit it returns from an exception.
fn data_processing(word: u32) -> Decoded {
    let compares = word & 0x0180_0000 == 0x0100_0000;
    let sets_flags = word >> 20 & 1 == 1;
    if compares && !sets_flags {
        return lookup(&MISCELLANEOUS, word);
    }
    let shifts_by_register = word & 0x0200_0010 == 0x0000_0010;
    // MOV and MVN have no first operand; a register there makes the encoding unallocated.
    let moves_two = word & 0x01a0_0000 == 0x01a0_0000 && register(word, 16) != 0;
    match word & 0x0fff_ffff {
        _ if register(word, 12) != PC || compares || shifts_by_register || moves_two => Decoded::FALL_THROUGH,
        _ if sets_flags => Decoded::EXCEPTION_RETURN,
        // MOV PC, LR
        0x01a0_f00e => Decoded::RETURN,
        _ => Decoded::INDIRECT,
    }
}

/// LDR with the PC as destination.
fn load(word: u32) -> Decoded {
    let is_word_load = word & 0x0050_0000 == 0x0010_0000;
    let is_media = word & 0x0200_0010 == 0x0200_0010;
    let is_unprivileged = word & 0x0120_0000 == 0x0020_0000;
    let by_number = word & 0x0200_0000 == 0;
    if !is_word_load || is_media || is_unprivileged || register(word, 12) != PC {
        return Decoded::FALL_THROUGH;
    }
    // A jump table is indexed by a register; what is popped is not.
    if register(word, 16) == SP && by_number { Decoded::RETURN } else { Decoded::INDIRECT }
}

/// LDM with the PC in the list; with the ^ it returns from an exception.
fn load_multiple(word: u32) -> Decoded {
    let loads_pc = word & 0x0010_8000 == 0x0010_8000;
    let restores_state = word >> 22 & 1 == 1;
    match loads_pc {
        false => Decoded::FALL_THROUGH,
        true if restores_state => Decoded::EXCEPTION_RETURN,
        true if register(word, 16) == SP => Decoded::RETURN,
        true => Decoded::INDIRECT,
    }
}

/// The register number in the four bits from bit `low` on.
fn register(word: u32, low: u32) -> u32 {
    field(word, low, 4)
}

/// Target of B, BL and BLX: the PC reads as two instructions ahead.
fn target(address: u64, word: u32) -> u64 {
    address.wrapping_add(8).wrapping_add_signed(signed(word, 24) << 2) & 0xffff_ffff
}
