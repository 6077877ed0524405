//! Lowering round trips: steps to Tarmac logs and back are unchanged, and losses are counted.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_astf as astf;
use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Loss, Losses,
    Modes, Security, SinkError, Step, StepSink, StepSource, TimeUnit,
};
use unspool_tarmac as tarmac;
use unspool_tarmac::check::{Finding, Severity};
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::lower::{LOSSES, LowerOptions, Lowerer, Style, coverage};
use unspool_tarmac::read::{ReadOptions, Reader};
use unspool_testing::{Random, corpus, example};

use crate::fixtures;

const STYLES: [Style; 2] = [Style::Rev3, Style::FastModels];

/// Coverage, unit and steps of a source.
#[derive(Debug)]
struct Trace {
    coverage: Coverage,
    unit: TimeUnit,
    steps: Vec<Step>,
}

fn collect(mut source: impl StepSource) -> Trace {
    let (coverage, unit) = (source.coverage(), source.time_unit());
    let mut steps = Vec::new();
    let ended = source.each(&mut |step| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    });
    ended.unwrap();
    Trace { coverage, unit, steps }
}

fn lift(log: &[u8]) -> Trace {
    let reader = Reader::new(Cursor::new(log.to_vec()), ReadOptions::default()).unwrap();
    collect(tarmac::steps::Steps::new(reader, false))
}

fn try_lower(trace: &Trace, style: Style, disassemble: bool) -> Result<(Vec<u8>, Losses), SinkError> {
    let options = LowerOptions { style, disassemble };
    let mut lowerer = Lowerer::new(Vec::new(), trace.coverage, trace.unit, &options)?;
    trace.steps.iter().try_for_each(|step| lowerer.push(step))?;
    lowerer.finish()?;
    let losses = lowerer.losses().clone();
    Ok((lowerer.into_inner(), losses))
}

fn lower(trace: &Trace, style: Style) -> (Vec<u8>, Losses) {
    try_lower(trace, style, true).unwrap()
}

/// A step without its position and without unknown data.
fn plain(step: &Step) -> Step {
    let mut plain = Step::default();
    (plain.core, plain.time, plain.event) = (step.core, step.time, step.event);
    if step.event == Event::Note {
        plain.set_note(step.note());
    }
    plain.take_registers(step);
    for access in step.accesses() {
        let is_known = access.bytes.iter().any(|(_, known)| *known != 0);
        let bytes = access.bytes.iter().copied().filter(|_| is_known);
        plain.access_known(access.direction, access.address, access.size, bytes);
        if access.is_tagged {
            plain.tag_last_access();
        }
    }
    plain
}

/// The steps of each core.
fn by_core(steps: &[Step]) -> Vec<Step> {
    let mut steps: Vec<Step> = steps.iter().map(plain).collect();
    steps.sort_by_key(|step| step.core);
    steps
}

fn findings(log: &[u8]) -> Vec<Finding> {
    fixtures::check(Dialect::detect(log), log)
}

/// Asserts that the checker finds no error in what was written.
fn check(log: &[u8]) {
    let mut findings = findings(log);
    findings.retain(|finding| finding.rule.severity == Severity::Error);
    assert!(findings.is_empty(), "{findings:#?}\n{}", String::from_utf8_lossy(log));
}

/// Asserts that steps are unchanged after lowering and lifting in both styles, without losses.
fn assert_round_trip(trace: &Trace) {
    for style in STYLES {
        let (log, losses) = lower(trace, style);
        let again = lift(&log);
        let (expected, found) = (by_core(&trace.steps), by_core(&again.steps));
        for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(found, expected, "step {index} in {style:?}\n{}", excerpt(&log));
        }
        assert_eq!(found.len(), expected.len(), "{style:?}\n{}", excerpt(&log));
        assert_eq!((again.coverage, again.unit), (trace.coverage, trace.unit));
        assert!(losses.is_empty(), "{losses}");
    }
}

fn excerpt(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    text.lines().take(400).map(|line| format!("{}\n", line.chars().take(200).collect::<String>())).collect()
}

