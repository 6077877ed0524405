//! SVE: loads, stores and prefetches of vectors and predicates.
//!
//! ```text
//! 31 29      25 24 23 22 21 20    16 15  13 12             0
//!  1 xx  0 0 1 0  size  form   …     shape       registers
//! ```
//!
//! Bits 30 and 29 select gathers of words, contiguous loads, gathers of doublewords, or stores. With bit 31 clear there
//! is no memory. Specification: Arm DDI 0487, "SVE encodings", "SVE Memory".

use crate::access::{Access, Operation};
use crate::bits::{field, flag};
use Operation::{Load, Store, VectorPrefetch};

/// The access of a word in this group.
pub(super) fn access(word: u32) -> Access {
    match word >> 29 {
        0b100 => gather_words(word),
        0b101 => contiguous_load(word),
        0b110 => gather_doublewords(word),
        0b111 => store(word),
        _ => VECTOR,
    }
}

/// A vector instruction without a memory access.
pub(super) const VECTOR: Access = Access { vector: true, ..Access::NOTHING };

/// A predicated access of elements of `1 << size` bytes in memory.
pub(super) fn predicated(operation: Operation, size: u32) -> Access {
    Access { predicated: true, ..unpredicated(operation, size) }
}

/// An access of a whole register, in elements of `1 << size` bytes.
pub(super) fn unpredicated(operation: Operation, size: u32) -> Access {
    Access { operation, element: Some(1 << size), ..VECTOR }
}

/// Bits 24 and 23.
fn size(word: u32) -> u32 {
    field(word, 23, 2)
}

/// The shape is the three bits from 13 on.
fn shape(word: u32) -> u32 {
    field(word, 13, 3)
}

/// Whether there is an index: the zero register is none, except in first-faulting loads.
fn has_index(word: u32) -> bool {
    field(word, 16, 5) != 0b11111
}

/// LD1 of 32-bit offsets or bases, and instructions that share its encoding: LD1R, LDR, PRF.
fn gather_words(word: u32) -> Access {
    match (size(word), field(word, 21, 2), shape(word)) {
        // LDR of a predicate, LDR of a vector
        (0b11, 0b00 | 0b01, 0b000) if flag(word, 4) => VECTOR,
        (0b11, 0b00 | 0b01, 0b000 | 0b010) => unpredicated(Load, 0),
        // PRF of an offset, PRF of 32-bit offsets
        (0b11, 0b10 | 0b11, prefetch @ 0b000..=0b011) => prefetch_of(word, prefetch),
        (0b00, 0b01 | 0b11, prefetch @ 0b000..=0b011) => prefetch_of(word, prefetch),
        // PRF of two registers, PRF of bases
        (_, 0b00, 0b110) if !has_index(word) => VECTOR,
        (size, 0b00, 0b110 | 0b111) => prefetch_of(word, size),
        (_, 0b10 | 0b11, 0b100..=0b111) => replicated(word),
        // LDNT1
        (size, 0b00, 0b100 | 0b101) => gathered(word, size, !flag(word, 13), false),
        // LD1 and LDFF1: of offsets, of bases
        (size, _, 0b000..=0b011) | (size, 0b01, _) => gathered(word, size, !flag(word, 14), flag(word, 13)),
        _ => VECTOR,
    }
}

/// LD1 of 64-bit offsets or bases, and PRF.
fn gather_doublewords(word: u32) -> Access {
    match (size(word), field(word, 21, 2), shape(word)) {
        // PRF of 32-bit offsets, of 64-bit offsets, of bases
        (0b00, 0b01 | 0b11, prefetch @ 0b000..=0b011) => prefetch_of(word, prefetch),
        (0b00, 0b11, prefetch) => prefetch_of(word, prefetch & 0b11),
        (size, 0b00, 0b111) => prefetch_of(word, size),
        // LD1Q
        (0b00, 0b00, 0b101) => predicated(Load, 4),
        (_, 0b00, 0b101) => VECTOR,
        // LDNT1
        (size, 0b00, 0b100 | 0b110) => gathered(word, size, !flag(word, 14), false),
        // LD1 and LDFF1: of offsets, of bases
        (size, _, _) => gathered(word, size, !flag(word, 14), flag(word, 13)),
    }
}

/// A prefetch leaves bit 4 clear.
fn prefetch_of(word: u32, size: u32) -> Access {
    if flag(word, 4) { VECTOR } else { predicated(VectorPrefetch, size) }
}

/// An element of the full size, 32 or 64 bits, has no sign to extend; words have no doublewords to gather.
fn gathered(word: u32, size: u32, is_signed: bool, suppresses_faults: bool) -> Access {
    let largest = if flag(word, 30) { 0b11 } else { 0b10 };
    if size > largest || (size == largest && is_signed) {
        return VECTOR;
    }
    Access { suppresses_faults, ..predicated(Load, size) }
}

