//! The closed loop over any trace: encoded with one option after the other, decoded, and compared with where it began.
//!
//! trace ─▶ encoder ─▶ capture ─▶ decoder ─▶ instructions ◀═ the same? ═▶ trace, filtered as the registers say
//!
//! Neither side is held in memory, but for what a small buffer keeps. The tests have small traces; the example of the same
//! name takes large ones. Several traces are the cores of one capture. Recordings have no times: where timestamps are
//! traced, each instruction gets a time that says which one it is, and the decoded times are compared too (see `times`).

#[path = "setups.rs"]
mod setups;
#[path = "side_by_side.rs"]
mod side_by_side;
#[path = "times.rs"]
mod times;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use unspool::capture::Capture;
use unspool::encode::{EncodeOptions, Encoded, Encoder};
use unspool::isa;
use unspool::model::{Event, ExceptionKind, Gap, Instruction, Isa, Step, StepSource, TimeUnit};
use unspool::{CaptureSteps, OpenSteps, OpenedSteps, open_steps};

pub(crate) use self::setups::{Setup, Shows, setups};
use self::side_by_side::SideBySide;
use self::times::{Times, index_of, time_of};

/// An instruction, as far as trace tells it.
pub(crate) type Told = (u64, u32, Isa);

/// An instruction of the run.
struct Wanted {
    told: Told,
    /// How many instructions of its core are before it.
    index: u64,
    /// Nothing of its block is before it.
    starts_block: bool,
}

/// An instruction that was decoded.
struct Found {
    told: Told,
    time: Option<u64>,
    /// An overflow was told before it.
    is_behind_overflow: bool,
}

/// Addresses of a run that filters can be made of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Positions {
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
    /// Overflows that were told, and instructions that were lost to them.
    pub(crate) overflows: u64,
    pub(crate) lost: u64,
    /// Timestamps that were told, and were right.
    pub(crate) times: u64,
    /// Seconds that encoding and decoding took, each with reading what it is compared with.
    pub(crate) seconds: (f64, f64),
}

impl Positions {
    /// Looks through a trace.
    pub(crate) fn of(traces: &[PathBuf]) -> Result<Self, String> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut positions = Self::default();
        each(traces, &mut |step| {
            if let Event::Instruction(instruction) = &step.event {
                *counts.entry(instruction.address).or_default() += 1;
                positions.instructions += 1;
                positions.cores = positions.cores.max(step.core + 1);
            }
            true
        })?;
        let mut all: Vec<(u64, u64)> = counts.into_iter().collect();
        all.sort_unstable();
        let at = |part: usize| all.get(all.len() * part / 10).map_or(0, |(address, _)| *address);
        (positions.low, positions.high) = (at(3), at(5));
        let often: Vec<u64> = all.iter().filter(|(_, count)| (3..100).contains(count)).map(|(at, _)| *at).collect();
        let one = |part: usize| often.get(often.len() * part / 10).copied().unwrap_or(positions.low);
        (positions.start, positions.stop) = (one(2), one(7));
        Ok(positions)
    }
}

/// Encodes, decodes, compares. What differs is told.
pub(crate) fn turn(
    traces: &[PathBuf],
    setup: &Setup,
    positions: &Positions,
    capture: &Path,
) -> Result<Outcome, String> {
    let started = Instant::now();
    let encoded = encode(traces, setup, capture)?;
    let encoding = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut outcome = Outcome { bytes: encoded.trace_bytes, breaks: encoded.breaks, ..Outcome::default() };
    for core in 0..positions.cores {
        // Where each trace has one core, the others need not be read.
        let has_own = traces.len() == positions.cores as usize;
        let run = if has_own { (&traces[core as usize..][..1], 0) } else { (traces, core) };
        let compared = match setup.shows {
            Shows::End | Shows::Start => compare_part(run, setup, core, capture, &mut outcome),
            _ => compare(run, setup, core, capture, &mut outcome),
        };
        compared.map_err(|what| format!("{}, core {core}: {what}", setup.name))?;
    }
    if matches!(setup.shows, Shows::End | Shows::Start) && is_little(outcome.same, positions.instructions) {
        return Err(format!("{}: {} instructions of all cores are few", setup.name, outcome.same));
    }
    let (found, made) = ((outcome.overflows, outcome.lost), encoded.overflowed);
    if found != (made.overflows, made.instructions) {
        return Err(format!("{}: {found:?} overflows and lost instructions, and not {made:?}", setup.name));
    }
    outcome.seconds = (encoding, started.elapsed().as_secs_f64());
    Ok(outcome)
}

/// As users encode, but where instructions get times of their own.
fn encode(traces: &[PathBuf], setup: &Setup, capture: &Path) -> Result<Encoded, String> {
    let opened = open_each(traces)?;
    let options = EncodeOptions {
        settings: setup.settings.clone(),
        formatted: setup.formatted,
        buffer: setup.buffer,
        time_unit: opened.first().map_or(TimeUnit::Unknown, StepSource::time_unit),
    };
    if setup.has_times() {
        return encode_stamped(side_by_side(opened)?, options, capture);
    }
    let made = unspool::encode::encode(capture, opened, options);
    made.map(|(encoded, _)| encoded).map_err(|error| error.to_string())
}

