//! Steps of Arm as STF and back: nothing changes, nothing is made up, and what cannot be is refused.

#![allow(clippy::print_stderr)]

use std::fmt::Write as _;
use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_astf as astf;
use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Modes,
    Security, SinkError, Step, StepSink, StepSource, TimeUnit,
};
use unspool_stf as stf;
use unspool_stf::Record;
use unspool_stf::builder::StfVersion;
use unspool_stf::check::{Checker, Finding, Severity};
use unspool_stf::lower::{LOSSES, LowerOptions, Lowerer, coverage};
use unspool_stf::read::{ReadOptions, Reader};
use unspool_stf::record::{self, MemAccess};
use unspool_stf::steps::Steps;
use unspool_stf::write::{Storage, WriteOptions, Writer};
use unspool_tarmac as tarmac;

const VERSIONS: [StfVersion; 2] = [StfVersion::V1_3, StfVersion::V1_6];

/// All that a step says, but where.
fn text(step: &Step) -> String {
    let mut text = format!("{:?} {:?} {:?}", step.time, step.event, step.note());
    step.registers().for_each(|write| write!(text, " {write:?}").unwrap());
    step.accesses().for_each(|access| write!(text, " {access:?}").unwrap());
    text
}

/// All steps of a source, and what it covers.
fn all(mut source: impl StepSource) -> (Coverage, TimeUnit, Vec<Step>) {
    let (covered, unit, mut steps) = (source.coverage(), source.time_unit(), Vec::new());
    let ended = source.each(&mut |step| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    });
    assert!(ended.is_ok(), "{ended:?}");
    (covered, unit, steps)
}

fn lowered(steps: &[Step], covered: Coverage, unit: TimeUnit, version: StfVersion) -> Result<Vec<u8>, SinkError> {
    let mut lowerer = Lowerer::new(Vec::new(), covered, unit, &LowerOptions { version })?;
    steps.iter().try_for_each(|step| lowerer.push(step))?;
    lowerer.finish()?;
    assert!(lowerer.losses().is_empty());
    Ok(lowerer.into_sink())
}

fn opened(bytes: Vec<u8>) -> impl StepSource {
    Steps::new(Reader::new(Cursor::new(bytes), ReadOptions { threads: 1 }).unwrap())
}

fn assert_same(found: &[Step], expected: &[Step], what: &str) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(text(found), text(expected), "{what}: step {index}");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

/// Steps, STF, steps, and again: in both versions nothing changes.
fn returns((covered, unit, steps): &(Coverage, TimeUnit, Vec<Step>), what: &str) -> Vec<u8> {
    let mut last = Vec::new();
    for version in VERSIONS {
        let bytes = lowered(steps, *covered, *unit, version).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (found_covered, found_unit, found) = all(opened(bytes.clone()));
        assert_eq!((found_covered, found_unit), (*covered, *unit), "{what}");
        assert_same(&found, steps, what);
        assert_eq!(lowered(&found, *covered, *unit, version).unwrap(), bytes, "{what}");
        last = bytes;
    }
    last
}

fn records(bytes: &[u8]) -> Vec<String> {
    let (mut records, mut is_body) = (Vec::new(), false);
    Reader::plain(bytes)
        .each(|_, record| {
            if is_body {
                records.push(match record {
                    Record::Comment(text) => String::from_utf8_lossy(text).into_owned(),
                    Record::Event(event) => format!("event {:x} {:?}", event.raw, event.words().collect::<Vec<_>>()),
                    Record::InstOpcode32(opcode) => format!("opcode {opcode:x}"),
                    Record::InstOpcode16(opcode) => format!("opcode16 {opcode:x}"),
                    Record::ForcePc(pc) => format!("force {pc:x}"),
                    Record::InstPcTarget(pc) => format!("target {pc:x}"),
                    Record::EventPcTarget(pc) => format!("event target {pc:x}"),
                    Record::InstMemContent(word) => format!("content {word:x}"),
                    Record::InstMemAccess(MemAccess { address, size, kind, .. }) => {
                        format!("access {kind} {address:x} {size}")
                    }
                    Record::InstReg(register) => {
                        format!("reg {:x} {} {:x?}", register.meta, register.number, register.value)
                    }
                    other => format!("{other:?}"),
                });
            }
            is_body |= *record == Record::EndHeader;
            ControlFlow::Continue(())
        })
        .unwrap();
    records
}