/// LD1R: one element for all lanes.
fn replicated(word: u32) -> Access {
    let size = TYPES[(size(word) << 2 | field(word, 13, 2)) as usize];
    Access { bytes: Some(1 << size), ..predicated(Load, size) }
}

/// The size in memory of the sixteen pairs of a type in memory and a type in a register.
const TYPES: [u32; 16] = [
    0, 0, 0, 0, // B to B, H, S, D
    2, 1, 1, 1, // SW to D; H to H, S, D
    1, 1, 2, 2, // SH to D, S; W to S, D
    0, 0, 0, 3, // SB to D, S, H; D to D
];

/// LD1, LDFF1, LDNF1, LDNT1, LD2 to LD4, LD1RQ and LD1RO.
fn contiguous_load(word: u32) -> Access {
    let by_type = predicated(Load, TYPES[field(word, 21, 4) as usize]);
    let is_second = flag(word, 20);
    match (shape(word), field(word, 21, 2)) {
        (0b000 | 0b010 | 0b100 | 0b110, _) if !has_index(word) => VECTOR,
        // LD1RQ, LD1RO
        (0b000, 0b00 | 0b01) => quadwords(word),
        (0b001, 0b00 | 0b01) if !is_second => quadwords(word),
        // LD1W and LD1D, one in each quadword
        (0b100, 0b00) if flag(word, 24) => predicated(Load, size(word)),
        (0b001, 0b00) if is_second && flag(word, 24) => predicated(Load, size(word)),
        // LD2Q, LD3Q, LD4Q
        (0b100, 0b01) if size(word) != 0b00 => predicated(Load, 4),
        (0b111, 0b00) if is_second && size(word) != 0b00 => predicated(Load, 4),
        // LD1
        (0b010, _) => by_type,
        (0b101, _) if !is_second => by_type,
        // LDFF1, LDNF1
        (0b011, _) | (0b101, _) => Access { suppresses_faults: true, ..by_type },
        // LDNT1, LD2, LD3, LD4
        (0b110, _) => predicated(Load, size(word)),
        (0b111, _) if !is_second => predicated(Load, size(word)),
        _ => VECTOR,
    }
}

/// 16 or 32 bytes for all segments of a vector.
fn quadwords(word: u32) -> Access {
    let bytes = if flag(word, 21) { 32 } else { 16 };
    Access { bytes: Some(bytes), ..predicated(Load, size(word)) }
}

/// ST1 to ST4, contiguous or scattered, STNT1, and STR.
fn store(word: u32) -> Access {
    let (size, form) = (size(word), field(word, 21, 2));
    let is_valid = match shape(word) {
        // STR of a predicate, STR of a vector
        0b000 if field(word, 22, 3) == 0b110 && !flag(word, 4) => return unpredicated(Store, 0),
        0b010 if field(word, 22, 3) == 0b110 => return unpredicated(Store, 0),
        // ST2Q, ST3Q, ST4Q
        0b000 if is_store_of_quadwords(word) => return predicated(Store, 4),
        // ST1Q
        0b001 if size == 0b00 && form == 0b01 => return predicated(Store, 4),
        // STNT1, scattered by 64-bit or 32-bit bases
        0b001 => form == 0b00 || (form == 0b10 && size != 0b11),
        // ST1 of two registers, ST1 of an offset
        0b010 => narrows(size, form) && has_index(word),
        0b111 if !flag(word, 20) => narrows(size, form),
        // STNT1, ST2, ST3, ST4
        0b011 => has_index(word),
        0b111 => true,
        // ST1, scattered
        0b100..=0b110 => scatters(word, size, form),
        _ => false,
    };
    if is_valid { predicated(Store, size) } else { VECTOR }
}

/// ST2Q to ST4Q are encoded where ST1 would have no size: two to four registers in bits 23 and 22.
fn is_store_of_quadwords(word: u32) -> bool {
    let has_offset = field(word, 20, 2) == 0b00;
    !flag(word, 24) && field(word, 22, 2) != 0b00 && (has_offset || flag(word, 21) && has_index(word))
}

/// An element in a register is at least as large as in memory; words and doublewords may also come from quadwords.
fn narrows(size: u32, form: u32) -> bool {
    size <= form || (size, form) == (0b10, 0b00) || (size, form) == (0b11, 0b10)
}

/// Bytes have no scaled offsets, and elements of 32 bits hold no doublewords.
fn scatters(word: u32, size: u32, form: u32) -> bool {
    let is_by_base = shape(word) == 0b101 && form >= 0b10;
    let is_scaled = !is_by_base && form & 0b01 != 0;
    let is_of_words = if is_by_base { form == 0b11 } else { form >= 0b10 };
    match size {
        0b00 => !is_scaled,
        0b11 => !is_of_words,
        _ => true,
    }
}
