//! Flow of the corpus, compared with the reference decoder.
//!
//! Needs `UNSPOOL_CORPUS`, the folder that holds `coresight/`. Compares ranges, Q elements and exceptions, in order, of
//! every source and session of ETE and ETMv4 trace.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use unspool::capture::Capture;
use unspool::coresight::Transactions;
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::{Parts, Program, Trace, Watch};

use super::fixtures::{FlowLines, assert_same, etm4_traces, snapshots};

/// Captures whose image is not the program that ran, on purpose. The reference continues after an N atom at an
/// unconditional branch, and after other contradictions; we stop and wait for the next address.
const WRONG_IMAGE: [&str; 2] = ["juno_r1_1", "infrastructure"];

/// Lines that only the reference has: it takes the address after an indirect branch for its target when the trace has
/// none. In `ete_ip` it walks over 36 KiB of code with dozens of branches; the specification's analyzer is not
/// synchronized there. In `q_elem` the instruction after a RET would have been executed.
const FROM_A_STALE_ADDRESS: [(&str, &str); 2] =
    [("ete_ip s0.2", "R 1aa948 1b37f4 9131 A32 E"), ("q_elem s1.1", "Q 6960c 695c8 1")];

/// Executed ranges, Q elements and exceptions, in the words of the reference.
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

#[test]
fn flow_agrees_with_the_reference() {
    let Some(snapshots) = snapshots() else { return };
    let (mut streams, mut lines) = (0, 0);
    for path in &snapshots {
        let capture = Capture::open(path).unwrap();
        let traces = Trace::all(&capture);
        for trace in &etm4_traces(&capture) {
            lines += compare(path, &capture, &traces, trace);
            streams += 1;
        }
    }
    println!("{lines} lines of {streams} streams are as expected");
    assert!(streams > 50 && lines > 1_800_000, "the corpus is not all there");
}

#[test]
fn number_of_cores_makes_no_difference() {
    let Some(snapshots) = snapshots() else { return };
    let (mut streams, mut shards) = (0, 0);
    for path in &snapshots {
        let capture = Capture::open(path).unwrap();
        for trace in etm4_traces(&capture) {
            let (program, _) = Program::of(&capture, trace.source().core, &[]);
            let mut one = FlowLines::default();
            trace.flow(Transactions::Show, &program, &mut one).unwrap();
            let mut several = Vec::new();
            let mut join = |shard: FlowLines, _| {
                several.extend(shard.0);
                shards += 1;
                true
            };
            let parts = Parts::on(3).of_bytes(4096);
            trace.flow_in_parts(parts, Transactions::Show, &program, FlowLines::default, &mut join).unwrap();
            assert_same(&path.display().to_string(), &several, &one.0);
            streams += 1;
        }
    }
    println!("{streams} streams in {shards} shards");
    assert!(shards > streams + 150);
}

/// Compares one stream, and returns its number of lines.
fn compare(path: &Path, capture: &Capture, traces: &[Trace<'_>], trace: &Trace<'_>) -> usize {
    let id = trace.source().id.unwrap_or(0);
    let several = traces.iter().any(|other| other.source().id == trace.source().id && other.session() > 0);
    let session = if several { trace.session() + 1 } else { 0 };
    let folder = path.file_name().unwrap().to_str().unwrap();
    let name = format!("{folder} s{session}.{id:x}");
    let mut theirs = theirs(&path.join("expected").join(format!("s{session}.{id:x}.txt.gz")));
    let (program, _) = Program::of(capture, trace.source().core, &[]);
    let mut ours = Lines::default();
    trace.flow(Transactions::Show, &program, &mut ours).unwrap();
    if WRONG_IMAGE.contains(&folder) {
        assert!(theirs.is_empty() || ours.findings > 0, "{name}: the wrong image was not noticed");
        assert_among(&name, &ours.lines, &theirs);
        return ours.lines.len();
    }
    theirs.retain(|line| !FROM_A_STALE_ADDRESS.contains(&(&name, line)));
    assert_same(&name, &ours.lines, &theirs);
    ours.lines.len()
}

/// Asserts that the reference has all our lines in this order: lines that we leave out follow a contradiction.
fn assert_among(name: &str, ours: &[String], theirs: &[String]) {
    let mut left = theirs.iter();
    let missing = ours.iter().filter(|line| !left.by_ref().any(|theirs| theirs == *line)).count();
    println!("{name}: {} lines, {} more of the reference follow contradictions", ours.len(), theirs.len() - ours.len());
    assert_eq!(missing, 0, "{name}: lines that the reference does not have");
}
