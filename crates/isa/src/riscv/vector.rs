//! Vectors: V, Zvfh, Zvfbf*, Zvbb, Zvbc and Zvk*.
//!
//! `funct3` selects the kinds of the operands, the six highest bits the operation. The number of bytes of an access
//! depends on state and is not decoded.
//! Specification: The RISC-V Instruction Set Manual, volume I, "V" and "Vector Crypto".

use super::instruction::{Instruction, funct3, rs2};
use crate::Isa;
use crate::access::{Access, direction};
use crate::bits::{field, flag};
use crate::class::{Class, Classes};

const VECTOR: Classes = Classes::of(&[Class::Vector]);
const MASKABLE: Classes = VECTOR.with(Class::Maskable);
const CRYPTO: Classes = VECTOR.with(Class::Crypto);
const FLOAT: Classes = MASKABLE.with(Class::Float);
/// Makes or combines masks.
const MASK: Classes = MASKABLE.with(Class::Mask);
const MULTIPLY_ADD: Classes = MASKABLE.with(Class::Int).with(Class::MultiplyAdd);

/// A load or a store.
pub(super) fn memory(isa: Isa, word: u32, is_load: bool) -> Instruction {
    let maskable = MASKABLE.with(Class::Segment);
    let classes = match (field(word, 26, 3), rs2(word)) {
        (0b000, 0) => maskable,
        (0b000, 0b01000) if is_whole(word, is_load) => VECTOR.with(Class::Whole),
        // vlm.v, vsm.v
        (0b000, 0b01011) if flag(word, 25) && field(word, 29, 3) == 0 && funct3(word) == 0 => VECTOR.with(Class::Mask),
        (0b000, 0b10000) if is_load => maskable.with(Class::FaultFirst),
        (0b010, _) => maskable.with(Class::Stride),
        // An index of 64 bits is wider than an address of RV32.
        (0b001 | 0b011, _) if isa == Isa::Rv64 || funct3(word) != 0b111 => maskable.with(Class::Indexed),
        _ => return Instruction::NONE,
    };
    let classes = classes.with(if is_load { Class::Load } else { Class::Store });
    let access = Access {
        vector: true,
        predicated: !flag(word, 25),
        suppresses_faults: classes.contains(Class::FaultFirst),
        ..Access::of(direction(is_load))
    };
    Instruction::accesses(access, classes)
}

/// vl1re8.v to vl8re64.v and vs1r.v to vs8r.v, which take groups of registers from one that begins a group.
fn is_whole(word: u32, is_load: bool) -> bool {
    let last = field(word, 29, 3);
    let is_group = matches!(last, 0 | 1 | 3 | 7) && field(word, 7, 5) & last == 0;
    flag(word, 25) && is_group && (is_load || funct3(word) == 0)
}

/// Computations and configuration.
pub(super) fn computation(word: u32) -> Instruction {
    let classes = match funct3(word) {
        0b000 => with_vector(word),
        0b001 => float_with_vector(word),
        0b010 => products_with_vector(word),
        0b011 => with_number(word),
        0b100 => with_scalar(word),
        0b101 => float_with_scalar(word),
        0b110 => products_with_scalar(word),
        _ => configuration(word),
    };
    // Additions with carry and merges have v0 as an operand instead.
    let has_mask_operand = matches!(funct3(word), 0b000 | 0b011 | 0b100) && matches!(operation(word), 0x11 | 0x13);
    let is_masked = classes.contains(Class::Maskable) && !flag(word, 25) && !has_mask_operand;
    let access = Access { vector: true, predicated: is_masked, ..Access::NOTHING };
    Instruction::accesses(access, classes)
}

/// The six bits that select the operation.
const fn operation(word: u32) -> u32 {
    field(word, 26, 6)
}

/// The first operand, or the field that distinguishes operations of one operand.
const fn first(word: u32) -> u32 {
    field(word, 15, 5)
}

/// The set of these operations.
const fn set(operations: &[u32]) -> u64 {
    let (mut bits, mut index) = (0, 0);
    while index < operations.len() {
        bits |= 1 << operations[index];
        index += 1;
    }
    bits
}

const fn is_in(set: u64, operation: u32) -> bool {
    set >> operation & 1 != 0
}

/// The classes, if the bit that unmasks is set or clear as required.
fn if_unmasked(word: u32, is_unmasked: bool, classes: Classes) -> Classes {
    if flag(word, 25) == is_unmasked { classes } else { Classes::NONE }
}

/// vadd, vsub, vand, vor, vxor, vrgather, the saturating ones and shifts: operations with all three kinds of operands.
const COMMON: u64 =
    set(&[0x00, 0x09, 0x0a, 0x0b, 0x0c, 0x20, 0x21, 0x25, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f]);
