//! Calls of traces, as `calls` and `profile` take them: every file, and every source of a capture, by itself.
//!
//! Takes arguments and a sink for the calls; produces the sink with the names of cores, functions and units that printing needs.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use unspool::analyze::calls::{CallSink, Spans, Stack, Window};
use unspool::analyze::tree::{TreePart, TreeSelection};
use unspool::file::{TarmacFile, TraceFile};
use unspool::model::{CoreSelector, Coverage, Facet, SourceError, StepSource, TimeUnit};
use unspool::number::many;
use unspool::software_marks::SoftwareSource;
use unspool::{CaptureSteps, Clock, FileKind, FollowedCalls, Meter, Program, follow_calls};

use crate::args::OutputArgs;
use crate::diagnostic;
use crate::file::{each_file, losses_verdict, tarmac_verdict};
use crate::output::Output;
use crate::progress::Progress;
use crate::selection_args::{GivenUnit, TimeRange};
use crate::symbols::{printable, symbol_text};
use crate::traces::{EachOptions, OpenTrace, ReadArgs, name_of};
use crate::verdict::Verdict;

/// Arguments of the verbs that follow calls.
#[derive(Debug, clap::Args)]
pub(super) struct CallArgs {
    /// Captures, ASTF files, STF files or Tarmac logs ('-': standard input, except for captures)
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) read: ReadArgs,

    /// Only this core: its name, or its number in order of appearance, counted from 0. Of a capture: each source is a core
    #[arg(long, value_name = "N|NAME")]
    pub(super) core: Option<CoreSelector>,

    /// Only calls whose start and end are both in the trace
    #[arg(long)]
    pub(super) complete: bool,
}

/// A trace whose calls were followed: a file, or a source of a capture.
pub(super) struct Part<'p> {
    /// Its name in messages.
    pub(super) name: String,
    /// Heading, if there are several.
    pub(super) heading: Option<String>,
    pub(super) kind: FileKind,
    pub(super) times: Times,
    /// The selected stacks.
    pub(super) stacks: Vec<NamedStack>,
    /// Whether there are other stacks than these.
    pub(super) has_several: bool,
    /// Whether anything was executed, selected or not.
    pub(super) is_executed: bool,
    /// Software trace, which has no stacks.
    pub(super) software: Option<Software<'p>>,
    /// The source, if it has timestamps and cycle counts.
    pub(super) cycles: Option<&'p CaptureSteps>,
    program: &'p Program,
}

/// A source of software trace.
pub(super) struct Software<'p> {
    pub(super) source: &'p SoftwareSource,
    pub(super) meter: &'p Meter,
}

/// What is wanted of traces. The default is all that is executed.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted<'w> {
    /// Numbers or names of processes; empty: all.
    pub(super) processes: &'w [String],
    pub(super) time: Option<&'w TimeRange>,
    /// Numbers of instructions of each core, counted from 0.
    pub(super) instructions: Option<&'w Range<u64>>,
    /// Whether software trace is wanted too, as parts of its own.
    pub(super) software: bool,
}

/// A stack, with the name of its core.
pub(super) struct NamedStack {
    /// Its number in the sink.
    pub(super) number: usize,
    /// Number of the core in the trace.
    pub(super) core_number: u32,
    /// Empty if there is nothing to distinguish.
    pub(super) core: String,
    pub(super) process: Option<u64>,
    pub(super) thread: Option<u64>,
    /// The part of it that is wanted; `None`: all.
    pub(super) part: Option<TreePart>,
}

/// How times are printed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    /// Whether the trace has times.
    pub(super) are_known: bool,
    /// Whether every instruction has a time of its own, as in a log.
    pub(super) are_fine: bool,
    pub(super) unit: &'static str,
    pub(super) decimals: u8,
}

impl Times {
    fn of_log(clock: Clock) -> Self {
        let unit = clock.unit();
        let (are_known, unit) = (unit.is_some(), unit.map_or("", |unit| unit.name()));
        Self { are_known, are_fine: are_known, unit, decimals: clock.decimals() }
    }

