//! The builder: refused input, the order of records, and traces that are read back unchanged and without findings.

pub(crate) mod program;

use program::{Before, Line, START, built, program, trace};
use proptest::prelude::*;
use unspool_stf::builder::{
    Access, BuildError, Builder, Cause, Event, Features, Header, Iem, Mode, SIGNATURE, Step, StfVersion,
};
use unspool_stf::lift::Follower;
use unspool_stf::read::{ReadOptions, Reader, Storage};
use unspool_stf::record::{BusAccess, MemAccess, PageTableWalk, Record, Register, TraceInfo};
use unspool_stf::write::{WriteOptions, Writer};

use crate::fixtures::{each_instruction, each_record, findings, instructions_of};

const NOP: u32 = 0x13;
const LB: u32 = 0x0007_0783;
const LD: u32 = 0x0007_3783;
const SD: u32 = 0x00f7_3023;
const RET: u32 = 0x8067;
const VLE64: u32 = 0x0205_7087;

type Trace = Builder<Vec<u8>>;

fn begun(header: &Header<'_>) -> Trace {
    Builder::new(Vec::new(), header).unwrap()
}

/// A trace without declared features.
fn bare() -> Trace {
    begun(&Header::new(START))
}

/// A trace with all features.
fn full() -> Trace {
    begun(&Header { accesses: true, vlen: Some(128), ..EVERYTHING })
}

fn without_vlen() -> Trace {
    begun(&EVERYTHING)
}

fn version_1_3() -> Trace {
    begun(&Header { version: StfVersion::V1_3, ..EVERYTHING })
}

const EVERYTHING: Header<'_> = Header { features: program::EVERYTHING, ..Header::new(START) };
const BUS: BusAccess = BusAccess { address: 0, size: 8, initiator: 1, index: 0, attributes: 0, kind: 0 };

const fn step(opcode: u32) -> Step<'static> {
    Step::plain(START, opcode)
}

const fn accesses<'a>(opcode: u32, accesses: &'a [Access<'a>]) -> Step<'a> {
    Step { accesses, ..Step::plain(START, opcode) }
}

const fn registers<'a>(registers: &'a [Register<'a>]) -> Step<'a> {
    Step { registers, ..Step::plain(START, NOP) }
}

const fn walks<'a>(walks: &'a [PageTableWalk<'a>]) -> Step<'a> {
    Step { walks, ..Step::plain(START, NOP) }
}

const fn events<'a>(events: &'a [Event<'a>]) -> Step<'a> {
    Step { events, ..Step::plain(START, NOP) }
}

const fn access(bytes: u16, is_write: bool, contents: &[u64]) -> Access<'_> {
    Access { address: 0x2000, bytes, is_write, attributes: 0, contents }
}

const fn register(number: u16, meta: u8, value: &[u8]) -> Register<'_> {
    Register { number, meta, value }
}

const fn walk(page_size: u32, entries: &[u8]) -> PageTableWalk<'_> {
    PageTableWalk { address: 0x2000, first_use: 0, page_size, entries }
}

const fn event(cause: Cause, data: &[u64]) -> Event<'_> {
    Event { cause, data, target: None }
}

type Begin = fn() -> Trace;

