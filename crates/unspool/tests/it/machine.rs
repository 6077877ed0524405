//! Captures of several processes: a generated machine is executed, traced, and decoded from its trace and event log.
//!
//! What is decoded is compared with what the machine executed: address, opcode and process of each instruction.

mod clocks;
mod image;
mod package;
mod reconfigured;
mod recordings;
mod scenarios;
mod simulator;

use std::path::Path;

use unspool::capture::{Capture, ContextFormat, Pid, SystemEvent};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Protocol, Transactions};
use unspool::flow::{Around, Finding, FlowItem, Instruction, InstructionSink, Item};
use unspool::pack::PackOptions;
use unspool::{Program, Trace, Watch};

use self::package::write_capture;
use self::simulator::{ContextId, Machine, Step};
use super::fixtures::assert_same;

/// What decoding shows.
#[derive(Debug, Clone, PartialEq)]
enum Decoded {
    /// An instruction, and the offset of its packet.
    Shown(u64, Step),
    /// Instructions are not shown, for a reason that has this name.
    Named(&'static str),
    /// An exception was taken.
    Exception,
    /// Trace and code contradict each other, or the trace is damaged.
    Wrong(String),
}

struct Collector<'p> {
    program: &'p Program,
    decoded: Vec<Decoded>,
}

impl InstructionSink for Collector<'_> {
    fn instruction(&mut self, instruction: &Instruction, around: &Around) {
        let pid = self.program.process_of(around.map).unwrap_or(Pid::MAX);
        let step = (instruction.address, instruction.opcode, pid);
        self.decoded.push(Decoded::Shown(instruction.offset, step));
    }

    fn item(&mut self, item: FlowItem) {
        self.decoded.push(match item.map(|item| item.value) {
            Ok(Item::NoCode { .. }) => Decoded::Named("no_code"),
            Ok(Item::Lost { .. }) => Decoded::Named("lost"),
            Ok(Item::Finding(Finding::AmbiguousImage { .. })) => Decoded::Named("ambiguous_image"),
            Ok(Item::Exception { .. }) => Decoded::Exception,
            Ok(Item::Finding(finding)) => Decoded::Wrong(finding.to_string()),
            Ok(_) => return,
            Err(error) => Decoded::Wrong(error.to_string()),
        });
    }
}

impl Watch for Collector<'_> {}

/// All that is decoded of each trace of a capture.
fn decode(folder: &Path) -> Vec<Vec<Decoded>> {
    let capture = Capture::open(folder).unwrap();
    assert!(capture.notes.is_empty(), "{:?}", capture.notes);
    let decode = |trace: &Trace<'_>| {
        let (program, _) = Program::of(&capture, trace.source().core, &[]);
        let mut collector = Collector { program: &program, decoded: Vec::new() };
        trace.instructions(Transactions::Show, &program, &mut collector).unwrap();
        collector.decoded
    };
    Trace::all(&capture).iter().map(decode).collect()
}

/// One machine: what it is, and what it does.
#[derive(Debug, Clone, Copy)]
struct Options {
    seed: u64,
    cores: usize,
    context_id: ContextId,
    /// Bits of a context identifier in the trace.
    bits: u32,
    /// Whether the package says what context identifiers are; otherwise it is guessed.
    has_format: bool,
    protocol: Protocol,
    return_stack: bool,
    /// A timestamp at every branch, or only around exceptions.
    all_times: bool,
    speculates: bool,
}

impl Options {
    fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.protocol);
        let traced = match self.context_id {
            ContextId::Switches => 0,
            // The virtual context identifier of ETMv4 is CONTEXTIDR_EL2 on request.
            ContextId::TidOfEl2 => 0x8080,
            _ => 0x40,
        };
        settings.set("TRCCONFIGR", 0x801 | traced | u64::from(self.return_stack) << 12);
        settings.set("TRCIDR2", 0xc000_1008 & !0x7fe0 | u64::from(self.bits / 8) << 5 | u64::from(self.bits / 8) << 10);
        settings.set("TRCTSCTLR", u64::from(self.all_times));
        settings.set("TRCSYNCPR", if self.seed.is_multiple_of(3) { 8 } else { 12 });
        if self.speculates {
            settings.set("TRCIDR8", 5);
            settings.guess_seed = Some(self.seed);
        }
        settings
    }
}