fn findings(bytes: &[u8]) -> Vec<Finding> {
    let (mut checker, mut findings) = (Checker::new(), Vec::new());
    Reader::plain(bytes)
        .each(|position, record| {
            checker.push(position, record, &mut |finding| findings.push(finding));
            ControlFlow::Continue(())
        })
        .unwrap();
    checker.finish(&mut |finding| findings.push(finding));
    findings
}

/// The rules of warnings, each once; an error fails.
fn warnings(bytes: &[u8]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for finding in findings(bytes) {
        assert!(finding.rule.severity != Severity::Error, "{finding:?}");
        names.push(finding.rule.name);
    }
    names.sort_unstable();
    names.dedup();
    names
}

const NOP: u32 = 0xd503_201f;

fn at(address: u64, opcode: u32) -> Instruction {
    Instruction { address, opcode: Some(opcode), length: 4, ..Instruction::default() }
}

fn step(event: Event) -> Step {
    let mut step = Step::default();
    step.event = event;
    step
}

fn on_core(mut step: Step, core: u32) -> Step {
    (step.core, step.position) = (core, 9);
    step
}

fn executed(address: u64, opcode: u32) -> Step {
    step(Event::Instruction(at(address, opcode)))
}

fn note(text: &str) -> Step {
    let mut step = Step::default();
    step.set_note(text);
    step
}

/// What a source says that tells neither conditions nor times.
fn few() -> Coverage {
    Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Branches])
}

