//! Values of registers: names, parts, modes, and which digits are known.

use unspool_tarmac::record::Record;
use unspool_tarmac::state::Registers;

use crate::fixtures::{each_line, machine};

fn registers(log: &str) -> Registers {
    each_line(log.as_bytes(), |_, line| assert!(!matches!(line.record, Record::Unknown(_)), "{line:?}"));
    machine(false, log.as_bytes()).cores()[0].registers.clone()
}

const A64: &str = "1 clk IT (1) 00008000 d503201f O EL3h_s : NOP\n";
const A32: &str = "1 clk IT (1) 00008000 e320f000 A svc_s : NOP\n";
const M: &str = "1 clk IT (1) 00008000 bf00 T thread_s : NOP\n";

#[test]
fn names_parts_and_digits() {
    // The start of the log, its lines, a register, and its value.
    let rows: &[(&str, &str, &str, &str)] = &[
        (A64, "R X1 0123456789abcdef", "x1", "0123456789abcdef"),
        (A64, "R X1 0123456789abcdef\nR W1 00000001", "x1", "0000000000000001"),
        (A64, "R E12 0000007f84c2e71c", "x12", "0000007f84c2e71c"),
        (A64, "R X9 0123456789abcdef\nR X9 --------", "x9", "0123456789abcdef"),
        (A64, "R X7 00001357 9bdf2468", "x7", "000013579bdf2468"),
        (A64, "R SP_EL3 0000000000001000\nR SP 0000000000002000", "sp_el3", "0000000000002000"),
        (A64, "R SP_EL3 0000000000001000\nR SP_EL0 0000000000002000", "sp", "0000000000001000"),
        (A64, "R V6<127:64> 1020304050607080\nR V6<63:0> 90a0b0c0d0e0f001", "v6", "102030405060708090a0b0c0d0e0f001"),
        (A64, "R V9<63:0> 00000000\nR V9<127:64> 00000000", "q9", "00000000000000000000000000000000"),
        (A64, "R Q2 -------- -------- 40091eb8 51eb851f", "v2", "xxxxxxxxxxxxxxxx40091eb851eb851f"),
        (A64, "R V1 ffffffffffffffffffffffffffffffff\nR d1 0000000000000001", "v1", "00000000000000000000000000000001"),
        (A64, "R V1 ffffffffffffffffffffffffffffffff\nR s1 3f800000", "v1", "0000000000000000000000003f800000"),
        (A64, "R Z6 00000008_00000006_00000004_00000002", "v6", "00000008000000060000000400000002"),
        (A64, "R P4 11110000_00001111", "p4", "1111000000001111"),
        (A64, "R cpsr 1600003c5", "cpsr", "600003c5"),
        (A64, "R FPCR 8899aabb03c00010", "fpcr", "03c00010"),
        (A64, "R TCR_EL2 80823518", "tcr_el2", "80823518"),
        (A64, "R SCTLR (AARCH32) 00c51879", "sctlr", "00c51879"),
        (A32, "R r1 12345678", "r1", "12345678"),
        (A32, "R r13_svc 00001000\nR r13_irq 00002000", "sp", "00001000"),
        (A32, "R r13_svc 00001000\nR r13_irq 00002000", "sp_irq", "00002000"),
        (A32, "R R13 (SVC) 00001000", "sp_svc", "00001000"),
        (A32, "R SP_SVC 00001000\nR lr_svc 00002000", "r14", "00002000"),
        (A32, "R SP 2000fe40", "sp_svc", "2000fe40"),
        (A32, "R R12 (FIQ) 0000e598\nR R12 (USR) 00000001", "r12", "00000001"),
        (A32, "R R12 (FIQ) 0000e598", "r12_fiq", "0000e598"),
        (A32, "R r9_usr 0000e59c", "r9", "0000e59c"),
        (A32, "R r11_fiq 0000e5a0", "r11_fiq", "0000e5a0"),
        (A32, "R q3 22222222222222222222222222222222\nR d7 1111222233334444", "q3", "11112222333344442222222222222222"),
        (A32, "R q2 33333333333333333333333333333333\nR s9 3f800000", "q2", "33333333333333333f80000033333333"),
        (M, "R r13_main_s 30028000\nR MSP_S 30028010", "r13_main_s", "30028010"),
        (M, "R MSP_S 30028010\nR PSP_NS 00000001", "sp", "30028010"),
        (M, "R r13 20000f70 (MSP)", "msp", "20000f70"),
        (M, "R r13_mn 20038000 IntInvoke:0 BE8:1", "msp", "20038000"),
        (M, "R psr x2xxX0xx", "xpsr", "x2xxx0xx"),
        (M, "R fpscr Xx0X00xX", "fpscr", "xx0x00xx"),
    ];
    for (start, lines, name, expected) in rows {
        let registers = registers(&format!("{start}{lines}"));
        let (slot, ..) = registers.find(name).unwrap_or_else(|| panic!("{lines}: {name}"));
        let contents = registers.get(slot).unwrap_or_else(|| panic!("{lines}: {name}"));
        assert_eq!(contents.text(), *expected, "{lines}: {name}");
    }
}

