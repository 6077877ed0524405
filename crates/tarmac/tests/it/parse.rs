//! Parsing: one row per notation that some producer prints, and one per kind of damage.

mod summary;

use summary::summary;
use unspool_tarmac::parse::{ParseOptions, Parser};
use unspool_tarmac::record::{ProblemKind, Record};

/// The rows of a table: `line => summary`, or the summary on a line of its own.
fn rows(table: &str) -> Vec<(String, String)> {
    let table = table.replace("\n=> ", " => ");
    let row = |row: &str| row.split_once(" => ").map(|(line, expected)| (line.to_string(), expected.to_string()));
    table.lines().skip(1).map(|line| row(line).unwrap()).collect()
}

/// Parses each row with a new parser.
fn check(table: &str) {
    check_with(ParseOptions::default(), table);
}

fn check_with(options: ParseOptions, table: &str) {
    let wrong = rows(table).into_iter().filter_map(|(line, expected)| {
        let found = summary(&Parser::new(options).parse(line.as_bytes()));
        (found.trim_end() != expected).then(|| format!("{line}\n  expected {expected}\n  found    {found}\n"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn prefixes() {
    let table = "
 => blank
  \t  => blank
# made by hand => comment # made by hand
  ; made by hand => comment ; made by hand
// made by hand => comment // made by hand
*** 3 errors => comment *** 3 errors
Tarmac Text Rev 3t => header 3 flags=t
Tarmac Text Rev 1 => header 1 flags=
Tarmac Text Rev x => column 17: Unexpected
210000350000 ps R r1 00000001 => 210000350000 ps; register r1 = 00000001
          5 clk\tR\tr1\t00000001 => 5 clk; register r1 = 00000001
433ns R r1 00000001 => 433 ns; register r1 = 00000001
   11.250000us R r1 00000001 => 11250000 us /10^6; register r1 = 00000001
1.5 ns R r1 00000001 => 15 ns /10^1; register r1 = 00000001
53 R r1 00000001 => 53 units; register r1 = 00000001
R r1 00000001 => register r1 = 00000001
-----------     R r1 00000001 => no time; register r1 = 00000001
18446744073709551615 clk R r1 00000001 => 18446744073709551615 clk; register r1 = 00000001
9 clk cpu3 R r1 00000001 => 9 clk; core cpu3; register r1 = 00000001
cpu3 R r1 00000001 => core cpu3; register r1 = 00000001
9 clk css.cluster1.cpu0 R r1 00000001 => 9 clk; core css.cluster1.cpu0; register r1 = 00000001
9 clk Core_B R r1 00000001 => 9 clk; core Core_B; register r1 = 00000001
9 clk 1 R r1 00000001 => 9 clk; core 1; register r1 = 00000001
9 1 R r1 00000001 => 9 units; core 1; register r1 = 00000001
";
    check(table);
    for unit in ["s", "ms", "us", "ns", "ps", "fs", "clk", "cs", "cyc", "tic"] {
        check(&format!("\n60 {unit} R r1 00000001 => 60 {unit}; register r1 = 00000001\n"));
    }
}

#[test]
fn malformed_prefixes() {
    let table = "
18446744073709551616 clk R r1 00000001 => column 1: TooLong
  99999999999999999999999999999ns R r1 00000001 => column 3: TooLong
1.2.3 ns R r1 00000001 => column 1: UnknownTag
12xs R r1 00000001 => column 1: UnknownTag
--- R r1 00000001 => column 1: UnknownTag
9 clk => 9 clk; column 6: Truncated
9 clk cpu0 => 9 clk; column 11: Truncated
9 clk NOSUCH r1 00000001 => 9 clk; column 7: UnknownTag
9 clk cpu0 NOSUCH r1 00000001 => 9 clk; column 12: UnknownTag
9 clk NOSUCH WORDS 00000001 => 9 clk; column 7: UnknownTag
some words R r1 00000001 => column 1: UnknownTag
9 clk R: r1 00000001 => 9 clk; column 8: Unexpected
9 clk R\u{e9} r1 00000001 => 9 clk; column 7: UnknownTag
9 clk \u{e9} r1 00000001 => 9 clk; column 7: Binary
";
    check(table);
}

#[test]
fn instructions_of_rev3() {
    let table = "
      46000 ns  ES  (00000010:e59ff028) A svc:            LDR      pc,{pc}+0x30 ; 0x40
=> 46000 ns; ES 10/8 e59ff028/4 A mode=svc [LDR      pc,{pc}+0x30 ; 0x40]
41 tic ES  (0000013a:c9f0)     T thrd_s:         LDM r1!,{r4-r7}  <start>
=> 41 tic; ES 13a/8 c9f0/2 T mode=thrd_s [LDM r1!,{r4-r7}  <start>]
41 ns  ES  (0000000080001234:d503201f) O el3h_s:         NOP => 41 ns; ES 80001234/16 d503201f/4 O mode=el3h_s [NOP]
41 ns  ES  (0000025c:13a05b02) A svc:     CCFAIL MOVNE    r5,#0x800
=> 41 ns; ES 25c/8 13a05b02/4 A mode=svc skipped [MOVNE    r5,#0x800]
41 tic ES  (0000aaaac4d07e30:--------) O el0t_ns: => 41 tic; ES aaaac4d07e30/16 -/4 O mode=el0t_ns []
41 tic ES (10000c8c:----) T thrd_s: => 41 tic; ES 10000c8c/8 -/2 T mode=thrd_s []
41 ns ES (DBGITR:e1a00000) A svc: NOP => 41 ns; ES -/0 e1a00000/4 A mode=svc [NOP]
41 ns ES (EDITR:d503201f) O el3h: NOP => 41 ns; ES -/0 d503201f/4 O mode=el3h [NOP]
41 ns ES (00000010:4770) E usr_ns: BX lr => 41 ns; ES 10/8 4770/2 E mode=usr_ns [BX lr]
1715 ns IT (00000010:e59ff038) A svc:          LDR pc,{pc}+0x40 ; 0x50
=> 1715 ns; IT 10/8 e59ff038/4 A mode=svc [LDR pc,{pc}+0x40 ; 0x50]
-----------     ES  (00000010:e1a00000) A svc: NOP => no time; ES 10/8 e1a00000/4 A mode=svc [NOP]
";
    check(table);
}

#[test]
fn instructions_of_fast_models() {
    let table = "
7 clk IT (7) 0000a100 a106 T svc_s : ADR      r1,{pc}+0x1c ; 0xa11c
=> 7 clk; IT #7 a100/8 a106/2 T mode=svc_s [ADR      r1,{pc}+0x1c ; 0xa11c]
12 clk cpu1 IS (11) 0000b3c8 54ffff2b O EL3h_s : B.LT {pc}-0x1c
=> 12 clk; core cpu1; IS #11 b3c8/8 54ffff2b/4 O mode=EL3h_s skipped [B.LT {pc}-0x1c]
3 clk IT (3) 0000a10e:00000000b10e,00000000c110 e8920300 T svc_s : LDM r2,{r8,r9}
=> 3 clk; IT #3 a10e/8 pa=:b10e pa=:c110 e8920300/4 T mode=svc_s [LDM r2,{r8,r9}]
3 clk IT (3) 0000a10e:00000000b10e_NS,00000000c110_S e8920300 T hyp_n : LDM r2,{r8,r9}
=> 3 clk; IT #3 a10e/8 pa=NS:b10e pa=S:c110 e8920300/4 T mode=hyp_n [LDM r2,{r8,r9}]
3 clk IT (3) 0000000080001234:000080001234_RL d503201f O EL2h_rl : NOP
=> 3 clk; IT #3 80001234/16 pa=RL:80001234 d503201f/4 O mode=EL2h_rl [NOP]
3 clk IT (3) 00008000:00008000_RT 4770 T svc_s : BX lr => 3 clk; IT #3 8000/8 pa=RT:8000 4770/2 T mode=svc_s [BX lr]
3 clk IT (3) 00008000 4770 X svc_s : BX lr => 3 clk; IT #3 8000/8 4770/2 E mode=svc_s [BX lr]
27 clk IT(27) 0000818a 2100 T thread : MOVS r1, #0 => 27 clk; IT #27 818a/8 2100/2 T mode=thread [MOVS r1, #0]
27 clk IT (27) 0000818a 2100 T thread :  => 27 clk; IT #27 818a/8 2100/2 T mode=thread []
1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1 => 1 clk; core 0; IT #1 4/8 3c080001/4 A mode=svc [lui t0,0x1]
1 clk IT (1) 0x00008000 0xe1a00000 A svc_ns : nop => 1 clk; IT #1 8000/8 e1a00000/4 A mode=svc_ns [nop]
73 clk IT 00034a1c 9100c3e4 O EL3h_s: ADD x4,sp,#0x30 => 73 clk; IT 34a1c/8 9100c3e4/4 O mode=EL3h_s [ADD x4,sp,#0x30]
60 cs IT (000000000052c4d0) 54fffd8a O  ---_- :        b.ge\t0x52c480
=> 60 cs; IT 52c4d0/16 54fffd8a/4 O mode=---_- [b.ge\t0x52c480]
1 clk IT (1) 00008000 d503201f O EL1h_ns : NOP ; caf\u{e9}
=> 1 clk; IT #1 8000/8 d503201f/4 O mode=EL1h_ns [NOP ; caf\u{e9}]
";
    check(table);
}

#[test]
fn instructions_of_rtl() {
    let table = "
      4177 cyc IT (00031a40:0000001f) 00031a40     4ba3 T16 LDR      r3,[pc,#652]
=> 4177 cyc; IT #31 31a40/8 4ba3/2 T mode= [LDR      r3,[pc,#652]]
4177 cyc IF (00024814:00000002) 00024814 2000 T16 MOVS r0,#0 => 4177 cyc; IF #2 24814/8 2000/2 T mode= [MOVS r0,#0]
4177 cyc IT (00024814:00000002) 00024814 f7fffff4 T32 BL {pc}-0x14
=> 4177 cyc; IT #2 24814/8 f7fffff4/4 T mode= [BL {pc}-0x14]
4177 cyc IT (00024818:00000004) 00024818 -------- T32 => 4177 cyc; IT #4 24818/8 -/4 T mode= []
951240 ns IT (00000100:0000000a) 00000100 ea00000b A :                      B pc+0x2c
=> 951240 ns; IT #10 100/8 ea00000b/4 A mode= [B pc+0x2c]
512ns IT 00000420 4a09        LDR      r2,[pc,#36] => 512 ns; column 31: NoInstructionSet
";
    check(table);
    check_with(
        ParseOptions { implicit_thumb: true },
        "
512ns IT 00000420 4a09        LDR      r2,[pc,#36] => 512 ns; IT 420/8 4a09/2 T mode= [LDR      r2,[pc,#36]]
512ns IT 00000420 4a09 => 512 ns; IT 420/8 4a09/2 T mode= []
512ns IT (4) 00000420 4a09 svc : NOP => 512 ns; column 28: NotAnInstructionSet
",
    );
}

#[test]
fn malformed_instructions() {
    let table = "
1 clk IT => 1 clk; column 9: Truncated
1 clk IT (1 => 1 clk; column 12: Truncated
1 clk IT (1) => 1 clk; column 13: Truncated
1 clk IT (1) 00008000 => 1 clk; column 22: Truncated
1 clk IT (1) 00008000 e1a0000 => 1 clk; column 30: Truncated
1 clk IT (1) 00008000 e1a00000 => 1 clk; column 31: Truncated
1 clk IT (1) 00008000 e1a00000 A => 1 clk; column 33: Truncated
1 clk IT (1) 00008000 e1a00000 A svc_ => 1 clk; column 38: Truncated
1 clk IT (1) 00008000 e1a00000 Z svc_s : NOP => 1 clk; column 32: NotAnInstructionSet
1 clk IT (1) 00008000 e1a00000 A svc_s NOP => 1 clk; column 40: Unexpected
1 clk IT (1) 00008000 e1a00 A svc_s : NOP => 1 clk; column 23: WrongOpcode
1 clk IT (1) 00008000 e1a0000000 A svc_s : NOP => 1 clk; column 23: WrongOpcode
1 clk IT (1) 00008000 --- A svc_s : NOP => 1 clk; column 23: WrongOpcode
1 clk IT (1) 0000800g e1a00000 A svc_s : NOP => 1 clk; column 21: NotHexadecimal
1 clk IT (1) 00000000000008000 e1a00000 A svc_s : NOP => 1 clk; column 14: TooLong
1 clk IT (99999999999999999999) 00008000 e1a00000 A svc_s : NOP => 1 clk; column 11: TooLong
1 clk IT (one) 00008000 e1a00000 A svc_s : NOP => 1 clk; column 11: Unexpected
1 clk ES => 1 clk; column 9: Truncated
1 clk ES (00008000 => 1 clk; column 19: Truncated
1 clk ES (00008000:e1a0 => 1 clk; column 24: Truncated
1 clk ES (00008000:e1a00000) A svc => 1 clk; column 35: Truncated
1 clk ES (00008000:e1a00000) B svc: NOP => 1 clk; column 30: NotAnInstructionSet
1 clk ES (PC:e1a00000) A svc: NOP => 1 clk; column 11: NotHexadecimal
1 clk ES 00008000 => 1 clk; column 10: Unexpected
";
    check(table);
}

#[test]
fn exceptions_and_events() {
    let table = "
17 ns  ES  EXC [0x00] Reset => 17 ns; step exception Some(0) Reset
17 ns  ES  EXC Reset => 17 ns; step exception None Reset
17 ps  ES  EXC [1] Reset => 17 ps; step exception Some(1) Reset
          EXC [0x200] Synchronous Current EL with SP_ELx => exception Some(512) Synchronous Current EL with SP_ELx
          EXC [-8] Array Bound Check => exception Some(-8) Array Bound Check
          EXC [11] SVCall => exception Some(11) SVCall
          EXC Debug Halt Mode Entry => exception None Debug Halt Mode Entry
17 ns  ES  Reset => 17 ns; asynchronous Reset
17 ns  ES  IRQ => 17 ns; asynchronous IRQ
17 ns  ES  FIQ => 17 ns; asynchronous FIQ
17 ns  ES  External Debug Event => 17 ns; asynchronous External Debug Event
17 ns  ES  System Error (Abort) => 17 ns; asynchronous System Error (Abort)
17 ns  ES  Virtual System Error (Virtual Abort) => 17 ns; asynchronous Virtual System Error (Virtual Abort)
17 ns  ES  Background Update => 17 ns; asynchronous Background Update
0 clk E 000080ac 00000001 CoreEvent_RESET => 0 clk; event value=80ac mode= number=1 CoreEvent_RESET exception
0 clk E 000080ac:0000000080ac_NS 00000001 CoreEvent_RESET
=> 0 clk; event value=80ac mode= number=1 CoreEvent_RESET exception
9 ps E 0000a20c 00000084 CoreEvent_CURRENT_SPx_SYNC
=> 9 ps; event value=a20c mode= number=84 CoreEvent_CURRENT_SPx_SYNC exception
9 clk E 10000b14 00000013 CoreEvent_EXT_INT3 => 9 clk; event value=10000b14 mode= number=13 CoreEvent_EXT_INT3 exception
9 ps E 00000038 00efefef00000003 CoreEvent_SWI => 9 ps; event value=38 mode= number=3 CoreEvent_SWI exception
9 clk E 0000041c handler 00000019 CoreEvent_ModeChange
=> 9 clk; event value=41c mode=handler number=19 CoreEvent_ModeChange
9 clk E 00000010 handler 00000004 00000019 CoreEvent_ModeChange
=> 9 clk; event value=10 mode=handler number=19 CoreEvent_ModeChange
4 clk cpu2 E DebugEvent_HaltingDebugState 00000001
=> 4 clk; core cpu2; event value=- mode= number=- DebugEvent_HaltingDebugState 00000001
1us E RESET => 1 us; event value=- mode= number=- RESET exception
1us E INT_TAKEN 0b => 1 us; event value=- mode= number=b INT_TAKEN 0b exception
1us E INT_RETURN => 1 us; event value=- mode= number=- INT_RETURN
1us E LOCKUP => 1 us; event value=- mode= number=- LOCKUP
1us E HALTED => 1 us; event value=- mode= number=- HALTED
1us E HARDFAULT_REQ => 1 us; event value=- mode= number=- HARDFAULT_REQ
1us E HRESETn 1 => 1 us; event value=- mode= number=- HRESETn 1
1us E ATOMIC 0 => 1 us; event value=- mode= number=- ATOMIC 0
1us E Run => 1 us; event value=- mode= number=- Run
1us E   TUBE : c => 1 us; event value=- mode= number=- TUBE : c
1us E SPECIAL_OP 00000010 e320 => 1 us; event value=- mode= number=- SPECIAL_OP 00000010 e320
1us E CORTEXM0_TARMAC_LOG /a/b => 1 us; event value=- mode= number=- CORTEXM0_TARMAC_LOG /a/b
1us E => 1 us; column 6: Truncated
1us E 00000014 => 1 us; column 15: Truncated
17 ns  ES  EXC => 17 ns; column 15: Truncated
17 ns  ES  EXC [0x0 => 17 ns; column 20: Truncated
17 ns  ES  EXC [vec] Reset => 17 ns; column 17: Unexpected
";
    check(table);
}

#[test]
fn branches_and_opaque_lines() {
    let table = "
      BR (00001c98) A => branch 1c98/8 Some(A)
      BR (0000000000001c98) O => branch 1c98/16 Some(O)
      BR (00001c98) => branch 1c98/8 None
      BR (00001c98 => column 19: Truncated
      BR (00001c98) Q => column 21: NotAnInstructionSet
      BR (00001c98) A svc => column 23: Unexpected
2 clk FD (12) 00008000 00008010 A => 2 clk; flow D Some(12) 8000 to 8010 Some(A)
2 clk FI (12) 00008000 00008010 T => 2 clk; flow I Some(12) 8000 to 8010 Some(T)
2 clk FR (12) 00008000 00008010 X => 2 clk; flow R Some(12) 8000 to 8010 Some(E)
2 clk FR (12) 00008000 => 2 clk; column 23: Truncated
6120 clk CADI E simulation_stopped => 6120 clk; opaque CADI: E simulation_stopped
0 clk SIGNAL: SIGNAL=poreset STATE=N => 0 clk; opaque SIGNAL: SIGNAL=poreset STATE=N
0 clk INFO_EXCEPTION_REASON: PHASE=1 PC=0x10 => 0 clk; opaque INFO_EXCEPTION_REASON: PHASE=1 PC=0x10
0 clk CACHE cpu0 LINE 0010 FILL 0x80_NS => 0 clk; opaque CACHE: cpu0 LINE 0010 FILL 0x80_NS
0 clk cpu0 TTW DTLB LPAE 1:0 0000 => 0 clk; core cpu0; opaque TTW: DTLB LPAE 1:0 0000
0 clk TLB FILL cpu0 4K => 0 clk; opaque TLB: FILL cpu0 4K
0 clk WALKCACHE FILL => 0 clk; opaque WALKCACHE: FILL
0 clk P 1 => 0 clk; opaque P: 1
0 clk MI => 0 clk; opaque MI:
0 clk MIO => 0 clk; opaque MIO:
";
    check(table);
}

#[test]
fn registers() {
    let table = "
1 clk R r0 0000d61c => 1 clk; register r0 = 0000d61c
1 clk R X30 000000000000a0f8 => 1 clk; register X30 = 000000000000a0f8
      R R3 (USR) 00001240 => register R3(USR) = 00001240
      R R3(USR) 00001240 => register R3(USR) = 00001240
      R R12 (FIQ) 0000e598 => register R12(FIQ) = 0000e598
      R SCTLR (AARCH32) 00c51879 => register SCTLR(AARCH32) = 00c51879
1 clk R r14_svc 0000a0f8 => 1 clk; register r14_svc = 0000a0f8
1 clk R r13_mn 20038000 IntInvoke:0 BE8:1 => 1 clk; register r13_mn = 20038000 notes=IntInvoke:0 BE8:1
1 clk R FPCR 00c00010:4001a2b3 => 1 clk; register FPCR = 00c00010:4001a2b3
1 clk R cpsr 80000000 N___ => 1 clk; register cpsr = 80000000 notes=N___
1 clk R cpsr 1600003c5 => 1 clk; register cpsr = 1600003c5
1 clk R Q4 1f2e3d4c 5b6a7988 a7b6c5d4 e3f20110 => 1 clk; register Q4 = 1f2e3d4c 5b6a7988 a7b6c5d4 e3f20110
1 clk R q4 1f2e3d4c5b6a7988_a7b6c5d4e3f20110 => 1 clk; register q4 = 1f2e3d4c5b6a7988_a7b6c5d4e3f20110
1 clk R Q2 -------- -------- 40091eb8 51eb851f => 1 clk; register Q2 = -------- -------- 40091eb8 51eb851f
1 clk R Q0 (AARCH32) ----- 00000000 => 1 clk; register Q0(AARCH32) = ----- 00000000
1 clk R V6<127:64> 1020304050607080 => 1 clk; register V6<127:64> = 1020304050607080
1 clk R V9<63:0> 00000000 => 1 clk; register V9<63:0> = 00000000
1 clk R r0 [32:63] 00000007 => 1 clk; register r0<31:0> = 00000007
1 clk R X7 00001357 9bdf2468 => 1 clk; register X7 = 00001357 9bdf2468
1 clk R X9 -------- => 1 clk; register X9 = --------
1 clk R psr x2xxX0xx => 1 clk; register psr = x2xxX0xx
1 clk R Z2 c0240000_00000000_40390000_00000000 => 1 clk; register Z2 = c0240000_00000000_40390000_00000000
1 clk R P5 3c9f => 1 clk; register P5 = 3c9f
1 clk R      r4 00000007 => 1 clk; register r4 = 00000007
433ns R r13 20000f70 (MSP) => 433 ns; register r13 = 20000f70 notes=(MSP)
1 clk R r0 0x0000d61c => 1 clk; register r0 = 0000d61c
52 clk R DC CISW 00000000:00000240 => 52 clk; operation DC CISW 00000000:00000240
52 clk R IC IALLUIS 00000000:0000000 => 52 clk; operation IC IALLUIS 00000000:0000000
52 clk R TLBI ALLE1 00000000:00000000 => 52 clk; operation TLBI ALLE1 00000000:00000000
52 clk R AT S1E2R 00000000:00003a80 => 52 clk; operation AT S1E2R 00000000:00003a80
";
    check(table);
}

#[test]
fn malformed_registers() {
    let table = "
1 clk R => 1 clk; column 8: Truncated
1 clk R r0 => 1 clk; column 11: Truncated
1 clk R r0  => 1 clk; column 12: Truncated
1 clk R r0 (USR => 1 clk; column 16: Truncated
1 clk R r0 (USR) => 1 clk; column 17: Truncated
1 clk R r0 value => 1 clk; column 12: NotHexadecimal
1 clk R r0 0000d61g => 1 clk; column 12: NotHexadecimal
1 clk R DC CISW => 1 clk; column 16: Truncated
1 clk R V0<127 00 => 1 clk; column 15: Unexpected
1 clk R V0<0:127> 00 => 1 clk; column 12: Unexpected
1 clk R V0<a:b> 00 => 1 clk; column 12: Unexpected
1 clk R r0 0000d61c2 clk R r1 00000001 => 1 clk; column 22: Unexpected
1 clk R r0 0000d61c      17 ns ES (00000000:e1a00000) A svc: NOP => 1 clk; column 26: Unexpected
1 clk R r0 0000d61c      BR (00001c98) A => 1 clk; column 26: Unexpected
R r0 0000000\u{e9} => column 6: NotHexadecimal
R \u{e9} 00000001 => register \u{e9} = 00000001
";
    check(table);
}

#[test]
fn accesses() {
    let table = "
2 clk MR4 00009150 0000c3d2 => 2 clk; read 4 at 9150/8 = 0000c3d2
2 clk MW1 0ffffe74 5a => 2 clk; write 1 at ffffe74/8 = 5a
2 clk MR8 0000b350:00000000e350 00000000_0000b4f0 => 2 clk; read 8 at b350/8 pa=:e350 = 00000000_0000b4f0
2 clk MR8 0000020004fffb40:020124fffb40_NS 00000200_0a3c4000
=> 2 clk; read 8 at 20004fffb40/16 pa=NS:20124fffb40 = 00000200_0a3c4000
2 clk MR8X 00009150 00000000_0000c3d2 => 2 clk; read 8 at 9150/8 = 00000000_0000c3d2 exclusive
2 clk MW4T 00009150 0000c3d2 => 2 clk; write 4 at 9150/8 = 0000c3d2 unprivileged
2 clk MW4L 00009150 0000c3d2 => 2 clk; write 4 at 9150/8 = 0000c3d2 locked
2 clk MR16 40025a30 401c28f5c0000000 bfe3d70a40000000
=> 2 clk; read 16 at 40025a30/8 = 401c28f5c0000000 bfe3d70a40000000
2 clk MW16 0007fb60:00000007fb60 00000000000000000000000000340c2c
=> 2 clk; write 16 at 7fb60/8 pa=:7fb60 = 00000000000000000000000000340c2c
2 clk MW16 0007fb60 00000000_00000000_00000000_00340c2c
=> 2 clk; write 16 at 7fb60/8 = 00000000_00000000_00000000_00340c2c
2 clk MW32 0007fb60 00000000_00000001_00000002_00000003_00000004_00000005_00000006_00340c2c
=> 2 clk; write 32 at 7fb60/8 = 00000000_00000001_00000002_00000003_00000004_00000005_00000006_00340c2c
2 clk MR4 efefef5c (ABORTED) => 2 clk; read 4 at efefef5c/8 = - aborted notes=(ABORTED)
2 clk MR4 efefef5c 00000000 (abort) => 2 clk; read 4 at efefef5c/8 = 00000000 aborted notes=(abort)
2 clk MSR4O___ 00008008 EB00000C => 2 clk; read 4 at 8008/8 = EB00000C fetch
2 clk MNR4____ 00008008 (wait) => 2 clk; read 4 at 8008/8 = - notes=(wait)
2 ns MSW4___D 2007ffd4 xxxxxxxx => 2 ns; write 4 at 2007ffd4/8 = xxxxxxxx memory-order
2 cyc MNW4___D 20031c40 0df0adba => 2 cyc; write 4 at 20031c40/8 = 0df0adba memory-order
2 cyc MNW4___A e000e010 00000007 => 2 cyc; write 4 at e000e010/8 = 00000007 peripheral memory-order
2 cyc MNR4O__I 00031b58 f000f81d => 2 cyc; read 4 at 31b58/8 = f000f81d fetch
2us MR4_D 00000008 0020c400 => 2 us; read 4 at 8/8 = 0020c400
2us MR2_I 0000023e b5f80000 => 2 us; read 2 at 23e/8 = b5f80000 fetch lanes
2us MW4ED 40000000 00000001 => 2 us; write 4 at 40000000/8 = 00000001 aborted
2 cs R08 0000007f84c2e6d8 43870000c2140000 => 2 cs; read 8 at 7f84c2e6d8/16 = 43870000c2140000
2 cs W04 X ffffffa8d4e02b54 02170215 => 2 cs; write 4 at ffffffa8d4e02b54/16 = 02170215 exclusive
2 ns MNW4____ (00000074:000000c1) 0620a000 00000005 => 2 ns; write 4 at 620a000/8 by 74:c1 = 00000005
2 ns MNW8____ (00000074:000000c1) 01013ff8 00000000 01000028 => 2 ns; write 8 at 1013ff8/8 by 74:c1 = 00000000 01000028
2 ns MCW4___R (02000318:000000d4) TRANSFER 00000007 => 2 ns; transfer write 4 at -/0 by 2000318:d4 = 00000007
2 ns BNR4O__I 00000534 7800491d => 2 ns; bus read 4 at 534/8 = 7800491d fetch
2 clk BW4D_PS I_RCBS O_RCBS 12 0080001000 d4c3b2a1
=> 2 clk; bus write 4 at 80001000/10 = d4c3b2a1 memory-order notes=I_RCBS O_RCBS 12
2 clk BR8I_PN IWRCB_ OWRCB_ cpu0 0080001000 0011223344556677
=> 2 clk; bus read 8 at 80001000/10 = 0011223344556677 fetch memory-order notes=IWRCB_ OWRCB_ cpu0
0 clk MW4 0x00001000 0xdeadbeef => 0 clk; write 4 at 1000/8 = deadbeef
";
    check(table);
}

#[test]
fn malformed_accesses() {
    let table = "
2 clk MR4 => 2 clk; column 10: Truncated
2 clk MR4 00009150 => 2 clk; column 19: Truncated
2 clk MR4 00009150 123456789 => 2 clk; column 20: WrongWidth
2 clk MR4 00009150 1234567 => 2 clk; column 20: WrongWidth
2 clk MNW8____ 00009150 00000001 => 2 clk; column 25: WrongWidth
2us MR4_I 00000240 f81d => 2 us; column 20: WrongWidth
2 clk MR4 0000803q 12345678 => 2 clk; column 18: NotHexadecimal
2 clk MR4 00009150 wxyzwxyz => 2 clk; column 20: NotHexadecimal
2 clk MR4 12345678123456789 12345678 => 2 clk; column 11: TooLong
2 clk MR4 00009150:12345678123456789 12345678 => 2 clk; column 20: TooLong
2 clk MR0 00009150 12345678 => 2 clk; column 7: WrongSize
2 clk MR99999 00009150 12345678 => 2 clk; column 7: WrongSize
2 clk MR4? 00009150 12345678 => 2 clk; column 10: UnknownTag
2 clk MR4 00009150 (ABOR => 2 clk; column 25: Truncated
2 clk MR4 00009150 12345678 2 clk IT (1) 00009150 => 2 clk; column 29: Unexpected
2 clk BW4D_PS I_RCBS 12 0080001000 d4c3b2a1 => 2 clk; column 22: Unexpected
";
    check(table);
}

#[test]
fn pictures() {
    let table = "
   LD 00000060  ........ ........ ........ 000000a4     0000000060    NM ISH INC
=> Load 60/8 a4000000........................ pa=:60 NM ISH INC
   ST 0000000005003c80 07000000 00000000 ..00.... 00000031    S:0005003c80    nGnRnE OSH
=> Store 5003c80/16 31000000....00..0000000000000007 pa=S:5003c80 nGnRnE OSH
   ST b4000010  ........ ........ ........ ....xx##     NS:00b4000010/20  SO
=> Store b4000010/8 ????............................ pa=NS:b4000010/20 SO
   LA 00000020  ........ ........ ........ ..####.. => AbortedLoad 20/8 ..????..........................
   SA 00000020  ........ ........ ........ ......00 => AbortedStore 20/8 00..............................
   SX 00000020  ........ ........ ........ 11223344 NM => FailedStore 20/8 44332211........................ NM
   ST 0034560 ........ ........ ........ ......01 => Store 34560/7 01..............................
9 clk cpu1 LD 00000020 5a5a5a5a ........ ........ ........
=> 9 clk; core cpu1; Load 20/8 ........................5a5a5a5a
   LD 00000020 => column 15: Truncated
   LD 00000020 ........ ........ ........ => column 42: Truncated
   LD 00000020 ........ ........ ........ .... => column 47: Truncated
   LD 00000020 ........ .... ........ ........ => column 25: NotAPicture
   LD 00000020 ........ ......0. ........ ........ => column 31: NotAPicture
   LD 00000020 ........ ......-- ........ ........ => column 31: NotAPicture
   LD address ........ ........ ........ ........ => column 10: NotHexadecimal
   LD 00000020 ........ ........ ........ 00000080 S:xyz NM => column 54: NotHexadecimal
   LD 00000020 ........ ........ ........ 00000080 S:0010/p NM => column 59: Unexpected
";
    check(table);
}

/// Only the column identifies a continuation line: its address may look like a time.
#[test]
fn continued_pictures() {
    let mut parser = Parser::new(ParseOptions::default());
    let table = "
  ST 00006150  ........ ........ ........ 3635203e   S:0000006150
=> Store 6150/8 3e203536........................ pa=S:6150
     00006140  21000d74 ........ ........ ........   S:0000006140
=> Store continued 6140/8 ........................740d0021 pa=S:6140
     00006130  ........ ........ ........ ......01 => Store continued 6130/8 01..............................
     00006120  ........ ........ .. => column 36: Truncated
     000060f0  ........ ........ ........ ......01 => column 6: UnknownTag
  LD 00006150  ........ ........ ........ ......3e => Load 6150/8 3e..............................
    00006140  ........ ........ ........ ......3e => 6140 units; column 15: UnknownTag
  LD 00006150  ........ ........ ........ ......3e => Load 6150/8 3e..............................
     0000000000006140  ........ ........ ........ ......3e => 6140 units; column 24: UnknownTag
  LD 00006150  ........ ........ ........ ......3e => Load 6150/8 3e..............................
     R R0 (USR) 00000001 => register R0(USR) = 00000001
     00006140  ........ ........ ........ ......3e => 6140 units; column 16: UnknownTag
";
    for (line, expected) in rows(table) {
        assert_eq!(summary(&parser.parse(line.as_bytes())), expected, "{line}");
    }
}

/// The examples of the specification, with the dots that its text lacks. The last one is as printed there: the
/// positions of its bytes are unknown.
#[test]
fn examples_of_the_specification() {
    let table = "
       9627 clk ES (ab465108:e2800010) A hyp_ns: ADD r0,r0,#0x10
=> 9627 clk; ES ab465108/8 e2800010/4 A mode=hyp_ns [ADD r0,r0,#0x10]
ES (00002358:1a000792) A svc: CCFAIL BNE {pc}+0x1e50 ; 0x41a8
=> ES 2358/8 1a000792/4 A mode=svc skipped [BNE {pc}+0x1e50 ; 0x41a8]
ES (000022e0:--------) A svc: => ES 22e0/8 -/4 A mode=svc []
EXC [0x04] Undefined Instruction => exception Some(4) Undefined Instruction
ST 0000cff0 00001ce8 ........ ........ ........ S:000000cff0/0 SO
=> Store cff0/8 ........................e81c0000 pa=S:cff0/0 SO
ST 13000000 ........ ........ ........ ......6f S:0013000000/20 DV OSH
=> Store 13000000/8 6f.............................. pa=S:13000000/20 DV OSH
LD 00000040 ........ 00001798 ........ ........ S:0000000040/12 NM NSH IWBWRA OWBWA
=> Load 40/8 ................98170000........ pa=S:40/12 NM NSH IWBWRA OWBWA
          #0000000000004840 => comment #0000000000004840
ST 13000000 .....6f S:0013000000/20 DV OSH => column 13: NotAPicture
";
    check(table);
}

#[test]
fn binary_lines() {
    let rows: &[(&str, &[u8], &str)] = &[
        ("zeros", b"1 clk R r0 0000\0\0\0\0", "column 16: Binary"),
        ("not UTF-8", b"1 clk IT (1) 00008000 4770 T svc_s : BX \xff\xfe", "column 41: Binary"),
        ("control characters", b"\x1b[31m1 clk R r0 00000001", "column 1: Binary"),
        ("a return in the middle", b"1 clk R r0 00000001\r1 clk R r1 00000001", "column 20: Binary"),
        ("cut within a letter", b"1 clk IT (1) 00008000 4770 T svc_s : BX \xc3", "column 41: Binary"),
    ];
    for (name, line, expected) in rows {
        let line = Parser::default().parse(line);
        assert_eq!(summary(&line), *expected, "{name}");
    }
}

/// A truncated or changed line is a record, or an error with a column in the line or right after it.
#[test]
fn every_truncation_and_change_has_a_column() {
    let lines = [
        "1 clk cpu0 IT (1) 0000a10e:00000000b10e_NS,00000000c110_S e8920300 T hyp_n : LDM r2,{r8,r9}",
        "41 ns  ES  (0000025c:13a05b02) A svc:     CCFAIL MOVNE    r5,#0x800",
        "2 clk MR8 0000020004fffb40:020124fffb40_NS 00000200_0a3c4000",
        "   ST b4000010  ........ ........ ........ ....xx##     NS:00b4000010/20  SO",
        "1 clk R V6<127:64> 1020304050607080",
        "9 clk E 0000041c handler 00000019 CoreEvent_ModeChange",
        "2 clk BW4D_PS I_RCBS O_RCBS 12 0080001000 d4c3b2a1",
        "2 ns MCW4___R (02000318:000000d4) TRANSFER 00000007",
    ];
    for line in lines {
        for end in 0..=line.len() {
            assert_column_in_line(&line.as_bytes()[..end]);
        }
        for at in 0..line.len() {
            for byte in [b' ', b'(', b':', b'0', b'x', b'-', b'_', b'G', 0xc3, 0, b'\t', b')', b'<'] {
                let mut changed = line.as_bytes().to_vec();
                changed[at] = byte;
                assert_column_in_line(&changed);
            }
        }
    }
}

fn assert_column_in_line(line: &[u8]) {
    use unspool_tarmac::Record;
    let mut parser = Parser::default();
    for _ in 0..2 {
        let parsed = parser.parse(line);
        assert_eq!(parsed.raw, line);
        if let Record::Unknown(problem) = parsed.record {
            assert!((1..=line.len() + 1).contains(&(problem.column as usize)), "{problem}: {line:?}");
            assert!(!problem.to_string().is_empty());
        }
    }
}

/// A line end was lost, so that two lines are one. The second is not taken for free text.
#[test]
fn joined_lines() {
    let rows = [
        ("3 clk IT (3) 0000a000 d503201f O EL1h_s : NOP4 clk R X7 0000000000000012", 46),
        ("3 clk IT (3) 0000a000 14000002 O EL1h_s : B {pc}+8 ; 0xa0084 clk R X7 0000000000000012", 57),
        ("3 clk IT (3) 0000a000 d503201f O EL1h_s : NOP 4 clk IT (4) 0000a004 d503201f O EL1h_s : NOP", 47),
        ("   7 ns  ES  (0000a000:e1a00000) A svc:            NOP                    R R4 00000012", 75),
        ("8 clk E 0000a000 00000084 CoreEvent_CURRENT_SPx_SYNC9 clk R X7 0000000000000012", 53),
        ("                    EXC [0x08] System Call13 ns R R4 00000012", 43),
        ("8 clk MR4 0000b000 (ABORTED)9 clk R X7 0000000000000012", 29),
        ("8 clk SIGNAL: SIGNAL=a STATE=N9 clk R X7 0000000000000012", 31),
        (
            "   LD 0000b000  ........ ........ ........ 00000012    S:000000b000    SO16 ns  ES  (0000a000:e1a00000) A svc: NOP",
            74,
        ),
        ("8 clk R X6 00000000000000019 clk R X7 0000000000000012", 30),
    ];
    for (line, column) in rows {
        let parsed = Parser::new(ParseOptions::default()).parse(line.as_bytes());
        let Record::Unknown(problem) = parsed.record else { panic!("{line}: {:?}", parsed.record) };
        assert_eq!((problem.kind, problem.column), (ProblemKind::Unexpected, column), "{line}");
    }
    // Free text that only resembles it.
    for line in [
        "3 clk IT (3) 0000a000 d4000001 O EL1h_s : SVC #0 ; a comment of a length that is looked at: 5 ns later, R r0 is 12",
        "3 clk IT (3) 0000a000 54000040 O EL1h_s : b.eq\t4d6e8c",
        "3 clk CADI E simulation_stopped after 5 s of nothing in particular, which is long",
    ] {
        let parsed = Parser::new(ParseOptions::default()).parse(line.as_bytes());
        assert!(!matches!(parsed.record, Record::Unknown(_)), "{line}: {:?}", parsed.record);
    }
}
