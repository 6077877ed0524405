//! The container of ASTF: records come back from every storage, and from a damaged file up to the damage.
//!
//! Expectations come from the plain decoders of liblzma and zlib, which are given the bytes after the header.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{self, Read, Write};

use liblzma::stream::{Action, LzmaOptions, Stream};
use proptest::prelude::*;
use unspool_astf::Bytes;
use unspool_astf::read::{Content, ReadError, ReadErrorKind, ReadOptions, Reader, Warning, records};
use unspool_astf::record::{Context, Header, Instruction, Level, Record, Storage};
use unspool_astf::write::{WriteOptions, Writer};
use unspool_container::{Container, Fault};
use unspool_testing::Random;

/// Kind of file: the storages of the writer, and the containers that only other tools write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Raw,
    Xz,
    Lzma,
    Zlib,
    Gzip,
}

const ALL: [Made; 5] = [Made::Raw, Made::Xz, Made::Lzma, Made::Zlib, Made::Gzip];

impl Made {
    fn storage(self) -> Storage {
        match self {
            Self::Raw => Storage::Raw,
            Self::Xz | Self::Lzma => Storage::Lzma,
            Self::Zlib | Self::Gzip => Storage::Zlib,
        }
    }

    fn header(self) -> Header {
        Header::new(Level::BasicPlus, false, self.storage())
    }

    fn file(self, records: &[Bytes]) -> Vec<u8> {
        let packed = match self {
            Self::Raw | Self::Xz | Self::Zlib => return written(&self.header(), records, options(1)),
            Self::Lzma => lzma(records.as_flattened()),
            Self::Gzip => gzip(records.as_flattened()),
        };
        [&self.header().to_bytes()[..], &packed].concat()
    }
}

/// Blocks are small, so that a few records fill several.
fn options(threads: usize) -> WriteOptions {
    WriteOptions { threads, level: 1, block_bytes: 1 << 10, in_patterns: false }
}

fn written(header: &Header, records: &[Bytes], options: WriteOptions) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), header, options).unwrap();
    let (first, second) = records.split_at(records.len() / 3);
    writer.write(first).unwrap();
    if let Some((third, rest)) = second.split_first() {
        writer.record(&Record::from_bytes(third)).unwrap();
        writer.write(rest).unwrap();
    }
    writer.finish().unwrap()
}

