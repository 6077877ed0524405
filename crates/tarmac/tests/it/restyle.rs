//! Restyled logs, compared line by line, and round trips.

use proptest::prelude::*;
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::record::Stamp;
use unspool_tarmac::restyle::{Loss, Losses, Restyler, Style};

use crate::fixtures::{self, each_line, read_lines};

fn restyle(from: Dialect, to: Style, log: &str) -> (String, Losses) {
    let (out, losses) = fixtures::restyle(Restyler::new(from, to), log.as_bytes());
    (String::from_utf8(out).unwrap(), losses)
}

/// The same program in both styles.
const FAST_MODELS: &str = "\
0 clk E 00000000 00000001 CoreEvent_Reset
1 clk IT (1) 00320000 d2800240 O EL1h_n : MOV      x0,#0x12
1 clk R X0 0000000000000012
2 clk IT (2) 00320004 a9bd7bfd O EL1h_n : STP      x29,x30,[sp,#-0x30]!
2 clk MW8 0007ff48:00000007ff48_NS 00000000_0007ff50
2 clk MW8 0007ff50:00000007ff50_NS 00000000_00320844
2 clk R SP_EL1 000000000007ff48
3 clk IS (3) 00320008 54ffffc1 O EL1h_n : B.NE     {pc}-8
4 clk IT (4) 0032000c 97fffffe O EL1h_n : BL       {pc}-8
4 clk R X30 0000000000320010
5 clk IT (5) 00320004 3dc00000 O EL1h_n : LDR      q0,[x0,#0]
5 clk MR16 00000008 0f0e0d0c_0b0a0908_07060504_03020100
6 clk IT (6) 00320008 54ffffc1 O EL1h_n : B.NE     {pc}-8
7 clk IT (7) 00320000 d4000001 O EL1h_n : SVC      #0
7 clk E 00320000 00000084 CoreEvent_CURRENT_SPx_SYNC
7 clk R cpsr 000003c5
8 clk IT (8) 00000200 39400001 O EL1h_n : LDRB     w1,[x0,#0]
8 clk MR1 00000012 xx
9 clk IT (9) 00000204 a9401003 O EL1h_n : LDP      x3,x4,[x0,#0]
9 clk MR8 00000012 (ABORTED)
10 clk CADI E simulation_stopped
";

const REV3: &str = "\
Tarmac Text Rev 3t
          0 clk ES  EXC [0x00] Reset
                    BR (0000000000000000) O
          1 clk ES  (0000000000320000:d2800240) O el1h_ns:        MOV      x0,#0x12
                    R X0 0000000000000012
          2 clk ES  (0000000000320004:a9bd7bfd) O el1h_ns:        STP      x29,x30,[sp,#-0x30]!
                    ST 000000000007ff50 ........ ........ 00000000 00320844    NS:000007ff50
                    ST 000000000007ff40 00000000 0007ff50 ........ ........    NS:000007ff40
                    R SP_EL1 000000000007ff48
          3 clk ES  (0000000000320008:54ffffc1) O el1h_ns:        B.NE     {pc}-8
          4 clk ES  (000000000032000c:97fffffe) O el1h_ns:        BL       {pc}-8
                    R X30 0000000000320010
                    BR (0000000000320004) O
          5 clk ES  (0000000000320004:3dc00000) O el1h_ns:        LDR      q0,[x0,#0]
                    LD 0000000000000010 ........ ........ 0f0e0d0c 0b0a0908
                    LD 0000000000000000 07060504 03020100 ........ ........
          6 clk ES  (0000000000320008:54ffffc1) O el1h_ns:        B.NE     {pc}-8
                    BR (0000000000320000) O
          7 clk ES  (0000000000320000:d4000001) O el1h_ns:        SVC      #0
                    EXC [0x200] Synchronous Current EL with SP_ELx
                    R CPSR 000003c5
                    BR (0000000000000200) O
          8 clk ES  (0000000000000200:39400001) O el1h_ns:        LDRB     w1,[x0,#0]
                    LD 0000000000000010 ........ ........ ........ ..##....
          9 clk ES  (0000000000000204:a9401003) O el1h_ns:        LDP      x3,x4,[x0,#0]
                    LA 0000000000000010 ........ ....#### ######## ####....
10 clk CADI E simulation_stopped
";

/// Compares line by line.
fn assert_same(found: &str, expected: &str) {
    for (index, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", index + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

/// Asserts that restyling leads from one log to the other and back, without losses; returns those of both ways.
fn assert_both_ways(fast_models: &str, rev3: &str) -> [Losses; 2] {
    let (restyled, losses) = restyle(Dialect::FastModels, Style::Rev3, fast_models);
    assert_same(&restyled, rev3);
    let (back, losses_back) = restyle(Dialect::Rev3, Style::FastModels, &restyled);
    assert_same(&back, fast_models);
    assert!(losses.is_empty() && losses_back.is_empty(), "{losses} {losses_back}");
    [losses, losses_back]
}

#[test]
fn one_program_in_both_styles() {
    let [losses, _] = assert_both_ways(FAST_MODELS, REV3);
    assert_eq!(losses.of(Loss::Opaque), 1);
}

/// Logs in both styles: Fast Models from `##` on, then Rev 3 from its header on.
const PAIRS: &str = "
## aarch32 names are translated
1 ps IT (1) 00030114 e3510902 A svc_s : CMP      r1,#0x8000
1 ps R cpsr 900001d3
2 ps IS (2) 00030118 2a000003 A svc_s : BCS      {pc}+0x14
3 ps IT (3) 0003011c e92d4020 A svc_s : PUSH     {r5,lr}
3 ps MW4 0007ffe8 00000003
3 ps MW4 0007ffec 00030130
3 ps R r13_svc 0007ffe8
4 ps IT (4) 00030120 e12fff1e A svc_s : BX       lr
5 ps IT (5) 0000a100 a106 T svc_s : ADR      r1,{pc}+0x1c
5 ps R r1 0000a11c
Tarmac Text Rev 3t
          1 ps  ES  (00030114:e3510902) A svc_s:          CMP      r1,#0x8000
                    R CPSR 900001d3
          2 ps  ES  (00030118:2a000003) A svc_s:   CCFAIL BCS      {pc}+0x14
          3 ps  ES  (0003011c:e92d4020) A svc_s:          PUSH     {r5,lr}
                    ST 0007ffe0 00030130 00000003 ........ ........
                    R SP_SVC 0007ffe8
          4 ps  ES  (00030120:e12fff1e) A svc_s:          BX       lr
                    BR (0000a100) T
          5 ps  ES  (0000a100:a106)     T svc_s:          ADR      r1,{pc}+0x1c
                    R R1 0000a11c
## cores stay apart
1 clk cpu0 IT (1) 00008000 ea000000 A svc : B 8
1 clk cpu1 IT (1) 00009000 e1a00000 A svc : NOP
2 clk cpu0 IT (2) 00008008 e1a00000 A svc : NOP
2 clk cpu1 IT (2) 00009004 e5910000 A svc : LDR r0,[r1]
2 clk cpu1 MR4 00000010 00000001
Tarmac Text Rev 3t
          1 clk cpu0 ES  (00008000:ea000000) A svc:            B 8
          1 clk cpu1 ES  (00009000:e1a00000) A svc:            NOP
          1 clk cpu0 BR (00008008) A
          2 clk cpu0 ES  (00008008:e1a00000) A svc:            NOP
          2 clk cpu1 ES  (00009004:e5910000) A svc:            LDR r0,[r1]
          2 clk cpu1 LD 00000010 ........ ........ ........ 00000001
## interrupt replaces the branch target
1 clk IT (1) 00320000 d65f03c0 O EL1h_n : RET
1 clk E 00220000 00000085 CoreEvent_CURRENT_SPx_IRQ
1 clk R ELR_EL1 0000000000220000
2 clk IT (2) 00000280 d503201f O EL1h_n : NOP
Tarmac Text Rev 3t
          1 clk ES  (0000000000320000:d65f03c0) O el1h_ns:        RET
                    BR (0000000000220000) O
          1 clk ES  EXC [0x280] IRQ/vIRQ Current EL with SP_ELx
                    R ELR_EL1 0000000000220000
                    BR (0000000000000280) O
          2 clk ES  (0000000000000280:d503201f) O el1h_ns:        NOP
";

#[test]
fn logs_in_both_styles() {
    for pair in PAIRS.split("\n## ").skip(1) {
        let (_, logs) = pair.split_once('\n').unwrap();
        let (fast_models, rev3) = logs.split_at(logs.find("Tarmac Text").unwrap());
        assert_both_ways(fast_models, rev3);
    }
}

/// Restyles the logs of a table, each after a line with the expected losses: `= 1 Target // why`.
fn assert_losses(from: Dialect, to: Style, table: &str) {
    for row in table.split("\n= ").skip(1) {
        let (expected, log) = row.split_once('\n').unwrap();
        let expected = expected.split(" // ").next().filter(|losses| *losses != "none").unwrap_or_default();
        let (text, losses) = restyle(from, to, log);
        let found: Vec<String> = losses.iter().map(|(loss, count)| format!("{} {loss:?}", count.count)).collect();
        assert_eq!(found.join(", "), expected, "{log}\n{text}");
        assert_eq!(losses.is_empty(), losses.iter().all(|(loss, _)| loss.is_kept()), "{log}");
    }
}

#[test]
fn losses_are_counted() {
    let to_rev3 = "
= 1 InstructionPhysical, 1 InstructionNumber
1 clk IT (7) 00008000:000000008000_NS e1a00000 A svc_s : NOP
= 1 Skipped
1 clk IS (1) 00320004 d503201f O EL1h_n : NOP
= 1 AccessFlags
1 clk MR4X 00009150 0000c3d2
= 1 Event
1 clk E 0000041c handler 00000019 CoreEvent_ModeChange
= 1 EventDetail
1 clk E 00000004 00000003 CoreEvent_SWI
= 1 Comment, 1 Unknown
# one

1 clk B\x01
= 1 Bus
FD (12) 00008000 00008010 A
= 1 EventDetail
0 clk E 00000100 00000001 CoreEvent_Reset
= 1 Skipped // Nothing shows that the branch was not taken: its target is the fall-through address, or nothing follows.
1 clk IS (1) 00320004 54000020 O EL1h_n : B.EQ {pc}+4
2 clk IT (2) 00320008 d503201f O EL1h_n : NOP
= 1 Skipped
1 clk IS (1) 00320004 54000040 O EL1h_n : B.EQ {pc}+8
= none
1 clk IT (1) 00320000 14000001 O EL1h_n : B {pc}+4
1 clk IS (2) 00320004 54000020 O EL1h_n : B.EQ {pc}+4
2 clk IT (3) 00320008 d503201f O EL1h_n : NOP
= 1 EventDetail // The argument of the call.
1 clk IT (1) 00000014 ef000012 A svc_s : SVC #0x12
1 clk E 00000014 0000001200000003 CoreEvent_SWI
= 1 AccessSizes
1 clk IT (1) 00000c04 f9400085 O EL1h_n : LDR x5,[x4]
1 clk MR4 0000071c 0000000a
1 clk MR4 00000720 0000000b
= 1 AccessSizes
1 clk IT (1) 00000c04 a9401885 O EL1h_n : LDP x5,x6,[x4]
1 clk MR16 00000710 000000000000000a000000000000000b
= 1 AccessSizes
1 clk IT (1) 00000c04 e1c480f0 A svc_n : STRD r8,[r4]
1 clk MW8 00000710 000000000000000a
= 1 AccessSizes // The access crosses a chunk boundary, and no opcode implies how to join the halves.
1 clk MR4 0000071e 0000000a
= 1 AccessSizes // Pictures do not show the order.
1 clk IT (1) 00000c04 e8140003 A svc_n : LDMDA r4,{r0,r1}
1 clk MR4 00000714 0000000a
1 clk MR4 00000710 0000000b
";
    assert_losses(Dialect::FastModels, Style::Rev3, to_rev3);
    let of_rtl_to_rev3 = "
= 1 Folded
4177 cyc IF (00024814:00000001) 00024814 2000 T16 MOVS r0,#0
";
    assert_losses(Dialect::CortexM3, Style::Rev3, of_rtl_to_rev3);
    let of_rtl_to_fast_models = "
= 1 AccessDetail
4175 cyc MNW4___D 20031c40 0df0adba
= 1 Access
4173 cyc MNR4O__I 00031b58 f000f81d
";
    assert_losses(Dialect::CortexM3, Style::FastModels, of_rtl_to_fast_models);
    let to_fast_models = "
= 1 PageOrder, 1 Attributes
  LD 00000040 ........ ........ 00001798 ........ S:0000000040/12 NM NSH
= 1 AbortedData
  LA 00000040 ........ ........ 00001798 ........
= 1 Access
  SX 00000040 ........ ........ 00001798 ........
= 1 Context
  R R0 (ODD) 00000001
= 1 NoTime
-----------     ES  EXC [0x00] Reset
= 1 Exception
          1 ns  ES  External Debug Event
= 1 Exception
  EXC [0x14] Hypervisor Trap
= 1 Instruction
          1 tic ES  (EDITR:d5033fdf) O el1h_ns: ISB
= none // The event of a reset has its target, but not the instruction set there.
          1 ns  ES  EXC [0x00] Reset
  BR (00000100) A
          1 ns  ES  (00008000:e1a00000) A svc: NOP
= 1 Target
          1 ns  ES  EXC [0x00] Reset
  BR (00000100) A
          1 ns  ES  (00008000:bf00) T svc: NOP
= 1 Context
  R SCTLR (AARCH32) 00000001
= 1 Target
          1 ns  ES  (00000c00:e59ff038) A svc: LDR pc,{pc}+0x40
  BR (00000e08) A
= none // A direct branch implies its target.
          1 ns  ES  (00000c00:ea000002) A svc: B 0xc10
  BR (00000c10) A
= 1 Target
          1 ns  ES  (00000c00:ef000000) A svc: SVC #0
  EXC [0x08] System Call
  BR (00000008) A
";
    assert_losses(Dialect::Rev3, Style::FastModels, to_fast_models);
}

/// Fast Models logs that are unchanged after a round trip, without losses.
#[test]
fn events_round_trip() {
    let rows = [
        // M-profile: a reset has the number 1, and a call returns to the next instruction.
        (
            "0 ps E 000001c0 00000001 CoreEvent_RESET\n1 ps IT (1) 000001c0 bf00 T thread : NOP\n\
             2 ps IT (2) 000001c2 df05 T thread : SVC #5\n2 ps E 000001c4 0000000b CoreEvent_SVCALL\n\
             3 ps IT (3) 00000240 bf00 T handler : NOP\n",
            "EXC [1] Reset",
        ),
        // A debugger set the PC after the reset.
        (
            "0 clk E 00000000 00000001 CoreEvent_Reset\n0 clk R X0 0000000000000000\n\
             1 clk IT (1) 00320000 d503201f O EL3h_s : NOP\n",
            "BR (0000000000000000) O",
        ),
        // Without a target.
        ("0 clk E CoreEvent_Reset\n1 clk IT (1) 00320000 d503201f O EL3h_s : NOP\n", "EXC [0x00] Reset"),
        // A branch that was not taken, followed by an interrupt.
        (
            "1 clk IT (1) 00320000 14000001 O EL1h_n : B {pc}+4\n2 clk IS (2) 00320004 54000080 O EL1h_n : B.EQ {pc}+16\n\
             2 clk E 00320008 00000085 CoreEvent_CURRENT_SPx_IRQ\n3 clk IT (3) 00000280 d503201f O EL1h_n : NOP\n",
            "BR (0000000000000280) O",
        ),
        (
            "1 clk IT (1) 00320000 14000001 O EL1h_n : B {pc}+4\n2 clk IS (2) 00320004 54000020 O EL1h_n : B.EQ {pc}+4\n\
             3 clk IT (3) 00320008 d503201f O EL1h_n : NOP\n",
            "BR (0000000000320004) O",
        ),
    ];
    for (log, expected) in rows {
        let (restyled, _) = restyle(Dialect::FastModels, Style::Rev3, log);
        assert!(restyled.contains(expected), "{restyled}");
        assert_both_ways(log, &restyled);
    }
}

#[test]
fn effects_are_moved_after_their_instruction() {
    let log = "\
433ns R r2 00000001
433ns MR4_D 00000448 0020c400
512ns IT 00000420 4a09        LDR      r2,[pc,#36]
";
    let (text, _) = restyle(Dialect::CortexM0, Style::FastModels, log);
    assert_same(
        &text,
        "512 ns IT (1) 00000420 4a09 T : LDR      r2,[pc,#36]\n512 ns R r2 00000001\n512 ns MR4 00000448 0020c400\n",
    );
}

#[test]
fn effects_of_dual_issue_are_separated() {
    // By the disassembly, and by the owner in the line; the times are those of the steps.
    let log = "\
7310 ns R r6 00000021
7310 ns R r9 00000034
7310 ns MNW4____ (00000104:00000008) 00002010 00000034
7311 ns IT (00000100:00000007) 00000100 e3a06021 A :                      MOV r6,#0x21
7311 ns IT (00000104:00000008) 00000104 e5a09010 A :                      STR r9,[r0,#16]!
7312 ns R r14 0000010c
7313 ns IT (00000108:00000009) 00000108 eb00000c A :                      BL 0x140
7315 ns R r3 00000001
";
    let rev3 = "\
Tarmac Text Rev 3t
       7311 ns  ES  (00000100:e3a06021) A :               MOV r6,#0x21
                    R R6 00000021
       7311 ns  ES  (00000104:e5a09010) A :               STR r9,[r0,#16]!
                    R R9 00000034
                    ST 00002010 ........ ........ ........ 00000034
       7313 ns  ES  (00000108:eb00000c) A :               BL 0x140
                    R R14 0000010c
       7315 ns  R R3 00000001
                    BR (00000140) A
";
    let (text, losses) = restyle(Dialect::CortexR5, Style::Rev3, log);
    assert_same(&text, rev3);
    assert_eq!(losses.of(Loss::EffectTime), 4, "{losses}");
}

#[test]
fn moved_effects_do_not_go_back_in_time() {
    let log = "\
40 ns R r6 00000021
40 ns R r9 00000034
41 ns IT (00000100:00000007) 00000100 e3a06021 A :                      MOV r6,#0x21
41 ns IT (00000104:00000008) 00000104 e3a09034 A :                      MOV r9,#0x34
";
    for style in [Style::Rev3, Style::FastModels] {
        let (text, _) = restyle(Dialect::CortexR5, style, log);
        each_line(text.as_bytes(), |_, line| match line.stamp {
            Stamp::At(time) => assert_eq!(time.value, 41, "{text}"),
            _ => assert_eq!(style, Style::Rev3, "{text}"),
        });
    }
}

#[test]
fn user_registers_keep_their_bank() {
    let rows = [
        ("svc", "R SP (USR) 00000aa0", "R r13_usr 00000aa0"),
        ("svc", "R LR (USR) 00000aa4", "R r14_usr 00000aa4"),
        ("svc", "R R13 (USR) 00000aa8", "R r13_usr 00000aa8"),
        ("svc", "R R14 (USR) 00000aac", "R r14_usr 00000aac"),
        ("svc", "R R10 (USR) 00000ab0", "R r10 00000ab0"),
        ("fiq_s", "R R10 (USR) 00000ab4", "R r10_usr 00000ab4"),
        ("fiq", "R R7 (USR) 00000ab8", "R r7 00000ab8"),
        ("fiq", "R R12 (FIQ) 00000abc", "R r12_fiq 00000abc"),
    ];
    for (mode, rev3, expected) in rows {
        let log = format!("          4 ns  ES  (00000c00:e1a00000) A {mode}: NOP\n                    {rev3}\n");
        let (text, losses) = restyle(Dialect::Rev3, Style::FastModels, &log);
        assert_eq!(text.lines().nth(1), Some(&*format!("4 ns {expected}")), "{mode}");
        assert!(losses.is_empty(), "{losses}");
    }
}

#[test]
fn effects_without_a_core_belong_to_the_previous_one() {
    let log = "\
Tarmac Text Rev 3t
          6 ns  cpu0 ES  (0000000000000700:d2800060) O el1h:            MOV x0,#3
                    R X0 0000000000000003
          6 ns  cpu1 ES  (0000000000000700:f9000041) O el1h:            STR x1,[x2]
                    ST 0000000000000440 ........ ........ 00000000 00000011
          8 ns  cpu0 ES  (0000000000000704:d280008f) O el1h:            MOV x15,#4
                    R X15 0000000000000004
";
    let fast_models = "\
6 ns cpu0 IT (1) 00000700 d2800060 O EL1h : MOV x0,#3
6 ns cpu0 R X0 0000000000000003
6 ns cpu1 IT (1) 00000700 f9000041 O EL1h : STR x1,[x2]
6 ns cpu1 MW8 00000440 00000000_00000011
8 ns cpu0 IT (2) 00000704 d280008f O EL1h : MOV x15,#4
8 ns cpu0 R X15 0000000000000004
";
    let (text, losses) = restyle(Dialect::Rev3, Style::FastModels, log);
    assert_same(&text, fast_models);
    assert!(losses.is_empty(), "{losses}");
}

#[test]
fn events_without_an_address_do_not_get_one() {
    let (text, _) = restyle(Dialect::CortexM0, Style::FastModels, "615ns E INT_TAKEN 0d\n");
    assert_eq!(text, "615 ns E INT_TAKEN 0d\n");
}

#[test]
fn chunks_of_a_line_stay_one_line() {
    let long = "z".repeat((5 << 20) / 2);
    let log = format!("1 clk IT (1) 00000700 d503201f O EL1h_n : NOP\n{long}\n# end\n");
    for style in [Style::Rev3, Style::FastModels] {
        let mut restyler = Restyler::new(Dialect::FastModels, style);
        let mut out = Vec::new();
        read_lines(log.as_bytes(), |position, line| restyler.line(position, line, &mut out));
        restyler.finish(&mut out);
        let text = String::from_utf8(out).unwrap();
        let found: Vec<&str> = text.lines().collect();
        assert!(found.ends_with(&[&long, "# end"]), "{}", found.len());
        assert_eq!(restyler.losses().of(Loss::Unknown), u64::from(style == Style::Rev3));
    }
}

#[test]
fn bytes_keep_their_order() {
    // A big-endian core, memory order, and lanes of a bus that is wider than the access.
    let rows = [
        (Dialect::FastModels, true, "1 clk MR4 00000004 11223344", "........ ........ 44332211 ........"),
        (Dialect::CortexM3, false, "1 cyc MNR4___D 00000004 11223344", "........ ........ 44332211 ........"),
        (Dialect::CortexM0, false, "1ns MR2_D 00000006 11223344", "........ ........ 1122.... ........"),
    ];
    for (from, is_big_endian, log, picture) in rows {
        let (text, _) =
            fixtures::restyle(Restyler::new(from, Style::Rev3).with_big_endian(is_big_endian), log.as_bytes());
        assert!(String::from_utf8(text).unwrap().contains(picture), "{log}");
    }
}

#[test]
fn pictures_can_be_continued() {
    let log = "1 clk IT (1) 00000200 a9401003 O EL1h_n : LDP\n1 clk MR8 00000008 0000000000000001\n\
               1 clk MR8 00000010 0000000000000002\n";
    let restyler = Restyler::new(Dialect::FastModels, Style::Rev3).with_continuations(true);
    let text = String::from_utf8(fixtures::restyle(restyler, log.as_bytes()).0).unwrap();
    let expected = "                    LD 0000000000000010 ........ ........ 00000000 00000002\n                       \
                    0000000000000000 00000000 00000001 ........ ........\n";
    assert!(text.ends_with(expected), "{text}");
    assert_same(
        &restyle(Dialect::Rev3, Style::FastModels, &text).0,
        "1 clk IT (1) 00000200 a9401003 O EL1h_n : LDP\n\
        1 clk MR8 00000008 00000000_00000001\n1 clk MR8 00000010 00000000_00000002\n",
    );
}

#[test]
fn lines_of_too_many_cores_are_copied() {
    let log: String = (0..5000).map(|core| format!("1 clk cpu{core} IT (1) 00008000 e1a00000 A svc : NOP\n")).collect();
    let (text, losses) = restyle(Dialect::FastModels, Style::Rev3, &log);
    assert_eq!(text.lines().count(), 5001);
    assert_eq!(losses.of(Loss::Unknown), 5000 - 4096);
    assert!(text.ends_with("1 clk cpu4999 IT (1) 00008000 e1a00000 A svc : NOP\n"));
}

#[test]
fn same_style_is_copied() {
    for (dialect, style, log) in
        [(Dialect::Rev3, Style::Rev3, REV3), (Dialect::FastModels, Style::FastModels, FAST_MODELS)]
    {
        assert!(Restyler::is_copy(dialect, style));
        assert_eq!(restyle(dialect, style, log).0, log);
    }
}

fn any_line() -> impl Strategy<Value = String> {
    let known = FAST_MODELS.lines().chain(REV3.lines()).map(str::to_string);
    prop_oneof![9 => fixtures::any_line_like(known.collect()), 1 => "[ -~]{0,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn any_lines_can_be_restyled(lines in prop::collection::vec(any_line(), 0..40), big: bool) {
        let log = lines.join("\n");
        for (from, to) in [(Dialect::FastModels, Style::Rev3), (Dialect::Rev3, Style::FastModels),
            (Dialect::Other, Style::Rev3), (Dialect::CortexR5, Style::FastModels)]
        {
            let (out, _) = fixtures::restyle(Restyler::new(from, to).with_big_endian(big), log.as_bytes());
            prop_assert!(out.len() < 1000 * (log.len() + 100));
        }
    }
}