#[test]
fn records_say_what_they_can() {
    let mut steps = vec![step(Event::Context(Context { level: Some(0), ..Context::default() }))];
    let mut load = executed(0x1000, 0xf940_0001); // ldr x1, [x0]
    load.write_register("x1", 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    load.access_known(Direction::Read, 0x2000, 8, (1..9).map(|byte| (byte, 0xff)));
    steps.push(load);
    // cbz x0, not taken and taken
    let branch = |address, branch| step(Event::Instruction(Instruction { branch, ..at(address, 0xb400_0060) }));
    steps.push(branch(0x1004, Some(Branch { taken: false, target: None })));
    steps.push(branch(0x1008, Some(Branch { taken: true, target: Some(0x1014) })));
    steps.push(executed(0x1014, 0xd400_0001)); // svc
    let exception = Exception {
        kind: ExceptionKind::Synchronous,
        class: Some(0x15),
        call: Some(0),
        target: Some(0x8400),
        ..Exception::default()
    };
    steps.push(step(Event::Exception(exception)));
    steps.push(step(Event::Context(Context { level: Some(1), ..Context::default() })));
    steps.push(executed(0x8400, NOP));
    steps.push(step(Event::Gap(Gap::Overflow)));
    steps.push(executed(0x8404, NOP));
    steps.push(note("the end"));
    let bytes = returns(&(few(), TimeUnit::Unknown, steps), "records");
    let expected = [
        "unspool context el=0",
        "reg 31 1 [1, 2, 3, 4, 5, 6, 7, 8]",
        "access 1 2000 8",
        "content 807060504030201",
        "event 4000000000000000 [0]",
        "opcode f9400001",
        "opcode b4000060",
        "target 1014",
        "opcode b4000060",
        "unspool then exception synchronous class=0x15 call=0",
        "event 30 []",
        "event target 8400",
        "event 4000000000000000 [1]",
        "opcode d4000001",
        "unspool context el=1",
        "opcode d503201f",
        "unspool gap overflow",
        "force 8404",
        "unspool then",
        "the end",
        "opcode d503201f",
    ];
    assert_eq!(records(&bytes), expected);
    assert_eq!(warnings(&bytes), [""; 0]);
}

#[test]
fn registers_of_risc_v_are_records() {
    let mut add = step(Event::Instruction(Instruction { isa: Isa::Rv64, ..at(0x1000, 0x00b5_0533) })); // add a0, a0, a1
    add.write_register("x10", 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    add.write_register("f31", 0, &[7; 8]);
    add.write_register("f32", 0, &[7; 8]);
    let bytes = returns(&(few().with(Facet::Registers), TimeUnit::Unknown, vec![add]), "registers");
    let expected = [
        "unspool isa rv64",
        "reg 31 10 [1, 2, 3, 4, 5, 6, 7, 8]",
        "reg 32 31 [7, 7, 7, 7, 7, 7, 7, 7]",
        "unspool reg f32 0 0707070707070707",
        "opcode b50533",
    ];
    assert_eq!(records(&bytes), expected);
}

/// The header claims what records have, whatever the source may tell.
#[test]
fn only_what_records_have_is_claimed() {
    let mut vector = executed(0x1000, NOP);
    vector.write_register("v0", 0, &[7; 16]);
    let mut general = executed(0x1004, NOP);
    general.write_register("x0", 0, &[7; 8]);
    let exception = step(Event::Exception(Exception::default()));
    for steps in [vec![vector.clone()], vec![vector, general, exception], vec![executed(0x1000, NOP)]] {
        let bytes = returns(&(coverage(), TimeUnit::Unknown, steps), "claims");
        assert!(!warnings(&bytes).contains(&"stf-feature-claim"));
    }
}

#[test]
fn comments_say_the_rest() {
    let of = |change: fn(&mut Instruction)| {
        let mut instruction = at(0x1004, NOP);
        change(&mut instruction);
        step(Event::Instruction(instruction))
    };
    let with = |change: fn(&mut Step)| {
        let mut step = executed(0x1004, NOP);
        change(&mut step);
        step
    };
    let uncond = 0x1400_0010; // b
    let rows: Vec<(Step, &[&str])> = vec![
        (of(|_| {}), &[]),
        (of(|nop| nop.address = 0x3000), &["force 3000"]),
        (of(|nop| nop.is_executed = Some(false)), &["unspool executed no"]),
        (of(|nop| nop.is_executed = Some(true)), &["unspool executed yes"]),
        (of(|nop| nop.za_index = Some(3)), &["unspool za 3"]),
        (of(|nop| nop.branch = Some(Branch { taken: true, target: None })), &["unspool branch taken"]),
        (of(|nop| nop.branch = Some(Branch { taken: false, target: None })), &["unspool branch not-taken"]),
        (executed(0x1004, uncond), &["unspool branch unknown", "opcode 14000010"]),
        (executed(0x1004, 0xb400_0060), &["unspool branch unknown", "opcode b4000060"]),
        (of(|nop| nop.opcode = None), &["unspool then", "unspool instruction 0x1004 isa=a64 length=4"]),
        (of(|nop| nop.isa = Isa::A32), &["InstIem(1)", "unspool isa a32"]),
        (
            step(Event::Instruction(Instruction { length: 2, isa: Isa::T32, ..at(0x1004, 0x4770) })),
            &["InstIem(1)", "unspool isa t32", "unspool branch unknown", "opcode16 4770"],
        ),
        // The first halfword is the high one.
        (
            step(Event::Instruction(Instruction { isa: Isa::T32, ..at(0x1004, 0xf3af_8000) })),
            &["InstIem(1)", "unspool isa t32", "opcode f3af8000"],
        ),
        (with(|step| step.time = Some(12)), &["unspool time 12"]),
        (with(|step| step.access(Direction::Read, 0x20, 8)), &["unspool read 0x20 8"]),
        (with(|step| step.access(Direction::Write, 0x20, 0)), &["unspool write 0x20 0"]),
        (with(|step| step.access(Direction::Both, 0x20, 8)), &["unspool both 0x20 8"]),
        (with(|step| step.access(Direction::Neither, 0x20, 64)), &["unspool neither 0x20 64"]),
        (
            with(|step| step.access_known(Direction::Read, 0x20, 3, [(1, 0xff), (0, 0), (2, 0xf)])),
            &["unspool read 0x20 3 01..02/0f"],
        ),
        (
            with(|step| {
                step.access_known(Direction::Write, 0x20, 2, [(1, 0xff), (2, 0xff)]);
                step.tag_last_access();
            }),
            &["access 2 20 2", "content 201", "unspool tagged"],
        ),
        (
            with(|step| {
                step.access(Direction::Write, 0x20, 2);
                step.tag_last_access();
            }),
            &["unspool write 0x20 2 tagged"],
        ),
        (with(|step| step.write_register("x1", 0, &[1, 2, 3, 4])), &["unspool reg x1 0 01020304"]),
        (with(|step| step.write_register("V1", 64, &[1; 2])), &["unspool reg v1 64 0101"]),
        (with(|step| step.write_register("x31", 0, &[0; 8])), &["unspool reg x31 0 0000000000000000"]),
        (with(|step| step.write_register("a b", 0, &[])), &["unspool reg a%20b 0"]),
        (with(|step| step.write_register("", 0, &[7])), &["unspool reg %00 0 07"]),
        (step(Event::ExceptionReturn { target: Some(16) }), &["unspool then return 0x10"]),
        (step(Event::ExceptionReturn { target: None }), &["unspool then return"]),
        (
            step(Event::Exception(Exception {
                kind: ExceptionKind::Irq,
                is_virtual: Some(true),
                ..Exception::default()
            })),
            &["unspool then exception irq virtual=yes", "event 8000000000000010 []"],
        ),
        (note("unspool is a tool"), &["unspool then", "unspool note unspool is a tool"]),
        (note(""), &["unspool then", ""]),
        (step(Event::Gap(Gap::NoCode(0x40))), &["unspool then", "unspool gap no-code 0x40"]),
        (
            step(Event::Context(Context { modes: Some(Modes::default()), vmid: Some(2), ..Context::default() })),
            &["unspool then", "unspool context vmid=2 streaming=no dit=no ssbs=no vl=0 tcf=0"],
        ),
    ];
    for (step, expected) in rows {
        let steps = vec![executed(0x1000, NOP), step];
        let bytes = returns(&(few(), TimeUnit::Unknown, steps.clone()), &text(&steps[1]));
        let mut found = records(&bytes);
        found.retain(|record| *record != "opcode d503201f");
        assert_eq!(found, expected);
    }
}

/// Numbers without any order, and always the same ones.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn number(&mut self) -> u64 {
        let bits = self.roll(64);
        (self.roll(1 << 31) << 33 | self.roll(1 << 31) << 2 | self.roll(4)) >> bits
    }

    fn perhaps<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.roll(2) == 0).then(|| make(self))
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len() as u64) as usize]
    }

    fn bytes(&mut self, count: u64) -> Vec<(u8, u8)> {
        let known = self.of(&[0xff, 0xff, 0xff, 0, 0xf0]);
        (0..count).map(|_| (self.number() as u8 & known, known)).collect()
    }

    fn instruction(&mut self, next: u64) -> Instruction {
        let isa = self.of(&[Isa::A64, Isa::A64, Isa::A64, Isa::A32, Isa::T32]);
        let length = if isa == Isa::T32 { self.of(&[2, 4]) } else { 4 };
        let word = self.number() as u32;
        let branch = self.of(&[NOP, 0xb400_0060, 0x1400_0010, 0xd69f_03e0, 0x1aff_fffb, 0xe12f_ff1e]);
        let opcode = if self.roll(2) == 0 { word } else { branch };
        Instruction {
            address: if self.roll(4) == 0 { self.number() } else { next },
            opcode: (self.roll(10) > 0).then_some(if length == 2 { opcode & 0xffff } else { opcode }),
            length,
            isa,
            is_executed: self.perhaps(|dice| dice.roll(3) > 0),
            branch: self.perhaps(|dice| {
                let taken = dice.roll(2) == 0;
                Branch { taken, target: if taken { dice.perhaps(Self::number) } else { None } }
            }),
            za_index: (self.roll(20) == 0).then(|| self.roll(256) as u8),
        }
    }

    fn exception(&mut self) -> Exception {
        use ExceptionKind::{Debug, Fiq, Irq, Reset, SError, Synchronous, Unknown};
        Exception {
            kind: self.of(&[Unknown, Reset, Synchronous, Irq, Fiq, SError, Debug]),
            class: self.perhaps(|dice| dice.roll(64) as u8),
            call: self.perhaps(|dice| dice.roll(1 << 16) as u16),
            is_virtual: self.perhaps(|dice| dice.roll(2) == 0),
            return_address: self.perhaps(Self::number),
            target: self.perhaps(Self::number),
        }
    }

    fn context(&mut self) -> Context {
        Context {
            level: self.perhaps(|dice| dice.roll(5) as u8),
            security: self
                .perhaps(|dice| dice.of(&[Security::Secure, Security::NonSecure, Security::Root, Security::Realm])),
            is_aarch64: self.perhaps(|dice| dice.roll(2) == 0),
            is_handler: self.perhaps(|dice| dice.roll(2) == 0),
            process: self.perhaps(Self::number),
            thread: self.perhaps(Self::number),
            vmid: self.perhaps(|dice| dice.number() as u32),
            modes: self.perhaps(|dice| Modes {
                streaming: dice.roll(2) == 0,
                dit: dice.roll(2) == 0,
                ssbs: dice.roll(2) == 0,
                vector_length: dice.roll(16) as u8,
                tag_check_fault: dice.roll(4) as u8,
            }),
        }
    }

    fn step(&mut self, next: &mut u64) -> Step {
        let mut step = Step::default();
        match self.roll(16) {
            0 => step.event = Event::State,
            1 => step.event = Event::Exception(self.exception()),
            2 => step.event = Event::ExceptionReturn { target: self.perhaps(Self::number) },
            3 => step.event = Event::Context(self.context()),
            4 => {
                let gaps = [
                    Gap::Start,
                    Gap::Overflow,
                    Gap::Discard,
                    Gap::NoCode(8),
                    Gap::Damaged,
                    Gap::Contradiction,
                    Gap::TransactionFailed,
                ];
                step.event = Event::Gap(self.of(&gaps));
            }
            5 => {
                step.set_note(self.of(&["", "a note\nof two lines", "unspool", "unspool time 3", "unspool then", "é"]));
            }
            _ => {
                let instruction = self.instruction(*next);
                *next = instruction.address.wrapping_add(u64::from(instruction.length));
                step.event = Event::Instruction(instruction);
            }
        }
        step.time = self.perhaps(|dice| dice.roll(8)).filter(|_| self.roll(3) > 0);
        if !matches!(step.event, Event::Note | Event::Context(_) | Event::Gap(_)) {
            self.effects(&mut step);
        }
        step
    }

    fn effects(&mut self, step: &mut Step) {
        for _ in 0..self.roll(3) {
            let (name, low) = (self.of(&["x0", "x30", "x31", "v3", "sp", "a b%"]), self.of(&[0, 0, 0, 64]));
            let count = self.of(&[8, 8, 4, 0, 32]);
            let bytes = self.bytes(count);
            step.write_register_known(name, low, bytes);
        }
        for _ in 0..self.roll(3) {
            let direction = self.of(&[Direction::Read, Direction::Write, Direction::Both, Direction::Neither]);
            let (address, size) = (self.number(), self.of(&[0, 1, 3, 8, 16, 20, 70_000]));
            let bytes = if self.roll(2) == 0 || size > 100 { Vec::new() } else { self.bytes(size) };
            step.access_known(direction, address, size, bytes);
            if self.roll(4) == 0 {
                step.tag_last_access();
            }
        }
    }
}