fn lzma(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Stream::new_lzma_encoder(&LzmaOptions::new_preset(1).unwrap()).unwrap();
    let mut packed = Vec::with_capacity(bytes.len() * 2 + 1000);
    stream.process_vec(bytes, &mut packed, Action::Finish).unwrap();
    packed
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A zlib stream of these bytes in independent blocks, and the last bytes in none.
fn in_blocks(blocks: &[&[u8]], last: &[u8], refers_back: bool) -> Vec<u8> {
    let nothing = [0, 0, 0, 0xff, 0xff];
    let mut compress = flate2::Compress::new(flate2::Compression::fast(), false);
    let mut packed = [&[0x78, 1][..], &nothing, &nothing].concat();
    for block in blocks {
        packed.reserve(2 * block.len() + 1000);
        if !refers_back {
            compress.reset();
        }
        compress.compress_vec(block, &mut packed, flate2::FlushCompress::Sync).unwrap();
        packed.extend_from_slice(&nothing);
    }
    packed.reserve(2 * last.len() + 1000);
    compress.compress_vec(last, &mut packed, flate2::FlushCompress::Finish).unwrap();
    let all = [&blocks.concat(), last].concat();
    packed.extend_from_slice(&zlib_rs::adler32::adler32(1, &all).to_be_bytes());
    packed
}

/// Output of a plain zlib decoder, and whether the stream is sound.
fn inflated(packed: &[u8]) -> (Vec<u8>, bool) {
    let (mut stream, mut bytes) = (flate2::Decompress::new(true), vec![0; 1 << 20]);
    loop {
        let (used, made) = (stream.total_in() as usize, stream.total_out() as usize);
        if made == bytes.len() {
            bytes.resize(2 * made, 0);
        }
        let status = stream.decompress(&packed[used..], &mut bytes[made..], flate2::FlushDecompress::None);
        let has_moved = used < stream.total_in() as usize || made < stream.total_out() as usize;
        if !has_moved || !matches!(status, Ok(flate2::Status::Ok)) {
            bytes.truncate(stream.total_out() as usize);
            return (bytes, matches!(status, Ok(flate2::Status::StreamEnd)));
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new().filename("trace").write(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Instructions of a loop with a moving address, and a few records of noise.
fn trace(count: usize) -> Vec<Bytes> {
    let mut numbers = Random::new(7);
    let mut next = move || numbers.bits();
    let record = |at: usize| {
        let noise = next();
        let is_read = noise & 3 == 0;
        match at {
            0 => Context { pid: 7, pid_valid: true, ..Context::default() }.to_bytes(),
            at if at % 11 == 0 => std::array::from_fn(|byte| (next() >> (byte % 8)) as u8),
            at => Instruction {
                iword: 0xd503_201f ^ (at as u32 % 8),
                pc: 0x40_0000 + at as u64 % 64 * 4,
                ea_valid: is_read,
                is_read,
                ea_size: 7,
                ea: if is_read { 0xffff_0000 + (noise >> 50) } else { 0 },
                ..Instruction::default()
            }
            .to_bytes(),
        }
    };
    (0..count).map(record).collect()
}

/// Records that were read, and the error that ended them.
struct Outcome {
    records: Vec<Bytes>,
    error: Option<ReadError>,
}

impl Outcome {
    fn of<R: Read>(reader: Result<Reader<R>, ReadError>) -> Self {
        let mut reader = match reader {
            Ok(reader) => reader,
            Err(error) => return Self { records: Vec::new(), error: Some(error) },
        };
        let mut records = Vec::new();
        loop {
            let first = records.len() as u64 + 2;
            match reader.next_records() {
                Ok([]) => return Self { records, error: None },
                Ok(batch) => records.extend_from_slice(batch),
                Err(error) => {
                    assert_eq!(error.record, first, "the record that is missing");
                    assert_eq!(reader.next_records().unwrap().len(), 0, "nothing after an error");
                    return Self { records, error: Some(error) };
                }
            }
            assert_eq!(reader.first(), first, "the number of a batch");
        }
    }

    fn kind(&self) -> Option<&ReadErrorKind> {
        self.error.as_ref().map(|error| &error.kind)
    }

    fn offset(&self) -> Option<u64> {
        self.error.as_ref().map(|error| error.offset)
    }

    fn text(&self) -> String {
        self.error.as_ref().map_or("no error".into(), ToString::to_string)
    }
}

fn read(file: &[u8]) -> Outcome {
    Outcome::of(Reader::in_place(file))
}

fn read_with(threads: usize, file: &[u8]) -> Outcome {
    Outcome::of(Reader::new(io::Cursor::new(file.to_vec()), ReadOptions { threads, ahead: true }))
}

/// One byte at a time, and now and then a read that was interrupted.
struct Drops<'f>(&'f [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(7) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let bytes = buffer.len().min(1);
        self.0.read(&mut buffer[..bytes])
    }
}

/// Ends in a failure.
struct Breaks(io::Cursor<Vec<u8>>);

impl Read for Breaks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("the cable was pulled")),
            bytes => Ok(bytes),
        }
    }
}

#[test]
fn every_storage_comes_back() {
    for made in ALL {
        for count in [0, 1, 31, 32, 33, 5000, 20_000] {
            let trace = trace(count);
            let file = made.file(&trace);
            for threads in [1, 2, 5] {
                let outcome = read_with(threads, &file);
                assert!(outcome.error.is_none(), "{made:?}, {count} records: {}", outcome.text());
                assert!(outcome.records == trace, "{made:?}, {count} records, {threads} threads");
            }
        }
    }
}

#[test]
fn plain_decoders_read_our_files() {
    let trace = trace(50_000);
    for block_bytes in [1 << 10, 100_000, 4 << 20] {
        let options = WriteOptions { block_bytes, ..options(2) };
        let mut plain = Vec::new();
        let file = written(&Made::Xz.header(), &trace, options);
        liblzma::read::XzDecoder::new(&file[32..]).read_to_end(&mut plain).unwrap();
        assert!(plain == trace.as_flattened(), "xz");

        plain.clear();
        let file = written(&Made::Zlib.header(), &trace, options);
        let mut decoder = flate2::bufread::ZlibDecoder::new(&file[32..]);
        decoder.read_to_end(&mut plain).unwrap();
        assert!(plain == trace.as_flattened(), "zlib");
        assert_eq!(decoder.into_inner(), b"", "nothing after the stream");
    }
}

