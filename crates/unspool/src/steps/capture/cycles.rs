//! Instructions and cycles between timestamps, of a source that traces both.
//!
//! ranges, cycle counts, timestamps ─▶ **instructions and cycles** from one timestamp to the next
//!
//! A cycle count is that of the instructions since the last one. What is before the first count after a gap has none, and is
//! left out on both sides, as is what a trace unit could not count.

use std::sync::atomic::Ordering;

use unspool_coresight::Transactions;
use unspool_flow::{FlowItem, FlowSink, Item, Run};

use super::CaptureSteps;
use crate::{Error, Meter, PresentIds, Trace, Watch};

/// Instructions whose cycles were counted, between two timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedCycles {
    /// The first of the two.
    pub from: u64,
    /// The second.
    pub to: u64,
    /// Number of instructions.
    pub instructions: u64,
    /// Their cycles.
    pub cycles: u64,
}

impl CaptureSteps {
    /// Whether the source has timestamps and cycle counts.
    pub fn has_times_and_cycles(&self) -> bool {
        let all = Trace::all(&self.capture);
        let features = self.traces.first().and_then(|at| all.get(*at)?.features().ok());
        features.is_some_and(|(features, _)| features.timestamps && features.cycle_counting)
    }

    /// Passes on what was counted between timestamps.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read.
    pub fn counted_cycles(&self, meter: &Meter, take: &mut dyn FnMut(CountedCycles)) -> Result<(), Error> {
        let (all, mut present) = (Trace::all(&self.capture), PresentIds::default());
        for trace in self.traces.iter().filter_map(|at| all.get(*at)).filter(|trace| present.may_have(trace)) {
            let mut counter = Counter::new(meter, take);
            trace.flow(Transactions::Show, &self.program, &mut counter)?;
        }
        Ok(())
    }
}

struct Counter<'t> {
    /// The last timestamp.
    time: Option<u64>,
    /// Instructions since the last cycle count; `None`: there was none since a gap.
    since: Option<u64>,
    instructions: u64,
    cycles: u64,
    take: &'t mut dyn FnMut(CountedCycles),
    meter: &'t Meter,
    read: u64,
}

impl<'t> Counter<'t> {
    fn new(meter: &'t Meter, take: &'t mut dyn FnMut(CountedCycles)) -> Self {
        Self { time: None, since: None, instructions: 0, cycles: 0, take, meter, read: 0 }
    }

    fn timestamp(&mut self, to: u64) {
        // A timestamp that is repeated, or goes back, ends nothing.
        if self.time.is_some_and(|from| from >= to) {
            return;
        }
        if let Some(from) = self.time.replace(to).filter(|_| self.cycles > 0) {
            let Self { instructions, cycles, .. } = *self;
            (self.take)(CountedCycles { from, to, instructions, cycles });
        }
        (self.instructions, self.cycles) = (0, 0);
    }

    fn cycles(&mut self, counted: Option<u32>) {
        if let (Some(since), Some(cycles)) = (self.since, counted) {
            self.instructions = self.instructions.saturating_add(since);
            self.cycles = self.cycles.saturating_add(cycles.into());
        }
        self.since = Some(0);
    }

    fn gap(&mut self) {
        (self.time, self.since, self.instructions, self.cycles) = (None, None, 0, 0);
    }
}

impl FlowSink for Counter<'_> {
    fn run(&mut self, run: Run<'_>) {
        self.since = self.since.map(|since| since.saturating_add(run.instructions()));
    }

    fn item(&mut self, item: FlowItem) {
        match item.map(|item| item.value) {
            Ok(Item::Timestamp { value, .. }) => self.timestamp(value),
            Ok(Item::CycleCount(counted)) => self.cycles(counted),
            Ok(
                Item::TraceOn
                | Item::Overflow
                | Item::Discard { .. }
                | Item::NoCode { .. }
                | Item::Lost { .. }
                | Item::Q { .. },
            )
            | Err(_) => self.gap(),
            Ok(_) => {}
        }
    }
}

impl Watch for Counter<'_> {
    fn progress(&mut self, read: u64, _total: u64) {
        self.meter.read.fetch_add(read.saturating_sub(self.read), Ordering::Relaxed);
        self.read = read;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `i`: instructions, `c`: a cycle count, `u`: an unknown one, `t`: a timestamp, `g`: a gap.
    fn counted(story: &str) -> Vec<(u64, u64, u64, u64)> {
        let (mut found, meter) = (Vec::new(), Meter::default());
        let mut take = |CountedCycles { from, to, instructions, cycles }| found.push((from, to, instructions, cycles));
        let mut counter = Counter::new(&meter, &mut take);
        for word in story.split_whitespace() {
            let (kind, number) = word.split_at(1);
            let number = number.parse().unwrap_or(0);
            match kind {
                "i" => counter.since = counter.since.map(|since| since + number),
                "c" => counter.cycles(Some(number as u32)),
                "u" => counter.cycles(None),
                "t" => counter.timestamp(number),
                _ => counter.gap(),
            }
        }
        found
    }

    #[test]
    fn what_was_counted_between_timestamps() {
        type Counts<'c> = &'c [(u64, u64, u64, u64)];
        let rows: [(&str, &str, Counts<'_>); 6] = [
            ("two counts", "c1 t10 i3 c5 i4 c6 t20", &[(10, 20, 7, 11)]),
            ("before the first count", "t10 i3 c5 i4 c6 t20", &[(10, 20, 4, 6)]),
            ("an unknown count", "c1 t10 i3 u i4 c6 t20", &[(10, 20, 4, 6)]),
            ("none", "t10 i3 t20 i3 t30", &[]),
            ("a gap", "c1 t10 i3 c5 g t20 i9 c8 i1 c2 t30", &[(20, 30, 1, 2)]),
            ("a repeated time", "c1 t10 i3 c5 t10 i1 c1 t20", &[(10, 20, 4, 6)]),
        ];
        for (name, story, expected) in rows {
            assert_eq!(counted(story), expected, "{name}");
        }
    }
}