fn all(steps: Vec<Step>) -> Trace {
    Trace { coverage: coverage(), unit: TimeUnit::Cycles, steps }
}

fn step(event: Event) -> Step {
    let mut step = Step::default();
    (step.time, step.event) = (Some(7), event);
    step
}

fn a64(address: u64, opcode: u32) -> Instruction {
    let is_executed = Some(true);
    Instruction { address, opcode: Some(opcode), length: 4, is_executed, ..Instruction::default() }
}

const NOP: u32 = 0xd503_201f;

fn context(level: u8) -> Context {
    Context {
        level: Some(level),
        security: Some(Security::NonSecure),
        is_aarch64: Some(true),
        is_handler: Some(true),
        ..Context::default()
    }
}

/// A load, a call, an interrupt and a return.
fn story() -> Trace {
    let mut load = step(Event::Instruction(a64(0x1000, 0xf940_0001)));
    load.access_known(Direction::Read, 0x2008, 8, [1, 2, 3, 4, 5, 6, 7, 8].map(|byte| (byte, 0xff)));
    load.write_register("x1", 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let to = |target| Some(Branch { taken: true, target: Some(target) });
    let call = step(Event::Instruction(Instruction { branch: to(0x1100), ..a64(0x1004, 0x9400_003f) }));
    let mut store = step(Event::Instruction(a64(0x1100, 0xf900_0001)));
    store.access(Direction::Write, 0x200c, 8);
    let kind = ExceptionKind::Irq;
    let taken = Exception { kind, return_address: Some(0x1104), target: Some(0x8280), ..Exception::default() };
    let mut interrupt = step(Event::Exception(taken));
    interrupt.write_register("elr_el1", 0, &[4, 0x11, 0, 0, 0, 0, 0, 0]);
    let eret = step(Event::Instruction(Instruction { branch: to(0x1104), ..a64(0x8280, 0xd69f_03e0) }));
    let mut note = step(Event::Note);
    note.set_note("two\nlines");
    all(vec![
        step(Event::Context(Context { process: Some(7), ..context(1) })),
        load,
        call,
        store,
        interrupt,
        eret,
        step(Event::ExceptionReturn { target: Some(0x1104) }),
        step(Event::Instruction(Instruction { opcode: None, ..a64(0x1104, 0) })),
        step(Event::Gap(Gap::Overflow)),
        note,
    ])
}

#[test]
fn fast_models_style() {
    let (log, losses) = try_lower(&story(), Style::FastModels, false).unwrap();
    let expected = "\
# unspool covers times=cycles instructions opcodes conditions branches accesses data registers exceptions levels security processes times
# unspool context level=1 security=non-secure aarch64=yes handler=yes process=0x7 time=7
7 clk IT (1) 00001000 f9400001 O EL1h_n :
7 clk MR8 00002008 08070605_04030201
7 clk R X1 0807060504030201
7 clk IT (2) 00001004 9400003f O EL1h_n :
7 clk IT (3) 00001100 f9000001 O EL1h_n :
7 clk MW8 0000200c xxxxxxxx_xxxxxxxx
# unspool exception irq return=0x1104 target=0x8280
7 clk E 00001104 00000085 CoreEvent_CURRENT_SPx_IRQ
7 clk R ELR_EL1 0000000000001104
7 clk IT (4) 00008280 d69f03e0 O EL1h_n :
# unspool went executed=yes taken=yes target=0x1104
# unspool return target=0x1104
7 clk IT (5) 00001104 -------- O EL1h_n :
# unspool gap overflow
# unspool note text=two\\nlines
";
    assert_eq!(String::from_utf8(log).unwrap(), expected);
    assert!(losses.is_empty());
    assert_round_trip(&story());
}

#[test]
fn rev3_style() {
    let (log, losses) = try_lower(&story(), Style::Rev3, false).unwrap();
    let expected = "\
Tarmac Text Rev 3t
# unspool covers times=cycles instructions opcodes conditions branches accesses data registers exceptions levels security processes times
# unspool context level=1 security=non-secure aarch64=yes handler=yes process=0x7 time=7
          7 clk ES  (0000000000001000:f9400001) O el1h_ns:
                    LD 0000000000002000 08070605 04030201 ........ ........
                    R X1 0807060504030201
          7 clk ES  (0000000000001004:9400003f) O el1h_ns:
                    BR (0000000000001100) O
          7 clk ES  (0000000000001100:f9000001) O el1h_ns:
# unspool access write address=0x200c size=8 lines=2
                    ST 0000000000002000 ######## ........ ........ ........
                    ST 0000000000002010 ........ ........ ........ ########
# unspool exception irq return=0x1104 target=0x8280
          7 clk ES  EXC [0x280] IRQ/vIRQ Current EL with SP_ELx
                    BR (0000000000008280) O
                    R ELR_EL1 0000000000001104
          7 clk ES  (0000000000008280:d69f03e0) O el1h_ns:
                    BR (0000000000001104) O
# unspool return target=0x1104
          7 clk ES  (0000000000001104:--------) O el1h_ns:
# unspool gap overflow
# unspool note text=two\\nlines
";
    assert_eq!(String::from_utf8(log.clone()).unwrap(), expected);
    assert!(losses.is_empty());
    check(&log);
}

#[cfg(feature = "text")]
#[test]
fn instructions_are_disassembled() {
    let t32 = Instruction { isa: Isa::T32, length: 2, opcode: Some(0x4770), ..a64(0x3000, 0) };
    let trace = all(vec![
        step(Event::Instruction(a64(0x1000, NOP))),
        step(Event::Instruction(Instruction { branch: None, ..a64(0x1004, 0x9400_003f) })),
        step(Event::Instruction(t32)),
    ]);
    for (style, expected) in [
        (Style::FastModels, ["O ---_- : nop", "O ---_- : bl 0x1100", "4770 T ---_- : bx lr"]),
        (
            Style::Rev3,
            ["O :               nop", "O :               bl 0x1100", "(00003000:4770)     T :               bx lr"],
        ),
    ] {
        let text = String::from_utf8(lower(&trace, style).0).unwrap();
        for expected in expected {
            assert!(text.lines().any(|line| line.ends_with(expected)), "{expected}\n{text}");
        }
    }
}

#[test]
fn exceptions_are_named_as_far_as_known() {
    use ExceptionKind::{Debug, Fiq, Irq, Reset, SError, Synchronous, Unknown};
    let rows = [
        (Synchronous, true, Some(0x8400), "EXC [0x400] Synchronous Lower EL using AArch64", "CoreEvent_LOWER_64_SYNC"),
        (
            SError,
            true,
            Some(0x380),
            "ES  EXC [0x380] SError/vSError Current EL with SP_ELx",
            "CoreEvent_CURRENT_SPx_ABORT",
        ),
        (Irq, false, Some(0x8680), "ES  EXC [0x680] IRQ/vIRQ Lower EL using AArch32", "CoreEvent_LOWER_32_IRQ"),
        // The vector is that of another kind, or not a vector.
        (Fiq, true, Some(0x8480), "ES  FIQ", ""),
        (Irq, true, Some(0x8484), "ES  Virtual IRQ", ""),
        (Synchronous, true, None, "EXC Synchronous", ""),
        (Irq, false, Some(0x18), "ES  IRQ", "CoreEvent_IRQ"),
        (SError, false, None, "ES  System Error (Abort)", ""),
        (Reset, true, Some(0), "ES  EXC Reset", "CoreEvent_Reset"),
        (Debug, true, None, "ES  EXC Debug Halt Mode Entry", ""),
        (Unknown, true, Some(0x8480), "", ""),
    ];
    for (kind, is_a64, target, rev3, fast_models) in rows {
        let is_virtual = Some(rev3.contains("Virtual"));
        let isa = if is_a64 { Isa::A64 } else { Isa::A32 };
        let opcode = if is_a64 { NOP } else { 0xe1a0_0000 };
        let exception = Exception { kind, target, is_virtual, ..Exception::default() };
        let trace = all(vec![
            step(Event::Instruction(Instruction { isa, ..a64(0x1000, opcode) })),
            step(Event::Exception(exception)),
        ]);
        assert_round_trip(&trace);
        for (style, name) in [(Style::Rev3, rev3), (Style::FastModels, fast_models)] {
            let (log, _) = lower(&trace, style);
            check(&log);
            let text = String::from_utf8(log).unwrap();
            let mut after = text.lines().skip_while(|line| !line.starts_with("# unspool exception")).skip(1);
            let line = after.next().unwrap_or_default();
            assert!(line.ends_with(name) && line.is_empty() == name.is_empty(), "{kind:?}: {name:?} in\n{text}");
        }
    }
}

#[test]
fn parts_of_registers_round_trip() {
    let mut written = step(Event::Instruction(a64(0x1000, NOP)));
    written.write_register("v5", 0, &[0x11; 8]);
    written.write_register("v6", 0, &[0x22; 4]);
    written.write_register("v7", 0, &[0x33; 16]);
    written.write_register("x3", 0, &[0x44; 4]);
    written.write_register("x4", 0, &[0x55; 8]);
    written.write_register("w5", 0, &[0x66; 4]);
    let trace = all(vec![written]);
    assert_round_trip(&trace);
    let text = String::from_utf8(lower(&trace, Style::FastModels).0).unwrap();
    let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("7 clk R ")).collect();
    let whole = "33".repeat(16);
    let expected = [
        "V5<63:0> 1111111111111111",
        "V6<31:0> 22222222",
        &format!("V7 {whole}"),
        "W3 44444444",
        "X4 5555555555555555",
        "W5<31:0> 66666666",
    ];
    assert_eq!(found, expected);
}

