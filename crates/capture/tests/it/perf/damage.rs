//! Damaged recordings: they open as far as possible, and the damage is named with its offset.

use std::io::Cursor;

use unspool_capture::perf::{PerfData, Problem};
use unspool_testing::Random;
use unspool_testing::perf::Compression;

use super::*;

fn read(bytes: &[u8]) -> Option<PerfData> {
    PerfData::read(Cursor::new(bytes)).unwrap()
}

/// Everything that is always so.
fn check(bytes: &[u8], name: &str) {
    let Some(data) = read(bytes) else { return };
    let size = bytes.len() as u64;
    for session in &data.sessions {
        let inside = session.parts.iter().all(|part| part.length > 0 && part.offset + part.length <= size);
        assert!(inside && session.parts.is_empty() == session.absent.is_some(), "{name}: {session:?}");
    }
    assert!(data.problems.iter().all(|problem| problem.offset <= size), "{name}: {:?}", data.problems);
    assert!(data.events.len() as u64 <= 3 * data.counts.values().sum::<u64>(), "{name}");
    assert!(data.events.is_sorted_by_key(|event| event.time), "{name}");
}

/// The recording in forms that are read differently.
fn forms() -> Vec<Vec<u8>> {
    let mut compressed = recording(false);
    compressed.compression = Some(Compression::One);
    let mut second = recording(true);
    second.compression = Some(Compression::Two);
    vec![recording(false).file(), recording(true).file(), recording(false).pipe(), compressed.file(), second.file()]
}

#[test]
fn flipped_bytes() {
    let mut random = Random::new(5);
    for (form, bytes) in forms().iter().enumerate() {
        for round in 0..2000 {
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = if random.flip() { random.word() as u8 } else { bytes[at] ^ 1 << random.below(8) };
            }
            check(&bytes, &format!("form {form}, round {round}"));
            if round % 100 == 0 && unspool_capture::perf::is_perf(&bytes) {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("perf.data");
                fs::write(&path, &bytes).unwrap();
                if let Ok(capture) = Capture::open(&path) {
                    buffers(&capture);
                }
            }
        }
    }
}

#[test]
fn every_length() {
    for (form, bytes) in forms().iter().enumerate() {
        for length in 0..bytes.len() {
            check(&bytes[..length], &format!("form {form}, {length} bytes"));
        }
    }
}

#[test]
fn a_file_that_was_cut_has_what_precedes_the_cut() {
    let bytes = recording(false).pipe();
    let whole = read(&bytes).unwrap();
    let last = whole.sessions.iter().map(|session| session.parts[0].offset).max().unwrap();
    let cut = read(&bytes[..last as usize + 16]).unwrap();
    assert_eq!(cut.sessions.len(), 3);
    let of_3 = cut.sessions.iter().find(|session| session.cpu == Some(3)).unwrap();
    assert_eq!((of_3.len(), of_3.missing), (16, frames(0x16, &stream(0x40_0300)).len() as u64 - 16));
    let texts: Vec<&str> = cut.problems.iter().map(|problem| problem.text.as_str()).collect();
    assert!(texts[0].contains("16 are in the file") && texts[1].contains("after the data"), "{texts:?}");
}

#[test]
fn reading_resumes_at_the_index() {
    let whole = recording(false);
    let bytes = whole.file();
    let data = read(&bytes).unwrap();
    let first = data.events[2].place as usize;
    assert_eq!(bytes[first], 12, "the first record of the kernel");
    let index = &data.features.auxtrace;
    assert_eq!(index.len(), 2);
    let problem = |offset: u64, text: String| Problem { file: 0, offset, text, is_damage: true };
    // A record without a size: the records up to the first AUXTRACE are lost.
    let mut no_size = bytes.clone();
    no_size[first + 6..first + 8].fill(0);
    let found = read(&no_size).unwrap();
    let text = format!("this is not a record; reading resumes at {:#x}", index[0]);
    assert_eq!(found.problems, [problem(first as u64, text)]);
    assert_eq!(found.counts[&71], 2);
    // An AUXTRACE record whose size is that of much more.
    let mut too_large = bytes.clone();
    let at = index[0] as usize + 8;
    too_large[at + 2] = 1;
    let found = read(&too_large).unwrap();
    assert!(found.problems.iter().any(|problem| problem.text.contains("according to the index")), "{found:?}");
    assert_eq!(found.counts[&71], 2);
    // Without an index, nothing is known after the damage.
    let mut file = whole.clone();
    file.index = unspool_testing::perf::Index::None;
    let mut bytes = file.file();
    let first = read(&bytes).unwrap().events[2].place as usize;
    bytes[first + 6..first + 8].fill(0);
    let found = read(&bytes).unwrap();
    assert_eq!(found.problems, [problem(first as u64, "this is not a record; the rest is not read".to_string())]);
}

