//! Destination registers of RISC-V.
//!
//! Specification: The RISC-V Instruction Set Manual, volume I.

use crate::Isa;
use crate::bits::field;
use crate::destinations::Destinations;

const NONE: Destinations = Destinations::NONE;

/// The registers that the instruction writes. The caller has made sure that it is an instruction.
pub(crate) fn destinations(isa: Isa, opcode: u32) -> Destinations {
    match isa.length(opcode as u16) {
        4 => wide(isa, opcode),
        _ => narrow(isa, opcode & 0xffff),
    }
}

/// Register 0 is always zero.
const fn x(number: u32) -> Destinations {
    if number == 0 { NONE } else { Destinations::one(number) }
}

const fn f(number: u32) -> Destinations {
    Destinations::vectors(number, 1)
}

fn wide(isa: Isa, word: u32) -> Destinations {
    let (rd, funct3) = (field(word, 7, 5), field(word, 12, 3));
    match field(word, 2, 5) {
        0x01 if matches!(funct3, 1..=4) => f(rd),
        // Loads, arithmetic, jumps; without those of pairs.
        0x00 if isa == Isa::Rv32 && funct3 == 0b011 => NONE,
        0x00 | 0x04..=0x06 | 0x0c..=0x0e | 0x19 | 0x1b => x(rd),
        // amocas of pairs.
        0x0b if field(word, 27, 5) == 0b00101 && (funct3 == 4 || isa == Isa::Rv32 && funct3 == 3) => NONE,
        0x0b => x(rd),
        0x10..=0x13 => f(rd),
        0x14 => float(rd, field(word, 27, 5)),
        0x15 => vector(rd, funct3, word),
        // CSRs, loads of hypervisors, may-be operations
        0x1c if funct3 != 0 => x(rd),
        _ => NONE,
    }
}

/// Comparisons, conversions to integers, moves and classes have integers for results.
fn float(rd: u32, funct5: u32) -> Destinations {
    if matches!(funct5, 0b10100 | 0b11000 | 0b11100) { x(rd) } else { f(rd) }
}

/// Vector instructions that write another register: vsetvl, vmv.x.s, vcpop, vfirst, vfmv.f.s.
fn vector(rd: u32, funct3: u32, word: u32) -> Destinations {
    match (funct3, field(word, 26, 6)) {
        (0b111, _) | (0b010, 0b010000) => x(rd),
        (0b001, 0b010000) => f(rd),
        _ => NONE,
    }
}

fn narrow(isa: Isa, half: u32) -> Destinations {
    let (low, middle, full) = (field(half, 2, 3) + 8, field(half, 7, 3) + 8, field(half, 7, 5));
    let is_wide = isa == Isa::Rv64;
    // c.ld and c.ldsp, or c.flw and c.flwsp
    let load = |number: u32| if is_wide { x(number) } else { f(number) };
    match (half & 0b11, field(half, 13, 3)) {
        (0b00, 0b000 | 0b010) => x(low),
        (0b00, 0b001) => f(low),
        (0b00, 0b011) => load(low),
        // c.lbu, c.lhu, c.lh
        (0b00, 0b100) if matches!(field(half, 10, 3), 0 | 1) => x(low),
        (0b01, 0b000 | 0b010) => x(full),
        // c.addiw, c.jal
        (0b01, 0b001) => x(if is_wide { full } else { 1 }),
        // c.lui, c.addi16sp; c.mop writes nothing
        (0b01, 0b011) if half & 0x107c != 0 => x(full),
        (0b01, 0b100) => x(middle),
        (0b10, 0b000 | 0b010) => x(full),
        (0b10, 0b001) => f(full),
        (0b10, 0b011) => load(full),
        (0b10, 0b100) => of_registers(half, full),
        _ => NONE,
    }
}

