//! Slices of ASTF: records are kept, pieces start with the valid state, and every slice is a correct trace.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Cursor;

use proptest::prelude::*;
use unspool_astf::builder::{Builder, Call, CallKind, Effect, Exception, Redirection, State, Step};
use unspool_astf::read::{ReadOptions, Reader};
use unspool_astf::record::{Header, Level, Record, Storage};
use unspool_astf::slice::{SliceError, SliceOptions, Sliced, slice};
use unspool_astf::{Access, Bytes, Extent, example};
use unspool_model::selection::Selection;

use crate::support::assert_no_errors;

const NOP: u32 = 0xd503_201f;
const SVC: u32 = 0xd400_0001;
const ERET: u32 = 0xd69f_03e0;
/// ldp x0, x1, [x2]
const LDP: u32 = 0xa940_0440;

const JOINED: SliceOptions = SliceOptions { split: false };
const SPLIT: SliceOptions = SliceOptions { split: true };

fn cut_all(
    records: &[Bytes],
    mut selection: Selection,
    options: SliceOptions,
) -> Result<(Vec<Vec<Bytes>>, Sliced), SliceError> {
    let mut header = Header::new(Level::Basic, false, Storage::Raw);
    if let Record::Header(found) = Record::from_bytes(&records[0]) {
        header = found.stored(Storage::Raw);
    }
    let bytes = [&header.to_bytes()[..], records[1..].as_flattened()].concat();
    let mut reader = Reader::new(Cursor::new(bytes), ReadOptions { threads: 1, ahead: false }).unwrap();
    let mut pieces: Vec<Vec<Bytes>> = Vec::new();
    let sliced = slice(&mut reader, &mut selection, options, &mut pieces)?;
    pieces.iter_mut().for_each(|piece| piece.insert(0, header.to_bytes()));
    Ok((pieces, sliced))
}

fn cut(records: &[Bytes], selection: Selection) -> Vec<Bytes> {
    let (pieces, _) = cut_all(records, selection, JOINED).unwrap();
    let [piece] = pieces.try_into().unwrap();
    piece
}

/// Records as text.
fn text_of(records: &[Bytes]) -> String {
    let word = |record: &Bytes| match Record::from_bytes(record) {
        Record::Header(_) => "header".to_string(),
        Record::Instruction(instruction) => format!("{:x}", instruction.pc),
        Record::Trap(trap) => format!("trap {:x}", trap.target_pc),
        Record::ExtraEa(_) => "extra".to_string(),
        Record::Context(context) => format!("el{} pid {}", context.el, context.pid),
        Record::StringStart(_) | Record::StringContinuation(_) => "string".to_string(),
        Record::Timestamp(timestamp) => format!("time {}", timestamp.value),
        Record::Unknown(_) => "unknown".to_string(),
    };
    records.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn user(pid: u64) -> State {
    State { process: Some(unspool_astf::builder::Process { pid, tid: None }), ..State::default() }
}

/// A Basic trace of one level: eight instructions, two processes, a system call that is not traced.
fn basic() -> Vec<Bytes> {
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::Basic, true, Storage::Raw)).unwrap();
    trace.string(b"a title that needs more than one record to store").unwrap();
    trace.timestamp(100).unwrap();
    trace.context(&user(1)).unwrap();
    trace.instruction(&Step::plain(0x1000, NOP)).unwrap();
    trace.instruction(&Step::plain(0x1004, NOP)).unwrap();
    trace.timestamp(110).unwrap();
    let call = Exception { class: 0x15, call: Some(Call { kind: CallKind::Svc, index: 0 }), target: 0x8000 };
    trace.instruction(&Step { exception: Some(call), ..Step::plain(0x1008, SVC) }).unwrap();
    trace.context(&user(2)).unwrap();
    trace.instruction(&Step::plain(0x2000, NOP)).unwrap();
    trace.string(b"here").unwrap();
    trace.instruction(&Step::plain(0x2004, NOP)).unwrap();
    trace.timestamp(120).unwrap();
    trace.context(&user(1)).unwrap();
    trace.instruction(&Step::plain(0x1000, NOP)).unwrap();
    trace.instruction(&Step::plain(0x1004, NOP)).unwrap();
    trace.instruction(&Step::plain(0x1008, NOP)).unwrap();
    trace.string(b"the end").unwrap();
    trace.finish()
}

