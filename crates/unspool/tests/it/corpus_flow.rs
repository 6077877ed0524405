//! Real captures, and what the reference decoder says was executed.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`. Compares ranges, Q elements and exceptions, in order, of
//! every source and session of ETE and ETMv4 trace.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at what it does not expect, and says so"
)]

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use unspool::capture::Capture;
use unspool::coresight::{Protocol, Transactions};
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::{Parts, Program, Trace, Watch};
use unspool_testing::corpus;

/// Captures whose image is not the program that ran, on purpose. There the reference goes on behind an N atom at a
/// branch that is always taken, and behind other contradictions; we stop and wait for the next address.
const WRONG_IMAGE: [&str; 2] = ["juno_r1_1", "infrastructure"];

/// Lines that the reference has and we do not, since it takes the address behind an indirect branch for the branch's
/// target when the trace does not tell that. In `ete_ip` this makes it walk over 36 KiB of code that has dozens of
/// branches in it; the specification's analyzer is not synchronised there. In `q_elem` the instruction behind a RET
/// would have been executed.
const FROM_A_STALE_ADDRESS: [(&str, &str); 2] =
    [("ete_ip s0.2", "R 1aa948 1b37f4 9131 A32 E"), ("q_elem s1.1", "Q 6960c 695c8 1")];

/// What was executed, a line each, in the words of the reference.
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    findings: usize,
}

impl FlowSink for Lines {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let isa = range.isa().name().to_uppercase();
            let outcome = if range.taken() { "E" } else { "N" };
            let (start, end) = (range.start(), range.end());
            self.lines.push(format!("R {start:x} {end:x} {} {isa} {outcome}", range.instructions()));
        }
    }

    fn item(&mut self, item: FlowItem) {
        match item.map(|item| item.value) {
            Ok(Item::Q { start: Some(start), next: Some(next), instructions: Some(count) }) => {
                self.lines.push(format!("Q {start:x} {next:x} {count}"));
            }
            Ok(Item::Exception { number, return_address }) => {
                let address = return_address.map_or("-".into(), |address| format!("{address:x}"));
                self.lines.push(format!("EXCEPTION {number:#04x} {address}"));
            }
            Ok(Item::Finding(_)) => self.findings += 1,
            _ => {}
        }
    }
}

impl Watch for Lines {}

fn ours(trace: &Trace<'_>, capture: &Capture) -> Lines {
    let (program, _) = Program::of(capture, trace.source().core, &[]);
    let mut lines = Lines::default();
    trace.flow(Transactions::Show, &program, &mut lines).unwrap();
    lines
}

fn theirs(path: &Path) -> Vec<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().filter_map(their_line).collect()
}

fn their_line(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    match fields[..] {
        ["R", start, end, count, _, isa, outcome, ..] => Some(format!("R {start} {end} {count} {isa} {outcome}")),
        ["Q", start, next, count] => Some(format!("Q {start} {next} {count}")),
        ["EXCEPTION", text] => {
            let number = text.split("excep num (").nth(1).unwrap().split(')').next().unwrap();
            let address = text.split("pref ret addr:0x").nth(1).map(|rest| rest.split([';', ' ']).next().unwrap());
            Some(format!("EXCEPTION {number} {}", address.unwrap_or("-")))
        }
        _ => None,
    }
}

/// The snapshots; `None`: skipped.
fn snapshots() -> Option<Vec<PathBuf>> {
    let folder = corpus("coresight")?;
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.join("snapshot.ini").is_file());
    all.sort();
    Some(all)
}

#[test]
fn what_was_executed_is_what_the_reference_says() {
    let Some(snapshots) = snapshots() else { return };
    let (mut streams, mut lines) = (0, 0);
    for path in &snapshots {
        let capture = Capture::open(path).unwrap();
        let traces = Trace::all(&capture);
        for trace in &traces {
            if matches!(trace.source().protocol, Some(Protocol::Ete | Protocol::Etm4)) {
                lines += compare(path, &capture, &traces, trace);
                streams += 1;
            }
        }
    }
    println!("{lines} lines of {streams} streams are as expected");
    assert!(streams > 50 && lines > 1_800_000, "the corpus is not all there");
}

