//! Control flow, access and classes of at least one RISC-V instruction of every family, at address 0x8000.
//!
//! The opcodes come from an assembler (LLVM 22), the expectations from the architecture, and the classes from the
//! tables of Mavis, the decoder of the tools that came with STF. Rows whose names are sentences are encodings that no
//! assembler makes.

use unspool_isa::Isa::{self, Rv32, Rv64};
use unspool_isa::{Access, Class, Classes, ControlFlow, Decoded, RiscvExtensions};

use super::in_words;

const ADDRESS: u64 = 0x8000;

type Row = (Isa, &'static str, u32, &'static str);

/// Everything that is decoded from an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) decoded: Decoded,
    pub(crate) access: Access,
    pub(crate) classes: Classes,
}

pub(crate) fn decoded(extensions: RiscvExtensions, isa: Isa, address: u64, opcode: u32) -> Instruction {
    Instruction {
        decoded: extensions.decode(isa, address, opcode),
        access: extensions.access(isa, opcode),
        classes: extensions.classes(isa, opcode),
    }
}

pub(crate) fn plain(isa: Isa, address: u64, opcode: u32) -> Instruction {
    Instruction {
        decoded: unspool_isa::decode(isa, address, opcode),
        access: unspool_isa::access(isa, opcode),
        classes: unspool_isa::classes(isa, opcode),
    }
}

#[test]
fn instructions_decode_as_described() {
    let tables: [&[Row]; 8] = [&BRANCHES, &ACCESSES, &ATOMICS, &SYSTEM, &INTEGERS, &FLOATS, &VECTORS, &RESERVED];
    tables.into_iter().for_each(check);
}

/// Targets wrap where the address space ends.
#[test]
fn targets_stay_in_the_address_space() {
    let target = |isa, address, opcode| unspool_isa::decode(isa, address, opcode).target_address();
    // jal zero, -4 and jal zero, 8
    assert_eq!(target(Rv64, 0, 0xffdf_f06f), Some(0xffff_ffff_ffff_fffc));
    assert_eq!(target(Rv32, 0, 0xffdf_f06f), Some(0xffff_fffc));
    assert_eq!(target(Rv64, 0xffff_ffff_ffff_fffc, 0x0080_006f), Some(4));
    assert_eq!(target(Rv32, 0xffff_fffc, 0x0080_006f), Some(4));
}

/// The bits above an instruction of two bytes are the next instruction.
#[test]
fn bits_above_two_bytes_are_ignored() {
    for half in (0..0x1_0000_u32).filter(|half| half & 0b11 != 0b11) {
        for isa in [Rv32, Rv64] {
            assert_eq!(plain(isa, ADDRESS, half), plain(isa, ADDRESS, half | 0xdead_0000), "{half:04x}");
        }
    }
}

/// Every class is in the set of itself and in no other, and has a name of its own.
#[test]
fn classes() {
    assert!(Classes::NONE.is_empty());
    for (index, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(Classes::of(&[class]).iter().collect::<Vec<_>>(), [class]);
        assert_eq!(Classes::NONE.with(class), Classes::of(&[class, class]));
        assert!(Class::ALL[..index].iter().all(|other| other.name() != class.name() && *other < class), "{class:?}");
    }
}

fn check(rows: &[Row]) {
    for &(isa, name, opcode, expected) in rows {
        let facts = plain(isa, ADDRESS, opcode);
        assert_eq!(describe(&facts), expected, "{name} ({opcode:#010x})");
        let length = if name.starts_with("c.") || name.contains("halfword") { 2 } else { 4 };
        assert_eq!((facts.decoded.length, isa.length(opcode as u16)), (length, length), "length of {name}");
    }
}

