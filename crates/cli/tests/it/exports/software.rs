//! Software trace and cycle counts on the timeline, as the trace processor of Perfetto and a browser read them.
//!
//! The writes are listed by the tests, and encoded.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use unspool::coresight::etm4::Packet;
use unspool::coresight::etm4::packet::{Address, CycleCount, TraceInfo};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Atoms, Context, Protocol, Security, SubIsa};
use unspool_testing::tool;

use super::export;
use super::flamegraph::in_page;
use super::perfetto::{ERRORS, Engine};
use crate::commands::software::{CODE, WRITES, snapshot, snapshot_of};
use crate::run::{Folder, Run, text, unspool};

const MARKS: &str = "select ts, category, slice.name as name, track.name as track, parent.name as above, \
    extract_arg(slice.arg_set_id, 'debug.time') as time from slice join track on track.id = slice.track_id \
    left join track parent on parent.id = track.parent_id where category in ('value', 'text') order by ts, slice.id";

/// Marks of channels: time, name, track, the track above, and the remark on the time.
fn marks(engine: &Engine, trace: &Path, options: &[&str]) -> (Vec<Value>, Run) {
    let folder = Folder::new();
    let (run, out) = export("perfetto", trace, options, &folder, "out.pftrace");
    assert_eq!(run.code, 0, "{run:?}");
    let rows = engine.query(&out, &[MARKS, ERRORS]);
    assert_eq!(rows[1], Vec::<Value>::new());
    let mark = |row: &Value| json!([row["ts"], row["name"], row["track"], row["above"], row["time"]]);
    (rows[0].iter().map(mark).collect(), run)
}

#[test]
fn writes_of_an_stm_are_among_the_calls_of_a_core() {
    let Some(engine) = Engine::new() else { return };
    let folder = Folder::new();
    let text_of_a_channel = "26 2:3 8 0x48\n27 2:3 8 0x69\n28 2:3 8 0x0a\n";
    let writes = WRITES.replace("40 ", &format!("{text_of_a_channel}40 "));
    snapshot(&folder, Protocol::Stm, &writes, false, "STMTCSR=0x00200007");
    let (found, _) = marks(&engine, folder.root(), &[]);
    let value = |at: u64, value: &str| json!([at, format!("{value} (8 bits)"), "channel 0", "master 0x1", null]);
    // By the list: a2 has no time of its own.
    let expected = [
        value(5, "0xa0"),
        value(15, "0xa1"),
        json!([15, "0xa2 (8 bits)", "channel 0", "master 0x1", "this or later"]),
        value(25, "0xa3"),
        json!([26, "Hi", "channel 3", "master 0x2", null]),
        value(40, "0xa4"),
    ];
    assert_eq!(found, expected);
    let (found, _) = marks(&engine, folder.root(), &["--time", "12..26"]);
    assert_eq!(found, expected[1..4]);
    let names = folder.file("names.txt", "master 2 kernel\nchannel 2:3 log\n");
    let (found, _) = marks(&engine, folder.root(), &["--time", "26..27", "--channels", text(&names)]);
    assert_eq!(found, [json!([26, "Hi", "log", "kernel", null])]);
    // Instructions have no such times.
    let (found, run) = marks(&engine, folder.root(), &["--clock", "instructions"]);
    assert!(found.is_empty() && run.err.contains("software trace has no place among instructions"), "{run:?}");
}

#[test]
fn a_capture_of_software_trace_alone_is_a_timeline() {
    let Some(engine) = Engine::new() else { return };
    let folder = Folder::new();
    let list = folder.file("itm.txt", "4 0 \"hi\\n\"\n9 5 16 0x1234\n");
    let capture = folder.path("itm");
    unspool(&["encode", text(&list), "-o", text(&capture), "--protocol", "itm"]).expect(0, &[]);
    let (found, _) = marks(&engine, &capture, &[]);
    let of = |index: usize, key: usize| found[index][key].clone();
    assert_eq!([of(0, 1), of(1, 1)], [json!("hi"), json!("0x1234 (16 bits)")], "{found:?}");
    assert_eq!([of(0, 2), of(1, 2)], [json!("channel 0"), json!("channel 5")], "{found:?}");
    assert_eq!(of(1, 0).as_u64().unwrap() - of(0, 0).as_u64().unwrap(), 5, "{found:?}");
}