/// Neither an unknown stack pointer nor an unknown Security state is claimed; an omitted one would mean Secure.
#[test]
fn unknown_parts_of_a_mode_are_dashes() {
    for (is_handler, security, rev3, fast_models) in [
        (None, Some(Security::NonSecure), " O el1-_ns:", " O EL1-_n :"),
        (Some(true), None, " O el1h_-:", " O EL1h_- :"),
    ] {
        let context = Context { level: Some(1), is_handler, security, ..Context::default() };
        let trace = all(vec![step(Event::Context(context)), step(Event::Instruction(a64(0x1000, NOP)))]);
        assert_round_trip(&trace);
        for (style, mode) in [(Style::Rev3, rev3), (Style::FastModels, fast_models)] {
            let (log, _) = lower(&trace, style);
            assert!(String::from_utf8_lossy(&log).contains(mode), "{}", excerpt(&log));
            assert_eq!(findings(&log), []);
        }
    }
}

/// Our logs are recognized by the first annotation, whatever follows.
#[test]
fn our_logs_are_recognized() {
    let notes = || {
        (0..1200).map(|_| {
            let mut note = Step::default();
            note.set_note(&"x".repeat(70));
            note
        })
    };
    for (style, dialect) in [(Style::Rev3, Dialect::Rev3), (Style::FastModels, Dialect::FastModels)] {
        let (log, _) = lower(&all(notes().collect()), style);
        let reader = Reader::new(Cursor::new(log), ReadOptions::default()).unwrap();
        assert!(reader.is_lowered());
        assert_eq!(reader.dialect(), dialect);
    }
    let other = b"# a log\n1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n";
    assert!(!Reader::new(Cursor::new(other), ReadOptions::default()).unwrap().is_lowered());
}