/// Instructions that are refused: name, start of the trace, instruction, part of the message.
const REFUSED: &[(&str, Begin, Step<'_>, &str)] = &[
    ("odd address", bare, Step::plain(START + 1, 0x13), "odd address"),
    ("odd target", bare, Step::taken(START, RET, 7), "odd address 0x7"),
    ("two bytes", bare, step(0x1_0001), "has two bytes"),
    ("jump without target", bare, step(RET), "a target is needed"),
    ("jump elsewhere", bare, Step::taken(START, 0x6f, 8), "goes elsewhere"),
    ("target of a nop", bare, Step::taken(START, 0x13, 8), "is no branch"),
    ("target of a call", bare, Step::taken(START, 0x73, 8), "an event leads on"),
    ("undeclared accesses", bare, accesses(LD, &[access(8, false, &[0])]), "the header announces none"),
    ("load without access", full, step(LD), "reads memory"),
    ("store without access", full, step(SD), "writes memory"),
    ("nop with access", full, accesses(NOP, &[access(8, false, &[0])]), "reads no memory"),
    ("load that writes", full, accesses(LD, &[access(8, true, &[0])]), "writes no memory"),
    ("another size", full, accesses(LD, &[access(4, false, &[0])]), "another number of bytes"),
    ("size in bits", full, accesses(LD, &[access(64, false, &[0; 8])]), "another number of bytes"),
    ("no content", full, accesses(LD, &[access(8, false, &[])]), "a word of content"),
    ("content above the size", full, accesses(LB, &[access(1, false, &[256])]), "bits above"),
    ("empty access", full, accesses(VLE64, &[access(0, false, &[])]), "at least one byte"),
    ("bus access of no kind", full, Step { bus: &[(BUS, &[0])], ..step(NOP) }, "either reads"),
    ("undeclared register", bare, registers(&[register(1, 0x31, &[0; 8])]), "does not declare the features 0x4"),
    ("register of no type", full, registers(&[register(1, 0x30, &[0; 8])]), "is integer"),
    ("register of no operand", full, registers(&[register(1, 0x01, &[0; 8])]), "is state"),
    ("x33", full, registers(&[register(33, 0x31, &[0; 8])]), "does not exist"),
    ("short vector", full, registers(&[register(1, 0x33, &[0; 8])]), "another length"),
    ("vector without a length", without_vlen, registers(&[register(1, 0x33, &[0; 8])]), "needs a length"),
    ("vector in 1.3", version_1_3, registers(&[register(1, 0x33, &[0; 8])]), "version 1.3 has no length"),
    ("undeclared walk", bare, walks(&[walk(4096, &[0; 16])]), "does not declare the features 0x100"),
    ("walk without entries", full, walks(&[walk(4096, &[])]), "ends with a leaf"),
    ("walk of half an entry", full, walks(&[walk(4096, &[0; 8])]), "entries of 16 bytes"),
    ("page of 1000 bytes", full, walks(&[walk(1000, &[0; 16])]), "a power of two"),
    ("undeclared event", bare, events(&[event(Cause::Fault(2), &[])]), "does not declare the features 0x8"),
    ("mode with a target", full, events(&[Event { target: Some(8), ..Event::mode(Mode::User) }]), "no target"),
    ("large event number", full, events(&[event(Cause::Interrupt(1 << 30), &[])]), "below 2^30"),
    ("event with 256 words", full, events(&[event(Cause::Fault(2), &[0; 256])]), "at most 255"),
    ("micro-operation of 3 bytes", full, Step { microops: &[(3, 0)], ..step(NOP) }, "2 or 4 bytes"),
];

#[test]
fn refused_instructions_write_nothing() {
    for (name, begin, refused, expected) in REFUSED {
        assert_refused(name, *begin, |trace| trace.instruction(refused), expected);
    }
    assert_refused("undeclared process", bare, |trace| trace.process([0; 3]), "does not declare the features 0x400");
    let rv32 = || begun(&Header { iem: Iem::Rv32, ..Header::new(START) });
    assert_refused("undeclared RV64", rv32, |trace| trace.encoding(Iem::Rv64), "does not declare the features 0x20");
}

fn assert_refused(
    name: &str,
    begin: Begin,
    attempt: impl FnOnce(&mut Trace) -> Result<(), BuildError>,
    expected: &str,
) {
    let (mut trace, before) = (begin(), begin().finish().sink);
    let Err(error) = attempt(&mut trace) else { panic!("{name}: was accepted") };
    assert!(error.to_string().contains(expected), "{name}: {error}");
    // The trace continues as if nothing had happened.
    trace.instruction(&step(NOP)).unwrap();
    let built = trace.finish();
    assert_eq!(built.sink, [before, vec![0xf0, 0x13, 0, 0, 0]].concat(), "{name}");
    assert_eq!((built.instructions, built.left), (1, 0), "{name}");
}

#[test]
fn invalid_headers_are_refused() {
    let good = Header::new(START);
    let long = [b'x'; 65536];
    let infos = [TraceInfo { generator: 6, version: [0; 3], comment: &long }];
    let rows: &[(&str, Header<'_>, &str)] = &[
        ("odd start", Header { pc: 1, ..good }, "odd address"),
        ("vector length in 1.3", Header { version: StfVersion::V1_3, vlen: Some(128), ..good }, "version 1.3 has no"),
        ("extensions in 1.3", Header { version: StfVersion::V1_3, isa_extended: Some("rv64"), ..good }, "1.3 has no"),
        (
            "wide events in 1.3",
            Header { version: StfVersion::V1_3, features: Features::EVENT64, ..good },
            "version 1.3 has no wide events",
        ),
        ("vector length 100", Header { vlen: Some(100), ..good }, "a larger power of two"),
        ("vector length 64", Header { vlen: Some(64), ..good }, "a larger power of two"),
        ("other extensions", Header { isa_extended: Some("rv32gc"), ..good }, "contradict the encoding mode"),
        ("process", Header { process: Some([0; 3]), ..good }, "does not declare the features 0x400"),
        ("transactions", Header { features: Features::TRANSACTIONS, ..good }, "no transaction"),
        ("long comment", Header { trace_infos: &infos, ..good }, "too long"),
    ];
    for (name, header, expected) in rows {
        let mut bytes = Vec::new();
        let Err(error) = Builder::new(&mut bytes, header) else { panic!("{name}: was accepted") };
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert!(bytes.is_empty(), "{name}");
    }
}

#[test]
fn header_is_in_order_and_names_this_tool() {
    let header = Header {
        features: Features::PROCESS_ID,
        vlen: Some(256),
        isa_extended: Some("rv64gcv"),
        process: Some([1, 2, 3]),
        comments: &["one", "two"],
        trace_infos: &[TraceInfo { generator: 6, version: [1, 2, 3], comment: b"before" }],
        ..Header::new(START)
    };
    let bytes = begun(&header).finish().sink;
    let (mut descriptors, mut text) = (Vec::new(), String::new());
    each_record(&bytes, |record| {
        descriptors.push(record.descriptor());
        text += &format!("{record:?}\n");
    });
    assert_eq!(descriptors, [1, 2, 3, 3, 3, 4, 5, 6, 6, 7, 8, 9, 10, 13, 19]);
    assert!(text.contains(&format!("Comment({:?})", SIGNATURE.as_bytes())), "{text}");
    assert!(text.contains(&format!("comment: {:?}", SIGNATURE.as_bytes())), "{text}");
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
    assert_eq!(findings(&built.sink), []);
}

#[test]
fn records_after_the_last_instruction_are_not_written() {
    let mut trace = bare();
    trace.instruction(&step(0x13)).unwrap();
    trace.comment("late").unwrap();
    let built = trace.finish();
    assert_eq!(built.left, 9);
    assert_eq!(built.sink.last_chunk(), Some(&[0xf0, 0x13, 0, 0, 0]));
}

#[test]
fn trace_is_written_to_a_container() {
    let lines = program(&(0..500).map(|number| number * 0x1234_5678_9abd).collect::<Vec<u64>>());
    let header = Header { accesses: true, vlen: Some(program::VLEN), ..EVERYTHING };
    let writer = Writer::new(Vec::new(), Storage::GZIP, WriteOptions::default()).unwrap();
    let mut trace = Builder::new(writer, &header).unwrap();
    lines.iter().try_for_each(|line| program::write(line, &mut trace)).unwrap();
    let bytes = trace.finish().sink.finish().unwrap();
    let mut reader = Reader::new(std::io::Cursor::new(bytes), ReadOptions { threads: 1 }).unwrap();
    let mut follower = Follower::default();
    instructions_of(&mut reader, &mut follower, |_| {});
    assert_eq!(follower.instructions, 500);
}

/// An instruction and its effects, for comparison.
#[derive(Debug, PartialEq, Eq)]
struct Executed {
    pc: u64,
    opcode: u32,
    target: Option<u64>,
    accesses: Vec<program::Touch>,
    events: Vec<(u64, Vec<u64>)>,
    registers: usize,
    walks: usize,
}

fn executed(bytes: &[u8]) -> Vec<Executed> {
    let mut all = Vec::new();
    each_instruction(bytes, |instruction| {
        let accesses = instruction.accesses().into_iter();
        let count = |what: fn(&Record<'_>) -> bool| instruction.group().filter(what).count();
        all.push(Executed {
            pc: instruction.pc,
            opcode: instruction.opcode,
            target: instruction.target,
            accesses: accesses.map(touch).collect(),
            events: instruction.events().map(|event| (event.raw, event.words().collect())).collect(),
            registers: count(|record| matches!(record, Record::InstReg(_))),
            walks: count(|record| matches!(record, Record::PageTableWalk(_))),
        });
    });
    all
}

fn touch((access, contents): (MemAccess, Vec<u64>)) -> program::Touch {
    program::Touch { address: access.address, bytes: access.size, is_write: access.kind == 2, contents }
}

fn expected(line: &Line) -> Executed {
    let raw = |cause: Cause| match cause {
        Cause::Fault(code) => u64::from(code),
        Cause::Interrupt(code) => 1 << 63 | u64::from(code),
        Cause::Mode(_) => 1 << 62,
    };
    let data = |cause: Cause, words: &[u64]| match cause {
        Cause::Mode(mode) => vec![mode as u64],
        _ => words.to_vec(),
    };
    let redirected = line.events.iter().rev().find_map(|event| event.2);
    Executed {
        pc: line.pc,
        opcode: line.opcode,
        target: redirected.or(line.target),
        accesses: line.accesses.clone(),
        events: line.events.iter().map(|(cause, words, _)| (raw(*cause), data(*cause, words))).collect(),
        registers: line.register.iter().count(),
        walks: line.walk.iter().count(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn built_traces_are_read_back_without_findings(numbers in prop::collection::vec(any::<u64>(), 1..60)) {
        let lines = program(&numbers);
        let bytes = trace(&lines);
        let mut all: Vec<Executed> = lines.iter().map(expected).collect();
        all[0].events.insert(0, (1 << 62, vec![1]));
        prop_assert_eq!(executed(&bytes), all);
        prop_assert_eq!(findings(&bytes), []);
        let starts = lines.iter().filter(|line| line.before != Before::Nothing).count();
        let mut records = 0;
        each_record(&bytes, |_| records += 1);
        prop_assert!(records >= lines.len() + starts);
        prop_assert_eq!(built(&lines, program::EVERYTHING).unwrap().instructions, lines.len() as u64);
    }
}
