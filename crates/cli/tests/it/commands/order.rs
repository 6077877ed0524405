//! `decode` of several cores in one order: by time, by process, by thread; and of a part of the execution.
//!
//! The recording is made here: three CPUs that execute the same loop on behalf of two processes, at known times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use unspool::capture::{Capture, Code};
use unspool::coresight::etm4::Packet;
use unspool::coresight::etm4::packet::{Address, TraceInfo};
use unspool::coresight::etm4::unit::Settings;
use unspool::coresight::{Atoms, Context, Protocol, Security, SubIsa};
use unspool::model::{Event as StepEvent, StepSource};
use unspool_testing::perf::{ETE, Event, PerfWriter, Trailer};

use super::example;
use crate::run::{Folder, Run, assert_readers_may_leave, on, text, unspool};

/// A loop: NOP, then a branch to it.
const LOOP: [u32; 2] = [0xd503_201f, 0x17ff_ffff];
const CODE: u64 = 0x1000;

/// The stream of one source.
const RAW: u64 = 0x100;

/// Threads 100 and 101 are of process 100, which runs alpha; thread 200 is process 200, which runs beta.
const MAIN: u32 = 100;
const SECOND: u32 = 101;
const OTHER: u32 = 200;

fn settings(has_timestamps: bool) -> Settings {
    let mut settings = Settings::new(Protocol::Ete);
    // Context identifiers, and timestamps.
    assert!(settings.set("TRCCONFIGR", 0x1 | 1 << 6 | u64::from(has_timestamps) << 11));
    settings
}

/// What a CPU did in a session: a time, or a thread at an Exception level and the number of its loops.
#[derive(Debug, Clone, Copy)]
enum Act {
    Time(u64),
    Run(u32, u8, u8),
}
use Act::{Run as Loops, Time};

fn trace(settings: &Settings, acts: &[Act]) -> Vec<u8> {
    let info = TraceInfo { info: Some(0), key: None, speculation: None, cycle_threshold: None };
    let mut packets = vec![Packet::AlignmentSync, Packet::TraceInfo(info), Packet::TraceOn];
    for act in acts {
        match *act {
            Time(value) => packets.push(Packet::Timestamp { value, bits: 64, cycles: None }),
            Loops(thread, el, count) => {
                let context =
                    Context { el, aarch64: true, security: Security::NonSecure, vmid: None, context_id: Some(thread) };
                packets.push(Packet::AddressContext { address: Address::full(SubIsa::Is0, CODE), context });
                packets.extend((0..count).map(|_| Packet::Atoms(Atoms::new(1, 1))));
            }
        }
    }
    let mut bytes = Vec::new();
    packets.iter().for_each(|packet| packet.encode(&settings.config(), &mut bytes).unwrap());
    bytes
}

/// Sessions of CPUs 0 to 2: the CPU, the time of the recorder at its end, and what the CPU did.
fn sessions() -> Vec<(u32, u64, Vec<Act>)> {
    vec![
        (0, 1000, vec![Time(10), Loops(MAIN, 0, 2), Time(20), Loops(MAIN, 0, 1), Loops(MAIN, 1, 2), Time(30)]),
        (1, 1100, vec![Loops(OTHER, 0, 1), Time(15), Loops(SECOND, 0, 3), Time(18), Loops(OTHER, 0, 1)]),
        (
            0,
            2000,
            vec![Loops(OTHER, 0, 1), Time(60), Loops(OTHER, 1, 1), Loops(MAIN, 1, 1), Loops(MAIN, 0, 1), Time(70)],
        ),
        (2, 2100, vec![Time(30), Loops(SECOND, 0, 4), Time(40), Loops(999, 0, 1), Time(50)]),
        (1, 2200, vec![Time(30), Loops(SECOND, 0, 1), Time(65), Loops(OTHER, 0, 2)]),
    ]
}

fn start(settings: &Settings) -> PerfWriter {
    let mut file = PerfWriter::new(false, &[Event::trace(&[78])]);
    let names =
        ["TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TRCDEVARCH"];
    let words = |id: u64| names.map(|name| if name == "TRCTRACEIDR" { id } else { settings.get(name).unwrap_or(0) });
    let units = [words(0x10), words(0x11), words(0x12)];
    let units: Vec<(u64, u64, &[u64])> = (0..).zip(&units).map(|(cpu, words)| (ETE, cpu, &words[..])).collect();
    file.info(1, &units);
    for (process, program) in [(MAIN, "/bin/alpha"), (OTHER, "/bin/beta")] {
        let trailer = Trailer { thread: (process, process), time: 1, id: 78, ..Trailer::default() };
        file.mmap2(process, 0x90_0000, 0x1000, 0, program, trailer);
    }
    let thread = [file.halves(&[MAIN, MAIN, SECOND, MAIN]), file.words(&[2])].concat();
    file.kernel(7, 0, &thread, Trailer { thread: (MAIN, MAIN), time: 2, id: 78, ..Trailer::default() });
    file
}

