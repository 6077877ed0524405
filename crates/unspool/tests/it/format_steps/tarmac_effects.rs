//! Effects of Tarmac lines on each other: nothing is invented, and nothing is lost silently.

use unspool::astf::lower::{LowerOptions, Lowerer, header};
use unspool::astf::record::Level;
use unspool::convert::{TransferError, transfer};
use unspool::model::{ExceptionKind, Gap, Loss, SinkError, StepSink};
use unspool::tarmac;

use super::tarmac::log;
use super::*;

/// Losses of a log: name, count, and first line.
fn losses(text: &str) -> Vec<(&'static str, u64, u64)> {
    let (_, losses) = collect_with_losses(log(text));
    assert!(losses.iter().all(|(loss, _)| tarmac::steps::NOT_IN_STEPS.contains(&loss)), "{losses}");
    losses.iter().map(|(loss, lost)| (loss.name(), lost.count, lost.first)).collect()
}

/// Log as steps of an ASTF trace, and the number of lost instructions.
fn as_astf(text: &str, level: Level) -> Result<(Vec<Step>, u64), SinkError> {
    let source = log(text);
    let (coverage, unit) = (source.coverage(), source.time_unit());
    let options = LowerOptions { level: Some(level), ..LowerOptions::default() };
    let header = header(coverage, unit, &options)?;
    let mut lowerer = Lowerer::new(vec![header.to_bytes()], &header, coverage, unit, &options)?;
    match transfer(Box::new(source), None, &mut lowerer, |_, _| ControlFlow::Continue(())) {
        Err(TransferError::Sink(error)) => return Err(error),
        transferred => assert_eq!(transferred.unwrap().damage, None),
    }
    let lost = lowerer.losses().of(Loss::Instructions).count;
    Ok((collect(astf::open(lowerer.into_sink().concat())), lost))
}

/// Steps of two instructions, without contexts.
fn between(first: &str, second: &str) -> Vec<String> {
    let text = format!("1 clk IT (1) {first}\n2 clk IT (2) {second}\n");
    lines(log(&text)).into_iter().filter(|line| !line.contains("level")).collect()
}

#[test]
fn exceptions_are_implied_where_a_vector_may_be() {
    let nop = "d503201f O EL1h_n : NOP";
    let rows = [
        ("00400004 d4000001 O EL0t_n : SVC #0", "00005400 d503201f O EL1h_n : NOP", "Synchronous to 5400"),
        ("00400004 d503201f O EL0t_n : NOP", "00005480 d503201f O EL1h_n : NOP", "Irq to 5480"),
        ("00400004 d4000002 O EL1h_n : HVC #0", "00005400 d503201f O EL2h_n : NOP", "Synchronous to 5400"),
        ("00400004 d4000001 O EL1h_n : SVC #0", "00005200 d503201f O EL1h_n : NOP", "Synchronous to 5200"),
        // No exception leads to EL0: the handler is not in the log.
        ("00400004 d4000001 O EL0t_n : SVC #0", "00500000 d503201f O EL0t_n : NOP", "gap Start"),
        ("00400004 d4200000 O EL0t_n : BRK #0", "00500000 d503201f O EL0t_n : NOP", "gap Start"),
        ("00400004 d4000003 O EL1h_n : SMC #0", "00500000 d503201f O EL1h_n : NOP", "gap Start"),
        ("00400004 d4000001 O ---_- : SVC #0", "00500000 d503201f O ---_- : NOP", "gap Start"),
        ("00400004 d4000001 O EL0t_n : SVC #0", "00400008 d503201f O EL0t_n : NOP", ""),
        // Impossible exceptions are not implied.
        ("00005000 14000002 O EL0t_n : B {pc}+8", "00005008 d503201f O EL1h_n : NOP", ""),
        ("000053f8 14000002 O EL0t_n : B {pc}+8", "00005400 d503201f O EL1h_n : NOP", ""),
        ("00400004 d65f03c0 O EL0t_n : RET", "00005014 d503201f O EL1h_n : NOP", ""),
        ("00400004 d503201f O EL0t_n : NOP", "00005014 d503201f O EL1h_n : NOP", ""),
        ("00400004 d503201f O EL0t_n : NOP", "00005200 d503201f O EL1h_n : NOP", ""),
        ("00400004 d4000001 O EL0t_n : SVC #0", "00005014 d503201f O EL1h_n : NOP", ""),
    ];
    for (first, second, expected) in rows {
        let found = between(first, second);
        let implied: Vec<&str> = found[1..found.len() - 1].iter().map(|line| &line["@2 t2 ".len()..]).collect();
        let expected: &[&str] = if expected.is_empty() { &[] } else { &[expected] };
        assert_eq!(implied, expected, "{first}, {second}");
    }
    // The return of an exception does not lead up.
    let found = between("00400004 d69f03e0 O EL1h_n : ERET", &format!("00400014 {}", nop.replace("EL1h", "EL2h")));
    assert!(!found.iter().any(|line| line.contains("Unknown") || line.contains("Synchronous")), "{found:#?}");
}