    fn of_steps(coverage: Coverage, unit: TimeUnit) -> Self {
        let unit = match unit {
            TimeUnit::Seconds(0) => "s",
            TimeUnit::Seconds(-3) => "ms",
            TimeUnit::Seconds(-6) => "us",
            TimeUnit::Seconds(-9) => "ns",
            TimeUnit::Seconds(-12) => "ps",
            TimeUnit::Cycles => "cycles",
            _ => "",
        };
        Self { are_known: coverage.has(Facet::Times), are_fine: false, unit, decimals: 0 }
    }

    /// A time in nanoseconds; one of another unit as it is.
    pub(super) fn nanoseconds(self, time: u64) -> u64 {
        let Some(exponent) = self.exponent() else { return time };
        let factor = |exponent: i32| 10_u64.saturating_pow(exponent.unsigned_abs());
        if exponent < 0 { time / factor(exponent) } else { time.saturating_mul(factor(exponent)) }
    }

    /// The power of ten that a time has to be multiplied with for nanoseconds.
    pub(super) fn exponent(self) -> Option<i32> {
        let exponent = match self.unit {
            "s" => 9,
            "ms" => 6,
            "us" => 3,
            "ns" => 0,
            "ps" => -3,
            "fs" => -6,
            _ => return None,
        };
        Some(exponent - i32::from(self.decimals))
    }

    /// Times of an option in the unit of the trace.
    pub(super) fn window(self, name: &str, given: &TimeRange) -> anyhow::Result<Range<u64>> {
        if !self.are_known {
            bail!("{name}: --time: the trace has no times");
        }
        let scale = 10_u64.saturating_pow(self.decimals.into());
        let power = |exponent: i32| 10_u64.saturating_pow(exponent.unsigned_abs());
        let convert = |time: u64| match (given.unit, self.exponent()) {
            (_, _) if time == u64::MAX => Some(time),
            (GivenUnit::Ticks, _) => Some(time.saturating_mul(scale)),
            (GivenUnit::Nanoseconds, Some(exponent @ ..0)) => Some(time.saturating_mul(power(exponent))),
            (GivenUnit::Nanoseconds, Some(exponent)) => Some(time.div_ceil(power(exponent))),
            (GivenUnit::Nanoseconds, None) => None,
        };
        match (convert(given.range.start), convert(given.range.end)) {
            (Some(start), Some(end)) => Ok(start..end),
            _ => bail!("{name}: --time: the unit of its times is not known; give times as they are in the trace"),
        }
    }

    /// A time with its decimals.
    pub(super) fn text(self, time: u64) -> String {
        let decimals = usize::from(self.decimals);
        if decimals == 0 {
            return time.to_string();
        }
        let digits = format!("{time:0width$}", width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        format!("{whole}.{fraction}")
    }
}

impl Part<'_> {
    /// Name of a function.
    pub(super) fn function(&self, process: Option<u64>, address: u64) -> String {
        let symbol = self.program.symbol_of(process, address);
        symbol.map_or_else(|| format!("{address:#x}"), |symbol| printable(&symbol_text(symbol)))
    }

    /// Whether a selected stack has instructions in the window; without one, whether there is a stack.
    pub(super) fn has_instructions(&self) -> bool {
        self.is_executed && self.stacks.iter().any(|stack| stack.part.as_ref().is_none_or(|part| part.span.is_some()))
    }

    /// Addresses of the functions with this name.
    pub(super) fn functions(&self, name: &str) -> Vec<Range<u64>> {
        self.program.functions(name).collect()
    }
}

impl NamedStack {
    /// A selection of calls, of the part of the stack that is wanted.
    pub(super) fn selection(&self, selection: &TreeSelection) -> TreeSelection {
        TreeSelection { part: self.part.clone(), ..selection.clone() }
    }

