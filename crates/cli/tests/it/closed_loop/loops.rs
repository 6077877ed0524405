//! The closed loop over any trace: encoded, decoded, and compared with the original.
//!
//! trace ─▶ encoder ─▶ capture ─▶ decoder ─▶ instructions ◀═ equal? ═▶ trace, filtered as the registers select
//!
//! Neither side is held in memory, except for the contents of a small buffer. The tests have small traces; the example
//! `closed_loop` takes large ones. Several traces are the cores of one capture, one each. Recordings have no times: where timestamps
//! are traced, each instruction gets a time that encodes its number, and the decoded times are compared too (see `times`).

#[path = "setups.rs"]
mod setups;
#[path = "times.rs"]
mod times;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use unspool::capture::Capture;
use unspool::coresight::Protocol;
use unspool::encode::{EncodeOptions, Encoded};
use unspool::isa;
use unspool::model::{Coverage, Event, ExceptionKind, Gap, Instruction, Isa, SourceError, Step, StepSource, TimeUnit};
use unspool::{CaptureSteps, OpenSteps, OpenedSteps, open_steps};

pub(crate) use self::setups::{Setup, Shown, setups};
use self::times::{Times, index_of, time_of};

/// Instruction as a trace unit traces it.
pub(crate) type Executed = (u64, u32, Isa);

struct Expected {
    executed: Executed,
    /// Number of instructions of its core before it.
    index: u64,
    /// It is the first of its block.
    starts_block: bool,
}

struct Decoded {
    executed: Executed,
    time: Option<u64>,
    /// An overflow comes before it.
    follows_overflow: bool,
}

/// Addresses of a run, for filters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Positions {
    /// First and last instruction of a part of the code.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Instructions that are executed now and then.
    pub(crate) start: u64,
    pub(crate) stop: u64,
    /// Number of instructions of all cores.
    pub(crate) instructions: u64,
    pub(crate) cores: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Number of equal instructions.
    pub(crate) same: u64,
    /// Bytes of trace.
    pub(crate) bytes: u64,
    /// Number of times that the trace restarts.
    pub(crate) breaks: u64,
    /// Number of overflows, and of instructions that were lost to them.
    pub(crate) overflows: u64,
    pub(crate) lost: u64,
    /// Number of correct timestamps.
    pub(crate) times: u64,
    /// Seconds for encoding and for decoding, each with reading the trace.
    pub(crate) seconds: (f64, f64),
}

impl Positions {
    pub(crate) fn of(traces: &[PathBuf]) -> Result<Self, String> {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut positions = Self::default();
        for trace in traces {
            let mut cores = 0;
            each(trace, &mut |step| {
                if let Event::Instruction(instruction) = &step.event {
                    *counts.entry(instruction.address).or_default() += 1;
                    positions.instructions += 1;
                    cores = cores.max(step.core + 1);
                }
                true
            })?;
            positions.cores += cores;
        }
        if traces.len() > 1 && positions.cores as usize != traces.len() {
            return Err("several traces must have one core each".to_string());
        }
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

/// Encodes, decodes and compares; the error describes a difference.
pub(crate) fn round_trip(
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
        let run: Run<'_> = if traces.len() > 1 { (&traces[core as usize], 0) } else { (&traces[0], core) };
        let compared = match setup.shown {
            Shown::End | Shown::Start => compare_part(run, setup, core, capture, &mut outcome),
            _ => compare(run, setup, core, capture, &mut outcome),
        };
        compared.map_err(|error| format!("{}, core {core}: {error}", setup.name))?;
    }
    if matches!(setup.shown, Shown::End | Shown::Start) && is_too_short(outcome.same, positions.instructions) {
        return Err(format!("{}: {} instructions of all cores are too few", setup.name, outcome.same));
    }
    let (found, made) = ((outcome.overflows, outcome.lost), encoded.overflowed);
    if found != (made.overflows, made.instructions) {
        return Err(format!("{}: {found:?} overflows and lost instructions, not {made:?}", setup.name));
    }
    outcome.seconds = (encoding, started.elapsed().as_secs_f64());
    Ok(outcome)
}

fn encode(traces: &[PathBuf], setup: &Setup, capture: &Path) -> Result<Encoded, String> {
    let opened = traces.iter().map(|trace| open(trace)).collect::<Result<Vec<_>, _>>()?;
    let options = EncodeOptions {
        settings: setup.settings.clone(),
        formatted: setup.formatted,
        buffer: setup.buffer,
        time_unit: opened.first().map_or(TimeUnit::Unknown, StepSource::time_unit),
        replace: false,
        events: None,
    };
    let stamped = |steps| -> OpenedSteps { if setup.has_times() { Box::new(Stamped(steps)) } else { steps } };
    let encoded = unspool::encode::encode(capture, opened.into_iter().map(stamped).collect(), options);
    encoded.map(|(encoded, _)| encoded).map_err(|error| error.to_string())
}

/// Steps whose instructions have times.
struct Stamped(OpenedSteps);

impl StepSource for Stamped {
    fn coverage(&self) -> Coverage {
        self.0.coverage()
    }

