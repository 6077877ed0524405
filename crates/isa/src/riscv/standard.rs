//! The instructions of four bytes: bits 2 to 6 select the family, `funct3` and `funct7` the instruction.
//!
//! (RV32 or RV64, address, word) ─▶ **instruction**
//!
//! Integers, branches and accesses are here; floating point, vectors and system instructions have files of their own.
//! Specification: The RISC-V Instruction Set Manual, volume I, "RV32/64G Instruction Set Listings", and the extensions.

use super::instruction::{
    ARITH, FLOAT, Instruction, LOAD, NON_TEMPORAL, STORE, branch, funct3, funct7, jump, jump_by_register, rd, rs1, rs2,
};
use super::{float, system, vector};
use crate::Isa;
use crate::access::{Access, Operation, direction};
use crate::bits::{field, flag, signed};
use crate::class::{Class, Classes};

const MULTIPLY: Classes = Classes::of(&[Class::Int, Class::Multiply]);
const DIVIDE: Classes = Classes::of(&[Class::Int, Class::Divide]);

/// Major opcodes: bits 2 to 6, under the names that the manual has for them.
mod major {
    pub(super) const LOAD: u32 = 0x00;
    pub(super) const LOAD_FP: u32 = 0x01;
    pub(super) const MISC_MEM: u32 = 0x03;
    pub(super) const OP_IMM: u32 = 0x04;
    pub(super) const AUIPC: u32 = 0x05;
    pub(super) const OP_IMM_32: u32 = 0x06;
    pub(super) const STORE: u32 = 0x08;
    pub(super) const STORE_FP: u32 = 0x09;
    pub(super) const AMO: u32 = 0x0b;
    pub(super) const OP: u32 = 0x0c;
    pub(super) const LUI: u32 = 0x0d;
    pub(super) const OP_32: u32 = 0x0e;
    pub(super) const MADD: u32 = 0x10;
    pub(super) const NMADD: u32 = 0x13;
    pub(super) const OP_FP: u32 = 0x14;
    pub(super) const OP_V: u32 = 0x15;
    pub(super) const BRANCH: u32 = 0x18;
    pub(super) const JALR: u32 = 0x19;
    pub(super) const JAL: u32 = 0x1b;
    pub(super) const SYSTEM: u32 = 0x1c;
    /// The vector cryptography instructions.
    pub(super) const OP_VE: u32 = 0x1d;
}

/// Decodes the word at `address`.
pub(super) fn decode(isa: Isa, address: u64, word: u32) -> Instruction {
    match field(word, 2, 5) {
        major::LOAD => load(isa, word),
        major::LOAD_FP => float_or_vector(isa, word, true),
        major::MISC_MEM => system::ordering(word),
        major::OP_IMM => op_imm(isa, word),
        major::AUIPC => Instruction::computes(ARITH.with(Class::Pc)),
        major::OP_IMM_32 => Instruction::computes(op_imm_32(word)).when(isa == Isa::Rv64),
        major::STORE => store(isa, word),
        major::STORE_FP => float_or_vector(isa, word, false),
        major::AMO => atomic(isa, word),
        major::OP => Instruction::computes(op(isa, word)),
        major::LUI => Instruction::computes(ARITH),
        major::OP_32 => Instruction::computes(op_32(word)).when(isa == Isa::Rv64),
        // MADD, MSUB, NMSUB, NMADD
        major::MADD..=major::NMADD => Instruction::computes(FLOAT.with(Class::MultiplyAdd)).when(float::rounds(word)),
        major::OP_FP => Instruction::computes(float::classes(isa, word)),
        major::OP_V => vector::computation(word),
        major::BRANCH => branch(isa, address, branch_offset(word)).when(!matches!(funct3(word), 2 | 3)),
        major::JALR => jump_by_register(rs1(word), rd(word)).when(funct3(word) == 0),
        major::JAL => jump(isa, address, jump_offset(word), rd(word)),
        major::SYSTEM => system::decode(isa, word),
        major::OP_VE => vector::cryptography(word),
        _ => Instruction::NONE,
    }
}

fn load(isa: Isa, word: u32) -> Instruction {
    let is_instruction = match funct3(word) {
        // ld; Zilsd on RV32: into an even/odd register pair, named by the even one
        0b011 => isa == Isa::Rv64 || !flag(word, 7),
        // lwu
        0b110 => isa == Isa::Rv64,
        0b111 => false,
        _ => true,
    };
    Instruction::accesses(Access::sized(Operation::Load, 1 << field(word, 12, 2)), LOAD).when(is_instruction)
}

fn store(isa: Isa, word: u32) -> Instruction {
    let is_instruction = match funct3(word) {
        // sd; Zilsd on RV32: from an even/odd register pair
        0b011 => isa == Isa::Rv64 || !flag(word, 20),
        size => size < 0b011,
    };
    Instruction::accesses(Access::sized(Operation::Store, 1 << field(word, 12, 2)), STORE).when(is_instruction)
}

