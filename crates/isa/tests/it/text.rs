//! Text of instructions at address 0x8000: the output of three libraries in one style.

#![cfg(feature = "text")]

use unspool_isa::Isa::{self, Rv32, Rv64};
use unspool_isa::{Disassembler, classes, decode};

#[test]
fn texts() {
    let rows: &[(Isa, u32, &str)] = &[
        (Isa::A64, 0x9400_0002, "bl 0x8008"),
        (Isa::A64, 0x3608_0040, "tbz w0, #0x1, 0x8008"),
        (Isa::A64, 0xd65f_03c0, "ret"),
        (Isa::A64, 0xa9bf_7bfd, "stp x29, x30, [sp, #-0x10]!"),
        (Isa::A64, 0x7400_0040, "cbgt w0, w0, 0x8008"),
        (Isa::A64, 0xffff_ffff, ".inst 0xffffffff"),
        // Tiles, whose names the library gets wrong.
        (Isa::A64, 0x80cd_39e1, "fmopa za1.d, p6/m, p1/m, z15.d, z13.d"),
        (Isa::A64, 0xc0d1_4125, "addva za5.d, p0/m, p2/m, z9.d"),
        (Isa::A64, 0xe0de_714f, "ld1d {za7h.d[w15, #0x1]}, p4/z, [x10, x30, lsl #0x3]"),
        (Isa::A64, 0xe1f5_cb2a, "st1q {za10v.q[w14, #0x0]}, p2, [x25, x21, lsl #0x4]"),
        (Isa::A64, 0xc082_3050, "mova z16.s, p4/m, za0h.s[w13, #0x2]"),
        (Isa::A32, 0xebff_fffd, "bl 0x7ffc"),
        (Isa::A32, 0xfa00_0000, "blx 0x8008"),
        (Isa::A32, 0xe92d_4800, "push {r11, lr}"),
        (Isa::A32, 0xf8bd_0a00, "rfeia sp!"),
        (Isa::A32, 0xf57f_f000, ".inst 0xf57ff000"),
        (Isa::T32, 0xd001, "beq 0x8006"),
        (Isa::T32, 0xbf18, "it ne"),
        // The block that the line above opens does not reach into this one.
        (Isa::T32, 0x4608, "mov r0, r1"),
        (Isa::T32, 0xb6ff, ".inst.n 0xb6ff"),
        (Isa::T32, 0xf000_e802, "blx 0x8008"),
        (Isa::T32, 0xe991_c000, "rfeia r1"),
        (Isa::T32, 0xf00f_c003, "le lr, 0x8000"),
        (Isa::T32, 0xf02f_c003, "le 0x8000"),
        (Isa::T32, 0xf003_c003, "wlstp.8 lr, r3, 0x8008"),
        (Isa::T32, 0xf043_e001, "dls lr, r3"),
        (Isa::T32, 0xffff_ffff, ".inst 0xffffffff"),
    ];
    let mut disassembler = Disassembler::new();
    for &(isa, opcode, expected) in rows {
        assert_eq!(disassembler.text(isa, 0x8000, opcode), expected, "{isa:?} {opcode:#010x}");
    }
}

/// Text and mnemonics of RISC-V instructions.
#[test]
fn riscv_texts() {
    let rows: &[(Isa, u32, &str, &str)] = &[
        (Rv64, 0x00b5_0863, "beq a0, a1, 0x8010", "beq"),
        (Rv64, 0x0080_00ef, "jal 0x8008", "jal"),
        (Rv64, 0x0000_8067, "ret", "jalr"),
        (Rv64, 0x8082, "ret", "c.jr"),
        (Rv64, 0x9082, "jalr ra", "c.jalr"),
        (Rv64, 0xbffd, "j 0x7ffe", "c.j"),
        (Rv32, 0x2ffd, "jal 0x87fe", "c.jal"),
        (Rv64, 0x2ffd, "addiw t6, t6, 31", "c.addiw"),
        (Rv64, 0x60a2, "ld ra, 8(sp)", "c.ldsp"),
        (Rv32, 0x60a2, "flw ft1, 8(sp)", "c.flwsp"),
        (Rv64, 0x7139, "addi sp, sp, -64", "c.addi16sp"),
        (Rv64, 0x0808, "addi a0, sp, 16", "c.addi4spn"),
        (Rv64, 0x0000_0013, "nop", "nop"),
        (Rv64, 0x0001, "nop", "c.nop"),
        (Rv64, 0x1f40_0793, "li a5, 500", "li"),
        (Rv64, 0x0005_0593, "mv a1, a0", "mv"),
        (Rv64, 0x0015_0593, "addi a1, a0, 1", "addi"),
        (Rv64, 0x85d6, "mv a1, s5", "c.mv"),
        (Rv64, 0x3002_a073, "csrs mstatus, t0", "csrrs"),
        (Rv64, 0x0206_6013, "prefetch.i 32(a2)", "prefetch.i"),
        (Rv64, 0x0100_000f, "pause", "pause"),
        (Rv64, 0x0050_0033, "ntl.all", "ntl.all"),
        (Rv64, 0x900a, "ntl.p1", "c.ntl.p1"),
        (Rv64, 0x0ff0_000f, "fence iorw, iorw", "fence"),
        (Rv64, 0x06c5_b52f, "amoadd.d.aqrl a0, a2, (a1)", "amoadd.d"),
        (Rv64, 0x0d10_7057, "vsetvli zero, zero, e32, m2, ta, ma", "vsetvli"),
        (Rv64, 0x0005_7087, "vle64.v v1, (a0), v0.t", "vle64.v"),
        (Rv64, 0x0020_0073, "uret", "uret"),
        // The bits above two bytes are ignored.
        (Rv64, 0xdead_8082, "ret", "c.jr"),
    ];
    let mut disassembler = Disassembler::new();
    for &(isa, opcode, text, mnemonic) in rows {
        assert_eq!(disassembler.text(isa, 0x8000, opcode), text, "{isa:?} {opcode:#010x}");
        assert_eq!(disassembler.mnemonic(isa, opcode).as_deref(), Some(mnemonic), "{isa:?} {opcode:#010x}");
    }
    let none = [(0xdead_0000, ".insn 0x0000"), (0x8002, ".insn 0x8002"), (0x00c5_d553, ".insn 0x00c5d553")];
    for (opcode, text) in none {
        assert_eq!(disassembler.text(Rv64, 0x8000, opcode), text);
        assert_eq!(disassembler.mnemonic(Rv64, opcode), None, "{opcode:#010x}");
    }
}

