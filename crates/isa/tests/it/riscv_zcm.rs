//! Zcmp and Zcmt where the list of extensions has them, and `c.fsdsp` where it has not.
//!
//! The opcodes are those of the tables of riscv-opcodes, the expectations those of the architecture.

use unspool_isa::Isa::{Rv32, Rv64};
use unspool_isa::{Class, ControlFlow, Operation, RiscvExtensions};

use super::riscv::{decoded, plain};

const BOTH: RiscvExtensions = RiscvExtensions { zcmp: true, zcmt: true };

/// Text, opcode, control flow, access, and its bytes in RV32; RV64 has twice as many.
type Row = (&'static str, u32, ControlFlow, Operation, Option<u16>);

const ROWS: [Row; 10] = [
    ("cm.push {ra}", 0xb842, ControlFlow::FallThrough, Operation::Store, Some(4)),
    ("cm.push {ra, s0-s1}", 0xb862, ControlFlow::FallThrough, Operation::Store, Some(12)),
    ("cm.push {ra, s0-s9}", 0xb8e2, ControlFlow::FallThrough, Operation::Store, Some(44)),
    ("cm.pop {ra, s0-s11}", 0xbaf2, ControlFlow::FallThrough, Operation::Load, Some(52)),
    ("cm.popret {ra}", 0xbe4e, ControlFlow::Indirect, Operation::Load, Some(4)),
    ("cm.popretz {ra, s0-s1}", 0xbc6a, ControlFlow::Indirect, Operation::Load, Some(12)),
    ("cm.mvsa01 s0, s1", 0xac26, ControlFlow::FallThrough, Operation::None, None),
    ("cm.mva01s s0, s0", 0xac62, ControlFlow::FallThrough, Operation::None, None),
    ("cm.jt 31", 0xa07e, ControlFlow::Indirect, Operation::None, None),
    ("cm.jalt 32", 0xa082, ControlFlow::Indirect, Operation::None, None),
];

#[test]
fn instructions() {
    for (name, opcode, flow, access, bytes) in ROWS {
        for (isa, times) in [(Rv32, 1), (Rv64, 2)] {
            // The bits above the halfword are ignored.
            let facts = decoded(BOTH, isa, 0x8000, opcode | 0x1234_0000);
            assert_eq!((facts.decoded.flow, facts.access.operation), (flow, access), "{name}");
            assert_eq!(facts.access.bytes, bytes.map(|bytes| bytes * times), "{name}");
            assert_eq!((facts.decoded.length, facts.decoded.target), (2, None), "{name}");
            assert_eq!(facts.decoded.ret, name.contains("ret"), "{name}");
            assert_eq!(facts.decoded.link, name.contains("jalt"), "{name}");
            assert_eq!(facts.classes.contains(Class::Branch), flow != ControlFlow::FallThrough, "{name}");
            assert!(!facts.classes.is_empty() && !facts.classes.contains(Class::Float), "{name}");
        }
    }
}

#[test]
fn reserved_encodings_are_no_instructions() {
    let zcmp = RiscvExtensions { zcmp: true, zcmt: false };
    let zcmt = RiscvExtensions { zcmp: false, zcmt: true };
    let rows = [
        ("a push without ra", BOTH, 0xb832),
        ("a return without ra", BOTH, 0xbe32),
        ("cm.mvsa01 of one register", BOTH, 0xac22),
        ("an unallocated encoding", BOTH, 0xb002),
        ("a jump, and no Zcmt", zcmp, 0xa07e),
        ("a push, and no Zcmp", zcmt, 0xb842),
    ];
    for (name, extensions, opcode) in rows {
        let facts = decoded(extensions, Rv64, 0, opcode);
        assert!(
            facts.classes.is_empty() && facts.decoded.flow == ControlFlow::Unknown && facts.decoded.length == 2,
            "{name}: {facts:?}"
        );
    }
}

#[test]
fn other_opcodes_do_not_change() {
    for opcode in (0..=0xffff_u32).filter(|opcode| opcode & 0xe003 != 0xa002) {
        for isa in [Rv32, Rv64] {
            assert_eq!(decoded(BOTH, isa, 0x8000, opcode), plain(isa, 0x8000, opcode), "{opcode:#06x}");
        }
    }
    for opcode in 0..=0xffff_u32 {
        assert_eq!(decoded(RiscvExtensions::default(), Rv64, 0, opcode), plain(Rv64, 0, opcode), "{opcode:#06x}");
    }
}

#[test]
fn lists_of_extensions() {
    let rows = [
        ("", false, false),
        ("rv64imac", false, false),
        ("rv32imac_zcmp", true, false),
        ("RV32IMAC_ZCMP_Zcmt1p0", true, true),
        ("rv32imafc_zcf_zcmt", false, true),
        ("rv32i2p1_m2p0_zca1p0_zce1p0", true, true),
        // Such a list contradicts itself.
        ("rv64gc_zcmp", false, false),
        ("rv64imafdc_zcmp", false, false),
        ("rv64imafd_zca_zcd_zcmp", false, false),
        ("rv64imafd_zca_zcmp", true, false),
        ("rv64imac_zcmpx", false, false),
        ("zcmp", false, false),
    ];
    for (list, zcmp, zcmt) in rows {
        assert_eq!(RiscvExtensions::of(list.as_bytes()), RiscvExtensions { zcmp, zcmt }, "{list}");
    }
}

#[cfg(feature = "text")]
#[test]
fn text() {
    let mut disassembler = unspool_isa::Disassembler::new();
    disassembler.extensions = BOTH;
    let rows: [(unspool_isa::Isa, u32, &str, &str); 9] = [
        (Rv32, 0xb862, "cm.push {ra, s0-s1}, -16", "cm.push"),
        (Rv64, 0xb862, "cm.push {ra, s0-s1}, -32", "cm.push"),
        (Rv32, 0xba56, "cm.pop {ra, s0}, 32", "cm.pop"),
        (Rv32, 0xbe4e, "cm.popret {ra}, 64", "cm.popret"),
        (Rv32, 0xbc6a, "cm.popretz {ra, s0-s1}, 48", "cm.popretz"),
        (Rv32, 0xac26, "cm.mvsa01 s0, s1", "cm.mvsa01"),
        (Rv32, 0xa07e, "cm.jt 31", "cm.jt"),
        (Rv32, 0xa082, "cm.jalt 32", "cm.jalt"),
        (Rv32, 0x852e, "mv a0, a1", "c.mv"),
    ];
    for (isa, opcode, text, mnemonic) in rows {
        assert_eq!(disassembler.text(isa, 0x8000, opcode), text);
        assert_eq!(disassembler.mnemonic(isa, opcode).as_deref(), Some(mnemonic));
    }
    assert_eq!(disassembler.text(Rv32, 0x8000, 0xac22), ".insn 0xac22");
    assert_eq!(unspool_isa::Disassembler::new().text(Rv64, 0x8000, 0xb862), "fsd fs8, 48(sp)");
    // Both decoders have the same instructions.
    for opcode in (0..=0xffff_u32).filter(|opcode| BOTH.claims(*opcode)) {
        let is_known = !BOTH.classes(Rv32, opcode).is_empty();
        assert_eq!(disassembler.mnemonic(Rv32, opcode).is_some(), is_known, "{opcode:#06x}");
    }
}
