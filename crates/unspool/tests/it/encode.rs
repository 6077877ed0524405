//! The closed loop: steps are encoded into a capture, and its steps are the same.

mod armv7;
mod decoded;
mod examples;
mod features;
mod flow;
mod log;
mod program;
mod q;
mod reference;

use std::path::Path;

use tempfile::TempDir;
use unspool::CaptureSteps;
use unspool::capture::Capture;
use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::trace_buffer::{BufferSettings, FillMode};
use unspool::encode::{EncodeOptions, Encoded, Encoder, UnitSettings};
use unspool::model::{Branch, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Step, TimeUnit};
use unspool_testing::Random;

use self::decoded::{Decoded, decode_capture};
use self::program::Program;
use super::fixtures::{assert_same, collect};

const BASE: u64 = 0x40_0000;

/// Contents of steps that trace can express.
#[derive(Debug, Default, PartialEq)]
struct Executed {
    instructions: Vec<(u64, u32)>,
    /// Exceptions with the number of instructions before them.
    exceptions: Vec<(usize, ExceptionKind, Option<u64>)>,
    /// Levels with the number of instructions before them, where they change.
    levels: Vec<(usize, u8)>,
    processes: Vec<(usize, u64)>,
    times: Vec<u64>,
    gaps: usize,
}

impl Executed {
    fn add(&mut self, step: &Step) {
        let at = self.instructions.len();
        match &step.event {
            Event::Instruction(instruction) => {
                self.instructions.push((instruction.address, instruction.opcode.unwrap()));
                self.times.extend(step.time);
            }
            // The end of a trace.
            Event::Exception(exception) if exception.kind == ExceptionKind::Debug => {}
            Event::Exception(exception) => self.exceptions.push((at, exception.kind, exception.return_address)),
            Event::Context(context) => {
                let is_new = |level: &u8| self.levels.last().is_none_or(|last| last.1 != *level);
                if let Some(level) = context.level.filter(is_new) {
                    self.levels.push((at, level));
                }
                let is_new = |process: &u64| self.processes.last().is_none_or(|last| last.1 != *process);
                if let Some(process) = context.process.filter(is_new) {
                    self.processes.push((at, process));
                }
            }
            Event::Gap(_) => self.gaps += 1,
            _ => {}
        }
    }

    fn of(steps: &[Step]) -> Self {
        let mut executed = Self::default();
        steps.iter().for_each(|step| executed.add(step));
        // A context that nothing was executed in is not traced.
        let count = executed.instructions.len();
        executed.levels.retain(|(at, _)| *at < count);
        executed.processes.retain(|(at, _)| *at < count);
        executed
    }

    fn read(directory: &Path, source: &str) -> Self {
        Self::of(&collect(CaptureSteps::new(Capture::open(directory).unwrap(), Some(source), &[]).unwrap()))
    }
}

fn options(settings: &(impl Clone + Into<UnitSettings>), formatted: bool) -> EncodeOptions {
    EncodeOptions {
        settings: settings.clone().into(),
        formatted,
        buffer: None,
        time_unit: TimeUnit::Unknown,
        replace: false,
        events: None,
    }
}

fn encode(steps: &[Step], directory: &Path, options: EncodeOptions) -> Encoded {
    let mut encoder = Encoder::new(directory, options).unwrap();
    steps.iter().for_each(|step| encoder.push(step).unwrap());
    encoder.finish().unwrap()
}

/// Capture of these steps, in a temporary folder.
fn encoded(steps: &[Step], settings: &(impl Clone + Into<UnitSettings>), formatted: bool) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    encode(steps, folder.path(), options(settings, formatted));
    folder
}

fn assert_same_execution(name: &str, found: &Executed, expected: &Executed) {
    assert_same(name, &found.instructions, &expected.instructions);
    assert_eq!(found.exceptions, expected.exceptions, "{name}");
    assert_eq!(found.levels, expected.levels, "{name}");
}

/// All instruction sets, protocols and options. The last option is one of ETE only.
fn combinations() -> impl Iterator<Item = (Isa, Protocol, u64)> {
    let isas = [Isa::A64, Isa::A32, Isa::T32].into_iter();
    let pairs = isas.flat_map(|isa| [Protocol::Ete, Protocol::Etm4].map(|protocol| (isa, protocol)));
    pairs.flat_map(|(isa, protocol)| {
        let options = if protocol == Protocol::Ete { 0..256 } else { 0..128 };
        options.map(move |options| (isa, protocol, options))
    })
}