/// The instruction as text, the classes last.
fn describe(facts: &Instruction) -> String {
    let Instruction { decoded, access, .. } = facts;
    let mut words = vec![match (decoded.flow, decoded.conditional) {
        (ControlFlow::FallThrough, false) if access.may_not_write => {
            format!("conditional-{}", in_words(access.operation, "-"))
        }
        (ControlFlow::FallThrough, false) => in_words(access.operation, "-"),
        (flow, false) => in_words(flow, "-"),
        (flow, true) => format!("conditional-{}", in_words(flow, "-")),
    }];
    words.extend(decoded.target.map(|target| format!("{:#x}", target.address)));
    words.extend(access.bytes.map(|bytes| bytes.to_string()));
    let flags =
        [(decoded.link, "link"), (decoded.ret, "return"), (access.vector, "vector"), (access.predicated, "masked")];
    words.extend(flags.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word.to_owned()));
    let classes: Vec<&str> = facts.classes.iter().map(Class::name).collect();
    format!("{}: {}", words.join(" "), classes.join(" ")).trim_end().to_owned()
}

const BRANCHES: [Row; 35] = [
    (Rv64, "beq a0, a1, 16", 0x00b5_0863, "conditional-direct 0x8010: branch cond"),
    (Rv64, "bne a0, a1, -4096", 0x80b5_1063, "conditional-direct 0x7000: branch cond"),
    (Rv64, "blt a0, a1, 4094", 0x7eb5_4fe3, "conditional-direct 0x8ffe: branch cond"),
    (Rv64, "bge a0, a1, -2", 0xfeb5_5fe3, "conditional-direct 0x7ffe: branch cond"),
    (Rv64, "bltu a0, a1, 8", 0x00b5_6463, "conditional-direct 0x8008: branch cond"),
    (Rv64, "bgeu a0, a1, 8", 0x00b5_7463, "conditional-direct 0x8008: branch cond"),
    (Rv64, "jal ra, 1048574", 0x7fff_f0ef, "direct 0x107ffe link: branch jal"),
    (Rv64, "jal t0, -1048576", 0x8000_02ef, "direct 0xfffffffffff08000 link: branch jal"),
    (Rv32, "jal ra, -1048576", 0x8000_00ef, "direct 0xfff08000 link: branch jal"),
    (Rv64, "jal zero, 8", 0x0080_006f, "direct 0x8008: branch jal"),
    (Rv64, "jal a0, 8", 0x0080_056f, "direct 0x8008: branch jal"),
    (Rv64, "jalr zero, 0(ra)", 0x0000_8067, "indirect return: branch jalr"),
    (Rv64, "jalr zero, 4(t0)", 0x0042_8067, "indirect return: branch jalr"),
    (Rv64, "jalr zero, 0(a0)", 0x0005_0067, "indirect: branch jalr"),
    (Rv64, "jalr ra, 0(a0)", 0x0005_00e7, "indirect link: branch jalr"),
    (Rv64, "jalr ra, 0(ra)", 0x0000_80e7, "indirect link: branch jalr"),
    (Rv64, "jalr ra, 0(t0)", 0x0002_80e7, "indirect link return: branch jalr"),
    (Rv64, "jalr a0, 0(ra)", 0x0000_8567, "indirect return: branch jalr"),
    (Rv64, "c.beqz a0, 254", 0xcd7d, "conditional-direct 0x80fe: branch cond"),
    (Rv64, "c.bnez a0, -256", 0xf101, "conditional-direct 0x7f00: branch cond"),
    (Rv64, "c.j -2048", 0xb001, "direct 0x7800: branch jal"),
    (Rv64, "c.j 2046", 0xaffd, "direct 0x87fe: branch jal"),
    (Rv32, "c.jal 2046", 0x2ffd, "direct 0x87fe link: branch jal"),
    (Rv64, "c.jr ra", 0x8082, "indirect return: branch jalr"),
    (Rv64, "c.jr a0", 0x8502, "indirect: branch jalr"),
    (Rv64, "c.jalr a0", 0x9502, "indirect link: branch jalr"),
    (Rv64, "c.jalr ra", 0x9082, "indirect link: branch jalr"),
    (Rv64, "c.jalr t0", 0x9282, "indirect link return: branch jalr"),
    (Rv64, "mret", 0x3020_0073, "exception-return: system"),
    (Rv64, "sret", 0x1020_0073, "exception-return: system"),
    (Rv64, "mnret", 0x7020_0073, "exception-return: system"),
    (Rv64, "dret", 0x7b20_0073, "exception-return: system"),
    (Rv64, "ecall", 0x0000_0073, "supervisor-call: int system"),
    (Rv64, "ebreak", 0x0010_0073, "breakpoint: int system"),
    (Rv64, "c.ebreak", 0x9002, "breakpoint: int system"),
];

