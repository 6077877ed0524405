//! The writer: what it refuses, how it lays out records, and that what was written is what is read, and is right.

#![allow(clippy::unwrap_used, clippy::panic)]

pub(crate) mod program;

use std::ops::ControlFlow;

use program::{Before, Line, START, built, program, trace};
use proptest::prelude::*;
use unspool_stf::builder::{
    Access, BuildError, Builder, Cause, Event, Features, Header, Iem, MAKER, Mode, Step, StfVersion,
};
use unspool_stf::check::{Checker, Finding};
use unspool_stf::lift::Follower;
use unspool_stf::read::{ReadOptions, Reader, Storage};
use unspool_stf::record::{BusAccess, PageTableWalk, Record, Register, TraceInfo};
use unspool_stf::write::{WriteOptions, Writer};

const LD: u32 = 0x0007_3783;
const SD: u32 = 0x00f7_3023;
const RET: u32 = 0x8067;

type Trace = Builder<Vec<u8>>;

fn begun(header: &Header<'_>) -> Trace {
    Builder::new(Vec::new(), header).unwrap()
}

/// Nothing is declared.
fn bare() -> Trace {
    begun(&Header::new(START))
}

/// Everything is.
fn full() -> Trace {
    let header = Header { features: program::EVERYTHING, accesses: true, vlen: Some(128), ..Header::new(START) };
    begun(&header)
}

fn step(opcode: u32) -> Step<'static> {
    Step::plain(START, opcode)
}

const fn access(bytes: u16, is_write: bool, contents: &[u64]) -> Access<'_> {
    Access { address: 0x2000, bytes, is_write, attributes: 0, contents }
}

fn register(number: u16, meta: u8, value: &[u8]) -> Register<'_> {
    Register { number, meta, value }
}

fn walk(page_size: u32, entries: &[u8]) -> PageTableWalk<'_> {
    PageTableWalk { address: 0x2000, first_use: 0, page_size, entries }
}

