//! Slices of the traces of the corpus: by address and time, joined and split.
//!
//! Needs the corpus: `UNSPOOL_CORPUS` names its folder.

use std::fs::{self, File};
use std::ops::{ControlFlow, Range};
use std::path::Path;

use unspool_model::selection::Selection;
use unspool_stf as stf;
use unspool_stf::check::Severity;
use unspool_stf::lift::Follower;
use unspool_tarmac as tarmac;
use unspool_tarmac::Record;
use unspool_tarmac::slice::SliceOptions;
use unspool_testing::{corpus, note};

/// Logs, with a range of time in the middle of each.
const LOGS: [(&str, Range<u64>); 3] = [
    ("calculator-aarch32-es-ld-st-style", 10_000..100_000),
    ("calculator-aarch64-es-ld-st-style", 10_000..100_000),
    ("calculator-aarch64-fastmodel", 100..200),
];

/// Maximum number of instructions of a slice.
const MAX_INSTRUCTIONS: usize = 20_000;

const TRACES: [&str; 4] = [
    "dromajo/bmi_towers.bare.stf",
    "dromajo/illegal.zstf",
    "olympia/dhrystone_branch.zstf",
    "synthetic/all_records_rv64_v256_ev64.stf",
];

/// Middle half of the executed addresses.
fn middle(mut addresses: Vec<u64>) -> Range<u64> {
    addresses.sort_unstable();
    addresses.dedup();
    let (first, last) = (addresses[addresses.len() / 4], addresses[addresses.len() * 3 / 4]);
    first..last.max(first + 1)
}

fn instructions(log: &[u8]) -> Vec<u64> {
    let mut reader = tarmac::read::Reader::new(log, tarmac::read::ReadOptions::default()).unwrap();
    let mut all = Vec::new();
    let read = reader.each(|position, line| {
        match &line.record {
            Record::Instruction(instruction) => all.extend(instruction.address),
            Record::Unknown(problem) => panic!("line {}: {problem}", position.line),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    all
}

fn slice_log(log: &[u8], mut selection: Selection, split: bool) -> Vec<Vec<u8>> {
    let mut reader = tarmac::read::Reader::new(log, tarmac::read::ReadOptions::default()).unwrap();
    let mut pieces = Vec::new();
    let options = SliceOptions { split, ..SliceOptions::default() };
    tarmac::slice::slice(&mut reader, &mut selection, options, &mut pieces, |_, _| {}).unwrap();
    pieces
}

#[test]
fn slices_of_logs_have_their_lines() {
    let Some(folder) = corpus("tarmac") else { return };
    for (name, time) in LOGS {
        let log = fs::read(folder.join(format!("{name}.tarmac"))).unwrap();
        let all = instructions(&log);
        let range = middle(all.clone());
        let wanted: Vec<u64> = all.iter().copied().filter(|pc| range.contains(pc)).collect();
        let selection = Selection::within(range);
        let joined = slice_log(&log, selection.clone(), false).concat();
        assert_eq!(instructions(&joined), wanted, "{name}");
        let mut lines = log.split_inclusive(|byte| *byte == b'\n');
        for line in joined.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"# unspool gap")) {
            assert!(lines.any(|other| other == line), "{name}: {}", line.escape_ascii());
        }
        let pieces = slice_log(&log, selection, true);
        let of_pieces: Vec<u64> = pieces.iter().flat_map(|piece| instructions(piece)).collect();
        assert_eq!(of_pieces, wanted, "{name}");
        let whole = slice_log(&log, Selection::default(), false).concat();
        assert!(whole == log, "{name}");
        let time = Selection { time: Some(time), ..Selection::default() };
        let of_time = instructions(&slice_log(&log, time, false).concat());
        assert!(!of_time.is_empty() && of_time.len() < all.len(), "{name}");
        note(format_args!("corpus: {name} cut into {} pieces", pieces.len()));
    }
}

fn open(path: &Path) -> stf::read::Reader<Box<dyn std::io::Read + Send>> {
    stf::read::Reader::new(File::open(path).unwrap(), stf::read::ReadOptions::default()).unwrap()
}

fn addresses<R: std::io::Read>(reader: &mut stf::read::Reader<R>) -> Vec<u64> {
    let mut all = Vec::new();
    let read = reader.each_instruction(&mut Follower::default(), |instruction| {
        all.push(instruction.pc);
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    all
}

fn errors(bytes: &[u8]) -> Vec<String> {
    let (mut checker, mut found) = (stf::check::Checker::new(), Vec::new());
    let mut take = |finding: stf::check::Finding| {
        if finding.rule.severity == Severity::Error {
            found.push(format!("{finding:?}"));
        }
    };
    let read = stf::read::Reader::plain(bytes).each(|position, record| {
        checker.push(position, record, &mut take);
        ControlFlow::Continue(())
    });
    assert!(!read.unwrap());
    checker.finish(&mut take);
    found
}

#[test]
fn slices_of_stf_are_correct() {
    let Some(folder) = corpus("stf") else { return };
    for name in TRACES {
        let path = folder.join(name);
        let all = addresses(&mut open(&path));
        let range = middle(all.clone());
        let wanted: Vec<u64> = all.iter().copied().filter(|pc| range.contains(pc)).take(MAX_INSTRUCTIONS).collect();
        for split in [false, true] {
            let mut selection = Selection { limit: MAX_INSTRUCTIONS as u64, ..Selection::within(range.clone()) };
            let mut pieces: Vec<Vec<u8>> = Vec::new();
            let options = stf::slice::SliceOptions { split, ..stf::slice::SliceOptions::default() };
            let sliced = stf::slice::slice_by(&mut open(&path), &mut selection, options, &mut pieces).unwrap();
            let found: Vec<u64> =
                pieces.iter().flat_map(|piece| addresses(&mut stf::read::Reader::plain(&piece[..]))).collect();
            assert_eq!(found, wanted, "{name}");
            for piece in pieces.iter().take(100) {
                assert_eq!(errors(piece), Vec::<String>::new(), "{name}");
            }
            note(format_args!("corpus: {name} cut into {} pieces, {} files", sliced.pieces, pieces.len()));
        }
    }
}