/// A machine that has run, and its captures.
struct Run {
    machine: Machine,
    settings: Settings,
    format: Option<ContextFormat>,
}

impl Run {
    fn new(options: &Options) -> Self {
        let settings = options.settings();
        let mut machine = Machine::new(options.seed, options.cores, options.context_id, options.bits, &settings);
        machine.run(1200);
        let format = options.context_id.format().filter(|_| options.has_format);
        Self { machine, settings, format }
    }

    fn decode(&self, events: &[SystemEvent]) -> Vec<Vec<Decoded>> {
        let traces: Vec<&[u8]> = (0..self.machine.cores()).map(|core| self.machine.core(core).1).collect();
        let folder = write_capture(&self.settings, &traces, &self.machine.images, Some(events), self.format);
        decode(folder.path())
    }

    fn forward(&self) -> Vec<SystemEvent> {
        self.machine.log.iter().filter(|logged| logged.forward).map(|logged| logged.event.clone()).collect()
    }

    /// Ends and patches, and a snapshot at the end.
    fn backward(&self) -> Vec<SystemEvent> {
        let during = self.machine.log.iter().filter(|logged| logged.backward).map(|logged| logged.event.clone());
        during.chain(self.machine.snapshot()).collect()
    }

    fn assert_exact(&self, name: &str, events: &[SystemEvent]) -> Vec<Vec<Decoded>> {
        let decoded = self.decode(events);
        for (core, decoded) in decoded.iter().enumerate() {
            let expected: Vec<Decoded> =
                self.machine.core(core).0.iter().map(|step| Decoded::Shown(0, *step)).collect();
            let found = decoded.iter().filter(|item| **item != Decoded::Exception).map(without_offset);
            let found: Vec<Decoded> = found.collect();
            assert_same(&format!("{name}, core {core}"), &found, &expected);
        }
        decoded
    }
}

fn without_offset(decoded: &Decoded) -> Decoded {
    match decoded {
        Decoded::Shown(_, step) => Decoded::Shown(0, *step),
        other => other.clone(),
    }
}

/// What is shown is what was executed, by that process or by an unknown one, and all that is missing is named at its place.
/// Returns the number of instructions that are missing.
fn assert_part(name: &str, found: &[Decoded], all: &[Decoded]) -> usize {
    let all: Vec<&Decoded> = all.iter().filter(|item| matches!(item, Decoded::Shown(..))).collect();
    let (mut rest, mut is_named, mut missing) = (&all[..], false, 0);
    for (at, decoded) in found.iter().enumerate() {
        match decoded {
            Decoded::Shown(..) => {
                let skipped = rest.iter().position(|expected| is_shown(decoded, expected));
                let skipped = skipped.unwrap_or_else(|| panic!("{name}: {at}: {decoded:x?} was not executed"));
                assert!(skipped == 0 || is_named, "{name}: {at}: {skipped} instructions before {decoded:x?}");
                rest = &rest[skipped + 1..];
                missing += skipped;
                is_named = false;
            }
            Decoded::Named(_) => is_named = true,
            Decoded::Exception => {}
            Decoded::Wrong(what) => panic!("{name}: {at}: {what}"),
        }
    }
    assert!(rest.is_empty() || is_named, "{name}: {} instructions at the end", rest.len());
    missing + rest.len()
}