/// Parts of a vector register have their own line numbers.
#[test]
fn last_writes_of_parts() {
    // The lines after the first, a register, and the line of its last write; 0: none.
    let rows: &[(&str, &str, &str, u64)] = &[
        (A32, "R d0 1111222233334444\nR d1 5555666677778888", "d0", 2),
        (A32, "R d0 1111222233334444\nR d1 5555666677778888", "d1", 3),
        (A32, "R d0 1111222233334444\nR d1 5555666677778888", "q0", 3),
        (A32, "R s5 3f800000\nR s6 40000000", "s5", 2),
        (A32, "R s5 3f800000\nR s6 40000000", "s7", 0),
        (A32, "R s5 3f800000\nR s6 40000000", "d2", 2),
        (A32, "R q3 -------- -------- 00000000 00000001\nR q3 00000002 00000003 -------- --------", "d6", 2),
        (A64, "R V6<63:0> 1020304050607080\nR V6<127:64> 1020304050607080", "d6", 2),
        (A64, "R V6<127:64> 1020304050607080\nR d6 0000000000000001", "v6", 3),
        (A64, "R d6 0000000000000001\nR V6<127:64> 1020304050607080\nR V6<31:0> 00000001", "d6", 4),
    ];
    for (start, lines, name, expected) in rows {
        let registers = registers(&format!("{start}{lines}"));
        let (slot, low, bits) = registers.find(name).unwrap_or_else(|| panic!("{lines}: {name}"));
        let contents = registers.get(slot).unwrap_or_else(|| panic!("{lines}: {name}"));
        assert_eq!(contents.line_of(low, bits.unwrap_or(contents.bits)), *expected, "{lines}: {name}");
    }
    // A write that replaces the register also writes the bits that it clears.
    let cleared = registers(&format!("{A64}R s1 3f800000\nR V1<31:0> 00000001\nR V1<127:96> 00000002"));
    let (slot, ..) = cleared.find("v1").unwrap();
    let contents = cleared.get(slot).unwrap();
    assert_eq!([0, 32, 64, 96].map(|low| contents.line_of(low, 32)), [3, 2, 2, 4]);
}

#[test]
fn current_stack_pointer_follows_the_mode() {
    let log = "1 clk IT (1) 00008000 e320f000 A svc_s : NOP\n1 clk R r13_svc 00001000\n1 clk R r14_svc 00000004\n\
               2 clk IT (2) 00008004 e320f000 A irq_s : NOP\n2 clk R r13_irq 00002000\n2 clk R r14_irq 00000008\n";
    assert_eq!((registers(log).sp(), registers(log).lr()), (Some(0x2000), Some(8)));
    let back = format!("{log}3 clk IT (3) 00008008 e320f000 A svc_s : NOP\n");
    assert_eq!((registers(&back).sp(), registers(&back).lr()), (Some(0x1000), Some(4)));
}