/// The recording, and the file of its code.
fn recording(folder: &Folder, has_timestamps: bool) -> (PathBuf, String) {
    let settings = settings(has_timestamps);
    let mut file = start(&settings);
    let mut traces = [vec![], vec![], vec![]];
    for (cpu, time, acts) in sessions() {
        let acts: Vec<Act> = acts.into_iter().filter(|act| has_timestamps || !matches!(act, Time(_))).collect();
        let bytes = trace(&settings, &acts);
        let all: &mut Vec<u8> = &mut traces[cpu as usize];
        let trailer = Trailer { thread: (MAIN, MAIN), time, cpu, id: 78, ..Trailer::default() };
        file.aux(all.len() as u64, bytes.len() as u64, RAW, trailer);
        all.extend(bytes);
    }
    for (cpu, bytes) in (0..).zip(&traces) {
        file.auxtrace(cpu, u32::MAX, 0, bytes);
    }
    let code: Vec<u8> = LOOP.iter().flat_map(|word| word.to_le_bytes()).collect();
    let code = format!("{}@{CODE:#x}", text(&folder.file("loop.bin", code)));
    (folder.file("perf.data", file.file()), code)
}

fn decode(path: &Path, code: &str, options: &[&str]) -> Run {
    on("decode", path, &[&["--image", code], options].concat())
}

/// The items of a listing in JSON, without headings and the summary.
fn items(run: &Run) -> Vec<String> {
    let is_heading =
        |line: &&str| ["segment", "group", "summary"].iter().any(|kind| line.contains(&format!("\"kind\":\"{kind}\"")));
    run.out.lines().filter(|line| !is_heading(line)).map(str::to_string).collect()
}

/// The items of each session of each source.
fn by_session(lines: &[String]) -> BTreeMap<(u64, u64), Vec<&str>> {
    let mut found: BTreeMap<(u64, u64), Vec<&str>> = BTreeMap::new();
    for line in lines {
        let object: Value = serde_json::from_str(line).unwrap();
        let key = (object["source"].as_u64().unwrap(), object["session"].as_u64().unwrap());
        found.entry(key).or_default().push(line);
    }
    found
}

/// Segments with their items, of a listing in JSON.
fn segments(run: &Run) -> Vec<(Value, Vec<String>)> {
    let mut found: Vec<(Value, Vec<String>)> = Vec::new();
    for line in run.out.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        match object["kind"].as_str() {
            Some("segment") => found.push((object, Vec::new())),
            Some("group" | "summary") => {}
            _ => found.last_mut().unwrap().1.push(line.to_string()),
        }
    }
    found
}

/// Number of instructions that each thread executed, by what `key` selects of a segment.
fn instructions_by(run: &Run, key: &str) -> BTreeMap<Option<u64>, usize> {
    let mut found = BTreeMap::new();
    for (segment, items) in segments(run) {
        let count = items.iter().filter(|line| line.contains("\"kind\":\"instruction\"")).count();
        *found.entry(segment[key].as_u64()).or_default() += count;
    }
    found.retain(|_, count| *count > 0);
    found
}

/// Number of instructions that the recording has for each thread.
fn expected(is_of: impl Fn(u32) -> Option<u64>) -> BTreeMap<Option<u64>, usize> {
    let mut found = BTreeMap::new();
    for (_, _, acts) in sessions() {
        for act in acts {
            if let Loops(thread, _, count) = act {
                *found.entry(is_of(thread)).or_default() += 2 * usize::from(count);
            }
        }
    }
    found
}

fn process_of(thread: u32) -> Option<u64> {
    match thread {
        MAIN | SECOND => Some(MAIN.into()),
        OTHER => Some(OTHER.into()),
        _ => None,
    }
}