/// vsub, vminu, vmin, vmaxu, vmax, vssubu, vssub, vsmul: operations without a number as operand.
const COMMON_OF_REGISTERS: u64 = COMMON | set(&[0x02, 0x04, 0x05, 0x06, 0x07, 0x22, 0x23, 0x27]);
/// vmseq, vmsne, vmsleu, vmsle.
const COMPARISONS: u64 = set(&[0x18, 0x19, 0x1c, 0x1d]);
/// vandn, vror, vrol, vwsll.
const BITS: u64 = set(&[0x01, 0x14, 0x15, 0x35]);

fn with_vector(word: u32) -> Classes {
    match operation(word) {
        // vrgatherei16
        operation if is_in(COMMON_OF_REGISTERS | set(&[0x0e]), operation) => MASKABLE,
        // vmsltu, vmslt
        operation if is_in(COMPARISONS | set(&[0x1a, 0x1b]), operation) => MASK,
        operation if is_in(BITS, operation) => MASKABLE.with(Class::Crypto),
        // vwredsumu, vwredsum
        0x30 | 0x31 => MASKABLE.with(Class::Widening),
        0x12 => if_unmasked(word, false, VECTOR),
        0x13 => MASK,
        _ => carry_or_merge(word),
    }
}

fn with_scalar(word: u32) -> Classes {
    match operation(word) {
        // vrsub, vslideup, vslidedown
        operation if is_in(COMMON_OF_REGISTERS | set(&[0x03, 0x0e, 0x0f]), operation) => MASKABLE,
        // vmsltu, vmslt, vmsgtu, vmsgt
        operation if is_in(COMPARISONS | set(&[0x1a, 0x1b, 0x1e, 0x1f]), operation) => MASK,
        operation if is_in(BITS, operation) => MASKABLE.with(Class::Crypto),
        0x12 => if_unmasked(word, false, VECTOR),
        0x13 => MASK,
        _ => carry_or_merge(word),
    }
}

fn with_number(word: u32) -> Classes {
    match operation(word) {
        // vrsub, vslideup, vslidedown
        operation if is_in(COMMON | set(&[0x03, 0x0e, 0x0f]), operation) => MASKABLE,
        // vmsgtu, vmsgt
        operation if is_in(COMPARISONS | set(&[0x1e, 0x1f]), operation) => MASK,
        // vror, with six bits of number, and vwsll
        0x14 | 0x15 | 0x35 => MASKABLE.with(Class::Crypto),
        0x27 if is_whole_move(word) => VECTOR.with(Class::Whole).with(Class::Move),
        _ => carry_or_merge(word),
    }
}

/// vmv1r.v, vmv2r.v, vmv4r.v, vmv8r.v
fn is_whole_move(word: u32) -> bool {
    let last = first(word);
    let is_aligned = (field(word, 7, 5) | rs2(word)) & last == 0;
    flag(word, 25) && matches!(last, 0 | 1 | 3 | 7) && is_aligned
}

/// vadc and vmadc; vmerge and vmv.v.
fn carry_or_merge(word: u32) -> Classes {
    match (operation(word), flag(word, 25)) {
        (0x10, false) => VECTOR,
        (0x11, _) => MASK,
        (0x17, false) => VECTOR,
        (0x17, true) if rs2(word) == 0 => VECTOR.with(Class::Move),
        _ => Classes::NONE,
    }
}

fn products_with_vector(word: u32) -> Classes {
    match operation(word) {
        // vredsum to vredmax
        0x00..=0x07 => MASKABLE,
        0x10 => to_scalar(word),
        0x12 => extension(word),
        0x14 => mask_to_vector(word),
        // vcompress
        0x17 => if_unmasked(word, true, VECTOR),
        // vmandn to vmxnor
        0x18..=0x1f => if_unmasked(word, true, MASK),
        // vwmaccus has no form of vectors.
        0x3e => Classes::NONE,
        _ => products(word),
    }
}

fn products_with_scalar(word: u32) -> Classes {
    match operation(word) {
        // vslide1up, vslide1down
        0x0e | 0x0f => MASKABLE,
        // vmv.s.x
        0x10 if rs2(word) == 0 => if_unmasked(word, true, VECTOR.with(Class::Move)),
        _ => products(word),
    }
}

/// vaaddu, vaadd, vasubu, vasub; vclmul, vclmulh; divisions, products, sums of them, and what widens.
fn products(word: u32) -> Classes {
    match operation(word) {
        0x08..=0x0b => MASKABLE,
        0x0c | 0x0d => MASKABLE.with(Class::Crypto),
        0x20..=0x23 => MASKABLE.with(Class::Divide),
        0x24..=0x27 => MASKABLE,
        0x29 | 0x2b | 0x2d | 0x2f => MULTIPLY_ADD,
        0x30..=0x38 | 0x3a | 0x3b => MASKABLE.with(Class::Widening),
        0x3c..=0x3f => MULTIPLY_ADD.with(Class::Widening),
        _ => Classes::NONE,
    }
}

/// vmv.x.s, vcpop.m, vfirst.m
fn to_scalar(word: u32) -> Classes {
    match first(word) {
        0x00 => if_unmasked(word, true, VECTOR.with(Class::Move)),
        0x10 | 0x11 => MASKABLE,
        _ => Classes::NONE,
    }
}

