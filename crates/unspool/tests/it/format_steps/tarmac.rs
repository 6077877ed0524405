//! Steps of Tarmac logs, by dialect and kind of line.

use std::io::Cursor;

use unspool::model::TimeUnit;
use unspool::tarmac;

use super::*;

pub(super) fn log(text: &str) -> impl StepSource + Send + use<> {
    let input = Cursor::new(text.as_bytes().to_vec());
    let reader = tarmac::read::Reader::new(input, tarmac::read::ReadOptions::default()).unwrap();
    tarmac::steps::Steps::new(reader, false)
}

const FAST_MODELS: &str = "\
1 clk R X0 0000000000000001
1 clk E 00000000:000000000000 00000001 CoreEvent_Reset
2 clk IT (2) 00001000 d2a00200 O EL3h_s : MOV x0,#0x100000
2 clk R X0 0000000000100000
3 clk IS (3) 00001004 b4000060 O EL3h_s : CBZ x0,{pc}+0xc
4 clk IT (4) 00001008 b5000040 O EL3h_s : CBNZ x0,{pc}+8
5 clk IT (5) 00001010 f9400001 O EL3h_s : LDR x1,[x0]
5 clk MR8 00100000 00000000_0000aabb
5 clk R w1 0000aabb
6 clk IT (6) 00001014 d63f0040 O EL3h_s : BLR x2
7 clk IT (7) 00002000 d4000003 O EL3h_s : SMC #0
7 clk R cpsr 6xxx03cd
7 clk E 00002000:000000002000 EL3h 00000084 CoreEvent_CURRENT_SPx_SYNC
7 clk R ELR_EL3 00000000:00002004
8 clk IT (8) 00003200 d69f03e0 O EL3h_s : ERET
9 clk IT (9) 00002004 54000041 O EL1h_ns : B.NE {pc}+8
";

#[test]
fn fast_models_log_has_everything_but_processes() {
    let covered =
        "instructions, opcodes, conditions, branches, accesses, data, registers, exceptions, levels, security, times";
    assert_eq!(log(FAST_MODELS).coverage().to_string(), covered);
    let expected = [
        "@1 t1 state, x0=0100000000000000",
        // The address of the vector is unknown.
        "@2 t1 Reset to ?",
        "@3 t2 level 3 Secure",
        "@3 t2 a64 1000 d2a00200 executed, x0=0000100000000000",
        "@5 t3 a64 1004 b4000060 skipped not taken",
        "@6 t4 a64 1008 b5000040 executed -> 1010",
        "@7 t5 a64 1010 f9400001 executed, x1=bbaa0000, reads 8 at 100000: bbaa000000000000",
        "@10 t6 a64 1014 d63f0040 executed -> 2000",
        "@11 t7 a64 2000 d4000003 executed, cpsr=cd03..60/f0",
        "@13 t7 Synchronous to 3200, elr_el3=0420000000000000",
        "@15 t8 a64 3200 d69f03e0 executed -> 2004",
        "@15 t8 return to 2004",
        "@16 t9 level 1 NonSecure",
        // The outcome of the last branch is unknown.
        "@16 t9 a64 2004 54000041",
    ];
    assert_steps(|| log(FAST_MODELS), &expected);
}

