//! Memory accesses of at least one instruction of every family.
//!
//! The opcodes come from an assembler (LLVM 22), the expectations from the architecture. Rows whose names are sentences
//! are encodings that no assembler makes.

use unspool_isa::{Access, Isa, Operation, Stage, access, call_number};

use super::in_words;

#[test]
fn accesses() {
    for (name, opcode, expected) in A64 {
        assert_eq!(describe(&access(Isa::A64, opcode)), expected, "{name} ({opcode:#010x})");
    }
}

#[test]
fn call_numbers() {
    assert_eq!(call_number(0xd400_0001), 0, "svc #0");
    assert_eq!(call_number(0xd41f_ffe2), 0xffff, "hvc #0xffff");
    assert_eq!(call_number(0xd400_0023), 1, "smc #1");
}

/// Whether an operation reads, writes or touches tags: one row per operation, with `r`, `w` and `t`.
#[test]
fn directions() {
    let rows = [
        (Operation::None, ""),
        (Operation::Load, "r"),
        (Operation::Store, "w"),
        (Operation::LoadStore, "rw"),
        (Operation::Prefetch, ""),
        (Operation::VectorPrefetch, ""),
        (Operation::TagLoad, "t"),
        (Operation::TagStore, "t"),
        (Operation::TagAndDataStore, "wt"),
        (Operation::CacheMaintenance, ""),
        (Operation::Zero, "w"),
        (Operation::TagZero, "t"),
        (Operation::TagAndDataZero, "wt"),
        (Operation::TlbInvalidate, ""),
        (Operation::AddressTranslation, ""),
        (Operation::Set { stage: Stage::Main, tagged: false }, "w"),
        (Operation::Set { stage: Stage::Main, tagged: true }, "wt"),
        (Operation::Copy { stage: Stage::Main }, "rw"),
        (Operation::Fence, ""),
        (Operation::Unknown, ""),
    ];
    for (operation, expected) in rows {
        let found = [(operation.reads(), "r"), (operation.writes(), "w"), (operation.touches_tags(), "t")];
        let found: String = found.into_iter().filter(|(holds, _)| *holds).map(|(_, letter)| letter).collect();
        assert_eq!(found, expected, "{operation:?}");
        assert_eq!(operation.is_memory_access(), !expected.is_empty(), "{operation:?}");
    }
}

/// Bits 28 to 25 select the groups of instructions that only compute.
#[test]
fn computations_have_no_access() {
    for top in (0..=0xff_u32).filter(|top| matches!(top >> 1 & 0b1111, 0b1000 | 0b1001 | 0b0101 | 0b1101 | 0b0111)) {
        for rest in (0..1 << 24).step_by(997) {
            assert_eq!(describe(&access(Isa::A64, top << 24 | rest)), "none", "{top:#04x}, {rest:#08x}");
        }
    }
}

/// The access as text.
fn describe(access: &Access) -> String {
    let mut words = vec![match (operation(access.operation), access.bytes) {
        (operation, Some(bytes)) => format!("{operation} {bytes}"),
        (operation, None) => operation,
    }];
    words.extend(access.element.map(|bytes| format!("element {bytes}")));
    let flags = [
        (access.predicated, "predicated"),
        (access.suppresses_faults, "suppresses faults"),
        (access.vector, "vector"),
        (access.may_not_write, "may not"),
        (access.sme_index, "index"),
    ];
    words.extend(flags.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word.to_owned()));
    words.join(", ")
}

fn operation(operation: Operation) -> String {
    match operation {
        Operation::Set { stage, tagged: false } => format!("set {}", in_words(stage, " ")),
        Operation::Set { stage, tagged: true } => format!("set {} with tags", in_words(stage, " ")),
        Operation::Copy { stage } => format!("copy {}", in_words(stage, " ")),
        plain => in_words(plain, " "),
    }
}

