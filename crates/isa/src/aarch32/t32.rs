//! T32 control flow: branches, SVC, barriers, waits and IT blocks.
//!
//! (address, halfword or pair) ─▶ **control flow**
//!
//! Covers the profiles A and M, whose encodings do not collide. The caller tracks which instructions an IT block makes
//! conditional. Of exception generation only SVC is decoded. Specification: Arm DDI 0487, "T32 instruction set encoding", and DDI 0553 (Armv8-M).

use crate::Isa;
use crate::bits::signed;
use crate::control_flow::{ControlFlow, Decoded, Row, lookup, row};

/// The control flow of the 16-bit instruction at `address`.
pub(crate) fn narrow(address: u64, halfword: u16) -> Decoded {
    let bits = u32::from(halfword);
    let decoded = match bits >> 8 {
        // B<cond>; the last two conditions are UDF and SVC
        0xdf => Decoded::of(ControlFlow::SupervisorCall),
        0xd0..=0xdd => branch(address, signed(bits, 8) << 1).conditionally(),
        // B
        0xe0..=0xe7 => branch(address, signed(bits, 11) << 1),
        // CBZ, CBNZ
        0xb1 | 0xb3 | 0xb9 | 0xbb => branch(address, i64::from(bits >> 3 & 0x40 | bits >> 2 & 0x3e)).conditionally(),
        // IT: the lowest set bit of the mask ends the block.
        0xbf if bits & 0xf != 0 => Decoded { it: 4 - (bits & 0xf).trailing_zeros() as u8, ..Decoded::FALL_THROUGH },
        0x44 | 0x46 | 0x47 | 0xbd | 0xbf => lookup(&NARROW, bits),
        _ => Decoded::FALL_THROUGH,
    };
    Decoded { length: 2, ..decoded }
}

/// The control flow of the 32-bit instruction at `address`, its first halfword being the high one.
pub(crate) fn wide(address: u64, word: u32) -> Decoded {
    match word >> 24 {
        0xe8 | 0xe9 => load_multiple(word),
        0xee => lookup(&COPROCESSOR, word),
        0xf0..=0xf7 if word & 0x8000 != 0 => branch_or_control(address, word),
        0xf8 => lookup(&LOADS, word),
        0xfb => lookup(&AUTHENTICATED, word),
        _ => Decoded::FALL_THROUGH,
    }
}

/// The number of the stack pointer.
const SP: u32 = 13;
/// The number of the program counter.
const PC: u32 = 15;

const NARROW: [Row; 9] = [
    row(0xff00, 0xbd00, Decoded::RETURN),        // POP {.., PC}
    row(0xfffb, 0x4770, Decoded::RETURN),        // BX LR, BXNS LR
    row(0xff83, 0x4700, Decoded::INDIRECT),      // BX, BXNS
    row(0xff83, 0x4780, Decoded::INDIRECT_CALL), // BLX, BLXNS
    row(0xffff, 0x46f7, Decoded::RETURN),        // MOV PC, LR
    row(0xff87, 0x4687, Decoded::INDIRECT),      // MOV PC, Rm
    row(0xff87, 0x4487, Decoded::INDIRECT),      // ADD PC, Rm
    row(0xffff, 0xbf20, Decoded::WFX),           // WFE
    row(0xffff, 0xbf30, Decoded::WFX),           // WFI
];

/// LDM with the PC in the list, and its neighbours RFE, TBB and TBH.
fn load_multiple(word: u32) -> Decoded {
    let decrements_before = word & 0xffd0_0000 == 0xe910_0000;
    let increments_after = word & 0xffd0_0000 == 0xe890_0000;
    let base = word >> 16 & 0xf;
    match base {
        _ if !(decrements_before || increments_after) => lookup(&NEAR_LOAD_MULTIPLE, word),
        // With the PC as base it is CLRM, whose highest bit means the flags.
        PC => Decoded::FALL_THROUGH,
        _ if word & 0x8000 == 0 => Decoded::FALL_THROUGH,
        SP => Decoded::RETURN,
        _ => Decoded::INDIRECT,
    }
}

const NEAR_LOAD_MULTIPLE: [Row; 3] = [
    row(0xfff0_ffe0, 0xe8d0_f000, Decoded::INDIRECT),         // TBB, TBH
    row(0xffd0_ffff, 0xe810_c000, Decoded::EXCEPTION_RETURN), // RFEDB
    row(0xffd0_ffff, 0xe990_c000, Decoded::EXCEPTION_RETURN), // RFEIA
];

/// MCR p15, 0, Rt, c7: how barriers were spelled before they had encodings. Trace units take them for such.
const COPROCESSOR: [Row; 3] = [
    row(0xffff_0fff, 0xee07_0f95, Decoded::ISB),          // c5, 4
    row(0xffff_0fff, 0xee07_0f9a, Decoded::DATA_BARRIER), // c10, 4: DSB
    row(0xffff_0fff, 0xee07_0fba, Decoded::DATA_BARRIER), // c10, 5: DMB
];

const AUTHENTICATED: [Row; 2] = [
    row(0xffff_0ff0, 0xfb5e_0f10, Decoded::RETURN), // BXAUT with LR as target
    row(0xfff0_0ff0, 0xfb50_0f10, Decoded::INDIRECT), // BXAUT
];

