//! Slices: the selected instructions with their addresses and state, and no findings.

use crate::build::program;

use std::ops::Range;

use program::{START, program, trace};
use proptest::prelude::*;
use unspool_model::selection::Selection;
use unspool_stf::builder::{self, Builder, Event, Iem, Mode, SIGNATURE, Step, StfVersion};
use unspool_stf::check::{Finding, Severity};
use unspool_stf::header::Header;
use unspool_stf::read::Reader;
use unspool_stf::record::{Record, TraceInfo, Transaction};
use unspool_stf::slice::{SliceError, SliceOptions, Sliced, slice, slice_by};

use crate::fixtures::{each_instruction, each_record, encoded, findings};

const UNSIGNED: SliceOptions = SliceOptions { sign: false, split: false, registers: false };

fn cut(bytes: &[u8], range: Range<u64>, options: SliceOptions) -> Result<(Vec<u8>, Sliced), SliceError> {
    let mut cut = Vec::new();
    let sliced = slice(&mut Reader::plain(bytes), range, options, &mut cut)?;
    Ok((cut, sliced))
}

/// An instruction, its effects and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Executed {
    pc: u64,
    opcode: u32,
    target: Option<u64>,
    /// Unknown for the first instruction: its group has the mode of the next.
    mode: Option<u64>,
    iem: u16,
    process: Option<[u32; 3]>,
    /// Without the records that contain state.
    records: Vec<String>,
    /// Instruction numbers in page table walks, relative to this one.
    walks: Vec<i64>,
}

fn executed(bytes: &[u8]) -> Vec<Executed> {
    let (mut all, mut process) = (Vec::new(), Header::read(&mut Reader::plain(bytes)).unwrap().process);
    each_instruction(bytes, |instruction| {
        let (mut records, mut walks) = (Vec::new(), Vec::new());
        for record in instruction.group() {
            match record {
                Record::ProcessIdExt(ids) => process = Some(ids),
                Record::InstIem(_) => {}
                Record::Event(event) if event.mode().is_some() => {}
                Record::PageTableWalk(walk) => walks.push(walk.first_use as i64 - instruction.number as i64),
                other => records.push(format!("{other:?}")),
            }
        }
        let (pc, opcode, target, iem) = (instruction.pc, instruction.opcode, instruction.target, instruction.iem);
        all.push(Executed { pc, opcode, target, mode: instruction.mode, iem, process, records, walks });
    });
    all
}

/// The instructions of a range, as in a slice.
fn expected(bytes: &[u8], range: Range<u64>) -> Vec<Executed> {
    let mut all = executed(bytes)[range.start as usize..range.end as usize].to_vec();
    all[0].mode = None;
    all
}

/// Findings, except features that only the whole trace uses.
fn unexpected(bytes: &[u8]) -> Vec<Finding> {
    let mut findings = findings(bytes);
    findings.retain(|finding| finding.rule.name != "stf-feature-claim");
    findings
}

fn nops(header: &builder::Header<'_>, count: u64) -> Vec<u8> {
    let mut trace = Builder::new(Vec::new(), header).unwrap();
    (0..count).for_each(|index| trace.instruction(&Step::plain(START + 4 * index, 0x13)).unwrap());
    trace.finish().sink
}

