//! Real STF traces. Needs the corpus: `UNSPOOL_CORPUS` names its folder.

use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use unspool_stf::lift::Follower;
use unspool_stf::read::{ReadError, ReadOptions, Reader, Storage};
use unspool_stf::record::{Record, descriptor};
use unspool_stf::write::{WriteOptions, Writer};
use unspool_testing::corpus;

use crate::fixtures::{instructions_of, records_of};

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().flat_map(|path| if path.is_dir() { self::files(&path) } else { vec![path] }).collect()
}

/// The healthy traces: their path, and `folder/file`.
fn traces(corpus: &Path) -> Vec<(PathBuf, String)> {
    let named = files(corpus).into_iter().map(|path| {
        let name = path.strip_prefix(corpus).unwrap().to_str().unwrap().to_owned();
        (path, name)
    });
    let is_trace = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file.contains("stf") && !name.starts_with("negative/") && !name.starts_with("expected/")
    };
    named.filter(|(_, name)| is_trace(name)).collect()
}

/// All records of a file, encoded again.
struct Whole {
    container: Storage,
    bytes: Vec<u8>,
    records: u64,
    /// The number of records up to the end of the header.
    header: u64,
    markers: u64,
}

fn open(path: &Path, threads: usize, is_piped: bool) -> Result<Reader<Box<dyn Read + Send>>, ReadError> {
    let (file, options) = (File::open(path).unwrap(), ReadOptions { threads });
    if is_piped { Reader::new(file, options) } else { Reader::seekable(file, options) }
}