/// A BasicPlus trace of two levels: an access in two halves, a call, an interrupt, and the returns from both.
fn plus() -> Vec<Bytes> {
    let mut trace = Builder::new(Vec::new(), &Header::new(Level::BasicPlus, true, Storage::Raw)).unwrap();
    trace.timestamp(5).unwrap();
    trace.context(&user(1)).unwrap();
    trace.instruction(&Step::plain(0x1000, NOP)).unwrap();
    let half = |address| Access { address, extent: Extent::Bytes(8), read: true, write: false, tagged: false };
    let halves = [half(0x4ff8), half(0x5000)];
    trace.instruction(&Step { effect: Effect::Accesses(&halves), ..Step::plain(0x1004, LDP) }).unwrap();
    let call = Exception { class: 0x15, call: Some(Call { kind: CallKind::Svc, index: 0 }), target: 0x8000 };
    trace.instruction(&Step { exception: Some(call), ..Step::plain(0x1008, SVC) }).unwrap();
    let kernel = State { el: 1, handler: true, ..State::default() };
    trace.context(&kernel).unwrap();
    trace.timestamp(6).unwrap();
    trace.instruction(&Step::plain(0x8000, NOP)).unwrap();
    trace.instruction(&Step { effect: Effect::ExceptionReturn(0x100c), ..Step::plain(0x8004, ERET) }).unwrap();
    trace.context(&user(1)).unwrap();
    trace.instruction(&Step::plain(0x100c, NOP)).unwrap();
    trace.timestamp(9).unwrap();
    trace.redirected(Redirection::Irq { is_virtual: false }, 0x8080).unwrap();
    trace.context(&kernel).unwrap();
    trace.instruction(&Step::plain(0x8080, NOP)).unwrap();
    trace.instruction(&Step::plain(0x8084, NOP)).unwrap();
    trace.finish()
}

#[test]
fn the_traces_to_slice_are_correct() {
    for (name, records) in [("basic", basic()), ("plus", plus()), ("example", example::records())] {
        assert_no_errors(&records, name);
    }
}

#[test]
fn pieces_of_a_basic_trace_follow_one_another() {
    let all = Selection::default;
    let rows: &[(&str, Selection, &str)] = &[
        ("the first", Selection { limit: 1, ..all() }, "string, string, time 100, el0 pid 1, 1000"),
        (
            "by number",
            Selection::of(&(1..4)),
            "string, string, time 100, el0 pid 1, 1004, time 110, 1008, el0 pid 2, 2000",
        ),
        (
            "from a change of process on",
            Selection::of(&(3..5)),
            "string, string, time 110, el0 pid 2, 2000, string, 2004",
        ),
        (
            "to the end, with the string there",
            Selection { skip: 7, ..all() },
            "string, string, time 120, el0 pid 1, 1008, string",
        ),
        (
            "by time",
            Selection { time: Some(105..120), times_rise: true, ..all() },
            "string, string, time 110, el0 pid 1, 1008, el0 pid 2, 2000, string, 2004",
        ),
        (
            "by address, in two pieces",
            Selection::within(0x1004..0x1008),
            "string, string, time 100, el0 pid 1, 1004, time 120, el0 pid 1, 1004",
        ),
        (
            "by two addresses",
            Selection { addresses: vec![0x1000..0x1004, 0x2000..0x2004], ..all() },
            "string, string, time 100, el0 pid 1, 1000, time 110, el0 pid 2, 2000, time 120, el0 pid 1, 1000",
        ),
    ];
    let whole = basic();
    for (name, selection, expected) in rows {
        let cut = cut(&whole, selection.clone());
        assert_eq!(text_of(&cut[1..]), *expected, "{name}");
        assert_no_errors(&cut, name);
    }
}