    fn time_unit(&self) -> TimeUnit {
        self.0.time_unit()
    }

    fn each(&mut self, push: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let (mut counts, mut stamped) = (HashMap::new(), Step::default());
        self.0.each(&mut |step| {
            stamped.clone_from(step);
            if step.event.instruction().is_some() {
                let count = counts.entry(step.core).or_default();
                stamped.time = Some(time_of(*count));
                *count += 1;
            }
            push(&stamped)
        })
    }
}

/// Instructions that are sent at once.
const BATCH: usize = 1 << 14;

/// Trace, and one of its cores.
type Run<'t> = (&'t Path, u32);

fn compare(run: Run<'_>, setup: &Setup, core: u32, capture: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let (send, receive) = sync_channel::<Vec<Expected>>(8);
    thread::scope(|scope| {
        let expected = scope.spawn(move || send_expected(run, setup.shown, &send));
        let compared = compare_with(capture, setup, core, receive, outcome);
        let expected = expected.join().map_err(|_| "the reader of the trace panicked".to_string())?;
        expected.and(compared)
    })
}

fn compare_with(
    capture: &Path,
    setup: &Setup,
    core: u32,
    receive: Receiver<Vec<Expected>>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut comparison = Comparison {
        expected: receive.into_iter().flatten(),
        overflows: setup.settings.has_overflows(),
        shows_overflows_later: matches!(setup.settings.protocol(), Protocol::Ptm | Protocol::Etm3),
        times: setup.has_times().then(|| Times::new(setup.has_all_times())),
        times_all_instructions: setup.settings.protocol() == Protocol::Etm3,
        before: None,
        outcome,
    };
    let mut differs = Ok(());
    let is_cut = decode(capture, core, &mut |found| {
        differs = comparison.check(found);
        differs.is_ok()
    })?;
    differs?;
    comparison.finish(is_cut)
}

struct Comparison<'o, E> {
    expected: E,
    overflows: bool,
    shows_overflows_later: bool,
    times: Option<Times>,
    /// Timestamps may be before any instruction, and not only at the start of a block.
    times_all_instructions: bool,
    before: Option<Executed>,
    outcome: &'o mut Outcome,
}

impl<E: Iterator<Item = Expected>> Comparison<'_, E> {
    fn check(&mut self, found: &Decoded) -> Result<(), String> {
        let wanted = if found.follows_overflow { self.skip_lost(found)? } else { self.expected.next() };
        let (same, before) = (self.outcome.same, self.before);
        let differs = |error: String| format!("instruction {same} after {before:x?} {error}");
        let wanted = match wanted {
            Some(wanted) if wanted.executed == found.executed => wanted,
            wanted => {
                let wanted = wanted.map(|wanted| wanted.executed);
                return Err(differs(format!("is {:x?}, not {wanted:x?}", found.executed)));
            }
        };
        if let Some(times) = &mut self.times {
            let starts_block = wanted.starts_block || found.follows_overflow || self.times_all_instructions;
            let is_new = times.check(found.time, time_of(wanted.index), starts_block).map_err(differs)?;
            self.outcome.times += u64::from(is_new);
        }
        self.outcome.same += 1;
        self.before = Some(found.executed);
        Ok(())
    }

    /// Skips what an overflow lost: at least one instruction, up to the one with the decoded time.
    fn skip_lost(&mut self, found: &Decoded) -> Result<Option<Expected>, String> {
        if !self.overflows {
            return Err("unexpected overflow".to_string());
        }
        let time = found.time;
        let index = time
            .and_then(index_of)
            .ok_or_else(|| format!("{time:?} after an overflow is not the time of an instruction"))?;
        self.outcome.overflows += 1;
        let lost = &mut self.outcome.lost;
        let before = *lost;
        let next = self.expected.by_ref().find(|wanted| {
            *lost += u64::from(wanted.index < index);
            wanted.index >= index
        });
        let is_there = *lost > before && next.as_ref().is_some_and(|next| next.index == index);
        if is_there {
            Ok(next)
        } else {
            Err(format!("an overflow leads to instruction {index}, which does not follow"))
        }
    }

    /// Nothing is left, except for what was lost at the end. PTM and ETMv3 show an overflow where trace resumes, so one at
    /// the end is not shown; the number of lost instructions is compared with that of the encoder.
    fn finish(mut self, is_cut: bool) -> Result<(), String> {
        match self.expected.next() {
            Some(_) if self.overflows && (is_cut || self.shows_overflows_later) => {
                self.outcome.overflows += 1;
                self.outcome.lost += 1 + self.expected.count() as u64;
                Ok(())
            }
            Some(Expected { executed, .. }) => {
                Err(format!("the trace ends after {} instructions, before {executed:x?}", self.outcome.same))
            }
            None => {
                self.outcome.overflows += u64::from(is_cut && self.overflows);
                Ok(())
            }
        }
    }
}

/// Is it less than even a small buffer contains of a run?
fn is_too_short(found: u64, all: u64) -> bool {
    found < 500.min(all / 4)
}