#[test]
fn a_recorder_that_was_killed_leaves_no_size() {
    let mut file = recording(false);
    file.index = unspool_testing::perf::Index::None;
    let mut bytes = file.file();
    let data =
        u64::from_le_bytes(bytes[40..48].try_into().unwrap()) + u64::from_le_bytes(bytes[48..56].try_into().unwrap());
    bytes.truncate(data as usize);
    bytes[48..56].fill(0);
    bytes[72..104].fill(0);
    let found = read(&bytes).unwrap();
    assert_eq!(found.sessions.len(), 3);
    assert_eq!(found.problems.len(), 1);
    assert!(found.problems[0].text.contains("stopped before it finished"), "{:?}", found.problems);
}

#[test]
fn hostile_counts_and_sizes() {
    let good = recording(false).file();
    let header = [8_usize, 16, 24, 32, 40, 48];
    for at in header {
        for value in [0, 1, 7, 24, 1 << 20, u64::MAX, u64::MAX / 2, good.len() as u64] {
            let mut bytes = good.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            check(&bytes, &format!("{value:#x} at {at}"));
        }
    }
    let mut all_features = good.clone();
    all_features[72..104].fill(0xff);
    check(&all_features, "all features");
    // Ids, names and words that are announced and not there.
    let mut file = recording(false);
    for feature in [2, 4, 11, 12, 18, 129, 132] {
        file.feature(feature, vec![0xff; 40]);
    }
    file.info(1, &[(ETM4, 3, &[u64::MAX; 7])]);
    let namespaces = file.words(&[5, u64::MAX]);
    file.kernel(16, 0, &namespaces, process_event(7, 50));
    check(&file.file(), "features");
}

/// The place of a record and what it became, for all records of a file.
type Events = Vec<(u64, Option<u64>, String)>;

fn events(data: &PerfData) -> Events {
    let mut events: Events =
        data.events.iter().map(|event| (event.place, event.time, event.call.to_string())).collect();
    events.sort();
    events
}

/// A flipped byte changes what its record says, or is named; everything else is as before.
#[test]
fn the_rest_of_a_damaged_recording_is_right() {
    let bytes = recording(false).file();
    let whole = read(&bytes).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (start, length) = (word(40), word(48));
    // Starts of the records, with their trace bytes.
    let mut starts = vec![start];
    while let Some(&at) = starts.last().filter(|at| **at < start + length) {
        let header = &bytes[at as usize..];
        let payload = if header[0] == 71 { word(at as usize + 8) } else { 0 };
        starts.push(at + u64::from(u16::from_le_bytes([header[6], header[7]])) + payload);
    }
    let mut random = Random::new(26);
    let (mut named, mut silent) = (0, 0);
    for round in 0..2000 {
        let at = start + random.below(length);
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1 << random.below(8);
        let Some(data) = read(&damaged) else { panic!("{round}: not a recording") };
        if !data.problems.is_empty() {
            named += 1;
            continue;
        }
        silent += 1;
        let record = starts[starts.partition_point(|start| *start <= at) - 1];
        let (ours, expected) = (events(&data), events(&whole));
        // A thread that is named by several records is an event of the first.
        let is_other =
            |event: &&(u64, Option<u64>, String)| event.0 != record && !event.2.starts_with("declare_thread");
        let [ours, expected] = [&ours, &expected].map(|list| list.iter().filter(is_other).cloned().collect::<Events>());
        assert_eq!(ours, expected, "round {round}: a flip at {at:#x}");
    }
    println!("{named} flips are named, {silent} change a value");
    assert!(named > 200 && silent > 200, "{named} {silent}");
}