/// TRCCONFIGR and related settings, by the bits of a number.
fn settings(protocol: Protocol, options: u64, program: &Program) -> Settings {
    let has = |bit: u32| options >> bit & 1 == 1;
    let mut settings = Settings::new(protocol);
    let bits = [(0, 12), (1, 11), (2, 4), (3, 3), (4, 6), (4, 7)];
    let configr = bits.iter().filter(|(bit, _)| has(*bit)).fold(1, |configr, (_, position)| configr | 1 << position);
    settings.set("TRCCONFIGR", configr);
    if has(5) {
        settings.set("TRCSYNCPR", 8);
        settings.set("TRCTSCTLR", 1);
        let (low, high) = program.span(2);
        settings.set("TRCBBCTLR", 0x102);
        settings.set("TRCACVR2", low);
        settings.set("TRCACVR3", high);
    }
    if has(6) {
        settings.set("TRCIDR8", 5);
        settings.set("TRCIDR0", if has(0) { 0x0800_0ea1 } else { 0x2800_0ea1 });
        settings.guess_seed = Some(options);
    }
    settings.source_addresses = has(7);
    settings
}

#[test]
fn every_combination_of_options_round_trips() {
    for (isa, protocol, options) in combinations() {
        let program = Program::new(isa, BASE, options);
        let steps = program.run(700, options);
        let folder = encoded(&steps, &settings(protocol, options, &program), options & 1 == 0);
        let (found, expected) = (Executed::read(folder.path(), "UNIT_0"), Executed::of(&steps));
        let name = format!("{isa:?} {protocol:?} {options:#x}");
        assert_same_execution(&name, &found, &expected);
        assert_eq!(found.gaps, 1, "{name}");
        if options >> 4 & 1 == 1 {
            assert_eq!(found.processes, expected.processes, "{name}");
        }
    }
}

#[test]
fn random_programs_and_settings_round_trip() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let isa = [Isa::A64, Isa::A32, Isa::T32][random.below(3) as usize];
        let protocol = [Protocol::Ete, Protocol::Etm4][random.below(2) as usize];
        let program = Program::new(isa, BASE, seed);
        let steps = program.run(1 + random.below(3000) as usize, seed);
        let settings = settings(protocol, random.below(256), &program);
        let folder = encoded(&steps, &settings, random.below(2) == 0);
        let (found, expected) = (Executed::read(folder.path(), "UNIT_0"), Executed::of(&steps));
        assert_same_execution(&format!("seed {seed}"), &found, &expected);
    }
}

#[test]
fn several_cores_share_a_buffer() {
    for formatted in [true, false] {
        let program = Program::new(Isa::A64, BASE, 3);
        let runs: Vec<Vec<Step>> = (0..3).map(|core| program.run(2000, core)).collect();
        let mut all = vec![];
        for at in 0..2000 {
            for (core, run) in runs.iter().enumerate() {
                let mut step = run[at].clone();
                step.core = core as u32;
                all.push(step);
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let encoded = encode(&all, folder.path(), options(&Settings::new(Protocol::Ete), formatted));
        assert_eq!(encoded.cores, 3);
        for (core, run) in runs.iter().enumerate() {
            let found = Executed::read(folder.path(), &format!("UNIT_{core}"));
            assert_same_execution(&format!("core {core}"), &found, &Executed::of(&run[..2000]));
        }
    }
}

/// Instructions that pass a filter: from one that it shows until the end of its block.
fn shown(steps: &[Step], mut shows: impl FnMut(u64, u8, u64) -> bool) -> Vec<(u64, u32)> {
    let (mut kept, mut in_block, mut level, mut process) = (vec![], false, 0, 0);
    for step in steps {
        match &step.event {
            Event::Instruction(instruction) => {
                let (address, opcode) = (instruction.address, instruction.opcode.unwrap());
                if shows(address, level, process) || in_block {
                    kept.push((address, opcode));
                    in_block = instruction.branch.is_none() && opcode != 0xd503_3fdf;
                }
            }
            Event::Exception(_) => in_block = false,
            Event::Context(context) => (level, process) = (context.level.unwrap(), context.process.unwrap()),
            _ => {}
        }
    }
    kept
}

/// Name of a filter, its registers, and which address, level and process it shows.
type Filter<'f> = (&'f str, &'f [(&'f str, u64)], &'f mut dyn FnMut(u64, u8, u64) -> bool);

