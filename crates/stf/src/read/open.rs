//! Opening a file: its storage, and a check that it is a readable trace.

use std::io::{self, Cursor, Read, Seek};

use unspool_container::{Decompressor, Input, MaybeSeek, ReadAheadBytes};

use super::super::zstf::chunks::Chunks;
use super::{Layout, Malformed, ReadError, ReadErrorKind, Reader, Source, Storage, WINDOW, Warning, descriptor};
use crate::Record;

/// Newest known version.
const NEWEST_MINOR: u32 = 6;

/// Oldest readable version: before it, descriptors had other numbers.
const OLDEST_MINOR: u32 = 2;

/// Options for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadOptions {
    /// Number of threads that decompress. With one, everything happens in the caller's thread; with more, decompression
    /// runs ahead of it, and chunks of a .zstf file and blocks of an .xz file are decompressed in parallel.
    pub threads: usize,
}

impl Default for ReadOptions {
    /// One thread per processor.
    fn default() -> Self {
        Self { threads: std::thread::available_parallelism().map_or(1, usize::from) }
    }
}

type Boxed = Box<dyn Read + Send>;

impl Reader<Boxed> {
    /// Opens a trace from a pipe or any other input.
    pub fn new<R: Read + Send + 'static>(mut input: R, options: ReadOptions) -> Result<Self, ReadError> {
        let first = first(&mut input).map_err(input_error)?;
        let storage = recognize(&first)?;
        let input: Boxed = Box::new(Cursor::new(first).chain(input));
        let source = match storage {
            Storage::PLAIN => Source::Bytes(input),
            _ => decompress(MaybeSeek::Pipe(input), storage, options)?,
        };
        open(source, storage)
    }

    /// Opens a file from its start. With the index of a .zstf file, the reader can seek to instructions.
    pub fn seekable<R: Read + Seek + Send + 'static>(mut input: R, options: ReadOptions) -> Result<Self, ReadError> {
        input.rewind().map_err(input_error)?;
        let first = first(&mut input).map_err(input_error)?;
        let storage = recognize(&first)?;
        input.rewind().map_err(input_error)?;
        let source = match storage {
            Storage::PLAIN => Source::Bytes(Box::new(input) as Boxed),
            _ => decompress(MaybeSeek::File(Box::new(input)), storage, options)?,
        };
        open(source, storage)
    }
}

/// The first bytes; fewer at the end of the input. An input that fails after them will fail again.
fn first(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    match input.by_ref().take(Storage::PEEK as u64).read_to_end(&mut first) {
        Err(error) if first.is_empty() => Err(error),
        _ => Ok(first),
    }
}

fn recognize(first: &[u8]) -> Result<Storage, ReadError> {
    Storage::of(first).ok_or_else(|| at_start(if first.is_empty() { ReadErrorKind::Empty } else { not_stf(first) }))
}

fn decompress(input: MaybeSeek, storage: Storage, options: ReadOptions) -> Result<Source<Boxed>, ReadError> {
    let (input, threads) = (Input::new(input), options.threads);
    let container = match storage {
        Storage::Zstf => return Ok(Source::Chunks(Box::new(Chunks::new(input, threads).map_err(at_start)?))),
        Storage::Stream(container) => container,
    };
    let bytes = Decompressor::new(input, container, threads).map_err(|damage| at_start(damage.into()))?;
    Ok(Source::Bytes(match threads {
        0 | 1 => Box::new(bytes),
        _ => Box::new(ReadAheadBytes::new("stf read", bytes).map_err(input_error)?),
    }))
}

fn open(source: Source<Boxed>, storage: Storage) -> Result<Reader<Boxed>, ReadError> {
    let window = if let Source::Chunks(_) = source { 0 } else { WINDOW };
    let mut reader = Reader::with(source, storage, window);
    reader.peek_header()?;
    Ok(reader)
}

impl<R: Read> Reader<R> {
    /// Parses the header without consuming it, and checks its version and its end.
    fn peek_header(&mut self) -> Result<(), ReadError> {
        let (mut layout, mut number, mut at) = (Layout::default(), 0, 0);
        loop {
            let bytes = &self.window[self.start + at..self.end];
            let (record, length) = match Record::parse(bytes, &layout) {
                Ok(parsed) => parsed,
                Err(Malformed::Truncated) if !self.at_end => {
                    self.fill()?;
                    continue;
                }
                Err(error) => return self.unfinished(error, number),
            };
            layout.follow(&record);
            let is_end = record.descriptor() >= descriptor::END_HEADER;
            let checked = check(number, &record);
            match record {
                Record::TraceInfoFeature(features) => self.features = Some(features),
                Record::Isa(isa) => self.isa = Some(isa),
                _ => {}
            }
            (number, at) = (number + 1, at + length);
            match checked {
                Ok(warning) => warning.into_iter().for_each(|warning| self.warn(warning)),
                Err(kind) => return Err(ReadError { offset: at as u64 - length as u64, record: number - 1, kind }),
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// The comments of the header, each with its record number, if the header was parsed and nothing was consumed yet.
    /// Searched in the window on demand: an additional field slows down the iteration over instructions by a quarter.
    pub fn comments(&self) -> Vec<(u64, Vec<u8>)> {
        let (mut layout, mut comments) = (Layout::default(), Vec::new());
        let mut rest = if self.next.record == 0 { &self.window[self.start..self.end] } else { &[] };
        for number in 0.. {
            let Ok((record, length)) = Record::parse(rest, &layout) else { break };
            match record {
                Record::Comment(text) => comments.push((number, text.to_vec())),
                _ if record.descriptor() >= descriptor::END_HEADER => break,
                _ => layout.follow(&record),
            }
            rest = &rest[length..];
        }
        comments
    }

    /// Handles a header without an end. Reading it will report that, unless it does not even start.
    fn unfinished(&mut self, error: Malformed, number: u64) -> Result<(), ReadError> {
        let found = &self.window[self.start..self.end];
        self.is_header_only = error == Malformed::Truncated;
        match (number, found, self.failed.is_some()) {
            (0, [], false) => Err(at_start(ReadErrorKind::Empty)),
            (0, [first, ..], _) if *first != descriptor::IDENTIFIER => Err(at_start(not_stf(found))),
            _ => Ok(()),
        }
    }
}

/// Checks a record of the header.
fn check(number: u64, record: &Record<'_>) -> Result<Option<Warning>, ReadErrorKind> {
    match (number, record) {
        (0, Record::Identifier([b'S', b'T', b'F'])) => Ok(None),
        (0, record) => {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            Err(not_stf(&bytes))
        }
        (_, Record::Version { major, minor }) => match (*major, *minor) {
            (1, OLDEST_MINOR..=NEWEST_MINOR) => Ok(None),
            (1, minor) if minor > NEWEST_MINOR => Ok(Some(Warning::NewerMinor(minor))),
            (major, minor) => Err(ReadErrorKind::Version { major, minor }),
        },
        (1, _) => Ok(Some(Warning::NoVersion)),
        _ => Ok(None),
    }
}

fn not_stf(start: &[u8]) -> ReadErrorKind {
    ReadErrorKind::NotStf(std::array::from_fn(|at| start.get(at).copied().unwrap_or(0)))
}

fn at_start(kind: ReadErrorKind) -> ReadError {
    ReadError { offset: 0, record: 0, kind }
}

fn input_error(error: io::Error) -> ReadError {
    at_start(error.into())
}