/// c.jr, c.jalr, c.mv, c.add.
fn of_registers(half: u32, full: u32) -> Destinations {
    match field(half, 2, 5) {
        // Without a register it is c.ebreak.
        0 if half & 0x1000 != 0 && full != 0 => x(1),
        0 => NONE,
        _ => x(full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_those_of_the_manual() {
        let rows: &[(&str, u32, Destinations)] = &[
            ("addi a0, a1, 1", 0x0015_8513, x(10)),
            ("nop", 0x0000_0013, NONE),
            ("lui a0, 1", 0x0000_1537, x(10)),
            ("auipc a0, 0", 0x0000_0517, x(10)),
            ("addiw a0, a0, 1", 0x0015_051b, x(10)),
            ("add a0, a1, a2", 0x00c5_8533, x(10)),
            ("mulw a0, a1, a2", 0x02c5_853b, x(10)),
            ("ld a0, 0(a1)", 0x0005_b503, x(10)),
            ("sd a0, 0(a1)", 0x00a5_b023, NONE),
            ("fld fa0, 0(a1)", 0x0005_b507, f(10)),
            ("fsd fa0, 0(a1)", 0x00a5_b027, NONE),
            ("beq a0, a1, .", 0x00b5_0063, NONE),
            ("jal ra, .", 0x0000_00ef, x(1)),
            ("j .", 0x0000_006f, NONE),
            ("jalr ra, a0", 0x0005_00e7, x(1)),
            ("ret", 0x0000_8067, NONE),
            ("lr.d a0, (a1)", 0x1005_b52f, x(10)),
            ("sc.d a0, a2, (a1)", 0x18c5_b52f, x(10)),
            ("amoadd.w a0, a2, (a1)", 0x00c5_a52f, x(10)),
            ("fence", 0x0ff0_000f, NONE),
            ("ecall", 0x0000_0073, NONE),
            ("csrrw a0, fcsr, a1", 0x0035_9573, x(10)),
            ("fadd.d fa0, fa1, fa2", 0x02c5_f553, f(10)),
            ("fmadd.d fa0, fa1, fa2, fa3", 0x6ac5_f543, f(10)),
            ("feq.d a0, fa1, fa2", 0xa2c5_a553, x(10)),
            ("fcvt.l.d a0, fa1", 0xc225_f553, x(10)),
            ("fcvt.d.l fa0, a1", 0xd225_f553, f(10)),
            ("fmv.x.d a0, fa1", 0xe205_8553, x(10)),
            ("fmv.d.x fa0, a1", 0xf205_8553, f(10)),
            ("fcvt.s.d fa0, fa1", 0x4015_f553, f(10)),
            ("vsetvli a0, a1, e8", 0x0005_f557, x(10)),
            ("vadd.vv v8, v9, v10", 0x0295_0457, NONE),
            ("c.addi4spn a0, sp, 8", 0x0028, x(10)),
            ("c.fld fa0, 0(a0)", 0x2108, f(10)),
            ("c.lw a0, 0(a1)", 0x4188, x(10)),
            ("c.ld a0, 0(a1)", 0x6188, x(10)),
            ("c.sd a0, 0(a1)", 0xe188, NONE),
            ("c.nop", 0x0001, NONE),
            ("c.addi a0, 1", 0x0505, x(10)),
            ("c.addiw a0, 1", 0x2505, x(10)),
            ("c.li a0, 1", 0x4505, x(10)),
            ("c.addi16sp sp, 16", 0x6141, x(2)),
            ("c.lui a0, 1", 0x6505, x(10)),
            ("c.srli a0, 1", 0x8105, x(10)),
            ("c.sub a0, a1", 0x8d0d, x(10)),
            ("c.j .", 0xa001, NONE),
            ("c.beqz a0, .", 0xc101, NONE),
            ("c.slli a0, 1", 0x0506, x(10)),
            ("c.fldsp fa0, 0(sp)", 0x2502, f(10)),
            ("c.ldsp ra, 8(sp)", 0x60a2, x(1)),
            ("c.jr ra", 0x8082, NONE),
            ("c.jalr a0", 0x9502, x(1)),
            ("c.mv a0, a1", 0x852e, x(10)),
            ("c.add a0, a1", 0x952e, x(10)),
            ("c.ebreak", 0x9002, NONE),
            ("c.sdsp ra, 8(sp)", 0xe406, NONE),
            ("no instruction", 0, NONE),
        ];
        for (name, opcode, expected) in rows {
            assert_eq!(crate::destinations(Isa::Rv64, *opcode), *expected, "{name}");
        }
    }
}
