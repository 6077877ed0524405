//! Many events in little memory and time.

use super::*;
use crate::event::Placement;

fn event(time: usize, call: Call) -> SystemEvent {
    SystemEvent { time: Some(time as u64), place: time as u64 + 1, call }
}

/// Number of rectangles, and of entries in the lists of nodes.
fn entries(timeline: &Timeline) -> (usize, usize) {
    let spaces = timeline.spaces.values().map(|(space, _)| space.entries());
    spaces.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
}

#[test]
fn fifty_thousand_patches_of_a_region() {
    const PATCHES: usize = 50_000;
    let code = |number: usize| PatchCode::Bytes(u32::try_from(number).unwrap().to_le_bytes().to_vec());
    let region = Placement::Part { address: 0, length: 1 << 20, offset: 0 };
    let mapping = Mapping { image: "jit".to_string(), build_id: String::new(), placement: region };
    let mut events = vec![event(0, Call::Library { state: State::Start, pid: 7, mapping })];
    events.extend((0..PATCHES).map(|number| {
        let address = (number * 52) as u64 % (1 << 20);
        event(number + 1, Call::Patch { pid: 7, address, length: 4, code: code(number), name: String::new() })
    }));
    let timeline = Timeline::new(events, Direction::Backward, page);
    assert_eq!(timeline.last_version(7) as usize, PATCHES + 1);
    let (rectangles, listed) = entries(&timeline);
    assert!(rectangles < 4 * PATCHES, "{rectangles} rectangles");
    assert!(listed < 2 * rectangles, "{listed} entries of nodes");
    for number in [0, 1, 20_164, 20_165, 20_166, PATCHES - 1] {
        let address = (number * 52) as u64 % (1 << 20);
        let version = timeline.version_at(7, number + 2);
        let hit = timeline.lookup(7, version.into(), address).certain().unwrap();
        assert_eq!(timeline.patch_code(hit.piece), Some(&code(number)));
        assert_eq!(at(&timeline, 7, 1, address), format!("jit+{address:#x}"), "before it");
    }
}

#[test]
fn a_thousand_libraries_in_five_hundred_processes() {
    let mut events = Vec::new();
    for pid in 1..=500_u32 {
        for library in 0..1000_u64 {
            let placement = Placement::Base(library << 20 | u64::from(pid % 8) << 16);
            let mapping = Mapping { image: format!("lib{library}.so"), build_id: String::new(), placement };
            events.push(event(events.len(), Call::Library { state: State::Start, pid, mapping }));
        }
    }
    let timeline = Timeline::new(events, Direction::Backward, page);
    let (rectangles, listed) = entries(&timeline);
    assert_eq!(rectangles, 500_000);
    assert_eq!(listed, 500_000);
    assert_eq!(at(&timeline, 499, 500_000, 0x3e73_0010), "lib999.so+0x10");
    assert_eq!(timeline.pieces.mappings.len(), 8000, "equal mappings of processes are one");
}

/// Large mappings over many small ones, again and again.
#[test]
fn no_order_of_events_takes_quadratic_memory() {
    const TURNS: usize = 20_000;
    let part = |address: u64, length: u64| {
        let placement = Placement::Part { address, length, offset: 0 };
        Mapping { image: format!("{length}"), build_id: String::new(), placement }
    };
    let mut events = Vec::new();
    for turn in 0..TURNS {
        let mapping = if turn % 2 == 0 { part((turn * 64) as u64, 16) } else { part(0, 1 << 40) };
        let state = [State::Start, State::Start, State::Current, State::End][turn / 2 % 4];
        events.push(event(turn, Call::Library { state, pid: 7, mapping }));
        events.push(event(
            turn,
            Call::Patch { pid: 7, address: 0, length: 1 << 41, code: PatchCode::Absent, name: String::new() },
        ));
    }
    let timeline = Timeline::new(events, Direction::Backward, page);
    let (rectangles, listed) = entries(&timeline);
    assert!(rectangles < 4 * 2 * TURNS, "{rectangles} rectangles");
    assert!(listed < 40 * rectangles, "{listed} entries of nodes");
}

#[test]
fn forks_copy_within_a_limit() {
    let library = |number: u64| {
        let mapping =
            Mapping { image: "lib".to_string(), build_id: String::new(), placement: Placement::Base(number << 16) };
        Call::Library { state: State::Start, pid: 1, mapping }
    };
    let mut calls: Vec<Call> = (0..10_000).map(library).collect();
    calls.extend((2..1000).map(|child| Call::Fork { parent: 1, child }));
    let events = calls.into_iter().enumerate().map(|(at, call)| event(at, call)).collect();
    let timeline = Timeline::new(events, Direction::Backward, page);
    let missing = timeline.inferred().iter().filter(|inferred| inferred.what == Inference::NotCopied).count();
    // Each copy has 10,000 visible ranges and as many owners.
    assert_eq!(998 - missing, (4 << 20) / 20_000);
    assert_eq!(at(&timeline, 2, 10_998, 0), "lib+0x0");
    assert_eq!(at(&timeline, 999, 10_998, 0), "-");
}
