//! Whatever is opened gives steps: the shipped examples, and real captures, traces and logs where `UNSPOOL_CORPUS` names
//! the folder that has them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use unspool::coresight::Transactions;

use unspool::capture::Capture;
use unspool::flow::{FlowItem, FlowSink, Run};
use unspool::model::{Event, Facet, Gap, Instruction, Pull, Step};
use unspool::stf;
use unspool::stf::lift::Follower;
use unspool::tarmac;
use unspool::{Error, FileKind, OpenSteps, Program, Trace, Watch, open_steps};
use unspool_testing::{corpus, example};

/// All steps of a path.
fn steps(path: &Path, source: Option<&str>) -> Vec<Step> {
    let mut found = open_steps(path, &OpenSteps { source: source.map(Into::into), ..OpenSteps::default() }).unwrap();
    let mut steps = Vec::new();
    let coverage = found.coverage();
    let ended = found.each(&mut |step| {
        tells_no_more_than(step, coverage, path);
        steps.push(step.clone());
        ControlFlow::Continue(())
    });
    assert!(ended.is_ok(), "{}: {ended:?}", path.display());
    steps
}

/// A source does not tell what it said it could not.
fn tells_no_more_than(step: &Step, coverage: unspool::model::Coverage, path: &Path) {
    let what = match step.event {
        Event::Exception(_) | Event::ExceptionReturn { .. } => Some(Facet::Exceptions),
        Event::Instruction(Instruction { is_executed: Some(_), .. }) => Some(Facet::Conditions),
        _ => None,
    };
    let told = [
        (step.time.is_some(), Facet::Times),
        // Contents that no instruction caused are no effects.
        (step.registers().len() > 0 && step.event != Event::State, Facet::Registers),
        (step.accesses().len() > 0, Facet::Accesses),
        (step.accesses().any(|access| !access.bytes.is_empty()), Facet::Data),
    ];
    let told = told.into_iter().filter(|(is_told, _)| *is_told).map(|(_, facet)| facet).chain(what);
    for facet in told {
        assert!(coverage.has(facet), "{}: {facet:?} at {}", path.display(), step.position);
    }
}

fn instructions(steps: &[Step]) -> Vec<Instruction> {
    steps.iter().filter_map(|step| step.event.instruction().copied()).collect()
}

/// A step as a line.
fn text(step: &Step) -> String {
    let target = |target: Option<u64>| target.map_or("?".to_string(), |target| format!("{target:x}"));
    let event = match step.event {
        Event::Instruction(Instruction { address, branch, .. }) => match branch {
            Some(branch) if branch.taken => format!("{address:x} -> {}", target(branch.target)),
            Some(_) => format!("{address:x} not taken"),
            None => format!("{address:x}"),
        },
        Event::Context(context) => format!("EL{} process {:x}", context.level.unwrap(), context.process.unwrap()),
        Event::Exception(exception) => {
            format!("{:?} from {} to {}", exception.kind, target(exception.return_address), target(exception.target))
        }
        Event::ExceptionReturn { target: to } => format!("return to {}", target(to)),
        Event::Gap(gap) => format!("{gap:?}"),
        Event::State => "state".into(),
        Event::Note => format!("note {}", step.note()),
    };
    step.time.map_or(event.clone(), |time| format!("{time:x}: {event}"))
}

#[test]
fn the_example_capture() {
    let found: Vec<String> = steps(&example("hello-ete"), Some("0x10")).iter().map(text).collect();
    let expected = [
        "Start",
        "EL0 process 1234",
        "123400: 400000",
        "123400: 400004",
        "123400: 400008 -> 400028",
        "123400: 400028",
        "123400: 40002c -> 40000c",
        "123400: 40000c",
        "123400: 400010",
        "123400: 400014 -> 400008",
        "123400: 400008 -> 400028",
        "123400: 400028",
        "123400: 40002c -> 40000c",
        "123400: 40000c",
        "123400: 400010",
        "123400: 400014 -> 400008",
        "123400: 400008 -> 400028",
        "123400: 400028",
        "123400: 40002c -> 40000c",
        "123400: 40000c",
        "123400: 400010",
        "123400: 400014 not taken",
        "123400: 400018",
        "123400: Synchronous from 40001c to ffff800000080400",
        "123400: EL1 process 1234",
        "123400: ffff800000080400",
        "123400: ffff800000080404 -> ffff80000008040c",
        "123400: ffff80000008040c -> 40001c",
        "123400: return to 40001c",
        "123400: EL0 process 1234",
        "123478: 40001c not taken",
        "123478: 400020",
        "123478: 400024 -> 400020",
        "123478: 400020",
        "123478: Irq from 400024 to ?",
        "123478: Discard",
        "123478: Overflow",
        "123478: Start",
        "123478: EL0 process 1234",
        "129000: 400000",
        "129000: 400004",
        "129000: 400008 -> 400028",
        "129000: 400028",
        "129000: 40002c -> 40000c",
        "129000: 40000c",
        "129000: 400010",
        "129000: 400014 -> 400008",
        "129000: 400008 -> 400028",
        "129000: 400028",
        "129000: 40002c -> 40000c",
        "129000: 40000c",
        "129000: 400010",
        "129000: 400014 -> 400008",
        "129000: note event 0",
    ];
    assert_eq!(found, expected);
}

