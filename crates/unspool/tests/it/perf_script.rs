//! Recordings of perf: the example that is shipped, and branches compared with those that Debian's perf finds.
//!
//! perf reads no index without a count, so the recording of the corpus is written anew, with the same trace.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use unspool::capture::{Call, Capture, Placement};
use unspool::coresight::Transactions;
use unspool::flow::{FlowItem, FlowSink, Item, Run};
use unspool::{PresentIds, Program, Trace, Watch};
use unspool_testing::perf::{ETE, ETM4, Event, PerfWriter, Trailer};
use unspool_testing::{corpus, example, tool};

const THREAD: u32 = 1234;

/// Taken branches: address and target.
#[derive(Default)]
struct Branches {
    taken: Vec<(u64, u64)>,
    /// A branch whose target is where execution continues.
    last: Option<u64>,
}

impl FlowSink for Branches {
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            self.taken.extend(self.last.take().map(|from| (from, range.start())));
            self.last = (range.taken() && range.last().flow.is_branch()).then_some(range.end() - 4);
        }
    }

    fn item(&mut self, item: FlowItem) {
        if item.is_ok_and(|item| matches!(item.value, Item::TraceOn | Item::End)) {
            self.last = None;
        }
    }
}

impl Watch for Branches {}

/// The example as perf.data: a mapping of the program, the start of trace, one AUX record, and its bytes.
fn recording(program: &str, length: u64) -> Vec<u8> {
    let registers = &Capture::open(example("hello-qemu")).unwrap().sources[0].registers;
    let names =
        ["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TRCDEVARCH"];
    let value = |name: &&str| registers.iter().find(|register| register.name == **name).map_or(0, |found| found.value);
    let words: Vec<u64> = names.iter().map(value).collect();
    let mut file = PerfWriter::new(false, &[Event::trace(&[78])]);
    let trailer = Trailer { thread: (THREAD, THREAD), time: 1000, id: 78, cpu: 2, ..Trailer::default() };
    let trace = fs::read(example("hello-qemu").join("trace_0.bin")).unwrap();
    file.info(1, &[(ETE, 2, &words)]);
    file.mmap2(THREAD, 0x40_0000, length.next_multiple_of(0x1000), 0, program, trailer);
    let thread = file.halves(&[THREAD, THREAD]);
    file.kernel(12, 0, &thread, trailer);
    file.aux(0, trace.len() as u64, 0, Trailer { time: 2000, ..trailer });
    file.auxtrace(2, u32::MAX, 0, &trace);
    file.file()
}

/// The recording of the corpus, as perf would have written it.
pub(crate) fn rewritten(capture: &Capture, program: &Path) -> Vec<u8> {
    let unit = &capture.sources[7];
    let names = ["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS"];
    let value = |name: &&str| unit.registers.iter().find(|register| register.name == **name).unwrap().value;
    let words: Vec<u64> = names.iter().map(value).collect();
    let mut file = PerfWriter::new(false, &[Event::trace(&[78])]);
    file.info(1, &[(ETM4, 7, &words)]);
    let trailer = |pid| Trailer { thread: (pid, pid), id: 78, cpu: 7, time: 1000, ..Trailer::default() };
    let mut process = 0;
    for event in &capture.events {
        if let Call::Library { pid, mapping, .. } = &event.call
            && let Placement::Part { address, length, offset } = mapping.placement
            && mapping.image.ends_with("etm_test_loop")
        {
            process = *pid;
            file.mmap2(*pid, address, length, offset, program.to_str().unwrap(), trailer(*pid));
        }
    }
    let mut trace = Vec::new();
    for (index, buffer) in capture.buffers.iter().enumerate() {
        file.aux(trace.len() as u64, buffer.len(), 0, trailer(process));
        capture.reader(index).unwrap().read_to_end(&mut trace).unwrap();
    }
    file.auxtrace(7, u32::MAX, 0, &trace);
    file.file()
}

/// The recording that is shipped: `UPDATE=1` writes it.
#[test]
fn the_example_is_the_recording_of_a_cpu() {
    let length = fs::metadata(example("hello-qemu").join("hello")).unwrap().len();
    let bytes = recording("/home/user/hello", length);
    let path = example("hello.perf.data");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn branches_are_those_of_perf() {
    let Some(corpus) = corpus("perf") else { return };
    let Some(perf) = tool("perf", "linux-perf") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("etm_test_loop");
    fs::copy(corpus.join("etm_test_loop"), &program).unwrap();
    let path = folder.path().join("perf.data");
    fs::write(&path, rewritten(&Capture::open(corpus.join("perf_etm.data")).unwrap(), &program)).unwrap();

    let ours = branches(&path);
    let output = Command::new(perf).args(["script", "--itrace=b", "-F", "ip,addr", "-i"]).arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let hex = |word: &str| u64::from_str_radix(word.trim(), 16).unwrap_or_else(|_| panic!("{word}\n{text}{errors}"));
    let theirs = text.lines().filter_map(|line| line.split_once("=>")).map(|(from, to)| (hex(from), hex(to)));
    // perf shows where trace starts and ends as branches from and to 0.
    let theirs: Vec<(u64, u64)> = theirs.filter(|(from, to)| *from != 0 && *to != 0).collect();
    assert!(ours.len() > 200, "{} branches\n{errors}", ours.len());
    assert_eq!(ours, theirs, "{errors}");
}

/// Taken branches of a recording whose targets are known.
fn branches(path: &Path) -> Vec<(u64, u64)> {
    let capture = Capture::open(path).unwrap();
    let (program, _) = Program::of(&capture, None, &[]);
    let (mut branches, mut present) = (Branches::default(), PresentIds::default());
    for trace in Trace::all(&capture).iter().filter(|trace| present.may_have(trace)) {
        trace.flow(Transactions::Show, &program, &mut branches).unwrap();
    }
    branches.taken
}
