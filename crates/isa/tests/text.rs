//! How instructions read, at address 0x8000: the words of two libraries in one manner.

#![cfg(feature = "text")]

use unspool_isa::{Disassembler, Isa, facts};

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

/// A third opinion on targets: the libraries print addresses, not offsets.
#[test]
fn targets_are_those_of_the_facts() {
    let mut disassembler = Disassembler::new();
    let mut state = 0x9e37_79b9_u32;
    let mut compared = 0;
    for round in 0..300_000_u32 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The low bits of such numbers are poor, and branches should be many.
        let opcode = state.rotate_left(16) ^ state >> 3;
        let (isa, opcode) = match round % 4 {
            0 => (Isa::A64, opcode & 0xe3ff_ffff | 0x1400_0000),
            1 => (Isa::A32, opcode & 0xf1ff_ffff | 0x0a00_0000),
            2 => (Isa::T32, opcode & 0xf7ff_ffff | 0xf000_8000),
            _ => (Isa::T32, (opcode & 0xffff) % 0xe800),
        };
        let address = u64::from(round) << 2 | if isa == Isa::T32 { 2 } else { 0 };
        let Some(target) = facts(isa, address, opcode).target else { continue };
        let text = disassembler.text(isa, address, opcode);
        if text.starts_with(".inst") {
            continue;
        }
        compared += 1;
        assert!(text.ends_with(&format!("{:#x}", target.address)), "{isa:?} {opcode:08x} at {address:#x}: {text}");
    }
    assert!(compared > 50_000, "{compared} targets compared");
}

/// Whatever the opcode, there is a text, in lower case and with no blank too many.
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
