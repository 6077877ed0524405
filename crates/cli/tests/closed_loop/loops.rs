//! The closed loop over any trace: encoded with one option after the other, decoded, and compared with where it began.
//!
//! trace ─▶ encoder ─▶ capture ─▶ decoder ─▶ instructions ◀═ the same? ═▶ trace, filtered as the registers say
//!
//! Neither side is held in memory, but for what a small buffer keeps. The tests have small traces; the example of the same
//! name takes large ones.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use unspool::capture::Capture;
use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::trace_buffer::{BufferSettings, FillMode};
use unspool::encode::{EncodeOptions, Encoded, Encoder};
use unspool::isa::{Kind, facts};
use unspool::model::{Event, ExceptionKind, Instruction, Isa, Step, StepSource};
use unspool::{CaptureSteps, OpenSteps, open_steps};

/// An instruction, as far as trace tells it.
pub(crate) type Told = (u64, u32, Isa);

/// How the trace unit is set up, and what of a run it then shows.
pub(crate) struct Setup {
    /// Its name.
    pub(crate) name: &'static str,
    /// The registers, and what no register says.
    pub(crate) settings: Settings,
    /// In frames.
    pub(crate) formatted: bool,
    /// A buffer that is too small.
    pub(crate) buffer: Option<BufferSettings>,
    /// What is shown.
    pub(crate) shows: Shows,
}

/// What is shown of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// What is at these addresses, both included.
    Within(u64, u64),
    /// What is elsewhere.
    Without(u64, u64),
    /// From here to there, both included, again and again.
    Between(u64, u64),
    /// How it begins.
    Start,
    /// How it ends.
    End,
}

/// Addresses of a run that filters can be made of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Places {
    /// A part of the code.
    pub(crate) low: u64,
    /// Its last instruction.
    pub(crate) high: u64,
    /// An instruction that is executed now and then.
    pub(crate) start: u64,
    /// Another one.
    pub(crate) stop: u64,
    /// Instructions in all, of all cores.
    pub(crate) instructions: u64,
    /// Cores.
    pub(crate) cores: u32,
}

/// What came of a set-up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Instructions that were compared, and were the same.
    pub(crate) same: u64,
    /// Bytes of trace.
    pub(crate) bytes: u64,
    /// How often the trace starts anew.
    pub(crate) breaks: u64,
    /// Seconds that encoding and decoding took, each with reading what it is compared with.
    pub(crate) seconds: (f64, f64),
}

impl Places {
    /// Looks through a trace.
    pub(crate) fn of(trace: &Path) -> Result<Self, String> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut places = Self::default();
        each(trace, &mut |step| {
            if let Event::Instruction(instruction) = &step.event {
                *counts.entry(instruction.address).or_default() += 1;
                places.instructions += 1;
                places.cores = places.cores.max(step.core + 1);
            }
            true
        })?;
        let mut all: Vec<(u64, u64)> = counts.into_iter().collect();
        all.sort_unstable();
        let at = |part: usize| all.get(all.len() * part / 10).map_or(0, |(address, _)| *address);
        (places.low, places.high) = (at(3), at(5));
        let often: Vec<u64> = all.iter().filter(|(_, count)| (3..100).contains(count)).map(|(at, _)| *at).collect();
        let one = |part: usize| often.get(often.len() * part / 10).copied().unwrap_or(places.low);
        (places.start, places.stop) = (one(2), one(7));
        Ok(places)
    }
}