#[test]
fn user_program_alone_is_a_basic_trace_with_a_gap() {
    let text = "\
1 us IT (1) 00400000 d503201f O EL0t_n : NOP
2 us IT (2) 00400004 d4000001 O EL0t_n : SVC #0
3 us IT (3) 00500000 d503201f O EL0t_n : NOP
";
    // The kernel may also return to its caller.
    for text in [text.to_string(), text.replace("00500000", "00400008")] {
        let (steps, lost) = as_astf(&text, Level::Basic).unwrap();
        assert_eq!((steps.iter().filter(|step| step.event.instruction().is_some()).count(), lost), (3, 0), "{text}");
        assert_eq!(steps.iter().any(|step| step.note().contains("gap")), text.contains("00500000"));
    }
    // A trace with every exception would have to have this one.
    assert!(as_astf(text, Level::BasicPlus).is_err());
}

#[test]
fn gem5_has_no_lines_for_exceptions() {
    let text = "\
0 clk IT (1) 00400000 d65f03c0 O EL0t_n : RET X30
250 clk IT (2) 00005480 d503201f O EL1h_n : MOV X0, #0X10
500 clk IT (3) 00005484 d503201f O EL1h_n : MOV X0, #0X10
750 clk IT (4) 00006280 d69f03e0 O EL1h_n : ERET
1000 clk IT (5) 00400010 14000002 O EL0t_n : B 0X400018
1250 clk IT (6) 00400018 d503201f O EL0t_n : MOV X0, #0X10
";
    assert!(!log(text).coverage().has(Facet::Exceptions));
    let expected = [
        "@1 t0 level 0 NonSecure",
        // The branch did not lead to the vector.
        "@1 t0 a64 400000 d65f03c0 executed",
        "@2 t250 level 1 NonSecure",
        "@2 t250 a64 5480 d503201f executed",
        "@3 t500 a64 5484 d503201f executed",
        // Execution was interrupted: the context is repeated.
        "@4 t750 level 1 NonSecure",
        "@4 t750 a64 6280 d69f03e0 executed -> 400010",
        "@5 t1000 level 0 NonSecure",
        "@5 t1000 a64 400010 14000002 executed -> 400018",
        "@6 t1250 a64 400018 d503201f executed",
    ];
    assert_eq!(lines(log(text)), expected);
}

#[test]
fn branches_to_the_next_instruction() {
    let next = "00008004 d503201f O EL1h_n : NOP";
    let rev3 = |set: &str| {
        format!(
            "ES (00008000:{set}\nES (00008004:{}\n",
            if set.contains(" O ") { "d503201f) O el1h_ns: NOP" } else { "e1a00000) A svc_ns: NOP" }
        )
    };
    let fast_models = |tag: &str, what: &str| format!("1 clk {tag} (1) 00008000 {what}\n2 clk IT (2) {next}\n");
    let fell = "1 clk IT (1) 00007000 54000041 O EL1h_n : B.NE {pc}+8\n1 clk IT (2) 00007004 14000400 O EL1h_n : B {pc}+0x1000\n";
    let rows = [
        // Fast Models mark those that are not taken.
        (fast_models("IT", "54000021 O EL1h_n : B.NE {pc}+4"), "a64 8000 54000021 executed -> 8004"),
        (fast_models("IS", "54000021 O EL1h_n : B.NE {pc}+4"), "a64 8000 54000021 skipped not taken"),
        // Unless a branch marked as taken was not.
        (
            format!(
                "{fell}{}",
                "1 clk IT (3) 00008004 54000021 O EL1h_n : B.NE {pc}+4\n2 clk IT (4) 00008008 d503201f O EL1h_n : NOP\n"
            ),
            "a64 8004 54000021",
        ),
        // Rev 3 does not mark AArch64 branches.
        (rev3("54000021) O el1h_ns: B.NE {pc}+4"), "a64 8000 54000021"),
        (rev3("54000021) O el1h_ns: B.NE {pc}+4\n BR (0000000000008004) O"), "a64 8000 54000021 executed -> 8004"),
        // A condition may have failed, and the log does not show it.
        (rev3("112fff1e) A svc_ns: BXNE lr"), "a32 8000 112fff1e"),
        (rev3("18bd8010) A svc_ns: POPNE {r4,pc}"), "a32 8000 18bd8010"),
        (rev3("112fff1e) A svc_ns: CCFAIL BXNE lr"), "a32 8000 112fff1e skipped not taken"),
        (rev3("e12fff1e) A svc_ns: BX lr"), "a32 8000 e12fff1e executed -> 8004"),
        (
            "1 clk IT (1) 00008000 112fff1e A svc_ns : BXNE lr\n2 clk IT (2) 00008004 e1a00000 A svc_ns : NOP\n".into(),
            "a32 8000 112fff1e executed",
        ),
        // So may the condition of an IT block.
        ("ES (00008000:4770) T svc_ns: BXNE lr\nES (00008002:bf00) T svc_ns: NOP\n".into(), "t32 8000 4770"),
        ("ES (00008000:e006) T svc_ns: BNE {pc}+0x10\nES (00008002:bf00) T svc_ns: NOP\n".into(), "t32 8000 e006"),
        (
            "ES (00008000:e006) T svc_ns: B {pc}+0x10\nES (00008010:bf00) T svc_ns: NOP\n".into(),
            "t32 8000 e006 executed -> 8010",
        ),
    ];
    for (text, expected) in rows {
        let found = lines(log(&text));
        let found = found.iter().rfind(|line| line.contains(&expected[..8])).unwrap_or_else(|| panic!("{text}"));
        assert!(found.ends_with(expected), "{found}, not {expected}, of\n{text}");
    }
}

