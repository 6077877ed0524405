//! STF files in every storage: they are read back unchanged.

mod damage;
mod seek;

use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_stf::read::{ReadError, ReadErrorKind, ReadOptions, Reader, Storage, Warning};
use unspool_stf::record::{Event, MemAccess, PageTableWalk, Record, Register, TraceInfo, Transaction};
use unspool_stf::write::{WriteOptions, Writer};

use crate::fixtures::{bus_write, encoded, written};

/// A header with all records of instruction traces, for wide events and vector registers of 256 bits.
pub(crate) fn header() -> Vec<Record<'static>> {
    vec![
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 6 },
        Record::Comment(b"made here"),
        Record::Isa(1),
        Record::InstIem(2),
        Record::TraceInfo(TraceInfo { generator: 6, version: [1, 2, 3], comment: b"no tool" }),
        Record::TraceInfoFeature(0x8_0020),
        Record::ProcessIdExt([1, 2, 3]),
        Record::ForcePc(0x8000_0000),
        Record::VlenConfig(256),
        Record::IsaExtended(b"rv64gcv"),
        Record::EndHeader,
    ]
}

/// The group of one instruction. Together they contain every record of a group.
fn group(number: usize) -> Vec<Record<'static>> {
    const WORDS: [u8; 48] = [7; 48];
    let mut group = match number % 7 {
        0 => vec![Record::Comment(b"in the body"), Record::ProcessIdExt([4, 5, 6])],
        1 => vec![Record::InstPcTarget(0x8000_4000 + number as u64 * 64)],
        2 => vec![
            Record::InstReg(Register { number: 5, meta: 0x11, value: &WORDS[..8] }),
            Record::InstReg(Register { number: 7, meta: 0x33, value: &WORDS[..32] }),
            Record::InstReadyReg(3),
        ],
        3 => vec![
            Record::PageTableWalk(PageTableWalk { address: 0x1000, first_use: 1, page_size: 4096, entries: &WORDS }),
            Record::InstMemAccess(MemAccess { address: number as u64, size: 8, attributes: 0, kind: 1 }),
            Record::InstMemContent(number as u64),
        ],
        4 => vec![bus_write(0x20, 8, 0, 1), Record::BusMasterContent(number as u64)],
        5 => vec![
            Record::Event(Event { raw: 13, is_wide: true, data: &WORDS[..16] }),
            Record::EventPcTarget(0x9000_0000 + number as u64 * 4),
            Record::InstMicroop { size: 4, encoding: 0x13 },
        ],
        _ => vec![Record::ForcePc(0xa000_0000 + number as u64), Record::InstIem(2)],
    };
    let opcode = if number % 3 == 1 {
        Record::InstOpcode16(number as u16)
    } else {
        Record::InstOpcode32(0x13 | (number as u32) << 7)
    };
    group.push(opcode);
    group
}

/// A trace of instructions.
fn trace(instructions: usize) -> Vec<Record<'static>> {
    header().into_iter().chain((0..instructions).flat_map(group)).collect()
}

/// A trace of transactions.
fn transactions(count: u64) -> Vec<Record<'static>> {
    let mut trace = vec![
        Record::Identifier(*b"STF"),
        Record::Version { major: 1, minor: 5 },
        Record::TraceInfo(TraceInfo { generator: 14, version: [1, 0, 0], comment: b"" }),
        Record::TraceInfoFeature(0x10_0000),
        Record::ProtocolId(1),
        Record::ClockId { id: 1, name: b"clk" },
        Record::EndHeader,
    ];
    for id in 1..=count {
        trace.push(Record::TransactionDependency { id, cycles: 1, clock: 1 });
        let (metadata, data) = (&[1, 0xaa, 0xbb][..], &[5, 1, 2, 3, 4, 5, 6, 7, 8][..]);
        trace.push(Record::Transaction(Transaction { id, cycles: 2, clock: 1, count: 1, metadata, data }));
    }
    trace
}

pub(crate) fn options(chunk_markers: u64) -> WriteOptions {
    WriteOptions { threads: 1, level: None, chunk_markers }
}