/// All set-ups, for a trace with these places.
pub(crate) fn setups(places: &Places) -> Vec<Setup> {
    const CONFIG: &str = "TRCCONFIGR";
    let ete = |registers: &[(&str, u64)]| with(Protocol::Ete, registers);
    let etm4 = |registers: &[(&str, u64)]| with(Protocol::Etm4, registers);
    let range = [("TRCACVR0", places.low), ("TRCACVR1", places.high)];
    let points = [("TRCACVR2", places.start), ("TRCACVR3", places.stop)];
    let guesses = |mut settings: Settings, return_stack: bool| {
        settings.set("TRCIDR8", 5);
        settings.set("TRCIDR0", if return_stack { 0x0800_0ea1 } else { 0x2800_0ea1 });
        settings.guess_seed = Some(7);
        settings
    };
    let mut by_source = ete(&[]);
    by_source.source_addresses = true;
    let small = |fill| Some(BufferSettings { size: 8192, fill, ..BufferSettings::default() });
    let (low, high, start, stop) = (places.low, places.high, places.start, places.stop);
    let filtered = |register: (&str, u64), shows| (ete(&[&[register][..], &range, &points].concat()), shows);
    let rows = [
        ("ETE", (ete(&[]), Shows::All), false, None),
        ("return stack", (ete(&[(CONFIG, 1 | 1 << 12)]), Shows::All), false, None),
        ("timestamps", (ete(&[(CONFIG, 1 | 1 << 11), ("TRCTSCTLR", 1)]), Shows::All), false, None),
        ("cycle counts", (ete(&[(CONFIG, 1 | 1 << 4), ("TRCCCCTLR", 64)]), Shows::All), false, None),
        ("context ids", (ete(&[(CONFIG, 1 | 0b11 << 6)]), Shows::All), false, None),
        ("branch broadcast", (ete(&[(CONFIG, 1 | 1 << 3)]), Shows::All), false, None),
        (
            "broadcast of a range",
            (ete(&[&[(CONFIG, 1 | 1 << 3), ("TRCBBCTLR", 0x101)][..], &range].concat()), Shows::All),
            false,
            None,
        ),
        ("guesses", (guesses(ete(&[]), false), Shows::All), false, None),
        ("guesses, return stack", (guesses(ete(&[(CONFIG, 1 | 1 << 12)]), true), Shows::All), false, None),
        ("source addresses", (by_source, Shows::All), false, None),
        ("all of it", (guesses(ete(&[(CONFIG, 0x18d9)]), true), Shows::All), true, None),
        ("ETMv4", (etm4(&[]), Shows::All), false, None),
        ("ETMv4, all of it", (guesses(etm4(&[(CONFIG, 0x18d9), ("TRCSYNCPR", 9)]), true), Shows::All), true, None),
        ("frames", (ete(&[]), Shows::All), true, None),
        ("synchronisations", (ete(&[("TRCSYNCPR", 8)]), Shows::All), false, None),
        ("include", filtered(("TRCVIIECTLR", 1), Shows::Within(low, high)), false, None),
        ("exclude", filtered(("TRCVIIECTLR", 0x1_0000), Shows::Without(low, high)), false, None),
        (
            "start and stop",
            {
                let points = [&[("TRCVISSCTLR", 0x8_0004), ("TRCVICTLR", 1)][..], &points].concat();
                (ete(&points), Shows::Between(start, stop))
            },
            false,
            None,
        ),
        ("users only", (ete(&[("TRCVICTLR", 0x20_0201)]), Shows::All), false, None),
        ("kernels only", (ete(&[("TRCVICTLR", 0x10_0201)]), Shows::Nothing), false, None),
        ("a circular buffer", (ete(&[("TRCSYNCPR", 8)]), Shows::End), false, small(FillMode::Circular)),
        ("one in frames", (ete(&[("TRCSYNCPR", 8)]), Shows::End), true, small(FillMode::Circular)),
        ("a buffer that fills", (ete(&[("TRCSYNCPR", 8)]), Shows::Start), false, small(FillMode::Fill)),
    ];
    let setup = |(name, (settings, shows), formatted, buffer)| Setup { name, settings, formatted, buffer, shows };
    rows.into_iter().map(setup).collect()
}

fn with(protocol: Protocol, registers: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::new(protocol);
    for (name, value) in registers {
        assert!(settings.set(name, *value), "{name}");
    }
    settings
}

/// Encodes, decodes, compares. What differs is told.
pub(crate) fn turn(trace: &Path, setup: &Setup, places: &Places, capture: &Path) -> Result<Outcome, String> {
    let started = Instant::now();
    let encoded = encode(trace, setup, capture)?;
    let encoding = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut outcome = Outcome { bytes: encoded.trace_bytes, breaks: encoded.breaks, ..Outcome::default() };
    for core in 0..places.cores {
        let compared = match setup.shows {
            Shows::End | Shows::Start => compare_part(trace, setup, core, capture),
            _ => compare(trace, setup, core, capture),
        };
        outcome.same += compared.map_err(|what| format!("{}, core {core}: {what}", setup.name))?;
    }
    outcome.seconds = (encoding, started.elapsed().as_secs_f64());
    Ok(outcome)
}

fn encode(trace: &Path, setup: &Setup, capture: &Path) -> Result<Encoded, String> {
    let mut steps = open_steps(trace, &OpenSteps::default()).map_err(|error| error.to_string())?;
    let options = EncodeOptions {
        settings: setup.settings.clone(),
        formatted: setup.formatted,
        buffer: setup.buffer,
        time_unit: steps.time_unit(),
    };
    let mut encoder = Encoder::new(capture, options).map_err(|error| error.to_string())?;
    let mut failed = None;
    let fed = steps.each(&mut |step| match encoder.take(step) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error.to_string());
            ControlFlow::Break(())
        }
    });
    fed.map_err(|error| error.to_string())?;
    match failed {
        Some(what) => Err(what),
        None => encoder.finish().map_err(|error| error.to_string()),
    }
}

/// Instructions travel in runs of so many.
const RUN: usize = 1 << 14;

/// Side by side: what the capture tells, and what the filter lets through.
fn compare(trace: &Path, setup: &Setup, core: u32, capture: &Path) -> Result<u64, String> {
    let (send, receive) = sync_channel::<Vec<Told>>(8);
    thread::scope(|scope| {
        let expected = scope.spawn(move || expect(trace, setup.shows, core, &send));
        let compared = compare_with(capture, core, receive);
        let expected = expected.join().map_err(|_| "what reads the trace stopped".to_string())?;
        expected.and(compared)
    })
}

