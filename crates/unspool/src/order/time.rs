//! When a segment was executed: as a window, on a clock.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use unspool_capture::Frequency;

use super::Owner;
use crate::Trace;

/// Ticks between which something was executed. `None`: unknown, so at any time before or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TimeWindow {
    /// The first tick.
    pub from: Option<u64>,
    /// The last tick.
    pub to: Option<u64>,
}

/// What one source executed, without a change of owner, between two timestamps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment<T> {
    /// When.
    pub window: TimeWindow,
    /// On whose behalf.
    pub owner: Owner,
    /// What, in the form of the caller.
    pub contents: T,
}

/// The clock by which streams are ordered. Times of different clocks cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderClock {
    /// Timestamps in the trace.
    Trace,
    /// Times at which the recorder stored the buffers, in nanoseconds.
    Recorder,
    /// No stream has a time.
    None,
}

impl TimeWindow {
    /// Whether it is unknown which of the two was first. Windows that only touch are in order.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.starts_before_end_of(other) && other.starts_before_end_of(self)
    }

    fn starts_before_end_of(&self, other: &Self) -> bool {
        match (self.from, other.to) {
            (Some(from), Some(to)) => from < to || from == to && self.to == Some(from) && other.from == Some(to),
            _ => true,
        }
    }

    /// Whether a part of it may be in a range.
    pub fn may_be_in(&self, range: &Range<u64>) -> bool {
        let starts_before_end = self.from.is_none_or(|from| from < range.end);
        let is_after = self.from.is_some_and(|from| from >= range.start);
        starts_before_end && (is_after || self.to.is_none_or(|to| to > range.start))
    }
}

impl OrderClock {
    /// The clock of traces: their timestamps, if any of them has timestamps.
    pub fn of(traces: &[Trace<'_>]) -> Self {
        let sources: BTreeMap<usize, &Trace<'_>> = traces.iter().map(|trace| (trace.source_index(), trace)).collect();
        let is_recorded = |trace: &Trace<'_>| trace.buffer().recorded.is_some_and(|recorded| recorded.until.is_some());
        if sources.values().any(|trace| has_timestamps(trace)) {
            Self::Trace
        } else if traces.iter().any(is_recorded) {
            Self::Recorder
        } else {
            Self::None
        }
    }

    /// What is known of the time of a whole trace on this clock, without reading it.
    pub fn window_of(self, trace: &Trace<'_>) -> TimeWindow {
        let Some(recorded) = trace.buffer().recorded else { return TimeWindow::default() };
        match self {
            Self::Recorder => TimeWindow { from: recorded.after, to: recorded.until },
            Self::Trace => {
                let clock = trace.clock();
                let timestamps = |time: Option<u64>| clock.timestamps_of(time?);
                let (from, to) = (timestamps(recorded.after), timestamps(recorded.until));
                TimeWindow { from: from.map(|range| *range.start()), to: to.map(|range| *range.end()) }
            }
            Self::None => TimeWindow::default(),
        }
    }
}

/// Whether timestamps of two traces can be compared: they count with the same frequency, as far as that is known.
pub fn have_same_clock(one: &Trace<'_>, other: &Trace<'_>) -> bool {
    let [one, other] = [one, other].map(Trace::clock);
    let is_same = |(one, other): (Frequency, Frequency)| one.hertz == other.hertz;
    one.events == other.events && one.frequency.zip(other.frequency).is_none_or(is_same)
}

fn has_timestamps(trace: &Trace<'_>) -> bool {
    // A trace that cannot be decoded has no time; decoding reports why.
    trace.config().is_ok_and(|(config, _)| config.may_have_timestamps())
}

/// Indices of traces in lanes: those of one core with the same trace ID follow each other, session after session. Without
/// a core or an ID, a source is a lane of its own. Lanes are in the order of their first trace.
pub fn lanes_of(traces: &[Trace<'_>]) -> Vec<Vec<usize>> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut numbers: HashMap<(Option<usize>, Result<u8, usize>), usize> = HashMap::new();
    for (index, trace) in traces.iter().enumerate() {
        let source = trace.source();
        let lane = *numbers.entry((source.core, source.id.ok_or(trace.source_index()))).or_insert(lanes.len());
        match lanes.get_mut(lane) {
            Some(lane) => lane.push(index),
            None => lanes.push(vec![index]),
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        let at = |from: u64, to: u64| TimeWindow { from: Some(from), to: Some(to) };
        let unknown = TimeWindow::default();
        // Two windows, and whether their order is unknown.
        let rows = [
            (at(0, 5), at(6, 9), false),
            (at(0, 5), at(5, 9), false),
            (at(0, 6), at(5, 9), true),
            (at(0, 9), at(4, 5), true),
            (at(0, 9), at(4, 4), true),
            (at(4, 4), at(4, 4), true),
            (at(4, 4), at(4, 9), false),
            (at(0, 4), at(4, 4), false),
            (at(0, 4), unknown, true),
            (TimeWindow { from: None, to: Some(4) }, at(4, 5), false),
            (TimeWindow { from: Some(4), to: None }, at(3, 4), false),
            (TimeWindow { from: Some(4), to: None }, at(3, 5), true),
        ];
        for (one, other, expected) in rows {
            assert_eq!([one.overlaps(&other), other.overlaps(&one)], [expected; 2], "{one:?} {other:?}");
        }
        // A window, and whether a part may be in 10..20.
        let rows = [
            (at(0, 10), false),
            (at(0, 11), true),
            (at(10, 10), true),
            (at(12, 13), true),
            (at(19, 30), true),
            (at(20, 30), false),
            (at(0, 99), true),
            (unknown, true),
            (TimeWindow { from: None, to: Some(10) }, false),
        ];
        for (window, expected) in rows {
            assert_eq!(window.may_be_in(&(10..20)), expected, "{window:?}");
        }
    }
}