#[test]
fn any_number_of_threads_writes_the_same() {
    // Enough for several independent blocks of zlib.
    let trace = trace(70_000);
    for made in [Made::Raw, Made::Xz, Made::Zlib] {
        for (level, block_bytes) in [(0, 1 << 16), (1, 1 << 20)] {
            let file = |threads| {
                written(&made.header(), &trace, WriteOptions { threads, level, block_bytes, in_patterns: false })
            };
            let expected = file(1);
            for threads in [0, 2, 3, 8] {
                assert!(file(threads) == expected, "{made:?} with {threads} threads, level {level}");
            }
        }
    }
}

#[test]
fn the_size_of_writes_makes_no_difference() {
    let trace = trace(9000);
    for made in [Made::Raw, Made::Xz, Made::Zlib] {
        let expected = made.file(&trace);
        for count in [1, 7, 2048, 4096] {
            let mut writer = Writer::new(Vec::new(), &made.header(), options(2)).unwrap();
            trace.chunks(count).for_each(|records| writer.write(records).unwrap());
            assert!(writer.finish().unwrap() == expected, "{made:?} {count} at a time");
        }
    }
}

#[test]
fn input_may_come_byte_by_byte() {
    let trace = trace(700);
    for made in ALL {
        let file = made.file(&trace);
        let outcome = Outcome::of(Reader::in_place(Drops(&file, 0)));
        assert!(outcome.error.is_none() && outcome.records == trace, "{made:?}: {}", outcome.text());
    }
}

#[test]
fn a_truncated_file_gives_the_records_before_its_end() {
    let trace = trace(80);
    for made in ALL {
        let file = made.file(&trace);
        let mut had = 0;
        for end in 0..file.len() {
            let outcome = read(&file[..end]);
            let name = format!("{made:?} cut to {end} of {} bytes: {}", file.len(), outcome.text());
            assert!(trace.starts_with(&outcome.records), "{name}");
            assert!(outcome.records.len() >= had, "{name}: fewer records than of a shorter file");
            had = outcome.records.len();
            match outcome.kind() {
                Some(ReadErrorKind::Empty) => assert_eq!(end, 0, "{name}"),
                Some(ReadErrorKind::CutShort { bytes }) => {
                    assert!(end < 32 || made == Made::Raw, "{name}");
                    assert_eq!((*bytes, outcome.offset()), (end % 32, Some((end - end % 32) as u64)), "{name}");
                }
                Some(ReadErrorKind::Compressed(Fault::CutShort)) => {
                    assert!(end >= 32 && made != Made::Raw, "{name}");
                    assert_eq!(outcome.offset(), Some(end as u64), "{name}");
                }
                None => assert!(made == Made::Raw && end % 32 == 0 && had == end / 32 - 1, "{name}"),
                Some(_) => panic!("{name}"),
            }
            for threads in [2, 3] {
                let other = read_with(threads, &file[..end]);
                assert_eq!(other.text(), outcome.text(), "{name}: with {threads} threads");
                assert!(other.records == outcome.records, "{name}: with {threads} threads");
            }
        }
        assert!(had > 70, "{made:?}: only {had} records before the last byte");
    }
}

#[test]
fn a_damaged_file_gives_the_records_before_the_damage() {
    let trace = trace(80);
    for made in ALL {
        let file = made.file(&trace);
        for at in 0..file.len() {
            let before = read(&file[..at]).records;
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                let outcome = read(&damaged);
                let name = format!("{made:?} with bit {bit} of byte {at} flipped: {}", outcome.text());
                if at >= 32 {
                    assert!(outcome.records.starts_with(&before), "{name}: what came before is gone");
                }
                if outcome.error.is_none() {
                    assert_eq!(outcome.records.len(), trace.len(), "{name}");
                    let is_checked = !matches!(made, Made::Raw | Made::Lzma);
                    assert!(!is_checked || outcome.records == trace, "{name}: not noticed");
                }
                if bit == at % 8 {
                    let other = read_with(3, &damaged);
                    assert!(other.records == outcome.records, "{name}: with 3 threads {}", other.text());
                    assert_eq!(other.error.is_none(), outcome.error.is_none(), "{name}: with 3 threads");
                }
            }
        }
    }
}

