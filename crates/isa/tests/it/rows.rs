//! The control flow of at least one instruction of every family, at address 0x8000.
//!
//! The opcodes come from an assembler (LLVM 22), the expectations from the architecture: the target of the offset in the
//! text, counted from the value of the PC, and the effect of an instruction of that name. Rows whose names are sentences
//! are encodings that no assembler makes.

use unspool_isa::{Decoded, Isa, decode};

use super::in_words;

const ADDRESS: u64 = 0x8000;

#[test]
fn control_flow_is_as_described() {
    check(Isa::A64, &A64);
    check(Isa::A32, &A32);
    check(Isa::T32, &T32);
}

/// Targets wrap where the address space ends.
#[test]
fn targets_stay_in_the_address_space() {
    let target = |isa, address, opcode| decode(isa, address, opcode).target_address();
    assert_eq!(target(Isa::A64, 0, 0x17ff_ffff), Some(0xffff_ffff_ffff_fffc));
    assert_eq!(target(Isa::A64, 0xffff_ffff_ffff_fffc, 0x1400_0001), Some(0));
    assert_eq!(target(Isa::A32, 0, 0xeaff_fffd), Some(0xffff_fffc));
    assert_eq!(target(Isa::A32, 0xffff_fffc, 0xea00_0000), Some(4));
    assert_eq!(target(Isa::T32, 0, 0xe7fd), Some(0xffff_fffe));
    assert_eq!(target(Isa::T32, 0xffff_fffe, 0xf000_f801), Some(4));
    // BLX counts from the word that holds the PC, and an address may have the bit that means T32.
    assert_eq!(target(Isa::T32, 0x8002, 0xf000_e802), Some(0x8008));
    assert_eq!(target(Isa::T32, 0x8001, 0xe000), Some(0x8004));
}

/// In A32 the condition is a fact of every instruction, whatever else it does.
#[test]
fn a32_conditions() {
    for opcode in (0..0x1_0000).map(|high| high << 16 | 0xf001) {
        assert_eq!(decode(Isa::A32, ADDRESS, opcode).conditional, opcode >> 28 < 0b1110, "{opcode:08x}");
    }
}

fn check(isa: Isa, rows: &[(&str, u32, &str)]) {
    for &(name, opcode, expected) in rows {
        let decoded = decode(isa, ADDRESS, opcode);
        assert_eq!(describe(isa, &decoded), expected, "{name} ({opcode:#010x})");
        let length = if isa == Isa::T32 && opcode < 0x1_0000 { 2 } else { 4 };
        assert_eq!(decoded.length, length, "length of {name}");
    }
}

/// The control flow as text, with the instruction set of the target if it is another one.
fn describe(isa: Isa, decoded: &Decoded) -> String {
    let mut words = vec![in_words(decoded.flow, "-")];
    if let Some(target) = decoded.target {
        if target.isa != isa {
            words.push(format!("{:?}", target.isa).to_lowercase());
        }
        words.push(format!("{:#x}", target.address));
    }
    let flags = [(decoded.link, "link"), (decoded.ret, "return"), (decoded.conditional, "conditional")];
    words.extend(flags.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word.to_owned()));
    if decoded.it != 0 {
        words.push(format!("it {}", decoded.it));
    }
    words.join(" ")
}