#[test]
fn unknown_outcomes_are_not_written_to_astf() {
    let text = "\
Tarmac Text Rev 3t
1 us ES (0000000000008000:d503201f) O el1h_ns: NOP
2 us ES (0000000000008004:54000021) O el1h_ns: B.NE {pc}+4
3 us ES (0000000000008008:d503201f) O el1h_ns: NOP
";
    let (_, lost) = as_astf(text, Level::Basic).unwrap();
    assert_eq!(lost, 1);
    let refused = as_astf(text, Level::BasicPlus).err();
    assert!(matches!(refused, Some(SinkError::Refused { position: Some(3), .. })), "{refused:?}");
}

#[test]
fn aarch32_mode_has_no_stack_pointer_of_another() {
    let text = "\
1 us IT (1) 00008000 d69f03e0 O EL1h_n : ERET
2 us IT (2) 00009000 e1a00000 A usr_n : NOP
";
    let (steps, _) = as_astf(text, Level::BasicPlus).unwrap();
    let levels: Vec<_> = contexts(&steps).iter().map(|context| (context.level, context.is_handler)).collect();
    assert_eq!(levels.first(), Some(&(Some(1), Some(true))), "{levels:?}");
    assert!(!levels[1..].contains(&(Some(0), Some(true))), "{levels:?}");
}

#[test]
fn exceptions_have_their_own_times() {
    let text = "\
1 us IT (1) 00008004 d503207f O EL0t_n : WFI
900 us E 00008008 00000089 CoreEvent_LOWER_64_IRQ
900 us R ELR_EL1 0000000000008008
901 us IT (2) 00005480 d503201f O EL1h_n : NOP
950 us R CNTPCT_EL0 0000000000000001
960 us MW4 00009000 00000001
";
    let expected = [
        "@1 t1 level 0 NonSecure",
        "@1 t1 a64 8004 d503207f executed",
        "@2 t900 Irq to 5480, elr_el1=0880000000000000",
        "@4 t901 level 1 NonSecure",
        "@4 t901 a64 5480 d503201f executed, cntpct_el0=0100000000000000, writes 4 at 9000: 01000000",
    ];
    assert_eq!(lines(log(text)), expected);
    assert_eq!(losses(text), [("times", 2, 5), ("attributes", 1, 2)]);
    // A line without a time does not have that of the line before.
    let dashes = "5 clk ES (00008000:e1a00000) A svc: NOP\n-----------     ES (00008004:e1a00000) A svc: NOP\n";
    assert_eq!(lines(log(dashes)).last().map(String::as_str), Some("@2 a32 8004 e1a00000 executed"));
}