fn compare_with(capture: &Path, core: u32, receive: Receiver<Vec<Told>>) -> Result<u64, String> {
    let mut expected = receive.into_iter().flatten();
    let (mut same, mut differs, mut before) = (0, None, None);
    decode(capture, core, &mut |found| match expected.next() {
        Some(wanted) if wanted == found => {
            same += 1;
            before = Some(found);
            true
        }
        wanted => {
            differs = Some(format!("instruction {same} behind {before:x?} is {found:x?}, and not {wanted:x?}"));
            false
        }
    })?;
    match (differs, expected.next()) {
        (Some(differs), _) => Err(differs),
        (None, Some(wanted)) => Err(format!("it ends behind {same} instructions, and {wanted:x?} is not there")),
        (None, None) => Ok(same),
    }
}

/// A small buffer has the start or the end of the trace.
fn compare_part(trace: &Path, setup: &Setup, core: u32, capture: &Path) -> Result<u64, String> {
    let mut found = Vec::new();
    decode(capture, core, &mut |one| {
        found.push(one);
        true
    })?;
    let mut all = 0;
    let count = &mut |_: Told| all += 1;
    each_shown(trace, Shows::All, core, count)?;
    let skipped = if setup.shows == Shows::End { all - found.len() } else { 0 };
    let (mut at, mut differs) = (0_usize, None);
    each_shown(trace, Shows::All, core, &mut |one| {
        let place = at.checked_sub(skipped);
        let is_other = place.and_then(|place| found.get(place)).is_some_and(|found| *found != one);
        if is_other && differs.is_none() {
            differs = Some(at);
        }
        at += 1;
    })?;
    match differs {
        Some(at) => Err(format!("instruction {at} of the trace is not that of the capture")),
        None if found.len() < 500.min(all / 4) => Err(format!("{} instructions are few", found.len())),
        None => Ok(found.len() as u64),
    }
}

/// Sends what is shown of a trace; who has seen enough hangs up.
fn expect(trace: &Path, shows: Shows, core: u32, send: &SyncSender<Vec<Told>>) -> Result<(), String> {
    let mut run = Vec::with_capacity(RUN);
    each_shown(trace, shows, core, &mut |one| {
        run.push(one);
        if run.len() == RUN {
            // Nobody listens once a difference was found.
            let _ = send.send(std::mem::replace(&mut run, Vec::with_capacity(RUN)));
        }
    })?;
    let _ = send.send(run);
    Ok(())
}

/// What a filter lets through: from an instruction that it shows until the end of its block.
fn each_shown(trace: &Path, shows: Shows, core: u32, take: &mut dyn FnMut(Told)) -> Result<(), String> {
    let (mut in_block, mut is_started, mut behind) = (false, false, None);
    each(trace, &mut |step| {
        let Event::Instruction(instruction) = &step.event else {
            in_block &= !(step.core == core && matches!(step.event, Event::Exception(_) | Event::Gap(_)));
            return true;
        };
        if step.core != core {
            return true;
        }
        let at = instruction.address;
        in_block &= behind == Some(at);
        let is_shown = match shows {
            Shows::All | Shows::Start | Shows::End => true,
            Shows::Nothing => false,
            Shows::Within(low, high) => (low..=high).contains(&at),
            Shows::Without(low, high) => !(low..=high).contains(&at),
            Shows::Between(start, stop) => {
                let is_shown = is_started || at == start;
                is_started = is_shown && at != stop;
                is_shown
            }
        };
        if is_shown || in_block {
            take((at, instruction.opcode.unwrap_or(0), instruction.isa));
            in_block = !ends_block(instruction);
        }
        behind = Some(at.wrapping_add(u64::from(instruction.length)));
        true
    })
}

/// Has trace an element for it?
fn ends_block(instruction: &Instruction) -> bool {
    let set = match instruction.isa {
        Isa::A32 => unspool::isa::Isa::A32,
        Isa::T32 => unspool::isa::Isa::T32,
        _ => unspool::isa::Isa::A64,
    };
    let kind = instruction.opcode.map(|opcode| facts(set, instruction.address, opcode).kind);
    !matches!(kind, Some(Kind::Other | Kind::Wfx))
}

fn decode(capture: &Path, core: u32, take: &mut dyn FnMut(Told) -> bool) -> Result<(), String> {
    let opened = Capture::open(capture).map_err(|error| error.to_string())?;
    let unit = format!("UNIT_{core}");
    let mut steps = CaptureSteps::new(opened, Some(&unit), &[]).map_err(|error| error.to_string())?;
    let mut told = Ok(());
    let read = steps.each(&mut |step| match &step.event {
        Event::Instruction(instruction) => {
            let one = (instruction.address, instruction.opcode.unwrap_or(0), instruction.isa);
            if take(one) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
        Event::Exception(exception) if exception.kind == ExceptionKind::Reset => {
            told = Err("it tells a reset".to_string());
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    read.map_err(|error| error.to_string()).and(told)
}

fn each(trace: &Path, take: &mut dyn FnMut(&Step) -> bool) -> Result<(), String> {
    let mut steps = open_steps(trace, &OpenSteps::default()).map_err(|error| error.to_string())?;
    let read = steps.each(&mut |step| if take(step) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
    read.map_err(|error| error.to_string())
}