    /// Its core, process and thread in words; empty if there is nothing to distinguish.
    pub(super) fn heading(&self, has_several: bool) -> String {
        let core = (!self.core.is_empty()).then(|| format!("core {}", self.core));
        let [process, thread] = [("process", self.process), ("thread", self.thread)]
            .map(|(name, number)| number.filter(|_| has_several).map(|number| format!("{name} {number}")));
        [core, process, thread].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Its process and thread in words.
    pub(super) fn numbers(&self) -> Option<String> {
        let numbers = [("process", self.process), ("thread", self.thread)];
        let words = numbers.iter().filter_map(|(name, number)| Some(format!("{name} {}", (*number)?)));
        Some(words.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty())
    }
}

impl CallArgs {
    /// Opens the output.
    pub(super) fn open_output(&self, output: &OutputArgs) -> anyhow::Result<Output> {
        self.read.open_output(&self.files, output)
    }

    /// Follows the calls of each trace with a new sink, and hands it to `take`. `processes`: numbers or names of those that
    /// are shown; empty: all.
    pub(super) fn each<S: CallSink + Send>(
        &self,
        processes: &[String],
        on_terminal: bool,
        new: impl Fn() -> S,
        take: impl FnMut(&Part<'_>, S) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        self.each_of(&self.files, Wanted { processes, ..Wanted::default() }, on_terminal, new, take)
    }

    /// As [`each`](Self::each), of other traces.
    pub(super) fn each_of<S: CallSink + Send>(
        &self,
        files: &[PathBuf],
        wanted: Wanted<'_>,
        on_terminal: bool,
        new: impl Fn() -> S,
        mut take: impl FnMut(&Part<'_>, S) -> anyhow::Result<()>,
    ) -> anyhow::Result<Verdict> {
        each_file(files, |_, file| {
            let heading = (files.len() > 1).then(|| name_of(file));
            let following = Following { args: self, wanted, heading, on_terminal };
            let options = EachOptions { core: self.core.as_ref(), software: wanted.software, ..EachOptions::default() };
            self.read.each(file, options, &mut |trace| following.trace(trace, new(), &mut take))
        })
    }
}

/// Following of one file.
struct Following<'a> {
    args: &'a CallArgs,
    wanted: Wanted<'a>,
    heading: Option<String>,
    on_terminal: bool,
}

type Take<'t, S> = dyn FnMut(&Part<'_>, S) -> anyhow::Result<()> + 't;

impl Following<'_> {
    fn trace<S: CallSink + Send>(
        &self,
        trace: &mut OpenTrace,
        sink: S,
        take: &mut Take<'_, S>,
    ) -> anyhow::Result<Verdict> {
        let program = Arc::clone(trace.program());
        if let Some(source) = trace.software() {
            let part = Part {
                name: source.name().to_string(),
                heading: self.heading.clone(),
                kind: FileKind::Capture,
                times: Times::default(),
                stacks: Vec::new(),
                has_several: false,
                is_executed: false,
                software: Some(Software { source, meter: &trace.meter }),
                cycles: None,
                program: &program,
            };
            take(&part, sink)?;
            return Ok(Verdict::Clean);
        }
        match trace.take_file() {
            Some(TraceFile::Tarmac(log)) if !log.is_converted() => self.log(log, &program, sink, take),
            Some(file) => self.file(file, &program, sink, take),
            None => self.source(trace, sink, take),
        }
    }