/// Name, changes to a step, coverage and unit of its source, and the loss with its count in both styles.
type LossRow = (&'static str, fn(&mut Step), (Coverage, TimeUnit), Option<Loss>, u64);

#[test]
fn losses_are_counted() {
    use Loss::{Data, Registers, TimeDigits, Times};
    let full = |power| (coverage(), TimeUnit::Seconds(power));
    let timeless = (Coverage::of(&[Facet::Instructions]), TimeUnit::Seconds(-9));
    let large = |step: &mut Step| {
        step.access_known(Direction::Read, 0x2000, 1 << 20, std::iter::repeat_n((1, 0xff), 1 << 20));
    };
    let rows: [LossRow; 11] = [
        ("bits of a digit", |step| step.write_register_known("x0", 0, [(1, 0x7f)]), full(-9), Some(Registers), 2),
        ("a name with blanks", |step| step.write_register("not a name", 0, &[1]), full(-9), Some(Registers), 2),
        ("a register without bytes", |step| step.write_register("x0", 0, &[]), full(-9), Some(Registers), 2),
        ("bits that are too high", |step| step.write_register("x0", u16::MAX, &[1]), full(-9), Some(Registers), 2),
        ("a large register", |step| step.write_register("za", 0, &[0; 2049]), full(-9), Some(Registers), 2),
        ("bits of a byte", |step| step.access_known(Direction::Read, 0x2000, 1, [(1, 1)]), full(-9), Some(Data), 2),
        ("more than a line has", large, full(-9), Some(Data), 2),
        ("a time of a source without", |_| {}, timeless, Some(Times), 2),
        ("a time that is too large", |_| {}, full(100), Some(Times), 2),
        // Fast Models have decimals.
        ("digits of a time", |_| {}, full(-17), Some(TimeDigits), 1),
        ("nothing", |_| {}, full(-9), None, 0),
    ];
    for (name, change, (coverage, unit), loss, count) in rows {
        let mut step = step(Event::Instruction(a64(0x1000, NOP)));
        change(&mut step);
        let trace = Trace { coverage, unit, steps: vec![step] };
        let mut found = 0;
        for style in STYLES {
            let (log, losses) = lower(&trace, style);
            check(&log);
            assert!(losses.iter().all(|(lost, _)| Some(lost) == loss && LOSSES.contains(&lost)), "{name}: {losses}");
            found += losses.iter().map(|(_, lost)| lost.count).sum::<u64>();
            lift(&log);
        }
        assert_eq!(found, count, "{name}");
    }
}

#[test]
fn unsupported_steps_are_refused() {
    let mut riscv = step(Event::Instruction(Instruction { isa: Isa::Rv64, ..a64(0x1000, 0x13) }));
    riscv.position = 5;
    let mut core = step(Event::Instruction(a64(0x1000, NOP)));
    (core.core, core.position) = (256, 6);
    for (step, expected, message) in
        [(riscv, 5, "rv64 instructions: Tarmac supports Arm instructions only"), (core, 6, "core 256")]
    {
        for style in STYLES {
            let Err(SinkError::Refused { position, reason }) = try_lower(&all(vec![step.clone()]), style, false) else {
                panic!("{message}");
            };
            assert_eq!(position, Some(expected));
            assert!(reason.starts_with(message), "{reason}");
        }
    }
}

/// A log that was edited.
#[test]
fn instruction_without_an_address_is_state() {
    let log = b"# unspool covers times=ticks instructions opcodes registers\n\
        1 tic ES  (EDITR:d503201f) O el1h_ns: NOP\n\
        R X0 0000000000000001\n";
    let reader = Reader::new(Cursor::new(log.to_vec()), ReadOptions::default()).unwrap();
    let mut source = tarmac::steps::Steps::new(reader, false);
    let mut events = Vec::new();
    let ended = source.each(&mut |step| {
        events.push((step.event, step.registers().count()));
        ControlFlow::Continue(())
    });
    ended.unwrap();
    assert_eq!(events, [(Event::State, 1)]);
    assert_eq!(source.losses().of(Loss::Instructions).count, 1);
}

#[test]
fn times_keep_the_unit_of_the_source() {
    use TimeUnit::{Cycles, Seconds, Unknown};
    let rows = [
        (Cycles, "7 clk IT", "7 clk ES"),
        (Unknown, "7 tic IT", "7 tic ES"),
        (Seconds(-6), "7 us IT", "7 us ES"),
        (Seconds(0), "7 s IT", "7 s ES"),
        (Seconds(-15), "7 fs IT", "7 fs ES"),
        (Seconds(-7), "0.7 us IT", "700 ns ES"),
        (Seconds(-17), "0.07 fs IT", "0 fs ES"),
    ];
    for (unit, fast_models, rev3) in rows {
        let trace = Trace { coverage: coverage(), unit, steps: vec![step(Event::Instruction(a64(0x1000, NOP)))] };
        for (style, expected) in [(Style::FastModels, fast_models), (Style::Rev3, rev3)] {
            let (log, _) = lower(&trace, style);
            let text = String::from_utf8(log.clone()).unwrap().replace("  ", " ").replace("  ", " ");
            assert!(text.contains(expected), "{unit:?}: {expected}\n{text}");
            let again = lift(&log);
            let is_same = style == Style::FastModels || expected.starts_with("7 ");
            assert!(!is_same || (again.unit, again.steps[0].time) == (unit, Some(7)), "{unit:?} {again:?}");
        }
    }
}

#[test]
fn sparse_coverage_round_trips() {
    // As from a trace unit: no accesses, no registers, no conditions.
    let coverage = Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Branches, Facet::Levels, Facet::Times]);
    let unconditional = |address, opcode| Instruction { is_executed: None, ..a64(address, opcode) };
    let taken = Some(Branch { taken: true, target: Some(0x2000) });
    let trace = Trace {
        coverage,
        unit: TimeUnit::Unknown,
        steps: vec![
            step(Event::Gap(Gap::Start)),
            step(Event::Context(context(1))),
            step(Event::Instruction(unconditional(0x1000, 0xf940_0001))),
            step(Event::Instruction(Instruction { branch: taken, ..unconditional(0x1004, 0xd63f_0040) })),
            step(Event::Instruction(unconditional(0x2000, NOP))),
            step(Event::Gap(Gap::NoCode(0x2004))),
        ],
    };
    assert_round_trip(&trace);
}

