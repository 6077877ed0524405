//! Numbers that stand for something for a time: threads and address space identifiers for processes, cores for the
//! thread that they execute.
//!
//! events in order ─▶ **assignments** ─▶ what a number stands for after a number of events

use std::collections::BTreeMap;

use super::Direction;
use super::process::NO_END;
use crate::event::State;

/// A value for a time: from a number of events, up to but not including another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Assigned {
    from: u32,
    until: u32,
    value: u32,
    /// An event states that it ended, so that the next one began later.
    is_ended: bool,
}

/// What numbers stand for.
#[derive(Debug, Clone, Default)]
pub(super) struct Assignments {
    /// For each number in order of time. At most the last one has no end.
    numbers: BTreeMap<u32, Vec<Assigned>>,
}

impl Assignments {
    /// What a number stands for after a number of events.
    pub(super) fn at(&self, number: u32, position: u32) -> Option<u32> {
        let list = self.numbers.get(&number)?;
        let next = list.partition_point(|assigned| assigned.from <= position);
        let last = list.get(next.checked_sub(1)?)?;
        (position < last.until).then_some(last.value)
    }

    /// The positions at which a number begins or ceases to stand for a value.
    pub(super) fn changes(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        self.numbers.get(&number).into_iter().flatten().flat_map(|assigned| [assigned.from, assigned.until])
    }

    /// All numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.numbers.keys().copied()
    }

    /// Whether any event names a number.
    pub(super) fn has(&self, number: u32) -> bool {
        self.numbers.contains_key(&number)
    }

    /// Whether a number ever stands for a value.
    pub(super) fn ever(&self, number: u32, value: u32) -> bool {
        self.numbers.get(&number).is_some_and(|list| list.iter().any(|assigned| assigned.value == value))
    }

    /// All values of a number.
    pub(super) fn values(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        self.numbers.get(&number).into_iter().flatten().map(|assigned| assigned.value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Applies an event. Returns whether it is about something that was not assigned before, without being a start.
    pub(super) fn apply(&mut self, state: State, number: u32, value: u32, event: u32, direction: Direction) -> bool {
        let list = self.numbers.entry(number).or_default();
        let open = list.last_mut().filter(|last| last.until == NO_END);
        let is_same = open.as_ref().is_some_and(|open| open.value == value);
        let is_open = open.is_some();
        if let Some(open) = open.filter(|_| state != State::Current || !is_same) {
            (open.until, open.is_ended) = (event + 1, state == State::End);
        }
        // It was assigned since the end of what the number stood for before, or since the start of the log.
        let since = match list.last() {
            None => Some(0),
            Some(last) => Some(last.until).filter(|_| last.is_ended && !is_open),
        };
        let since = since.filter(|_| direction == Direction::Backward);
        let assigned = |from, until| Assigned { from, until, value, is_ended: state == State::End };
        match (state, since) {
            (State::Start, _) => list.push(assigned(event + 1, NO_END)),
            (State::Current, _) if is_same => {}
            (State::Current, since) => list.push(assigned(since.unwrap_or(event + 1), NO_END)),
            (State::End, Some(since)) => list.push(assigned(since, event + 1)),
            (State::End, None) => {}
        }
        state != State::Start && !is_open
    }

    /// A number no longer stands for anything.
    pub(super) fn clear(&mut self, number: u32, event: u32) {
        let last = self.numbers.get_mut(&number).and_then(|list| list.last_mut());
        if let Some(open) = last.filter(|last| last.until == NO_END) {
            open.until = event + 1;
        }
    }
}