#[test]
fn rev3_log_has_branch_targets() {
    let text = "\
Tarmac Text Rev 3t
          0 tic ES  EXC Reset
                    BR (0000000000001000) O
          0 tic ES  (0000000000001000:94000040) O el3h_s:         BL       {pc}+0x100
                    R X30 0000000000001004
                    BR (0000000000001100) O
          1 tic ES  (0000000000001100:b4000060) O el3h_s:         CBZ      x0,{pc}+0xc
          1 tic ES  (0000000000001104:a9be7bfd) O el3h_s:         STP      x29,x30,[sp,#-0x20]!
                    ST 00000000000ffd40 00000000 00001004 00000000 00000000    S:00000ffd40    nGnRnE OSH
                    R SP_EL3 00000000000ffd40
          2 tic ES  (0000000000001108:d65f03c0) O el3h_s:         RET
                    BR (0000000000001004) O
          3 tic ES  IRQ
                    EXC [0x280] IRQ/vIRQ Current EL with SP_ELx
                    BR (0000000000002280) O
          3 tic ES  (0000000000002280:d503201f) O el3h_s:         NOP
";
    let expected = [
        "@2 t0 Reset to 1000",
        "@4 t0 level 3 Secure",
        "@4 t0 a64 1000 94000040 executed -> 1100, x30=0410000000000000",
        "@7 t1 a64 1100 b4000060 skipped not taken",
        "@8 t1 a64 1104 a9be7bfd executed, sp_el3=40fd0f0000000000, writes 16 at ffd40: 00000000000000000410000000000000",
        "@11 t2 a64 1108 d65f03c0 executed -> 1004",
        "@13 t3 Irq to 2280",
        "@16 t3 a64 2280 d503201f executed",
    ];
    assert_steps(|| log(text), &expected);
}

#[test]
fn cores_are_separate() {
    let text = "\
1 clk cpu0 IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2
1 clk cpu1 IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2
2 clk cpu1 IT (2) 00003000 d503201f O EL1h_ns : NOP
2 clk cpu0 IT (2) 00002000 d503201f O EL1h_ns : NOP
";
    let expected = [
        "@1 t1 level 1 NonSecure",
        "@1 t1 a64 1000 d63f0040 executed -> 2000",
        "@4 t2 a64 2000 d503201f executed",
        "@2 core 1 t1 level 1 NonSecure",
        "@2 core 1 t1 a64 1000 d63f0040 executed -> 3000",
        "@3 core 1 t2 a64 3000 d503201f executed",
    ];
    let mut found = lines(log(text));
    found.sort_by_key(|line| line.contains("core 1"));
    assert_eq!(found, expected);
}

#[test]
fn modes_of_aarch32() {
    let text = "\
1 clk IT (1) 00001000 e1a00000 A svc_ns : NOP
2 clk IS (2) 00001004 1afffffb A svc_ns : BNE {pc}-0xc
3 clk IT (3) 00001008 e12fff1e A usr_ns : BX lr
4 clk IT (4) 00002000 4770 T usr_ns : BX lr
5 clk IT (5) 00003000 e1a00000 A mon_s : NOP
6 clk IT (6) 00003004 e1a00000 A svc_s : NOP
";
    let expected = [
        "@1 t1 level 1 NonSecure",
        "@1 t1 a32 1000 e1a00000 executed",
        "@2 t2 a32 1004 1afffffb skipped not taken",
        "@3 t3 level 0 NonSecure",
        "@3 t3 a32 1008 e12fff1e executed -> 2000",
        "@4 t4 t32 2000 4770 executed -> 3000",
        "@5 t5 level 3 Secure",
        "@5 t5 a32 3000 e1a00000 executed",
        "@6 t6 level ? Secure",
        "@6 t6 a32 3004 e1a00000 executed",
    ];
    assert_eq!(lines(log(text)), expected);
}

#[test]
fn aborted_access_neither_reads_nor_writes() {
    let text = "1 clk IT (1) 00001000 f9400001 O EL1h_ns : LDR x1,[x0]\n1 clk MR8 00100000 <ABORTED>\n";
    let found = lines(log(text)).pop().unwrap();
    assert!(found.ends_with("executed, tries 8 at 100000") || !found.contains("reads"), "{found}");
}

#[test]
fn times_have_a_unit() {
    let rows = [
        ("7 clk IT", TimeUnit::Cycles),
        ("7 ns IT", TimeUnit::Seconds(-9)),
        ("10.356000us IT", TimeUnit::Seconds(-12)),
        ("7 cyc IT", TimeUnit::Cycles),
        ("7 tic IT", TimeUnit::Unknown),
        ("7 IT", TimeUnit::Unknown),
        ("IT", TimeUnit::Unknown),
    ];
    for (start, unit) in rows {
        let source = log(&format!("# a log\n{start} (1) 00001000 d503201f O EL1h_ns : NOP\n"));
        assert_eq!(source.time_unit(), unit, "{start}");
    }
}

#[test]
fn lines_without_a_step_are_notes() {
    let text = "\
# made by hand

1 clk SIGNAL: SIGNAL=poreset STATE=N
1 clk IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2
1 clk TTW DTLB LPAE 1:0 00010000 : BLOCK
1 clk R X30 0000000000001004
1 clk E DebugEvent_Something 00000000
1 clk R DC CISW 00000000:00000000
some other text
2 clk IT (2) 00002000 d503201f O EL1h_ns : NOP
3 clk CADI E simulation_stopped
";
    let expected = [
        "@1 note # made by hand",
        "@3 t1 note SIGNAL: SIGNAL=poreset STATE=N",
        "@4 t1 level 1 NonSecure",
        // The branch waits for its target, and keeps its register.
        "@4 t1 a64 1000 d63f0040 executed -> 2000, x30=0410000000000000",
        "@5 t1 note TTW DTLB LPAE 1:0 00010000 : BLOCK",
        "@7 t1 note E DebugEvent_Something 00000000",
        "@8 t1 note R DC CISW 00000000:00000000",
        "@9 t1 note some other text",
        "@10 t2 a64 2000 d503201f executed",
        "@11 t3 note CADI E simulation_stopped",
    ];
    assert_steps(|| log(text), &expected);
    // Any number of notes may follow a branch.
    let many = "1 clk CADI E something\n".repeat(3000);
    let text = format!(
        "1 clk IT (1) 00001000 d63f0040 O EL1h_ns : BLR x2\n{many}2 clk IT (2) 00002000 d503201f O EL1h_ns : NOP\n"
    );
    let found = lines(log(&text));
    assert_eq!(found.iter().filter(|line| line.contains("note")).count(), 3000);
    let few = text.replacen(&"1 clk CADI E something\n".repeat(2960), "", 1);
    assert_eq!(lines(log(&few))[1], "@1 t1 a64 1000 d63f0040 executed -> 2000");
}

#[test]
fn exceptions_have_classes_and_calls() {
    let rows = [
        ("d4000461 O EL0t_ns : SVC #0x23", "56000023", Some(0x15), Some(0x23)),
        ("d4000002 O EL1h_ns : HVC #0", "5a000000", Some(0x16), Some(0)),
        // A trapped SMC has another class.
        ("d4000003 O EL1h_ns : SMC #0", "00000000", Some(0), None),
        ("f9400001 O EL0t_ns : LDR x1,[x0]", "92000007", Some(0x24), None),
        ("d4000461 O EL0t_ns : SVC #0x23", "xxxxxxxx", None, Some(0x23)),
    ];
    for (instruction, syndrome, class, call) in rows {
        for is_before in [false, true] {
            let register = format!("1 clk R ESR_EL1 00000000{syndrome}\n");
            let event = "1 clk E 00001000 00000088 CoreEvent_LOWER_64_SYNC\n";
            let after = if is_before { register + event } else { event.to_string() + &register };
            let text = format!("1 clk IT (1) 00001000 {instruction}\n{after}");
            let found: Vec<_> =
                exceptions(&collect(log(&text))).iter().map(|exception| (exception.class, exception.call)).collect();
            assert_eq!(found, [(class, call)], "{text}");
        }
    }
}

#[test]
fn log_without_accesses_or_registers_does_not_cover_them() {
    let load = "1 clk IT (1) 00001000 f9400001 O EL1h_ns : LDR x1,[x0]\n";
    let add = "1 clk IT (1) 00001000 91000400 O EL1h_ns : ADD x0,x0,#1\n";
    let has = |text: &str, facet| log(text).coverage().has(facet);
    let rows = [
        ("many loads", load.repeat(40), false, true),
        ("some loads", load.repeat(10), true, true),
        ("loads with accesses", format!("{load}1 clk MR8 00001000 00000000_00000000\n").repeat(40), true, true),
        ("many sums", add.repeat(40), true, false),
        ("sums with registers", format!("{add}1 clk R X0 0000000000000000\n").repeat(40), true, true),
        ("many of both", (add.to_string() + load).repeat(40), false, false),
        ("explicit coverage", format!("# unspool covers times=cycles instructions\n{}", load.repeat(10)), false, false),
    ];
    for (name, text, accesses, registers) in rows {
        assert_eq!(has(&text, Facet::Accesses), accesses, "{name}");
        assert_eq!(has(&text, Facet::Data), accesses, "{name}");
        assert_eq!(has(&text, Facet::Registers), registers, "{name}");
        assert!(has(&text, Facet::Instructions), "{name}");
    }
}