#[test]
fn slice_starts_at_its_first_instruction() {
    let header = builder::Header { mode: Some(Mode::User), ..builder::Header::new(START) };
    let whole = nops(&header, 4);
    let (cut, sliced) = cut(&whole, 2..3, UNSIGNED).unwrap();
    assert_eq!(sliced, Sliced { pieces: 1, instructions: 1, ..Sliced::default() });
    let head = Builder::new(Vec::new(), &builder::Header { pc: START + 8, ..header }).unwrap().finish().sink;
    let mode = [100, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(cut, [&head[..], &mode, &[0xf0, 0x13, 0, 0, 0]].concat());
}

#[test]
fn narrow_events_stay_narrow() {
    let header = builder::Header { mode: Some(Mode::User), version: StfVersion::V1_3, ..builder::Header::new(START) };
    let (cut, _) = cut(&nops(&header, 2), 1..2, SliceOptions::default()).unwrap();
    assert!(cut.ends_with(&[100, 0, 0, 0, 0x40, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x13, 0, 0, 0]), "{cut:02x?}");
    assert_eq!(findings(&cut), []);
}

#[test]
fn header_names_this_tool() {
    let bytes = trace(&program(&[22, 22, 22]));
    let count = |bytes: &[u8]| bytes.windows(SIGNATURE.len()).filter(|part| *part == SIGNATURE.as_bytes()).count();
    let (signed, _) = cut(&bytes, 1..2, SliceOptions::default()).unwrap();
    let (unsigned, _) = cut(&bytes, 1..2, UNSIGNED).unwrap();
    assert_eq!((count(&bytes), count(&unsigned), count(&signed)), (2, 2, 4));
    assert_eq!(executed(&signed), executed(&unsigned));
    assert_eq!(findings(&signed), []);
}

#[test]
fn slice_of_everything_is_the_trace() {
    let bytes = trace(&program(&(0..200).map(|number| number * 0x1234_5678_9abd).collect::<Vec<u64>>()));
    let (cut, sliced) = cut(&bytes, 0..u64::MAX, UNSIGNED).unwrap();
    assert_eq!(sliced, Sliced { pieces: 1, instructions: 200, ..Sliced::default() });
    assert!(cut == bytes);
}

#[test]
fn page_table_walks_are_renumbered() {
    // Number 17 is a load with a walk.
    let bytes = trace(&program(&[17, 22, 17, 17]));
    let (cut, sliced) = cut(&bytes, 2..4, UNSIGNED).unwrap();
    assert_eq!(sliced, Sliced { pieces: 1, instructions: 2, walks_adjusted: 2, ..Sliced::default() });
    assert_eq!(executed(&cut).iter().map(|executed| executed.walks[0]).collect::<Vec<i64>>(), [-1, -1]);
    let mut lines = program(&[22, 22, 17]);
    lines[2].walk = Some(0);
    let (_, sliced) = self::cut(&trace(&lines), 1..3, UNSIGNED).unwrap();
    assert_eq!(sliced, Sliced { pieces: 1, instructions: 2, walks_kept: 1, ..Sliced::default() });
}

const TRANSACTION_HEADER: [Record<'_>; 7] = [
    Record::Identifier(*b"STF"),
    Record::Version { major: 1, minor: 6 },
    Record::Comment(b"made by a test"),
    Record::TraceInfo(TraceInfo { generator: 0x40, version: [1, 2, 3], comment: b"a test" }),
    Record::TraceInfoFeature(0x10_0000),
    Record::ProtocolId(1),
    Record::ClockId { id: 1, name: b"clk" },
];

fn transaction(id: u64) -> Record<'static> {
    let data = &[5, 0, 0, 0, 0, 0, 0, 0, 0];
    Record::Transaction(Transaction { id, cycles: 10 + id, clock: 1, count: 0, metadata: &[], data })
}

fn depends(id: u64) -> Record<'static> {
    Record::TransactionDependency { id, cycles: 3, clock: 1 }
}

/// The groups of five transactions, with the numbers 1, 2, 3, 7 and 5.
fn groups() -> [Vec<u8>; 5] {
    [
        encoded(&[transaction(1)]),
        encoded(&[depends(1), transaction(2)]),
        encoded(&[Record::Comment(b"why"), depends(1), depends(2), transaction(3)]),
        encoded(&[depends(3), transaction(7)]),
        encoded(&[depends(7), depends(6), transaction(5)]),
    ]
}

fn transactions() -> Vec<u8> {
    let trailing = encoded(&[Record::Comment(b"the end"), Record::ReserveEnd]);
    [encoded(&TRANSACTION_HEADER), encoded(&[Record::EndHeader]), groups().concat(), trailing].concat()
}

#[test]
fn transactions_are_copied_unchanged() {
    let header = encoded(&[&TRANSACTION_HEADER[..], &[Record::EndHeader]].concat());
    // The number counts dependencies on transactions outside.
    let rows = [
        ("all, with an unknown dependency", 0..5, 0),
        ("more than there are", 0..u64::MAX, 0),
        ("from the start", 0..3, 0),
        ("one is outside", 1..2, 1),
        ("two of three", 1..3, 2),
        ("both", 2..3, 2),
        ("the last", 4..9, 2),
        ("an unknown dependency", 3..5, 2),
    ];
    for (name, range, outside) in rows {
        let (bytes, sliced) = cut(&transactions(), range.clone(), UNSIGNED).unwrap();
        let groups = groups();
        let cut = &groups[range.start as usize..groups.len().min(range.end as usize)];
        assert_eq!(bytes, [header.clone(), cut.concat()].concat(), "{name}");
        let expected = Sliced { transactions: cut.len() as u64, dependencies_kept: outside, ..Sliced::default() };
        assert_eq!(sliced, expected, "{name}");
        assert_eq!(findings(&bytes), [], "{name}");
    }
}