fn encode_stamped(mut steps: OpenedSteps, options: EncodeOptions, capture: &Path) -> Result<Encoded, String> {
    let mut encoder = Encoder::new(capture, options).map_err(|error| error.to_string())?;
    let mut stamps = Stamps::default();
    let mut failed = None;
    let fed = steps.each(&mut |step| match encoder.push(stamps.stamp(step)) {
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

/// Gives instructions their times.
#[derive(Default)]
struct Stamps {
    /// Instructions so far, of each core.
    counts: Vec<u64>,
    step: Step,
}

impl Stamps {
    fn stamp(&mut self, step: &Step) -> &Step {
        self.step.clone_from(step);
        if step.event.instruction().is_some() {
            let core = step.core as usize;
            self.counts.resize(self.counts.len().max(core + 1), 0);
            self.step.time = Some(time_of(self.counts[core]));
            self.counts[core] += 1;
        }
        &self.step
    }
}

/// So many instructions travel together.
const SOME: usize = 1 << 14;

/// Traces, and which of their cores.
type Run<'t> = (&'t [PathBuf], u32);

/// Side by side: what the capture tells, and what the filter lets through.
fn compare(run: Run<'_>, setup: &Setup, core: u32, capture: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let (send, receive) = sync_channel::<Vec<Wanted>>(8);
    thread::scope(|scope| {
        let expected = scope.spawn(move || expect(run, setup.shows, &send));
        let compared = compare_with(capture, setup, core, receive, outcome);
        let expected = expected.join().map_err(|_| "what reads the trace stopped".to_string())?;
        expected.and(compared)
    })
}

fn compare_with(
    capture: &Path,
    setup: &Setup,
    core: u32,
    receive: Receiver<Vec<Wanted>>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut comparison = Comparison {
        expected: receive.into_iter().flatten(),
        overflows: setup.settings.overflow_seed.is_some(),
        times: setup.has_times().then(|| Times::new(setup.has_all_times())),
        before: None,
        outcome,
    };
    let mut differs = Ok(());
    let is_cut = decode(capture, core, &mut |found| {
        differs = comparison.take(found);
        differs.is_ok()
    })?;
    differs?;
    comparison.finish(is_cut)
}

/// Compares instruction by instruction.
struct Comparison<'o, E> {
    expected: E,
    overflows: bool,
    times: Option<Times>,
    before: Option<Told>,
    outcome: &'o mut Outcome,
}

impl<E: Iterator<Item = Wanted>> Comparison<'_, E> {
    fn take(&mut self, found: &Found) -> Result<(), String> {
        let wanted = if found.is_behind_overflow { self.pass_lost(found)? } else { self.expected.next() };
        let (same, before) = (self.outcome.same, self.before);
        let differs = |what: String| format!("instruction {same} behind {before:x?} {what}");
        let wanted = match wanted {
            Some(wanted) if wanted.told == found.told => wanted,
            wanted => {
                let wanted = wanted.map(|wanted| wanted.told);
                return Err(differs(format!("is {:x?}, and not {wanted:x?}", found.told)));
            }
        };
        if let Some(times) = &mut self.times {
            let starts_block = wanted.starts_block || found.is_behind_overflow;
            let is_new = times.take(found.time, time_of(wanted.index), starts_block).map_err(differs)?;
            self.outcome.times += u64::from(is_new);
        }
        self.outcome.same += 1;
        self.before = Some(found.told);
        Ok(())
    }

    /// Passes over what an overflow lost: at least one instruction, up to the one whose time is told.
    fn pass_lost(&mut self, found: &Found) -> Result<Option<Wanted>, String> {
        if !self.overflows {
            return Err("it tells an overflow".to_string());
        }
        let time = found.time;
        let index = time.and_then(index_of).ok_or_else(|| format!("{time:?} behind an overflow is no time"))?;
        self.outcome.overflows += 1;
        let lost = &mut self.outcome.lost;
        let before = *lost;
        let next = self.expected.by_ref().find(|wanted| {
            *lost += u64::from(wanted.index < index);
            wanted.index >= index
        });
        let is_there = *lost > before && next.as_ref().is_some_and(|next| next.index == index);
        if is_there { Ok(next) } else { Err(format!("an overflow leads to instruction {index}, which is not ahead")) }
    }

    /// Nothing is left, but for what was lost at the end.
    fn finish(mut self, is_cut: bool) -> Result<(), String> {
        if is_cut && self.overflows {
            self.outcome.overflows += 1;
            self.outcome.lost += self.expected.count() as u64;
            return Ok(());
        }
        match self.expected.next() {
            Some(Wanted { told, .. }) => {
                Err(format!("it ends behind {} instructions, and {told:x?} is not there", self.outcome.same))
            }
            None => Ok(()),
        }
    }
}

/// Is it less than even a small buffer has of so many instructions?
fn is_little(found: u64, all: u64) -> bool {
    found < 500.min(all / 4)
}

