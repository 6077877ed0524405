//! Loads and stores of the general registers, and of one or two SIMD registers: atomics, tags and ranges among them.
//!
//! Nearly all have their size in the two highest bits, as a power of two.
//! Specification: Arm DDI 0487, "A64 Instruction Set Encoding", "Loads and Stores".

use super::simd;
use crate::access::{Access, Operation, Stage, direction};
use crate::bits::{field, flag};
use Operation::{Load, LoadStore, Prefetch, Store, TagAndDataStore, TagLoad, TagStore};

/// The access of a word in this group.
pub(super) fn access(word: u32) -> Access {
    match (field(word, 27, 3), flag(word, 26), flag(word, 24)) {
        (0b001, true, is_single) => simd::structures(word, is_single),
        (0b001, false, false) => exclusive(word),
        (0b001, false, true) => unprivileged_exclusive(word),
        (0b011, is_simd, false) => literal(word, is_simd),
        (0b011, true, true) => match field(word, 10, 2) {
            0b00 | 0b01 => range(word),
            0b10 => simd::ordered(word),
            _ => Access::NOTHING,
        },
        (0b011, false, true) => ordered_or_tagged(word),
        (0b101, is_simd, _) => pair(word, is_simd),
        (_, is_simd, is_scaled) => single(word, is_simd, is_scaled),
    }
}

/// Register number that means no register.
const NO_REGISTER: u32 = 0b11111;

/// Number of bytes, as the two highest bits encode it.
fn size(word: u32) -> u16 {
    1 << (word >> 30)
}

/// LDXR, STXR and their pairs, LDAR, STLR, CAS and CASP.
fn exclusive(word: u32) -> Access {
    let is_load = flag(word, 22);
    let has_no_third = field(word, 10, 5) == NO_REGISTER;
    match (flag(word, 23), flag(word, 21)) {
        (false, false) => exclusive_of(is_load, size(word)),
        (false, true) if flag(word, 31) => exclusive_of(is_load, 2 * size(word)),
        (false, true) if has_no_third && are_pairs(word) => compare_and_swap(8 * size(word)),
        (true, false) => Access::sized(direction(is_load), size(word)),
        (true, true) if has_no_third => compare_and_swap(size(word)),
        _ => Access::NOTHING,
    }
}

/// LDTXR, STTXR, CAST and CASPT.
fn unprivileged_exclusive(word: u32) -> Access {
    match (flag(word, 23), flag(word, 21), word >> 30) {
        (false, false, 0b10 | 0b11) => exclusive_of(flag(word, 22), size(word)),
        (true, false, 0b11) => compare_and_swap(8),
        (true, false, 0b01) if are_pairs(word) => compare_and_swap(16),
        _ => Access::NOTHING,
    }
}

fn exclusive_of(is_load: bool, bytes: u16) -> Access {
    let access = Access::sized(direction(is_load), bytes);
    if is_load { access } else { access.conditionally() }
}

fn compare_and_swap(bytes: u16) -> Access {
    Access::sized(LoadStore, bytes).conditionally()
}

/// Both registers of a CASP are the even ones of a pair.
fn are_pairs(word: u32) -> bool {
    !flag(word, 0) && !flag(word, 16)
}

/// LDR, LDRSW and PRFM of a label.
fn literal(word: u32, is_simd: bool) -> Access {
    match (word >> 30, is_simd) {
        (0b11, false) => Access::of(Prefetch),
        (0b11, true) => Access::NOTHING,
        (0b10, false) => Access::sized(Load, 4),
        (opc, _) => Access::sized(Load, 4 << opc),
    }
}

/// LDP, STP and their kin, STGP among them.
fn pair(word: u32, is_simd: bool) -> Access {
    let is_load = flag(word, 22);
    let is_non_temporal = field(word, 23, 2) == 0b00;
    let bytes = match (word >> 30, is_simd) {
        (0b01, false) if is_non_temporal => return Access::NOTHING,
        (0b01, false) if !is_load => return Access::sized(TagAndDataStore, 16),
        // LDPSW is among the words.
        (0b00 | 0b01, false) => 8,
        (0b10 | 0b11, false) => 16,
        (0b00, true) => 8,
        (0b01, true) => 16,
        _ => 32,
    };
    Access::sized(direction(is_load), bytes)
}