const A64: [(&str, u32, &str); 93] = [
    ("b #8", 0x1400_0002, "direct 0x8008"),
    ("b #-134217728", 0x1600_0000, "direct 0xfffffffff8008000"),
    ("bl #-4", 0x97ff_ffff, "direct 0x7ffc link"),
    ("b.eq #1048572", 0x547f_ffe0, "direct 0x107ffc conditional"),
    ("b.al #8", 0x5400_004e, "direct 0x8008"),
    ("b.nv #8", 0x5400_004f, "direct 0x8008"),
    ("bc.ne #-8", 0x54ff_ffd1, "direct 0x7ff8 conditional"),
    ("bc.al #-8", 0x54ff_ffde, "direct 0x7ff8"),
    ("cbz w3, #-1048576", 0x3480_0003, "direct 0xfffffffffff08000 conditional"),
    ("cbnz x3, #12", 0xb500_0063, "direct 0x800c conditional"),
    ("tbz w3, #5, #-32768", 0x362c_0003, "direct 0x0 conditional"),
    ("tbnz x3, #63, #32764", 0xb7fb_ffe3, "direct 0xfffc conditional"),
    ("cbgt x1, x2, #-1024", 0xf402_2001, "direct 0x7c00 conditional"),
    ("cbge x1, x2, #-1024", 0xf422_2001, "direct 0x7c00 conditional"),
    ("cbhi x1, x2, #-1024", 0xf442_2001, "direct 0x7c00 conditional"),
    ("cbhs x1, x2, #-1024", 0xf462_2001, "direct 0x7c00 conditional"),
    ("cbeq x1, x2, #-1024", 0xf4c2_2001, "direct 0x7c00 conditional"),
    ("cbne x1, x2, #-1024", 0xf4e2_2001, "direct 0x7c00 conditional"),
    ("cbgt w1, #63, #1020", 0x751f_9fe1, "direct 0x83fc conditional"),
    ("cblt w1, #63, #1020", 0x753f_9fe1, "direct 0x83fc conditional"),
    ("cbhi w1, #63, #1020", 0x755f_9fe1, "direct 0x83fc conditional"),
    ("cblo w1, #63, #1020", 0x757f_9fe1, "direct 0x83fc conditional"),
    ("cbeq w1, #63, #1020", 0x75df_9fe1, "direct 0x83fc conditional"),
    ("cbne w1, #63, #1020", 0x75ff_9fe1, "direct 0x83fc conditional"),
    ("cbbgt w1, w2, #8", 0x7402_8041, "direct 0x8008 conditional"),
    ("cbhgt w1, w2, #-8", 0x7402_ffc1, "direct 0x7ff8 conditional"),
    ("cbbge w1, w2, #8", 0x7422_8041, "direct 0x8008 conditional"),
    ("cbhge w1, w2, #-8", 0x7422_ffc1, "direct 0x7ff8 conditional"),
    ("cbbhi w1, w2, #8", 0x7442_8041, "direct 0x8008 conditional"),
    ("cbhhi w1, w2, #-8", 0x7442_ffc1, "direct 0x7ff8 conditional"),
    ("cbbhs w1, w2, #8", 0x7462_8041, "direct 0x8008 conditional"),
    ("cbhhs w1, w2, #-8", 0x7462_ffc1, "direct 0x7ff8 conditional"),
    ("cbbeq w1, w2, #8", 0x74c2_8041, "direct 0x8008 conditional"),
    ("cbheq w1, w2, #-8", 0x74c2_ffc1, "direct 0x7ff8 conditional"),
    ("cbbne w1, w2, #8", 0x74e2_8041, "direct 0x8008 conditional"),
    ("cbhne w1, w2, #-8", 0x74e2_ffc1, "direct 0x7ff8 conditional"),
    ("br x17", 0xd61f_0220, "indirect"),
    ("braa x1, x2", 0xd71f_0822, "indirect"),
    ("brab x1, sp", 0xd71f_0c3f, "indirect"),
    ("braaz x1", 0xd61f_083f, "indirect"),
    ("brabz x1", 0xd61f_0c3f, "indirect"),
    ("blr x17", 0xd63f_0220, "indirect link"),
    ("blraa x1, x2", 0xd73f_0822, "indirect link"),
    ("blrab x1, sp", 0xd73f_0c3f, "indirect link"),
    ("blraaz x1", 0xd63f_083f, "indirect link"),
    ("blrabz x1", 0xd63f_0c3f, "indirect link"),
    ("ret", 0xd65f_03c0, "indirect return"),
    ("ret x1", 0xd65f_0020, "indirect return"),
    ("retaa", 0xd65f_0bff, "indirect return"),
    ("retab", 0xd65f_0fff, "indirect return"),
    ("retaasppc #-8", 0x5500_005f, "indirect return"),
    ("retabsppc #-262140", 0x553f_ffff, "indirect return"),
    ("retaasppcr x3", 0xd65f_0be3, "indirect return"),
    ("retabsppcr x3", 0xd65f_0fe3, "indirect return"),
    ("eret", 0xd69f_03e0, "exception-return"),
    ("eretaa", 0xd69f_0bff, "exception-return"),
    ("eretab", 0xd69f_0fff, "exception-return"),
    ("drps", 0xd6bf_03e0, "exception-return"),
    ("isb", 0xd503_3fdf, "isb"),
    ("isb #0", 0xd503_30df, "isb"),
    ("wfe", 0xd503_205f, "wfx"),
    ("wfi", 0xd503_207f, "wfx"),
    ("wfet x3", 0xd503_1003, "wfx"),
    ("wfit x3", 0xd503_1023, "wfx"),
    ("svc #0", 0xd400_0001, "supervisor-call"),
    ("hvc #1", 0xd400_0022, "hypervisor-call"),
    ("smc #2", 0xd400_0043, "secure-monitor-call"),
    ("brk #1", 0xd420_0020, "breakpoint"),
    ("hlt #2", 0xd440_0040, "halt"),
    ("dcps2", 0xd4a0_0002, "debug-change-state"),
    ("udf #0", 0x0000_0000, "undefined"),
    ("nop", 0xd503_201f, "fall-through"),
    ("yield", 0xd503_203f, "fall-through"),
    ("sev", 0xd503_209f, "fall-through"),
    ("dsb sy", 0xd503_3f9f, "fall-through"),
    ("dmb ish", 0xd503_3bbf, "fall-through"),
    ("sb", 0xd503_30ff, "fall-through"),
    ("bti jc", 0xd503_24df, "fall-through"),
    ("add x0, x1, x2", 0x8b02_0020, "fall-through"),
    ("adr x0, #8", 0x1000_0040, "fall-through"),
    ("adrp x0, #4096", 0xb000_0000, "fall-through"),
    ("ldr x0, #8", 0x5800_0040, "fall-through"),
    ("paciasp", 0xd503_233f, "fall-through"),
    ("autibsppc #-4", 0xf3a0_003f, "fall-through"),
    ("msr DAIFSet, #2", 0xd503_42df, "fall-through"),
    ("tstart x3", 0xd523_3063, "transaction-start"),
    ("BR with a reserved bit", 0xd61f_0001, "fall-through"),
    ("RET with a reserved bit", 0xd65f_07c0, "fall-through"),
    ("ERET with a register", 0xd69f_03c0, "fall-through"),
    ("RETAASPPC to a register", 0x5500_0010, "fall-through"),
    ("CBGT of a reserved condition", 0x7480_0000, "fall-through"),
    ("CBBGT of 64 bits", 0xf400_8000, "fall-through"),
    ("CBGT with a reserved immediate bit", 0x7500_4000, "fall-through"),
];

