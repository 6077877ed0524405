//! Which part of the execution is listed: that of processes, and that of a time.
//!
//! --time, --process + capture ─▶ **selection** ─▶ whether a trace is read, whether a segment is listed
//!
//! A segment whose time is not known exactly is listed if any part of it may be in the range.

use anyhow::bail;
use unspool::capture::{PackageFormat, Pid};
use unspool::order::{OrderClock, Owner, TimeWindow};
use unspool::{Program, Trace};

use crate::args::{is_number, parse_number};
use crate::diagnostic;
use crate::selection_args::{GivenUnit, SelectionArgs, TimeRange};

/// What is listed.
#[derive(Debug)]
pub(super) struct Selection {
    time: Option<TimeRange>,
    clock: OrderClock,
    /// `None`: all.
    processes: Option<Vec<Pid>>,
}

impl Selection {
    /// Fails if the traces have no times of that unit, or the capture no such process.
    pub(super) fn new<'p>(
        args: &SelectionArgs,
        traces: &[Trace<'_>],
        programs: impl Iterator<Item = &'p Program>,
    ) -> anyhow::Result<Self> {
        let clock = OrderClock::of(traces);
        let SelectionArgs { time, process, .. } = args;
        match time.as_ref().map(|time| time.unit) {
            Some(_) if clock == OrderClock::None => bail!("--time: the trace has no timestamps"),
            Some(GivenUnit::Ticks) if clock != OrderClock::Trace => {
                bail!("--time: the trace has no timestamps, only times of the recorder; add a unit (1.5s..2s)")
            }
            Some(GivenUnit::Nanoseconds) => require_seconds(traces, clock)?,
            _ => {}
        }
        let processes = match process.as_slice() {
            [] => None,
            names => Some(find_processes(names, &programs.collect::<Vec<_>>())?),
        };
        Ok(Self { time: time.clone(), clock, processes })
    }

    pub(super) fn is_all(&self) -> bool {
        self.time.is_none() && self.processes.is_none()
    }

    pub(super) fn has_time(&self) -> bool {
        self.time.is_some()
    }

    pub(super) fn has_processes(&self) -> bool {
        self.processes.is_some()
    }

    pub(super) fn clock(&self) -> OrderClock {
        self.clock
    }

    /// May a trace have anything that is listed? Known without reading it.
    pub(super) fn may_be_in(&self, trace: &Trace<'_>) -> bool {
        let Some(time) = &self.time else { return true };
        let is_recorded = trace.capture().format == PackageFormat::Perf;
        let window = match time.unit {
            GivenUnit::Ticks => self.clock.window_of(trace),
            GivenUnit::Nanoseconds if is_recorded => OrderClock::Recorder.window_of(trace),
            GivenUnit::Nanoseconds => return true,
        };
        window.may_be_in(&time.range)
    }

    /// Is a segment listed?
    pub(super) fn has(&self, trace: &Trace<'_>, window: TimeWindow, owner: Owner) -> bool {
        let is_of_process = |processes: &Vec<Pid>| owner.process.is_some_and(|process| processes.contains(&process));
        let is_in = |time: &TimeRange| self.in_unit(trace, window, time.unit).may_be_in(&time.range);
        self.processes.as_ref().is_none_or(is_of_process) && self.time.as_ref().is_none_or(is_in)
    }

    /// Is nothing listed from a time of a trace on?
    pub(super) fn is_after(&self, trace: &Trace<'_>, time: Option<u64>) -> bool {
        let from = |unit| self.in_unit(trace, TimeWindow { from: time, to: None }, unit).from;
        self.time.as_ref().is_some_and(|time| from(time.unit).is_some_and(|from| from >= time.range.end))
    }

    fn in_unit(&self, trace: &Trace<'_>, window: TimeWindow, unit: GivenUnit) -> TimeWindow {
        if unit == GivenUnit::Ticks || self.clock != OrderClock::Trace {
            return window;
        }
        let clock = trace.clock();
        let nanoseconds = |ticks: Option<u64>| Some(u64::try_from(clock.nanoseconds(ticks?)?).unwrap_or(u64::MAX));
        // A nanosecond is shorter than a tick, or the time was rounded down to it.
        TimeWindow { from: nanoseconds(window.from), to: nanoseconds(window.to).map(|to| to.saturating_add(1)) }
    }
}

/// Checks that timestamps of traces can be converted to seconds, or their buffers have a time. Software trace need not,
/// beside instructions: all of it is listed.
fn require_seconds(traces: &[Trace<'_>], clock: OrderClock) -> anyhow::Result<()> {
    let has_seconds = |trace: &Trace<'_>| {
        let is_recorded = trace.buffer().recorded.is_some_and(|recorded| recorded.until.is_some());
        clock != OrderClock::Trace || is_recorded || trace.clock().nanoseconds(0).is_some()
    };
    let has_instructions = traces.iter().any(Trace::has_instructions);
    for trace in traces.iter().filter(|trace| !has_seconds(trace)) {
        let name = &trace.source().name;
        if trace.has_instructions() || !has_instructions {
            bail!("--time: the frequency of the timestamps of {name} is not known; give timestamps instead of seconds");
        }
        diagnostic::note(format_args!("{name}: the frequency of its timestamps is not known: all of it is listed"));
    }
    Ok(())
}

fn find_processes(names: &[String], programs: &[&Program]) -> anyhow::Result<Vec<Pid>> {
    if !programs.iter().any(|program| program.has_processes()) {
        bail!("--process: the capture has no system events, so that processes are not known");
    }
    let mut found = Vec::new();
    for name in names {
        if is_number(name) {
            let pid = parse_number(name).ok().and_then(|number| Pid::try_from(number).ok());
            let Some(pid) = pid else { bail!("--process: '{name}' is not the number of a process") };
            found.push(pid);
            continue;
        }
        let named: Vec<Pid> = programs.iter().flat_map(|program| program.processes_named(name)).collect();
        if named.is_empty() {
            bail!("--process: no process '{name}' in the capture");
        }
        found.extend(named);
    }
    Ok(found)
}
