//! Destination registers of A64. Unallocated encodings never complete, so their result does not matter.

use super::access::access;
use crate::access::Operation;
use crate::bits::{field, flag};
use crate::destinations::Destinations;

const NONE: Destinations = Destinations::NONE;
const STATUS: Destinations = Destinations::STATUS;
const LINK: u32 = 30;

/// The registers that the instruction writes.
pub(crate) fn destinations(word: u32) -> Destinations {
    match field(word, 25, 4) {
        0b1000 | 0b1001 => with_immediate(word),
        0b1010 | 0b1011 => branch_or_system(word),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => load_or_store(word),
        0b0101 | 0b1101 => with_registers(word),
        0b0111 | 0b1111 => float(word),
        _ => NONE,
    }
}

/// Register 31 is always zero.
const fn x(number: u32) -> Destinations {
    if number == 31 { NONE } else { Destinations::one(number) }
}

/// Register 31 is the stack pointer.
const fn sp(number: u32) -> Destinations {
    Destinations::one(number)
}

const fn v(number: u32) -> Destinations {
    Destinations::vectors(number, 1)
}

/// Rd, and Rt, are the lowest bits.
const fn rd(word: u32) -> u32 {
    word & 31
}

const fn rn(word: u32) -> u32 {
    field(word, 5, 5)
}

const fn rs(word: u32) -> u32 {
    field(word, 16, 5)
}

const fn rt2(word: u32) -> u32 {
    field(word, 10, 5)
}

/// Instructions that set flags do not write the stack pointer.
const fn flags_or_sp(word: u32, sets_flags: bool) -> Destinations {
    if sets_flags { x(rd(word)).and(STATUS) } else { sp(rd(word)) }
}

fn with_immediate(word: u32) -> Destinations {
    match field(word, 23, 3) {
        // ADD, SUB
        0b010 => flags_or_sp(word, flag(word, 29)),
        // ADDG, SUBG; else SMAX and its kin
        0b011 if !flag(word, 22) => sp(rd(word)),
        // AND, ORR, EOR, ANDS
        0b100 => flags_or_sp(word, field(word, 29, 2) == 0b11),
        // EXTR; with other bits, AUTIASPPC
        0b111 if field(word, 29, 2) != 0 => NONE,
        // ADR, ADRP, MOVN, MOVZ, MOVK, SBFM, BFM, UBFM
        _ => x(rd(word)),
    }
}

fn branch_or_system(word: u32) -> Destinations {
    match word {
        // BL; BLR, BLRAAZ, BLRABZ; BLRAA, BLRAB
        _ if word >> 26 == 0b100101 => x(LINK),
        _ if word >> 25 == 0b1101011 && matches!(field(word, 21, 4), 0b0001 | 0b1001) => x(LINK),
        _ if word >> 22 == 0b11_0101_0100 => system(word),
        _ => NONE,
    }
}

fn system(word: u32) -> Destinations {
    match word {
        // MRS, SYSL
        _ if flag(word, 21) && field(word, 19, 2) != 0 => x(rd(word)),
        // MSR SPSel, by a number or a register: another stack pointer is in use.
        _ if word & 0xffff_f0ff == 0xd500_40bf => sp(31).and(STATUS),
        _ if word & !0x1f == 0xd518_4200 => sp(31).and(STATUS),
        // MSR NZCV, DAIF
        _ if matches!(word & !0x1f, 0xd51b_4200 | 0xd51b_4220) => STATUS,
        // MSR SVCRSM and its like: SMSTART, SMSTOP
        _ if word & 0xffff_f0ff == 0xd503_407f => NONE,
        // MSR of a number to a field of PSTATE; CFINV, XAFLAG, AXFLAG
        _ if word & 0xfff8_f01f == 0xd500_401f => STATUS,
        _ if word & 0xffff_f01f == 0xd503_201f => hint(field(word, 5, 7)),
        _ => NONE,
    }
}

/// Hints that sign and authenticate addresses.
fn hint(number: u32) -> Destinations {
    match number {
        // PACIA1716, PACIB1716, AUTIA1716, AUTIB1716
        8 | 10 | 12 | 14 => x(17),
        // XPACLRI; PACIAZ to AUTIBSP
        7 | 24..=31 => x(LINK),
        // CHKFEAT
        40 => x(16),
        _ => NONE,
    }
}