const ACCESSES: [Row; 42] = [
    (Rv64, "lb a0, 0(a1)", 0x0005_8503, "load 1: int load"),
    (Rv64, "lbu a0, 0(a1)", 0x0005_c503, "load 1: int load"),
    (Rv64, "lh a0, 0(a1)", 0x0005_9503, "load 2: int load"),
    (Rv64, "lhu a0, 0(a1)", 0x0005_d503, "load 2: int load"),
    (Rv64, "lw a0, 0(a1)", 0x0005_a503, "load 4: int load"),
    (Rv64, "lwu a0, 0(a1)", 0x0005_e503, "load 4: int load"),
    (Rv64, "ld a0, 0(a1)", 0x0005_b503, "load 8: int load"),
    (Rv32, "ld a0, 0(a1)", 0x0005_b503, "load 8: int load"),
    (Rv64, "sb a0, 0(a1)", 0x00a5_8023, "store 1: int store"),
    (Rv64, "sh a0, 0(a1)", 0x00a5_9023, "store 2: int store"),
    (Rv64, "sw a0, 0(a1)", 0x00a5_a023, "store 4: int store"),
    (Rv64, "sd a0, 0(a1)", 0x00a5_b023, "store 8: int store"),
    (Rv32, "sd a0, 0(a1)", 0x00a5_b023, "store 8: int store"),
    (Rv64, "flh fa0, 0(a1)", 0x0005_9507, "load 2: float load"),
    (Rv64, "flw fa0, 0(a1)", 0x0005_a507, "load 4: float load"),
    (Rv64, "fld fa0, 0(a1)", 0x0005_b507, "load 8: float load"),
    (Rv64, "flq fa0, 0(a1)", 0x0005_c507, "load 16: float load"),
    (Rv64, "fsh fa0, 0(a1)", 0x00a5_9027, "store 2: float store"),
    (Rv64, "fsw fa0, 0(a1)", 0x00a5_a027, "store 4: float store"),
    (Rv64, "fsd fa0, 0(a1)", 0x00a5_b027, "store 8: float store"),
    (Rv64, "fsq fa0, 0(a1)", 0x00a5_c027, "store 16: float store"),
    (Rv64, "c.lw a0, 4(a1)", 0x41c8, "load 4: int load"),
    (Rv64, "c.ld a0, 8(a1)", 0x6588, "load 8: int load"),
    (Rv64, "c.fld fa0, 8(a1)", 0x2588, "load 8: float load"),
    (Rv32, "c.flw fa0, 4(a1)", 0x61c8, "load 4: float load"),
    (Rv64, "c.sw a0, 4(a1)", 0xc1c8, "store 4: int store"),
    (Rv64, "c.sd a0, 8(a1)", 0xe588, "store 8: int store"),
    (Rv64, "c.fsd fa0, 8(a1)", 0xa588, "store 8: float store"),
    (Rv32, "c.fsw fa0, 4(a1)", 0xe1c8, "store 4: float store"),
    (Rv64, "c.lwsp a0, 4(sp)", 0x4512, "load 4: int load"),
    (Rv64, "c.ldsp a0, 8(sp)", 0x6522, "load 8: int load"),
    (Rv64, "c.fldsp fa0, 8(sp)", 0x2522, "load 8: float load"),
    (Rv32, "c.flwsp fa0, 4(sp)", 0x6512, "load 4: float load"),
    (Rv64, "c.swsp a0, 4(sp)", 0xc22a, "store 4: int store"),
    (Rv64, "c.sdsp a0, 8(sp)", 0xe42a, "store 8: int store"),
    (Rv64, "c.fsdsp fa0, 8(sp)", 0xa42a, "store 8: float store"),
    (Rv32, "c.fswsp fa0, 4(sp)", 0xe22a, "store 4: float store"),
    (Rv64, "c.lbu a0, 1(a1)", 0x81c8, "load 1: int load"),
    (Rv64, "c.lhu a0, 2(a1)", 0x85a8, "load 2: int load"),
    (Rv64, "c.lh a0, 2(a1)", 0x85e8, "load 2: int load"),
    (Rv64, "c.sb a0, 1(a1)", 0x89c8, "store 1: int store"),
    (Rv64, "c.sh a0, 2(a1)", 0x8da8, "store 2: int store"),
];

