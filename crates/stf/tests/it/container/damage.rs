//! Truncated, damaged and odd files: everything before the damage is read, and the damage is reported.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_stf::lift::Follower;
use unspool_stf::read::{ReadErrorKind, ReadOptions, Reader, Storage, Warning};
use unspool_stf::record::Record;

use super::{FailingInput, Outcome, ZstfFile, both, group, options, piped, sought, trace};
use crate::fixtures::{encoded, written};

#[test]
fn truncated_files_are_read_to_the_cut() {
    let trace = trace(25);
    let expected = encoded(&trace);
    for container in Storage::ALL {
        let file = written(&trace, container, options(4));
        let zstf = (container == Storage::Zstf).then(|| ZstfFile::of(&file));
        let mut length = 0;
        for end in 0..file.len() {
            let outcome = piped(&file[..end], 1);
            let name = format!("{container} cut to {end} of {} bytes: {}", file.len(), outcome.text());
            assert!(expected.starts_with(&outcome.bytes), "{name}");
            assert!(outcome.bytes.len() >= length, "{name}: less than of a shorter file");
            length = outcome.bytes.len();
            let is_reported = outcome.error.is_some() || !outcome.warnings.is_empty();
            let is_record = container == Storage::PLAIN && outcome.bytes.len() == end;
            assert!(is_reported || is_record, "{name}");
            if let Some(zstf) = &zstf {
                let whole = zstf
                    .chunks
                    .iter()
                    .enumerate()
                    .take_while(|(number, _)| zstf.chunks.get(number + 1).map_or(zstf.end, |next| next.0) <= end);
                let whole: usize = whole.map(|(_, chunk)| chunk.2.len()).sum();
                assert!(outcome.bytes.len() >= whole, "{name}: a whole chunk is missing");
                assert_eq!(outcome.error.is_none(), end >= zstf.end, "{name}");
            }
            for threads in [1, 2, 3] {
                for (how, other) in both(&file[..end], threads) {
                    assert!(other.bytes == outcome.bytes, "{name}: {how} with {threads} threads {}", other.text());
                    assert_eq!(other.text(), outcome.text(), "{name}: {how} with {threads} threads");
                }
            }
        }
        let min = if container == Storage::GZIP || container == Storage::XZ { 0 } else { expected.len() * 4 / 5 };
        assert!(length >= min, "{container}: only {length} bytes before the last one");
    }
}

#[test]
fn damaged_files_are_read_to_the_damage() {
    let trace = trace(25);
    let expected = encoded(&trace);
    for container in Storage::ALL {
        let file = written(&trace, container, options(4));
        let zstf = (container == Storage::Zstf).then(|| ZstfFile::of(&file));
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                let outcome = sought(&damaged, 1);
                let name = format!("{container} with bit {bit} of byte {at} flipped: {}", outcome.text());
                match &zstf {
                    _ if at < container.magic().len() => {}
                    None if container == Storage::PLAIN => {
                        let same = outcome.bytes.iter().zip(&expected).take_while(|(a, b)| a == b).count();
                        let is_version = matches!(outcome.kind(), Some(ReadErrorKind::Version { .. }));
                        let is_whole = outcome.starts.iter().chain([&outcome.bytes.len()]).any(|start| *start == same);
                        assert!(is_version || same >= at || is_whole, "{name}");
                    }
                    // The next checksum detects the change.
                    None => assert!(outcome.error.is_some() || outcome.bytes == expected, "{name}: undetected"),
                    Some(zstf) => flipped_zstf(zstf, &expected, at, &outcome, &name),
                }
                if bit == at % 8 {
                    let other = sought(&damaged, 3);
                    assert!(other.bytes == outcome.bytes, "{name}: with 3 threads {}", other.text());
                    // Threads of liblzma read ahead.
                    let is_same = other.text() == outcome.text();
                    assert!(is_same || (container == Storage::XZ && other.error.is_some()), "{name}: {}", other.text());
                    assert_eq!(other.warnings, outcome.warnings, "{name}: with 3 threads");
                    let (one, two) = (piped(&damaged, 1), piped(&damaged, 2));
                    assert!(one.bytes == two.bytes, "{name}: {} or {}", one.text(), two.text());
                    assert_eq!(one.error.is_some(), two.error.is_some(), "{name}");
                }
            }
        }
    }
}