#[test]
fn header_of_transactions_names_this_tool() {
    let (bytes, _) = cut(&transactions(), 1..2, SliceOptions::default()).unwrap();
    assert_eq!(findings(&bytes), []);
    let mut signatures = 0;
    each_record(&bytes, |record| {
        signatures += usize::from(matches!(record, Record::Comment(text) if *text == SIGNATURE.as_bytes()));
        signatures += usize::from(matches!(record, Record::TraceInfo(info) if info.comment == SIGNATURE.as_bytes()));
        assert!(!matches!(record, Record::ForcePc(_)), "transactions have no address");
    });
    assert_eq!(signatures, 2);
}

#[test]
fn process_of_transactions_is_repeated() {
    let process = |number| Record::ProcessIdExt([0, number, 0]);
    let body = [process(1), transaction(1), process(2), transaction(2), transaction(3)];
    let bytes = encoded(&[&TRANSACTION_HEADER[..], &[Record::EndHeader], &body].concat());
    let (cut, _) = cut(&bytes, 2..3, UNSIGNED).unwrap();
    let expected = [&TRANSACTION_HEADER[..], &[Record::EndHeader, process(2), transaction(3)]].concat();
    assert_eq!(cut, encoded(&expected));
}

#[test]
fn damage_after_the_last_transaction_is_not_read() {
    let whole = transactions();
    let length =
        encoded(&[&TRANSACTION_HEADER[..], &[Record::EndHeader]].concat()).len() + groups()[..2].concat().len();
    assert!(cut(&whole[..length + 3], 0..2, UNSIGNED).is_ok());
    assert!(matches!(cut(&whole[..length + 3], 0..3, UNSIGNED), Err(SliceError::Read(_))));
}

#[test]
fn stray_protocol_does_not_make_transactions() {
    let bytes = encoded(&[
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 6 },
        Record::Isa(1),
        Record::InstIem(2),
        Record::TraceInfoFeature(0x8_0020),
        Record::ForcePc(START),
        Record::ProtocolId(1),
        Record::EndHeader,
        Record::InstOpcode32(0x13),
    ]);
    assert_eq!(cut(&bytes, 0..1, UNSIGNED).unwrap().1.instructions, 1);
}

#[test]
fn impossible_slices_are_reported() {
    let bytes = trace(&program(&[22, 22, 22]));
    let head = Builder::new(Vec::new(), &builder::Header { iem: Iem::Rv32, ..builder::Header::new(START) })
        .unwrap()
        .finish()
        .sink;
    let no_transactions = b"\x01STF\x02\x01\0\0\0\x06\0\0\0\x0b\x01\x13";
    let rows: &[(&str, &[u8], Range<u64>, &str)] = &[
        ("after the end", &bytes, 3..9, "the trace has 3"),
        ("nothing", &bytes, 1..1, "no instruction in the range"),
        ("no instructions", &head, 0..1, "the trace has 0"),
        ("no end of the header", &head[..head.len() - 1], 0..1, "the header of the trace has no end"),
        ("no transactions", no_transactions, 0..1, "no transaction in the range: the trace has 0"),
        ("after the last transaction", &transactions(), 5..6, "no transaction in the range: the trace has 5"),
        ("no range of transactions", &transactions(), 2..2, "no transaction in the range"),
        ("damaged before the range", &bytes[..bytes.len() - 6], 2..3, "the trace ends within a record"),
    ];
    for (name, bytes, range, expected) in rows {
        let mut cut = Vec::new();
        let error = slice(&mut Reader::plain(*bytes), range.clone(), UNSIGNED, &mut cut).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert!(cut.is_empty(), "{name}");
    }
    // Damage after the range is not read.
    assert!(cut(&bytes[..bytes.len() - 1], 0..2, UNSIGNED).is_ok());
}

/// A trace of 46 instructions.
fn sample() -> Vec<u8> {
    trace(&program(&(0..46).map(|number| number * 0x9_8765_4321_0123 + number).collect::<Vec<u64>>()))
}

#[test]
fn every_range_of_a_trace_can_be_sliced() {
    let bytes = sample();
    for first in 0..46 {
        for last in first + 1..=46 {
            let (cut, sliced) = cut(&bytes, first..last, SliceOptions::default()).unwrap();
            assert_eq!(sliced.instructions, last - first);
            assert_eq!(executed(&cut), expected(&bytes, first..last), "{first}..{last}");
            assert_eq!(unexpected(&cut), [], "{first}..{last}");
        }
    }
}

fn cut_by(bytes: &[u8], mut selection: Selection) -> Result<(Vec<u8>, Sliced), SliceError> {
    let mut cut = Vec::new();
    let sliced = slice_by(&mut Reader::plain(bytes), &mut selection, UNSIGNED, &mut cut)?;
    Ok((cut, sliced))
}

