//! STF containers: what is written comes back, whatever it is stored in; damage is told, and nothing before it is lost.

use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;

use proptest::prelude::*;
use unspool_stf::lift::Follower;
use unspool_stf::read::{ReadError, ReadErrorKind, ReadOptions, Reader, Storage, Warning};
use unspool_stf::record::{BusAccess, Event, MemAccess, PageTableWalk, Record, Register, TraceInfo, Transaction};
use unspool_stf::write::{WriteOptions, Writer};

/// A header with all records that a header can have, for wide events and vector registers of 256 bits.
fn header() -> Vec<Record<'static>> {
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

/// The group of one instruction; every record that a group can have is in some of them.
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
        4 => vec![
            Record::BusMasterAccess(BusAccess {
                address: 0x20,
                size: 8,
                initiator: 3,
                index: 0,
                attributes: 1,
                kind: 2,
            }),
            Record::BusMasterContent(number as u64),
        ],
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

/// A trace of so many instructions.
fn trace(instructions: usize) -> Vec<Record<'static>> {
    header().into_iter().chain((0..instructions).flat_map(group)).collect()
}

/// A trace of so many transactions.
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

fn encoded(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

fn options(chunk_markers: u64) -> WriteOptions {
    WriteOptions { threads: 1, level: None, chunk_markers }
}

fn written(records: &[Record<'_>], container: Storage, options: WriteOptions) -> Vec<u8> {
    let mut writer = Writer::seekable(Cursor::new(Vec::new()), container, options).unwrap();
    records.iter().for_each(|record| writer.record(record).unwrap());
    writer.finish().unwrap().into_inner()
}

/// What became of reading a file.
struct Outcome {
    /// The records that came, encoded again.
    bytes: Vec<u8>,
    /// How many bytes before each.
    starts: Vec<usize>,
    error: Option<ReadError>,
    warnings: Vec<Warning>,
}

impl Outcome {
    fn of<R: Read>(reader: Result<Reader<R>, ReadError>) -> Self {
        let mut outcome = Self { bytes: Vec::new(), starts: Vec::new(), error: None, warnings: Vec::new() };
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

/// Hands out a few bytes at a time.
struct Drops(Cursor<Vec<u8>>, usize);

impl Read for Drops {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 % 5 + 1;
        if self.1 == 3 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let bytes = buffer.len().min(self.1);
        self.0.read(&mut buffer[..bytes])
    }
}

/// Fails where the bytes end.
struct Breaks(Cursor<Vec<u8>>);

impl Read for Breaks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::Error::other("the cable is out")),
            bytes => Ok(bytes),
        }
    }
}

/// A .zstf file, taken apart by the rules that are written down, with nothing of what is tested here.
struct Apart {
    markers: u64,
    end: usize,
    /// Where each chunk is, its start PC by the index, and what it holds.
    chunks: Vec<(usize, u64, Vec<u8>)>,
}