const A32: [(&str, u32, &str); 101] = [
    ("b #8", 0xea00_0002, "direct 0x8010"),
    ("beq #-33554432", 0x0a80_0000, "direct 0xfe008008 conditional"),
    ("bl #33554428", 0xeb7f_ffff, "direct 0x2008004 link"),
    ("blne #0", 0x1b00_0000, "direct 0x8008 link conditional"),
    ("blx #4", 0xfa00_0001, "direct t32 0x800c link"),
    ("blx #-6", 0xfbff_fffe, "direct t32 0x8002 link"),
    ("bx lr", 0xe12f_ff1e, "indirect return"),
    ("bxne lr", 0x112f_ff1e, "indirect return conditional"),
    ("bx r3", 0xe12f_ff13, "indirect"),
    ("bxj r3", 0xe12f_ff23, "indirect"),
    ("blx r3", 0xe12f_ff33, "indirect link"),
    ("blxeq r3", 0x012f_ff33, "indirect link conditional"),
    ("mov pc, lr", 0xe1a0_f00e, "indirect return"),
    ("mov pc, r3", 0xe1a0_f003, "indirect"),
    ("moveq pc, lr", 0x01a0_f00e, "indirect return conditional"),
    ("movs pc, lr", 0xe1b0_f00e, "exception-return"),
    ("mvn pc, r1", 0xe1e0_f001, "indirect"),
    ("mov pc, #4096", 0xe3a0_fa01, "indirect"),
    ("add pc, pc, r1, lsl #2", 0xe08f_f101, "indirect"),
    ("addls pc, pc, r1, lsl #2", 0x908f_f101, "indirect conditional"),
    ("lsl pc, r1, #2", 0xe1a0_f101, "indirect"),
    ("sub pc, pc, #8", 0xe24f_f008, "indirect"),
    ("subs pc, lr, #4", 0xe25e_f004, "exception-return"),
    ("subseq pc, lr, #8", 0x025e_f008, "exception-return conditional"),
    ("and pc, r1, r2", 0xe001_f002, "indirect"),
    ("ands pc, lr, #0", 0xe21e_f000, "exception-return"),
    ("eor pc, r1, r2", 0xe021_f002, "indirect"),
    ("eors pc, lr, #0", 0xe23e_f000, "exception-return"),
    ("rsb pc, r1, r2", 0xe061_f002, "indirect"),
    ("rsbs pc, lr, #0", 0xe27e_f000, "exception-return"),
    ("adc pc, r1, r2", 0xe0a1_f002, "indirect"),
    ("adcs pc, lr, #0", 0xe2be_f000, "exception-return"),
    ("sbc pc, r1, r2", 0xe0c1_f002, "indirect"),
    ("sbcs pc, lr, #0", 0xe2de_f000, "exception-return"),
    ("rsc pc, r1, r2", 0xe0e1_f002, "indirect"),
    ("rscs pc, lr, #0", 0xe2fe_f000, "exception-return"),
    ("orr pc, r1, r2", 0xe181_f002, "indirect"),
    ("orrs pc, lr, #0", 0xe39e_f000, "exception-return"),
    ("bic pc, r1, r2", 0xe1c1_f002, "indirect"),
    ("bics pc, lr, #0", 0xe3de_f000, "exception-return"),
    ("ldr pc, [r1]", 0xe591_f000, "indirect"),
    ("ldr pc, [pc, #-4]", 0xe51f_f004, "indirect"),
    ("ldr pc, [r1, #4]!", 0xe5b1_f004, "indirect"),
    ("ldr pc, [r1], #-4", 0xe411_f004, "indirect"),
    ("ldr pc, [pc, r1, lsl #2]", 0xe79f_f101, "indirect"),
    ("ldrls pc, [pc, r1, lsl #2]", 0x979f_f101, "indirect conditional"),
    ("ldr pc, [sp, r1]", 0xe79d_f001, "indirect"),
    ("ldr pc, [sp], #4", 0xe49d_f004, "indirect return"),
    ("ldr pc, [sp], #8", 0xe49d_f008, "indirect return"),
    ("ldr pc, [sp, #4]", 0xe59d_f004, "indirect return"),
    ("pop {r4, pc}", 0xe8bd_8010, "indirect return"),
    ("popeq {r4, pc}", 0x08bd_8010, "indirect return conditional"),
    ("ldm sp, {r11, sp, pc}", 0xe89d_a800, "indirect return"),
    ("ldmdb r11, {r11, sp, pc}", 0xe91b_a800, "indirect"),
    ("ldmib r1, {r2, pc}", 0xe991_8004, "indirect"),
    ("ldmda r1!, {r2, pc}", 0xe831_8004, "indirect"),
    ("ldm sp!, {r0, pc}^", 0xe8fd_8001, "exception-return"),
    ("ldm r1, {r0, pc}^", 0xe8d1_8001, "exception-return"),
    ("ldm r1, {r0, r2}^", 0xe8d1_0005, "fall-through"),
    ("rfeia sp!", 0xf8bd_0a00, "exception-return"),
    ("rfedb r1", 0xf911_0a00, "exception-return"),
    ("rfeda r1!", 0xf831_0a00, "exception-return"),
    ("rfeib r2", 0xf992_0a00, "exception-return"),
    ("eret", 0xe160_006e, "exception-return"),
    ("ereteq", 0x0160_006e, "exception-return conditional"),
    ("isb", 0xf57f_f06f, "isb"),
    ("isb #0", 0xf57f_f060, "isb"),
    ("mcr p15, #0, r0, c7, c5, #4", 0xee07_0f95, "isb"),
    ("mcrne p15, #0, r0, c7, c5, #4", 0x1e07_0f95, "isb conditional"),
    ("mcr p15, #0, r0, c7, c10, #4", 0xee07_0f9a, "data-barrier"),
    ("mcrne p15, #0, r3, c7, c10, #5", 0x1e07_3fba, "data-barrier conditional"),
    ("mcr p15, #0, r0, c7, c10, #3", 0xee07_0f7a, "fall-through"),
    ("wfi", 0xe320_f003, "wfx"),
    ("wfe", 0xe320_f002, "wfx"),
    ("wfieq", 0x0320_f003, "wfx conditional"),
    ("tst pc, r1", 0xe11f_0001, "fall-through"),
    ("teq pc, #1", 0xe33f_0001, "fall-through"),
    ("cmp pc, r1", 0xe15f_0001, "fall-through"),
    ("cmn pc, #1", 0xe37f_0001, "fall-through"),
    ("tst r1, r2", 0xe111_0002, "fall-through"),
    ("svc #0", 0xef00_0000, "supervisor-call"),
    ("hvc #1", 0xe140_0071, "fall-through"),
    ("smc #1", 0xe160_0071, "fall-through"),
    ("bkpt #0", 0xe120_0070, "fall-through"),
    ("udf #0", 0xe7f0_00f0, "fall-through"),
    ("nop", 0xe320_f000, "fall-through"),
    ("sev", 0xe320_f004, "fall-through"),
    ("dsb sy", 0xf57f_f04f, "data-barrier"),
    ("dmb ish", 0xf57f_f05b, "data-barrier"),
    ("str pc, [r1]", 0xe581_f000, "fall-through"),
    ("stm r1, {r2, pc}", 0xe881_8004, "fall-through"),
    ("ldm r1, {r2, lr}", 0xe891_4004, "fall-through"),
    ("add r0, pc, #4", 0xe28f_0004, "fall-through"),
    ("mrs r0, apsr", 0xe10f_0000, "fall-through"),
    ("movw r0, #1", 0xe300_0001, "fall-through"),
    ("addeq r0, r0, r1", 0x0080_0001, "fall-through conditional"),
    ("MOV PC with a first operand", 0xe1a1_f002, "fall-through"),
    ("AND PC shifted by a register", 0xe001_f213, "fall-through"),
    ("LDRT PC", 0xe4b1_f004, "fall-through"),
    ("LDRB PC", 0xe5d1_f000, "fall-through"),
    ("MOVW PC", 0xe300_f001, "fall-through"),
];