/// LDR with the PC as destination.
const LOADS: [Row; 8] = [
    row(0xff7f_f000, 0xf85f_f000, Decoded::INDIRECT), // LDR PC, label
    row(0xffff_f000, 0xf8dd_f000, Decoded::RETURN),   // LDR PC, [SP, #number]
    row(0xfff0_f000, 0xf8d0_f000, Decoded::INDIRECT), // LDR PC, [Rn, #number]
    row(0xffff_f900, 0xf85d_f900, Decoded::RETURN),   // LDR PC, [SP], #number and LDR PC, [SP, #number]!
    row(0xfff0_f900, 0xf850_f900, Decoded::INDIRECT), // LDR PC, [Rn], #number and LDR PC, [Rn, #number]!
    row(0xffff_ff00, 0xf85d_fc00, Decoded::RETURN),   // LDR PC, [SP, #-number]
    row(0xfff0_ff00, 0xf850_fc00, Decoded::INDIRECT), // LDR PC, [Rn, #-number]
    row(0xfff0_ffc0, 0xf850_f000, Decoded::INDIRECT), // LDR PC, [Rn, Rm, LSL #number]
];

/// Everything that starts with 0b11110 and has the highest bit of its second halfword set.
fn branch_or_control(address: u64, word: u32) -> Decoded {
    match word & 0x5000 {
        // The control instructions are encoded as the conditions AL and NV.
        0x0000 if word & 0x0380_0000 == 0x0380_0000 => lookup(&CONTROL, word),
        // B<cond>
        0x0000 => branch(address, condition_offset(word)).conditionally(),
        // B
        0x1000 => branch(address, offset(word)),
        // BL
        0x5000 => Decoded { link: true, ..branch(address, offset(word)) },
        // BLX
        _ if word & 1 == 0 => Decoded { link: true, ..to_a32(address, word) },
        _ => low_overhead_loop(address, word),
    }
}

const CONTROL: [Row; 9] = [
    row(0xffff_fff0, 0xf3bf_8f40, Decoded::DATA_BARRIER),     // DSB
    row(0xffff_fff0, 0xf3bf_8f50, Decoded::DATA_BARRIER),     // DMB
    row(0xffff_ff00, 0xf3de_8f00, Decoded::EXCEPTION_RETURN), // SUBS PC, LR, #number; ERET is the one with zero
    row(0xfff0_ffff, 0xf3c0_8f00, Decoded::INDIRECT),         // BXJ
    row(0xffff_fff0, 0xf3bf_8f60, Decoded::ISB),              // ISB
    row(0xffff_ffff, 0xf3bf_8f0f, Decoded::LEAVE_THUMB_EE),   // LEAVEX
    row(0xffff_ffff, 0xf3bf_8f1f, Decoded::ENTER_THUMB_EE),   // ENTERX
    row(0xffff_ffff, 0xf3af_8002, Decoded::WFX),              // WFE
    row(0xffff_ffff, 0xf3af_8003, Decoded::WFX),              // WFI
];

/// The loops of Armv8.1-M, in the space of a BLX to an odd halfword.
///
/// WLS skips the loop if its count is zero, LE branches back while it is not. The count that they keep in LR is no return
/// address. DLS and LCTP do not branch. Neither do the branch futures (BF, BFX, BFL, BFLX, BFCSEL): they announce that a
/// branch will happen elsewhere, an implementation may ignore them, and that branch is in the code as well.
fn low_overhead_loop(address: u64, word: u32) -> Decoded {
    let distance = i64::from((word & 0x7fe) << 1 | word >> 10 & 0b10);
    match word >> 16 {
        _ if word & 0x2000 != 0 => Decoded::FALL_THROUGH,
        // LE LR and LETP LR
        0xf00f | 0xf01f => branch(address, -distance).conditionally(),
        // LE without LR always branches back.
        0xf02f => branch(address, -distance),
        0xf03f | 0xf04f => Decoded::FALL_THROUGH,
        // WLSTP for bytes to doublewords, then WLS
        0xf000..=0xf04e => branch(address, distance).conditionally(),
        _ => Decoded::FALL_THROUGH,
    }
}

/// A branch by `offset` bytes: the PC reads as four bytes ahead.
fn branch(address: u64, offset: i64) -> Decoded {
    Decoded::direct(Isa::T32, (address & !1).wrapping_add(4).wrapping_add_signed(offset) & 0xffff_ffff)
}

/// BLX counts from the word that holds the PC.
fn to_a32(address: u64, word: u32) -> Decoded {
    let pc = address.wrapping_add(4) & !0b11;
    Decoded::direct(Isa::A32, pc.wrapping_add_signed(offset(word)) & 0xffff_ffff)
}

/// The offset of B, BL and BLX. Bits 13 and 11 are stored so that short offsets look as they did before Armv6T2.
fn offset(word: u32) -> i64 {
    let sign = word >> 26 & 1;
    let first = !(word >> 13 ^ sign) & 1;
    let second = !(word >> 11 ^ sign) & 1;
    signed(sign << 24 | first << 23 | second << 22 | (word >> 16 & 0x3ff) << 12 | (word & 0x7ff) << 1, 25)
}

/// The offset of B<cond>, in which those two bits are stored plainly, the other way round.
fn condition_offset(word: u32) -> i64 {
    let sign = word >> 26 & 1;
    let first = word >> 11 & 1;
    let second = word >> 13 & 1;
    signed(sign << 20 | first << 19 | second << 18 | (word >> 16 & 0x3f) << 12 | (word & 0x7ff) << 1, 21)
}
