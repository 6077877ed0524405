//! Blocks are the same as the steps of their instructions, and passes over shards have the result of one pass.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool::model::{BlockSink, BlockTrace, Step, StepSource};
use unspool::{CaptureSteps, Counted, FileKind, Meter, OpenSteps, Parts, Trace, count_steps, open_capture, open_steps};
use unspool_testing::{corpus, example, note};

/// A checksum of steps, so that long traces need no memory; the first steps as text.
#[derive(Default, PartialEq, Debug)]
struct Seen {
    sum: u64,
    steps: u64,
    first: Vec<String>,
    in_blocks: u64,
}

impl Seen {
    fn add(&mut self, step: &Step) {
        self.steps += 1;
        let text = format!("{step:?}");
        for byte in text.bytes() {
            self.sum = (self.sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.first.len() < 2000 {
            self.first.push(text);
        }
    }
}

impl BlockSink for Seen {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.add(step);
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.in_blocks += trace.instructions() as u64;
        trace.each_step(|step| self.step(step))
    }

    fn wants_accesses(&self) -> bool {
        true
    }
}

/// Reads a source step by step and in blocks. Returns the numbers of steps and of instructions that came in blocks.
fn compare(name: &str, open: impl Fn() -> Box<dyn StepSource>) -> (u64, u64) {
    let (mut expected, mut found) = (Seen::default(), Seen::default());
    let ended = open().each(&mut |step| expected.step(step)).map_err(|error| error.to_string());
    assert_eq!(open().follow(&mut found).map_err(|error| error.to_string()), ended, "{name}");
    for (index, (found, expected)) in found.first.iter().zip(&expected.first).enumerate() {
        assert_eq!(found, expected, "{name}: step {index}");
    }
    assert_eq!((found.steps, found.sum), (expected.steps, expected.sum), "{name}");
    (found.steps, found.in_blocks)
}

/// Names of the sources of a capture with instructions.
fn sources(path: &Path) -> Vec<String> {
    let capture = open_capture(path).unwrap();
    let mut names: Vec<String> = Trace::all(&capture)
        .iter()
        .filter(|trace| trace.has_instructions())
        .map(|trace| trace.source().name.clone())
        .collect();
    names.dedup();
    names
}

fn each_capture(folder: &Path, mut take: impl FnMut(&Path, &str)) {
    let mut paths: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| matches!(FileKind::at(path), Ok(FileKind::Capture))) {
        sources(path).iter().for_each(|name| take(path, name));
    }
}

fn compare_captures(folder: &Path) -> (u64, u64) {
    let mut total = (0, 0);
    each_capture(folder, |path, source| {
        let options = OpenSteps { source: Some(source.to_string()), ..OpenSteps::default() };
        let Ok(_) = open_steps(path, &options) else { return };
        let found = compare(&format!("{} {source}", path.display()), || open_steps(path, &options).unwrap());
        total = (total.0 + found.0, total.1 + found.1);
    });
    total
}

#[test]
fn blocks_are_the_steps_of_their_instructions() {
    let (steps, in_blocks) = compare_captures(&example("."));
    assert!(in_blocks > 150, "{in_blocks} of {steps}");
    let (_, in_blocks) =
        compare("example.astf", || open_steps(&example("example.astf"), &OpenSteps::default()).unwrap());
    assert_eq!(in_blocks, 0, "nothing repeats in it");
}

#[test]
fn blocks_of_the_corpus_are_the_steps_of_their_instructions() {
    let Some(folder) = corpus("coresight") else { return };
    let (steps, in_blocks) = compare_captures(&folder);
    note(format_args!("{in_blocks} instructions in blocks, {steps} steps"));
    assert!(in_blocks > steps / 2, "{in_blocks} of {steps}");
}

/// All numbers of a report as text.
fn text(counted: &Counted) -> String {
    let mut text = Vec::new();
    counted.report.write_json("", counted.unit, None, &|_| true, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn compare_shards(folder: &Path) -> usize {
    let mut sources = 0;
    each_capture(folder, |path, source| {
        let open = || CaptureSteps::new(open_capture(path).unwrap(), Some(source), &[]);
        let Ok(mut steps) = open() else { return };
        let mut by_steps = StepByStep(&mut steps);
        let expected = text(&count_steps(&mut by_steps, &Meter::default(), &mut |_, _| {}));
        for (threads, bytes) in [(1, 1 << 20), (2, 64), (3, 500), (4, 4096)] {
            let found = text(&open().unwrap().count(Parts::on(threads).of_bytes(bytes)));
            assert_eq!(found, expected, "{} {source}: {threads} threads, {bytes} bytes", path.display());
        }
        sources += 1;
    });
    sources
}

/// A source that hands over no blocks.
struct StepByStep<'s>(&'s mut CaptureSteps);

impl StepSource for StepByStep<'_> {
    fn coverage(&self) -> unspool::model::Coverage {
        self.0.coverage()
    }

    fn time_unit(&self) -> unspool::model::TimeUnit {
        self.0.time_unit()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), unspool::model::SourceError> {
        self.0.each(take)
    }
}

#[test]
fn statistics_do_not_depend_on_shards() {
    assert!(compare_shards(&example(".")) >= 2);
}

#[test]
fn statistics_of_the_corpus_do_not_depend_on_shards() {
    let Some(folder) = corpus("coresight") else { return };
    note(format_args!("{} sources", compare_shards(&folder)));
}