/// Everything that decoding says, a line each.
#[derive(Default, PartialEq, Debug)]
struct Everything(Vec<String>);

impl FlowSink for Everything {
    fn run(&mut self, run: Run<'_>) {
        let offset = run.offset();
        self.0.extend(run.ranges().map(|range| format!("{offset:#x} {range:?} {}", range.instructions())));
    }

    fn item(&mut self, item: FlowItem) {
        self.0.push(format!("{item:?}"));
    }
}

impl Watch for Everything {}

#[test]
fn the_number_of_cores_makes_no_difference() {
    let Some(snapshots) = snapshots() else { return };
    let (mut streams, mut parts) = (0, 0);
    for path in &snapshots {
        let capture = Capture::open(path).unwrap();
        for trace in Trace::all(&capture) {
            if !matches!(trace.source().protocol, Some(Protocol::Ete | Protocol::Etm4)) {
                continue;
            }
            let (program, _) = Program::of(&capture, trace.source().core, &[]);
            let mut one = Everything::default();
            trace.flow(Transactions::Show, &program, &mut one).unwrap();
            let mut several = Everything::default();
            let mut join = |part: Everything, _| {
                several.0.extend(part.0);
                parts += 1;
                true
            };
            let how = Parts::on(3).of_bytes(4096);
            trace.flow_in_parts(how, Transactions::Show, &program, Everything::default, &mut join).unwrap();
            let at = one.0.iter().zip(&several.0).position(|(one, several)| one != several);
            let around =
                |lines: &Everything, at: usize| lines.0[at.saturating_sub(2)..(at + 2).min(lines.0.len())].to_vec();
            if let Some(at) = at {
                panic!("{}: {:#?}\n{:#?}", path.display(), around(&one, at), around(&several, at));
            }
            assert_eq!(one.0.len(), several.0.len(), "{}", path.display());
            streams += 1;
        }
    }
    println!("{streams} streams in {parts} parts");
    assert!(parts > streams + 150);
}

/// Compares one stream and returns how many lines it has.
fn compare(path: &Path, capture: &Capture, traces: &[Trace<'_>], trace: &Trace<'_>) -> usize {
    let id = trace.source().id.unwrap_or(0);
    let several = traces.iter().any(|other| other.source().id == trace.source().id && other.session() > 0);
    let session = if several { trace.session() + 1 } else { 0 };
    let folder = path.file_name().unwrap().to_str().unwrap();
    let name = format!("{folder} s{session}.{id:x}");
    let mut theirs = theirs(&path.join("expected").join(format!("s{session}.{id:x}.txt.gz")));
    let ours = ours(trace, capture);
    if WRONG_IMAGE.contains(&folder) {
        assert!(theirs.is_empty() || ours.findings > 0, "{name}: nobody noticed that the image does not fit");
        assert_among(&name, &ours.lines, &theirs);
        return ours.lines.len();
    }
    theirs.retain(|line| !FROM_A_STALE_ADDRESS.contains(&(&name, line)));
    let at = ours.lines.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
    if let Some(at) = at {
        let around = |lines: &[String]| lines[at.saturating_sub(2)..(at + 3).min(lines.len())].to_vec();
        panic!("{name}: line {at}\n  ours   {:?}\n  theirs {:?}", around(&ours.lines), around(&theirs));
    }
    assert_eq!(ours.lines.len(), theirs.len(), "{name}: the number of lines");
    ours.lines.len()
}

/// What we say, the reference says too, in this order: all that we leave out is behind a contradiction.
fn assert_among(name: &str, ours: &[String], theirs: &[String]) {
    let mut left = theirs.iter();
    let missing = ours.iter().filter(|line| !left.by_ref().any(|theirs| theirs == *line)).count();
    println!(
        "{name}: {} lines, {} more of the reference are behind contradictions",
        ours.len(),
        theirs.len() - ours.len()
    );
    assert_eq!(missing, 0, "{name}: lines that the reference does not have");
}