/// The outcome of reading a file.
#[derive(Default)]
struct Outcome {
    /// The records, encoded again.
    bytes: Vec<u8>,
    /// Offset of each record.
    starts: Vec<usize>,
    error: Option<ReadError>,
    warnings: Vec<Warning>,
}

impl Outcome {
    fn of<R: Read>(reader: Result<Reader<R>, ReadError>) -> Self {
        let mut outcome = Self::default();
        let mut reader = match reader {
            Ok(reader) => reader,
            Err(error) => return Self { error: Some(error), ..outcome },
        };
        let result = reader.each(|position, record| {
            assert_eq!((position.record, position.offset), (outcome.starts.len() as u64, outcome.bytes.len() as u64));
            outcome.starts.push(outcome.bytes.len());
            record.encode(&mut outcome.bytes);
            ControlFlow::Continue(())
        });
        match result {
            Ok(has_more) => assert!(!has_more),
            Err(error) => {
                let position = (outcome.starts.len() as u64, outcome.bytes.len() as u64);
                assert_eq!((error.record, error.offset), position, "{error}");
                outcome.error = Some(error);
            }
        }
        outcome.warnings = reader.warnings().to_vec();
        outcome
    }

    fn text(&self) -> String {
        self.error.as_ref().map_or("no error".into(), ToString::to_string)
    }

    /// Asserts that everything was read, with these warnings.
    #[track_caller]
    fn assert_read(&self, expected: &[u8], warnings: &[Warning], name: &str) {
        assert!(self.error.is_none() && self.bytes == expected, "{name}: {}", self.text());
        assert_eq!(self.warnings, warnings, "{name}");
    }

    fn kind(&self) -> Option<&ReadErrorKind> {
        self.error.as_ref().map(|error| &error.kind)
    }
}

fn piped(file: &[u8], threads: usize) -> Outcome {
    Outcome::of(Reader::new(Cursor::new(file.to_vec()), ReadOptions { threads }))
}

fn sought(file: &[u8], threads: usize) -> Outcome {
    Outcome::of(Reader::seekable(Cursor::new(file.to_vec()), ReadOptions { threads }))
}

/// The outcomes of both ways to read a file.
fn both(file: &[u8], threads: usize) -> [(&'static str, Outcome); 2] {
    [("piped", piped(file, threads)), ("sought", sought(file, threads))]
}

/// An input that returns a few bytes at a time.
struct SlowInput(Cursor<Vec<u8>>, usize);

impl Read for SlowInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 % 5 + 1;
        if self.1 == 3 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let bytes = buffer.len().min(self.1);
        self.0.read(&mut buffer[..bytes])
    }
}

/// An input that fails at its end.
struct FailingInput(Cursor<Vec<u8>>);

impl Read for FailingInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::Error::other("the cable is out")),
            bytes => Ok(bytes),
        }
    }
}

/// A .zstf file, parsed independently of the code under test.
struct ZstfFile {
    markers: u64,
    end: usize,
    /// Offset of each chunk, its start PC in the index, and its records.
    chunks: Vec<(usize, u64, Vec<u8>)>,
}

impl ZstfFile {
    fn of(file: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        assert_eq!(&file[..4], b"ZSTF");
        let (markers, end) = (word(4), word(12) as usize);
        let count = word(end) as usize;
        assert_eq!(file.len(), end + 8 + 24 * count, "nothing after the index");
        let entry = |chunk: usize| [0, 8, 16].map(|field| word(end + 8 + 24 * chunk + field));
        let mut chunks = Vec::new();
        for chunk in 0..count {
            let [offset, pc, size] = entry(chunk);
            let next = if chunk + 1 < count { entry(chunk + 1)[0] as usize } else { end };
            let frame = &file[offset as usize..next];
            assert_eq!(&frame[..6], [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58], "no size, no check, a window of 2 MiB");
            assert_eq!(zstd::zstd_safe::find_frame_compressed_size(frame), Ok(frame.len()), "exactly one frame");
            let plain = zstd::stream::decode_all(frame).unwrap();
            assert_eq!(plain.len() as u64, size);
            chunks.push((offset as usize, pc, plain));
        }
        assert_eq!(chunks.first().map_or(end, |chunk| chunk.0), 20);
        Self { markers, end, chunks }
    }