const A64: [(&str, u32, &str); 243] = [
    // Base
    ("ldrb w0, [x1]", 0x3940_0020, "load 1"),
    ("ldrsb x0, [x1, #1]", 0x3980_0420, "load 1"),
    ("ldrh w0, [x1], #2", 0x7840_2420, "load 2"),
    ("ldrsh w0, [x1, #2]!", 0x78c0_2c20, "load 2"),
    ("ldrsw x0, [x1, x2, lsl #2]", 0xb8a2_7820, "load 4"),
    ("ldr w0, [x1, w2, sxtw]", 0xb862_c820, "load 4"),
    ("ldr x0, [x1]", 0xf940_0020, "load 8"),
    ("ldur x0, [x1, #-1]", 0xf85f_f020, "load 8"),
    ("ldtr w0, [x1]", 0xb840_0820, "load 4"),
    ("str wzr, [sp, #-16]!", 0xb81f_0fff, "store 4"),
    ("strb w0, [x1, x2]", 0x3822_6820, "store 1"),
    ("sturh w0, [x1, #-1]", 0x781f_f020, "store 2"),
    ("sttr x0, [x1]", 0xf800_0820, "store 8"),
    ("ldr w0, #8", 0x1800_0040, "load 4"),
    ("ldr x0, #8", 0x5800_0040, "load 8"),
    ("ldrsw x0, #8", 0x9800_0040, "load 4"),
    ("ldraa x0, [x1]", 0xf820_0420, "load 8"),
    ("ldrab x0, [x1, #8]!", 0xf8a0_1c20, "load 8"),
    ("ldp w0, w1, [x2]", 0x2940_0440, "load 8"),
    ("ldpsw x0, x1, [x2]", 0x6940_0440, "load 8"),
    ("ldp x29, x30, [sp], #16", 0xa8c1_7bfd, "load 16"),
    ("stp x29, x30, [sp, #-16]!", 0xa9bf_7bfd, "store 16"),
    ("stnp w0, w1, [x2]", 0x2800_0440, "store 8"),
    ("ldnp x0, x1, [x2]", 0xa840_0440, "load 16"),
    ("sttp x0, x1, [x2]", 0xe900_0440, "store 16"),
    ("ldtnp q0, q1, [x2]", 0xec40_0440, "load 32"),
    ("prfm pldl1keep, [x0]", 0xf980_0000, "prefetch"),
    ("prfm pstl2strm, #8", 0xd800_0053, "prefetch"),
    ("prfm plil1keep, [x0, x1]", 0xf8a1_6808, "prefetch"),
    ("prfum pldl1keep, [x0, #-1]", 0xf89f_f000, "prefetch"),
    ("rprfm pldkeep, x0, [x1]", 0xf8a0_4838, "prefetch"),
    // SIMD and floating point
    ("ldr b0, [x1]", 0x3d40_0020, "load 1"),
    ("str h0, [x1]", 0x7d00_0020, "store 2"),
    ("ldur s0, [x1, #1]", 0xbc40_1020, "load 4"),
    ("str d0, [x1], #8", 0xfc00_8420, "store 8"),
    ("ldr q0, [x1, x2]", 0x3ce2_6820, "load 16"),
    ("ldr q0, #16", 0x9c00_0080, "load 16"),
    ("stp q0, q1, [x2]", 0xad00_0440, "store 32"),
    ("ldp s0, s1, [x2]", 0x2d40_0440, "load 8"),
    ("ld1 { v0.8b }, [x0]", 0x0c40_7000, "load 8"),
    ("ld1 { v0.2d, v1.2d, v2.2d, v3.2d }, [x0], #64", 0x4cdf_2c00, "load 64"),
    ("st2 { v0.4h, v1.4h }, [x0]", 0x0c00_8400, "store 16"),
    ("ld3 { v0.16b, v1.16b, v2.16b }, [x0], x1", 0x4cc1_4000, "load 48"),
    ("st4 { v0.4s, v1.4s, v2.4s, v3.4s }, [x0]", 0x4c00_0800, "store 64"),
    ("ld1 { v0.h }[3], [x0]", 0x0d40_5800, "load 2"),
    ("st3 { v0.d, v1.d, v2.d }[1], [x0]", 0x4d00_a400, "store 24"),
    ("ld1r { v0.16b }, [x0]", 0x4d40_c000, "load 1"),
    ("ld4r { v0.2s, v1.2s, v2.2s, v3.2s }, [x0]", 0x0d60_e800, "load 16"),
    ("ldap1 { v0.d }[1], [x0]", 0x4d41_8400, "load 8"),
    ("stl1 { v0.d }[0], [x0]", 0x0d01_8400, "store 8"),
    ("ldapur q0, [x1, #-16]", 0x1ddf_0820, "load 16"),
    ("stlur b0, [x1]", 0x1d00_0820, "store 1"),
    // Ordered and exclusive
    ("ldxrb w0, [x1]", 0x085f_7c20, "load 1"),
    ("ldaxr x0, [x1]", 0xc85f_fc20, "load 8"),
    ("ldxp w0, w1, [x2]", 0x887f_0440, "load 8"),
    ("ldaxp x0, x1, [x2]", 0xc87f_8440, "load 16"),
    ("stxr w0, w1, [x2]", 0x8800_7c41, "store 4, may not"),
    ("stlxrh w0, w1, [x2]", 0x4800_fc41, "store 2, may not"),
    ("stlxp w0, x1, x2, [x3]", 0xc820_8861, "store 16, may not"),
    ("ldtxr x0, [x1]", 0xc95f_7c20, "load 8"),
    ("stltxr w0, x1, [x2]", 0xc900_fc41, "store 8, may not"),
    ("ldar w0, [x1]", 0x88df_fc20, "load 4"),
    ("ldlarb w0, [x1]", 0x08df_7c20, "load 1"),
    ("stlr x0, [x1]", 0xc89f_fc20, "store 8"),
    ("stllrh w0, [x1]", 0x489f_7c20, "store 2"),
    ("ldapr x0, [x1]", 0xf8bf_c020, "load 8"),
    ("ldapr w0, [x1], #4", 0x99c0_0820, "load 4"),
    ("stlr x0, [x1, #-8]!", 0xd980_0820, "store 8"),
    ("ldapurb w0, [x1]", 0x1940_0020, "load 1"),
    ("ldapursw x0, [x1, #4]", 0x9980_4020, "load 4"),
    ("stlurh w0, [x1]", 0x5900_0020, "store 2"),
    ("ldiapp x0, x1, [x2], #16", 0xd941_0840, "load 16"),
    ("stilp w0, w1, [x2, #-8]!", 0x9901_0840, "store 8"),
    // Atomic
    ("ldadd w0, w1, [x2]", 0xb820_0041, "load store 4"),
    ("staddlb w0, [x1]", 0x3860_003f, "load store 1"),
    ("ldclrah w0, w1, [x2]", 0x78a0_1041, "load store 2"),
    ("ldsmaxal x0, x1, [x2]", 0xf8e0_4041, "load store 8"),
    ("swp x0, x1, [x2]", 0xf820_8041, "load store 8"),
    ("swpb w0, w1, [x2]", 0x3820_8041, "load store 1"),
    ("cas x0, x1, [x2]", 0xc8a0_7c41, "load store 8, may not"),
    ("casalh w0, w1, [x2]", 0x48e0_fc41, "load store 2, may not"),
    ("casp w0, w1, w2, w3, [x4]", 0x0820_7c82, "load store 8, may not"),
    ("caspal x0, x1, x2, x3, [x4]", 0x4860_fc82, "load store 16, may not"),
    ("cast x0, x1, [x2]", 0xc980_7c41, "load store 8, may not"),
    ("caspalt x0, x1, x2, x3, [x4]", 0x49c0_fc82, "load store 16, may not"),
    ("ldclrp x0, x1, [x2]", 0x1921_1040, "load store 16"),
    ("ldsetpal x0, x1, [x2]", 0x19e1_3040, "load store 16"),
    ("swpp x0, x1, [x2]", 0x1921_8040, "load store 16"),
    ("ldtadd w0, w1, [x2]", 0x1920_0441, "load store 4"),
    ("swptal x0, x1, [x2]", 0x59e0_8441, "load store 8"),
    ("rcwcas x0, x1, [x2]", 0x1920_0841, "load store 8, may not"),
    ("rcwscaspa x0, x1, x2, x3, [x4]", 0x59a0_0c82, "load store 16, may not"),
    ("rcwswp x0, x1, [x2]", 0x3820_a041, "load store 8, may not"),
    ("rcwsclrl x0, x1, [x2]", 0x7860_9041, "load store 8, may not"),
    ("rcwsetp x0, x1, [x2]", 0x1921_b040, "load store 16, may not"),
    ("ldbfadd h0, h1, [x2]", 0x3c20_0041, "load store 2"),
    ("ldfmaxnmal d0, d1, [x2]", 0xfce0_6041, "load store 8"),
    ("stfminl s0, [x1]", 0xbc60_d03f, "load store 4"),
    ("ld64b x0, [x8]", 0xf83f_d100, "load 64"),
    ("st64b x0, [x8]", 0xf83f_9100, "store 64"),
    ("st64bv x10, x0, [x8]", 0xf82a_b100, "store 64, may not"),
    ("st64bv0 x10, x0, [x8]", 0xf82a_a100, "store 64, may not"),
    // Tags
    ("ldg x0, [x1]", 0xd960_0020, "tag load 16"),
    ("ldgm x0, [x1]", 0xd9e0_0020, "tag load"),
    ("stg x0, [x1], #16", 0xd920_1420, "tag store 16"),
    ("st2g x0, [x1]", 0xd9a0_0820, "tag store 32"),
    ("stgm x0, [x1]", 0xd9a0_0020, "tag store"),
    ("stzg x0, [x1, #16]!", 0xd960_1c20, "tag and data store 16"),
    ("stz2g x0, [x1]", 0xd9e0_0820, "tag and data store 32"),
    ("stzgm x0, [x1]", 0xd920_0020, "tag and data store"),
    ("stgp x0, x1, [x2]", 0x6900_0440, "tag and data store 16"),
    ("irg x0, x1", 0x9adf_1020, "none"),
    ("addg x0, x1, #16, #1", 0x9181_0420, "none"),
    // Ranges
    ("setp [x0]!, x1!, x2", 0x19c2_0420, "set prologue"),
    ("setmt [x0]!, x1!, xzr", 0x19df_5420, "set main"),
    ("seten [x0]!, x1!, x2", 0x19c2_a420, "set epilogue"),
    ("setgp [x0]!, x1!, x2", 0x1dc2_0420, "set prologue with tags"),
    ("setgetn [x0]!, x1!, x2", 0x1dc2_b420, "set epilogue with tags"),
    ("cpyp [x0]!, [x1]!, x2!", 0x1d01_0440, "copy prologue"),
    ("cpymrtwn [x0]!, [x1]!, x2!", 0x1d41_6440, "copy main"),
    ("cpyfewn [x0]!, [x1]!, x2!", 0x1981_4440, "copy epilogue"),
    ("cpyfm [x0]!, [x1]!, x2!", 0x1941_0440, "copy main"),
    // System
    ("ic ialluis", 0xd508_711f, "cache maintenance all"),
    ("ic ivau, x0", 0xd50b_7520, "cache maintenance"),
    ("dc ivac, x0", 0xd508_7620, "cache maintenance"),
    ("dc cisw, x0", 0xd508_7e40, "cache maintenance all"),
    ("dc cgdsw, x0", 0xd508_7ac0, "cache maintenance all"),
    ("dc cvau, x0", 0xd50b_7b20, "cache maintenance"),
    ("dc cgdvadp, x0", 0xd50b_7da0, "cache maintenance"),
    ("dc civaps, x0", 0xd508_7f20, "cache maintenance"),
    ("dc cvaoc, x0", 0xd50b_7b00, "cache maintenance"),
    ("dc cipapa, x0", 0xd50e_7e20, "cache maintenance all"),
    ("dc cipae, x0", 0xd50c_7e00, "cache maintenance all"),
    ("dc zva, x0", 0xd50b_7420, "zero"),
    ("dc gva, x0", 0xd50b_7460, "tag zero"),
    ("dc gzva, x0", 0xd50b_7480, "tag and data zero"),
    ("tlbi vmalle1", 0xd508_871f, "tlb invalidate all"),
    ("tlbi aside1is, x0", 0xd508_8340, "tlb invalidate all"),
    ("tlbi alle2os", 0xd50c_811f, "tlb invalidate all"),
    ("tlbi vmalls12e1nxs", 0xd50c_97df, "tlb invalidate all"),
    ("tlbi paallos", 0xd50e_819f, "tlb invalidate all"),
    ("tlbi vae1, x0", 0xd508_8720, "tlb invalidate"),
    ("tlbi vaale1isnxs, x0", 0xd508_93e0, "tlb invalidate"),
    ("tlbi ipas2le1os, x0", 0xd50c_8480, "tlb invalidate"),
    ("tlbi rvae3, x0", 0xd50e_8620, "tlb invalidate range"),
    ("tlbi ripas2e1is, x0", 0xd50c_8040, "tlb invalidate range"),
    ("tlbi rpaos, x0", 0xd50e_8460, "tlb invalidate range"),
    ("tlbip vae1is, x0, x1", 0xd548_8320, "tlb invalidate"),
    ("tlbip rvaae1, x0, x1", 0xd548_8660, "tlb invalidate range"),
    ("at s1e1r, x0", 0xd508_7800, "address translation"),
    ("at s12e0w, x0", 0xd50c_78e0, "address translation"),
    ("at s1e1a, x0", 0xd508_7940, "address translation"),
    ("gcspushm x0", 0xd50b_7700, "store 8"),
    ("gcspopm x0", 0xd52b_7720, "load 8"),
    ("gcsss1 x0", 0xd50b_7740, "load store 8, may not"),
    ("gcsss2 x0", 0xd52b_7760, "load store 16"),
    ("gcspushx", 0xd508_779f, "store 32"),
    ("gcspopcx", 0xd508_77bf, "load 32"),
    ("gcspopx", 0xd508_77df, "load 32"),
    ("gcsstr x0, [x1]", 0xd91f_0c20, "store 8"),
    ("gcssttr x0, [x1]", 0xd91f_1c20, "store 8"),
    ("brb iall", 0xd509_729f, "none"),
    ("trcit x0", 0xd50b_72e0, "none"),
    ("cfp rctx, x0", 0xd50b_7380, "none"),
    ("mrs x0, midr_el1", 0xd538_0000, "none"),
    ("dsb sy", 0xd503_3f9f, "none"),
    // Elsewhere
    ("nop", 0xd503_201f, "none"),
    ("b #8", 0x1400_0002, "none"),
    ("ret", 0xd65f_03c0, "none"),
    ("add x0, x1, #1", 0x9100_0420, "none"),
    ("fadd d0, d1, d2", 0x1e62_2820, "none"),
    // SVE
    ("ldr z0, [x1]", 0x8580_4020, "load, element 1, vector"),
    ("ldr p0, [x1, #1, mul vl]", 0x8580_0420, "load, element 1, vector"),
    ("str z0, [x1]", 0xe580_4020, "store, element 1, vector"),
    ("str p0, [x1]", 0xe580_0020, "store, element 1, vector"),
    ("ld1b { z0.d }, p0/z, [x1]", 0xa460_a020, "load, element 1, predicated, vector"),
    ("ld1sw { z0.d }, p0/z, [x1, x2, lsl #2]", 0xa482_4020, "load, element 4, predicated, vector"),
    ("ld1d { z0.q }, p0/z, [x1]", 0xa590_2020, "load, element 8, predicated, vector"),
    ("ld1w { z0.s }, p0/z, [x1, z2.s, uxtw]", 0x8502_4020, "load, element 4, predicated, vector"),
    ("ld1h { z0.d }, p0/z, [z1.d, #2]", 0xc4a1_c020, "load, element 2, predicated, vector"),
    ("ld1q { z0.q }, p0/z, [z1.d, x2]", 0xc402_a020, "load, element 16, predicated, vector"),
    ("ld1rb { z0.h }, p0/z, [x1]", 0x8440_a020, "load 1, element 1, predicated, vector"),
    ("ld1rsw { z0.d }, p0/z, [x1]", 0x84c0_8020, "load 4, element 4, predicated, vector"),
    ("ld1rqh { z0.h }, p0/z, [x1]", 0xa480_2020, "load 16, element 2, predicated, vector"),
    ("ld1rod { z0.d }, p0/z, [x1, x2, lsl #3]", 0xa5a2_0020, "load 32, element 8, predicated, vector"),
    ("ldnt1b { z0.b }, p0/z, [x1]", 0xa400_e020, "load, element 1, predicated, vector"),
    ("ldnt1sh { z0.s }, p0/z, [z1.s, x2]", 0x8482_8020, "load, element 2, predicated, vector"),
    ("ldff1b { z0.b }, p0/z, [x1, x2]", 0xa402_6020, "load, element 1, predicated, suppresses faults, vector"),
    ("ldff1sw { z0.d }, p0/z, [x1, z2.d]", 0xc542_a020, "load, element 4, predicated, suppresses faults, vector"),
    ("ldnf1d { z0.d }, p0/z, [x1]", 0xa5f0_a020, "load, element 8, predicated, suppresses faults, vector"),
    ("ld2w { z0.s, z1.s }, p0/z, [x1]", 0xa520_e020, "load, element 4, predicated, vector"),
    ("ld3q { z0.q, z1.q, z2.q }, p0/z, [x1]", 0xa510_e020, "load, element 16, predicated, vector"),
    ("ld4b { z0.b, z1.b, z2.b, z3.b }, p0/z, [x1, x2]", 0xa462_c020, "load, element 1, predicated, vector"),
    ("st1b { z0.s }, p0, [x1]", 0xe440_e020, "store, element 1, predicated, vector"),
    ("st1w { z0.q }, p0, [x1, x2, lsl #2]", 0xe502_4020, "store, element 4, predicated, vector"),
    ("st1d { z0.d }, p0, [x1, z2.d, lsl #3]", 0xe5a2_a020, "store, element 8, predicated, vector"),
    ("st1h { z0.s }, p0, [z1.s]", 0xe4e0_a020, "store, element 2, predicated, vector"),
    ("st1q { z0.q }, p0, [z1.d]", 0xe43f_2020, "store, element 16, predicated, vector"),
    ("stnt1d { z0.d }, p0, [z1.d, x2]", 0xe582_2020, "store, element 8, predicated, vector"),
    ("st2h { z0.h, z1.h }, p0, [x1]", 0xe4b0_e020, "store, element 2, predicated, vector"),
    ("st4q { z0.q, z1.q, z2.q, z3.q }, p0, [x1, x2, lsl #4]", 0xe4e2_0020, "store, element 16, predicated, vector"),
    ("prfb pldl1keep, p0, [x1]", 0x85c0_0020, "vector prefetch, element 1, predicated, vector"),
    ("prfh pldl1keep, p0, [x1, x2, lsl #1]", 0x8482_c020, "vector prefetch, element 2, predicated, vector"),
    ("prfw pldl1keep, p0, [z1.s]", 0x8500_e020, "vector prefetch, element 4, predicated, vector"),
    ("prfd pldl1keep, p0, [x1, z2.d, lsl #3]", 0xc462_e020, "vector prefetch, element 8, predicated, vector"),
    ("add z0.s, z1.s, z2.s", 0x04a2_0020, "none, vector"),
    ("setffr", 0x252c_9000, "none, vector"),
    ("psel p0, p1, p2.b[w12, 0]", 0x2524_4440, "none, vector"),
    // SME
    ("ld1b { z0.b, z1.b }, pn8/z, [x1]", 0xa040_0020, "load, element 1, predicated, vector"),
    ("ldnt1w { z0.s, z4.s, z8.s, z12.s }, pn8/z, [x1]", 0xa140_c028, "load, element 4, predicated, vector"),
    ("st1d { z0.d - z3.d }, pn8, [x1, x2, lsl #3]", 0xa022_e020, "store, element 8, predicated, vector"),
    ("ld1b { za0h.b[w12, 0] }, p0/z, [x1]", 0xe01f_0020, "load, element 1, predicated, vector, index"),
    ("st1q { za0v.q[w12, 0] }, p0, [x1]", 0xe1ff_8020, "store, element 16, predicated, vector, index"),
    ("ldr za[w12, 0], [x1]", 0xe100_0020, "load, element 1, vector, index"),
    ("str za[w12, 0], [x1]", 0xe120_0020, "store, element 1, vector, index"),
    ("ldr zt0, [x1]", 0xe11f_8020, "load 64, element 1, vector"),
    ("str zt0, [x1]", 0xe13f_8020, "store 64, element 1, vector"),
    ("mova z0.b, p0/m, za0h.b[w12, 0]", 0xc002_0000, "none, vector, index"),
    ("mova za0v.d[w12, 0], p0/m, z0.d", 0xc0c0_8000, "none, vector, index"),
    ("mova { z0.d, z1.d }, za.d[w8, 0, vgx2]", 0xc006_0800, "none, vector, index"),
    ("movaz { z0.d - z3.d }, za.d[w8, 0, vgx4]", 0xc006_0e00, "none, vector, index"),
    ("fmla za.s[w8, 0, vgx2], { z0.s, z1.s }, z2.s[0]", 0xc152_0000, "none, vector, index"),
    ("add za.s[w8, 0, vgx2], { z0.s, z1.s }", 0xc1a0_1c10, "none, vector, index"),
    ("sub za.d[w8, 7, vgx4], { z0.d - z3.d }, z4.d", 0xc174_181f, "none, vector, index"),
    ("zero za.d[w8, 0, vgx2]", 0xc00c_0000, "none, vector, index"),
    ("zero za.d[w8, 0:3]", 0xc00e_8000, "none, vector, index"),
    ("zero { za0.d }", 0xc008_0001, "none, vector"),
    ("zero { zt0 }", 0xc048_0001, "none, vector"),
    ("movt zt0[0], x0", 0xc04e_03e0, "none, vector"),
    ("luti2 z0.b, zt0, z1[0]", 0xc0cc_0020, "none, vector"),
    ("addha za0.s, p0/m, p1/m, z0.s", 0xc090_2000, "none, vector"),
    ("fmopa za0.s, p0/m, p1/m, z0.s, z1.s", 0x8081_2000, "none, vector"),
    ("sel { z0.b, z1.b }, pn8, { z2.b, z3.b }, { z4.b, z5.b }", 0xc124_8040, "none, vector"),
    // Encodings that no assembler makes
    ("an invalidation of all that has a register", 0xd508_8700, "tlb invalidate all"),
    ("tlbip vae1isnxs, x0, x1, which LLVM 22 calls sysp", 0xd548_9320, "tlb invalidate"),
    ("a system instruction of the implementation", 0xd50b_b000, "none"),
    ("a non-temporal pair that would be STGP", 0x6800_0000, "none"),
    ("a compare and swap of a pair that starts at an odd register", 0x4821_7c00, "none"),
    ("a sign-extending load of a doubleword", 0xf9c0_0000, "none"),
    ("a copy onto itself", 0x1d01_0421, "none"),
    ("a gather of doublewords into words", 0x85a0_c000, "none, vector"),
    ("an undefined word that is not UDF", 0x0001_0000, "none"),
    ("no instruction at all", 0xffff_ffff, "none"),
];