/// Offsets of the ends of the independent blocks, and of the start.
fn block_ends(file: &[u8]) -> Vec<usize> {
    let mark = [0, 0, 0xff, 0xff, 0, 0, 0, 0xff, 0xff];
    memchr::memmem::find_iter(file, &mark).map(|at| at + mark.len()).collect()
}

/// At these offsets. At others, codes are accepted that a plain decoder refuses, and the check value at the end
/// differs.
#[test]
fn damaged_blocks_give_what_a_plain_decoder_gives() {
    let trace = trace(42_000);
    let file = Made::Zlib.file(&trace);
    let ends = block_ends(&file);
    assert_eq!(ends.len(), 1 + 3, "the start and three blocks");
    let around = ends.iter().flat_map(|end| end - 9..end + 3);
    let positions = (32..file.len()).step_by(file.len() / 20).chain(around).chain(file.len() - 8..file.len());
    for at in positions {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        for file in [&damaged, &file[..at]] {
            let (bytes, is_sound) = inflated(&file[32..]);
            let expected = records(&bytes).0;
            for threads in [1, 3] {
                let outcome = read_with(threads, file);
                let name = format!("byte {at} of {}, {threads} threads: {}", file.len(), outcome.text());
                assert_eq!(outcome.error.is_none(), is_sound, "{name}");
                let is_refused = at < 34 && outcome.records.is_empty();
                assert!(outcome.records == expected || is_refused, "{name}: {}", outcome.records.len());
                assert!(outcome.offset().is_none_or(|offset| offset <= file.len() as u64), "{name}");
            }
        }
    }
}

/// A last block that is not compressed, has a mark in it and ends at some distance after it. What the reader appends to
/// a block must not be taken for a part of it.
#[test]
fn a_block_that_spans_a_mark_is_not_independent() {
    let start = in_blocks(&[], b"", false)[..12].to_vec();
    let data = [7; 55];
    let mark = [0, 0, 0xff, 0xff, 0, 0, 0, 0xff, 0xff];
    for padding in 0..300_usize {
        let content = [&data[..], &mark, &vec![9; padding]].concat();
        let length = content.len() as u16;
        let block = [&[1], &length.to_le_bytes()[..], &(!length).to_le_bytes(), &content].concat();
        let sum = zlib_rs::adler32::adler32(1, &content).to_be_bytes();
        for packed in
            [[&start[..], &block, &sum].concat(), [&start[..], &block[..5 + 64], &[3, 0, 0, 0, 0, 0]].concat()]
        {
            let (bytes, is_sound) = inflated(&packed);
            let outcome = read(&[&Made::Zlib.header().to_bytes()[..], &packed].concat());
            assert!(outcome.records == records(&bytes).0, "{padding}: {}", outcome.text());
            let is_whole = bytes.len().is_multiple_of(32);
            assert_eq!(outcome.error.is_none(), is_sound && is_whole, "{padding}: {}", outcome.text());
        }
    }
}

/// A pipe whose other end has written this many bytes, and waits until they are read.
struct Waits {
    file: io::Cursor<Vec<u8>>,
    written: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Read for Waits {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let written = self.written.load(std::sync::atomic::Ordering::SeqCst);
        let there = written - self.file.position() as usize;
        assert!(there > 0 || written == self.file.get_ref().len(), "this would wait forever");
        let bytes = buffer.len().min(there).min(50_000);
        self.file.read(&mut buffer[..bytes])
    }
}

#[test]
fn a_block_is_read_before_the_next_arrives() {
    let trace = trace(42_000);
    let file = Made::Zlib.file(&trace);
    let ends = block_ends(&file);
    for threads in [1, 2, 3] {
        let written = std::sync::Arc::new(ends[1].into());
        let input = Waits { file: io::Cursor::new(file.clone()), written: std::sync::Arc::clone(&written) };
        let mut reader = Reader::new(input, ReadOptions { threads, ahead: false }).unwrap();
        let mut found = reader.next_records().unwrap().to_vec();
        assert_eq!(found.len(), 16_384);
        written.store(file.len(), std::sync::atomic::Ordering::SeqCst);
        while let records @ [_, ..] = reader.next_records().unwrap() {
            found.extend_from_slice(records);
        }
        assert!(found == trace);
    }
}

