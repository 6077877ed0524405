//! Configurations of trace units over time, and the trace IDs that they use.
//!
//! `define_trace` events ─▶ **configurations** ─▶ list per source, with times

use std::collections::HashMap;

use super::Direction;
use crate::event::{Call, State, SystemEvent};

/// A configuration of a trace unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceConfiguration {
    /// The name of the trace unit.
    pub source: String,
    /// The trace ID that it uses.
    pub id: u8,
    /// Registers and their values; none if only the end of the configuration is known.
    pub registers: Vec<(String, u64)>,
    /// The time of its start; `None` if that is unknown.
    pub start: Option<u64>,
    /// The time of its end; `None` if that is unknown, or the configuration has no end.
    pub end: Option<u64>,
    /// The number of events after which it holds.
    pub from: usize,
    /// The number of events after which it no longer holds; `None` if it has no end.
    pub until: Option<usize>,
}

/// A `define_trace` event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Definition<'a> {
    pub(super) state: State,
    pub(super) id: u8,
    pub(super) source: &'a str,
    pub(super) registers: &'a [(String, u64)],
    pub(super) time: Option<u64>,
    /// Number of events up to this one.
    pub(super) position: usize,
}

/// The configurations of all trace units in a log, in order of time. One that ends without a start is the first of its unit.
pub(crate) fn trace_configurations(events: &[SystemEvent]) -> Vec<TraceConfiguration> {
    let mut last = None;
    let timed = events.iter().map(|event| {
        last = event.time.or(last);
        (last, event)
    });
    let mut defined: Vec<(Option<u64>, &SystemEvent)> =
        timed.filter(|(_, event)| matches!(event.call, Call::Trace { .. })).collect();
    defined.sort_by_key(|(time, _)| *time);
    let (mut list, mut open) = (Vec::new(), HashMap::new());
    for (position, (_, event)) in (1..).zip(defined) {
        if let Call::Trace { state, id, source, registers } = &event.call {
            let definition = Definition { state: *state, id: *id, source, registers, time: event.time, position };
            apply(&mut list, &mut open, definition, Direction::Backward);
        }
    }
    list
}

/// Applies an event. Returns whether it is about a configuration without a known start.
///
/// `open` has the index of the configuration of each source that has one now.
pub(super) fn apply(
    list: &mut Vec<TraceConfiguration>,
    open: &mut HashMap<String, usize>,
    event: Definition<'_>,
    direction: Direction,
) -> bool {
    let index = open.get(event.source).copied();
    let current = index.and_then(|index| list.get_mut(index));
    let is_same = current.as_ref().is_some_and(|current| current.id == event.id);
    if let Some(current) = current {
        if event.state == State::Current && is_same {
            if current.registers.is_empty() {
                current.registers = event.registers.to_vec();
            }
            return false;
        }
        current.end = event.time;
        current.until = Some(event.position);
        open.remove(event.source);
        if event.state == State::End && is_same {
            return false;
        }
    }
    let is_known = index.is_some();
    let is_start = event.state == State::Start;
    if event.state == State::End && (is_known || direction == Direction::Forward) {
        return true;
    }
    let is_earlier = !is_start && !is_known && direction == Direction::Backward;
    let is_end = event.state == State::End;
    if !is_end {
        open.insert(event.source.to_string(), list.len());
    }
    list.push(TraceConfiguration {
        source: event.source.to_string(),
        id: event.id,
        registers: event.registers.to_vec(),
        start: event.time.filter(|_| is_start),
        end: event.time.filter(|_| is_end),
        from: if is_earlier { 0 } else { event.position },
        until: is_end.then_some(event.position),
    });
    !is_start
}
