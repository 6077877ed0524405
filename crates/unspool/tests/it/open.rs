//! `unspool::open`: iterators over any kind of opened agree with the sinks, and with each other.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool::analyze::calls::Call;
use unspool::analyze::step_selection::StepSelection;
use unspool::capture::Capture;
use unspool::model::{Event, Step};
use unspool::{Error, FileKind, OpenSteps, Opened, Trace, open, open_steps};
use unspool_testing::example;

/// A log of two cores, of which the first one loops.
const LOG: &str = "Tarmac Text Rev 3t\n\
                   1 clk cpu0 IT (1) 00008000 d503201f O EL1h_n : NOP\n\
                   2 clk cpu1 IT (1) 00009000 d503201f O EL1h_n : NOP\n\
                   3 clk cpu0 IT (2) 00008004 17ffffff O EL1h_n : B 0x8000\n\
                   4 clk cpu0 IT (3) 00008000 d503201f O EL1h_n : NOP\n\
                   4 clk cpu0 R X0 00000000_00000001\n";

/// Every kind of opened.
fn files(folder: &Path) -> Vec<PathBuf> {
    let log = folder.join("run.log");
    fs::write(&log, LOG).unwrap();
    let stf = folder.join("hello.stf");
    crate::examples::converted(&example("hello-qemu"), &stf);
    vec![example("hello-qemu"), example("hello-ete"), example("example.astf"), log, stf]
}

/// Steps of a source, by the sink.
fn pushed(path: &Path, source: Option<&str>) -> Vec<Step> {
    let options = OpenSteps { source: source.map(str::to_string), ..OpenSteps::default() };
    let mut steps = Vec::new();
    let mut source = open_steps(path, &options).unwrap();
    source
        .each(&mut |step| {
            steps.push(step.clone());
            ControlFlow::Continue(())
        })
        .unwrap();
    steps
}

#[test]
fn iterators_have_what_sinks_get() {
    let folder = tempfile::tempdir().unwrap();
    for path in files(folder.path()) {
        let opened = open(&path).unwrap();
        let sources = opened.sources();
        let expected: Vec<Step> = match sources.is_empty() {
            true => pushed(&path, None),
            false => {
                let numbered = (0..).zip(&sources).flat_map(|(core, source)| {
                    pushed(&path, Some(source)).into_iter().map(move |step| {
                        let mut step = step;
                        step.core = core;
                        step
                    })
                });
                numbered.collect()
            }
        };
        assert!(!expected.is_empty(), "{path:?}");
        let steps: Vec<Step> = opened.steps().unwrap().map(Result::unwrap).collect();
        assert_eq!(steps, expected, "{path:?}");
        let mut each = Vec::new();
        let keep = |step: &Step| {
            each.push(step.clone());
            ControlFlow::Continue(())
        };
        opened.each_step(keep).unwrap();
        assert_eq!(each, expected, "{path:?}");
        assert_instructions(&opened, &expected);
    }
}

/// Asserts that instructions and blocks are those of the steps.
#[track_caller]
fn assert_instructions(opened: &Opened, steps: &[Step]) {
    let expected: Vec<_> = steps.iter().filter_map(|step| Some((step.core, *step.event.instruction()?))).collect();
    let instructions: Vec<_> = opened.instructions().unwrap().map(Result::unwrap).collect();
    let found: Vec<_> = instructions.iter().map(|executed| (executed.core, executed.instruction)).collect();
    assert_eq!(found, expected);
    let blocks: Vec<_> = opened.blocks().unwrap().map(Result::unwrap).collect();
    let count: u64 = blocks.iter().map(|block| u64::from(block.instructions)).sum();
    assert_eq!(count, expected.len() as u64);
    for core in 0..=1 {
        // The blocks of each core tile its instructions.
        let mut addresses =
            expected.iter().filter(|(number, _)| *number == core).map(|(_, it)| (it.address, it.length));
        for block in blocks.iter().filter(|block| block.core == core) {
            let mut at = block.start;
            for _ in 0..block.instructions {
                let (address, length) = addresses.next().unwrap();
                assert_eq!(address, at, "{block:?}");
                at += u64::from(length);
            }
            assert_eq!(at, block.end);
        }
        assert_eq!(addresses.next(), None);
    }
    let gaps = |list: &mut dyn Iterator<Item = bool>| list.filter(|follows| *follows).count();
    let starts = gaps(&mut instructions.iter().map(|executed| executed.follows_gap));
    assert_eq!(starts, gaps(&mut blocks.iter().map(|block| block.follows_gap)));
    let cores = expected.iter().map(|(core, _)| core).max().map_or(0, |core| core + 1);
    assert!(starts >= cores as usize);
}