    fn file<S: CallSink>(
        &self,
        file: TraceFile,
        program: &Program,
        sink: S,
        take: &mut Take<'_, S>,
    ) -> anyhow::Result<Verdict> {
        let (name, kind) = (file.name().to_string(), file.kind());
        let clock = match &file {
            TraceFile::Tarmac(log) => Some(clock_of(log)),
            _ => None,
        };
        let (mut steps, meter) = file.into_steps(false);
        let mut progress = Progress::new(self.on_terminal);
        let times = Times::of_steps(steps.coverage(), steps.time_unit());
        let times = clock.map_or(times, Times::of_log);
        let window = self.window(&name, times)?;
        let calls = follow_calls(&mut *steps, &window, &meter, &mut progress.callback(), sink);
        let verdict = losses_verdict(&name, &steps.losses()).or(self.report(&name, &calls)?);
        let cores = cores_of(&calls.stacks);
        let mut stacks = self.select(&calls.stacks, &cores, program)?;
        cut(&mut stacks, &window, &calls.spans);
        let (has_several, is_executed) = (calls.stacks.len() > 1, !calls.stacks.is_empty());
        let (heading, software, cycles) = (self.heading.clone(), None, None);
        let part = Part { name, heading, kind, times, stacks, has_several, is_executed, software, cycles, program };
        take(&part, calls.sink)?;
        Ok(verdict)
    }

    /// A log of a simulator, which names its cores.
    fn log<S: CallSink>(
        &self,
        mut log: TarmacFile,
        program: &Program,
        mut sink: S,
        take: &mut Take<'_, S>,
    ) -> anyhow::Result<Verdict> {
        let mut progress = Progress::new(self.on_terminal);
        let window = self.window(log.name(), Times::of_log(clock_of(&log)))?;
        let (calls, end) = log.calls_in(&window, &mut progress.callback(), &mut sink)?;
        let cores: Vec<String> = calls.cores().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let stack = |core| Stack { core, process: None, thread: None };
        let all: Vec<Stack> = (0..).zip(&cores).map(|(core, _)| stack(core)).collect();
        let mut stacks = self.select(&all, &cores, program)?;
        cut(&mut stacks, &window, calls.spans());
        let (name, kind, times) = (log.name().to_string(), FileKind::Tarmac, Times::of_log(calls.clock()));
        let (has_several, is_executed) = (cores.len() > 1, calls.has_instructions());
        let (heading, software, cycles) = (self.heading.clone(), None, None);
        let part = Part { name, heading, kind, times, stacks, has_several, is_executed, software, cycles, program };
        take(&part, sink)?;
        Ok(tarmac_verdict(&mut log, &end))
    }

    fn source<S: CallSink + Send>(
        &self,
        trace: &mut OpenTrace,
        sink: S,
        take: &mut Take<'_, S>,
    ) -> anyhow::Result<Verdict> {
        let name = trace.source.as_ref().map_or_else(|| trace.file.clone(), |(name, _)| name.clone());
        let (is_one, meter, program) = (trace.is_only_source, trace.meter.clone(), Arc::clone(trace.program()));
        let Some(steps) = trace.capture_steps() else { bail!("{name}: not a source of a capture") };
        let mut progress = Progress::new(self.on_terminal);
        let times = Times::of_steps(steps.coverage(), steps.time_unit());
        let (window, threads) = (self.window(&name, times)?, self.args.read.jobs.count());
        let calls = steps.follow_calls(threads, &window, &meter, &mut progress.callback(), sink);
        let verdict = self.report(&name, &calls)?;
        let core = if is_one { String::new() } else { name.clone() };
        let cores = vec![core; calls.stacks.len()];
        let mut stacks = self.select_processes(&calls.stacks, &cores, &program)?;
        cut(&mut stacks, &window, &calls.spans);
        let is_executed = !calls.stacks.is_empty();
        let (heading, kind, program) = (self.heading.clone(), FileKind::Capture, &program);
        let cycles = steps.has_times_and_cycles().then_some(&*steps);
        let (software, has_several) = (None, calls.stacks.len() > 1);
        let part = Part { name, heading, kind, times, stacks, has_several, is_executed, software, cycles, program };
        take(&part, calls.sink)?;
        Ok(verdict)
    }

    /// The part of a trace that is wanted.
    fn window(&self, name: &str, times: Times) -> anyhow::Result<Window> {
        let Wanted { time, instructions, .. } = self.wanted;
        let times = time.map(|time| times.window(name, time)).transpose()?;
        Ok(Window { times, instructions: instructions.cloned() })
    }