const ATOMICS: [Row; 15] = [
    (Rv64, "lr.w.aq a0, (a1)", 0x1405_a52f, "load 4: int load atomic"),
    (Rv64, "lr.d a0, (a1)", 0x1005_b52f, "load 8: int load atomic"),
    (Rv64, "sc.w a0, a2, (a1)", 0x18c5_a52f, "conditional-store 4: int store atomic"),
    (Rv64, "sc.d.rl a0, a2, (a1)", 0x1ac5_b52f, "conditional-store 8: int store atomic"),
    (Rv64, "amoswap.w a0, a2, (a1)", 0x08c5_a52f, "load-store 4: int load atomic"),
    (Rv64, "amoadd.d.aqrl a0, a2, (a1)", 0x06c5_b52f, "load-store 8: int load atomic"),
    (Rv64, "amomaxu.b a0, a2, (a1)", 0xe0c5_852f, "load-store 1: int load atomic"),
    (Rv64, "amoand.h a0, a2, (a1)", 0x60c5_952f, "load-store 2: int load atomic"),
    (Rv64, "amocas.w a0, a2, (a1)", 0x28c5_a52f, "load-store 4: int load atomic"),
    (Rv64, "amocas.q a0, a2, (a4)", 0x28c7_452f, "load-store 16: int load atomic"),
    (Rv32, "amocas.d a0, a2, (a4)", 0x28c7_352f, "load-store 8: int load atomic"),
    (Rv64, "amocas.b a0, a2, (a4)", 0x28c7_052f, "load-store 1: int load atomic"),
    (Rv64, "lw.aq a0, (a1)", 0x3405_a52f, "load 4: int load atomic"),
    (Rv64, "sd.rl a0, (a1)", 0x3aa5_b02f, "store 8: int store atomic"),
    (Rv64, "ssamoswap.d a0, a2, (a1)", 0x48c5_b52f, "load-store 8: int load atomic"),
];