    fn plain(&self) -> Vec<u8> {
        self.chunks.iter().flat_map(|(_, _, plain)| plain.clone()).collect()
    }
}

/// The markers of a trace: the end of each, and the next address.
fn markers(records: &[Record<'_>]) -> Vec<(usize, u64)> {
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    let (mut next, mut target) = (0_u64, None);
    for record in records {
        record.encode(&mut bytes);
        match record {
            Record::ForcePc(pc) => next = *pc,
            Record::InstPcTarget(pc) | Record::EventPcTarget(pc) => target = Some(*pc),
            Record::InstOpcode32(_) | Record::InstOpcode16(_) => {
                let length = if let Record::InstOpcode32(_) = record { 4 } else { 2 };
                next = target.take().unwrap_or(next + length);
                found.push((bytes.len(), next));
            }
            Record::Transaction(_) => found.push((bytes.len(), 0)),
            _ => {}
        }
    }
    found
}

#[test]
fn records_survive_every_storage() {
    for trace in [trace(0), trace(1), trace(100), transactions(20)] {
        let expected = encoded(&trace);
        for storage in Storage::ALL {
            for chunk_markers in [1, 3, 50, 100_000] {
                let file = written(&trace, storage, options(chunk_markers));
                for threads in [0, 1, 2, 5] {
                    let slow = SlowInput(Cursor::new(file.clone()), 0);
                    let slow = ("slow", Outcome::of(Reader::new(slow, ReadOptions { threads })));
                    for (how, outcome) in both(&file, threads).into_iter().chain([slow]) {
                        let name = format!("{storage}, {how}, chunks of {chunk_markers}, {threads} threads");
                        outcome.assert_read(&expected, &[], &name);
                    }
                }
                let reader = Reader::new(Cursor::new(file), ReadOptions::default()).unwrap();
                assert_eq!(reader.storage(), storage);
            }
        }
    }
}

#[test]
fn other_decompressors_read_the_files() {
    let trace = trace(200);
    let expected = encoded(&trace);
    let file = |container| written(&trace, container, options(10));
    assert!(file(Storage::PLAIN) == expected);
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&file(Storage::GZIP)[..]).read_to_end(&mut plain).unwrap();
    assert!(plain == expected, "gzip");
    plain.clear();
    liblzma::read::XzDecoder::new(&file(Storage::XZ)[..]).read_to_end(&mut plain).unwrap();
    assert!(plain == expected, "xz");
    assert!(zstd::stream::decode_all(&file(Storage::ZSTD)[..]).unwrap() == expected, "zstd");
}

#[test]
fn chunks_have_the_specified_contents() {
    let mut ends_otherwise = trace(12);
    ends_otherwise.push(Record::Comment(b"after the last instruction"));
    ends_otherwise.push(Record::ProcessIdExt([9, 9, 9]));
    let rows = [
        ("instructions", trace(12)),
        ("one", trace(1)),
        ("none", trace(0)),
        ("transactions", transactions(12)),
        ("records after the last instruction", ends_otherwise),
    ];
    for (name, trace) in rows {
        let (expected, all) = (encoded(&trace), markers(&trace));
        for size in [1, 2, 3, 5, 11, 12, 13, 100_000] {
            for threads in [1, 3] {
                let name = format!("{name} in chunks of {size}");
                let zstf = ZstfFile::of(&written(&trace, Storage::Zstf, WriteOptions { threads, ..options(size) }));
                assert_eq!(zstf.markers, size, "{name}");
                assert!(zstf.plain() == expected, "{name}");
                assert_eq!(zstf.chunks.len(), all.len().div_ceil(size as usize).max(1), "{name}");
                let (mut start, mut pc) = (0, 0);
                for (number, (_, found_pc, plain)) in zstf.chunks.iter().enumerate() {
                    assert_eq!(*found_pc, pc, "{name}: PC of chunk {number}");
                    let is_last = number + 1 == zstf.chunks.len();
                    let last = all.get((number + 1) * size as usize - 1);
                    let end = last.filter(|_| !is_last).map_or(expected.len(), |last| last.0);
                    assert!(*plain == expected[start..end], "{name}: chunk {number}");
                    (start, pc) = (end, last.map_or(0, |last| last.1));
                }
            }
        }
    }
}