/// Is an instruction the one that was executed? Its process may be shown as unknown.
fn is_shown(found: &Decoded, executed: &Decoded) -> bool {
    match (found, executed) {
        (Decoded::Shown(at, (address, opcode, Pid::MAX)), Decoded::Shown(offset, step)) => {
            (at, address, opcode) == (offset, &step.0, &step.1)
        }
        _ => found == executed,
    }
}

fn options(seed: u64) -> Options {
    let context_id = ContextId::ALL[(seed % 7) as usize];
    let bits = [8, 16, 32, 32][(seed / 7 % 4) as usize];
    Options {
        seed,
        cores: 1 + (seed / 2 % 3) as usize,
        context_id,
        bits,
        // Fewer bits fit several formats.
        has_format: bits < 32 || seed.is_multiple_of(2),
        protocol: if (seed / 3).is_multiple_of(2) { Protocol::Ete } else { Protocol::Etm4 },
        return_stack: seed / 5 % 2 == 1,
        all_times: context_id == ContextId::Switches || seed.is_multiple_of(5),
        speculates: seed % 11 == 3,
    }
}

/// One seed with all logs. Returns the number of instructions that are not shown if the log lost its first third.
fn check(options: &Options) -> (Run, usize) {
    let run = Run::new(options);
    let all = run.assert_exact(&format!("{options:?}: forward"), &run.forward());
    run.assert_exact(&format!("{options:?}: backward"), &run.backward());
    let log = run.forward();
    let cut = run.decode(&log[log.len() / 3..]);
    let mut missing = 0;
    for (core, (cut, all)) in cut.iter().zip(&all).enumerate() {
        missing += assert_part(&format!("{options:?}: cut, core {core}"), cut, all);
    }
    (run, missing)
}

/// The trace of a core of a machine.
pub(crate) fn trace_of_machine(seed: u64) -> (Settings, Vec<u8>) {
    let run = Run::new(&options(seed));
    (run.settings.clone(), run.machine.core(0).1.to_vec())
}

/// All combinations of context identifiers, cores, protocols and return stacks.
#[test]
fn generated_machines_are_decoded_exactly() {
    let mut seen = std::collections::BTreeMap::<&str, usize>::new();
    let (mut instructions, mut events, mut missing) = (0, 0, 0);
    for seed in 0..84 {
        let (run, not_shown) = check(&options(seed));
        missing += not_shown;
        run.machine.seen.iter().for_each(|kind| *seen.entry(kind).or_default() += 1);
        instructions += (0..run.machine.cores()).map(|core| run.machine.core(core).0.len()).sum::<usize>();
        events += run.forward().len();
    }
    println!("{instructions} instructions, {events} events, {missing} not shown without a third of them, {seen:?}");
    assert!(missing > 0 && missing < instructions, "{missing} of {instructions}");
    assert_eq!(seen.len(), 17, "{seen:?}");
}

/// A package with the log and the images has the same instructions as the folder that it was made of.
#[test]
fn packed_machines_are_decoded_exactly() {
    for seed in [0, 5, 10, 15] {
        let run = Run::new(&options(seed));
        let traces: Vec<&[u8]> = (0..run.machine.cores()).map(|core| run.machine.core(core).1).collect();
        let folder = write_capture(&run.settings, &traces, &run.machine.images, Some(&run.forward()), run.format);
        let expected = decode(folder.path());
        let capture = Capture::open(folder.path()).unwrap();
        let out = tempfile::tempdir().unwrap();
        for name in ["package", "package.zip"] {
            let path = out.path().join(name);
            let saved = unspool::pack::pack(&capture, &path, &PackOptions::default(), &mut |_, _| {}).unwrap();
            assert!(saved.missing.is_empty() && saved.notes.is_empty() && saved.images > 0, "{saved:?}");
            assert!(decode(&path) == expected, "seed {seed}: {name}");
        }
    }
}

#[test]
fn more_machines_are_decoded_exactly() {
    (32..1_000_000).step_by(41_664).for_each(|seed| drop(check(&options(seed))));
}