const SYSTEM: [Row; 32] = [
    (Rv64, "fence rw, w", 0x0310_000f, "fence: fence"),
    (Rv64, "fence.tso", 0x8330_000f, "fence: fence"),
    (Rv64, "fence.i", 0x0000_100f, "fence: fence"),
    (Rv64, "pause", 0x0100_000f, "fence: fence"),
    (Rv64, "sfence.vma a0, a1", 0x12b5_0073, "fence: fence system"),
    (Rv64, "hfence.gvma a0, a1", 0x62b5_0073, "fence: fence system hypervisor"),
    (Rv64, "sinval.vma a0, a1", 0x16b5_0073, "fence: cache system"),
    (Rv64, "sfence.inval.ir", 0x1810_0073, "fence: cache system"),
    (Rv64, "hinval.vvma a0, a1", 0x26b5_0073, "fence: cache system hypervisor"),
    (Rv64, "cbo.inval (a0)", 0x0005_200f, "cache-maintenance: cache system"),
    (Rv64, "cbo.clean (a0)", 0x0015_200f, "cache-maintenance: cache system"),
    (Rv64, "cbo.flush (a0)", 0x0025_200f, "cache-maintenance: cache system"),
    (Rv64, "cbo.zero (a0)", 0x0045_200f, "zero: cache system"),
    (Rv64, "prefetch.i 32(a0)", 0x0205_6013, "prefetch: prefetch hint"),
    (Rv64, "prefetch.r 32(a0)", 0x0215_6013, "prefetch: prefetch hint"),
    (Rv64, "prefetch.w 32(a0)", 0x0235_6013, "prefetch: prefetch hint"),
    (Rv64, "ori zero, a0, 2", 0x0025_6013, "none: int arith"),
    (Rv64, "wfi", 0x1050_0073, "none: system"),
    (Rv64, "wrs.nto", 0x00d0_0073, "none: system"),
    (Rv64, "wrs.sto", 0x01d0_0073, "none: system"),
    (Rv64, "csrrw a0, mstatus, a1", 0x3005_9573, "none: system csr"),
    (Rv64, "csrrci zero, fcsr, 3", 0x0031_f073, "none: system csr"),
    (Rv64, "hlv.b a0, (a1)", 0x6005_c573, "load 1: load system hypervisor"),
    (Rv64, "hlvx.hu a0, (a1)", 0x6435_c573, "load 2: load system hypervisor"),
    (Rv64, "hlv.wu a0, (a1)", 0x6815_c573, "load 4: load system hypervisor"),
    (Rv64, "hlv.d a0, (a1)", 0x6c05_c573, "load 8: load system hypervisor"),
    (Rv64, "hsv.b a0, (a1)", 0x62a5_c073, "store 1: store system hypervisor"),
    (Rv64, "hsv.d a0, (a1)", 0x6ea5_c073, "store 8: store system hypervisor"),
    (Rv64, "mop.r.31 a0, a1", 0xcdf5_c573, "none: int"),
    (Rv64, "mop.rr.7 a0, a1, a2", 0xcec5_c573, "none: int"),
    (Rv64, "uret, which was withdrawn", 0x0020_0073, "exception-return: system"),
    (Rv64, "a fence with fields that mean nothing yet", 0x4ff5_858f, "fence: fence"),
];

const INTEGERS: [Row; 45] = [
    (Rv64, "lui a0, 1", 0x0000_1537, "none: int arith"),
    (Rv64, "auipc a0, 1", 0x0000_1517, "none: int arith pc"),
    (Rv64, "addi a0, a1, 1", 0x0015_8513, "none: int arith"),
    (Rv64, "addi a0, a1, 0", 0x0005_8513, "none: int arith move"),
    (Rv64, "addi a0, zero, 1", 0x0010_0513, "none: int arith"),
    (Rv64, "addi zero, zero, 0", 0x0000_0013, "none: int arith"),
    (Rv64, "slli a0, a1, 63", 0x03f5_9513, "none: int arith"),
    (Rv64, "sraiw a0, a1, 31", 0x41f5_d51b, "none: int arith"),
    (Rv64, "add a0, a1, a2", 0x00c5_8533, "none: int arith"),
    (Rv64, "ntl.all", 0x0050_0033, "none: ntl hint"),
    (Rv64, "subw a0, a1, a2", 0x40c5_853b, "none: int arith"),
    (Rv64, "mulhsu a0, a1, a2", 0x02c5_a533, "none: int mul"),
    (Rv64, "mulw a0, a1, a2", 0x02c5_853b, "none: int mul"),
    (Rv64, "divu a0, a1, a2", 0x02c5_d533, "none: int div"),
    (Rv64, "remw a0, a1, a2", 0x02c5_e53b, "none: int div"),
    (Rv64, "sh3add.uw a0, a1, a2", 0x20c5_e53b, "none: int arith"),
    (Rv64, "slli.uw a0, a1, 33", 0x0a15_951b, "none: int arith"),
    (Rv64, "cpopw a0, a1", 0x6025_951b, "none: int arith"),
    (Rv64, "rev8 a0, a1", 0x6b85_d513, "none: int arith"),
    (Rv32, "rev8 a0, a1", 0x6985_d513, "none: int arith"),
    (Rv32, "zip a0, a1", 0x08f5_9513, "none: int arith"),
    (Rv64, "clmulr a0, a1, a2", 0x0ac5_a533, "none: int arith"),
    (Rv64, "xperm8 a0, a1, a2", 0x28c5_c533, "none: int arith"),
    (Rv64, "bexti a0, a1, 63", 0x4bf5_d513, "none: int arith"),
    (Rv64, "aes64ks1i a0, a1, 10", 0x31a5_9513, "none: int arith"),
    (Rv32, "aes32dsmi a0, a1, a2, 3", 0xeec5_8533, "none: int arith"),
    (Rv64, "sha512sig1 a0, a1", 0x1075_9513, "none: int arith"),
    (Rv32, "sha512sig1h a0, a1, a2", 0x5ec5_8533, "none: int arith"),
    (Rv64, "sm4ks a0, a1, a2, 2", 0xb4c5_8533, "none: int arith"),
    (Rv64, "czero.nez a0, a1, a2", 0x0ec5_f533, "none: int arith"),
    (Rv64, "c.addi4spn a0, sp, 16", 0x0808, "none: int arith"),
    (Rv64, "c.addi a0, 1", 0x0505, "none: int arith"),
    (Rv64, "c.nop", 0x0001, "none: int arith"),
    (Rv64, "c.addiw a0, 1", 0x2505, "none: int arith"),
    (Rv64, "c.li a0, 1", 0x4505, "none: int arith"),
    (Rv64, "c.lui a0, 1", 0x6505, "none: int arith"),
    (Rv64, "c.addi16sp sp, -64", 0x7139, "none: int arith"),
    (Rv64, "c.mv a0, a1", 0x852e, "none: int arith move"),
    (Rv64, "c.add a0, a1", 0x952e, "none: int arith"),
    (Rv64, "c.ntl.p1", 0x900a, "none: ntl hint"),
    (Rv64, "c.subw a0, a1", 0x9d0d, "none: int arith"),
    (Rv64, "c.mul a0, a1", 0x9d4d, "none: int mul"),
    (Rv64, "c.zext.w a0", 0x9d71, "none: int arith"),
    (Rv64, "c.not a0", 0x9d75, "none: int arith"),
    (Rv64, "c.mop.15", 0x6781, "none: int arith"),
];