#[test]
fn wrong_traces_are_refused_and_leave_nothing() {
    type Begin = fn() -> Trace;
    type Attempt = fn(&mut Trace) -> Result<(), BuildError>;
    let rows: &[(&str, Begin, Attempt, &str)] = &[
        ("odd address", bare, |trace| trace.instruction(&Step::plain(START + 1, 0x13)), "odd address"),
        ("odd target", bare, |trace| trace.instruction(&Step::taken(START, RET, 7)), "odd address 0x7"),
        ("two bytes", bare, |trace| trace.instruction(&step(0x1_0001)), "has two bytes"),
        ("jump without target", bare, |trace| trace.instruction(&step(RET)), "tell the target"),
        ("jump elsewhere", bare, |trace| trace.instruction(&Step::taken(START, 0x6f, 8)), "goes elsewhere"),
        ("target of a nop", bare, |trace| trace.instruction(&Step::taken(START, 0x13, 8)), "is no branch"),
        ("target of a call", bare, |trace| trace.instruction(&Step::taken(START, 0x73, 8)), "an event leads on"),
        (
            "accesses that were not announced",
            bare,
            |trace| trace.instruction(&Step { accesses: &[access(8, false, &[0])], ..step(LD) }),
            "none will be told",
        ),
        ("load without access", full, |trace| trace.instruction(&step(LD)), "reads memory"),
        ("store without access", full, |trace| trace.instruction(&step(SD)), "writes memory"),
        (
            "nop with access",
            full,
            |trace| trace.instruction(&Step { accesses: &[access(8, false, &[0])], ..step(0x13) }),
            "reads no memory",
        ),
        (
            "load that writes",
            full,
            |trace| trace.instruction(&Step { accesses: &[access(8, true, &[0])], ..step(LD) }),
            "writes no memory",
        ),
        (
            "another size",
            full,
            |trace| trace.instruction(&Step { accesses: &[access(4, false, &[0])], ..step(LD) }),
            "another number of bytes",
        ),
        (
            "size in bits",
            full,
            |trace| trace.instruction(&Step { accesses: &[access(64, false, &[0; 8])], ..step(LD) }),
            "another number of bytes",
        ),
        (
            "no content",
            full,
            |trace| trace.instruction(&Step { accesses: &[access(8, false, &[])], ..step(LD) }),
            "a word of content",
        ),
        (
            "content above the size",
            full,
            |trace| trace.instruction(&Step { accesses: &[access(1, false, &[256])], ..step(0x0007_0783) }),
            "bits above",
        ),
        (
            "access of nothing",
            full,
            |trace| trace.instruction(&Step { accesses: &[access(0, false, &[])], ..step(0x0205_7087) }),
            "at least one byte",
        ),
        (
            "bus that does neither",
            full,
            |trace| {
                let access = BusAccess { address: 0, size: 8, initiator: 1, index: 0, attributes: 0, kind: 0 };
                trace.instruction(&Step { bus: &[(access, &[0])], ..step(0x13) })
            },
            "either reads",
        ),
        (
            "register that was not announced",
            bare,
            |trace| trace.instruction(&Step { registers: &[register(1, 0x31, &[0; 8])], ..step(0x13) }),
            "does not declare the features 0x4",
        ),
        (
            "register of no type",
            full,
            |trace| trace.instruction(&Step { registers: &[register(1, 0x30, &[0; 8])], ..step(0x13) }),
            "is integer",
        ),
        (
            "register of no operand",
            full,
            |trace| trace.instruction(&Step { registers: &[register(1, 0x01, &[0; 8])], ..step(0x13) }),
            "is state",
        ),
        (
            "x33",
            full,
            |trace| trace.instruction(&Step { registers: &[register(33, 0x31, &[0; 8])], ..step(0x13) }),
            "a number that there is not",
        ),
        (
            "short vector",
            full,
            |trace| trace.instruction(&Step { registers: &[register(1, 0x33, &[0; 8])], ..step(0x13) }),
            "another length",
        ),
        (
            "vector without a length",
            || begun(&Header { features: program::EVERYTHING, ..Header::new(START) }),
            |trace| trace.instruction(&Step { registers: &[register(1, 0x33, &[0; 8])], ..step(0x13) }),
            "needs a length",
        ),
        (
            "vector in 1.3",
            || begun(&Header { features: program::EVERYTHING, version: StfVersion::V1_3, ..Header::new(START) }),
            |trace| trace.instruction(&Step { registers: &[register(1, 0x33, &[0; 8])], ..step(0x13) }),
            "version 1.3 has no length",
        ),
        (
            "walk that was not announced",
            bare,
            |trace| trace.instruction(&Step { walks: &[walk(4096, &[0; 16])], ..step(0x13) }),
            "does not declare the features 0x100",
        ),
        (
            "walk without entries",
            full,
            |trace| trace.instruction(&Step { walks: &[walk(4096, &[])], ..step(0x13) }),
            "ends with a leaf",
        ),
        (
            "walk of half an entry",
            full,
            |trace| trace.instruction(&Step { walks: &[walk(4096, &[0; 8])], ..step(0x13) }),
            "entries of 16 bytes",
        ),
        (
            "page of 1000 bytes",
            full,
            |trace| trace.instruction(&Step { walks: &[walk(1000, &[0; 16])], ..step(0x13) }),
            "a power of two",
        ),
        (
            "event that was not announced",
            bare,
            |trace| {
                let event = Event { cause: Cause::Fault(2), data: &[], target: None };
                trace.instruction(&Step { events: &[event], ..step(0x13) })
            },
            "does not declare the features 0x8",
        ),
        (
            "mode with a target",
            full,
            |trace| {
                let event = Event { target: Some(8), ..Event::mode(Mode::User) };
                trace.instruction(&Step { events: &[event], ..step(0x13) })
            },
            "leads nowhere",
        ),
        (
            "event with a large number",
            full,
            |trace| {
                let event = Event { cause: Cause::Interrupt(1 << 30), data: &[], target: None };
                trace.instruction(&Step { events: &[event], ..step(0x13) })
            },
            "below 2^30",
        ),
        (
            "event with much data",
            full,
            |trace| {
                let event = Event { cause: Cause::Fault(2), data: &[0; 256], target: None };
                trace.instruction(&Step { events: &[event], ..step(0x13) })
            },
            "at most 255",
        ),
        (
            "micro-operation of 3 bytes",
            full,
            |trace| trace.instruction(&Step { microops: &[(3, 0)], ..step(0x13) }),
            "2 or 4 bytes",
        ),
        ("process that was not announced", bare, |trace| trace.process([0; 3]), "does not declare the features 0x400"),
        (
            "RV64 that was not announced",
            || begun(&Header { iem: Iem::Rv32, ..Header::new(START) }),
            |trace| trace.encoding(Iem::Rv64),
            "does not declare the features 0x20",
        ),
    ];
    for (name, begin, attempt, expected) in rows {
        let mut trace = begin();
        let before = begin().finish().sink;
        match attempt(&mut trace) {
            Ok(()) => panic!("{name}: was written"),
            Err(error) => assert!(error.to_string().contains(expected), "{name}: {error}"),
        }
        // The trace goes on as if nothing had been.
        trace.instruction(&step(0x13)).unwrap();
        let built = trace.finish();
        assert_eq!(built.sink, [before, vec![0xf0, 0x13, 0, 0, 0]].concat(), "{name}");
        assert_eq!((built.instructions, built.left), (1, 0), "{name}");
    }
}

