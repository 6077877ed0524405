//! A trace unit that is configured again while it traces: `define_trace` events, under another trace id and under the same.
//!
//! The second configuration has a return stack: only with it, the return has a target. Made with our own encoder; specification: "CoreSight
//! trace decode metadata requirements", heading "Trace configuration changes".

use std::fs;

use tempfile::TempDir;
use unspool::Trace;
use unspool::capture::{Capture, Pid, SystemLog};
use unspool::coresight::etm4::Packet;
use unspool::coresight::etm4::packet::{Address, TraceInfo};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::frame::Formatter;
use unspool::coresight::{Atoms, Context, Protocol, Security, SubIsa};
use unspool::info::CaptureInfo;

use super::image::{CODE, Image, RET, branch, mark};
use super::package::write_capture;
use super::{Decoded, decode, without_offset};

const BASE: u64 = 0x40_0000;

/// A call, the function, and a branch back to the start.
fn image() -> Image {
    let words = vec![mark(1), branch(0x9400_0000, 2), branch(0x1400_0000, -2), mark(2), RET];
    Image::new("program", words, &[0])
}

/// Rounds of the program.
fn executed(rounds: usize) -> Vec<Decoded> {
    let words = image().words;
    let step = |at: usize| Decoded::Shown(0, (BASE + CODE + 4 * at as u64, words[at], 7));
    (0..rounds).flat_map(|_| [0, 1, 3, 4, 2].map(step)).collect()
}

fn settings(has_stack: bool) -> Settings {
    let mut settings = Settings::new(Protocol::Ete);
    settings.set("TRCTRACEIDR", 0x10);
    settings.set("TRCCONFIGR", if has_stack { 0x1841 } else { 0x841 });
    settings
}

/// A trace unit is enabled at a time, and traces one round after the other.
fn enabled(has_stack: bool, time: u64, rounds: u64) -> Vec<u8> {
    let address = |at: u64| Address::full(SubIsa::Is0, BASE + CODE + 4 * at);
    let info = TraceInfo { info: Some(0), key: None, speculation: None, cycle_threshold: None };
    let context = Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id: Some(7) };
    let mut packets = vec![Packet::AlignmentSync, Packet::TraceInfo(info), Packet::TraceOn];
    packets.push(Packet::AddressContext { address: address(0), context });
    for at in 0..rounds {
        packets.push(Packet::Timestamp { value: time + at, bits: 14, cycles: None });
        match has_stack {
            true => packets.push(Packet::Atoms(Atoms::new(7, 3))),
            false => packets.extend([
                Packet::Atoms(Atoms::new(3, 2)),
                Packet::Address(address(2)),
                Packet::Atoms(Atoms::new(1, 1)),
            ]),
        }
    }
    let mut bytes = Vec::new();
    packets.iter().for_each(|packet| packet.encode(&settings(has_stack).config(), &mut bytes).unwrap());
    bytes
}

/// A capture of one buffer, with or without frames. What `trace` has of other ids is not described.
fn capture(trace: &[u8], is_formatted: bool, log: &str) -> TempDir {
    let log = SystemLog::read(format!("1 declare_process(START, 7, {BASE:#x}, \"program\")\n{log}").as_bytes());
    assert!(log.problems.is_empty(), "{log:?}");
    let folder = write_capture(&settings(false), &[trace], &[image()], Some(&log.events), None);
    if is_formatted {
        let path = folder.path().join("trace.ini");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text.replace("format=source_data", "format=coresight")).unwrap();
    }
    folder
}

fn formatted(parts: &[(u8, &[u8])]) -> Vec<u8> {
    let mut formatter = Formatter::new();
    parts.iter().for_each(|(id, bytes)| formatter.push(*id, bytes));
    formatter.finish()
}

/// What each source of a capture has, without offsets; all of them are of one core.
fn rounds(folder: &TempDir) -> Vec<Vec<Decoded>> {
    let capture = Capture::open(folder.path()).unwrap();
    assert_eq!(capture.cores.len(), 1);
    assert!(Trace::all(&capture).iter().all(|trace| trace.core().is_some_and(|core| core.name == "cpu_0")));
    decode(folder.path()).iter().map(|all| all.iter().map(without_offset).collect()).collect()
}