#[test]
fn notes_keep_their_times() {
    let fetch = "1 us IT (1) 00008004 d503201f O EL1h_n : NOP\n2 us MR4O 00008008 d503201f\n";
    assert_eq!(lines(log(fetch)).last().map(String::as_str), Some("@2 t2 note MR4O 00008008 d503201f"));
    assert_eq!(losses(fetch), []);
    // On the R5, effects precede their instruction.
    let transfer = "\
1 ns MCW4___R (02000318:000000d4) TRANSFER 00000007
2 ns IT (02000318:000000d4) 02000318 ee010f10 A : MCR p15,#0,r0,c1,c0,#0
";
    assert_eq!(losses(transfer), []);
}

#[test]
fn first_lines_keep_their_order() {
    let text = "\
0 clk R X1 0000000000000002
0 clk SIGNAL: SIGNAL=poreset STATE=N
0 clk E 0000000000000000 00000001 CoreEvent_Reset
0 clk R X0 0000000000000001
0 clk SIGNAL: SIGNAL=poreset STATE=Y
1 clk IT (1) 002105d4 d503201f O EL3h_s : NOP
";
    let expected = [
        "@1 t0 state, x1=0200000000000000",
        "@2 t0 note SIGNAL: SIGNAL=poreset STATE=N",
        // The address of the vector is unknown.
        "@3 t0 Reset to ?, x0=0100000000000000",
        "@5 t0 note SIGNAL: SIGNAL=poreset STATE=Y",
        "@6 t1 level 3 Secure",
        "@6 t1 a64 2105d4 d503201f executed",
    ];
    assert_eq!(lines(log(text)), expected);
    let later = text.split_inclusive('\n').skip(2).collect::<String>();
    assert!(lines(log(&later))[0].ends_with("Reset to ?, x0=0100000000000000"));
}

#[test]
fn only_known_bits_and_updated_parts_are_written() {
    let rows = [
        ("cpsr 600003cd", "cpsr=cd030060"),
        ("cpsr 6xx003cd", "cpsr=cd030/f60/f0"),
        ("w1 00000012", "x1=12000000"),
        ("q1 00000000000000000000000000000012", "v1=12000000000000000000000000000000"),
        ("SP_EL1 0000000000000010", "sp_el1=1000000000000000"),
        ("SCTLR_EL1 00000012", "sctlr_el1=12000000"),
        ("X1 ----------------", ""),
        ("X1 --------", ""),
        ("Q1 -------- -------- 3ff6a09e 667f3bcd", "v1=cd3b7f669ea0f63f"),
        ("Q1 3ff6a09e -------- -------- 667f3bcd", "v1=cd3b7f66, v1+96=9ea0f63f"),
        ("X1 ------------1---", "x1+12=1/f"),
        ("X1 xxxxxxxx00000001", "x1=01000000........"),
        // Zeros at the front may be missing.
        ("V5<63:0> 00000000", "v5=0000000000000000"),
        ("V5<127:64> 00000012", "v5+64=1200000000000000"),
        ("Z3 00000000_00000000_00000000_00000001", "v3=01000000000000000000000000000000"),
        ("Z3 11_00000000_00000000_00000000_00000001", "z3=0100000000000000000000000000000011"),
    ];
    for (line, expected) in rows {
        let text = format!("1 clk IT (1) 00001000 d503201f O EL1h_ns : NOP\n1 clk R {line}\n");
        let found = lines(log(&text)).pop().unwrap();
        let effect = found.split_once(", ").map_or("", |(_, effect)| effect);
        assert_eq!(effect, expected, "{line}");
    }
    let text = "354ns R r13 20000f70 (MSP)\n354ns IT 00000350 490d        LDR r1,[pc,#52] ; [0x388]\n";
    assert!(lines(log(text)).pop().unwrap().ends_with("msp=700f0020"), "{:?}", lines(log(text)));
    assert_eq!(losses(text), []);
}