/// Comparable properties of several ranges: forced addresses are redundant, and walks may be unchanged.
fn without_seams(mut all: Vec<Executed>) -> Vec<Executed> {
    for executed in &mut all {
        executed.records.retain(|record| !record.starts_with("ForcePc"));
        executed.walks.clear();
    }
    if let Some(first) = all.first_mut() {
        first.mode = None;
    }
    all
}

#[test]
fn selected_ranges_follow_one_another() {
    let bytes = sample();
    let all = executed(&bytes);
    let mut several = 0;
    for chosen in 0..46_usize {
        let addresses = vec![all[chosen].pc..all[chosen].pc + 8, all[45 - chosen].pc..all[45 - chosen].pc + 1];
        let selection = Selection { addresses: addresses.clone(), ..Selection::default() };
        let (cut, sliced) = cut_by(&bytes, selection.clone()).unwrap();
        let is_wanted = |executed: &&Executed| addresses.iter().any(|range| range.contains(&executed.pc));
        let wanted: Vec<Executed> = all.iter().filter(is_wanted).cloned().collect();
        assert_eq!(sliced.instructions, wanted.len() as u64, "{chosen}");
        assert_eq!(without_seams(executed(&cut)), without_seams(wanted.clone()), "{chosen}");
        assert_eq!(unexpected(&cut), [], "{chosen}");
        several += u64::from(sliced.pieces > 1);
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let split = SliceOptions { split: true, ..SliceOptions::default() };
        slice_by(&mut Reader::plain(&bytes[..]), &mut selection.clone(), split, &mut pieces).unwrap();
        assert_eq!(pieces.len() as u64, sliced.pieces, "{chosen}");
        let mut rest = &wanted[..];
        for piece in &pieces {
            let found = executed(piece);
            let (here, after) = rest.split_at(found.len());
            assert_eq!(without_seams(found), without_seams(here.to_vec()), "{chosen}");
            assert_eq!(unexpected(piece), [], "{chosen}");
            rest = after;
        }
    }
    assert!(several > 20, "{several}");
}

#[test]
fn changed_state_is_recorded_between_ranges() {
    let header = builder::Header { mode: Some(Mode::User), ..builder::Header::new(START) };
    let mut trace = Builder::new(Vec::new(), &header).unwrap();
    let call = [Event::mode(Mode::Machine)];
    for index in 0..6 {
        let events: &[Event<'_>] = if index == 2 { &call } else { &[] };
        trace.instruction(&Step { events, ..Step::plain(START + 4 * index, 0x13) }).unwrap();
    }
    let whole = trace.finish().sink;
    let addresses = vec![START..START + 8, START + 16..START + 24];
    let (cut, sliced) = cut_by(&whole, Selection { addresses, ..Selection::default() }).unwrap();
    assert_eq!((sliced.pieces, sliced.instructions), (2, 4));
    let modes: Vec<(u64, Option<u64>)> =
        executed(&cut).iter().map(|executed| (executed.pc - START, executed.mode)).collect();
    assert_eq!(modes, [(0, None), (4, Some(0)), (16, Some(3)), (20, Some(3))]);
    assert_eq!(unexpected(&cut), []);
}

#[test]
fn transactions_have_no_addresses() {
    let error = cut_by(&transactions(), Selection::default()).unwrap_err();
    assert!(matches!(error, SliceError::Transactions), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn slice_of_a_slice_is_a_slice(
        numbers in prop::collection::vec(any::<u64>(), 2..60),
        positions in any::<[prop::sample::Index; 4]>(),
    ) {
        let bytes = trace(&program(&numbers));
        let range = |count: u64, one: &prop::sample::Index, other: &prop::sample::Index| {
            let first = one.index(count as usize) as u64;
            first..first + 1 + other.index((count - first) as usize) as u64
        };
        let outer = range(numbers.len() as u64, &positions[0], &positions[1]);
        let inner = range(outer.end - outer.start, &positions[2], &positions[3]);
        let (once, _) = cut(&bytes, outer.clone(), UNSIGNED).unwrap();
        let (twice, _) = cut(&once, inner.clone(), UNSIGNED).unwrap();
        let direct = outer.start + inner.start..outer.start + inner.end;
        prop_assert_eq!(executed(&once), expected(&bytes, outer));
        prop_assert_eq!(executed(&twice), expected(&bytes, direct.clone()));
        prop_assert_eq!(unexpected(&twice), []);
        prop_assert!(findings(&twice).iter().all(|finding| finding.rule.severity == Severity::Warning));
    }
}