/// Checks the outcome of a .zstf file with a changed byte.
fn flipped_zstf(zstf: &ZstfFile, expected: &[u8], at: usize, outcome: &Outcome, name: &str) {
    let is_reported = outcome.error.is_some() || !outcome.warnings.is_empty();
    match at {
        // Number of markers of a chunk.
        4..12 => assert!(is_reported && (outcome.bytes == expected || outcome.bytes.is_empty()), "{name}"),
        // Offset of the index.
        12..20 => assert!(is_reported && outcome.bytes == expected, "{name}"),
        // The index. Its PCs are used only to seek.
        _ if at >= zstf.end => {
            let is_pc = at >= zstf.end + 8 && (at - zstf.end - 8) % 24 / 8 == 1;
            assert!(outcome.bytes == expected && (is_reported || is_pc), "{name}");
        }
        _ => {
            let before = zstf.chunks.iter().take_while(|chunk| chunk.0 <= at).count() - 1;
            let length: usize = zstf.chunks[..before].iter().map(|chunk| chunk.2.len()).sum();
            assert!(outcome.bytes.starts_with(&expected[..length]), "{name}: a chunk before is gone");
            if let Some(ReadErrorKind::Chunk { chunk, .. }) = outcome.kind() {
                assert!(*chunk >= before as u64, "{name}");
            }
        }
    }
}

#[test]
fn failing_inputs_are_read_to_the_failure() {
    let trace = trace(3000);
    for container in Storage::ALL {
        let file = written(&trace, container, options(100));
        for end in [0, 5, 20, 33, 100, file.len() / 2, file.len() - 1, file.len()] {
            let cut = piped(&file[..end], 1);
            for threads in [1, 2] {
                let outcome =
                    Outcome::of(Reader::new(FailingInput(Cursor::new(file[..end].to_vec())), ReadOptions { threads }));
                let name = format!("{container} breaks at {end} with {threads} threads: {}", outcome.text());
                assert!(outcome.text().ends_with("the cable is out"), "{name}");
                assert!(outcome.bytes == cut.bytes, "{name}");
            }
        }
    }
}

const SHORT: &str = "it is cut short";
const COUNT: &str = "it has another number of chunks than the file";
const MISPLACED: &str = "its chunks are not where chunks can be";
const ELSEWHERE: &str = "a chunk is elsewhere";

/// A file of four chunks with 3, 3, 3 and 2 instructions, and its parts.
fn chunked() -> (Vec<u8>, Vec<u8>, ZstfFile) {
    let file = written(&trace(11), Storage::Zstf, options(3));
    let zstf = ZstfFile::of(&file);
    (file, encoded(&trace(11)), zstf)
}