fn with_registers(word: u32) -> Destinations {
    if !flag(word, 28) {
        return match (flag(word, 24), flag(word, 21)) {
            (false, _) if field(word, 29, 2) == 0b11 => x(rd(word)).and(STATUS),
            (true, false) if flag(word, 29) => x(rd(word)).and(STATUS),
            // With an extended register.
            (true, true) => flags_or_sp(word, flag(word, 29)),
            _ => x(rd(word)),
        };
    }
    match field(word, 21, 4) {
        0b0000 => carry(word),
        // CCMN, CCMP
        0b0010 => STATUS,
        // CSEL and its kin; of one source
        0b0100 => x(rd(word)),
        0b0110 if flag(word, 30) => x(rd(word)),
        0b0110 => of_two_sources(word),
        0b1000..=0b1111 => x(rd(word)),
        _ => NONE,
    }
}

/// ADC, SBC; RMIF, SETF8, SETF16.
fn carry(word: u32) -> Destinations {
    match (field(word, 10, 6), flag(word, 29)) {
        (0, sets_flags) => Destinations { status: sets_flags, ..x(rd(word)) },
        (rest, true) if rest & 0b1_1111 == 0b0_0001 || rest & 0b1111 == 0b0010 => STATUS,
        _ => NONE,
    }
}

fn of_two_sources(word: u32) -> Destinations {
    match field(word, 10, 6) {
        // SUBP, SUBPS
        0 => Destinations { status: flag(word, 29), ..x(rd(word)) },
        // IRG
        0b000100 => sp(rd(word)),
        _ => x(rd(word)),
    }
}

fn float(word: u32) -> Destinations {
    let is_scalar = word & 0x5f00_0000 == 0x1e00_0000;
    // UMOV, SMOV
    let is_move = word & 0xbfe0_8400 == 0x0e00_0400 && matches!(field(word, 11, 4), 0b0101 | 0b0111);
    match (is_scalar, flag(word, 21)) {
        (true, false) => conversion(word, field(word, 16, 3)),
        (true, true) if field(word, 10, 6) == 0 => conversion(word, field(word, 16, 3)),
        // FCMP, FCMPE; FCCMP, FCCMPE
        (true, true) if field(word, 10, 4) == 0b1000 || field(word, 10, 2) == 0b01 => STATUS,
        _ if is_move => x(rd(word)),
        _ => v(rd(word)),
    }
}

/// Between general and floating-point registers.
fn conversion(word: u32, opcode: u32) -> Destinations {
    match (opcode, field(word, 19, 2)) {
        // FJCVTZS
        (0b110, 0b11) => x(rd(word)).and(STATUS),
        // FCVTZS and its kin, FMOV
        (0b000 | 0b001 | 0b100 | 0b101 | 0b110, _) => x(rd(word)),
        _ => v(rd(word)),
    }
}

fn load_or_store(word: u32) -> Destinations {
    let operation = access(word).operation;
    if !operation.is_memory_access() {
        return NONE;
    }
    let is_load = operation == Operation::Load;
    let loaded = |number: u32| match (is_load, flag(word, 26)) {
        (false, _) => NONE,
        (true, true) => v(number),
        (true, false) => x(number),
    };
    match (field(word, 27, 3), flag(word, 26), flag(word, 24)) {
        (0b001, true, is_single) => structures(word, is_single, is_load),
        (0b001, false, _) => exclusive(word, operation),
        (0b011, _, false) => loaded(rd(word)),
        (0b011, is_simd, true) => of_the_rest(word, operation, is_simd),
        (0b101, _, _) => loaded(rd(word)).and(loaded(rt2(word))).and(moved(word, flag(word, 23))),
        (_, _, true) => loaded(rd(word)),
        (_, is_simd, false) => single(word, operation, is_simd, loaded(rd(word))),
    }
}

/// The base, if that is moved.
fn moved(word: u32, is_moved: bool) -> Destinations {
    if is_moved { sp(rn(word)) } else { NONE }
}

fn structures(word: u32, is_single: bool, is_load: bool) -> Destinations {
    let count = match field(word, 12, 4) {
        _ if is_single => 2 * field(word, 13, 1) + field(word, 21, 1) + 1,
        0b0000 | 0b0010 => 4,
        0b0100 | 0b0110 => 3,
        0b1000 | 0b1010 => 2,
        _ => 1,
    };
    let loaded = if is_load { Destinations::vectors(rd(word), count) } else { NONE };
    loaded.and(moved(word, flag(word, 23)))
}