/// flh, flw, fld, flq and their stores; the other widths are of vectors.
fn float_or_vector(isa: Isa, word: u32, is_load: bool) -> Instruction {
    let class = if is_load { Class::Load } else { Class::Store };
    match funct3(word) {
        size @ 1..=4 => Instruction::accesses(Access::sized(direction(is_load), 1 << size), FLOAT.with(class)),
        _ => vector::memory(isa, word, is_load),
    }
}

/// A, Zacas, Zabha, Zalasr, and ssamoswap of Zicfiss.
fn atomic(isa: Isa, word: u32) -> Instruction {
    let size = funct3(word);
    let has_size = size <= 2 || size == 3 && isa == Isa::Rv64;
    let is_at_least_word = size >= 2;
    let (acquires, releases) = (flag(word, 26), flag(word, 25));
    let atomic = |operation, class, is_instruction| {
        Instruction::accesses(Access::sized(operation, 1 << size), Classes::of(&[Class::Int, class, Class::Atomic]))
            .when(is_instruction)
    };
    match field(word, 27, 5) {
        // lr
        0b00010 => atomic(Operation::Load, Class::Load, has_size && is_at_least_word && rs2(word) == 0),
        // sc, which writes only if the reservation still holds
        0b00011 => {
            let store = atomic(Operation::Store, Class::Store, has_size && is_at_least_word);
            Instruction { access: Access { may_not_write: store.access.writes(), ..store.access }, ..store }
        }
        // amocas; operands as wide as two registers are in even/odd register pairs
        0b00101 => atomic(Operation::LoadStore, Class::Load, has_size || is_pair(isa, word)),
        // Zalasr: a load must have aq, a store must have rl
        0b00110 => atomic(Operation::Load, Class::Load, has_size && acquires && rs2(word) == 0),
        0b00111 => atomic(Operation::Store, Class::Store, has_size && releases && rd(word) == 0),
        // ssamoswap
        0b01001 => atomic(Operation::LoadStore, Class::Load, has_size && is_at_least_word),
        // amoswap, amoadd, amoxor, amoor, amoand, amomin, amomax, amominu, amomaxu
        0b00001 | 0b00000 | 0b00100 | 0b01000 | 0b01100 | 0b10000 | 0b10100 | 0b11000 | 0b11100 => {
            atomic(Operation::LoadStore, Class::Load, has_size)
        }
        _ => Instruction::NONE,
    }
}

/// amocas.d on RV32 and amocas.q on RV64.
fn is_pair(isa: Isa, word: u32) -> bool {
    let is_wide = funct3(word) == if isa == Isa::Rv64 { 4 } else { 3 };
    is_wide && !flag(word, 7) && !flag(word, 20)
}

/// OP-IMM: computes with a register and an immediate.
fn op_imm(isa: Isa, word: u32) -> Instruction {
    let immediate = field(word, 20, 12);
    let is_hint = rd(word) == 0;
    match funct3(word) {
        // mv
        0b000 if immediate == 0 && rs1(word) != 0 => Instruction::computes(ARITH.with(Class::Move)),
        0b001 if is_op_imm_funct3_1(isa, immediate) => Instruction::computes(ARITH),
        0b101 if is_op_imm_funct3_5(isa, immediate) => Instruction::computes(ARITH),
        0b001 | 0b101 => Instruction::NONE,
        // prefetch.i, prefetch.r, prefetch.w: an ori without a destination
        0b110 if is_hint && matches!(immediate & 0x1f, 0 | 1 | 3) => {
            Instruction::accesses(Access::of(Operation::Prefetch), Classes::of(&[Class::Prefetch, Class::Hint]))
        }
        _ => Instruction::computes(ARITH),
    }
}

/// Whether OP-IMM with `funct3` 001 and this immediate is allocated: shifts to the left, and what Zb* and Zk* encode in the
/// immediate.
fn is_op_imm_funct3_1(isa: Isa, immediate: u32) -> bool {
    let is_64_bit = isa == Isa::Rv64;
    match (immediate >> 6, immediate & 0x3f) {
        // slli, bseti, bclri, binvi
        (0b000000 | 0b001010 | 0b010010 | 0b011010, amount) => is_64_bit || amount < 32,
        // clz, ctz, cpop, sext.b, sext.h
        (0b011000, 0..=2 | 4 | 5) => true,
        // sha256sum0 to sha256sig1, sm3p0, sm3p1
        (0b000100, 0..=3 | 8 | 9) => true,
        // sha512sum0 to sha512sig1, aes64im, aes64ks1i
        (0b000100, 4..=7) | (0b001100, 0 | 0x10..=0x1a) => is_64_bit,
        // zip
        (0b000010, 0x0f) => !is_64_bit,
        _ => false,
    }
}