#[test]
fn empty_traces_can_be_written() {
    for container in Storage::ALL {
        let file = written(&[], container, options(5));
        for (how, outcome) in both(&file, 2) {
            assert!(matches!(outcome.kind(), Some(ReadErrorKind::Empty)), "{container}, {how}: {}", outcome.text());
        }
    }
}

#[test]
fn zstf_cannot_be_written_to_a_pipe() {
    let error = Writer::new(Vec::new(), Storage::Zstf, options(5)).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    for container in [Storage::PLAIN, Storage::GZIP, Storage::XZ, Storage::ZSTD] {
        let mut writer = Writer::new(Vec::new(), container, options(5)).unwrap();
        writer.write(&encoded(&trace(9))).unwrap();
        assert!(piped(&writer.finish().unwrap(), 1).bytes == encoded(&trace(9)), "{container}");
    }
}

#[test]
fn file_may_start_at_any_offset() {
    let mut output = Cursor::new(b"before".to_vec());
    output.set_position(6);
    let mut writer = Writer::seekable(output, Storage::Zstf, options(3)).unwrap();
    writer.write(&encoded(&trace(10))).unwrap();
    let output = writer.finish().unwrap();
    assert_eq!(output.position(), output.get_ref().len() as u64);
    assert!(output.get_ref()[6..] == written(&trace(10), Storage::Zstf, options(3)));
}

#[test]
fn bytes_that_are_not_records_are_refused() {
    let mut writer = Writer::seekable(Cursor::new(Vec::new()), Storage::Zstf, options(3)).unwrap();
    writer.write(&[77; 100_000]).unwrap_err();
    Writer::seekable(Cursor::new(Vec::new()), Storage::Zstf, options(0)).err().unwrap();
}

#[test]
fn output_does_not_depend_on_threads_and_writes() {
    let trace = trace(20_000);
    let bytes = encoded(&trace);
    for container in Storage::ALL {
        let expected = written(&trace, container, options(700));
        for threads in [0, 2, 3, 8] {
            let file = written(&trace, container, WriteOptions { threads, ..options(700) });
            assert!(file == expected, "{container} with {threads} threads");
        }
        let mut writer = Writer::seekable(Cursor::new(Vec::new()), container, options(700)).unwrap();
        writer.write(&bytes).unwrap();
        assert!(writer.finish().unwrap().into_inner() == expected, "{container}, at once");
    }
}

#[test]
fn compression_level_has_an_effect() {
    let trace = trace(5000);
    for container in [Storage::GZIP, Storage::XZ, Storage::ZSTD, Storage::Zstf] {
        let sizes = [1, 9].map(|level| {
            let file = written(&trace, container, WriteOptions { level: Some(level), ..options(1000) });
            assert!(sought(&file, 1).bytes == encoded(&trace), "{container}");
            file.len()
        });
        assert_ne!(sizes[1], sizes[0], "{container}");
    }
}