/// vzext and vsext; vbrev8, vrev8, vbrev, vclz, vctz, vcpop.v
fn extension(word: u32) -> Classes {
    match first(word) {
        0x02..=0x07 => MASKABLE,
        0x08..=0x0a | 0x0c..=0x0e => MASKABLE.with(Class::Crypto),
        _ => Classes::NONE,
    }
}

/// vmsbf, vmsof, vmsif; viota, vid
fn mask_to_vector(word: u32) -> Classes {
    match first(word) {
        0x01..=0x03 => MASK,
        0x10 => MASKABLE,
        0x11 if rs2(word) == 0 => MASKABLE,
        _ => Classes::NONE,
    }
}

fn float_with_vector(word: u32) -> Classes {
    match operation(word) {
        // vfredusum, vfredosum, vfredmin, vfredmax
        0x01 | 0x03 | 0x05 | 0x07 => FLOAT,
        // vfmv.f.s
        0x10 if first(word) == 0 => if_unmasked(word, true, VECTOR.with(Class::Float)),
        0x12 => float_conversion(first(word)),
        // vfsqrt, vfrsqrt7; vfrec7, vfclass
        0x13 => match first(word) {
            0x00 | 0x04 => FLOAT.with(Class::SquareRoot),
            0x05 | 0x10 => FLOAT,
            _ => Classes::NONE,
        },
        // vfwredusum, vfwredosum
        0x31 | 0x33 => FLOAT.with(Class::Widening),
        _ => float_arithmetic(word),
    }
}

fn float_with_scalar(word: u32) -> Classes {
    match (operation(word), flag(word, 25)) {
        // vfslide1up, vfslide1down; vfrsub
        (0x0e | 0x0f | 0x27, _) => FLOAT,
        // vfmv.s.f; vfmerge and vfmv.v.f
        (0x10, true) if rs2(word) == 0 => VECTOR.with(Class::Float),
        (0x17, is_unmasked) if !is_unmasked || rs2(word) == 0 => VECTOR.with(Class::Float),
        // vmfgt, vmfge
        (0x1d | 0x1f, _) => FLOAT.with(Class::Mask),
        // vfrdiv
        (0x21, _) => FLOAT.with(Class::Divide),
        _ => float_arithmetic(word),
    }
}

/// Operations with a vector or a scalar as operand.
fn float_arithmetic(word: u32) -> Classes {
    match operation(word) {
        // vfadd, vfsub, vfmin, vfmax; vfsgnj, vfsgnjn, vfsgnjx; vfmul
        0x00 | 0x02 | 0x04 | 0x06 | 0x08..=0x0a | 0x24 => FLOAT,
        // vmfeq, vmfle, vmflt, vmfne
        0x18 | 0x19 | 0x1b | 0x1c => FLOAT.with(Class::Mask),
        0x20 => FLOAT.with(Class::Divide),
        0x28..=0x2f => FLOAT.with(Class::MultiplyAdd),
        // vfwadd, vfwsub, and of a wide operand; vfwmul
        0x30 | 0x32 | 0x34 | 0x36 | 0x38 => FLOAT.with(Class::Widening),
        // vfwmaccbf16, vfwmacc to vfwnmsac
        0x3b..=0x3f => FLOAT.with(Class::Widening).with(Class::MultiplyAdd),
        _ => Classes::NONE,
    }
}

/// vfcvt, vfwcvt and vfncvt, and those of BF16.
fn float_conversion(kind: u32) -> Classes {
    match kind {
        0x00..=0x03 | 0x06 | 0x07 | 0x10..=0x17 => FLOAT,
        0x08..=0x0c | 0x0e | 0x0f => FLOAT.with(Class::Widening),
        0x0d => FLOAT.with(Class::Widening).with(Class::Convert),
        0x1d => FLOAT.with(Class::Convert),
        _ => Classes::NONE,
    }
}

/// vsetvli, vsetivli, vsetvl
fn configuration(word: u32) -> Classes {
    let is_instruction = !flag(word, 31) || field(word, 30, 2) == 0b11 || field(word, 25, 7) == 0b1000000;
    if is_instruction { VECTOR } else { Classes::NONE }
}

/// The instructions of Zvk, which are never masked.
pub(super) fn cryptography(word: u32) -> Instruction {
    let is_operation = match (operation(word), first(word)) {
        // vsm3me, vsm4k, vaeskf1; vaeskf2, vsm3c, vghsh, vsha2ms, vsha2ch, vsha2cl
        (0x20..=0x22 | 0x2a..=0x2f, _) => true,
        // vaesdm, vaesdf, vaesem, vaesef, vsm4r, vgmul
        (0x28, 0..=3 | 0x10 | 0x11) => true,
        // The same with a scalar, but for vgmul, and vaesz
        (0x29, 0..=3 | 7 | 0x10) => true,
        _ => false,
    };
    Instruction::accesses(Access { vector: true, ..Access::NOTHING }, CRYPTO)
        .when(is_operation && flag(word, 25) && funct3(word) == 0b010)
}