#[test]
fn any_steps_return() {
    for seed in 0..300 {
        let (mut dice, mut next) = (Dice(seed), 0x1000);
        let mut steps: Vec<Step> = (0..40).map(|_| dice.step(&mut next)).collect();
        steps.insert(dice.roll(40) as usize, executed(next, NOP));
        let covered = if seed % 2 == 0 { coverage() } else { few() };
        let unit = dice.of(&[TimeUnit::Unknown, TimeUnit::Cycles, TimeUnit::MICROSECONDS, TimeUnit::Seconds(3)]);
        let bytes = returns(&(covered, unit, steps), &format!("seed {seed}"));
        // Whatever the steps are, records are where they belong.
        for finding in findings(&bytes) {
            let is_order = finding.rule.name.contains("order") || finding.rule.name.contains("content-missing");
            assert!(!is_order && finding.rule.name != "stf-open-group", "seed {seed}: {finding:?}");
        }
    }
}

#[test]
fn every_container_and_stop_gives_the_same() {
    let (mut dice, mut next) = (Dice(7), 0x1000);
    let mut steps: Vec<Step> = (0..500).map(|_| dice.step(&mut next)).collect();
    steps.push(executed(next, NOP));
    steps.push(note("behind the last"));
    for container in Storage::ALL {
        let options = WriteOptions { threads: 1, chunk_markers: 10, ..WriteOptions::default() };
        let writer = Writer::seekable(Cursor::new(Vec::new()), container, options).unwrap();
        let mut lowerer = Lowerer::new(writer, coverage(), TimeUnit::Cycles, &LowerOptions::default()).unwrap();
        steps.iter().for_each(|step| lowerer.push(step).unwrap());
        lowerer.finish().unwrap();
        let bytes = lowerer.into_sink().finish().unwrap().into_inner();
        assert_same(&all(opened(bytes)).2, &steps, &container.to_string());
    }
    let bytes = lowered(&steps, coverage(), TimeUnit::Cycles, StfVersion::V1_6).unwrap();
    for stop in 1..=steps.len() {
        let mut found = 0;
        let ended = opened(bytes.clone()).each(&mut |_| {
            found += 1;
            if found < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(ended.is_ok());
        assert_eq!(found, stop);
    }
}

fn astf_of(bytes: Vec<u8>) -> (Coverage, TimeUnit, Vec<Step>) {
    all(astf::steps::Steps::new(astf::read::Reader::in_place(Cursor::new(bytes)).unwrap()))
}

#[test]
fn the_examples_of_astf_return() {
    let mut records = astf::example::records();
    let header = astf::record::Header::new(astf::record::Level::BasicPlus, true, astf::record::Storage::Raw);
    records[0] = header.to_bytes();
    let file = unspool_testing::example("example.astf");
    for (what, bytes) in [("as records", records.concat()), ("as a file", std::fs::read(file).unwrap())] {
        let told = astf_of(bytes);
        assert!(told.2.len() > 10, "{what}");
        let bytes = returns(&told, what);
        // The last instruction of the example is one that reads memory, says ASTF, and A64 has it not.
        assert_eq!(warnings(&bytes), [""; 0], "{what}");
    }
}

const LOG: &str = "\
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

fn log(text: &[u8]) -> (Coverage, TimeUnit, Vec<Step>) {
    let input = Cursor::new(text.to_vec());
    let reader = tarmac::read::Reader::new(input, tarmac::read::ReadOptions::default()).unwrap();
    all(tarmac::steps::Steps::new(reader, false))
}

#[test]
fn logs_return() {
    let bytes = returns(&log(LOG.as_bytes()), "a log");
    assert_eq!(warnings(&bytes), [""; 0]);
    // Most instructions need nothing but their time.
    let times = records(&bytes).iter().filter(|record| *record == "unspool +1").count();
    assert!(times >= 6, "{:#?}", records(&bytes));
}

const LOGS: [&str; 6] = [
    "calculator-aarch32-es-ld-st-style",
    "calculator-aarch64-es-ld-st-style",
    "calculator-aarch64-fastmodel",
    "quicksort",
    "calltests/calltest32",
    "calltests/calltest64",
];

/// Needs the corpus: `UNSPOOL_CORPUS` names its folder.
#[test]
fn logs_of_the_corpus_return() {
    let Some(folder) = unspool_testing::corpus("tarmac") else { return };
    for name in LOGS {
        let told = log(&std::fs::read(folder.join(format!("{name}.tarmac"))).unwrap());
        assert!(told.2.len() > 10, "{name}");
        let bytes = returns(&told, name);
        let found = findings(&bytes);
        let mut rules: Vec<&str> = found.iter().map(|finding| finding.rule.name).collect();
        rules.sort_unstable();
        rules.dedup();
        eprintln!("{name}: {} steps, {} bytes, {rules:?}", told.2.len(), bytes.len());
        let error = found.iter().find(|finding| finding.rule.severity == Severity::Error);
        assert_eq!(error, None, "{name}");
    }
}

fn refusal(steps: &[Step]) -> (Option<u64>, String) {
    match lowered(steps, coverage(), TimeUnit::Unknown, StfVersion::V1_6) {
        Err(SinkError::Refused { position, reason }) => (position, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(LOSSES, []);
    let riscv = |isa| step(Event::Instruction(Instruction { isa, ..at(0x1000, 0x13) }));
    let first = executed(0x1000, NOP);
    let other_core = on_core(executed(0x1000, NOP), 1);
    let unknown = step(Event::Instruction(Instruction { opcode: None, ..at(0x1000, 0) }));
    let long = note(&"a".repeat(33 << 20));
    let rows: Vec<(Vec<Step>, Option<u64>, &str)> = vec![
        (vec![], None, "needs an instruction"),
        (vec![note("only that")], None, "needs an instruction"),
        (vec![unknown], None, "whose opcode is known"),
        (vec![first.clone(), riscv(Isa::Rv32)], Some(0), "of Arm or of RISC-V, and not of both"),
        (vec![riscv(Isa::Rv64), first.clone()], Some(0), "of Arm or of RISC-V, and not of both"),
        (vec![first.clone(), other_core], Some(9), "choose with --core"),
        (vec![first, long], Some(0), "convert a part"),
    ];
    for (steps, position, reason) in rows {
        let found = refusal(&steps);
        assert_eq!(found.0, position);
        assert!(found.1.contains(reason), "{}", found.1);
    }
    let nothing = Lowerer::new(Vec::new(), Coverage::default(), TimeUnit::Unknown, &LowerOptions::default());
    assert!(nothing.is_err_and(|error| error.to_string().contains("tells none")));
}

/// One core is written, whatever its number.
#[test]
fn any_core_may_be_the_one() {
    let steps = [on_core(executed(0x1000, NOP), 3), on_core(executed(0x1004, NOP), 3)];
    let bytes = lowered(&steps, few(), TimeUnit::Unknown, StfVersion::V1_6).unwrap();
    assert_same(&all(opened(bytes)).2, &steps, "core 3");
}

/// A file of Arm that others may have written, with these records in its header and behind it.
fn foreign(header: &[Record<'_>], body: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = [Record::Identifier(*b"STF"), Record::Version { major: 1, minor: 6 }];
    let rest = [
        Record::Isa(2),
        Record::InstIem(2),
        Record::TraceInfo(record::TraceInfo { generator: 3, version: [1, 2, 3], comment: b"other" }),
        Record::TraceInfoFeature(0),
        Record::ForcePc(0x1000),
        Record::EndHeader,
    ];
    start.iter().chain(header).chain(&rest).chain(body).for_each(|record| record.encode(&mut bytes));
    bytes
}

fn brief(steps: &[Step]) -> Vec<String> {
    let brief = |step: &Step| match step.event {
        Event::Instruction(instruction) => {
            format!("{} {:x} {:?}", instruction.isa.name(), instruction.address, instruction.is_executed)
        }
        Event::Note => format!("note {}", step.note()),
        event => format!("{event:?}"),
    };
    steps.iter().map(brief).collect()
}

#[test]
fn what_others_write_is_not_taken_for_ours() {
    let comment = |text: &'static str| Record::Comment(text.as_bytes());
    let announcement = comment("unspool steps 1: covers instructions, conditions; time cycles");
    let nop = Record::InstOpcode32(NOP);
    let body = [comment("unspool executed no"), nop, nop, Record::ForcePc(0x2000), nop, Record::ForcePc(0x2004), nop];
    let (covered, _, steps) = all(opened(foreign(&[comment("other 1"), comment("unspool 0.1")], &body)));
    assert!(covered.has(Facet::Data) && !covered.has(Facet::Conditions));
    let expected = [
        "note other 1",
        "note unspool executed no",
        "a64 1000 None",
        "a64 1004 None",
        "Gap(Start)",
        "a64 2000 None",
        "a64 2004 None",
    ];
    assert_eq!(brief(&steps), expected);
    // Only where the header announces them, comments are believed.
    let (covered, unit, steps) = all(opened(foreign(&[comment("other 1"), announcement], &body)));
    assert_eq!((covered.to_string().as_str(), unit), ("instructions, conditions", TimeUnit::Cycles));
    let expected =
        ["note other 1", "a64 1000 Some(false)", "a64 1004 Some(true)", "a64 2000 Some(true)", "a64 2004 Some(true)"];
    assert_eq!(brief(&steps), expected);
    // An announcement that is not understood is a note, like any other.
    let newer = comment("unspool steps 2: covers more");
    assert_eq!(brief(&all(opened(foreign(&[newer], &body))).2)[0], "note unspool steps 2: covers more");
}

#[test]
fn comments_of_riscv_are_notes() {
    let header = stf::builder::Header { comments: &["made by hand"], ..stf::builder::Header::new(0x1000) };
    let mut trace = stf::builder::Builder::new(Vec::new(), &header).unwrap();
    trace.comment("here").unwrap();
    trace.instruction(&stf::builder::Step::plain(0x1000, 0x13)).unwrap();
    trace.comment("unspool executed no").unwrap();
    trace.instruction(&stf::builder::Step::plain(0x3000, 0x13)).unwrap();
    let (_, _, steps) = all(opened(trace.finish().sink));
    let expected = [
        "note made by hand",
        "note here",
        "rv64 1000 None",
        "note unspool executed no",
        "Gap(Start)",
        "rv64 3000 None",
    ];
    assert_eq!(brief(&steps), expected);
}

#[test]
fn what_is_not_understood_is_a_note() {
    let rows: &[&[u8]] = &[
        b"unspool",
        b"unspool ",
        b"unspool sing",
        b"unspool then sing",
        b"unspool time",
        b"unspool time -1",
        b"unspool time 1 2",
        b"unspool +",
        b"unspool +18446744073709551616",
        b"unspool isa rv99",
        b"unspool reg x0",
        b"unspool reg x0 0 123",
        b"unspool reg x0 0 1g",
        b"unspool read 20 8",
        b"unspool read 0x20",
        b"unspool context el=x",
        b"unspool context el",
        b"unspool context dit=1",
        b"unspool exception",
        b"unspool exception boom",
        b"unspool gap",
        b"unspool branch perhaps",
        b"unspool tagged twice",
        b"unspool note\xff",
    ];
    let announcement = Record::Comment(b"unspool steps 1: covers instructions; time ticks");
    for row in rows {
        let body = [Record::Comment(row), Record::InstOpcode32(NOP)];
        let (_, _, steps) = all(opened(foreign(&[announcement], &body)));
        let row = String::from_utf8_lossy(row).into_owned();
        let last = brief(&steps).join(", ");
        assert!(last.contains(&format!("note {row}")), "{row}: {last}");
    }
}

/// Broken comments in any order: no panic, and every instruction is told.
#[test]
fn broken_comments_harm_nobody() {
    let (mut dice, mut next) = (Dice(3), 0x1000);
    let mut steps: Vec<Step> = (0..60).map(|_| dice.step(&mut next)).collect();
    steps.push(executed(next, NOP));
    let bytes = lowered(&steps, coverage(), TimeUnit::Cycles, StfVersion::V1_6).unwrap();
    let mut parts = Vec::new();
    Reader::plain(&bytes[..])
        .each(|_, record| {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            parts.push(bytes);
            ControlFlow::Continue(())
        })
        .unwrap();
    let body = 1 + parts.iter().position(|part| part[0] == record::descriptor::END_HEADER).unwrap();
    for seed in 0..2000 {
        let (mut dice, mut parts) = (Dice(seed), parts.clone());
        for _ in 0..=dice.roll(8) {
            let at = body + dice.roll((parts.len() - body) as u64) as usize;
            let (length, is_comment) = (parts[at].len() as u64, parts[at][0] == record::descriptor::COMMENT);
            match dice.roll(3) {
                0 if is_comment && length > 5 => parts[at][5 + dice.roll(length - 5) as usize] = dice.number() as u8,
                1 if is_comment => {
                    let other = body + dice.roll((parts.len() - body) as u64) as usize;
                    parts.swap(at, other);
                }
                _ if is_comment => {
                    parts.remove(at);
                }
                _ => {}
            }
        }
        let (_, _, found) = all(opened(parts.concat()));
        let opcodes = parts.iter().filter(|part| part[0] >= record::descriptor::INST_OPCODE32).count();
        let instructions = found.iter().filter(|step| step.event.instruction().is_some()).count();
        let last = parts.last().is_some_and(|part| part[0] >= record::descriptor::INST_OPCODE32);
        assert!(instructions >= opcodes || !last, "seed {seed}");
        findings(&parts.concat());
    }
}