#[test]
fn runs_contain_all_bytes() {
    let trace = trace(30_000);
    let expected = encoded(&trace);
    for container in Storage::ALL {
        let file = written(&trace, container, options(1000));
        let mut reader = Reader::seekable(Cursor::new(file), ReadOptions { threads: 2 }).unwrap();
        let mut bytes = Vec::new();
        let mut breaks = 0;
        loop {
            let has_more = reader.each_run(|position, run| {
                assert_eq!(position.offset, bytes.len() as u64);
                bytes.extend_from_slice(run);
                breaks += 1;
                if breaks % 3 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if !has_more.unwrap() {
                break;
            }
        }
        assert!(bytes == expected, "{container}");
        assert_eq!(reader.position().record, trace.len() as u64);
        assert_eq!(reader.warnings(), []);
    }
}

#[test]
fn compressed_streams_may_follow_each_other() {
    let bytes = encoded(&trace(60));
    let (first, second) = bytes.split_at(700);
    let pack = |container: Storage, bytes: &[u8]| {
        let mut writer = Writer::new(Vec::new(), container, options(1)).unwrap();
        writer.write(bytes).unwrap();
        writer.finish().unwrap()
    };
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let both = |container, between: &[u8]| [&pack(container, first)[..], between, &pack(container, second)].concat();
    let rows: &[(&str, Vec<u8>, bool, &str)] = &[
        ("two gzip", both(Storage::GZIP, b""), true, "no error"),
        ("two xz", both(Storage::XZ, &[0; 8]), true, "no error"),
        ("two zstd", both(Storage::ZSTD, &skippable), true, "no error"),
        ("odd padding", both(Storage::XZ, &[0; 3]), false, "continues"),
        ("garbage after gzip", [pack(Storage::GZIP, &bytes), b"x".to_vec()].concat(), true, "continues"),
        ("garbage after zstd", [pack(Storage::ZSTD, &bytes), b"x".to_vec()].concat(), true, "continues"),
        ("another gzip that is cut", [pack(Storage::GZIP, &bytes), vec![0x1f]].concat(), true, "ends before"),
    ];
    for (name, file, is_whole, text) in rows {
        for threads in [1, 2] {
            let outcome = piped(file, threads);
            assert!(outcome.text().contains(text), "{name}: {}", outcome.text());
            assert!(bytes.starts_with(&outcome.bytes), "{name}");
            assert_eq!(outcome.bytes == bytes, *is_whole, "{name}");
        }
    }
}

#[test]
fn reader_may_be_dropped_early() {
    let trace = trace(30_000);
    for container in Storage::ALL {
        let file = written(&trace, container, options(100));
        let mut reader = Reader::seekable(Cursor::new(file), ReadOptions { threads: 3 }).unwrap();
        assert!(reader.each(|_, _| ControlFlow::Break(())).unwrap());
    }
}

proptest! {
    #[test]
    fn any_records_survive(
        numbers in proptest::collection::vec(0_usize..10_000, 0..200),
        tail in 0_usize..3,
        container in 0_usize..5,
        chunk_markers in 1_u64..60,
        readers in 1_usize..4,
        writers in 1_usize..4,
    ) {
        let container = Storage::ALL[container];
        let mut trace: Vec<Record<'_>> = header().into_iter().chain(numbers.iter().flat_map(|number| group(*number))).collect();
        trace.extend([Record::Comment(b"tail"), Record::InstMemContent(1)].into_iter().take(tail));
        let file = written(&trace, container, WriteOptions { threads: writers, ..options(chunk_markers) });
        for (how, outcome) in both(&file, readers) {
            outcome.assert_read(&encoded(&trace), &[], how);
        }
        if container == Storage::Zstf {
            ZstfFile::of(&file);
        }
    }

    #[test]
    fn any_bytes_are_records_or_an_error(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        start in 0_usize..6,
    ) {
        let starts: [&[u8]; 6] = [
            &[],
            b"\x01STF\x02\x01\0\0\0\x06\0\0\0\x13",
            b"ZSTF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x28\xb5\x2f\xfd\0\x58",
            b"\x1f\x8b\x08\0",
            b"\xfd7zXZ\0\0\x04",
            b"\x28\xb5\x2f\xfd\0\x58",
        ];
        bytes.splice(..0, starts[start].iter().copied());
        let (one, two, three) = (piped(&bytes, 1), piped(&bytes, 2), sought(&bytes, 1));
        prop_assert_eq!(&one.bytes, &two.bytes);
        prop_assert_eq!(one.text(), two.text());
        prop_assert_eq!(&one.bytes, &three.bytes);
    }
}