/// Bytes that are no packet end no timeline, and are marked.
#[test]
fn damage_of_software_trace_is_a_gap() {
    let Some(engine) = Engine::new() else { return };
    let folder = Folder::new();
    let list = folder.file("stm.txt", "4 1:0 \"one\\n\"\n8 1:0 \"two\\n\"\n90 1:0 \"three\\n\"\n");
    let capture = folder.path("stm");
    unspool(&["encode", text(&list), "-o", text(&capture), "--protocol", "stm"]).expect(0, &[]);
    let is_buffer = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "bin");
    let buffer = fs::read_dir(&capture).unwrap().map(|entry| entry.unwrap().path()).find(is_buffer).unwrap();
    let mut bytes = fs::read(&buffer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4].fill(0x0f);
    fs::write(&buffer, bytes).unwrap();
    let (_, out) = export("perfetto", &capture, &[], &folder, "out.pftrace");
    let rows = engine.query(&out, &["select name from slice where category = 'gap'", ERRORS]);
    assert!(!rows[0].is_empty() && rows[1].is_empty(), "{rows:?}");
}

#[test]
fn a_page_has_points_of_software_trace() {
    let Some(browser) = tool("chromium", "chromium") else { return };
    let folder = Folder::new();
    let list = folder.file("stm.txt", "4 1:0 \"one\\n\"\n8 2:7 16 0x1234\n");
    let capture = folder.path("stm");
    unspool(&["encode", text(&list), "-o", text(&capture), "--protocol", "stm"]).expect(0, &[]);
    let (run, out) = export("html", &capture, &[], &folder, "out.html");
    assert_eq!(run.code, 0, "{run:?}");
    let script = "
        const canvas = document.getElementById('timeline');
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let blue = 0;
        for (let at = 0; at < pixels.length; at += 4) blue += pixels[at] < 20 && pixels[at + 2] > 180;
        const data = JSON.parse(document.getElementById('data').textContent);
        return { tracks: data.tracks.map(track => [track.name, track.instants.map(point => point[1])]), isDrawn: blue > 20 };";
    let result = in_page(&browser, &folder, &fs::read_to_string(&out).unwrap(), script);
    let tracks = result["tracks"].as_array().unwrap();
    let points =
        |end: &str| tracks.iter().find(|track| track[0].as_str().unwrap().ends_with(end)).map(|track| &track[1]);
    assert_eq!(points("master 0x1 channel 0"), Some(&json!(["one"])), "{result}");
    assert_eq!(points("master 0x2 channel 7"), Some(&json!(["0x1234 (16 bits)"])), "{result}");
    assert_eq!(result["isDrawn"], true);
}

/// Three loops of two instructions take 12 cycles, another one 8.
#[test]
fn instructions_per_cycle_beside_timestamps() {
    let Some(engine) = Engine::new() else { return };
    let folder = Folder::new();
    let mut settings = Settings::new(Protocol::Ete);
    // Cycle counts, context identifiers and timestamps.
    assert!(settings.set("TRCCONFIGR", 0x1 | 1 << 4 | 1 << 6 | 1 << 11));
    let context = Context { el: 0, aarch64: true, security: Security::NonSecure, vmid: None, context_id: Some(7) };
    // The packet has what is above the threshold, which is 4.
    let count = |cycles: u32| Packet::CycleCount(CycleCount::Format1 { commit: None, cycles: Some(cycles - 4) });
    let time = |value| Packet::Timestamp { value, bits: 64, cycles: Some(0) };
    let packets = [
        Packet::AlignmentSync,
        Packet::TraceInfo(TraceInfo { info: Some(1), key: None, speculation: None, cycle_threshold: Some(4) }),
        Packet::TraceOn,
        Packet::AddressContext { address: Address::full(SubIsa::Is0, CODE), context },
        count(4),
        time(10),
        Packet::Atoms(Atoms::new(7, 3)),
        count(12),
        time(20),
        Packet::Atoms(Atoms::new(1, 1)),
        count(8),
        time(30),
    ];
    let mut bytes = Vec::new();
    packets.iter().for_each(|packet| packet.encode(&settings.config(), &mut bytes).unwrap());
    let software = ("5 1:0 8 0xa0\n", false, "STMTCSR=0x00200007");
    snapshot_of(&folder, (&settings, &bytes), Protocol::Stm, software);
    let (run, out) = export("perfetto", folder.root(), &["--source", "UNIT_0"], &folder, "out.pftrace");
    assert_eq!(run.code, 0, "{run:?}");
    let values = "select ts, value from counter join counter_track on counter_track.id = counter.track_id \
        where counter_track.name = 'IPC' order by ts";
    let rows = engine.query(&out, &[values, ERRORS]);
    let found: Vec<(u64, f64)> =
        rows[0].iter().map(|row| (row["ts"].as_u64().unwrap(), row["value"].as_f64().unwrap())).collect();
    assert_eq!(found, [(10, 0.5), (20, 0.25)]);
    assert_eq!(rows[1], Vec::<Value>::new());
}