fn some_instruction(numbers: &mut Random, next: u64) -> Instruction {
    const BRANCHES: [u32; 6] = [0x9400_003f, 0x5400_0041, 0xb400_0060, 0xd63f_0040, 0xd65f_03c0, 0xd69f_03e0];
    const OTHERS: [u32; 6] = [NOP, 0xf940_0001, 0xd400_0001, 0xea00_0006, 0x1aff_fffb, 0xe12f_ff1e];
    let isa = numbers.pick(&[Isa::A64, Isa::A64, Isa::A64, Isa::A32, Isa::T32]);
    let random = numbers.bits() as u32;
    let opcode = match isa {
        Isa::T32 => numbers.pick(&[0x4770, 0xd0fe, 0xe7fe, 0xbf00, 0xf000_f800, 0x1234_5678, random]),
        _ if numbers.below(4) == 0 => random,
        _ => numbers.pick(&[BRANCHES, OTHERS].concat()),
    };
    let length = if isa == Isa::T32 { numbers.pick(&[2, 4]) } else { 4 };
    let target = numbers.pick(&[next, next + 4, 0x1100, 0x2000]);
    let branch = Branch { taken: numbers.below(2) == 0, target: numbers.maybe(target) };
    let is_executed = numbers.below(2) == 0;
    Instruction {
        address: if numbers.below(3) == 0 { target } else { next },
        opcode: if numbers.below(10) == 0 { None } else { Some(opcode) },
        length: if numbers.below(20) == 0 { numbers.pick(&[0, 1, 2, 3, 255]) } else { length },
        isa,
        is_executed: numbers.maybe(is_executed),
        branch: numbers.maybe(branch),
        za_index: if numbers.below(20) == 0 { Some(numbers.below(256) as u8) } else { None },
    }
}