#[test]
fn order_of_time_is_a_permutation_that_keeps_certain_order() {
    let folder = Folder::new();
    for has_timestamps in [true, false] {
        let (path, code) = recording(&folder, has_timestamps);
        let [by_core, by_time] =
            ["core", "time"].map(|by| decode(&path, &code, &["--json", "--by", by]).expect(0, &[]));
        assert_ne!(items(&by_core), items(&by_time));
        assert_eq!(by_session(&items(&by_core)), by_session(&items(&by_time)));
        assert_eq!(by_core.json_summary(), by_time.json_summary());
        let found = segments(&by_time);
        let time = |segment: &Value, key: &str| segment[key].as_u64();
        for (index, (first, _)) in found.iter().enumerate() {
            for (second, _) in &found[index + 1..] {
                let is_reversed =
                    matches!((time(second, "to"), time(first, "from")), (Some(to), Some(from)) if to < from);
                assert!(!is_reversed, "{first} {second}");
                let is_certain =
                    matches!((time(first, "to"), time(second, "from")), (Some(to), Some(from)) if to <= from);
                let name = format!("cpu{}", first["source"].as_u64().unwrap() - 0x10);
                let is_shown = second["overlaps"].as_array().unwrap().contains(&Value::from(name));
                if first["source"] != second["source"] && !is_certain {
                    assert!(is_shown, "{first} {second}");
                }
            }
        }
    }
}

#[test]
fn times_of_segments_are_those_of_the_recording() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    let run = decode(&path, &code, &["--json", "--by", "time"]).expect(0, &[]);
    let rows: Vec<_> = segments(&run)
        .iter()
        .filter(|(_, items)| items.iter().any(|line| line.contains("\"kind\":\"instruction\"")))
        .map(|(segment, _)| {
            let number = |key: &str| segment[key].as_u64();
            (number("source").unwrap() - 0x10, number("from"), number("to"), number("thread"))
        })
        .collect();
    let at = |cpu: u64, from: Option<u64>, to: Option<u64>, thread: u32| (cpu, from, to, Some(u64::from(thread)));
    let expected = [
        at(1, None, Some(15), OTHER),
        at(0, Some(10), Some(20), MAIN),
        at(1, Some(15), Some(18), SECOND),
        // The next session of the CPU starts at 30.
        at(1, Some(18), Some(30), OTHER),
        at(0, Some(20), Some(30), MAIN),
        at(2, Some(30), Some(40), SECOND),
        at(0, Some(30), Some(60), OTHER),
        at(1, Some(30), Some(65), SECOND),
        at(2, Some(40), Some(50), 999),
        at(0, Some(60), Some(70), OTHER),
        at(0, Some(60), Some(70), MAIN),
        at(1, Some(65), None, OTHER),
    ];
    assert_eq!(rows, expected);
    let run = decode(&path, &code, &["--by", "time"]).expect(0, &[]);
    run.shows(&[
        "# source 0x10 cpu0, session 0, time 0xa to 0x14, process 100, thread 100; before, during or after cpu1, cpu2\n",
        "# source 0x12 cpu2, session 0, time 0x28 to 0x32, thread 999; before, during or after cpu0, cpu1\n",
    ]);
}

#[test]
fn groups_have_all_that_a_process_or_thread_executed() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    let by_core = decode(&path, &code, &["--json"]).expect(0, &[]);
    for (by, key) in [("process", "process"), ("thread", "thread")] {
        let run = decode(&path, &code, &["--json", "--by", by]).expect(0, &[]);
        let of = |thread: u32| if by == "process" { process_of(thread) } else { Some(thread.into()) };
        assert_eq!(instructions_by(&run, key), expected(of));
        let [mut found, mut all] = [items(&run), items(&by_core)];
        found.sort();
        all.sort();
        assert_eq!(found, all);
        // Each process is in one group, and its segments are in order of time.
        let mut groups = Vec::new();
        for line in run.json() {
            match line["kind"].as_str() {
                Some("group") => groups.push((line["process"].as_u64(), 0)),
                Some("segment") => {
                    let (process, from) = groups.last_mut().unwrap();
                    assert_eq!(*process, line["process"].as_u64());
                    assert!(line["from"].as_u64().unwrap_or(0) >= *from);
                    *from = line["from"].as_u64().unwrap_or(0);
                }
                _ => {}
            }
        }
        let processes: Vec<Option<u64>> = groups.iter().map(|(process, _)| *process).collect();
        let main = Some(u64::from(MAIN));
        let other = Some(u64::from(OTHER));
        // Before the first context of a session, the thread is unknown too.
        let expected = if by == "process" { vec![main, other, None] } else { vec![main, main, other, None, None] };
        assert_eq!(processes, expected);
    }
    decode(&path, &code, &["--by", "thread"])
        .expect(0, &[])
        .shows(&["# process 100, thread 101\n", "# unknown process"]);
}