const ANOTHER_ID: &str =
    "200 define_trace(END, 0x10, UNIT_0)\n200 define_trace(START, 0x11, UNIT_0, TRCCONFIGR=0x1841)";
const SAME_ID: &str = "200 define_trace(END, 0x10, UNIT_0)\n200 define_trace(START, 0x10, UNIT_0, TRCCONFIGR=0x1841)";

#[test]
fn another_configuration_under_another_id() {
    let (old, new) = (enabled(false, 100, 2), enabled(true, 300, 3));
    let folder = capture(&formatted(&[(0x10, &old), (0x11, &new)]), true, ANOTHER_ID);
    assert_eq!(rounds(&folder), [executed(2), executed(3)]);
    // The registers of the configurations, and the core that both are of.
    let capture = Capture::open(folder.path()).unwrap();
    let info = CaptureInfo { capture: &capture, overview: None, loaded: capture.code(None) }.json();
    let sources = info["sources"].as_array().unwrap().iter();
    let found: Vec<_> = sources
        .map(|source| {
            let configuration = source["registers"]["TRCCONFIGR"].as_str().unwrap().to_string();
            (source["source"].as_u64().unwrap(), source["core"].as_str().unwrap().to_string(), configuration)
        })
        .collect();
    let row = |id, configuration: &str| (id, "cpu_0".to_string(), configuration.to_string());
    assert_eq!(found, [row(0x10, "0x841"), row(0x11, "0x1841")]);
}

#[test]
fn another_configuration_under_the_same_id() {
    let (old, new) = (enabled(false, 100, 2), enabled(true, 300, 3));
    let both = [old.as_slice(), &new].concat();
    let expected = [executed(2), executed(3)];
    // Without frames, and in frames with the trace of another unit in between.
    assert_eq!(rounds(&capture(&both, false, SAME_ID)), expected);
    assert_eq!(rounds(&capture(&both, false, ANOTHER_ID)), expected, "without frames, ids do not matter");
    let parts: &[(u8, &[u8])] = &[(0x10, &old[..20]), (0x33, &[1; 40]), (0x10, &old[20..]), (0x10, &new)];
    assert_eq!(rounds(&capture(&formatted(parts), true, SAME_ID)), expected);
    // A unit that was disabled and enabled with the first configuration before.
    let again = [old.as_slice(), &enabled(false, 150, 1), &new].concat();
    assert_eq!(rounds(&capture(&again, false, SAME_ID)), [executed(3), executed(3)]);
}

/// With the wrong configuration, returns have no target: the trace is not decoded as if nothing had happened.
#[test]
fn a_change_that_the_log_does_not_have() {
    let both = [enabled(false, 100, 1), enabled(true, 300, 1)].concat();
    let found = decode(capture(&both, false, "").path()).remove(0);
    assert!(found.iter().any(|item| matches!(item, Decoded::Wrong(_))), "{found:?}");
    let shown: Vec<Pid> = found
        .iter()
        .filter_map(|item| match item {
            Decoded::Shown(_, (_, _, pid)) => Some(*pid),
            _ => None,
        })
        .collect();
    assert_eq!(shown, [7; 5 + 4], "up to the return without a target");
}

/// A saved package has one section for the unit, and its log: reading it back gives the same sources.
#[test]
fn configurations_survive_saving() {
    let (old, new) = (enabled(false, 100, 2), enabled(true, 300, 3));
    let folder = capture(&formatted(&[(0x10, &old), (0x11, &new)]), true, ANOTHER_ID);
    let capture = Capture::open(folder.path()).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let notes = capture.save(copy.path()).unwrap().notes;
    assert!(notes.is_empty(), "{notes:?}");
    let saved = Capture::open(copy.path()).unwrap();
    assert_eq!(saved.sources, capture.sources);
    assert_eq!(saved.cores[0].sources, capture.cores[0].sources);
    assert!(saved.notes.is_empty(), "{:?}", saved.notes);
}
