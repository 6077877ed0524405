//! Helpers that several tests share: snapshots of the corpus, bare buffers, collected steps and flow.

use std::fmt::Debug;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use tempfile::TempDir;
use unspool::capture::{BufferFormat, Capture, Registers};
use unspool::coresight::Protocol;
use unspool::flow::{FlowItem, FlowSink, Run};
use unspool::model::{Event, Instruction, Losses, Step, StepSource};
use unspool::{Bare, Trace, Watch, open_bare};
use unspool_testing::corpus;

/// Snapshots of the corpus with ETE or ETMv4 trace, sorted; `None`: skipped.
pub(crate) fn snapshots() -> Option<Vec<PathBuf>> {
    let folder = corpus("coresight")?;
    let mut all: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.join("snapshot.ini").is_file());
    all.retain(|path| !etm4_traces(&Capture::open(path).unwrap()).is_empty());
    all.sort();
    assert!(all.len() > 20, "{} has only {} snapshots of ETE and ETMv4", folder.display(), all.len());
    Some(all)
}

/// ETE and ETMv4 traces of a capture.
pub(crate) fn etm4_traces(capture: &Capture) -> Vec<Trace<'_>> {
    Trace::all(capture).into_iter().filter(is_etm4).collect()
}

pub(crate) fn is_etm4(trace: &Trace<'_>) -> bool {
    matches!(trace.source().protocol, Some(Protocol::Ete | Protocol::Etm4))
}

/// Capture of one ETE buffer with the trace id 0x10, and its folder.
pub(crate) fn bare_capture(bytes: &[u8], format: BufferFormat, registers: Registers) -> (TempDir, Capture) {
    bare_capture_of(Protocol::Ete, bytes, format, registers)
}

/// Capture of one buffer with the trace id 0x10, and its folder.
pub(crate) fn bare_capture_of(
    protocol: Protocol,
    bytes: &[u8],
    format: BufferFormat,
    registers: Registers,
) -> (TempDir, Capture) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("buffer.bin");
    fs::write(&path, bytes).unwrap();
    let (id, format) = (Some(0x10), Some(format));
    let bare = Bare { protocol, id, format, registers, write_pointer: None, wrapped: None, core: None };
    (folder, open_bare(&[path], bare).unwrap())
}

/// Everything that decoding produces, one line per range or item.
#[derive(Default)]
pub(crate) struct FlowLines(pub(crate) Vec<String>);

impl FlowSink for FlowLines {
    fn run(&mut self, run: Run<'_>) {
        let offset = run.offset();
        self.0.extend(run.ranges().map(|range| format!("{offset:#x} {range:?} {}", range.instructions())));
    }

    fn item(&mut self, item: FlowItem) {
        self.0.push(format!("{item:?}"));
    }
}

impl Watch for FlowLines {}

/// Asserts that two lists are equal, and shows the items around the first difference.
pub(crate) fn assert_same<T: PartialEq + Debug>(name: &str, found: &[T], expected: &[T]) {
    if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
        let around = |items: &[T]| format!("{:x?}", &items[at.saturating_sub(3)..(at + 3).min(items.len())]);
        panic!("{name}: item {at}\n  found    {}\n  expected {}", around(found), around(expected));
    }
    assert_eq!(found.len(), expected.len(), "{name}: number of items");
}

/// All steps of a source, which must not be damaged.
pub(crate) fn collect(source: impl StepSource) -> Vec<Step> {
    collect_with_losses(source).0
}

/// All steps of a source, and the facts that they do not carry.
pub(crate) fn collect_with_losses(mut source: impl StepSource) -> (Vec<Step>, Losses) {
    let mut steps = Vec::new();
    let ended = source.each(&mut |step| {
        steps.push(step.clone());
        ControlFlow::Continue(())
    });
    ended.unwrap();
    (steps, source.losses())
}

/// A source stops at every step at which its consumer stops.
pub(crate) fn assert_stops<S: StepSource>(open: impl Fn() -> S, steps: usize) {
    for stop in 1..=steps {
        let mut found = 0;
        let ended = open().each(&mut |_| {
            found += 1;
            if found < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(ended.is_ok());
        assert_eq!(found, stop);
    }
}

/// Event of a step of a capture, in a few words.
pub(crate) fn brief(step: &Step) -> String {
    let hex = |number: Option<u64>| number.map_or("?".to_string(), |number| format!("{number:x}"));
    match step.event {
        Event::Instruction(Instruction { address, branch, .. }) => match branch {
            Some(branch) if branch.taken => format!("{address:x} -> {}", hex(branch.target)),
            Some(_) => format!("{address:x} not taken"),
            None => format!("{address:x}"),
        },
        Event::Context(context) => {
            let process = context.process.map_or(String::new(), |process| format!(" process {process:x}"));
            let level = context.level.map_or("?".to_string(), |level| level.to_string());
            format!("EL{level}{process}")
        }
        Event::Exception(exception) => {
            format!("{:?} from {} to {}", exception.kind, hex(exception.return_address), hex(exception.target))
        }
        Event::ExceptionReturn { target } => format!("return to {}", hex(target)),
        Event::Gap(gap) => format!("{gap:?}"),
        Event::State => "state".into(),
        Event::Note => format!("note {}", step.note()),
    }
}