#[test]
fn filters_trace_the_right_instructions() {
    for seed in 0..20 {
        let program = Program::new(Isa::A64, BASE, seed);
        let steps = program.run(3000, seed);
        let (low, high) = (program.span(1).0 + 8, program.span(2).1 - 12);
        let (start, stop) = (program.span(3).0, program.span(4).0 + 4);
        let mut is_started = false;
        let rows: &mut [Filter<'_>] = &mut [
            ("user only", &[("TRCVICTLR", 0x20_0201)], &mut |_, level, _| level == 0),
            ("kernel only", &[("TRCVICTLR", 0x10_0201)], &mut |_, level, _| level == 1),
            ("nothing", &[("TRCVICTLR", 0x200)], &mut |_, _, _| false),
            ("include", &[("TRCVIIECTLR", 1)], &mut |address, _, _| (low..=high).contains(&address)),
            ("exclude", &[("TRCVIIECTLR", 0x1_0000)], &mut |address, _, _| !(low..=high).contains(&address)),
            ("context", &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x6_0001)], &mut |_, _, process| process == 2),
            ("other contexts", &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x16_0001)], &mut |_, _, process| process != 2),
            ("virtual context", &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x7_0001)], &mut |_, _, _| true),
            (
                "include in a context",
                &[("TRCVIIECTLR", 1), ("TRCACATR0", 4), ("TRCACATR1", 4)],
                &mut |address, _, process| (low..=high).contains(&address) && process == 2,
            ),
            ("event of a range", &[("TRCVICTLR", 0x202), ("TRCRSCTLR2", 0x5_0001)], &mut |address, _, _| {
                (low..=high).contains(&address)
            }),
            (
                "pair of a range and a level",
                &[("TRCVICTLR", 0x10_0281), ("TRCRSCTLR2", 0x15_0001), ("TRCRSCTLR3", 0x6_0002)],
                &mut |address, level, process| !(low..=high).contains(&address) && level == 1 && process == 3,
            ),
            ("start and stop", &[("TRCVISSCTLR", 0x8_0004), ("TRCVICTLR", 1)], &mut |address, _, _| {
                let shows = is_started || address == start;
                is_started = shows && address != stop;
                shows
            }),
        ];
        for (name, registers, shows) in rows {
            let mut settings = settings(Protocol::Ete, seed & 0x3f, &program);
            let addresses = [("TRCACVR0", low), ("TRCACVR1", high), ("TRCACVR2", start), ("TRCACVR3", stop)];
            let others = [("TRCBBCTLR", 0), ("TRCCIDCVR0", 2), ("TRCCIDCVR1", 3), ("TRCVMIDCVR0", 7)];
            let registers = registers.iter().chain(&addresses).chain(&others);
            registers.for_each(|(name, value)| assert!(settings.set(name, *value)));
            let found = Executed::read(encoded(&steps, &settings, false).path(), "UNIT_0");
            assert_eq!(found.instructions, shown(&steps, shows), "{name}, seed {seed}");
        }
    }
}

