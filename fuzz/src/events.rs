//! Event logs: any text is events and problems, events are written as they were read, and the versions of an address space
//! agree with each other.
//!
//! Input: byte 0 selects the direction (bit 0) and the size of files that are mapped as a whole (bits 1 to 7, in units of 64
//! bytes); the rest is the text of a log.

use std::collections::BTreeSet;

use unspool_capture::{
    Call, Contents, ContextFormat, ContextWidth, Direction, Extent, Hit, Mapping, Pid, Placement, SystemEvent,
    SystemLog, Timeline, View,
};

use crate::setup::byte;

/// Number of processes, addresses and positions that are compared.
const LIMIT: usize = 12;

/// Checks all properties for these bytes.
pub fn check(mut data: &[u8]) {
    let how = byte(&mut data);
    let log = SystemLog::read(data);
    check_log(&log);
    let direction = if how & 1 == 0 { Direction::Forward } else { Direction::Backward };
    let size = u64::from(how >> 1) * 64;
    let addresses = addresses(&log.events, size);
    let timeline = Timeline::new(log.events, direction, |mapping| whole(mapping, size));
    check_positions(&timeline);
    for pid in timeline.processes().take(LIMIT) {
        addresses.iter().for_each(|address| check_address(&timeline, pid, *address));
    }
    check_contexts(&timeline);
}

fn check_log(log: &SystemLog) {
    let places = log.events.iter().map(|event| event.place);
    assert!(places.clone().chain(log.problems.iter().map(|problem| problem.line)).all(|line| line <= log.lines));
    assert!(places.is_sorted(), "the events are not in the order of the lines");
    let again = SystemLog::read(log.to_string().as_bytes());
    assert_eq!(again.problems, [], "a written log has problems");
    let events = |log: &SystemLog| log.events.iter().map(|event| (event.time, event.call.clone())).collect::<Vec<_>>();
    assert_eq!(events(&again), events(log), "a written log has other events");
    let counted: u64 = log.summary().calls.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, log.events.len() as u64);
}

fn whole(mapping: &Mapping, size: u64) -> Vec<Extent> {
    match mapping.placement {
        Placement::Base(address) => vec![Extent { address, length: size, offset: 0 }],
        Placement::Part { .. } => Vec::new(),
    }
}

/// Addresses around the ends of what the events name.
fn addresses(events: &[SystemEvent], size: u64) -> Vec<u64> {
    let mut addresses = BTreeSet::from([0, u64::MAX]);
    for event in events {
        let (address, length) = match &event.call {
            Call::Process { mapping, .. } | Call::Library { mapping, .. } => match mapping.placement {
                Placement::Base(address) => (address, size),
                Placement::Part { address, length, .. } => (address, length),
            },
            Call::Patch { address, length, .. } => (*address, *length),
            _ => continue,
        };
        let end = address.saturating_add(length);
        addresses.extend([address, address.saturating_sub(1), end, end.saturating_sub(1)]);
    }
    let step = addresses.len() / LIMIT + 1;
    addresses.into_iter().step_by(step).collect()
}

fn positions(timeline: &Timeline) -> impl Iterator<Item = usize> {
    let count = timeline.events().len();
    (0..=count).step_by(count / LIMIT + 1).chain([count])
}

fn check_positions(timeline: &Timeline) {
    let count = timeline.events().len();
    assert_eq!(timeline.position(u64::MAX), count);
    let times: Vec<u64> = timeline.events().iter().filter_map(|event| event.time).collect();
    assert!(times.is_sorted(), "the events are not in order of time");
    assert!(timeline.inferred().iter().all(|inferred| inferred.event < count));
    for pid in timeline.processes().take(LIMIT) {
        let versions: Vec<u32> = positions(timeline).map(|position| timeline.version_at(pid, position)).collect();
        assert!(versions.is_sorted(), "versions go back");
        assert_eq!(versions.last(), Some(&timeline.last_version(pid)));
        for version in versions {
            let position = timeline.position_of(pid, version).expect("a version has a position");
            assert_eq!(timeline.version_at(pid, position), version);
        }
    }
}

fn check_address(timeline: &Timeline, pid: Pid, address: u64) {
    let all = timeline.lookup(pid, timeline.version_within(pid, 0, timeline.events().len()), address);
    for position in positions(timeline) {
        let view: View = timeline.version_at(pid, position).into();
        let any = timeline.lookup_in_any(position, position, address);
        match timeline.lookup(pid, view, address) {
            Contents::Absent { left } => assert!(left > 0),
            Contents::Doubtful(..) => panic!("one version is doubtful"),
            Contents::Certain(hit) => {
                assert!(!matches!(all, Contents::Absent { .. }), "all versions have less than one of them");
                let is_missing = matches!(any, Contents::Absent { .. });
                assert!(!is_missing || !timeline.is_alive(pid, position) || pid == 0, "no process has it");
                check_left(timeline, pid, view, address, hit);
            }
        }
    }
}

/// The last byte of an answer has the same answer.
fn check_left(timeline: &Timeline, pid: Pid, view: View, address: u64, hit: Hit<'_>) {
    let more = hit.left.checked_sub(1).expect("an answer is for at least one byte");
    let last = address.checked_add(more).expect("an answer ends in memory");
    let found = timeline.lookup(pid, view, last).certain().expect("an answer is shorter than it claims");
    assert_eq!((found.piece, found.offset), (hit.piece, hit.offset.wrapping_add(more)));
    assert!(
        timeline.patch_code(hit.piece).is_some()
            || matches!(hit.piece, unspool_capture::Piece::Image { mapping, .. }
        if timeline.mapping(*mapping).is_some())
    );
}

fn check_contexts(timeline: &Timeline) {
    let ids: Vec<u32> = timeline.processes().take(LIMIT).collect();
    for width in [ContextWidth::Bits8, ContextWidth::Bits16, ContextWidth::Bits32] {
        let _ = timeline.guess_context(&ids, width).format();
        for (format, id) in ContextFormat::ALL.into_iter().flat_map(|format| ids.iter().map(move |id| (format, *id))) {
            let _ = timeline.process_of_context(format, id, width, timeline.events().len());
        }
    }
}
