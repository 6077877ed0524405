//! Steps of everything that can be opened: the shipped examples, and the captures, traces and logs of the corpus.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool::capture::Capture;
use unspool::coresight::Transactions;
use unspool::flow::{FlowItem, FlowSink, Run};
use unspool::model::{Coverage, Event, Facet, Instruction, Pull, Step};
use unspool::stf;
use unspool::stf::lift::Follower;
use unspool::tarmac;
use unspool::{Error, FileKind, OpenSteps, OpenedSteps, Program, Trace, Watch, open_steps};
use unspool_testing::{corpus, example};

use super::fixtures::{assert_stops, brief, collect};

fn open(path: &Path, source: Option<&str>) -> Result<OpenedSteps, Error> {
    open_steps(path, &OpenSteps { source: source.map(Into::into), ..OpenSteps::default() })
}

/// All steps of a path, none of which exceeds the coverage.
fn steps(path: &Path, source: Option<&str>) -> Vec<Step> {
    let source = open(path, source).unwrap();
    let coverage = source.coverage();
    let steps = collect(source);
    steps.iter().for_each(|step| assert_covered(step, coverage, path));
    steps
}

fn assert_covered(step: &Step, coverage: Coverage, path: &Path) {
    let of_event = match step.event {
        Event::Exception(_) | Event::ExceptionReturn { .. } => Some(Facet::Exceptions),
        Event::Instruction(Instruction { is_executed: Some(_), .. }) => Some(Facet::Conditions),
        _ => None,
    };
    let facets = [
        (step.time.is_some(), Facet::Times),
        // Register contents that no instruction caused are not effects.
        (step.registers().len() > 0 && step.event != Event::State, Facet::Registers),
        (step.accesses().len() > 0, Facet::Accesses),
        (step.accesses().any(|access| !access.bytes.is_empty()), Facet::Data),
    ];
    let present = facets.into_iter().filter(|(is_present, _)| *is_present).map(|(_, facet)| facet);
    for facet in present.chain(of_event) {
        assert!(coverage.has(facet), "{}: {facet:?} at {}", path.display(), step.position);
    }
}

fn instructions(steps: &[Step]) -> Vec<Instruction> {
    steps.iter().filter_map(|step| step.event.instruction().copied()).collect()
}

#[test]
fn example_capture_has_the_expected_steps() {
    let rows = [
        (None, "Start, EL0 process 1234"),
        (
            Some(0x12_3400),
            "400000, 400004, 400008 -> 400028, 400028, 40002c -> 40000c, 40000c, 400010, 400014 -> 400008",
        ),
        (Some(0x12_3400), "400008 -> 400028, 400028, 40002c -> 40000c, 40000c, 400010, 400014 -> 400008"),
        (Some(0x12_3400), "400008 -> 400028, 400028, 40002c -> 40000c, 40000c, 400010, 400014 not taken"),
        (Some(0x12_3400), "400018, Synchronous from 40001c to ffff800000080400, EL1 process 1234"),
        (Some(0x12_3400), "ffff800000080400, ffff800000080404 -> ffff80000008040c, ffff80000008040c -> 40001c"),
        (Some(0x12_3400), "return to 40001c, EL0 process 1234"),
        (Some(0x12_3478), "40001c not taken, 400020, 400024 -> 400020, 400020, Irq from 400024 to ?"),
        (Some(0x12_3478), "Discard, Overflow, Start, EL0 process 1234"),
        (
            Some(0x12_9000),
            "400000, 400004, 400008 -> 400028, 400028, 40002c -> 40000c, 40000c, 400010, 400014 -> 400008",
        ),
        (Some(0x12_9000), "400008 -> 400028, 400028, 40002c -> 40000c, 40000c, 400010, 400014 -> 400008, note event 0"),
    ];
    let expected: Vec<_> =
        rows.iter().flat_map(|(time, events)| events.split(", ").map(|event| (*time, event.to_string()))).collect();
    let steps = steps(&example("hello-ete"), Some("0x10"));
    let found: Vec<_> = steps.iter().map(|step| (step.time, brief(step))).collect();
    assert_eq!(found, expected);
}

#[test]
fn coverage_of_the_examples() {
    let capture = open(&example("hello-ete"), Some("0x10")).unwrap().coverage();
    let expected = "instructions, opcodes, branches, exceptions, levels, security, processes, times";
    assert_eq!(capture.to_string(), expected);
    let astf = open(&example("example.astf"), None).unwrap().coverage();
    assert!(astf.has(Facet::Accesses) && !astf.has(Facet::Data));
    assert_eq!(capture.and(astf), capture);
}

#[test]
fn source_has_to_be_named() {
    let open_example = |source| open(&example("hello-ete"), source).map(drop);
    assert!(matches!(open_example(None), Err(Error::WhichSource { .. })));
    assert!(matches!(open_example(Some("absent")), Err(Error::NoSource { .. })));
    assert!(open_example(Some("18")).is_ok());
    assert!(open_example(Some("ETE_0")).is_ok());
    assert!(matches!(open(Path::new("/nonexistent/file"), None).map(drop), Err(Error::File(_))));
}

#[test]
fn pulled_steps_are_the_same() {
    let path = example("hello-ete");
    let open = || open(&path, Some("0x10")).unwrap();
    let expected = collect(open());
    let mut pull = Pull::new(open()).unwrap();
    let mut found = Vec::new();
    while let Some(step) = pull.next_step().unwrap() {
        found.push(step.clone());
    }
    assert_eq!(found, expected);
    assert_stops(open, expected.len());
}