fn whole(path: &Path, threads: usize, is_piped: bool) -> Result<Whole, String> {
    let mut reader = open(path, threads, is_piped).map_err(|error| error.to_string())?;
    let container = reader.storage();
    let mut whole = Whole { container, bytes: Vec::new(), records: 0, header: 0, markers: 0 };
    let result = reader.each(|position, record| {
        assert_eq!((position.record, position.offset), (whole.records, whole.bytes.len() as u64));
        record.encode(&mut whole.bytes);
        whole.records += 1;
        match record.descriptor() {
            descriptor::END_HEADER => whole.header = whole.records,
            descriptor::INST_OPCODE32 | descriptor::INST_OPCODE16 | descriptor::TRANSACTION => whole.markers += 1,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    match (result, reader.warnings()) {
        (Ok(_), []) => Ok(whole),
        (Ok(_), warnings) => Err(warnings[0].to_string()),
        (Err(error), _) => Err(error.to_string()),
    }
}

/// A count in the output of the reference's `stf_count`.
fn count(text: &str, name: &str) -> u64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == name).unwrap();
    words[at + 1].replace(',', "").parse().unwrap()
}

#[test]
fn counts_match_the_reference() {
    let Some(corpus) = corpus("stf") else { return };
    let mut compared = 0;
    for (path, name) in traces(&corpus) {
        let expected = corpus.join("expected").join(name.replace('/', "__"));
        let Ok(counts) = fs::read_to_string(expected.join("count.txt")) else { continue };
        compared += 1;
        let short: u64 = fs::read_to_string(expected.join("count_short.txt")).unwrap().trim().parse().unwrap();
        let (mut follower, mut faults) = (Follower::default(), 0);
        let mut reader = Reader::seekable(File::open(&path).unwrap(), ReadOptions::default()).unwrap();
        instructions_of(&mut reader, &mut follower, |instruction| {
            // The reference does not count an instruction that faults. It counts system calls.
            let is_fault = instruction.records > 1
                && instruction
                    .events()
                    .any(|event| !event.is_interrupt() && !event.is_special() && !(8..=11).contains(&event.id()));
            faults += u64::from(is_fault);
        });
        assert_eq!(reader.warnings(), [], "{name}");
        assert_eq!(follower.instructions, count(&counts, "inst_record_count"), "{name}: opcodes");
        assert_eq!(faults, count(&counts, "fault_count"), "{name}: faults");
        assert_eq!(follower.instructions - faults, short, "{name}: instructions");
        // The reference does not count records of the header.
        let whole = whole(&path, 2, false).unwrap();
        assert_eq!(whole.records - whole.header, count(&counts, "total_record_count"), "{name}: records");
    }
    assert!(compared >= 20, "only {compared} traces have expected counts");
}

#[test]
fn every_trace_survives_every_storage() {
    let Some(corpus) = corpus("stf") else { return };
    let (mut same, mut others) = (Vec::new(), Vec::new());
    for (path, name) in traces(&corpus) {
        let trace = whole(&path, 1, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        let file = fs::read(&path).unwrap();
        for (threads, is_piped) in [(2, false), (1, true), (2, true)] {
            let other = whole(&path, threads, is_piped).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(other.bytes == trace.bytes, "{name}: {threads} threads, piped {is_piped}");
        }
        if trace.container == Storage::PLAIN {
            assert!(trace.bytes == file, "{name}");
        }
        let chunk_markers = match trace.container {
            Storage::Zstf => u64::from_le_bytes(file[4..12].try_into().unwrap()),
            _ => 1000,
        };
        for container in Storage::ALL {
            let options = WriteOptions { chunk_markers, threads: 2, level: None };
            let mut writer = Writer::seekable(Cursor::new(Vec::new()), container, options).unwrap();
            writer.write(&trace.bytes).unwrap();
            let written = writer.finish().unwrap().into_inner();
            let mut bytes = Vec::new();
            let mut reader = Reader::seekable(Cursor::new(written.clone()), ReadOptions { threads: 2 }).unwrap();
            records_of(&mut reader, |_, record| record.encode(&mut bytes));
            assert_eq!(reader.warnings(), [], "{name} as {container}");
            assert!(bytes == trace.bytes, "{name} as {container}");
            if container == Storage::Zstf && trace.container == container {
                assert_eq!(index(&written), index(&file), "{name}: chunks, start PCs and sizes");
                if written == file { &mut same } else { &mut others }.push(name.clone());
            }
        }
    }
    // Compressed bytes depend on the version of zstd. Some files of the reference are equal; of the others, sizes and
    // start PCs were compared.
    assert!(same.iter().any(|name| name == "synthetic/all_records_chunk3.zstf"), "{same:?}");
    assert!(same.len() >= 7, "the same: {same:?}, compressed otherwise: {others:?}");
}

/// Start PC and size of every chunk.
fn index(file: &[u8]) -> Vec<(u64, u64)> {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let end = word(12) as usize;
    (0..word(end) as usize).map(|chunk| (word(end + 16 + 24 * chunk), word(end + 24 + 24 * chunk))).collect()
}

#[test]
fn instructions_are_found_through_the_index() {
    let Some(corpus) = corpus("stf") else { return };
    for name in ["olympia/dhrystone_opt1.zstf", "olympia/core_riscv.zstf", "synthetic/all_records_chunk3.zstf"] {
        let path = corpus.join(name);
        let mut all = Vec::new();
        let mut reader = Reader::new(File::open(&path).unwrap(), ReadOptions::default()).unwrap();
        instructions_of(&mut reader, &mut Follower::default(), |instruction| {
            all.push((instruction.number, instruction.pc, instruction.opcode));
        });
        let mut reader = Reader::seekable(File::open(&path).unwrap(), ReadOptions { threads: 1 }).unwrap();
        let mut follower = Follower::default();
        let count = all.len() as u64;
        for before in [count - 1, 0, count / 2, count / 2 + 1, 2, count / 3] {
            assert!(reader.seek_instruction(before, &mut follower).unwrap(), "{name}");
            reader
                .each_instruction(&mut follower, |found| {
                    let found = (found.number, found.pc, found.opcode);
                    assert_eq!(found, all[before as usize], "{name}");
                    ControlFlow::Break(())
                })
                .unwrap();
        }
    }
}

#[test]
fn damage_is_reported() {
    let Some(corpus) = corpus("stf") else { return };
    let negative = corpus.join("negative");
    let good = fs::read(corpus.join("synthetic/all_records_rv64_v256_ev64.stf")).unwrap();
    let chunked = whole(&corpus.join("synthetic/all_records_chunk3.zstf"), 1, false).unwrap().bytes;
    // Readable bytes of a trace, and the report. A cut between two records cannot be detected.
    let rows: &[(&str, &[u8], usize, &str)] = &[
        ("derived/t0.stf", &good, 0, "record 0 at 0x0: the file is empty"),
        ("derived/t3.stf", &good, 0, "record 0 at 0x0: the trace ends within a record"),
        ("derived/t4.stf", &good, 4, "record 1 at 0x4: the trace ends within its header"),
        ("derived/t13.stf", &good, 13, "record 2 at 0xd: the trace ends within its header"),
        ("derived/t100.stf", &good, 95, "record 12 at 0x5f: the trace ends within a record"),
        ("derived/t107.stf", &good, 107, "record 13 at 0x6b: the trace ends within its header"),
        ("derived/t108.stf", &good, 108, ""),
        ("derived/t110.stf", &good, 108, "record 14 at 0x6c: the trace ends within a record"),
        ("derived/t125.stf", &good, 108, "record 14 at 0x6c: the trace ends within a record"),
        ("derived/t128.stf", &good, 126, "record 15 at 0x7e: the trace ends within a record"),
        ("derived/t131.stf", &good, 131, ""),
        ("derived/t340.stf", &good, 329, "record 27 at 0x149: the trace ends within a record"),
        ("derived/t400.stf", &good, 384, "record 32 at 0x180: the trace ends within a record"),
        ("derived/t490.stf", &good, 490, ""),
        ("derived/t497.stf", &good, 493, "record 41 at 0x1ed: the trace ends within a record"),
        ("derived/unkdesc.stf", &good, 126, "record 15 at 0x7e: no record has the descriptor 77"),
        ("derived/desc255.stf", &good, 126, "record 16 at 0x7f: the trace continues after its end mark"),
        ("derived/trail0.stf", &good, 498, "record 42 at 0x1f2: no record has the descriptor 0"),
        ("derived/trail255.stf", &good, 498, ""),
        ("derived/ver1.9.stf", &good, 498, "version 1.9 is newer than 1.6"),
        ("derived/ver2.stf", &good, 0, "record 1 at 0x4: version 2.6 is not supported"),
        ("derived/plainzstd.zstf", &good, 498, ""),
        ("derived/endzero.zstf", &chunked, chunked.len(), "the file was not finished"),
        ("derived/truncidx.zstf", &chunked, chunked.len(), "the index of the file is damaged (it is cut short)"),
        ("derived/trunc.zstf", &chunked, 1176, "record 92 at 0x498: chunk 2, byte 0x2bc of the file: the file ends"),
        ("escaped_bytes_not_zstf.zstf", &chunked, 0, "chunk 0, byte 0x14 of the file: expected the start of a chunk"),
    ];
    for (name, expected, length, text) in rows {
        for threads in [1, 2] {
            for is_piped in [false, true] {
                let (bytes, report) = damaged(&negative.join(name), threads, is_piped);
                assert!(report.contains(text) && report.is_empty() == text.is_empty(), "{name}: {report}");
                // At most one byte differs: the version, or the end mark.
                let common = bytes.iter().zip(*expected).filter(|(found, expected)| found == expected).count();
                assert!(bytes.len() - common <= 1 && bytes.len().min(expected.len()) - length <= 1, "{name}");
            }
        }
    }
    let known: Vec<PathBuf> = rows.iter().map(|row| negative.join(row.0)).collect();
    for path in files(&negative) {
        // Other files: no panic, and the same result for every way of reading.
        if !known.contains(&path) {
            let first = damaged(&path, 1, false).0;
            assert!(first == damaged(&path, 2, true).0, "{}", path.display());
        }
    }
}

/// The readable records of a file, and everything that is reported about it.
fn damaged(path: &Path, threads: usize, is_piped: bool) -> (Vec<u8>, String) {
    let mut reader = match open(path, threads, is_piped) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), error.to_string()),
    };
    let mut bytes = Vec::new();
    let take = |_, record: &Record<'_>| {
        record.encode(&mut bytes);
        ControlFlow::Continue(())
    };
    let report = reader.each(take).err().map_or(String::new(), |error| error.to_string());
    let report = reader.warnings().iter().fold(report, |report, warning| format!("{report} {warning}"));
    (bytes, report)
}