/// A small buffer has the start or the end of the trace.
fn compare_part(run: Run<'_>, setup: &Setup, core: u32, capture: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let mut found = Vec::new();
    decode(capture, core, &mut |one| {
        found.push(one.told);
        true
    })?;
    let mut all = 0;
    let count = &mut |_: Wanted| all += 1;
    each_shown(run, Shows::All, count)?;
    let skipped = if setup.shows == Shows::End { all - found.len() } else { 0 };
    let (mut at, mut differs) = (0_usize, None);
    each_shown(run, Shows::All, &mut |one| {
        let position = at.checked_sub(skipped);
        let is_other = position.and_then(|position| found.get(position)).is_some_and(|found| *found != one.told);
        if is_other && differs.is_none() {
            differs = Some(at);
        }
        at += 1;
    })?;
    match differs {
        Some(at) => Err(format!("instruction {at} of the trace is not that of the capture")),
        // Of cores that share a buffer, some may have ended before what is left of it.
        None if !setup.formatted && is_little(found.len() as u64, all as u64) => {
            Err(format!("{} instructions are few", found.len()))
        }
        None => {
            outcome.same += found.len() as u64;
            Ok(())
        }
    }
}

/// Sends what is shown of a trace; who has seen enough hangs up.
fn expect(run: Run<'_>, shows: Shows, send: &SyncSender<Vec<Wanted>>) -> Result<(), String> {
    let mut some = Vec::with_capacity(SOME);
    each_shown(run, shows, &mut |one| {
        some.push(one);
        if some.len() == SOME {
            // Nobody listens once a difference was found.
            let _ = send.send(std::mem::replace(&mut some, Vec::with_capacity(SOME)));
        }
    })?;
    let _ = send.send(some);
    Ok(())
}

/// What a filter lets through: from an instruction that it shows until the end of its block.
fn each_shown((traces, core): Run<'_>, shows: Shows, take: &mut dyn FnMut(Wanted)) -> Result<(), String> {
    let (mut in_block, mut is_started, mut behind) = (false, false, None);
    let mut count = 0;
    each(traces, &mut |step| {
        let Event::Instruction(instruction) = &step.event else {
            in_block &= !(step.core == core && matches!(step.event, Event::Exception(_) | Event::Gap(_)));
            return true;
        };
        if step.core != core {
            return true;
        }
        let (at, index) = (instruction.address, count);
        count += 1;
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
            take(Wanted { told: told(instruction), index, starts_block: !in_block });
            in_block = !ends_block(instruction);
        }
        behind = Some(at.wrapping_add(u64::from(instruction.length)));
        true
    })
}

/// Has trace an element for it?
fn ends_block(instruction: &Instruction) -> bool {
    instruction.opcode.is_none_or(|opcode| {
        let flow = isa::decode(instruction.isa, instruction.address, opcode).flow;
        flow.is_p0() && flow != isa::ControlFlow::Wfx
    })
}

fn told(instruction: &Instruction) -> Told {
    (instruction.address, instruction.opcode.unwrap_or(0), instruction.isa)
}

/// Hands out the instructions of a capture. True: the last thing that it tells is an overflow.
fn decode(capture: &Path, core: u32, take: &mut dyn FnMut(&Found) -> bool) -> Result<bool, String> {
    let opened = Capture::open(capture).map_err(|error| error.to_string())?;
    let unit = format!("UNIT_{core}");
    let mut steps = CaptureSteps::new(opened, Some(&unit), &[]).map_err(|error| error.to_string())?;
    let (mut problem, mut is_behind_overflow) = (Ok(()), false);
    let read = steps.each(&mut |step| match &step.event {
        Event::Instruction(instruction) => {
            let found = Found { told: told(instruction), time: step.time, is_behind_overflow };
            is_behind_overflow = false;
            if take(&found) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
        Event::Gap(Gap::Overflow) => {
            if is_behind_overflow {
                problem = Err("it tells two overflows, and nothing between them".to_string());
            }
            is_behind_overflow = true;
            ControlFlow::Continue(())
        }
        Event::Exception(exception) if exception.kind == ExceptionKind::Reset => {
            problem = Err("it tells a reset".to_string());
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    read.map_err(|error| error.to_string()).and(problem).map(|()| is_behind_overflow)
}

fn each(traces: &[PathBuf], take: &mut dyn FnMut(&Step) -> bool) -> Result<(), String> {
    let read =
        open(traces)?.each(&mut |step| if take(step) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
    read.map_err(|error| error.to_string())
}

fn open(traces: &[PathBuf]) -> Result<OpenedSteps, String> {
    side_by_side(open_each(traces)?)
}

fn open_each(traces: &[PathBuf]) -> Result<Vec<OpenedSteps>, String> {
    let open = |trace: &PathBuf| open_steps(trace, &OpenSteps::default()).map_err(|error| error.to_string());
    traces.iter().map(open).collect()
}

fn side_by_side(mut opened: Vec<OpenedSteps>) -> Result<OpenedSteps, String> {
    match opened.pop() {
        Some(only) if opened.is_empty() => Ok(only),
        last => Ok(Box::new(SideBySide::new(opened.into_iter().chain(last).collect()).map_err(|e| e.to_string())?)),
    }
}