/// The same for `funct3` 101: shifts to the right, and what Zb* and Zk* encode in the immediate.
fn is_op_imm_funct3_5(isa: Isa, immediate: u32) -> bool {
    let is_64_bit = isa == Isa::Rv64;
    match (immediate >> 6, immediate & 0x3f) {
        // srli, srai, rori, bexti
        (0b000000 | 0b010000 | 0b011000 | 0b010010, amount) => is_64_bit || amount < 32,
        // orc.b, brev8
        (0b001010 | 0b011010, 0x07) => true,
        // rev8
        (0b011010, 0x38) => is_64_bit,
        (0b011010, 0x18) => !is_64_bit,
        // unzip
        (0b000010, 0x0f) => !is_64_bit,
        _ => false,
    }
}

/// OP-IMM-32: OP-IMM with results of 32 bits.
fn op_imm_32(word: u32) -> Classes {
    match (funct3(word), funct7(word), rs2(word)) {
        // addiw
        (0b000, ..) => ARITH,
        // slliw, slli.uw
        (0b001, 0b0000000 | 0b0000100 | 0b0000101, _) => ARITH,
        // clzw, ctzw, cpopw
        (0b001, 0b0110000, 0..=2) => ARITH,
        // srliw, sraiw, roriw
        (0b101, 0b0000000 | 0b0100000 | 0b0110000, _) => ARITH,
        _ => Classes::NONE,
    }
}

/// OP: computes with two registers.
fn op(isa: Isa, word: u32) -> Classes {
    // SM4 and the AES of RV32 have the byte select, bs, in bits 31:30, and only `funct5` below it.
    let funct5 = funct7(word) & 0b11111;
    match (funct7(word), funct3(word)) {
        // ntl.p1, ntl.pall, ntl.s1, ntl.all of Zihintntl: add x0, x0, x2 to x5
        (0b0000000, 0b000) if rd(word) == 0 && rs1(word) == 0 && matches!(rs2(word), 2..=5) => NON_TEMPORAL,
        (0b0000000, _) => ARITH,
        (0b0000001, 0..=3) => MULTIPLY,
        (0b0000001, _) => DIVIDE,
        // sub, xnor, sra, orn, andn
        (0b0100000, 0 | 4..=7) => ARITH,
        // pack, which is also zext.h, and packh
        (0b0000100, 4 | 7) => ARITH,
        // clmul, clmulr, clmulh, min, minu, max, maxu
        (0b0000101, 1..=7) => ARITH,
        // czero.eqz, czero.nez
        (0b0000111, 5 | 7) => ARITH,
        // sh1add, sh2add, sh3add
        (0b0010000, 2 | 4 | 6) => ARITH,
        // bset, xperm4, xperm8; bclr, bext; rol, ror; binv
        (0b0010100, 1 | 2 | 4) | (0b0100100 | 0b0110000, 1 | 5) | (0b0110100, 1) => ARITH,
        // sm4ed, sm4ks
        (_, 0) if matches!(funct5, 0b11000 | 0b11010) => ARITH,
        (_, 0) if is_aes_or_sha512(isa, word) => ARITH,
        _ => Classes::NONE,
    }
}

/// Whether it is an instruction of Zkne, Zknd or Zknh with two registers.
fn is_aes_or_sha512(isa: Isa, word: u32) -> bool {
    match isa {
        // aes64es, aes64esm, aes64ds, aes64dsm, aes64ks2
        Isa::Rv64 => matches!(funct7(word), 0x19 | 0x1b | 0x1d | 0x1f | 0x3f),
        // aes32esi, aes32esmi, aes32dsi, aes32dsmi, with any bs; sha512sum0r to sha512sig1h
        _ => {
            matches!(funct7(word) & 0b11111, 0x11 | 0x13 | 0x15 | 0x17)
                || matches!(funct7(word), 0x28..=0x2b | 0x2e | 0x2f)
        }
    }
}

/// OP-32: OP with results of 32 bits.
fn op_32(word: u32) -> Classes {
    match (funct7(word), funct3(word)) {
        // addw, sllw, srlw; subw, sraw
        (0b0000000, 0 | 1 | 5) | (0b0100000, 0 | 5) => ARITH,
        (0b0000001, 0) => MULTIPLY,
        (0b0000001, 4..=7) => DIVIDE,
        // add.uw, and packw, which is also zext.h
        (0b0000100, 0 | 4) => ARITH,
        // sh1add.uw, sh2add.uw, sh3add.uw; rolw, rorw
        (0b0010000, 2 | 4 | 6) | (0b0110000, 1 | 5) => ARITH,
        _ => Classes::NONE,
    }
}

fn branch_offset(word: u32) -> i64 {
    let number = field(word, 31, 1) << 12 | field(word, 7, 1) << 11 | field(word, 25, 6) << 5 | field(word, 8, 4) << 1;
    signed(number, 13)
}

fn jump_offset(word: u32) -> i64 {
    let high = field(word, 31, 1) << 20 | field(word, 12, 8) << 12;
    signed(high | field(word, 20, 1) << 11 | field(word, 21, 10) << 1, 21)
}