#[test]
fn a_block_may_be_of_any_length() {
    let trace = trace(300_000);
    let bytes = trace.as_flattened();
    let file = [&Made::Zlib.header().to_bytes()[..], &in_blocks(&[&bytes[..3200], bytes], b"", false)].concat();
    for threads in [1, 2] {
        let outcome = read_with(threads, &file);
        assert!(outcome.error.is_none(), "{}", outcome.text());
        assert!(outcome.records[..100] == trace[..100] && outcome.records[100..] == trace);
    }
}

#[test]
fn failing_inputs_give_the_records_before_the_failure() {
    let trace = trace(3000);
    for made in ALL {
        let file = made.file(&trace);
        for end in [0, 5, 32, 33, 40, 100, file.len() / 2, file.len() - 1, file.len()] {
            let cut = read(&file[..end]);
            for threads in [1, 2] {
                let input = Breaks(io::Cursor::new(file[..end].to_vec()));
                let outcome = Outcome::of(Reader::new(input, ReadOptions { threads, ahead: true }));
                let name = format!("{made:?} breaks at {end} with {threads} threads: {}", outcome.text());
                assert!(matches!(outcome.kind(), Some(ReadErrorKind::Io(_))), "{name}");
                assert_eq!(outcome.offset(), Some(end as u64), "{name}");
                assert!(outcome.records == cut.records, "{name}");
            }
        }
    }
}

#[test]
fn headers_are_checked() {
    let header = Header::new(Level::Basic, false, Storage::Raw);
    let file = |header: &Header| header.to_bytes().to_vec();
    let rows: &[(&str, Vec<u8>, &str)] = &[
        ("nothing", vec![], "byte 0x0, record 1: the file is empty"),
        (
            "not ASTF",
            b"PK\x03\x04 and more than enough for a record".to_vec(),
            "byte 0x0, record 1: not an ASTF file: it starts with \"PK\\x03\\x04\"",
        ),
        (
            "a short file that is not ASTF",
            b"AS!".to_vec(),
            "byte 0x0, record 1: not an ASTF file: it starts with \"AS!\\x00\"",
        ),
        (
            "a short header",
            b"ASTF\0\x0b".to_vec(),
            "byte 0x0, record 1: the last record is cut short: it has 6 of its 32 bytes",
        ),
        (
            "another major version",
            file(&Header { version_major: 1, ..header }),
            "byte 0x0, record 1: version 1 of the format is not known, only version 0",
        ),
        ("a header only", file(&header), "no error"),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(read(bytes).text(), *expected, "{name}");
    }

    let rows: &[(&str, Header, &[Warning])] = &[
        ("this version", header, &[]),
        ("the version before", Header { version_minor: 10, ..header }, &[]),
        ("a newer version", Header { version_minor: 12, ..header }, &[Warning::NewerMinor(12)]),
        ("an old version", Header { version_minor: 9, ..header }, &[Warning::OlderMinor(9)]),
        ("zlib, not compressed", Header { use_zlib: true, ..header }, &[Warning::ZlibUncompressed]),
        ("unknown flags", Header { reserved62: 1, ..header }, &[Warning::FormatFlags(4)]),
    ];
    for (name, header, expected) in rows {
        let bytes = file(header);
        let reader = Reader::in_place(&bytes[..]).unwrap();
        assert_eq!(reader.warnings(), *expected, "{name}");
        assert_eq!(reader.header(), header, "{name}");
    }
}

