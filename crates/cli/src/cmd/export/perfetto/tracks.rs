//! Tracks of a trace: of its cores, processes and threads, and the rate of instructions of a stack.

use std::collections::HashMap;
use std::io;

use unspool::analyze::calls::{Began, Call, Ended, Site};
use unspool::export::perfetto::Track;

use super::Writer;
use crate::cmd::follow::{NamedStack, Part, Times};

/// Number of values of a counter.
pub(super) const VALUES: u64 = 2000;

/// Tracks that exist so far.
pub(super) struct Tracks<'p> {
    part: &'p Part<'p>,
    /// The track above all, if there are several traces.
    top: Option<Track>,
    cores: HashMap<u32, Track>,
    processes: HashMap<u64, Track>,
}

impl<'p> Tracks<'p> {
    pub(super) fn new(part: &'p Part<'p>) -> Self {
        Self { part, top: None, cores: HashMap::new(), processes: HashMap::new() }
    }

    /// The track above all others: a trace, or a source of a capture.
    fn top(&mut self, writer: &mut Writer<'_>) -> io::Result<Option<Track>> {
        if let (None, Some(name)) = (self.top, &self.part.heading) {
            self.top = Some(writer.track(name, None)?);
        }
        Ok(self.top)
    }

    /// The track of what happens on a core.
    pub(super) fn of_core(&mut self, core: u32, writer: &mut Writer<'_>) -> io::Result<Track> {
        if let Some(track) = self.cores.get(&core) {
            return Ok(*track);
        }
        let name = self.part.stacks.iter().find(|stack| stack.core_number == core).map_or("", |stack| &stack.core);
        let name = if name.is_empty() { "events".to_string() } else { format!("events of core {name}") };
        let top = self.top(writer)?;
        let track = writer.track(&name, top)?;
        self.cores.insert(core, track);
        Ok(track)
    }

    /// The track of the calls of a stack: of its thread, its process or its core.
    pub(super) fn of_stack(&mut self, stack: &NamedStack, writer: &mut Writer<'_>) -> io::Result<Track> {
        let mut above = self.top(writer)?;
        if let (Some(process), Some(_)) = (stack.process, stack.thread) {
            above = Some(match self.processes.get(&process) {
                Some(track) => *track,
                None => {
                    let track = writer.track(&format!("process {process}"), above)?;
                    self.processes.insert(process, track);
                    track
                }
            });
        }
        let core = (!stack.core.is_empty()).then(|| format!("core {}", stack.core));
        let own = match (stack.process, stack.thread) {
            (_, Some(thread)) => Some(format!("thread {thread}")),
            (Some(process), None) => Some(format!("process {process}")),
            (None, None) => None,
        };
        let words: Vec<String> = core.into_iter().chain(own).collect();
        let name = if words.is_empty() { "calls".to_string() } else { words.join(" ") };
        writer.track(&name, above)
    }
}

/// Rate of the instructions of a stack, between calls.
pub(super) struct Rate {
    counter: Track,
    /// Instructions per unit of time are multiplied with this.
    factor: f64,
    /// Minimum time between two values.
    distance: u64,
    last: Option<Site>,
}

impl Rate {
    pub(super) fn new(times: Times, root: &Call, track: Track, writer: &mut Writer<'_>) -> io::Result<Option<Self>> {
        let duration = root.exit.time.saturating_sub(root.entry.time);
        if duration == 0 {
            return Ok(None);
        }
        let (name, unit, factor) = match times.exponent() {
            Some(exponent) => ("instructions per second", "1/s", 1e9 / 10_f64.powi(exponent)),
            None if matches!(times.unit, "cycles" | "clk" | "cs" | "cyc") => ("IPC", "instructions/cycle", 1.0),
            None => ("instructions per tick", "1/tick", 1.0),
        };
        let counter = writer.counter(name, unit, Some(track))?;
        Ok(Some(Self { counter, factor, distance: (duration / VALUES).max(1), last: None }))
    }

    /// The mean rate since the last value, at the time of that one.
    pub(super) fn sample(&mut self, site: &Site) -> Option<(Track, u64, f64)> {
        let last = *self.last.get_or_insert(*site);
        let duration = site.time.checked_sub(last.time).filter(|duration| *duration >= self.distance)?;
        let instructions = site.number.saturating_sub(last.number);
        self.last = Some(*site);
        Some((self.counter, last.time, instructions as f64 / duration as f64 * self.factor))
    }
}

/// The beginning of a call, if it is not a call instruction.
pub(super) fn beginning_of(call: &Call) -> Option<&'static str> {
    match call.began {
        Began::Called | Began::Start => None,
        Began::Before => Some("before the trace"),
        Began::Exception => Some("by an exception"),
        Began::Gap => Some("in a gap"),
    }
}

/// The end of a call, if it did not return.
pub(super) fn end_of(call: &Call) -> Option<&'static str> {
    match call.ended {
        Ended::Returned if call.has_gap => Some("by a return, after a gap"),
        Ended::Returned => None,
        Ended::AtEnd if call.is_root() => None,
        Ended::AtEnd => Some("with the trace"),
        Ended::InGap => Some("in a gap"),
        Ended::Unwound => Some("without a return"),
    }
}