/// One register: by an offset in the opcode or in a register, and instructions that share that encoding.
fn single(word: u32, is_simd: bool, is_scaled: bool) -> Access {
    let addressing = field(word, 10, 2);
    match (is_scaled, flag(word, 21), addressing) {
        (true, _, _) | (false, false, 0b00) => one_register(word, is_simd),
        // Unprivileged ones are of general registers only.
        (false, false, 0b10) if is_simd => Access::NOTHING,
        // Only the forms above and those by register can be prefetches.
        (false, false, _) => not_a_prefetch(one_register(word, is_simd)),
        (false, true, 0b10) if flag(word, 14) => one_register(word, is_simd),
        (false, true, 0b00) if is_simd => simd::atomic(word),
        (false, true, 0b00) => atomic(word),
        // LDRAA, LDRAB
        (false, true, 0b01 | 0b11) if word >> 30 == 0b11 && !is_simd => Access::sized(Load, 8),
        _ => Access::NOTHING,
    }
}

/// The four codes in bits 23 and 22: store, load, and two sign-extending loads, or vectors of 16 bytes.
fn one_register(word: u32, is_simd: bool) -> Access {
    match (field(word, 22, 2), word >> 30, is_simd) {
        (opc @ (0b00 | 0b01), _, _) => Access::sized(direction(opc == 0b01), size(word)),
        (opc, 0b00, true) => Access::sized(direction(opc == 0b11), 16),
        (0b10, 0b11, false) => Access::of(Prefetch),
        (0b10, _, false) | (0b11, 0b00 | 0b01, false) => Access::sized(Load, size(word)),
        _ => Access::NOTHING,
    }
}

fn not_a_prefetch(access: Access) -> Access {
    if access.operation == Prefetch { Access::NOTHING } else { access }
}

/// LDADD and its kin, SWP, LDAPR, the checked writes of translation tables, and the accesses of 64 bytes.
fn atomic(word: u32) -> Access {
    let has_no_operand = field(word, 16, 5) == NO_REGISTER;
    let order = field(word, 22, 2);
    match (field(word, 12, 4), word >> 30, order) {
        // LDADD, LDCLR, LDEOR, LDSET, LDSMAX, LDSMIN, LDUMAX, LDUMIN, SWP
        (0b0000..=0b1000, _, _) => Access::sized(LoadStore, size(word)),
        // RCWCLR, RCWSWP, RCWSET and the RCWS forms
        (0b1001..=0b1011, 0b00 | 0b01, _) => Access::sized(LoadStore, 8).conditionally(),
        // LDAPR
        (0b1100, _, 0b10) if has_no_operand => Access::sized(Load, size(word)),
        // ST64B, LD64B, and ST64BV0, ST64BV, which the device may refuse
        (0b1001, 0b11, 0b00) if has_no_operand && has_eight_registers(word) => Access::sized(Store, 64),
        (0b1101, 0b11, 0b00) if has_no_operand && has_eight_registers(word) => Access::sized(Load, 64),
        (0b1010 | 0b1011, 0b11, 0b00) if has_eight_registers(word) => Access::sized(Store, 64).conditionally(),
        _ => Access::NOTHING,
    }
}

/// Eight registers in a row start at an even one, and the last one is X29.
fn has_eight_registers(word: u32) -> bool {
    !flag(word, 0) && field(word, 0, 5) <= 22
}

/// The remaining accesses of general registers: ordered accesses, ranges, tags, and atomics of pairs.
fn ordered_or_tagged(word: u32) -> Access {
    match (flag(word, 21), field(word, 10, 2), word >> 30) {
        (false, 0b00, _) => not_a_prefetch(one_register(word, false)),
        (false, 0b01, _) => range(word),
        (false, 0b10, _) => ordered(word),
        // GCSSTR, GCSSTTR
        (false, _, _) if word & 0xffff_ec00 == 0xd91f_0c00 => Access::sized(Store, 8),
        (true, addressing, 0b11) => tags(word, addressing),
        (true, _, 0b00 | 0b01) => wide_atomic(word),
        _ => Access::NOTHING,
    }
}

