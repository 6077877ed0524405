//! System events in a channel of software trace.

use std::fs;

use unspool::capture::{Call, State};
use unspool::coresight::Protocol;
use unspool::encode::software::{SoftwareUnit, parse_writes};
use unspool::open_capture;

/// A package with one source and these writes.
fn package(protocol: Protocol, global: bool, writes: &str, key: &str) -> tempfile::TempDir {
    let mut unit = SoftwareUnit::new(protocol).unwrap();
    unit.global_timestamps = global;
    let list = parse_writes(writes).unwrap();
    let stream = unit.encode(list.iter().map(|listed| &listed.write)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("contents.ini", b"[trace]\nmetadata=trace.ini\nbuffer0=b.bin\n");
    let metadata = format!("[buffer]\nformat: coresight\n[trace_{}]\nformat: {protocol}\n{key}\n", unit.id);
    write("trace.ini", metadata.as_bytes());
    write("b.bin", &unit.framed(&stream));
    folder
}

const LINES: &str = r#"
100 1:5 "declare_process(START, 312, 0x400000, \"bin/app\")\n"
150 1:6 "not an event\n"
200 1:5 "55 declare_thread(START, 313, 312)\n- nonsense\n"
- 1:5 "declare_thread"
300 1:6 8 1
- 1:5 "(END, 313, 312)"
400 1:5 flag
"#;

#[test]
fn lines_of_a_channel_are_events_with_the_time_of_the_trace() {
    let folder = package(Protocol::Stm, false, LINES, "event_channel: 1:5");
    let capture = open_capture(folder.path()).unwrap();
    let times: Vec<(Option<u64>, &str)> = capture.events.iter().map(|event| (event.time, event.call.name())).collect();
    // The first value has a time; a time in the line counts; a value without a time has that of the value before it.
    let expected = [(Some(100), "declare_process"), (Some(55), "declare_thread"), (Some(200), "declare_thread")];
    assert_eq!(times, expected);
    assert!(matches!(capture.events[2].call, Call::Thread { state: State::End, tid: 313, pid: 312 }));
    let notes: Vec<String> = capture.notes.iter().map(ToString::to_string).collect();
    assert!(notes.iter().any(|note| note.contains("expected `(`")), "{notes:?}");
}

#[test]
fn ports_of_an_itm_have_global_timestamps() {
    let lines = LINES.replace("1:", "").lines().take(4).collect::<Vec<_>>().join("\n");
    let folder = package(Protocol::Itm, true, &lines, "event_channel: 5");
    let times: Vec<Option<u64>> = open_capture(folder.path()).unwrap().events.iter().map(|event| event.time).collect();
    assert_eq!(times, [Some(100), Some(55)]);
    // Local timestamps count from an unknown start.
    let folder = package(Protocol::Itm, false, &lines, "event_channel: 5");
    let times: Vec<Option<u64>> = open_capture(folder.path()).unwrap().events.iter().map(|event| event.time).collect();
    assert_eq!(times, [None, Some(55)]);
}

#[test]
fn a_key_that_is_no_channel_is_noted() {
    let folder = package(Protocol::Stm, false, LINES, "event_channel: five");
    let capture = open_capture(folder.path()).unwrap();
    assert!(capture.events.is_empty());
    let notes: Vec<String> = capture.notes.iter().map(ToString::to_string).collect();
    assert!(notes.iter().any(|note| note.contains("'five' is not a number up to 65535")), "{notes:?}");
    let folder = package(Protocol::Stm, false, LINES, "");
    assert!(open_capture(folder.path()).unwrap().events.is_empty(), "no channel is named");
}