#[test]
fn blocks_of_a_log_end_at_branches_and_do_not_mix_cores() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    fs::write(&path, LOG).unwrap();
    let blocks = open(&path).unwrap().blocks().unwrap().map(Result::unwrap);
    let blocks: Vec<_> =
        blocks.map(|block| (block.core, block.start, block.end, block.instructions, block.taken)).collect();
    let expected = [(0, 0x8000, 0x8008, 2, true), (0, 0x8000, 0x8004, 1, false), (1, 0x9000, 0x9004, 1, false)];
    assert_eq!(blocks, expected);
}

#[test]
fn a_selection_leaves_gaps_and_is_the_same_for_instructions_and_blocks() {
    let folder = tempfile::tempdir().unwrap();
    for path in files(folder.path()) {
        let whole = open(&path).unwrap();
        let all: Vec<_> = whole.instructions().unwrap().map(Result::unwrap).collect();
        let addresses = all[0].address..all[0].address + 8;
        let expected: Vec<_> = all.iter().filter(|it| addresses.contains(&it.address)).map(|it| it.position).collect();
        let selection = StepSelection { addresses: vec![addresses], ..StepSelection::default() };
        let part = whole.clone().with_selection(selection);
        let found: Vec<_> = part.instructions().unwrap().map(Result::unwrap).collect();
        assert_eq!(found.iter().map(|it| it.position).collect::<Vec<_>>(), expected, "{path:?}");
        let blocks: Vec<_> = part.blocks().unwrap().map(Result::unwrap).collect();
        assert_eq!(blocks.iter().map(|block| block.instructions as usize).sum::<usize>(), expected.len(), "{path:?}");
        let gaps = found.iter().filter(|it| it.follows_gap).count();
        assert_eq!(blocks.iter().filter(|block| block.follows_gap).count(), gaps, "{path:?}");
        // All addresses are a selection too, and blocks of a capture come another way then.
        let every = StepSelection { addresses: std::iter::once(0..u64::MAX).collect(), ..StepSelection::default() };
        let every: Vec<_> = whole.clone().with_selection(every).blocks().unwrap().map(Result::unwrap).collect();
        assert_eq!(every, whole.blocks().unwrap().map(Result::unwrap).collect::<Vec<_>>(), "{path:?}");
    }
    let levels = StepSelection { processes: vec![1], ..StepSelection::default() };
    let mut steps = open(example("hello-qemu")).unwrap().with_selection(levels).steps().unwrap();
    assert_eq!(
        steps.next().unwrap().unwrap_err().to_string(),
        "steps cannot be selected by processes: the trace has none"
    );
}

#[test]
fn calls_are_a_tree_of_all_instructions() {
    let calls: Vec<_> = open(example("hello-qemu")).unwrap().calls(|_| true).unwrap().map(Result::unwrap).collect();
    assert_eq!((calls[0].depth, calls[0].name.as_deref(), calls[0].is_root()), (0, Some("_start"), true));
    let total = open(example("hello-qemu")).unwrap().instructions().unwrap().count() as u64;
    assert_eq!(calls.iter().map(|call| call.own.instructions).sum::<u64>(), total);
    let complete = open(example("hello-qemu")).unwrap().calls(Call::is_complete).unwrap();
    assert!(complete.map(Result::unwrap).all(|call| call.is_complete()));
    // The cores of a log have names.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    fs::write(&path, LOG).unwrap();
    let cores = open(&path).unwrap().calls(|_| true).unwrap().map(|call| call.unwrap().core_name);
    assert_eq!(cores.collect::<Vec<_>>(), [Some("cpu0".into()), Some("cpu1".into())]);
}