const T32: [(&str, u32, &str); 108] = [
    ("b.n #-2048", 0xe400, "direct 0x7804"),
    ("beq.n #-256", 0xd080, "direct 0x7f04 conditional"),
    ("ble.n #254", 0xdd7f, "direct 0x8102 conditional"),
    ("cbz r1, #126", 0xb3f9, "direct 0x8082 conditional"),
    ("cbnz r1, #0", 0xb901, "direct 0x8004 conditional"),
    ("bx lr", 0x4770, "indirect return"),
    ("bx r3", 0x4718, "indirect"),
    ("blx r3", 0x4798, "indirect link"),
    ("pop {pc}", 0xbd00, "indirect return"),
    ("pop {r4, pc}", 0xbd10, "indirect return"),
    ("mov pc, lr", 0x46f7, "indirect return"),
    ("mov pc, r3", 0x469f, "indirect"),
    ("add pc, r3", 0x449f, "indirect"),
    ("wfi", 0xbf30, "wfx"),
    ("wfe", 0xbf20, "wfx"),
    ("wfi.w", 0xf3af_8003, "wfx"),
    ("wfe.w", 0xf3af_8002, "wfx"),
    ("b.w #-16777216", 0xf400_9000, "direct 0xff008004"),
    ("b.w #16777214", 0xf3ff_97ff, "direct 0x1008002"),
    ("beq.w #-1048576", 0xf400_8000, "direct 0xfff08004 conditional"),
    ("ble.w #1048574", 0xf37f_afff, "direct 0x108002 conditional"),
    ("bl #-4", 0xf7ff_fffe, "direct 0x8000 link"),
    ("bl #8388608", 0xf000_d800, "direct 0x808004 link"),
    ("blx #4", 0xf000_e802, "direct a32 0x8008 link"),
    ("blx #-16777216", 0xf400_c000, "direct a32 0xff008004 link"),
    ("tbb [pc, r1]", 0xe8df_f001, "indirect"),
    ("tbh [r2, r1, lsl #1]", 0xe8d2_f011, "indirect"),
    ("ldr.w pc, [r1]", 0xf8d1_f000, "indirect"),
    ("ldr pc, [r1, #-4]", 0xf851_fc04, "indirect"),
    ("ldr pc, [r1], #4", 0xf851_fb04, "indirect"),
    ("ldr pc, [r1, #4]!", 0xf851_ff04, "indirect"),
    ("ldr.w pc, [pc, #-8]", 0xf85f_f008, "indirect"),
    ("ldr.w pc, [r1, r2, lsl #2]", 0xf851_f022, "indirect"),
    ("ldr pc, [sp], #4", 0xf85d_fb04, "indirect return"),
    ("ldr.w pc, [sp, #8]", 0xf8dd_f008, "indirect return"),
    ("pop.w {r4, r8, pc}", 0xe8bd_8110, "indirect return"),
    ("ldm.w r1, {r2, pc}", 0xe891_8004, "indirect"),
    ("ldm.w sp, {r2, pc}", 0xe89d_8004, "indirect return"),
    ("ldmdb r1!, {r2, pc}", 0xe931_8004, "indirect"),
    ("rfeia sp!", 0xe9bd_c000, "exception-return"),
    ("rfedb r1", 0xe811_c000, "exception-return"),
    ("subs pc, lr, #4", 0xf3de_8f04, "exception-return"),
    ("eret", 0xf3de_8f00, "exception-return"),
    ("bxj r3", 0xf3c3_8f00, "indirect"),
    ("isb", 0xf3bf_8f6f, "isb"),
    ("leavex", 0xf3bf_8f0f, "leave-thumb-ee"),
    ("enterx", 0xf3bf_8f1f, "enter-thumb-ee"),
    ("mcr p15, #0, r0, c7, c5, #4", 0xee07_0f95, "isb"),
    ("udf #0", 0xde00, "fall-through"),
    ("udf.w #0", 0xf7f0_a000, "fall-through"),
    ("svc #0", 0xdf00, "supervisor-call"),
    ("bkpt #0", 0xbe00, "fall-through"),
    ("nop", 0xbf00, "fall-through"),
    ("nop.w", 0xf3af_8000, "fall-through"),
    ("sev", 0xbf40, "fall-through"),
    ("dsb sy", 0xf3bf_8f4f, "data-barrier"),
    ("dmb ish", 0xf3bf_8f5b, "data-barrier"),
    ("mcr p15, #0, r0, c7, c10, #4", 0xee07_0f9a, "data-barrier"),
    ("mcr p15, #0, r0, c7, c10, #5", 0xee07_0fba, "data-barrier"),
    ("push {r4, lr}", 0xb510, "fall-through"),
    ("pop {r4}", 0xbc10, "fall-through"),
    ("add r8, r9", 0x44c8, "fall-through"),
    ("mov r8, r9", 0x46c8, "fall-through"),
    ("cmp r8, pc", 0x45f8, "fall-through"),
    ("cmp r1, #0", 0x2900, "fall-through"),
    ("ldr r0, [pc, #4]", 0x4801, "fall-through"),
    ("adr r0, #4", 0xa001, "fall-through"),
    ("ldm.w r1, {r2, lr}", 0xe891_4004, "fall-through"),
    ("stmdb r1!, {r2, lr}", 0xe921_4004, "fall-through"),
    ("tst.w r1, r2", 0xea11_0f02, "fall-through"),
    ("hvc #1", 0xf7e0_8001, "fall-through"),
    ("smc #1", 0xf7f1_8000, "fall-through"),
    ("movw r0, #1", 0xf240_0001, "fall-through"),
    ("pld [r1]", 0xf891_f000, "fall-through"),
    ("strex r0, r1, [r2]", 0xe842_1000, "fall-through"),
    ("wls lr, r3, #4094", 0xf043_cfff, "direct 0x9002 conditional"),
    ("wlstp.8 lr, r3, #8", 0xf003_c005, "direct 0x800c conditional"),
    ("wlstp.64 lr, r3, #6", 0xf033_c803, "direct 0x800a conditional"),
    ("le lr, #-4094", 0xf00f_cfff, "direct 0x7006 conditional"),
    ("le #-8", 0xf02f_c005, "direct 0x7ffc"),
    ("letp lr, #-6", 0xf01f_c803, "direct 0x7ffe conditional"),
    ("dls lr, r3", 0xf043_e001, "fall-through"),
    ("dlstp.16 lr, r3", 0xf013_e001, "fall-through"),
    ("lctp", 0xf00f_e001, "fall-through"),
    ("bf #4, #8", 0xf140_e005, "fall-through"),
    ("bfx #4, r3", 0xf163_e001, "fall-through"),
    ("bfl #4, #8", 0xf100_c005, "fall-through"),
    ("bflx #4, r3", 0xf173_e001, "fall-through"),
    ("bfcsel #4, #8, #8, eq", 0xf102_e005, "fall-through"),
    ("bxns r3", 0x471c, "indirect"),
    ("bxns lr", 0x4774, "indirect return"),
    ("blxns r3", 0x479c, "indirect link"),
    ("bxaut r12, lr, sp", 0xfb5e_cf1d, "indirect return"),
    ("bxaut r1, r2, r3", 0xfb52_1f13, "indirect"),
    ("clrm {r0, r1, apsr}", 0xe89f_8003, "fall-through"),
    ("sg", 0xe97f_e97f, "fall-through"),
    ("pacbti r12, lr, sp", 0xf3af_800d, "fall-through"),
    ("aut r12, lr, sp", 0xf3af_802d, "fall-through"),
    ("it eq", 0xbf08, "fall-through it 1"),
    ("itt ne", 0xbf1c, "fall-through it 2"),
    ("ite ne", 0xbf14, "fall-through it 2"),
    ("ittt lt", 0xbfbe, "fall-through it 3"),
    ("itee lt", 0xbfb2, "fall-through it 3"),
    ("itttt al", 0xbfe1, "fall-through it 4"),
    ("itete gt", 0xbfcb, "fall-through it 4"),
    ("LDRT PC", 0xf851_fe00, "fall-through"),
    ("LDM with SP as base and no PC", 0xe89d_0006, "fall-through"),
    ("BX with a reserved bit", 0x4771, "fall-through"),
];