#[test]
fn facts_without_a_field_are_counted() {
    let nop = "1 clk IT (1) 00001000 d503201f O EL1h_n : NOP\n";
    let with = |line: &str| format!("{nop}1 clk {line}\n");
    let rows = [
        (nop.to_string(), vec![]),
        (
            "1 clk IT (1) 00001000 e1a00000 A irq_s : NOP\n1 clk IT (2) 00001004 e1a00000 A irq_s : NOP\n1 clk IT (3) 00001008 e1a00000 A abt_s : NOP\n".into(),
            vec![("modes", 2, 1)],
        ),
        ("1 clk IT (1) 00001000:000000081000_NS d503201f O EL1h_n : NOP\n".into(), vec![("physical-addresses", 1, 1)]),
        ("1 clk IT (1) 00001000 d503201f O EL1h_n : NOP <main+0x10>\n".into(), vec![("attributes", 1, 1)]),
        (with("MR8X 00009000:000000089000_NS 00000000_00000001"), vec![("physical-addresses", 1, 2), ("attributes", 1, 2)]),
        (with("MR8T 00009000 00000000_00000001"), vec![("attributes", 1, 2)]),
        (with("MR8 00009000 00000000_00000001"), vec![]),
        (with("R SCTLR (AARCH32) 00c51a79"), vec![("attributes", 1, 2)]),
        (with("R r13_mn 20038000 IntInvoke:0 BE8:1"), vec![("attributes", 1, 2)]),
        (with("E 00001000 00000084 CoreEvent_CURRENT_SPx_SYNC"), vec![("attributes", 1, 2)]),
        (
            format!("{nop}   LD 0000000000009000  ........ ........ 00000000 00000080     NS:0000089000/12 NM ISH\n"),
            vec![("physical-addresses", 1, 2), ("attributes", 1, 2)],
        ),
        (
            format!("{nop}   SX 0000000000009000  ........ ........ 00000000 00000080\n"),
            vec![("data", 1, 2), ("attributes", 1, 2)],
        ),
        (nop.replace("IT", "cluster0.cpu0 IT"), vec![("attributes", 1, 1)]),
        (nop.replace("IT", "cpu0 IT"), vec![]),
        (with("R X3"), vec![("unreadable", 1, 2)]),
        (with("MR8 zzzz"), vec![("unreadable", 1, 2)]),
        (with("IT (4) 0000800c zzzz O EL1h_n : NOP"), vec![("unreadable", 1, 2)]),
        (with("some other text"), vec![]),
        ("1 clk ES (EDITR:d503201f) O el3h_s: NOP\n".into(), vec![("instructions", 1, 1)]),
    ];
    for (text, expected) in rows {
        assert_eq!(losses(&text), expected, "{text}");
    }
    // Bus activity is a note.
    let bus = lines(log(&with("BNR4O__I 00000534 7800491d"))).pop();
    assert_eq!(bus.as_deref(), Some("@2 t1 note BNR4O__I 00000534 7800491d"));
}

#[test]
fn only_a_possible_instruction_is_a_gap() {
    let rows = [
        ("1 clk R X3", None),
        ("1 clk MR8 zzzz", None),
        ("   LD 0000000000009000  nothing", None),
        ("1 clk IT (4) 0000800c zzzz O EL1h_n : NOP", Some(Gap::Damaged)),
        ("1 clk E 00001000 00000084", None),
        ("1 clk EXC [", Some(Gap::Damaged)),
        // The end of the line is lost.
        ("1 clk R X3 00000000000000012 clk IT (4) 0000800c d503201f O EL1h_n : NOP", Some(Gap::Damaged)),
        ("1 clk \u{1}\u{2}\u{3}", Some(Gap::Damaged)),
        ("some other text", None),
    ];
    for (line, expected) in rows {
        let text = format!(
            "1 clk IT (1) 00001000 d503201f O EL1h_n : NOP\n{line}\n2 clk IT (2) 00001004 d503201f O EL1h_n : NOP\n"
        );
        let found = collect(log(&text));
        let gap = found.iter().find_map(|step| if let Event::Gap(gap) = step.event { Some(gap) } else { None });
        assert_eq!(gap, expected, "{line}");
        let is_exception =
            |step: &Step| matches!(step.event, Event::Exception(exception) if exception.kind != ExceptionKind::Unknown);
        assert!(found.iter().any(|step| step.event == Event::Note) || found.iter().any(is_exception), "{line}");
    }
}

#[test]
fn modes_of_rev3_without_a_suffix_are_secure() {
    let es = |mode: &str, address: u32| format!("1 clk ES ({address:016x}:d503201f) O {mode}: NOP\n");
    let header = "Tarmac Text Rev 3t\n";
    let rows = [
        ("named beside", format!("{header}{}{}", es("el3h", 0x1000), es("el1h_ns", 0x1004)), "level 3 Secure"),
        (
            "every state has a name",
            format!("{header}{}{}{}", es("el3h", 0x1000), es("el1h_ns", 0x1004), es("el1h_s", 0x1008)),
            "level 3",
        ),
        ("no state has one", format!("{header}{}", es("el3h", 0x1000)), "level 3"),
        ("no header", format!("{}{}", es("el3h", 0x1000), es("el1h_ns", 0x1004)), "level 3"),
    ];
    for (name, text, expected) in rows {
        assert_eq!(lines(log(&text)).first().map(|line| &line["@2 t1 ".len()..]), Some(expected), "{name}");
    }
}
