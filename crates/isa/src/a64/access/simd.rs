//! Loads and stores that only SIMD and floating-point registers have: structures, ordered accesses, atomics.
//!
//! Specification: Arm DDI 0487, "A64 Instruction Set Encoding", "Loads and Stores".

use crate::access::{Access, Operation, direction};
use crate::bits::{field, flag};

/// LD1 to LD4 and ST1 to ST4, of whole registers or of a `single` structure.
pub(super) fn structures(word: u32, is_single: bool) -> Access {
    let bytes = if is_single { single_structure(word) } else { whole_registers(word) };
    match bytes {
        Some(bytes) if !flag(word, 31) => Access::sized(direction(flag(word, 22)), bytes),
        _ => Access::NOTHING,
    }
}

/// Number of bytes of one to four registers of 8 or 16 bytes.
fn whole_registers(word: u32) -> Option<u16> {
    let registers = match field(word, 12, 4) {
        // LD4, LD1 of four
        0b0000 | 0b0010 => 4,
        // LD3, LD1 of three
        0b0100 | 0b0110 => 3,
        // LD2, LD1 of two
        0b1000 | 0b1010 => 2,
        0b0111 => 1,
        _ => return None,
    };
    let is_single_element = flag(word, 13);
    let is_one_lane = field(word, 10, 2) == 0b11 && !flag(word, 30);
    let has_register = field(word, 16, 5) != 0;
    let is_free = flag(word, 21) || (is_one_lane && !is_single_element) || (has_register && !flag(word, 23));
    (!is_free).then_some(registers * if flag(word, 30) { 16 } else { 8 })
}

/// One element each of up to four registers: one lane, or replicated to all. LDAP1 and STL1 among them.
fn single_structure(word: u32) -> Option<u16> {
    let elements = 2 * u16::from(flag(word, 13)) + u16::from(flag(word, 21)) + 1;
    let (is_load, is_first_half, size) = (flag(word, 22), !flag(word, 12), field(word, 10, 2));
    let bytes = match field(word, 14, 2) {
        0b00 => 1,
        0b01 if size & 1 == 0 => 2,
        0b10 if size == 0b00 => 4,
        0b10 if size == 0b01 && is_first_half => 8,
        0b11 if is_load && is_first_half => 1 << size,
        _ => return None,
    };
    let has_register = field(word, 16, 5) != 0;
    let is_ordered = word & 0xbfbf_fc00 == 0x0d01_8400;
    let is_free = has_register && !flag(word, 23) && !is_ordered;
    (!is_free).then_some(elements * bytes)
}

/// LDAPUR and STLUR.
pub(super) fn ordered(word: u32) -> Access {
    let operation = direction(flag(word, 22));
    match (flag(word, 21), flag(word, 23), word >> 30) {
        (false, false, size) => Access::sized(operation, 1 << size),
        (false, true, 0b00) => Access::sized(operation, 16),
        _ => Access::NOTHING,
    }
}

/// LDFADD, LDFMAX and their kin, and the same without a result (STFADD). BFloat16 has the code of a byte.
pub(super) fn atomic(word: u32) -> Access {
    let is_operation = matches!(field(word, 12, 3), 0b000 | 0b100..=0b111);
    let has_no_result = flag(word, 15);
    let is_free = has_no_result && (flag(word, 23) || field(word, 0, 5) != 0b11111);
    if !is_operation || is_free {
        return Access::NOTHING;
    }
    let size = (word >> 30).max(1);
    Access::sized(Operation::LoadStore, 1 << size)
}