/// Compares a small buffer, which contains the start or the end of the trace.
fn compare_part(run: Run<'_>, setup: &Setup, core: u32, capture: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let mut found = Vec::new();
    decode(capture, core, &mut |one| {
        found.push(one.executed);
        true
    })?;
    let mut all = 0;
    each_shown(run, Shown::All, &mut |_| all += 1)?;
    let skipped = if setup.shown == Shown::End { all - found.len() } else { 0 };
    let (mut at, mut differs) = (0_usize, None);
    each_shown(run, Shown::All, &mut |one| {
        let position = at.checked_sub(skipped);
        let is_other = position.and_then(|position| found.get(position)).is_some_and(|found| *found != one.executed);
        if is_other && differs.is_none() {
            differs = Some(at);
        }
        at += 1;
    })?;
    match differs {
        Some(at) => Err(format!("instruction {at} of the trace differs from the capture")),
        // Of cores that share a buffer, some may have ended earlier.
        None if !setup.formatted && is_too_short(found.len() as u64, all as u64) => {
            Err(format!("{} instructions are too few", found.len()))
        }
        None => {
            outcome.same += found.len() as u64;
            Ok(())
        }
    }
}

/// Sends the traced part of a run.
fn send_expected(run: Run<'_>, shown: Shown, send: &SyncSender<Vec<Expected>>) -> Result<(), String> {
    let mut some = Vec::with_capacity(BATCH);
    each_shown(run, shown, &mut |one| {
        some.push(one);
        if some.len() == BATCH {
            // After a difference, nothing is received.
            let _ = send.send(std::mem::replace(&mut some, Vec::with_capacity(BATCH)));
        }
    })?;
    let _ = send.send(some);
    Ok(())
}

/// Emits instructions that a filter traces: from a selected instruction until the end of its block.
fn each_shown((trace, core): Run<'_>, shown: Shown, push: &mut dyn FnMut(Expected)) -> Result<(), String> {
    let (mut in_block, mut is_started, mut next) = (false, false, None);
    let mut count = 0;
    each(trace, &mut |step| {
        let Event::Instruction(instruction) = &step.event else {
            in_block &= !(step.core == core && matches!(step.event, Event::Exception(_) | Event::Gap(_)));
            return true;
        };
        if step.core != core {
            return true;
        }
        let (at, index) = (instruction.address, count);
        count += 1;
        in_block &= next == Some(at);
        let is_shown = match shown {
            Shown::All | Shown::Start | Shown::End => true,
            Shown::Nothing => false,
            Shown::Within(low, high) => (low..=high).contains(&at),
            Shown::Without(low, high) => !(low..=high).contains(&at),
            Shown::Between(start, stop) => {
                let is_shown = is_started || at == start;
                is_started = is_shown && at != stop;
                is_shown
            }
        };
        if is_shown || in_block {
            push(Expected { executed: executed(instruction), index, starts_block: !in_block });
            in_block = !ends_block(instruction);
        }
        next = Some(at.wrapping_add(u64::from(instruction.length)));
        true
    })
}

/// Is it traced as an element?
fn ends_block(instruction: &Instruction) -> bool {
    instruction.opcode.is_none_or(|opcode| {
        let flow = isa::decode(instruction.isa, instruction.address, opcode).flow;
        flow.is_p0() && flow != isa::ControlFlow::Wfx
    })
}

fn executed(instruction: &Instruction) -> Executed {
    (instruction.address, instruction.opcode.unwrap_or(0), instruction.isa)
}

/// Emits the instructions of a capture. True: it ends with an overflow.
fn decode(capture: &Path, core: u32, push: &mut dyn FnMut(&Decoded) -> bool) -> Result<bool, String> {
    let opened = Capture::open(capture).map_err(|error| error.to_string())?;
    let unit = format!("UNIT_{core}");
    let mut steps = CaptureSteps::new(opened, Some(&unit), &[]).map_err(|error| error.to_string())?;
    let (mut problem, mut follows_overflow) = (Ok(()), false);
    let read = steps.each(&mut |step| match &step.event {
        Event::Instruction(instruction) => {
            let found = Decoded { executed: executed(instruction), time: step.time, follows_overflow };
            follows_overflow = false;
            if push(&found) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
        Event::Gap(Gap::Overflow) => {
            if follows_overflow {
                problem = Err("two overflows without an instruction between them".to_string());
            }
            follows_overflow = true;
            ControlFlow::Continue(())
        }
        Event::Exception(exception) if exception.kind == ExceptionKind::Reset => {
            problem = Err("unexpected reset".to_string());
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    read.map_err(|error| error.to_string()).and(problem).map(|()| follows_overflow)
}

fn each(trace: &Path, push: &mut dyn FnMut(&Step) -> bool) -> Result<(), String> {
    let read =
        open(trace)?.each(&mut |step| if push(step) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
    read.map_err(|error| error.to_string())
}

fn open(trace: &Path) -> Result<OpenedSteps, String> {
    open_steps(trace, &OpenSteps::default()).map_err(|error| error.to_string())
}