#[test]
fn processes_are_selected() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    let count = |run: &Run| run.json_summary()["instructions"].as_u64();
    let of = |process: u32| expected(process_of)[&Some(u64::from(process))] as u64;
    for by in ["core", "time", "process", "thread"] {
        for (name, process) in [("100", MAIN), ("alpha", MAIN), ("/bin/beta", OTHER), ("0xc8", OTHER)] {
            let run = decode(&path, &code, &["--json", "--by", by, "--process", name]).expect(0, &[]);
            assert_eq!(count(&run), Some(of(process)), "{by} {name}");
            let items = items(&run).iter().filter(|line| line.contains("\"kind\":\"instruction\"")).count();
            assert_eq!(items as u64, of(process));
        }
    }
    let both = decode(&path, &code, &["--json", "--process", "alpha", "--process", "beta"]).expect(0, &[]);
    assert_eq!(count(&both), Some(of(MAIN) + of(OTHER)));
    decode(&path, &code, &["--process", "gamma"]).expect(2, &["no process 'gamma'"]);
    on("decode", &example(), &["--process", "1"]).expect(2, &["no system events"]);
}

#[test]
fn times_are_selected() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    let all = decode(&path, &code, &["--json", "--by", "time"]).expect(0, &[]);
    for (option, from, to) in [("20..30", 20, 30), ("..16", 0, 16), ("60..", 60, u64::MAX), ("0x1e..0x1f", 30, 31)] {
        let run = decode(&path, &code, &["--json", "--by", "time", "--time", option]).expect(0, &[]);
        let is_in = |segment: &Value| {
            let [first, last] = ["from", "to"].map(|key| segment[key].as_u64());
            first.is_none_or(|first| first < to)
                && (last.is_none_or(|last| last > from) || first.is_some_and(|first| first >= from))
        };
        let lines = |run: &Run, wanted: &dyn Fn(&Value) -> bool| -> Vec<String> {
            let found = segments(run).into_iter().filter(|(segment, _)| wanted(segment));
            found.flat_map(|(_, items)| items).filter(|line| line.contains("\"kind\":\"instruction\"")).collect()
        };
        let expected = lines(&all, &is_in);
        assert!(!expected.is_empty());
        assert_eq!(lines(&run, &|_| true), expected, "{option}");
        let mut by_core = items(&decode(&path, &code, &["--json", "--time", option]).expect(0, &[]));
        by_core.retain(|line| line.contains("\"kind\":\"instruction\""));
        by_core.sort();
        let mut expected = expected;
        expected.sort();
        assert_eq!(by_core, expected, "{option}");
    }
    // Without timestamps, sessions have the times of the recorder: 1,000 ns and later.
    let (path, code) = recording(&folder, false);
    let run = decode(&path, &code, &["--json", "--time", "1us..1050ns"]).expect(0, &[]);
    let sessions: BTreeSet<(u64, u64)> = by_session(&items(&run)).into_keys().collect();
    // The first session of each other CPU may have started then.
    assert_eq!(sessions, BTreeSet::from([(0x10, 1), (0x11, 0), (0x12, 0)]));
    decode(&path, &code, &["--time", "5..9"]).expect(2, &["--time: the trace has no timestamps", "1.5s..2s"]);
    on("decode", &example(), &["--time", "1s..2s"]).expect(2, &["frequency", "not known"]);
    on("decode", &example(), &["--time", "9..5"]).expect(2, &["is empty"]);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    let other = folder.path("other");
    fs::create_dir(&other).unwrap();
    let perf = unspool_testing::example("hello.perf.data");
    let mut inputs = vec![(path, code.clone()), (example(), code.clone()), (perf, code)];
    if let Some(corpus) = unspool_testing::corpus("perf") {
        let program = text(&corpus.join("etm_test_loop")).to_string();
        inputs.push((corpus.join("perf_etm.data"), program.clone()));
        inputs.push((corpus.join("perf_with_missing_aux_data.data"), program));
    }
    for (path, code) in &inputs {
        for by in ["core", "time", "process", "thread"] {
            for options in [&["--emit", "ranges", "--json"][..], &["--emit", "ranges"], &["--json"], &[]] {
                let [one, four] =
                    ["1", "4"].map(|jobs| decode(path, code, &[options, &["--by", by, "-j", jobs]].concat()));
                assert!(one.out == four.out, "{} {by} {options:?}", path.display());
                assert_eq!((one.code, one.err), (four.code, four.err), "{} {by} {options:?}", path.display());
            }
        }
    }
}