fn some_event(numbers: &mut Random, next: u64) -> Event {
    use ExceptionKind::{Debug, Fiq, Irq, Reset, SError, Synchronous, Unknown};
    use Gap::{Contradiction, Damaged, Discard, NoCode, Overflow, Start, TransactionFailed};
    let number = numbers.bits();
    match numbers.below(14) {
        0 => Event::State,
        1 => Event::Exception(Exception {
            kind: numbers.pick(&[Unknown, Reset, Synchronous, Irq, Fiq, SError, Debug]),
            class: numbers.maybe(number as u8),
            call: numbers.maybe(number as u16),
            is_virtual: numbers.maybe(number & 1 == 0),
            return_address: numbers.maybe(number),
            target: numbers.maybe(number & !0x7f),
        }),
        2 => Event::ExceptionReturn { target: numbers.maybe(next) },
        3 => Event::Context(Context {
            level: numbers.maybe((number & 3) as u8),
            security: numbers.maybe(numbers_security(number)),
            is_aarch64: numbers.maybe(number & 4 == 0),
            is_handler: numbers.maybe(number & 8 == 0),
            process: numbers.maybe(number),
            thread: numbers.maybe(number >> 7),
            vmid: numbers.maybe(number as u32),
            modes: numbers.maybe(Modes { dit: true, tag_check_fault: (number & 3) as u8, ..Modes::default() }),
        }),
        4 => Event::Gap(numbers.pick(&[
            Start,
            Overflow,
            Discard,
            NoCode(number),
            Damaged,
            Contradiction,
            TransactionFailed,
        ])),
        5 => Event::Note,
        _ => Event::Instruction(some_instruction(numbers, next)),
    }
}