const FLOATS: [Row; 23] = [
    (Rv64, "fadd.s fa0, fa1, fa2", 0x00c5_f553, "none: float arith"),
    (Rv64, "fmul.q fa0, fa1, fa2", 0x16c5_f553, "none: float mul"),
    (Rv64, "fdiv.h fa0, fa1, fa2", 0x1cc5_f553, "none: float div"),
    (Rv64, "fsqrt.d fa0, fa1", 0x5a05_f553, "none: float sqrt"),
    (Rv64, "fmadd.d fa0, fa1, fa2, fa3", 0x6ac5_f543, "none: float mac"),
    (Rv64, "fnmsub.s fa0, fa1, fa2, fa3", 0x68c5_f54b, "none: float mac"),
    (Rv64, "fsgnjx.d fa0, fa1, fa2", 0x22c5_a553, "none: float arith"),
    (Rv64, "fmaxm.s fa0, fa1, fa2", 0x28c5_b553, "none: float arith"),
    (Rv64, "fle.d a0, fa1, fa2", 0xa2c5_8553, "none: float compare"),
    (Rv64, "fltq.s a0, fa1, fa2", 0xa0c5_d553, "none: float compare"),
    (Rv64, "fcvt.s.d fa0, fa1", 0x4015_f553, "none: float convert"),
    (Rv64, "fcvt.lu.h a0, fa1", 0xc435_f553, "none: float convert"),
    (Rv64, "fcvt.d.l fa0, a1", 0xd225_f553, "none: float convert"),
    (Rv64, "fcvtmod.w.d a0, fa1, rtz", 0xc285_9553, "none: float convert"),
    (Rv64, "fcvt.bf16.s fa0, fa1", 0x4485_f553, "none: float convert"),
    (Rv64, "froundnx.d fa0, fa1", 0x4255_f553, "none: float arith"),
    (Rv64, "fmv.x.d a0, fa1", 0xe205_8553, "none: float move"),
    (Rv64, "fmv.w.x fa0, a1", 0xf005_8553, "none: float move"),
    (Rv32, "fmvp.d.x fa0, a1, a2", 0xb2c5_8553, "none: float move"),
    (Rv32, "fmvh.x.d a0, fa1", 0xe215_8553, "none: float move"),
    (Rv64, "fclass.s a0, fa1", 0xe005_9553, "none: float classify"),
    (Rv64, "fli.d fa0, 1.0", 0xf218_0553, "none: float arith"),
    (Rv64, "fcvt.h.q, which LLVM does not know", 0x4435_f553, "none: float convert"),
];

