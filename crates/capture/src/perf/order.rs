//! The order of system events: by time, and synthesized ones first.
//!
//! events in the order of the files ─▶ **order** ─▶ events in the order in which they happened
//!
//! The buffer of each CPU is written to the file by itself, so that records are not sorted. FINISHED_ROUND records bound
//! how far they are apart, for readers that keep few of them in memory. All events are in memory here, so that they are
//! sorted as a whole, which gives the same order within any rounds. Events without a time describe the state before
//! the recording, and stay in the order of the file.

use std::collections::HashMap;

use crate::event::{Call, Pid, State, SystemEvent};

/// Sorts events, and leaves out what is known about a thread already.
pub(crate) fn order(mut events: Vec<SystemEvent>) -> Vec<SystemEvent> {
    // `None` is less than any time, and sorting is stable.
    events.sort_by_key(|event| event.time);
    let mut threads: HashMap<Pid, Pid> = HashMap::new();
    events.retain(|event| match event.call {
        Call::Thread { state: State::Current, tid, pid } => threads.insert(tid, pid) != Some(pid),
        Call::Thread { state: State::Start, tid, pid } => {
            threads.insert(tid, pid);
            true
        }
        Call::Thread { state: State::End, tid, .. } => {
            threads.remove(&tid);
            true
        }
        _ => true,
    });
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: Option<u64>, place: u64, call: Call) -> SystemEvent {
        SystemEvent { time, place, call }
    }

    #[test]
    fn rounds_do_not_matter_and_synthesized_events_come_first() {
        // Two CPUs, each in order, written one after the other in each of two rounds; a synthesized event in between.
        let rows = [(Some(10), 1), (Some(30), 2), (Some(20), 3), (None, 4), (Some(20), 5), (Some(15), 6), (None, 7)];
        let events = rows.map(|(time, place)| event(time, place, Call::Exec { pid: 1 }));
        let found: Vec<u64> = order(events.to_vec()).iter().map(|event| event.place).collect();
        assert_eq!(found, [4, 7, 1, 6, 3, 5, 2]);
    }

    #[test]
    fn threads_are_reported_once() {
        let thread = |time, state, tid, pid| event(Some(time), time, Call::Thread { state, tid, pid });
        let events = vec![
            thread(1, State::Current, 5, 4),
            thread(2, State::Current, 5, 4),
            thread(3, State::End, 5, 4),
            thread(4, State::Current, 5, 4),
            thread(5, State::Start, 6, 4),
            thread(6, State::Current, 6, 4),
            thread(7, State::Current, 6, 9),
        ];
        let found: Vec<u64> = order(events).iter().map(|event| event.place).collect();
        assert_eq!(found, [1, 3, 4, 5, 7]);
    }
}