/// LDXR, STXR and their pairs, LDAR, STLR, CAS, CASP, and the unprivileged ones.
fn exclusive(word: u32, operation: Operation) -> Destinations {
    let is_ordered = flag(word, 23) && !flag(word, 21) && !flag(word, 24);
    // Two registers of up to 64 bits each; a CASP has none in the place of the second.
    let is_pair = flag(word, 21) && !flag(word, 23);
    match operation {
        Operation::Load if is_pair => x(rd(word)).and(x(rt2(word))),
        Operation::Load => x(rd(word)),
        Operation::LoadStore if is_pair || (flag(word, 24) && word >> 30 == 0b01) => x(rs(word)).and(x(rs(word) | 1)),
        Operation::LoadStore => x(rs(word)),
        // The status: whether it stored.
        Operation::Store if !is_ordered => x(rs(word)),
        _ => NONE,
    }
}

/// LDAPUR and STLUR, fills and copies, tags.
fn of_the_rest(word: u32, operation: Operation, is_simd: bool) -> Destinations {
    match operation {
        Operation::Copy { .. } => x(rd(word)).and(x(rn(word))).and(x(rs(word))).and(STATUS),
        Operation::Set { .. } => x(rd(word)).and(x(rn(word))).and(STATUS),
        Operation::TagLoad => x(rd(word)),
        Operation::TagStore | Operation::TagAndDataStore => moved(word, flag(word, 10)),
        Operation::Load if is_simd => v(rd(word)),
        Operation::Load if field(word, 10, 2) == 0 => x(rd(word)),
        _ => NONE,
    }
}