const VECTORS: [Row; 41] = [
    (Rv64, "vsetvli a0, a1, e32, m2, ta, ma", 0x0d15_f557, "none vector: vector"),
    (Rv64, "vsetivli a0, 4, e8, m1, ta, ma", 0xcc02_7557, "none vector: vector"),
    (Rv64, "vsetvl a0, a1, a2", 0x80c5_f557, "none vector: vector"),
    (Rv64, "vle8.v v1, (a0)", 0x0205_0087, "load vector: load vector maskable segment"),
    (Rv64, "vle64.v v1, (a0), v0.t", 0x0005_7087, "load vector masked: load vector maskable segment"),
    (Rv64, "vlseg8e16.v v1, (a0)", 0xe205_5087, "load vector: load vector maskable segment"),
    (Rv64, "vlse32.v v1, (a0), a1", 0x0ab5_6087, "load vector: load vector maskable stride segment"),
    (Rv64, "vluxei8.v v1, (a0), v2, v0.t", 0x0425_0087, "load vector masked: load vector maskable indexed segment"),
    (Rv64, "vloxseg2ei64.v v4, (a0), v2", 0x2e25_7207, "load vector: load vector maskable indexed segment"),
    (Rv64, "vle32ff.v v1, (a0)", 0x0305_6087, "load vector: load vector maskable segment faultfirst"),
    (Rv64, "vl8re64.v v8, (a0)", 0xe285_7407, "load vector: load vector whole"),
    (Rv64, "vlm.v v1, (a0)", 0x02b5_0087, "load vector: load vector mask"),
    (Rv64, "vse8.v v1, (a0)", 0x0205_00a7, "store vector: store vector maskable segment"),
    (Rv64, "vsse64.v v1, (a0), a1, v0.t", 0x08b5_70a7, "store vector masked: store vector maskable stride segment"),
    (Rv64, "vsoxei16.v v1, (a0), v2", 0x0e25_50a7, "store vector: store vector maskable indexed segment"),
    (Rv64, "vs4r.v v4, (a0)", 0x6285_0227, "store vector: store vector whole"),
    (Rv64, "vsm.v v1, (a0)", 0x02b5_00a7, "store vector: store vector mask"),
    (Rv64, "vadd.vv v1, v2, v3, v0.t", 0x0021_80d7, "none vector masked: vector maskable"),
    (Rv64, "vadd.vi v1, v2, 3", 0x0221_b0d7, "none vector: vector maskable"),
    (Rv64, "vadc.vvm v1, v2, v3, v0", 0x4021_80d7, "none vector: vector"),
    (Rv64, "vmadc.vxm v1, v2, a0, v0", 0x4425_40d7, "none vector: vector maskable mask"),
    (Rv64, "vmadc.vx v1, v2, a0", 0x4625_40d7, "none vector: vector maskable mask"),
    (Rv64, "vmerge.vim v1, v2, 3, v0", 0x5c21_b0d7, "none vector: vector"),
    (Rv64, "vmv.v.i v1, 3", 0x5e01_b0d7, "none vector: move vector"),
    (Rv64, "vmv8r.v v8, v16", 0x9f03_b457, "none vector: move vector whole"),
    (Rv64, "vmseq.vv v1, v2, v3, v0.t", 0x6021_80d7, "none vector masked: vector maskable mask"),
    (Rv64, "vmand.mm v1, v2, v3", 0x6621_a0d7, "none vector: vector maskable mask"),
    (Rv64, "vdivu.vx v1, v2, a0", 0x8225_60d7, "none vector: div vector maskable"),
    (Rv64, "vmacc.vv v1, v2, v3", 0xb631_20d7, "none vector: int mac vector maskable"),
    (Rv64, "vwmul.vv v2, v4, v5", 0xee42_a157, "none vector: vector maskable widening"),
    (Rv64, "vfadd.vf v1, v2, fa0", 0x0225_50d7, "none vector: float vector maskable"),
    (Rv64, "vfwmacc.vv v2, v4, v5, v0.t", 0xf052_1157, "none vector masked: float mac vector maskable widening"),
    (Rv64, "vfsqrt.v v1, v2", 0x4e20_10d7, "none vector: float sqrt vector maskable"),
    (Rv64, "vfcvt.x.f.v v1, v2", 0x4a20_90d7, "none vector: float vector maskable"),
    (Rv64, "vfncvtbf16.f.f.w v1, v2", 0x4a2e_90d7, "none vector: float convert vector maskable"),
    (Rv64, "vcompress.vm v1, v2, v3", 0x5e21_a0d7, "none vector: vector"),
    (Rv64, "vid.v v1, v0.t", 0x5008_a0d7, "none vector masked: vector maskable"),
    (Rv64, "vror.vi v1, v2, 63", 0x562f_b0d7, "none vector: vector maskable crypto"),
    (Rv64, "vclmulh.vx v1, v2, a0", 0x3625_60d7, "none vector: vector maskable crypto"),
    (Rv64, "vaesz.vs v1, v2", 0xa623_a0f7, "none vector: vector crypto"),
    (Rv64, "vsha2cl.vv v1, v2, v3", 0xbe21_a0f7, "none vector: vector crypto"),
];