#[test]
fn coverage_of_the_examples() {
    let options = OpenSteps { source: Some("0x10".into()), ..OpenSteps::default() };
    let capture = open_steps(&example("hello-ete"), &options).unwrap().coverage();
    let told = "instructions, opcodes, branches, exceptions, levels, security, processes, times";
    assert_eq!(capture.to_string(), told);
    let astf = open_steps(&example("example.astf"), &options).unwrap().coverage();
    assert!(astf.has(Facet::Accesses) && !astf.has(Facet::Data));
    assert_eq!(capture.and(astf), capture);
}

#[test]
fn a_source_has_to_be_named() {
    let open = |source: Option<&str>| {
        let options = OpenSteps { source: source.map(Into::into), ..OpenSteps::default() };
        open_steps(&example("hello-ete"), &options).map(|_| ())
    };
    assert!(matches!(open(None), Err(Error::WhichSource { .. })));
    assert!(matches!(open(Some("nobody")), Err(Error::NoSource { .. })));
    assert!(open(Some("18")).is_ok());
    assert!(open(Some("ETE_0")).is_ok());
    let absent = open_steps(Path::new("/nonexistent/file"), &OpenSteps::default());
    assert!(matches!(absent.map(|_| ()), Err(Error::File { .. })));
}

#[test]
fn steps_when_asked() {
    let path = example("hello-ete");
    let options = OpenSteps { source: Some("0x10".into()), ..OpenSteps::default() };
    let expected = steps(&path, Some("0x10"));
    let mut pull = Pull::new(Boxed(open_steps(&path, &options).unwrap())).unwrap();
    let mut found = Vec::new();
    while let Some(step) = pull.next_step().unwrap() {
        found.push(step.clone());
    }
    assert_eq!(found, expected);
    for stop in 1..expected.len() {
        let mut count = 0;
        let mut source = open_steps(&path, &options).unwrap();
        let ended = source.each(&mut |_| {
            count += 1;
            if count < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(ended.is_ok());
        assert_eq!(count, stop);
    }
}

struct Boxed(Box<dyn unspool::model::StepSource + Send>);

impl unspool::model::StepSource for Boxed {
    fn coverage(&self) -> unspool::model::Coverage {
        self.0.coverage()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), unspool::model::SourceError> {
        self.0.each(take)
    }
}

/// Counts what was executed.
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
            assert!(
                found
                    .windows(2)
                    .all(|pair| !matches!(pair[0].event, Event::Gap(gap) if pair[1].event == Event::Gap(gap)))
            );
            (sources, all) = (sources + 1, all + count.0);
        }
    }
    assert!(sources > 10 && all > 100_000, "{sources} sources, {all} instructions");
}

/// How many instructions a log has, by its lines.
fn instructions_of_log(path: &Path) -> u64 {
    let mut reader =
        tarmac::read::Reader::new(File::open(path).unwrap(), tarmac::read::ReadOptions::default()).unwrap();
    let mut count = 0;
    let is_one = |line: &tarmac::Line<'_>| matches!(line.record, tarmac::Record::Instruction(instruction) if instruction.address.is_some());
    let _ = reader.each(|_, line| {
        count += u64::from(is_one(line));
        ControlFlow::Continue(())
    });
    count
}

#[test]
fn corpus_logs_have_as_many_instructions_as_lines() {
    let Some(folder) = corpus("tarmac") else { return };
    let mut logs = 0;
    for entry in walk(&folder) {
        if FileKind::at(&entry).is_ok_and(|what| what == FileKind::Tarmac) {
            assert_eq!(instructions(&steps(&entry, None)).len() as u64, instructions_of_log(&entry), "{entry:?}");
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
    // What became of the last branch is not known where a log ends.
    for at in 0..both - 1 {
        assert_eq!(first[at], second[at], "instruction {at}");
    }
    assert!(first.iter().filter(|instruction| instruction.branch.is_some_and(|branch| branch.taken)).count() > 100);
    assert!(first.iter().any(|instruction| instruction.branch.is_some_and(|branch| !branch.taken)));
    // The bytes that each instruction writes are the same too, however the producer cuts them.
    let written = |steps: &[Step]| -> Vec<Vec<(u64, u8)>> {
        let of = |step: &Step| {
            let mut bytes: Vec<(u64, u8)> = step
                .accesses()
                .flat_map(|access| {
                    (access.address..).zip(access.bytes).map(|(at, byte)| (at, byte.0)).collect::<Vec<_>>()
                })
                .collect();
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
        let mut follower = Follower::default();
        let mut addresses = Vec::new();
        let read = reader.each_instruction(&mut follower, |instruction| {
            addresses.push(instruction.pc);
            if addresses.len() < 100_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if read.is_err() {
            continue;
        }
        let mut source = open_steps(&path, &OpenSteps::default()).unwrap();
        let coverage = source.coverage();
        let mut found = Vec::new();
        let ended = source.each(&mut |step| {
            tells_no_more_than(step, coverage, &path);
            found.extend(step.event.instruction().map(|instruction| instruction.address));
            if found.len() < addresses.len() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(ended.is_ok());
        assert_eq!(found, addresses, "{}", path.display());
        (traces, all) = (traces + 1, all + found.len());
    }
    assert!(traces > 3 && all > 10_000, "{traces} traces, {all} instructions");
}

#[test]
fn corpus_gaps_are_told() {
    let Some(folder) = corpus("coresight") else { return };
    let found = steps(&folder.join("juno_r1_1"), Some("ETM_0"));
    assert!(found.iter().any(|step| step.event == Event::Gap(Gap::Start)));
}