impl Apart {
    fn of(file: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        assert_eq!(&file[..4], b"ZSTF");
        let (markers, end) = (word(4), word(12) as usize);
        let count = word(end) as usize;
        assert_eq!(file.len(), end + 8 + 24 * count, "nothing behind the index");
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

/// The markers of a trace: where each ends, and where execution goes on behind it.
fn markers(records: &[Record<'_>]) -> Vec<(usize, u64)> {
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    let (mut next, mut target) = (0_u64, None);
    for record in records {
        record.encode(&mut bytes);
        let length = match record {
            Record::ForcePc(pc) => {
                next = *pc;
                continue;
            }
            Record::InstPcTarget(pc) | Record::EventPcTarget(pc) => {
                target = Some(*pc);
                continue;
            }
            Record::InstOpcode32(_) => 4,
            Record::InstOpcode16(_) => 2,
            Record::Transaction(_) => {
                found.push((bytes.len(), 0));
                continue;
            }
            _ => continue,
        };
        next = target.take().unwrap_or(next + length);
        found.push((bytes.len(), next));
    }
    found
}

#[test]
fn everything_comes_back_from_every_container() {
    for trace in [trace(0), trace(1), trace(100), transactions(20)] {
        let expected = encoded(&trace);
        for container in Storage::ALL {
            for chunk_markers in [1, 3, 50, 100_000] {
                let file = written(&trace, container, options(chunk_markers));
                for threads in [0, 1, 2, 5] {
                    let drops = Drops(Cursor::new(file.clone()), 0);
                    let all = [
                        ("piped", piped(&file, threads)),
                        ("sought", sought(&file, threads)),
                        ("in drops", Outcome::of(Reader::new(drops, ReadOptions { threads }))),
                    ];
                    for (how, outcome) in all {
                        let name = format!("{container}, {how}, chunks of {chunk_markers}, {threads} threads");
                        assert!(outcome.error.is_none(), "{name}: {}", outcome.text());
                        assert!(outcome.bytes == expected, "{name}");
                        assert_eq!(outcome.warnings, [], "{name}");
                    }
                }
                let reader = Reader::new(Cursor::new(file), ReadOptions::default()).unwrap();
                assert_eq!(reader.storage(), container);
            }
        }
    }
}

#[test]
fn others_can_read_what_we_write() {
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
fn chunks_are_as_the_rules_say() {
    let mut ends_otherwise = trace(12);
    ends_otherwise.push(Record::Comment(b"behind the last instruction"));
    ends_otherwise.push(Record::ProcessIdExt([9, 9, 9]));
    let rows = [
        ("instructions", trace(12)),
        ("one", trace(1)),
        ("none", trace(0)),
        ("transactions", transactions(12)),
        ("records behind the last instruction", ends_otherwise),
    ];
    for (name, trace) in rows {
        let (expected, all) = (encoded(&trace), markers(&trace));
        for size in [1, 2, 3, 5, 11, 12, 13, 100_000] {
            for threads in [1, 3] {
                let name = format!("{name} in chunks of {size}");
                let apart = Apart::of(&written(&trace, Storage::Zstf, WriteOptions { threads, ..options(size) }));
                assert_eq!(apart.markers, size, "{name}");
                assert!(apart.plain() == expected, "{name}");
                assert_eq!(apart.chunks.len(), all.len().div_ceil(size as usize).max(1), "{name}");
                let (mut start, mut pc) = (0, 0);
                for (number, (_, found_pc, plain)) in apart.chunks.iter().enumerate() {
                    assert_eq!(*found_pc, pc, "{name}: PC of chunk {number}");
                    let is_last = number + 1 == apart.chunks.len();
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
fn nothing_at_all_can_be_written() {
    for container in Storage::ALL {
        let file = written(&[], container, options(5));
        let outcome = piped(&file, 1);
        assert!(matches!(outcome.kind(), Some(ReadErrorKind::Empty)), "{container}: {}", outcome.text());
        assert!(matches!(sought(&file, 2).kind(), Some(ReadErrorKind::Empty)), "{container}");
    }
}

#[test]
fn a_pipe_cannot_be_patched() {
    let error = Writer::new(Vec::new(), Storage::Zstf, options(5)).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    for container in [Storage::PLAIN, Storage::GZIP, Storage::XZ, Storage::ZSTD] {
        let mut writer = Writer::new(Vec::new(), container, options(5)).unwrap();
        writer.write(&encoded(&trace(9))).unwrap();
        assert!(piped(&writer.finish().unwrap(), 1).bytes == encoded(&trace(9)), "{container}");
    }
}

#[test]
fn a_file_may_start_anywhere() {
    let mut output = Cursor::new(b"before".to_vec());
    output.set_position(6);
    let mut writer = Writer::seekable(output, Storage::Zstf, options(3)).unwrap();
    writer.write(&encoded(&trace(10))).unwrap();
    let output = writer.finish().unwrap();
    assert_eq!(output.position(), output.get_ref().len() as u64);
    assert!(output.get_ref()[6..] == written(&trace(10), Storage::Zstf, options(3)));
}

#[test]
fn only_records_become_chunks() {
    let mut writer = Writer::seekable(Cursor::new(Vec::new()), Storage::Zstf, options(3)).unwrap();
    writer.write(&[77; 100_000]).unwrap_err();
    Writer::seekable(Cursor::new(Vec::new()), Storage::Zstf, options(0)).err().unwrap();
}

#[test]
fn any_number_of_threads_and_any_pieces_write_the_same() {
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
fn levels_are_followed() {
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
fn runs_are_all_the_bytes() {
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
fn a_file_that_is_cut_gives_what_it_has() {
    let trace = trace(25);
    let expected = encoded(&trace);
    for container in Storage::ALL {
        let file = written(&trace, container, options(4));
        let apart = (container == Storage::Zstf).then(|| Apart::of(&file));
        let mut had = 0;
        for end in 0..file.len() {
            let outcome = piped(&file[..end], 1);
            let name = format!("{container} cut to {end} of {} bytes: {}", file.len(), outcome.text());
            assert!(expected.starts_with(&outcome.bytes), "{name}");
            assert!(outcome.bytes.len() >= had, "{name}: less than of a shorter file");
            had = outcome.bytes.len();
            let is_told = outcome.error.is_some() || !outcome.warnings.is_empty();
            let is_record = container == Storage::PLAIN && outcome.bytes.len() == end;
            assert!(is_told || is_record, "{name}");
            if let Some(apart) = &apart {
                let whole = apart
                    .chunks
                    .iter()
                    .enumerate()
                    .take_while(|(number, _)| apart.chunks.get(number + 1).map_or(apart.end, |next| next.0) <= end);
                let length: usize = whole.map(|(_, chunk)| chunk.2.len()).sum();
                assert!(outcome.bytes.len() >= length, "{name}: a whole chunk is missing");
                assert_eq!(outcome.error.is_none(), end >= apart.end, "{name}");
            }
            for threads in [1, 2, 3] {
                for (how, other) in [("piped", piped(&file[..end], threads)), ("sought", sought(&file[..end], threads))]
                {
                    assert!(other.bytes == outcome.bytes, "{name}: {how} with {threads} threads {}", other.text());
                    assert_eq!(other.text(), outcome.text(), "{name}: {how} with {threads} threads");
                }
            }
        }
        let least = if container == Storage::GZIP || container == Storage::XZ { 0 } else { expected.len() * 4 / 5 };
        assert!(had >= least, "{container}: only {had} bytes before the last one");
    }
}

#[test]
fn a_file_that_is_damaged_gives_what_is_before_the_damage() {
    let trace = trace(25);
    let expected = encoded(&trace);
    for container in Storage::ALL {
        let file = written(&trace, container, options(4));
        let apart = (container == Storage::Zstf).then(|| Apart::of(&file));
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                let outcome = sought(&damaged, 1);
                let name = format!("{container} with bit {bit} of byte {at} flipped: {}", outcome.text());
                match &apart {
                    _ if at < container.magic().len() => {}
                    None if container == Storage::PLAIN => {
                        let same = outcome.bytes.iter().zip(&expected).take_while(|(a, b)| a == b).count();
                        let is_version = matches!(outcome.kind(), Some(ReadErrorKind::Version { .. }));
                        let is_whole = outcome.starts.iter().chain([&outcome.bytes.len()]).any(|start| *start == same);
                        assert!(is_version || same >= at || is_whole, "{name}");
                    }
                    // What was changed shows at the next check value.
                    None => assert!(outcome.error.is_some() || outcome.bytes == expected, "{name}: not noticed"),
                    Some(apart) => flipped_zstf(apart, &expected, at, &outcome, &name),
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

/// A byte of a .zstf file was changed.
fn flipped_zstf(apart: &Apart, expected: &[u8], at: usize, outcome: &Outcome, name: &str) {
    let is_told = outcome.error.is_some() || !outcome.warnings.is_empty();
    match at {
        // How many markers a chunk has.
        4..12 => assert!(is_told && (outcome.bytes == expected || outcome.bytes.is_empty()), "{name}"),
        // Where the index is.
        12..20 => assert!(is_told && outcome.bytes == expected, "{name}"),
        // The index: nobody looks at the PC but who goes to a chunk.
        _ if at >= apart.end => {
            let is_pc = at >= apart.end + 8 && (at - apart.end - 8) % 24 / 8 == 1;
            assert!(outcome.bytes == expected && (is_told || is_pc), "{name}");
        }
        _ => {
            let before = apart.chunks.iter().take_while(|chunk| chunk.0 <= at).count() - 1;
            let length: usize = apart.chunks[..before].iter().map(|chunk| chunk.2.len()).sum();
            assert!(outcome.bytes.starts_with(&expected[..length]), "{name}: a chunk before is gone");
            if let Some(ReadErrorKind::Chunk { chunk, .. }) = outcome.kind() {
                assert!(*chunk >= before as u64, "{name}");
            }
        }
    }
}

#[test]
fn failing_inputs_give_what_came_before() {
    let trace = trace(3000);
    for container in Storage::ALL {
        let file = written(&trace, container, options(100));
        for end in [0, 5, 20, 33, 100, file.len() / 2, file.len() - 1, file.len()] {
            let cut = piped(&file[..end], 1);
            for threads in [1, 2] {
                let outcome =
                    Outcome::of(Reader::new(Breaks(Cursor::new(file[..end].to_vec())), ReadOptions { threads }));
                let name = format!("{container} breaks at {end} with {threads} threads: {}", outcome.text());
                assert!(outcome.text().ends_with("the cable is out"), "{name}");
                assert!(outcome.bytes == cut.bytes, "{name}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let trace = trace(11);
    let expected = encoded(&trace);
    let file = written(&trace, Storage::Zstf, options(3));
    let apart = Apart::of(&file);
    let end = apart.end;
    let patched = |patches: &[(usize, u64)]| {
        let mut file = file.clone();
        for (at, word) in patches {
            file[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        file
    };
    let sizes: Vec<u64> = apart.chunks.iter().map(|chunk| chunk.2.len() as u64).collect();
    let damaged = |why: &'static str| vec![Warning::DamagedIndex(why)];
    let wrong_markers = |expected: u64| {
        let found = [3, 3, 3, 2].into_iter().enumerate();
        let found = found.filter(|(chunk, found)| *found > expected || *chunk < 3);
        found.map(|(chunk, found)| Warning::WrongMarkers { chunk: chunk as u64, found, expected }).collect::<Vec<_>>()
    };
    let wrong_size = |index| vec![Warning::WrongSize { chunk: 1, index, found: sizes[1] }];
    let size_of_second = end + 8 + 24 + 16;
    // The second chunk as two frames.
    let halves = apart.chunks[1].2.split_at(20);
    let two: Vec<u8> = [halves.0, halves.1].iter().flat_map(|half| zstd::encode_all(*half, 3).unwrap()).collect();
    let second = apart.chunks[1].0..apart.chunks[2].0;
    let longer = two.len() as u64 - second.len() as u64;
    let mut several = patched(&[
        (12, end as u64 + longer),
        (end + 8 + 48, second.end as u64 + longer),
        (end + 8 + 72, apart.chunks[3].0 as u64 + longer),
    ]);
    several.splice(second, two);
    // What is told where the file is sought, and where it is piped.
    type Row = (&'static str, Vec<u8>, Vec<Warning>, Vec<Warning>);
    let rows: Vec<Row> = vec![
        ("nothing", file.clone(), vec![], vec![]),
        ("no index", patched(&[(12, 0)]), vec![Warning::Unfinished], vec![Warning::Unfinished]),
        (
            "too many chunks",
            patched(&[(end, 5)]),
            damaged("it is cut short"),
            damaged("it has another number of chunks than the file"),
        ),
        (
            "absurdly many chunks",
            patched(&[(end, u64::MAX)]),
            damaged("it is cut short"),
            damaged("it has another number of chunks than the file"),
        ),
        (
            "chunks out of order",
            patched(&[(end + 8 + 24, 21 + apart.chunks[2].0 as u64)]),
            damaged("its chunks are not where chunks can be"),
            damaged("a chunk is elsewhere"),
        ),
        (
            "a chunk beyond",
            patched(&[(end + 8 + 72, u64::MAX - 1)]),
            damaged("its chunks are not where chunks can be"),
            damaged("a chunk is elsewhere"),
        ),
        (
            "a chunk within another",
            patched(&[(end + 8 + 24, 25)]),
            damaged("a chunk is elsewhere"),
            damaged("a chunk is elsewhere"),
        ),
        ("fewer instructions", patched(&[(4, 4)]), wrong_markers(4), wrong_markers(4)),
        ("more instructions", patched(&[(4, 2)]), wrong_markers(2), wrong_markers(2)),
        ("a size too small", patched(&[(size_of_second, 7)]), wrong_size(7), wrong_size(7)),
        ("a size too large", patched(&[(size_of_second, 1 << 20)]), wrong_size(1 << 20), wrong_size(1 << 20)),
        ("an absurd size", patched(&[(size_of_second, u64::MAX)]), wrong_size(u64::MAX), wrong_size(u64::MAX)),
        (
            "more behind",
            [&file[..], b"more"].concat(),
            vec![Warning::Trailing { at: file.len() as u64 }],
            vec![Warning::Trailing { at: file.len() as u64 }],
        ),
    ];
    for (name, file, by_index, by_frames) in rows {
        for threads in [1, 2] {
            let outcome = sought(&file, threads);
            assert!(outcome.error.is_none() && outcome.bytes == expected, "{name}, sought: {}", outcome.text());
            assert_eq!(outcome.warnings, by_index, "{name}, sought");
            let outcome = piped(&file, threads);
            assert!(outcome.error.is_none() && outcome.bytes == expected, "{name}, piped: {}", outcome.text());
            assert_eq!(outcome.warnings, by_frames, "{name}, piped");
        }
    }
    let outcome = sought(&several, 2);
    assert!(outcome.error.is_none() && outcome.bytes == expected, "{}", outcome.text());
    assert_eq!(outcome.warnings[..1], [Warning::SeveralFrames { chunk: 1, frames: 2 }]);
    assert_eq!(outcome.warnings.len(), 1);
    let outcome = piped(&several, 1);
    assert!(outcome.bytes == expected && !outcome.warnings.is_empty());

    // The index should be behind the end of the file, so something is missing.
    let outcome = sought(&patched(&[(12, 1 << 40)]), 1);
    assert!(outcome.bytes == expected, "{}", outcome.text());
    assert_eq!(outcome.warnings, damaged("it should start after the end of the file"));
    assert!(matches!(outcome.kind(), Some(ReadErrorKind::NoChunk { chunk: 4, .. })));
    let texts = [
        (
            "more instructions",
            patched(&[(4, 2)]),
            "chunk 0 has 3 instructions where the file says 2: the reference library loses the last 1 of them without a word",
        ),
        (
            "fewer instructions",
            patched(&[(4, 4)]),
            "chunk 0 has 3 instructions where the file says 4: the reference library reads beyond its end",
        ),
        ("a size too small", patched(&[(size_of_second, 7)]), "the reference library loses the rest without a word"),
    ];
    for (name, file, text) in texts {
        assert!(sought(&file, 1).warnings[0].to_string().ends_with(text), "{name}: {}", sought(&file, 1).warnings[0]);
    }
    let outcome = sought(&patched(&[(4, 0)]), 1);
    assert_eq!(
        outcome.text(),
        "record 0 at 0x0: byte 0x4 of the file: the header declares chunks without instructions"
    );
}

#[test]
fn headers_are_judged() {
    let version = |major, minor| {
        let mut records = trace(2);
        records[1] = Record::Version { major, minor };
        encoded(&records)
    };
    let without_version: Vec<Record<'_>> =
        trace(2).into_iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, record)| record).collect();
    let refused = |version: &str| {
        format!("record 1 at 0x4: version {version} of the format is not known, only 1.2 and later of 1")
    };
    let none: &[Warning] = &[];
    let rows: Vec<(&str, Vec<u8>, String, &[Warning])> = vec![
        ("nothing", vec![], "record 0 at 0x0: the file is empty".into(), none),
        (
            "another format",
            b"PK\x03\x04 and more".to_vec(),
            "record 0 at 0x0: this is no STF trace: it starts with [50, 4b, 03, 04]".into(),
            none,
        ),
        (
            "a script",
            b"#!/bin/sh\necho".to_vec(),
            "record 0 at 0x0: this is no STF trace: it starts with [23, 21, 2f, 62]".into(),
            none,
        ),
        (
            "another format, compressed",
            zstd::encode_all(&b"PK\x03\x04"[..], 1).unwrap(),
            "record 0 at 0x0: this is no STF trace: it starts with [50, 4b, 03, 04]".into(),
            none,
        ),
        ("version 1.0", version(1, 0), refused("1.0"), none),
        ("version 1.1", version(1, 1), refused("1.1"), none),
        ("version 2.0", version(2, 0), refused("2.0"), none),
        ("version 0.9", version(0, 9), refused("0.9"), none),
        ("version 1.2", version(1, 2), "no error".into(), none),
        ("version 1.9", version(1, 9), "no error".into(), &[Warning::NewerMinor(9)]),
        ("no version", encoded(&without_version), "no error".into(), &[Warning::NoVersion]),
        (
            "only the magic number",
            b"\x01STF".to_vec(),
            "record 1 at 0x4: the trace ends within its header".into(),
            none,
        ),
        ("not even that", b"\x01ST".to_vec(), "record 0 at 0x0: the trace ends within a record".into(), none),
        ("the end mark at the end", [encoded(&trace(2)), vec![255]].concat(), "no error".into(), none),
    ];
    for (name, file, text, warnings) in rows {
        for threads in [1, 2] {
            for outcome in [piped(&file, threads), sought(&file, threads)] {
                assert_eq!(outcome.text(), text, "{name}");
                assert_eq!(outcome.warnings, warnings, "{name}");
            }
        }
    }
    let behind_end = [encoded(&trace(2)), vec![255], encoded(&group(0))].concat();
    let outcome = piped(&behind_end, 1);
    assert!(outcome.text().ends_with("the trace says that it ends before this, but it goes on"), "{}", outcome.text());
    assert!(outcome.bytes == behind_end[..encoded(&trace(2)).len() + 1]);
}

#[test]
fn containers_may_follow_each_other() {
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
        ("garbage behind gzip", [pack(Storage::GZIP, &bytes), b"x".to_vec()].concat(), true, "continues"),
        ("garbage behind zstd", [pack(Storage::ZSTD, &bytes), b"x".to_vec()].concat(), true, "continues"),
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
fn instructions_can_be_gone_to() {
    let trace = trace(50);
    let all = instructions(&mut Reader::plain(&encoded(&trace)[..]), &mut Follower::default());
    assert_eq!(all.len(), 50);
    for container in Storage::ALL {
        for chunk_markers in [1, 7, 10, 50, 100] {
            let file = written(&trace, container, options(chunk_markers));
            for threads in [1, 2] {
                for before in 0..=50 {
                    let name = format!("{container}, chunks of {chunk_markers}, {threads} threads, to {before}");
                    let mut reader = Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads }).unwrap();
                    let mut follower = Follower::default();
                    assert!(reader.seek_instruction(before as u64, &mut follower).unwrap(), "{name}");
                    assert_eq!(instructions(&mut reader, &mut follower), all[before..], "{name}");
                    let back = reader.seek_instruction(3, &mut follower);
                    if container == Storage::Zstf {
                        assert!(back.unwrap(), "{name}");
                        assert_eq!(instructions(&mut reader, &mut follower), all[3..], "{name}, and back");
                    } else {
                        assert!(matches!(back.unwrap_err().kind, ReadErrorKind::Backward(3)), "{name}");
                    }
                }
                let mut reader = Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads }).unwrap();
                assert!(!reader.seek_instruction(51, &mut Follower::default()).unwrap(), "there is none");
            }
        }
    }
}

#[test]
fn instructions_can_be_gone_to_without_a_right_index() {
    let trace = trace(50);
    let all = instructions(&mut Reader::plain(&encoded(&trace)[..]), &mut Follower::default());
    let file = written(&trace, Storage::Zstf, options(5));
    for (name, at, byte) in [("other numbers", 4, 6), ("no index", 12, 0)] {
        let mut file = file.clone();
        file[at] = byte;
        file[13] = if at == 12 { 0 } else { file[13] };
        for before in [0, 4, 23, 49] {
            let mut reader = Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads: 2 }).unwrap();
            let mut follower = Follower::default();
            assert!(reader.seek_instruction(before, &mut follower).unwrap(), "{name}");
            assert_eq!(instructions(&mut reader, &mut follower), all[before as usize..], "{name}, to {before}");
        }
    }
}

/// Number, place, address and opcode of all that are left.
fn instructions<R: Read>(reader: &mut Reader<R>, follower: &mut Follower) -> Vec<(u64, u64, u64, u32)> {
    let mut all = Vec::new();
    let take = |instruction: &unspool_stf::lift::Instruction<'_>| {
        all.push((instruction.number, instruction.position.offset, instruction.pc, instruction.opcode));
        ControlFlow::Continue(())
    };
    assert!(!reader.each_instruction(follower, take).unwrap());
    all
}

#[test]
fn large_chunks_and_large_records() {
    // More than a piece, in one chunk; and a record that is longer than many chunks.
    let long = vec![b'x'; 9 << 20];
    let mut large = trace(200_000);
    large.insert(3, Record::Comment(&long));
    large.insert(5000, Record::Comment(&long));
    let expected = encoded(&large);
    for chunk_markers in [1000, 1_000_000] {
        let file = written(&large, Storage::Zstf, options(chunk_markers));
        for threads in [1, 2] {
            for (how, outcome) in [("piped", piped(&file, threads)), ("sought", sought(&file, threads))] {
                assert!(outcome.error.is_none() && outcome.bytes == expected, "{how}, {threads}: {}", outcome.text());
                assert_eq!(outcome.warnings, [], "{how}, {threads}");
            }
        }
    }
}

#[test]
fn chunks_that_are_not_held_in_memory() {
    // What looks random stays as long as it is, so the second of three chunks has more than 32 MiB.
    let mut state = 1_u64;
    let random = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let noise: Vec<u8> = (0..17 << 20).map(random).collect();
    let mut trace = trace(25);
    let position = trace.iter().position(|record| matches!(record, Record::ForcePc(0xa000_000d))).unwrap();
    trace.splice(position..position, [Record::Comment(&noise), Record::Comment(&noise)]);
    let expected = encoded(&trace);
    let file = written(&trace, Storage::Zstf, WriteOptions { level: Some(1), ..options(10) });
    let apart = Apart::of(&file);
    let sizes: Vec<usize> =
        (0..3).map(|at| apart.chunks.get(at + 1).map_or(apart.end, |next| next.0) - apart.chunks[at].0).collect();
    assert!(sizes[1] > 32 << 20 && sizes[0] < 1000 && sizes[2] < 1000, "{sizes:?}");
    let all = instructions(&mut Reader::plain(&expected[..]), &mut Follower::default());
    for threads in [1, 2] {
        for (how, outcome) in [("piped", piped(&file, threads)), ("sought", sought(&file, threads))] {
            assert!(outcome.error.is_none() && outcome.bytes == expected, "{how}, {threads}: {}", outcome.text());
            assert_eq!(outcome.warnings, [], "{how}, {threads}");
        }
        let open = || Reader::seekable(Cursor::new(file.clone()), ReadOptions { threads }).unwrap();
        let (mut reader, mut follower) = (open(), Follower::default());
        assert_eq!(instructions(&mut reader, &mut follower), all);
        for before in [24, 12, 3, 19] {
            assert!(reader.seek_instruction(before, &mut follower).unwrap());
            assert_eq!(instructions(&mut reader, &mut follower), all[before as usize..], "{before}, {threads} threads");
        }
        let mut stats = unspool_stf::stats::Stats::default();
        assert!(!open().gather(&mut Follower::default(), &mut stats).unwrap());
        assert_eq!((stats.counts.opcodes, stats.counts.comments), (25, 6), "{threads} threads");
        // Damage in the midst of it.
        let mut file = file.clone();
        let at = apart.chunks[1].0 + (33 << 20);
        file.truncate(at);
        for outcome in [piped(&file, threads), sought(&file, threads)] {
            assert!(outcome.text().contains("chunk 1, byte 0x"), "{}", outcome.text());
            assert!(expected.starts_with(&outcome.bytes) && outcome.bytes.len() > 17 << 20, "{threads} threads");
        }
    }
}

#[test]
fn a_reader_may_be_left() {
    let trace = trace(30_000);
    for container in Storage::ALL {
        let file = written(&trace, container, options(100));
        let mut reader = Reader::seekable(Cursor::new(file), ReadOptions { threads: 3 }).unwrap();
        assert!(reader.each(|_, _| ControlFlow::Break(())).unwrap());
    }
}

proptest! {
    #[test]
    fn any_records_come_back(
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
        for outcome in [piped(&file, readers), sought(&file, readers)] {
            prop_assert!(outcome.error.is_none(), "{}", outcome.text());
            prop_assert_eq!(&outcome.bytes, &encoded(&trace));
            prop_assert_eq!(&outcome.warnings, &[]);
        }
        if container == Storage::Zstf {
            Apart::of(&file);
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