    /// Reports damage, and threads that were not followed.
    fn report<S>(&self, name: &str, calls: &FollowedCalls<S>) -> anyhow::Result<Verdict> {
        if calls.not_followed > 0 {
            let instructions = many(calls.not_followed, "instruction");
            diagnostic::warning(format_args!("{name}: too many threads: {instructions} not followed"));
        }
        match &calls.ended {
            Ok(()) => Ok(Verdict::of(calls.not_followed > 0)),
            Err(error @ SourceError { is_damage: true, .. }) => {
                diagnostic::error(format_args!("{name}: {error}"));
                Ok(Verdict::Problems)
            }
            Err(error) => bail!("{name}: {error}"),
        }
    }

    /// The stacks of the selected core and processes.
    fn select(&self, all: &[Stack], cores: &[String], program: &Program) -> anyhow::Result<Vec<NamedStack>> {
        let Some(wanted) = &self.args.core else { return self.select_processes(all, cores, program) };
        let is_wanted = |stack: &Stack, name: &str| wanted.matches(stack.core as usize, name.as_bytes());
        if !all.iter().zip(cores).any(|(stack, name)| is_wanted(stack, name)) {
            let name = |(stack, name): (&Stack, &String)| match name.as_str() {
                "" => stack.core.to_string(),
                name => name.to_string(),
            };
            let names: BTreeSet<String> = all.iter().zip(cores).map(name).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            bail!("no core '{wanted}' in the trace; cores: {names}");
        }
        let mut stacks = self.select_processes(all, cores, program)?;
        stacks.retain(|stack| all.get(stack.number).is_some_and(|of| is_wanted(of, &stack.core)));
        Ok(stacks)
    }

    fn select_processes(&self, all: &[Stack], cores: &[String], program: &Program) -> anyhow::Result<Vec<NamedStack>> {
        let mut wanted: BTreeSet<u64> = BTreeSet::new();
        for name in self.wanted.processes {
            let named = program.processes_named(name).into_iter().map(u64::from);
            let found: Vec<u64> = name.parse().into_iter().chain(named).collect();
            if !all.iter().any(|stack| stack.process.is_some_and(|process| found.contains(&process))) {
                bail!("no process '{name}' in the trace");
            }
            wanted.extend(found);
        }
        let is_wanted = |stack: &Stack| wanted.is_empty() || stack.process.is_some_and(|pid| wanted.contains(&pid));
        let stacks = all.iter().zip(cores).enumerate().filter(|(_, (stack, _))| is_wanted(stack));
        let named = stacks.map(|(number, (stack, core))| {
            let Stack { core: core_number, process, thread } = *stack;
            NamedStack { number, core_number, core: core.clone(), process, thread, part: None }
        });
        Ok(named.collect())
    }
}

/// Selects the part of stacks that is in a window. A stack that has no instruction there may still have a call that lasts over it.
fn cut(stacks: &mut Vec<NamedStack>, window: &Window, spans: &Spans) {
    if window.is_all() {
        return;
    }
    stacks.retain(|stack| window.instructions.is_none() || spans.of(stack.number).is_some());
    for stack in stacks {
        let (times, span) = (window.times.clone(), spans.of(stack.number).cloned());
        stack.part = Some(TreePart { times, is_of_instructions: window.instructions.is_some(), span });
    }
}

/// Names of the cores of stacks: their numbers, if there are several.
fn cores_of(stacks: &[Stack]) -> Vec<String> {
    let is_one = stacks.iter().all(|stack| Some(stack.core) == stacks.first().map(|first| first.core));
    stacks.iter().map(|stack| if is_one { String::new() } else { stack.core.to_string() }).collect()
}

/// The clock of a log.
fn clock_of(log: &TarmacFile) -> Clock {
    let mut clock = Clock::default();
    log.first_time().into_iter().for_each(|time| {
        clock.count(time);
    });
    clock
}
