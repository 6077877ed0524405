//! Debian's perf reads what the writer writes, and finds the same in it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use unspool_capture::perf::PerfData;
use unspool_testing::perf::Compression;
use unspool_testing::tool;

use super::*;

/// The dump of all records; `None`: perf is not installed.
fn dump(bytes: &[u8]) -> Option<String> {
    let perf = tool("perf", "linux-perf")?;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    fs::write(&path, bytes).unwrap();
    let output = Command::new(perf).args(["script", "-D", "-i"]).arg(&path).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names of the records in a dump, and how often they occur.
fn counts(dump: &str) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for rest in dump.lines().filter_map(|line| line.split_once("]: PERF_RECORD_")).map(|(_, rest)| rest) {
        let name = rest.split([' ', ':']).next().unwrap_or_default();
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// The offset of a record and its text, for each record with this name.
fn records<'a>(dump: &'a str, name: &str) -> Vec<(u64, &'a str)> {
    let marker = format!("]: PERF_RECORD_{name}");
    let record = |line: &'a str| {
        let (head, rest) = line.split_once(&marker)?;
        let offset = head.split(" [").next()?.rsplit(' ').next()?.trim_start_matches("0x");
        Some((u64::from_str_radix(offset, 16).unwrap(), rest.trim_start_matches([':', ' '])))
    };
    dump.lines().filter_map(record).collect()
}

#[test]
fn perf_counts_the_same_records() {
    let kinds =
        [("MMAP2", 10), ("COMM", 3), ("AUX", 11), ("ITRACE_START", 12), ("AUXTRACE_INFO", 70), ("AUXTRACE", 71)];
    let mut compressed = recording(false);
    compressed.compression = Some(Compression::One);
    let rows = [
        ("little-endian", recording(false).file()),
        ("big-endian", recording(true).file()),
        ("compressed", compressed.file()),
    ];
    for (form, bytes) in rows {
        let Some(dump) = dump(&bytes) else { return };
        let theirs = counts(&dump);
        let ours = PerfData::read(std::io::Cursor::new(&bytes)).unwrap().unwrap().counts;
        for (name, kind) in kinds {
            assert_eq!(theirs.get(name), ours.get(&kind), "{form}: {name}\n{dump}");
        }
    }
}

#[test]
fn perf_has_the_same_sessions_and_mappings() {
    for is_big_endian in [false, true] {
        let bytes = recording(is_big_endian).file();
        let Some(dump) = dump(&bytes) else { return };
        let (_dir, capture) = open(&bytes);
        let data = PerfData::read(std::io::Cursor::new(&bytes)).unwrap().unwrap();
        let mut theirs = records(&dump, "AUX offset:");
        theirs.sort_unstable();
        let mut ours: Vec<u64> = data.sessions.iter().map(|session| session.offset).collect();
        ours.sort_unstable();
        assert_eq!(theirs.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), ours, "{dump}");
        for (offset, text) in theirs {
            let session = data.sessions.iter().find(|session| session.offset == offset).unwrap();
            assert!(text.contains(&format!("size: {:#x} ", session.len())), "{text}: {session:?}");
        }
        let mappings = records(&dump, "MMAP2");
        for event in &capture.events {
            let unspool_capture::Call::Library { mapping, .. } = &event.call else { continue };
            let (_, text) = mappings.iter().find(|(offset, _)| *offset == event.place).unwrap();
            let unspool_capture::Placement::Part { address, length, offset } = mapping.placement else { panic!() };
            let offset = if offset == 0 { "0".to_string() } else { format!("{offset:#x}") };
            let expected = format!("[{address:#x}({length:#x}) @ {offset} ");
            assert!(text.contains(&expected) && text.ends_with(&mapping.image), "{text}: {expected}");
        }
    }
}

/// perf lists packets through the reference decoder, with their offsets in the trace of the CPU. It repeats them.
#[test]
fn perf_decodes_the_same_sessions() {
    let bytes = recording(false).file();
    let Some(dump) = dump(&bytes) else { return };
    let packets: BTreeSet<String> =
        dump.lines().filter_map(|line| line.split_once("Idx:")).map(|it| it.1.into()).collect();
    let starting = |word: &str| {
        let words = packets.iter().filter(|line| line.contains(word)).map(|line| line.split(word).next().unwrap());
        words.map(|head| head.replace([';', '\t'], "")).collect::<BTreeSet<String>>()
    };
    // Each session starts with a synchronization, at the offset of its AUX record.
    let expected = ["0 ID:1e", "32 ID:1e", "4096 ID:16"].map(str::to_string);
    assert_eq!(starting("I_ASYNC"), BTreeSet::from(expected), "{dump}");
    for (id, address) in [(0x1e, 0x40_0100), (0x1e, 0x40_0200), (0x16, 0x40_0300)] {
        let id = format!("ID:{id:x};");
        let address = format!("Addr=0x{address:016X};");
        assert!(packets.iter().any(|line| line.contains(&id) && line.contains(&address)), "{id} {address}\n{dump}");
    }
}