/// One register, by an offset that is not scaled or in a register; atomics.
fn single(word: u32, operation: Operation, is_simd: bool, loaded: Destinations) -> Destinations {
    let (is_other, addressing) = (flag(word, 21), field(word, 10, 2));
    match (is_other, addressing) {
        (false, _) => loaded.and(moved(word, flag(word, 10))),
        // LDRAA, LDRAB
        (true, 0b01 | 0b11) => loaded.and(moved(word, flag(word, 11))),
        (true, 0b00) if is_simd => NONE,
        // LD64B
        (true, 0b00) if field(word, 12, 4) == 0b1101 => Destinations { general: 0xff << rd(word), ..NONE },
        // LDADD and its kin, SWP; of those that check translation tables, nothing.
        (true, 0b00) if operation == Operation::LoadStore && field(word, 12, 4) > 0b1000 => NONE,
        (true, 0b00) if operation == Operation::LoadStore => x(rd(word)),
        // ST64BV, ST64BV0
        (true, 0b00) if operation == Operation::Store && rs(word) != 31 => x(rs(word)),
        _ => loaded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_those_of_the_architecture() {
        let v = |first, count| Destinations::vectors(first, count);
        let xs = |numbers: &[u32]| numbers.iter().fold(NONE, |all, number| all.and(Destinations::one(*number)));
        let rows: &[(&str, u32, Destinations)] = &[
            ("adr x3, .", 0x1000_0003, xs(&[3])),
            ("add x1, x2, #1", 0x9100_0441, xs(&[1])),
            ("sub sp, sp, #16", 0xd100_43ff, xs(&[31])),
            ("subs x1, x2, #1", 0xf100_0441, xs(&[1]).and(STATUS)),
            ("cmp x2, #1", 0xf100_045f, STATUS),
            ("and sp, x1, #-16", 0x927c_ec3f, xs(&[31])),
            ("tst x1, #1", 0xf240_003f, STATUS),
            ("movz w5, #1", 0x5280_0025, xs(&[5])),
            ("lsl x0, x1, #2", 0xd37e_f420, xs(&[0])),
            ("ror x0, x1, #1", 0x93c1_0420, xs(&[0])),
            ("addg x0, x1, #16, #1", 0x9181_0420, xs(&[0])),
            ("smax x0, x1, #3", 0x91c0_0c20, xs(&[0])),
            ("b .", 0x1400_0000, NONE),
            ("bl .", 0x9400_0000, xs(&[30])),
            ("blr x8", 0xd63f_0100, xs(&[30])),
            ("blraa x8, x9", 0xd73f_0909, xs(&[30])),
            ("br x8", 0xd61f_0100, NONE),
            ("ret", 0xd65f_03c0, NONE),
            ("cbz x0, .", 0xb400_0000, NONE),
            ("svc #0", 0xd400_0001, NONE),
            ("mrs x3, tpidr_el0", 0xd53b_d043, xs(&[3])),
            ("msr tpidr_el0, x3", 0xd51b_d043, NONE),
            ("msr nzcv, x3", 0xd51b_4203, STATUS),
            ("msr daifset, #2", 0xd503_42df, STATUS),
            ("msr spsel, #1", 0xd500_41bf, xs(&[31]).and(STATUS)),
            ("smstart", 0xd503_477f, NONE),
            ("nop", 0xd503_201f, NONE),
            ("dmb ish", 0xd503_3bbf, NONE),
            ("paciasp", 0xd503_233f, xs(&[30])),
            ("autia1716", 0xd503_219f, xs(&[17])),
            ("bti c", 0xd503_245f, NONE),
            ("orr x0, xzr, x1", 0xaa01_03e0, xs(&[0])),
            ("ands x0, x1, x2", 0xea02_0020, xs(&[0]).and(STATUS)),
            ("add x0, x1, x2", 0x8b02_0020, xs(&[0])),
            ("cmp x1, x2", 0xeb02_003f, STATUS),
            ("add sp, sp, x1", 0x8b21_63ff, xs(&[31])),
            ("cmp sp, x1", 0xeb21_63ff, STATUS),
            ("adcs x0, x1, x2", 0xba02_0020, xs(&[0]).and(STATUS)),
            ("sbc x0, x1, x2", 0xda02_0020, xs(&[0])),
            ("rmif x1, #0, #15", 0xba00_042f, STATUS),
            ("setf8 w1", 0x3a00_082d, STATUS),
            ("ccmp x1, x2, #0, eq", 0xfa42_0020, STATUS),
            ("csel x0, x1, x2, eq", 0x9a82_0020, xs(&[0])),
            ("rev x0, x1", 0xdac0_0c20, xs(&[0])),
            ("udiv x0, x1, x2", 0x9ac2_0820, xs(&[0])),
            ("irg sp, x0", 0x9adf_101f, xs(&[31])),
            ("subps x0, x1, x2", 0xbac2_0020, xs(&[0]).and(STATUS)),
            ("madd x0, x1, x2, x3", 0x9b02_0c20, xs(&[0])),
            ("ldr x0, [x1]", 0xf940_0020, xs(&[0])),
            ("str x0, [x1]", 0xf900_0020, NONE),
            ("ldrsw x0, [x1]", 0xb980_0020, xs(&[0])),
            ("ldr x0, [x1], #8", 0xf840_8420, xs(&[0, 1])),
            ("str x0, [sp, #-16]!", 0xf81f_0fe0, xs(&[31])),
            ("ldur x0, [x1, #1]", 0xf840_1020, xs(&[0])),
            ("ldtr x0, [x1]", 0xf840_0820, xs(&[0])),
            ("ldr x0, [x1, x2]", 0xf862_6820, xs(&[0])),
            ("str x0, [x1, x2]", 0xf822_6820, NONE),
            ("prfm pldl1keep, [x1]", 0xf980_0020, NONE),
            ("ldr x0, .", 0x5800_0000, xs(&[0])),
            ("ldr q1, .", 0x9c00_0001, v(1, 1)),
            ("ldr q0, [x1], #16", 0x3cc1_0420, v(0, 1).and(xs(&[1]))),
            ("str d0, [x1]", 0xfd00_0020, NONE),
            ("ldp x29, x30, [sp], #16", 0xa8c1_7bfd, xs(&[29, 30, 31])),
            ("stp x29, x30, [sp, #-16]!", 0xa9bf_7bfd, xs(&[31])),
            ("ldp x0, x1, [x2]", 0xa940_0440, xs(&[0, 1])),
            ("ldnp q0, q1, [x2]", 0xac40_0440, v(0, 2)),
            ("ldpsw x0, x1, [x2, #8]!", 0x69c1_0440, xs(&[0, 1, 2])),
            ("ldxr x0, [x1]", 0xc85f_7c20, xs(&[0])),
            ("stxr w2, x0, [x1]", 0xc802_7c20, xs(&[2])),
            ("ldxp x0, x3, [x1]", 0xc87f_0c20, xs(&[0, 3])),
            ("stxp w2, x0, x3, [x1]", 0xc822_0c20, xs(&[2])),
            ("ldar x0, [x1]", 0xc8df_fc20, xs(&[0])),
            ("stlr x0, [x1]", 0xc89f_fc20, NONE),
            ("cas x2, x3, [x1]", 0xc8a2_7c23, xs(&[2])),
            ("casp x2, x3, x4, x5, [x1]", 0x4822_7c24, xs(&[2, 3])),
            ("ldadd x2, x0, [x1]", 0xf822_0020, xs(&[0])),
            ("stadd x2, [x1]", 0xf822_003f, NONE),
            ("swp x2, x0, [x1]", 0xf822_8020, xs(&[0])),
            ("ldapr x0, [x1]", 0xf8bf_c020, xs(&[0])),
            ("ldapur x0, [x1]", 0xd940_0020, xs(&[0])),
            ("stlur x0, [x1]", 0xd900_0020, NONE),
            ("ldraa x0, [x1, #8]!", 0xf820_1c20, xs(&[0, 1])),
            ("ldg x0, [x1]", 0xd960_0020, xs(&[0])),
            ("stg x0, [x1], #16", 0xd920_1420, xs(&[1])),
            ("stg x0, [x1]", 0xd920_0820, NONE),
            ("cpyfp [x0]!, [x1]!, x2!", 0x1901_0440, xs(&[0, 1, 2]).and(STATUS)),
            ("setp [x0]!, x1!, x2", 0x19c2_0420, xs(&[0, 1]).and(STATUS)),
            ("ld1 {v0.16b}, [x1], #16", 0x4cdf_7020, v(0, 1).and(xs(&[1]))),
            ("ld4 {v30.4s, v31.4s, v0.4s, v1.4s}, [x1]", 0x4c40_083e, v(30, 4)),
            ("st2 {v0.4s, v1.4s}, [x1], x2", 0x4c82_8820, xs(&[1])),
            ("ld1r {v5.8b}, [x1]", 0x0d40_c025, v(5, 1)),
            ("ld3 {v0.b, v1.b, v2.b}[0], [x1]", 0x0d40_2020, v(0, 3)),
            ("fadd d0, d1, d2", 0x1e62_2820, v(0, 1)),
            ("fcmp d0, d1", 0x1e61_2000, STATUS),
            ("fccmp d0, d1, #0, eq", 0x1e61_0400, STATUS),
            ("fcsel d0, d1, d2, eq", 0x1e62_0c20, v(0, 1)),
            ("fmov d0, #1.0", 0x1e6e_1000, v(0, 1)),
            ("fmadd d0, d1, d2, d3", 0x1f42_0c20, v(0, 1)),
            ("fmov x0, d1", 0x9e66_0020, xs(&[0])),
            ("fmov d0, x1", 0x9e67_0020, v(0, 1)),
            ("fmov x0, v1.d[1]", 0x9eae_0020, xs(&[0])),
            ("fcvtzs x0, d1", 0x9e78_0020, xs(&[0])),
            ("fcvtas w0, s1", 0x1e24_0020, xs(&[0])),
            ("fcvtzs x0, d1, #4", 0x9e58_f020, xs(&[0])),
            ("scvtf d0, x1", 0x9e62_0020, v(0, 1)),
            ("scvtf d0, x1, #4", 0x9e42_f020, v(0, 1)),
            ("fjcvtzs w0, d1", 0x1e7e_0020, xs(&[0]).and(STATUS)),
            ("umov w0, v1.b[0]", 0x0e01_3c20, xs(&[0])),
            ("umov x0, v1.d[1]", 0x4e18_3c20, xs(&[0])),
            ("smov x0, v1.h[0]", 0x4e02_2c20, xs(&[0])),
            ("dup v0.4s, w1", 0x4e04_0c20, v(0, 1)),
            ("ins v0.d[1], x1", 0x4e18_1c20, v(0, 1)),
            ("mov v0.s[0], v1.s[3]", 0x6e04_6420, v(0, 1)),
            ("add v0.4s, v1.4s, v2.4s", 0x4ea2_8420, v(0, 1)),
            ("cmeq d0, d1, #0", 0x5ee0_9820, v(0, 1)),
            ("sha256h q0, q1, v2.4s", 0x5e02_4020, v(0, 1)),
            ("eor3 v0.16b, v1.16b, v2.16b, v3.16b", 0xce02_0c20, v(0, 1)),
            ("add z0.d, z1.d, z2.d", 0x04e2_0020, NONE),
            ("udf #0", 0, NONE),
        ];
        for (name, word, expected) in rows {
            assert_eq!(destinations(*word), *expected, "{name}");
        }
    }
}