/// A host writes memory in a read call, without a memory line.
#[test]
fn semihosting() {
    let log = "1 clk MW8 00001000 0000000000000001\n1 clk MW8 00001008 0000000000002000\n1 clk MW8 00001010 0000000000000004\n\
               1 clk MW8 00002000 1111111111111111\n\
               2 clk IT (1) 00008000 d2800000 O EL1h_ns : MOV x0,#6\n2 clk R X0 0000000000000006\n2 clk R X1 0000000000001000\n\
               3 clk IT (2) 00008004 d45e0000 O EL1h_ns : HLT #0xf000\n3 clk R X0 0000000000000000\n\
               4 clk IT (3) 00008008 d503201f O EL1h_ns : NOP\n4 clk MR1 00002001 77\n";
    let machine = machine(false, log.as_bytes());
    let byte = |address| machine.cores()[0].memory.byte(address).map(|byte| (byte.value, byte.line));
    assert_eq!([0x2000, 0x2001, 0x2004].map(byte), [None, Some((0x77, 8)), Some((0x11, 4))]);
}

/// The data of a host write is unknown, but its line is known; large writes are cheap.
#[test]
fn semihosting_of_large_buffers() {
    let mut log = String::from(
        "1 clk IT (1) 00008000 e1a00000 A svc_s : NOP\n1 clk R r0 00000006\n1 clk R r1 00003000\n\
         1 clk MW4 00003004 20000000\n1 clk MW4 00003008 000c0000\n1 clk MW4 20000010 12345678\n",
    );
    for number in 0..20_000 {
        log += &format!("{number} clk IT (2) 00008004 ef123456 A svc_s : SVC #0x123456\n");
    }
    log += "3 clk MR1 20000021 5a\n3 clk MW4 20000030 xxxxxxxx\n";
    let machine = machine(false, log.as_bytes());
    let memory = &machine.cores()[0].memory;
    let write = |address| memory.last_write(address).map(|write| (write.value, write.line));
    let call = 6 + 20_000;
    let rows = [
        (0x1fff_ffff, None),
        (0x2000_0000, Some((None, call))),
        (0x2000_0010, Some((None, call))),
        (0x2000_0021, Some((Some(0x5a), call))),
        (0x2000_0022, Some((None, call))),
        (0x2000_0031, Some((None, call + 2))),
        (0x200b_ffff, Some((None, call))),
        (0x200c_0000, None),
        (0x3004, Some((Some(0), 4))),
    ];
    for (address, expected) in rows {
        assert_eq!(write(address), expected, "{address:x}");
    }
    assert_eq!(memory.byte(0x2000_0010), None);
    assert_eq!(memory.addresses(), (0x3004..0x300c).chain([0x2000_0021]).collect::<Vec<_>>());
}

/// Order of two words: Cortex-R5 prints the one at the lower address first, others print a number.
#[test]
fn order_of_words() {
    let rows: &[(&str, bool, [u8; 8])] = &[
        ("1 clk MNW8____ (00000008:00000002) 00004000 03020100 07060504", false, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("1 clk MNW8____ (00000008:00000002) 00004000 00010203 04050607", true, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("1 clk MNW8____ (00000008:00000002) 00004000 0706050403020100", false, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("1 clk MW8 00004000 07060504 03020100", false, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("1 clk MW8 00004000 07060504_03020100", false, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("1 clk MW16 00004000 0f0e0d0c0b0a0908 0706050403020100", false, [0, 1, 2, 3, 4, 5, 6, 7]),
    ];
    for (line, is_big_endian, expected) in rows {
        let machine = machine(*is_big_endian, line.as_bytes());
        let byte = |at: u64| machine.cores()[0].memory.byte(0x4000 + at).map(|byte| byte.value);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(byte), expected.map(Some), "{line}");
    }
}