#[test]
fn wrong_storage_in_the_header_is_reported() {
    let trace = trace(40);
    let content = [
        (Made::Raw, Content::Records),
        (Made::Xz, Content::Compressed(Container::Xz)),
        (Made::Lzma, Content::Compressed(Container::Lzma)),
        (Made::Zlib, Content::Compressed(Container::Zlib)),
        (Made::Gzip, Content::Compressed(Container::Gzip)),
    ];
    for (made, looks) in content {
        let mut file = made.file(&trace);
        for storage in [Storage::Raw, Storage::Lzma, Storage::Zlib] {
            if storage == made.storage() {
                continue;
            }
            file[..32].copy_from_slice(&made.header().stored(storage).to_bytes());
            let outcome = read(&file);
            let Some(ReadErrorKind::WrongStorage { header, found }) = outcome.kind() else {
                panic!("{made:?} as {storage:?}: {}", outcome.text())
            };
            assert_eq!((*header, *found, outcome.offset()), (storage, looks, Some(32)), "{made:?} as {storage:?}");
        }
    }
    let garbage = [&Made::Xz.header().to_bytes()[..], &[0xee; 64]].concat();
    let expected = "byte 0x20, record 2: the header declares the records compressed with LZMA, but what follows is nothing of the kind";
    assert_eq!(read(&garbage).text(), expected);
}

#[test]
fn records_that_look_like_a_container_are_records() {
    // These have the sizes of an .lzma header, or the check of a zlib header, where others have their fields.
    let rows: &[(&str, Bytes)] = &[
        (
            "a vector length of 256 bits and a small process",
            Context { evl: 1, pid: 7, ..Context::default() }.to_bytes(),
        ),
        ("an instruction near zero", Instruction { iword: 0x20, pc: 0x1000, ..Instruction::default() }.to_bytes()),
        (
            "reserved bits",
            Context { reserved5a: 3, pstate_sm: true, pstate_ssbs: true, ..Context::default() }.to_bytes(),
        ),
    ];
    for (name, record) in rows {
        for made in ALL {
            let outcome = read(&made.file(&[*record]));
            assert!(outcome.error.is_none() && outcome.records == [*record], "{name}, {made:?}: {}", outcome.text());
        }
    }
}

#[test]
fn data_after_compressed_records_is_read_or_reported() {
    let trace = trace(60);
    let (first, second) = trace.split_at(25);
    let [first, second] = [first, second].map(<[Bytes]>::as_flattened);
    // A record may be spread over two containers.
    let (cut, rest) = trace.as_flattened().split_at(1000);
    let rows: &[(&str, Made, Vec<u8>, usize, &str)] = &[
        ("two .xz", Made::Xz, [xz(first), xz(second)].concat(), 60, ""),
        ("two .xz that share a record", Made::Xz, [xz(cut), xz(rest)].concat(), 60, ""),
        ("padding between .xz", Made::Xz, [xz(first), vec![0; 4], xz(second), vec![0; 400_000]].concat(), 60, ""),
        ("empty .xz between", Made::Xz, [xz(first), xz(b""), xz(b""), xz(second)].concat(), 60, ""),
        ("odd padding", Made::Xz, [xz(first), vec![0; 3], xz(second)].concat(), 25, "continues"),
        ("odd padding at the end", Made::Xz, [xz(first), vec![0; 3]].concat(), 25, "continues"),
        ("garbage after .xz", Made::Xz, [xz(first), b"x".to_vec()].concat(), 25, "continues"),
        ("another .xz that is cut", Made::Xz, [xz(first), xz(second)[..5].to_vec()].concat(), 25, "ends before"),
        ("gzip after .xz", Made::Xz, [xz(first), gzip(second)].concat(), 25, "continues"),
        ("garbage after .lzma", Made::Lzma, [lzma(first), b"x".to_vec()].concat(), 25, "continues"),
        ("two .lzma", Made::Lzma, [lzma(first), lzma(second)].concat(), 25, "continues"),
        ("two zlib", Made::Zlib, [zlib(first), zlib(second)].concat(), 25, "continues"),
        ("zeros after zlib", Made::Zlib, [zlib(first), vec![0]].concat(), 25, "continues"),
        ("two gzip", Made::Gzip, [gzip(first), gzip(second)].concat(), 60, ""),
        ("garbage after gzip", Made::Gzip, [gzip(first), vec![0; 4]].concat(), 25, "continues"),
        ("another gzip that is cut", Made::Gzip, [gzip(first), vec![0x1f]].concat(), 25, "ends before"),
        ("a record that is cut, in .xz", Made::Xz, xz(&first[..790]), 24, "22 of its 32 bytes"),
        ("a record that is cut, in zlib", Made::Zlib, zlib(&first[..790]), 24, "22 of its 32 bytes"),
        ("blocks", Made::Zlib, in_blocks(&[first, b"", second], b"", false), 60, ""),
        ("blocks that refer back", Made::Zlib, in_blocks(&[first, second], b"", true), 60, ""),
        ("blocks that share a record", Made::Zlib, in_blocks(&[cut, rest], b"", false), 60, ""),
        ("no blocks", Made::Zlib, in_blocks(&[], b"", false), 0, ""),
        (
            "a record that is cut, in a block",
            Made::Zlib,
            in_blocks(&[&first[..790]], b"", false),
            24,
            "22 of its 32 bytes",
        ),
        ("two in blocks", Made::Zlib, in_blocks(&[first], b"", false).repeat(2), 25, "continues"),
        ("the last not in a block", Made::Zlib, in_blocks(&[first], second, false), 60, ""),
        ("the same, referring back", Made::Zlib, in_blocks(&[first], second, true), 60, ""),
        ("a mark after the last", Made::Zlib, in_blocks(&[], first, false).repeat(2), 25, "continues"),
        ("a mark after zlib", Made::Zlib, [zlib(first), in_blocks(&[second], b"", false)].concat(), 25, "continues"),
    ];
    for (name, made, packed, count, expected) in rows {
        let file = [&made.header().to_bytes()[..], packed].concat();
        for threads in [1, 2] {
            let outcome = read_with(threads, &file);
            assert_eq!(outcome.records.len(), *count, "{name}, {threads} threads: {}", outcome.text());
            assert!(trace.starts_with(&outcome.records), "{name}");
            assert_eq!(outcome.error.is_none(), expected.is_empty(), "{name}: {}", outcome.text());
            assert!(expected.is_empty() || outcome.text().contains(expected), "{name}: {}", outcome.text());
        }
    }
}