/// Instructions with a class have a name, those with a target end with it, and all texts have one style.
#[test]
fn riscv_texts_agree_with_the_decoders() {
    let mut disassembler = Disassembler::new();
    let (mut instructions, mut targets) = (0, 0);
    for round in 0..400_000_u32 {
        let opcode = if round < 0x1_0000 { round } else { round.wrapping_mul(0x9e37_79b1) | 0b11 };
        let address = u64::from(round) << 1;
        for isa in [Rv32, Rv64] {
            let position = format!("{isa:?} {opcode:08x}");
            let text = disassembler.text(isa, address, opcode);
            let is_instruction = !classes(isa, opcode).is_empty();
            assert_eq!(is_instruction, !text.starts_with(".insn"), "{position}: {text}");
            assert_eq!(is_instruction, disassembler.mnemonic(isa, opcode).is_some(), "{position}: {text}");
            assert!(!text.contains("  ") && text.trim() == text && text == text.to_lowercase(), "{position}: {text:?}");
            instructions += usize::from(is_instruction);
            let Some(target) = decode(isa, address, opcode).target_address() else { continue };
            targets += 1;
            assert!(text.ends_with(&format!("{target:#x}")), "{position} at {address:#x}: {text}");
        }
    }
    assert!(instructions > 200_000 && targets > 40_000, "{instructions} instructions, {targets} targets");
}

/// The libraries are a third decoder of targets: they print addresses, not offsets.
#[test]
fn targets_agree_with_the_decoders() {
    let mut disassembler = Disassembler::new();
    let mut state = 0x9e37_79b9_u32;
    let mut compared = 0;
    for round in 0..300_000_u32 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The low bits of such numbers are not random enough, and branches should be frequent.
        let opcode = state.rotate_left(16) ^ state >> 3;
        let (isa, opcode) = match round % 4 {
            0 => (Isa::A64, opcode & 0xe3ff_ffff | 0x1400_0000),
            1 => (Isa::A32, opcode & 0xf1ff_ffff | 0x0a00_0000),
            2 => (Isa::T32, opcode & 0xf7ff_ffff | 0xf000_8000),
            _ => (Isa::T32, (opcode & 0xffff) % 0xe800),
        };
        let address = u64::from(round) << 2 | if isa == Isa::T32 { 2 } else { 0 };
        let Some(target) = decode(isa, address, opcode).target_address() else { continue };
        let text = disassembler.text(isa, address, opcode);
        if text.starts_with(".inst") {
            continue;
        }
        compared += 1;
        assert!(text.ends_with(&format!("{target:#x}")), "{isa:?} {opcode:08x} at {address:#x}: {text}");
    }
    assert!(compared > 50_000, "{compared} targets compared");
}

/// Every opcode has a text, in lower case and without double blanks.
#[test]
fn any_opcode_has_a_text() {
    let mut disassembler = Disassembler::new();
    for isa in [Isa::A64, Isa::A32, Isa::T32] {
        for opcode in (0..200_000_u32).map(|round| round.wrapping_mul(0x9e37_79b1)) {
            let text = disassembler.text(isa, u64::MAX - 3, opcode);
            assert!(!text.is_empty() && !text.contains("  ") && text.trim() == text, "{isa:?} {opcode:08x}: {text:?}");
            assert_eq!(text, text.to_lowercase(), "{isa:?} {opcode:08x}");
        }
    }
}