/// Number of executed instructions.
#[derive(Default)]
struct Count(u64);

impl FlowSink for Count {
    fn run(&mut self, run: Run<'_>) {
        self.0 += run.instructions();
    }

    fn item(&mut self, _item: FlowItem) {}
}

impl Watch for Count {}

#[test]
fn corpus_captures_have_as_many_instructions_as_their_flow() {
    let Some(folder) = corpus("coresight") else { return };
    let (mut sources, mut all) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(capture) = Capture::open(&path) else { continue };
        let mut names: Vec<String> = Trace::all(&capture).iter().map(|trace| trace.source().name.clone()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let traces = Trace::all(&capture).into_iter().filter(|trace| trace.source().name == name);
            let mut count = Count::default();
            let mut read = traces.map(|trace| {
                let (program, _) = Program::of(&capture, trace.source().core, &[]);
                trace.flow(Transactions::Show, &program, &mut count).is_ok()
            });
            if !read.all(|is_read| is_read) {
                continue;
            }
            let found = steps(&path, Some(&name));
            assert_eq!(instructions(&found).len() as u64, count.0, "{}: {name}", path.display());
            let is_repeated_gap =
                |pair: &[Step]| matches!(pair[0].event, Event::Gap(gap) if pair[1].event == Event::Gap(gap));
            assert!(!found.windows(2).any(is_repeated_gap));
            (sources, all) = (sources + 1, all + count.0);
        }
    }
    assert!(sources > 10 && all > 100_000, "{sources} sources, {all} instructions");
}

/// Number of instructions of a log, by its lines.
fn instructions_of_log(path: &Path) -> u64 {
    let mut reader =
        tarmac::read::Reader::new(File::open(path).unwrap(), tarmac::read::ReadOptions::default()).unwrap();
    let mut count = 0;
    let _ = reader.each(|_, line| {
        let is_instruction =
            matches!(line.record, tarmac::Record::Instruction(instruction) if instruction.address.is_some());
        count += u64::from(is_instruction);
        ControlFlow::Continue(())
    });
    count
}

#[test]
fn corpus_logs_have_as_many_instructions_as_lines() {
    let Some(folder) = corpus("tarmac") else { return };
    let mut logs = 0;
    for path in walk(&folder) {
        if FileKind::at(&path).is_ok_and(|kind| kind == FileKind::Tarmac) {
            assert_eq!(instructions(&steps(&path, None)).len() as u64, instructions_of_log(&path), "{path:?}");
            logs += 1;
        }
    }
    assert!(logs >= 5, "{logs}");
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Two producers write the same run of the same program.
#[test]
fn corpus_two_logs_of_one_run_have_the_same_instructions() {
    let Some(folder) = corpus("tarmac") else { return };
    let of = |name: &str| steps(&folder.join(name), None);
    let (one, other) = (of("calculator-aarch64-es-ld-st-style.tarmac"), of("calculator-aarch64-fastmodel.tarmac"));
    let (first, second) = (instructions(&one), instructions(&other));
    assert!(first.len() > 1000);
    // One of them stops earlier.
    let both = first.len().min(second.len());
    assert!(first.len().max(second.len()) - both < 2, "{} {}", first.len(), second.len());
    // The outcome of the last branch is not known where a log ends.
    for at in 0..both - 1 {
        assert_eq!(first[at], second[at], "instruction {at}");
    }
    assert!(first.iter().filter(|instruction| instruction.branch.is_some_and(|branch| branch.taken)).count() > 100);
    assert!(first.iter().any(|instruction| instruction.branch.is_some_and(|branch| !branch.taken)));
    // The bytes that each instruction writes are the same too, however the producer splits them.
    let written = |steps: &[Step]| -> Vec<Vec<(u64, u8)>> {
        let of = |step: &Step| {
            let bytes = step.accesses().flat_map(|access| (access.address..).zip(access.bytes.to_vec()));
            let mut bytes: Vec<(u64, u8)> = bytes.map(|(at, byte)| (at, byte.0)).collect();
            bytes.sort();
            bytes
        };
        steps.iter().filter(|step| step.event.instruction().is_some()).map(of).collect()
    };
    assert_eq!(written(&one)[..both], written(&other)[..both]);
}

#[test]
fn corpus_stf_has_as_many_instructions_as_its_reader() {
    let Some(folder) = corpus("stf") else { return };
    let (mut traces, mut all) = (0, 0);
    for path in walk(&folder) {
        if path.components().any(|part| part.as_os_str() == "negative") || FileKind::at(&path).unwrap() != FileKind::Stf
        {
            continue;
        }
        let options = stf::read::ReadOptions { threads: 1 };
        let Ok(mut reader) = stf::read::Reader::seekable(File::open(&path).unwrap(), options) else { continue };
        let mut addresses = Vec::new();
        let read = reader.each_instruction(&mut Follower::default(), |instruction| {
            addresses.push(instruction.pc);
            if addresses.len() < 100_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if read.is_err() {
            continue;
        }
        let mut source = open(&path, None).unwrap();
        let coverage = source.coverage();
        let mut found = Vec::new();
        let ended = source.each(&mut |step| {
            assert_covered(step, coverage, &path);
            found.extend(step.event.instruction().map(|instruction| instruction.address));
            if found.len() < addresses.len() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(ended.is_ok());
        assert_eq!(found, addresses, "{}", path.display());
        (traces, all) = (traces + 1, all + found.len());
    }
    assert!(traces > 3 && all > 10_000, "{traces} traces, {all} instructions");
}