/// STILP and LDIAPP, STLP and LDAPP of Armv9.7, and LDAPR and STLR that move their base.
fn ordered(word: u32) -> Access {
    let is_load = flag(word, 22);
    match (flag(word, 23), field(word, 12, 4), word >> 30) {
        (false, 0b0000 | 0b0001, 0b10 | 0b11) => Access::sized(direction(is_load), 2 * size(word)),
        // STLP, LDAP
        (false, 0b0101, 0b11) => Access::sized(direction(is_load), 16),
        // LDAPP
        (false, 0b0111, 0b11) if is_load => Access::sized(Load, 16),
        (true, 0b0000, 0b10 | 0b11) if field(word, 16, 5) == 0 => Access::sized(direction(is_load), size(word)),
        _ => Access::NOTHING,
    }
}

/// The allocation tags of one granule of 16 bytes, of two, or of a block.
fn tags(word: u32, addressing: u32) -> Access {
    let has_no_offset = field(word, 12, 9) == 0;
    match (field(word, 22, 2), addressing) {
        // STZGM, LDG, STGM, LDGM
        (0b00, 0b00) if has_no_offset => Access::of(TagAndDataStore),
        (0b01, 0b00) => Access::sized(TagLoad, 16),
        (0b10, 0b00) if has_no_offset => Access::of(TagStore),
        (0b11, 0b00) if has_no_offset => Access::of(TagLoad),
        (_, 0b00) => Access::NOTHING,
        // STG, STZG, ST2G, STZ2G
        (0b00, _) => Access::sized(TagStore, 16),
        (0b01, _) => Access::sized(TagAndDataStore, 16),
        (0b10, _) => Access::sized(TagStore, 32),
        _ => Access::sized(TagAndDataStore, 32),
    }
}

/// Atomics of pairs, checked writes of translation tables, and unprivileged atomics.
fn wide_atomic(word: u32) -> Access {
    let is_first = word >> 30 == 0b00;
    let has_result = field(word, 0, 5) != NO_REGISTER && field(word, 16, 5) != NO_REGISTER;
    match field(word, 10, 6) {
        // LDTADD, LDTCLR, LDTSET, SWPT
        0b000001 | 0b000101 | 0b001101 | 0b100001 => Access::sized(LoadStore, 4 * size(word)),
        // LDCLRP, LDSETP, SWPP
        0b000100 | 0b001100 | 0b100000 if is_first && has_result => Access::sized(LoadStore, 16),
        // RCWCAS, RCWCASP
        0b000010 => compare_and_swap(8),
        0b000011 if are_pairs(word) => compare_and_swap(16),
        // RCWCLRP, RCWSWPP, RCWSETP
        0b100100 | 0b101000 | 0b101100 if has_result => Access::sized(LoadStore, 16).conditionally(),
        _ => Access::NOTHING,
    }
}

/// CPYF and SET, and with the SIMD bit CPY, SETG and, of Armv9.7, SETGO, which has no third register.
fn range(word: u32) -> Access {
    let [destination, length, source] = [0, 5, 16].map(|low| field(word, low, 5));
    let [is_copy, has_source] = [field(word, 22, 2) != 0b11, field(word, 10, 2) == 0b01];
    let has_registers = match (has_source, source) {
        (true, NO_REGISTER) if is_copy => false,
        (true, _) => source != destination && source != length,
        (false, _) => source == NO_REGISTER && !is_copy,
    };
    let is_range = destination != NO_REGISTER && destination != length;
    let is_allocated = has_registers && is_range && word >> 30 == 0b00 && !flag(word, 21);
    match stage(field(word, if is_copy { 22 } else { 14 }, 2)) {
        Some(stage) if is_allocated && is_copy => Access::of(Operation::Copy { stage }),
        Some(stage) if is_allocated => Access::of(Operation::Set { stage, tagged: flag(word, 26) }),
        _ => Access::NOTHING,
    }
}

fn stage(code: u32) -> Option<Stage> {
    match code {
        0b00 => Some(Stage::Prologue),
        0b01 => Some(Stage::Main),
        0b10 => Some(Stage::Epilogue),
        _ => None,
    }
}
