//! Which part of the execution is listed: that of processes, and that of a time.
//!
//! --time, --process + capture ─▶ **selection** ─▶ whether a trace is read, whether a segment is listed
//!
//! A segment whose time is not known exactly is listed if any part of it may be in the range.

use std::ops::Range;
use std::str::FromStr;

use anyhow::bail;
use unspool::capture::{PackageFormat, Pid};
use unspool::order::{OrderClock, Owner, TimeWindow};
use unspool::{Program, Trace};

use crate::args::{is_number, parse_number};
use crate::diagnostic;

/// Times of --time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimeRange {
    range: Range<u64>,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Timestamps of the trace.
    Ticks,
    Nanoseconds,
}

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
        time: Option<&TimeRange>,
        processes: &[String],
        traces: &[Trace<'_>],
        programs: impl Iterator<Item = &'p Program>,
    ) -> anyhow::Result<Self> {
        let clock = OrderClock::of(traces);
        match time.map(|time| time.unit) {
            Some(_) if clock == OrderClock::None => bail!("--time: the trace has no timestamps"),
            Some(Unit::Ticks) if clock != OrderClock::Trace => {
                bail!("--time: the trace has no timestamps, only times of the recorder; add a unit (1.5s..2s)")
            }
            Some(Unit::Nanoseconds) => require_seconds(traces, clock)?,
            _ => {}
        }
        let processes = match processes {
            [] => None,
            names => Some(find_processes(names, &programs.collect::<Vec<_>>())?),
        };
        Ok(Self { time: time.cloned(), clock, processes })
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
            Unit::Ticks => self.clock.window_of(trace),
            Unit::Nanoseconds if is_recorded => OrderClock::Recorder.window_of(trace),
            Unit::Nanoseconds => return true,
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

    fn in_unit(&self, trace: &Trace<'_>, window: TimeWindow, unit: Unit) -> TimeWindow {
        if unit == Unit::Ticks || self.clock != OrderClock::Trace {
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

impl FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a range A..B of timestamps or of seconds (0x1000..0x2000, 1.5s..2s)");
        let (start, end) = text.split_once("..").ok_or_else(wrong)?;
        let parse = |text: &str| (!text.is_empty()).then(|| parse_time(text).ok_or_else(wrong)).transpose();
        let (start, end) = (parse(start)?, parse(end)?);
        let unit = match (start, end) {
            (Some((_, one)), Some((_, other))) if one != other => {
                return Err(format!("'{text}' has two units: give both times in seconds, or both in timestamps"));
            }
            (Some((_, unit)), _) | (None, Some((_, unit))) => unit,
            (None, None) => return Err(wrong()),
        };
        let range = start.map_or(0, |(time, _)| time)..end.map_or(u64::MAX, |(time, _)| time);
        if range.is_empty() {
            return Err(format!("'{text}' is empty: a range A..B ends before B, so A must be below B"));
        }
        Ok(Self { range, unit })
    }
}

/// A time: a number of ticks, or a decimal number with a unit.
fn parse_time(text: &str) -> Option<(u64, Unit)> {
    if let Ok(ticks) = parse_number(text) {
        return Some((ticks, Unit::Ticks));
    }
    let units = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
    let (number, decimals) = units.iter().find_map(|(unit, decimals)| Some((text.strip_suffix(unit)?, *decimals)))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || fraction.len() > decimals {
        return None;
    }
    format!("{whole}{fraction:0<decimals$}").parse().ok().map(|time| (time, Unit::Nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let rows = [
            ("5..9", Some((5..9, Unit::Ticks))),
            ("0x10..0x20", Some((16..32, Unit::Ticks))),
            ("..9", Some((0..9, Unit::Ticks))),
            ("9..", Some((9..u64::MAX, Unit::Ticks))),
            ("1.5s..2s", Some((1_500_000_000..2_000_000_000, Unit::Nanoseconds))),
            ("0.000000001s..1us", Some((1..1000, Unit::Nanoseconds))),
            ("250ms..", Some((250_000_000..u64::MAX, Unit::Nanoseconds))),
            ("7ns..8ns", Some((7..8, Unit::Nanoseconds))),
            ("..", None),
            ("5", None),
            ("5..5", None),
            ("9..5", None),
            ("1s..5", None),
            ("1.5..2", None),
            ("1.5ns..2ns", None),
            ("-1s..2s", None),
            ("s..2s", None),
            ("99999999999999s..", None),
        ];
        for (text, expected) in rows {
            let found = text.parse::<TimeRange>().ok().map(|time| (time.range, time.unit));
            assert_eq!(found, expected, "{text}");
        }
    }
}