#[test]
fn instructions_keep_what_belongs_to_them() {
    let rows: &[(&str, u64, &str)] = &[
        ("extra accesses", 1, "time 5, el0 pid 1, 1004, extra"),
        ("an exception", 2, "time 5, el0 pid 1, 1008, trap 8000"),
        ("the handler", 3, "time 6, el1 pid 0, 8000"),
        ("a return", 4, "time 6, el1 pid 0, 8004, trap 100c"),
        ("what was interrupted", 5, "time 6, el0 pid 1, 100c"),
        ("after an interrupt", 6, "time 9, el1 pid 0, 8080"),
    ];
    let whole = plus();
    for (name, index, expected) in rows {
        let cut = cut(&whole, Selection::of(&(*index..*index + 1)));
        assert_eq!(text_of(&cut[1..]), *expected, "{name}");
        assert_no_errors(&cut, name);
    }
}

#[test]
fn a_slice_of_everything_is_the_trace() {
    for records in [basic(), plus(), example::records()] {
        assert_eq!(cut(&records, Selection::default())[1..], records[1..]);
    }
}

#[test]
fn a_basic_plus_trace_has_no_gaps() {
    let whole = plus();
    let kernel = Selection::within(0x8000..0x9000);
    let error = cut_all(&whole, kernel.clone(), JOINED).unwrap_err();
    assert!(matches!(error, SliceError::Pieces { record: 19 }), "{error}");
    let (pieces, sliced) = cut_all(&whole, kernel, SPLIT).unwrap();
    assert_eq!(sliced, Sliced { instructions: 4, pieces: 2 });
    let expected = ["header, time 6, el1 pid 0, 8000, 8004, trap 100c", "header, time 9, el1 pid 0, 8080, 8084"];
    for (piece, expected) in pieces.iter().zip(expected) {
        assert_eq!(text_of(piece), expected);
        assert_no_errors(piece, "piece");
    }
}

#[test]
fn an_empty_slice_is_an_error() {
    let nothing = [Selection::of(&(8..9)), Selection { limit: 0, ..Selection::default() }];
    for selection in nothing {
        let error = cut_all(&basic(), selection, JOINED).unwrap_err();
        assert!(matches!(error, SliceError::Empty(_)), "{error}");
    }
}

#[test]
fn damage_after_the_last_instruction_does_no_harm() {
    let whole = basic();
    let mut bytes = whole.as_flattened().to_vec();
    // In the middle of the third instruction.
    bytes.truncate(32 * 8 + 7);
    let mut reader = Reader::new(Cursor::new(bytes), ReadOptions { threads: 1, ahead: false }).unwrap();
    let mut cut: Vec<Bytes> = Vec::new();
    let sliced = slice(&mut reader, &mut Selection::of(&(0..2)), JOINED, &mut cut).unwrap();
    assert_eq!(sliced.instructions, 2);
    assert_eq!(cut, whole[1..7]);
}

proptest! {
    /// Every slice is correct, has only records of the trace, and the number of instructions that it reports.
    #[test]
    fn every_slice_is_correct(
        start in 0_u64..8,
        length in 1_u64..8,
        address in prop::option::of((0_u64..4, 1_u64..4)),
        time in prop::option::of((100_u64..125, 1_u64..20)),
        is_plus in any::<bool>(),
    ) {
        let whole = if is_plus { plus() } else { basic() };
        let selection = Selection {
            time: time.map(|(start, length)| start..start + length),
            addresses: address.map(|(first, count)| 0x1000 + 4 * first..0x1000 + 4 * (first + count)).into_iter().collect(),
            ..Selection::of(&(start..start + length))
        };
        let Ok((pieces, sliced)) = cut_all(&whole, selection, SPLIT) else { return Ok(()) };
        let mut instructions = 0;
        for piece in &pieces {
            assert_no_errors(piece, "piece");
            prop_assert!(piece[1..].iter().all(|record| whole.contains(record)));
            instructions += piece.iter().filter(|record| record[0] == 1).count() as u64;
        }
        prop_assert_eq!((instructions, pieces.len() as u64), (sliced.instructions, sliced.pieces));
    }
}