#[test]
fn a_dictionary_that_is_too_large_is_refused() {
    // An .lzma header that asks for 2 GiB.
    let mut packed = lzma(trace(10).as_flattened());
    packed[1..5].copy_from_slice(&(2_u32 << 30).to_le_bytes());
    let file = [&Made::Lzma.header().to_bytes()[..], &packed].concat();
    assert!(read(&file).text().ends_with("decompressing needs more than the 512 MiB of memory that are allowed"));
}

#[test]
fn records_in_memory_are_not_copied() {
    let bytes = [7; 70];
    let (whole, rest) = records(&bytes);
    assert_eq!((whole.as_ptr().cast(), whole.len(), rest.len()), (bytes.as_ptr(), 2, 6));
}

#[test]
fn a_reader_may_be_dropped_early() {
    let trace = trace(100_000);
    for made in ALL {
        let file = made.file(&trace);
        let mut reader = Reader::new(io::Cursor::new(file), ReadOptions { threads: 3, ahead: true }).unwrap();
        assert!(!reader.next_records().unwrap().is_empty());
    }
}

proptest! {
    #[test]
    fn any_records_come_back(mut trace: Vec<Bytes>, made in 0_usize..5, readers in 1_usize..4, writers in 1_usize..4, level in 0_u32..10) {
        let made = ALL[made];
        // A record of an unknown type may look like the start of any container; a known one does not.
        if let Some(first) = trace.first_mut() {
            first[0] = 1;
        }
        let file = match made {
            Made::Raw | Made::Xz | Made::Zlib => written(&made.header(), &trace, WriteOptions { level, ..options(writers) }),
            Made::Lzma | Made::Gzip => made.file(&trace),
        };
        let outcome = read_with(readers, &file);
        prop_assert!(outcome.error.is_none(), "{}", outcome.text());
        prop_assert_eq!(outcome.records, trace);
    }

    #[test]
    fn any_bytes_are_records_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), storage in 0_u8..4, start in 0_usize..5) {
        let starts: [&[u8]; 5] = [&[], b"\xfd7zXZ\0\0\x04", b"\x78\x9c", b"\x1f\x8b\x08\0", b"\x5d\0\0\x10\0\xff\xff\xff\xff\xff\xff\xff\xff"];
        bytes.splice(..0, starts[start].iter().copied());
        let mut header = Made::Raw.header().to_bytes();
        header[8] = storage;
        let file = [&header[..], &bytes].concat();
        let (one, two) = (read(&file), read_with(2, &file));
        prop_assert_eq!(one.records, two.records);
    }
}