#[test]
fn packets_are_those_of_each_source() {
    let path = example("hello-ete");
    let opened = open(&path).unwrap();
    assert_eq!(opened.sources(), ["ETE_0", "ETE_1"]);
    let found: Vec<_> = opened.packets().unwrap().map(|item| item.map(|it| (it.source, it.packet)).unwrap()).collect();
    let capture = Capture::open(&path).unwrap();
    let mut expected = Vec::new();
    for (source, trace) in Trace::all(&capture).iter().enumerate() {
        trace.packets(&mut (|packet| expected.push((source, packet)), ())).unwrap();
    }
    assert_eq!(found, expected);
    assert_eq!(found.len(), 28 + 16);
    let one = open(&path).unwrap().with_source("ETE_1");
    let expected: Vec<_> = expected.into_iter().filter(|(source, _)| *source == 1).collect();
    let found: Vec<_> = one.packets().unwrap().map(|item| item.map(|it| (it.source, it.packet)).unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_a_file_does_not_have_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = |result: Result<(), Error>| result.unwrap_err().to_string();
    let astf = open(example("example.astf")).unwrap();
    assert_eq!(astf.kind(), FileKind::Astf);
    assert!(error(astf.packets().map(drop)).contains("this is an ASTF file, not a capture"));
    let capture = open(example("hello-ete")).unwrap();
    assert!(error(capture.open_steps().map(drop)).contains("several sources (ETE_0, ETE_1)"));
    assert!(
        error(open(example("hello-ete")).unwrap().with_source("ETE_7").steps().map(drop)).contains("no source 'ETE_7'")
    );
    assert!(error(open(folder.path().join("absent")).map(drop)).contains("absent"));
    let program = open(example("hello-qemu").join("hello")).map(drop);
    assert!(error(program).contains("this is an ELF program for AArch64; record a run"));
    let bare = open(example("hello-qemu").join("trace_0.bin")).map(drop);
    assert!(error(bare).contains("--protocol"));
}

#[test]
fn an_error_takes_the_place_of_what_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(example("hello-ete")).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    // The first of two sources is of a kind that is not read.
    let ini = fs::read_to_string(folder.path().join("ete_0.ini")).unwrap();
    fs::write(folder.path().join("ete_0.ini"), ini.replace("type=ETE", "type=STM")).unwrap();
    let opened = open(folder.path()).unwrap();
    let steps: Vec<_> = opened.steps().unwrap().collect();
    assert!(steps[0].as_ref().unwrap_err().to_string().contains("ETE_0"), "{:?}", steps[0]);
    let whole = open(example("hello-ete")).unwrap().with_source("ETE_1");
    let rest: Vec<&Step> = steps[1..].iter().map(|step| step.as_ref().unwrap()).collect();
    assert_eq!(rest.len(), whole.steps().unwrap().count());
    assert!(rest.iter().all(|step| step.core == 1));
    // A damaged file: everything before the damage comes first.
    let bytes = fs::read(example("example.astf")).unwrap();
    let cut = folder.path().join("cut.astf");
    fs::write(&cut, &bytes[..bytes.len() - bytes.len() / 4]).unwrap();
    let items: Vec<_> = open(&cut).unwrap().instructions().unwrap().collect();
    let (last, before) = items.split_last().unwrap();
    assert!(matches!(last, Err(Error::Steps(error)) if error.is_damage), "{last:?}");
    assert!(!before.is_empty() && before.iter().all(Result::is_ok));
    let position = before.last().and_then(|item| item.as_ref().ok()).map(|item| item.position);
    assert!(matches!(last, Err(Error::Steps(error)) if error.position > position), "{last:?}");
}

#[test]
fn an_iterator_that_is_dropped_ends_its_thread() {
    let opened = open(example("hello-qemu")).unwrap();
    assert!(opened.instructions().unwrap().next().unwrap().is_ok());
    assert_eq!(opened.steps().unwrap().take(2).count(), 2);
}

#[test]
fn symbols_are_found_in_the_capture_and_beside_a_file() {
    let capture = open(example("hello-qemu")).unwrap();
    let first = capture.instructions().unwrap().next().unwrap().unwrap();
    assert_eq!(capture.function(first.address), Some("_start"));
    // The program beside a trace has its name.
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("hello.stf");
    crate::examples::converted(&example("hello-qemu"), &trace);
    assert_eq!(open(&trace).unwrap().function(first.address), None);
    let program = example("hello-qemu").join("hello");
    assert_eq!(open(&trace).unwrap().with_image(&program).unwrap().function(first.address), Some("_start"));
    fs::copy(&program, folder.path().join("hello.elf")).unwrap();
    assert_eq!(open(&trace).unwrap().function(first.address), Some("_start"));
    // A capture that names no image uses the programs in its directory.
    for file in ["snapshot.ini", "cpu_0.ini", "trace.ini", "trace_0.bin", "unit_0.ini", "hello"] {
        fs::copy(example("hello-qemu").join(file), folder.path().join(file)).unwrap();
    }
    let ini = fs::read_to_string(folder.path().join("cpu_0.ini")).unwrap();
    let without: String = ini.split("[dump").next().unwrap().to_string();
    fs::write(folder.path().join("cpu_0.ini"), without).unwrap();
    let found = open(folder.path()).unwrap();
    assert!(found.capture().unwrap().cores.iter().all(|core| core.images.is_empty()));
    let count = |opened: &Opened| {
        let steps = opened.steps().unwrap().map(Result::unwrap);
        steps.filter(|step| matches!(step.event, Event::Instruction(_))).count()
    };
    assert_eq!(count(&found), count(&capture));
    assert_eq!(found.function(first.address), Some("_start"));
}