fn numbers_security(number: u64) -> Security {
    [Security::Secure, Security::NonSecure, Security::Root, Security::Realm][(number >> 8 & 3) as usize]
}

fn some_effects(numbers: &mut Random, step: &mut Step) {
    use Direction::{Both, Neither, Read, Write};
    const NAMES: [&str; 9] = ["x0", "sp_el1", "cpsr", "xpsr", "tpidr_el0", "v1", "r13_svc", "z0", "dc"];
    for _ in 0..numbers.below(3) {
        let length = numbers.pick(&[1, 4, 8, 16, 32]);
        let byte = |_| {
            let known = numbers.pick(&[0xff, 0xff, 0xff, 0, 0xf, 0xf0]);
            ((numbers.bits() as u8 & numbers.pick(&[0, 0xff])) & known, known)
        };
        let bytes: Vec<(u8, u8)> = (0..length).map(byte).collect();
        step.write_register_known(numbers.pick(&NAMES), numbers.pick(&[0, 0, 0, 64]), bytes);
    }
    for _ in 0..numbers.below(3) {
        let direction = numbers.pick(&[Read, Read, Write, Write, Both, Neither]);
        let size = numbers.pick(&[0, 1, 2, 4, 8, 8, 8, 16, 96, 4096, 1 << 20, u64::MAX]);
        let address = numbers.bits() | if numbers.below(9) == 0 { !0xf } else { 0 };
        let count = if size <= 96 && numbers.below(2) == 0 { size } else { numbers.pick(&[0, 0, 0, 5]) };
        let byte = |_| {
            let known = numbers.pick(&[0xff, 0xff, 0xff, 0]);
            (numbers.bits() as u8 & known, known)
        };
        let bytes: Vec<(u8, u8)> = (0..count).map(byte).collect();
        step.access_known(direction, address, size, bytes);
        if numbers.below(8) == 0 {
            step.tag_last_access();
        }
    }
}