#[test]
fn items_are_counted_in_the_order_of_the_listing() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    for by in ["time", "process", "thread"] {
        let is_item = |line: &String| line.contains("\"kind\":\"instruction\"");
        let list = |options: &[&str]| {
            let run = decode(&path, &code, &[&["--json", "--by", by], options].concat()).expect(0, &[]);
            items(&run).into_iter().filter(is_item).collect::<Vec<String>>()
        };
        let all = list(&[]);
        assert_eq!(list(&["--limit", "5"]), all[..5], "{by}");
        assert_eq!(list(&["--skip", "3", "--limit", "9"]), all[3..12], "{by}");
        assert_eq!(list(&["--skip", "11"]), all[11..], "{by}");
        assert_eq!(list(&["--skip", "99999"]), [""; 0], "{by}");
        let run = decode(&path, &code, &["--json", "--by", by, "--limit", "5"]);
        assert_eq!(run.json_summary()["cut"], Value::Bool(true), "{by}");
    }
}

#[test]
fn readers_may_leave() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    let rows = ["core", "time", "process"].map(|by| ["decode", "--by", by, "-q", "--image", &code]);
    assert_readers_may_leave(&path, &rows.each_ref().map(|row| &row[..]));
}

#[test]
fn steps_have_the_process_and_the_thread() {
    let folder = Folder::new();
    let (path, code) = recording(&folder, true);
    let (file, _) = code.split_once('@').unwrap();
    let (code, _) = Code::from_file(Path::new(file), Some(CODE)).unwrap();
    let mut steps = unspool::CaptureSteps::new(Capture::open(&path).unwrap(), Some("cpu0"), &[code]).unwrap();
    let mut contexts = Vec::new();
    steps
        .each(&mut |step| {
            if let StepEvent::Context(context) = &step.event {
                contexts.push((context.level.unwrap(), context.process, context.thread));
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    let of = |level: u8, process: u32, thread: u32| (level, Some(u64::from(process)), Some(u64::from(thread)));
    let expected = [
        of(0, MAIN, MAIN),
        of(1, MAIN, MAIN),
        of(0, OTHER, OTHER),
        of(1, OTHER, OTHER),
        of(1, MAIN, MAIN),
        of(0, MAIN, MAIN),
    ];
    assert_eq!(contexts, expected);
}

/// A recording of 20 GB, almost all of it a hole: 4,000 sessions of 5 MB of CPU 0, of which some have trace.
#[cfg(unix)]
#[test]
fn a_slice_of_a_huge_recording_takes_little_time_and_memory() {
    use std::os::unix::fs::FileExt;
    const EACH: u64 = 5 << 20;
    const COUNT: u64 = 4000;
    let folder = Folder::new();
    let settings = settings(true);
    let beginning = start(&settings).file();
    let code: Vec<u8> = LOOP.iter().flat_map(|word| word.to_le_bytes()).collect();
    let code = format!("{}@{CODE:#x}", text(&folder.file("loop.bin", code)));
    let path = folder.file("perf.data", &beginning);
    let out = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut at = beginning.len() as u64;
    for index in 0..COUNT {
        let mut records = PerfWriter::new(false, &[Event::trace(&[78])]);
        let trailer = Trailer { thread: (MAIN, MAIN), time: 1_000_000 * (index + 1), id: 78, ..Trailer::default() };
        records.aux(index * EACH, EACH, RAW, trailer);
        records.auxtrace(0, u32::MAX, index * EACH, &[]);
        let mut bytes = records.records();
        let size = bytes.len() - 40;
        bytes[size..size + 8].copy_from_slice(&EACH.to_le_bytes());
        out.write_all_at(&bytes, at).unwrap();
        at += bytes.len() as u64;
        if index % 100 == 50 {
            let acts = [Time(10 * index), Loops(MAIN, 0, 3), Time(10 * index + 5), Loops(MAIN, 0, 1)];
            out.write_all_at(&trace(&settings, &acts), at).unwrap();
        }
        at += EACH;
    }
    out.set_len(at).unwrap();
    let data = u64::from_le_bytes(beginning[40..48].try_into().unwrap());
    out.write_all_at(&(at - data).to_le_bytes(), 48).unwrap();
    drop(out);
    assert!(at > 20_000_000_000);
    for by in ["core", "time", "process"] {
        let started = Instant::now();
        // Session 1,050 was recorded from 1.050 to 1.051 seconds.
        let run = unspool(&[
            "decode",
            text(&path),
            "--image",
            &code,
            "--json",
            "--by",
            by,
            "--time",
            "1.0502s..1.0508s",
            "-j",
            "2",
        ]);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}");
        let executed = items(&run).iter().filter(|line| line.contains("\"kind\":\"instruction\"")).count();
        assert_eq!(executed, 8, "{by} {}", run.err);
        assert!(run.peak.is_none_or(|peak| peak < 200 << 20), "{:?}", run.peak);
    }
}