const RESERVED: [Row; 25] = [
    (Rv64, "a halfword of zeros", 0x0000, "unknown:"),
    (Rv64, "c.addi4spn of nothing", 0x0008, "unknown:"),
    (Rv64, "c.addiw to no register", 0x2005, "unknown:"),
    (Rv64, "c.lui of nothing to an even register", 0x6201, "unknown:"),
    (Rv64, "c.addi16sp of nothing", 0x6101, "unknown:"),
    (Rv64, "c.lwsp to no register", 0x4002, "unknown:"),
    (Rv64, "c.jr to no register", 0x8002, "unknown:"),
    (Rv32, "c.slli by 32 on RV32", 0x1502, "unknown:"),
    (Rv32, "c.subw on RV32", 0x9d0d, "unknown:"),
    (Rv32, "ld to an odd register on RV32", 0x0005_b583, "unknown:"),
    (Rv32, "lwu on RV32", 0x0005_e503, "unknown:"),
    (Rv32, "addiw on RV32", 0x0015_851b, "unknown:"),
    (Rv64, "a branch of no condition", 0x00b5_2463, "unknown:"),
    (Rv64, "a jalr of another funct3", 0x9067, "unknown:"),
    (Rv64, "lr.w with a second register", 0x10b5_252f, "unknown:"),
    (Rv64, "amocas.q to an odd register", 0x28c7_45af, "unknown:"),
    (Rv64, "fadd.s with a rounding mode that is not there", 0x00c5_d553, "unknown:"),
    (Rv64, "cbo.clean with a destination", 0x0015_208f, "unknown:"),
    (Rv64, "aes64ks1i of round 11", 0x31b5_9513, "unknown:"),
    (Rv64, "vl2re8.v to an odd register", 0x2285_0087, "unknown:"),
    (Rv64, "vs1r.v of 16-bit elements", 0x0285_50a7, "unknown:"),
    (Rv64, "vle8.v of the widths above 64", 0x1205_0087, "unknown:"),
    (Rv32, "vluxei64.v on RV32", 0x0625_7087, "unknown:"),
    (Rv64, "vmand.mm that is masked", 0x6421_a0d7, "unknown:"),
    (Rv64, "an instruction of six bytes", 0xffff_ffdf, "unknown:"),
];