#[test]
fn wrong_headers_are_refused() {
    let good = Header::new(START);
    let long = [b'x'; 65536];
    let maker = [TraceInfo { generator: 6, version: [0; 3], comment: &long }];
    let rows: &[(&str, Header<'_>, &str)] = &[
        ("odd start", Header { pc: 1, ..good }, "odd address"),
        ("vector length in 1.3", Header { version: StfVersion::V1_3, vlen: Some(128), ..good }, "version 1.3 has no"),
        ("extensions in 1.3", Header { version: StfVersion::V1_3, isa_extended: Some("rv64"), ..good }, "1.3 has no"),
        (
            "wide events in 1.3",
            Header { version: StfVersion::V1_3, features: Features::EVENT64, ..good },
            "version 1.3 has no wide events",
        ),
        ("vector length 100", Header { vlen: Some(100), ..good }, "a power of two above"),
        ("vector length 64", Header { vlen: Some(64), ..good }, "a power of two above"),
        ("other extensions", Header { isa_extended: Some("rv32gc"), ..good }, "not those of the encoding mode"),
        ("process", Header { process: Some([0; 3]), ..good }, "does not declare the features 0x400"),
        ("transactions", Header { features: Features::TRANSACTIONS, ..good }, "no transaction"),
        ("long comment", Header { makers: &maker, ..good }, "too long"),
    ];
    for (name, header, expected) in rows {
        let mut bytes = Vec::new();
        match Builder::new(&mut bytes, header).map(|_| ()) {
            Ok(()) => panic!("{name}: was written"),
            Err(error) => assert!(error.to_string().contains(expected), "{name}: {error}"),
        }
        assert!(bytes.is_empty(), "{name}");
    }
}

/// The records of a trace.
fn records(bytes: &[u8]) -> Vec<String> {
    let mut records = Vec::new();
    let mut reader = Reader::plain(bytes);
    let read = reader.each(|_, record| {
        records.push(format!("{record:?}"));
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    records
}

#[test]
fn the_header_is_in_order_and_says_who_we_are() {
    let header = Header {
        features: Features::PROCESS_ID,
        vlen: Some(256),
        isa_extended: Some("rv64gcv"),
        process: Some([1, 2, 3]),
        comments: &["one", "two"],
        makers: &[TraceInfo { generator: 6, version: [1, 2, 3], comment: b"before" }],
        ..Header::new(START)
    };
    let bytes = begun(&header).finish().sink;
    let descriptors: Vec<u8> = {
        let (mut all, mut reader) = (Vec::new(), Reader::plain(&bytes[..]));
        let read = reader.each(|_, record| {
            all.push(record.descriptor());
            ControlFlow::Continue(())
        });
        assert!(!read.unwrap());
        all
    };
    assert_eq!(descriptors, [1, 2, 3, 3, 3, 4, 5, 6, 6, 7, 8, 9, 10, 13, 19]);
    let text = records(&bytes).join("\n");
    assert!(text.contains(&format!("Comment({:?})", MAKER.as_bytes())), "{text}");
    assert!(text.contains(&format!("comment: {:?}", MAKER.as_bytes())), "{text}");
    assert!(text.contains(&format!("TraceInfoFeature({})", 0x8_0420)), "{text}");
}

#[test]
fn version_1_3_has_narrow_events() {
    let header = Header {
        version: StfVersion::V1_3,
        features: Features::EVENT,
        mode: Some(Mode::Machine),
        ..Header::new(START)
    };
    let mut trace = begun(&header);
    let before = begun(&header).finish().sink;
    let timer = Event { cause: Cause::Interrupt(5), data: &[9], target: Some(8) };
    trace.instruction(&Step { events: &[timer], ..step(0x13) }).unwrap();
    let built = trace.finish();
    #[rustfmt::skip]
    let expected = [
        100, 0, 0, 0, 0x40, 1, 3, 0, 0, 0, 0, 0, 0, 0,
        100, 5, 0, 0, 0x80, 1, 9, 0, 0, 0, 0, 0, 0, 0,
        101, 8, 0, 0, 0, 0, 0, 0, 0,
        240, 0x13, 0, 0, 0,
    ];
    assert_eq!(built.sink[before.len()..], expected);
    assert!(check(&built.sink).is_empty(), "{:#?}", check(&built.sink));
}

#[test]
fn what_follows_the_last_instruction_is_not_written() {
    let mut trace = bare();
    trace.instruction(&step(0x13)).unwrap();
    trace.comment("late").unwrap();
    let built = trace.finish();
    assert_eq!(built.left, 9);
    assert_eq!(built.sink.last_chunk(), Some(&[0xf0, 0x13, 0, 0, 0]));
}

#[test]
fn a_trace_goes_into_a_container() {
    let lines = program(&(0..500).map(|number| number * 0x1234_5678_9abd).collect::<Vec<u64>>());
    let header =
        Header { features: program::EVERYTHING, accesses: true, vlen: Some(program::VLEN), ..Header::new(START) };
    let writer = Writer::new(Vec::new(), Storage::GZIP, WriteOptions::default()).unwrap();
    let mut trace = Builder::new(writer, &header).unwrap();
    lines.iter().try_for_each(|line| program::tell(line, &mut trace)).unwrap();
    let bytes = trace.finish().sink.finish().unwrap();
    let mut reader = Reader::new(std::io::Cursor::new(bytes), ReadOptions { threads: 1 }).unwrap();
    let mut follower = Follower::default();
    let read = reader.each_instruction(&mut follower, |_| ControlFlow::Continue(()));
    assert!(!read.unwrap());
    assert_eq!(follower.instructions, 500);
}

fn check(bytes: &[u8]) -> Vec<Finding> {
    let (mut checker, mut findings) = (Checker::new(), Vec::new());
    let mut reader = Reader::plain(bytes);
    let read = reader.each(|position, record| {
        checker.push(position, record, &mut |finding| findings.push(finding));
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    checker.finish(&mut |finding| findings.push(finding));
    findings
}

/// What an instruction says, to be compared.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    pc: u64,
    opcode: u32,
    target: Option<u64>,
    accesses: Vec<(u64, u16, bool, Vec<u64>)>,
    events: Vec<(u64, Vec<u64>)>,
    registers: usize,
    walks: usize,
}

fn told(bytes: &[u8]) -> Vec<Told> {
    let mut all = Vec::new();
    let mut reader = Reader::plain(bytes);
    let read = reader.each_instruction(&mut Follower::default(), |instruction| {
        let accesses = instruction.accesses().into_iter();
        let count = |what: fn(&Record<'_>) -> bool| instruction.group().filter(what).count();
        all.push(Told {
            pc: instruction.pc,
            opcode: instruction.opcode,
            target: instruction.target,
            accesses: accesses.map(|(access, words)| (access.address, access.size, access.kind == 2, words)).collect(),
            events: instruction.events().map(|event| (event.raw, event.words().collect())).collect(),
            registers: count(|record| matches!(record, Record::InstReg(_))),
            walks: count(|record| matches!(record, Record::PageTableWalk(_))),
        });
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    all
}

fn expected(line: &Line) -> Told {
    let raw = |cause: Cause| match cause {
        Cause::Fault(code) => u64::from(code),
        Cause::Interrupt(code) => 1 << 63 | u64::from(code),
        Cause::Mode(_) => 1 << 62,
    };
    let data = |cause: Cause, words: &[u64]| match cause {
        Cause::Mode(mode) => vec![mode as u64],
        _ => words.to_vec(),
    };
    let led = line.events.iter().rev().find_map(|event| event.2);
    let touches = line.accesses.iter();
    Told {
        pc: line.pc,
        opcode: line.opcode,
        target: led.or(line.target),
        accesses: touches.map(|one| (one.address, one.bytes, one.is_write, one.contents.clone())).collect(),
        events: line.events.iter().map(|(cause, words, _)| (raw(*cause), data(*cause, words))).collect(),
        registers: line.register.iter().count(),
        walks: line.walk.iter().count(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn what_was_told_is_read_and_right(numbers in prop::collection::vec(any::<u64>(), 1..60)) {
        let lines = program(&numbers);
        let bytes = trace(&lines);
        let mut all: Vec<Told> = lines.iter().map(expected).collect();
        all[0].events.insert(0, (1 << 62, vec![1]));
        prop_assert_eq!(told(&bytes), all);
        let findings = check(&bytes);
        prop_assert!(findings.is_empty(), "{findings:#?}");
        let starts = lines.iter().filter(|line| line.before != Before::Nothing).count();
        prop_assert!(records(&bytes).len() >= lines.len() + starts);
        prop_assert_eq!(built(&lines, program::EVERYTHING).unwrap().instructions, lines.len() as u64);
    }
}