#[test]
fn breaks_and_refusals() {
    let program = Program::new(Isa::A64, BASE, 1);
    let steps = program.run(500, 1);
    // Every hundredth instruction is cut out.
    let instructions = |step: &Step| step.event.instruction().is_some();
    let cut: Vec<Step> = steps
        .iter()
        .enumerate()
        .filter(|(at, step)| at % 100 != 50 || !instructions(step))
        .map(|(_, step)| step.clone())
        .collect();
    let ete = Settings::new(Protocol::Ete);
    let found = Executed::read(encoded(&cut, &ete, false).path(), "UNIT_0");
    assert!(found.gaps >= 1);
    assert_eq!(found.instructions, Executed::of(&cut).instructions);

    // Without a time, it is unknown when code changes.
    let mut first = steps[1].clone();
    first.time = None;
    let mut changed = first.clone();
    if let Event::Instruction(instruction) = &mut changed.event {
        instruction.opcode = Some(0xd503_205f);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut encoder = Encoder::new(folder.path(), options(&ete, false)).unwrap();
    encoder.push(&first).unwrap();
    let error = encoder.push(&changed).unwrap_err().to_string();
    assert!(error.contains("has changed"), "{error}");
    for (address, isa) in [(BASE + 2, Isa::A64), (BASE + 2, Isa::A32), (BASE + 1, Isa::T32), (1 << 32, Isa::T32)] {
        let mut odd = changed.clone();
        if let Event::Instruction(instruction) = &mut odd.event {
            (instruction.address, instruction.isa) = (address, isa);
        }
        let error = encoder.push(&odd).unwrap_err().to_string();
        assert!(error.contains("instruction can be at"), "{error}");
    }
    assert!(Encoder::new(folder.path(), options(&ete, false)).unwrap_err().to_string().contains("not empty"));
}

/// A capture that is not finished leaves no files.
#[test]
fn unfinished_capture_is_removed() {
    let steps = Program::new(Isa::A64, BASE, 3).run(100, 3);
    let folder = tempfile::tempdir().unwrap();
    let (there, new) = (folder.path(), folder.path().join("new"));
    for directory in [&new, there] {
        let mut encoder = Encoder::new(directory, options(&Settings::new(Protocol::Ete), false)).unwrap();
        steps.iter().for_each(|step| encoder.push(step).unwrap());
        drop(encoder);
        assert_eq!(std::fs::read_dir(there).unwrap().count(), 0);
    }
    assert!(there.exists());
}

/// A buffer that wrapped has the end of the trace, from its first synchronization on.
#[test]
fn buffers_that_are_too_small() {
    let program = Program::new(Isa::A64, BASE, 3);
    let steps = program.run(40_000, 3);
    for (fill, formatted) in
        [FillMode::Fill, FillMode::Wrap, FillMode::Circular].map(|fill| [(fill, false), (fill, true)]).concat()
    {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(Protocol::Ete, 0x11, &program);
        settings.set("TRCSYNCPR", 8);
        let buffer = Some(BufferSettings { size: 4096, fill, ..BufferSettings::default() });
        let encoded = encode(&steps, folder.path(), EncodeOptions { buffer, ..options(&settings, formatted) });
        assert!(encoded.lost_bytes > 4096, "{encoded:?}");
        let (found, all) = (Executed::read(folder.path(), "0x10"), Executed::of(&steps));
        let (some, all) = (&found.instructions, &all.instructions);
        assert!(some.len() > 1000 && some.len() < all.len() / 2, "{fill:?}: {} of {}", some.len(), all.len());
        let is_there = match fill {
            FillMode::Fill => all.starts_with(some),
            FillMode::Wrap | FillMode::Circular => all.ends_with(some),
        };
        assert!(is_there, "{fill:?} {formatted}");
    }
}

/// An IT instruction makes only the instructions right after it conditional.
#[test]
fn break_within_an_it_block() {
    let at = |address: u64, opcode: u32, length: u8, isa: Isa| {
        let instruction = Instruction { address, opcode: Some(opcode), length, isa, ..Instruction::default() };
        let mut step = Step::default();
        step.event = Event::Instruction(instruction);
        step
    };
    // IT EQ, then elsewhere BL, which impossibly continues right after itself, then a NOP.
    let steps = [
        at(BASE, 0xbf08, 2, Isa::T32),
        at(BASE + 32, 0xeb00_000c, 4, Isa::A32),
        at(BASE + 36, 0xe320_f000, 4, Isa::A32),
    ];
    let decoded = decode_capture(encoded(&steps, &Settings::new(Protocol::Ete), false).path());
    assert!(!decoded.contains(&Decoded::Problem), "{decoded:x?}");
    let count = decoded.iter().filter(|decoded| matches!(decoded, Decoded::Instruction(..))).count();
    assert_eq!(count, 3);
}

/// Steps that contradict themselves or are out of place are encoded as far as trace can express them.
#[test]
fn odd_steps() {
    let at = |address: u64, opcode: u32, taken: Option<bool>| {
        let branch = taken.map(|taken| Branch { taken, target: None });
        let opcode = Some(opcode);
        Event::Instruction(Instruction { address, opcode, length: 4, isa: Isa::A64, branch, ..Instruction::default() })
    };
    let (nop, branch) = (|address| at(address, 0xd503_201f, None), 0x1400_0004);
    let exception = |kind, return_address| {
        Event::Exception(Exception { kind, return_address: Some(return_address), ..Exception::default() })
    };
    let reset = exception(ExceptionKind::Reset, BASE + 8);
    let odd = exception(ExceptionKind::Synchronous, BASE + 6);
    let rows: &[(&str, &[Event], &[u64])] = &[
        ("a reset within a block", &[nop(BASE), nop(BASE + 4), reset, nop(BASE + 64)], &[0, 4, 64]),
        ("an impossible return address", &[nop(BASE), odd, nop(BASE + 64)], &[0, 64]),
        ("an overflow at first", &[Event::Gap(Gap::Overflow), nop(BASE)], &[0]),
        ("unconditional, but not taken", &[nop(BASE), at(BASE + 4, branch, Some(false))], &[0]),
        ("taken, target unknown", &[nop(BASE), at(BASE + 4, branch, Some(true))], &[0, 4]),
    ];
    for protocol in [Protocol::Ete, Protocol::Etm4] {
        for (name, events, expected) in rows {
            let mut steps = vec![Step::default(); events.len()];
            steps.iter_mut().zip(*events).for_each(|(step, event)| step.event = *event);
            let folder = encoded(&steps, &Settings::new(protocol), false);
            let decoded = decode_capture(folder.path());
            assert!(!decoded.contains(&Decoded::Problem), "{protocol:?}, {name}: {decoded:x?}");
            let found = Executed::read(folder.path(), "UNIT_0").instructions;
            let found: Vec<u64> = found.iter().map(|(address, _)| address - BASE).collect();
            assert_eq!(&found, expected, "{protocol:?}, {name}");
        }
    }
}