fn some_steps(seed: u64) -> Trace {
    let mut numbers = Random::new(seed);
    let cores = numbers.pick(&[1, 1, 2, 5]);
    let has_times = numbers.below(4) > 0;
    let without: &[Facet] = numbers.pick(&[
        &[][..],
        &[Facet::Conditions],
        &[Facet::Branches],
        &[Facet::Conditions, Facet::Branches, Facet::Data],
    ]);
    let covered = Facet::ALL.into_iter().filter(|facet| !without.contains(facet));
    let covered = covered.filter(|facet| has_times || *facet != Facet::Times).fold(Coverage::default(), Coverage::with);
    let unit = numbers.pick(&[TimeUnit::Cycles, TimeUnit::Unknown, TimeUnit::Seconds(-9), TimeUnit::Seconds(0)]);
    let (mut time, mut next, mut steps) = (numbers.bits() >> 8, 0x1000, Vec::new());
    let length = 1 + numbers.below(60);
    while steps.len() < length as usize {
        let mut step = Step::default();
        step.core = numbers.below(cores) as u32;
        time += numbers.below(3);
        step.time = Some(time).filter(|_| has_times && numbers.below(8) > 0);
        step.event = some_event(&mut numbers, next);
        if let Event::Instruction(instruction) = step.event {
            next = instruction.branch.and_then(|branch| branch.target).unwrap_or(instruction.address + 4);
        }
        if step.event == Event::Note {
            let long = "long ".repeat(40_000);
            let notes = ["", "a note", "with\nlines\r\n and \\ more\0", "# unspool gap overflow", &long];
            step.set_note(numbers.pick(&notes));
        }
        if !matches!(step.event, Event::Note | Event::Gap(_)) || numbers.below(4) == 0 {
            some_effects(&mut numbers, &mut step);
        }
        let is_empty = step.registers().len() == 0 && step.accesses().len() == 0;
        if step.event != Event::State || !is_empty {
            steps.push(step);
        }
    }
    Trace { coverage: covered, unit, steps }
}

#[test]
fn random_steps_round_trip() {
    for seed in 0..300 {
        assert_round_trip(&some_steps(seed));
    }
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
5 clk CADI E simulation_paused
6 clk IT (6) 00001014 d63f0040 O EL3h_s : BLR x2
7 clk IT (7) 00002000 d4000003 O EL3h_s : SMC #0
7 clk R cpsr 6xxx03cd
7 clk E 00002000:000000002000 EL3h 00000084 CoreEvent_CURRENT_SPx_SYNC
7 clk R ESR_EL3 000000005e000000
8 clk IT (8) 00003200 d69f03e0 O EL3h_s : ERET
9 clk IT (9) 00002004 54000041 O EL1h_ns : B.NE {pc}+8
# the end
";

#[test]
fn other_logs_round_trip() {
    let first = lift(FAST_MODELS.as_bytes());
    assert_eq!(first.unit, TimeUnit::Cycles);
    assert_round_trip(&first);
    for style in STYLES {
        check(&lower(&first, style).0);
    }
    let lines: String = (0..2).map(|core| FAST_MODELS.replace(" clk ", &format!(" clk cpu{core} "))).collect();
    assert_round_trip(&lift(lines.as_bytes()));
}

fn astf_of(bytes: Vec<u8>) -> Trace {
    collect(astf::steps::Steps::new(astf::read::Reader::in_place(Cursor::new(bytes)).unwrap()))
}

#[test]
fn astf_round_trips() {
    let file = example("example.astf");
    let first = astf_of(std::fs::read(file).unwrap());
    assert!(first.steps.iter().any(|step| step.accesses().len() > 0));
    assert_round_trip(&first);
    for style in STYLES {
        let (log, _) = lower(&first, style);
        check(&log);
        let unknown = if style == Style::Rev3 { "########" } else { "xxxxxxxx" };
        assert!(String::from_utf8_lossy(&log).contains(unknown));
    }
}

#[test]
fn corpus_logs_round_trip() {
    let Some(folder) = corpus("tarmac") else { return };
    let calculators = ["aarch64-fastmodel", "aarch64-es-ld-st-style", "aarch32-es-ld-st-style"];
    let names = ["quicksort", "calltests/calltest32", "calltests/calltest64", "indextest"].map(str::to_string);
    for name in calculators.map(|name| format!("calculator-{name}")).into_iter().chain(names) {
        let log = std::fs::read(folder.join(format!("{name}.tarmac"))).unwrap();
        let first = lift(&log);
        assert!(first.steps.len() > 2, "{name}");
        assert_round_trip(&first);
        for style in STYLES {
            check(&lower(&first, style).0);
        }
    }
}