/// The file with other words at these offsets.
fn patched(file: &[u8], patches: &[(usize, u64)]) -> Vec<u8> {
    let mut file = file.to_vec();
    for (at, word) in patches {
        file[*at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    file
}

#[test]
fn oddities_of_readable_files_are_warnings() {
    let (file, expected, zstf) = chunked();
    let end = zstf.end;
    let damaged = |sought, piped| [sought, piped].map(|why| vec![Warning::DamagedIndex(why)]);
    let same = |warnings: Vec<Warning>| [warnings.clone(), warnings];
    let wrong_markers = |expected: u64| {
        let found = [3, 3, 3, 2].into_iter().enumerate();
        let found = found.filter(|(chunk, found)| *found > expected || *chunk < 3);
        same(found.map(|(chunk, found)| Warning::WrongMarkers { chunk: chunk as u64, found, expected }).collect())
    };
    let found = zstf.chunks[1].2.len() as u64;
    let wrong_size = |index| same(vec![Warning::WrongSize { chunk: 1, index, found }]);
    let [second, size] = [end + 8 + 24, end + 8 + 24 + 16];
    let after = Warning::Trailing { at: file.len() as u64 };
    // Patches, and the warnings where the file is sought and where it is piped.
    type Row<'a> = (&'a str, &'a [(usize, u64)], [Vec<Warning>; 2]);
    let rows: [Row<'_>; 12] = [
        ("nothing", &[], same(vec![])),
        ("no index", &[(12, 0)], same(vec![Warning::Unfinished])),
        ("too many chunks", &[(end, 5)], damaged(SHORT, COUNT)),
        ("absurdly many chunks", &[(end, u64::MAX)], damaged(SHORT, COUNT)),
        ("chunks out of order", &[(second, 21 + zstf.chunks[2].0 as u64)], damaged(MISPLACED, ELSEWHERE)),
        ("a chunk beyond the file", &[(end + 8 + 72, u64::MAX - 1)], damaged(MISPLACED, ELSEWHERE)),
        ("a chunk within another", &[(second, 25)], damaged(ELSEWHERE, ELSEWHERE)),
        ("fewer instructions", &[(4, 4)], wrong_markers(4)),
        ("more instructions", &[(4, 2)], wrong_markers(2)),
        ("a size too small", &[(size, 7)], wrong_size(7)),
        ("a size too large", &[(size, 1 << 20)], wrong_size(1 << 20)),
        ("an absurd size", &[(size, u64::MAX)], wrong_size(u64::MAX)),
    ];
    let trailing = ("trailing data", [&file[..], b"more"].concat(), same(vec![after]));
    let rows = rows.map(|(name, patches, warnings)| (name, patched(&file, patches), warnings));
    for (name, file, [by_index, by_frames]) in rows.into_iter().chain([trailing]) {
        for threads in [1, 2] {
            sought(&file, threads).assert_read(&expected, &by_index, name);
            piped(&file, threads).assert_read(&expected, &by_frames, name);
        }
    }
    let rows = [
        ((4, 2), "chunk 0 has 3 instructions instead of 2: the reference library silently drops the last 1"),
        ((4, 4), "chunk 0 has 3 instructions instead of 4: the reference library reads past its end"),
        ((size, 7), "the reference library silently drops the rest"),
    ];
    for (patch, text) in rows {
        let warning = sought(&patched(&file, &[patch]), 1).warnings[0].to_string();
        assert!(warning.ends_with(text), "{warning}");
    }
}

#[test]
fn chunk_of_two_frames_is_a_warning() {
    let (file, expected, zstf) = chunked();
    let halves = zstf.chunks[1].2.split_at(20);
    let two: Vec<u8> = [halves.0, halves.1].iter().flat_map(|half| zstd::encode_all(*half, 3).unwrap()).collect();
    let second = zstf.chunks[1].0..zstf.chunks[2].0;
    let (end, longer) = (zstf.end, two.len() as u64 - second.len() as u64);
    let moved = |at: usize| at as u64 + longer;
    let patches = [(12, moved(end)), (end + 56, moved(second.end)), (end + 80, moved(zstf.chunks[3].0))];
    let mut file = patched(&file, &patches);
    file.splice(second, two);
    sought(&file, 2).assert_read(&expected, &[Warning::SeveralFrames { chunk: 1, frames: 2 }], "two frames");
    let outcome = piped(&file, 1);
    assert!(outcome.bytes == expected && !outcome.warnings.is_empty());
}

#[test]
fn invalid_zstf_headers_are_errors() {
    let (file, expected, _) = chunked();
    let outcome = sought(&patched(&file, &[(12, 1 << 40)]), 1);
    assert!(outcome.bytes == expected, "{}", outcome.text());
    assert_eq!(outcome.warnings, [Warning::DamagedIndex("it should start after the end of the file")]);
    assert!(matches!(outcome.kind(), Some(ReadErrorKind::NoChunk { chunk: 4, .. })));
    let text = sought(&patched(&file, &[(4, 0)]), 1).text();
    assert_eq!(text, "record 0 at 0x0: byte 0x4 of the file: the header declares chunks without instructions");
}

#[test]
fn headers_are_checked() {
    let version = |major, minor| {
        let mut records = trace(2);
        records[1] = Record::Version { major, minor };
        encoded(&records)
    };
    let mut without_version = trace(2);
    without_version.remove(1);
    let refused =
        |version: &str| format!("record 1 at 0x4: version {version} is not supported, only 1.2 and later 1.x");
    let at_start = |text: &str| format!("record 0 at 0x0: {text}");
    let zip = at_start("this is no STF trace: it starts with [50, 4b, 03, 04]");
    let script = at_start("this is no STF trace: it starts with [23, 21, 2f, 62]");
    let whole = || "no error".to_string();
    let compressed = zstd::encode_all(&b"PK\x03\x04"[..], 1).unwrap();
    let rows: Vec<(&str, Vec<u8>, String, &[Warning])> = vec![
        ("nothing", vec![], at_start("the file is empty"), &[]),
        ("another format", b"PK\x03\x04 and more".to_vec(), zip.clone(), &[]),
        ("a script", b"#!/bin/sh\necho".to_vec(), script, &[]),
        ("another format, compressed", compressed, zip, &[]),
        ("version 1.0", version(1, 0), refused("1.0"), &[]),
        ("version 1.1", version(1, 1), refused("1.1"), &[]),
        ("version 2.0", version(2, 0), refused("2.0"), &[]),
        ("version 0.9", version(0, 9), refused("0.9"), &[]),
        ("version 1.2", version(1, 2), whole(), &[]),
        ("version 1.9", version(1, 9), whole(), &[Warning::NewerMinor(9)]),
        ("no version", encoded(&without_version), whole(), &[Warning::NoVersion]),
        ("a magic number", b"\x01STF".to_vec(), "record 1 at 0x4: the trace ends within its header".into(), &[]),
        ("half a magic number", b"\x01ST".to_vec(), at_start("the trace ends within a record"), &[]),
        ("the end mark at the end", [encoded(&trace(2)), vec![255]].concat(), whole(), &[]),
    ];
    for (name, file, text, warnings) in rows {
        for threads in [1, 2] {
            for (how, outcome) in both(&file, threads) {
                assert_eq!(outcome.text(), text, "{name}, {how}");
                assert_eq!(outcome.warnings, warnings, "{name}, {how}");
            }
        }
    }
    let after_end = [encoded(&trace(2)), vec![255], encoded(&group(0))].concat();
    let outcome = piped(&after_end, 1);
    assert!(outcome.text().ends_with("the trace continues after its end mark"), "{}", outcome.text());
    assert!(outcome.bytes == after_end[..encoded(&trace(2)).len() + 1]);
}

/// Whatever byte of a chunk is changed, the chunks after the damage are read, at the addresses of the index, and the
/// damage is reported. If the chunk can still be decompressed, its records may be wrong up to a later chunk.
#[test]
fn chunks_after_damage_are_read() {
    let file = written(&trace(25), Storage::Zstf, options(4));
    let zstf = ZstfFile::of(&file);
    let (last, mut resumed) = (zstf.chunks.len() - 1, 0);
    for chunk in 1..last {
        for at in zstf.chunks[chunk].0..zstf.chunks[chunk + 1].0 {
            let mut damaged = file.clone();
            damaged[at] ^= 0x11;
            for threads in [1, 3] {
                let name = format!("byte {at:#x} of chunk {chunk} with {threads} threads");
                let mut reader = Reader::seekable(Cursor::new(damaged.clone()), ReadOptions { threads }).unwrap();
                let (mut follower, mut numbers, mut start) = (Follower::default(), Vec::new(), None);
                while let Err(error) = reader.each_instruction(&mut follower, |instruction| {
                    numbers.push(instruction.number);
                    ControlFlow::Continue(())
                }) {
                    let Some(warning) = reader.resume(&error, &mut follower) else { panic!("{name}: {error}") };
                    let Warning::DamagedChunk { chunk: found, fault, lost, .. } = warning else { panic!("{warning}") };
                    assert!(found as usize == chunk || fault.is_none() && found as usize > chunk, "{name}: {warning}");
                    assert!(lost <= 4 && reader.warnings().contains(&warning), "{name}: {warning}");
                    let next = found as usize + 1;
                    let expected = (4 * next as u64, zstf.chunks[next].1, None);
                    assert_eq!((follower.instructions, follower.next_pc, follower.mode), expected, "{name}");
                    start = Some(expected.0);
                    resumed += 1;
                }
                if let Some(start) = start {
                    let after: Vec<u64> = (start + 1..=25).collect();
                    assert!(numbers.ends_with(&after), "{name}: {numbers:?}");
                }
            }
        }
    }
    assert!(resumed > 100, "only {resumed} changes were noticed");
}

/// A file with these chunks, and an index that has these sizes for some of them.
fn assembled(chunks: &[(u64, Vec<u8>)], markers: u64, sizes: &[(usize, u64)]) -> Vec<u8> {
    let mut file = [b"ZSTF".to_vec(), markers.to_le_bytes().to_vec(), vec![0; 8]].concat();
    let mut index = (chunks.len() as u64).to_le_bytes().to_vec();
    for (number, (pc, records)) in chunks.iter().enumerate() {
        let wrong = sizes.iter().find(|(chunk, _)| *chunk == number).map(|(_, size)| *size);
        let entry = [file.len() as u64, *pc, wrong.unwrap_or(records.len() as u64)];
        index.extend(entry.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(zstd::encode_all(&records[..], 1).unwrap());
    }
    let end = file.len() as u64;
    file[12..20].copy_from_slice(&end.to_le_bytes());
    [file, index].concat()
}

/// Chunks of four instructions, with their addresses.
fn chunks_of_four() -> Vec<(u64, Vec<u8>)> {
    let file = written(&trace(25), Storage::Zstf, options(4));
    let zstf = ZstfFile::of(&file);
    let ends = zstf.chunks.iter().skip(1).map(|chunk| chunk.0).chain([zstf.end]);
    let chunks = zstf.chunks.iter().zip(ends);
    chunks.map(|(chunk, end)| (chunk.1, zstd::decode_all(&file[chunk.0..end]).unwrap())).collect()
}

/// Numbers of the instructions, with reading resumed after damage, and the damaged chunks.
fn numbers_and_damage(file: &[u8], threads: usize) -> (Vec<u64>, Vec<u64>) {
    let mut reader = Reader::seekable(Cursor::new(file.to_vec()), ReadOptions { threads }).unwrap();
    let (mut follower, mut numbers, mut damaged) = (Follower::default(), Vec::new(), Vec::new());
    while let Err(error) = reader.each_instruction(&mut follower, |instruction| {
        numbers.push(instruction.number);
        ControlFlow::Continue(())
    }) {
        let Some(Warning::DamagedChunk { chunk, .. }) = reader.resume(&error, &mut follower) else { break };
        damaged.push(chunk);
    }
    (numbers, damaged)
}

/// The index does not decide which chunk a record is in that cannot be read.
#[test]
fn wrong_sizes_do_not_repeat_or_skip_instructions() {
    let mut chunks = chunks_of_four();
    // No record has this descriptor.
    chunks[4].1.insert(0, 254);
    for sizes in [vec![], vec![(2, 1000)], vec![(2, 1)], vec![(4, 1)], vec![(0, 1), (1, 5000)]] {
        let file = assembled(&chunks, 4, &sizes);
        for threads in [1, 3] {
            let expected: Vec<u64> = (1..=16).chain(21..=25).collect();
            assert_eq!(numbers_and_damage(&file, threads), (expected, vec![4]), "{sizes:?}, {threads} threads");
        }
    }
}

#[test]
fn seeking_with_impossible_sizes_counts_from_the_start() {
    let chunks = chunks_of_four();
    for sizes in [vec![(1, u64::MAX), (2, 5)], vec![(1, u64::MAX - 500)], vec![(1, u64::MAX / 2 + 1)]] {
        let mut reader =
            Reader::seekable(Cursor::new(assembled(&chunks, 4, &sizes)), ReadOptions { threads: 1 }).unwrap();
        let (mut follower, mut numbers) = (Follower::default(), Vec::new());
        assert!(reader.seek_instruction(20, &mut follower).unwrap(), "{sizes:?}");
        let more = reader.each_instruction(&mut follower, |instruction| {
            numbers.push((instruction.number, instruction.position.offset));
            ControlFlow::Break(())
        });
        let before: usize = chunks[..5].iter().map(|(_, records)| records.len()).sum();
        assert!(more.unwrap() && numbers == [(21, before as u64)], "{sizes:?}: {numbers:?}, {before:#x}");
        let is_reported = |warning: &Warning| matches!(warning, Warning::DamagedIndex(_));
        assert!(reader.warnings().iter().any(is_reported), "{sizes:?}: {:?}", reader.warnings());
    }
}

/// An offset at the end of the address space.
#[test]
fn offsets_of_the_index_do_not_overflow() {
    let mut file = assembled(&chunks_of_four(), 4, &[]);
    let at = file.len() - 24;
    file[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    for (how, outcome) in both(&file, 1) {
        assert_eq!(outcome.bytes, encoded(&trace(25)), "{how}");
        assert!(outcome.warnings.iter().any(|warning| matches!(warning, Warning::DamagedIndex(_))), "{how}");
    }
}
