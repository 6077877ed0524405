//! Reading a file: its header is checked, what follows is decompressed, and records come out in batches.
//!
//! ```text
//! input ─▶ header ─▶ decompressor (raw, .xz, .lzma, zlib, gzip) ─▶ batches of records
//!                      └── with several threads this runs ahead of the caller, and in blocks
//! ```
//!
//! Records are not interpreted here. A damaged file yields every record before the damage, then the error, with the
//! offset in the file and the number of the record that is missing. The input may be a pipe; memory stays constant.
//! Specification: Arm Architectural Structured Trace Format, issue 0.11.

pub(crate) mod batch;
mod content;
mod error;
mod unpack;

use std::io::{self, Read};
use std::ops::ControlFlow;

use unspool_container::{Input, ReadAhead};

use self::batch::{Batch, End};
pub use self::content::Content;
use self::error::LocatedKind;
pub use self::error::{ReadError, ReadErrorKind};
use self::unpack::Unpacker;
use super::layout::Bytes;
use super::record::{Header, HeaderView, RECORD_BYTES, Storage};

/// Options of a [`Reader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadOptions {
    /// Number of threads that decompress. With one, everything happens in the thread of the caller; with more, the
    /// blocks of an .xz file, or the independent blocks of a zlib stream as they are written here, are decompressed in
    /// parallel.
    pub threads: usize,
    /// With more threads than one, decompression runs ahead of the caller, even if by one thread.
    pub ahead: bool,
}

impl Default for ReadOptions {
    /// As many threads as there are processors, ahead.
    fn default() -> Self {
        Self { threads: std::thread::available_parallelism().map_or(1, usize::from), ahead: true }
    }
}

/// The records in memory, and the bytes of one that is cut short. Nothing is copied.
pub fn records(bytes: &[u8]) -> (&[Bytes], &[u8]) {
    bytes.as_chunks()
}

/// Reads the records of a file in batches.
pub struct Reader<R> {
    header: Header,
    warnings: Vec<Warning>,
    source: Source<R>,
    batch: Batch,
    first: u64,
}

impl<R: Read + Send + 'static> Reader<R> {
    /// Reads and checks the header.
    pub fn new(input: R, options: ReadOptions) -> Result<Self, ReadError> {
        let (header, unpacker) = open(input, options.threads)?;
        let runs_ahead = options.ahead && options.threads > 1 && header.storage() != Storage::Raw;
        let source = if runs_ahead {
            Source::Ahead(run_ahead(unpacker).map_err(|error| LocatedKind::new(error.into(), 32).of_record(2))?)
        } else {
            Source::Here(Box::new(unpacker))
        };
        Ok(Self::with(header, source))
    }
}

impl<R: Read> Reader<R> {
    /// The same in the thread of the caller only, so that the input may be borrowed.
    pub fn in_place(input: R) -> Result<Self, ReadError> {
        let (header, unpacker) = open(input, 1)?;
        Ok(Self::with(header, Source::Here(Box::new(unpacker))))
    }

    fn with(header: Header, source: Source<R>) -> Self {
        Self { header, warnings: warnings(&header), source, batch: Batch::new(), first: FIRST }
    }

    /// The header as the file has it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Warnings about the header.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The next records after the header, as many as are ready; none at the end, nor after an error.
    pub fn next_records(&mut self) -> Result<&[Bytes], ReadError> {
        self.first += self.batch.whole as u64;
        self.batch.whole = 0;
        if self.batch.end.is_none() {
            match &mut self.source {
                Source::Here(unpacker) => unpacker.fill(&mut self.batch),
                Source::Ahead(ahead) => {
                    if let Err(error) = ahead.swap(&mut self.batch) {
                        self.batch.end = Some(End::Fault(LocatedKind::new(error.into(), 0)));
                    }
                    if self.batch.end.is_some() {
                        ahead.join();
                    }
                }
            }
        }
        if self.batch.whole == 0
            && let Some(End::Fault(fault)) = self.batch.end.replace(End::Clean)
        {
            return Err(fault.of_record(self.first));
        }
        Ok(&self.batch.records[..self.batch.whole])
    }

    /// The batch at hand.
    pub fn records(&self) -> &[Bytes] {
        &self.batch.records[..self.batch.whole]
    }

    /// Offset in the file of the batch at hand, if [`resume_input`] can start there: the records are not compressed, or in
    /// independent blocks.
    pub fn offset(&self) -> Option<u64> {
        self.batch.offset
    }

    /// The number of the first record of the batch at hand. The header is number 1, so this starts with 2.
    pub fn first(&self) -> u64 {
        self.first
    }
}

/// An unusual header, though the file can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Records may have types and fields that are not known here.
    #[error("version 0.{0} is newer than 0.11: records may be of unknown types")]
    NewerMinor(u8),
    /// There is no public document of this version.
    #[error("version 0.{0} is older than any that is described: fields may have another meaning")]
    OlderMinor(u8),
    /// zlib is named, but nothing is compressed.
    #[error("the header names zlib, but also declares that nothing is compressed")]
    ZlibUncompressed,
    /// The records may be stored in a way that is not known here.
    #[error("the header has unknown format flags {0:#x}: the records may be stored in an unknown way")]
    FormatFlags(u64),
}

/// An input that is a file from an offset of [`Reader::offset`] on: as if the file had nothing before it.
///
/// # Errors
///
/// If there is no such offset, or the file cannot be read.
pub fn resume_input<R: Read + io::Seek>(header: &Header, mut file: R, offset: u64) -> io::Result<impl Read + use<R>> {
    file.seek(io::SeekFrom::Start(offset))?;
    let mut start = header.to_bytes().to_vec();
    if header.storage() == Storage::Zlib {
        start.extend_from_slice(&crate::deflate::ZLIB_START);
    }
    Ok(io::Cursor::new(start).chain(file))
}

/// Number of the first record after the header.
const FIRST: u64 = 2;

enum Source<R> {
    Here(Box<Unpacker<R>>),
    Ahead(ReadAhead<Batch>),
}

fn run_ahead<R: Read + Send + 'static>(mut unpacker: Unpacker<R>) -> io::Result<ReadAhead<Batch>> {
    ReadAhead::new("astf unpack", Batch::new, move |batch| {
        unpacker.fill(batch);
        if batch.end.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

fn open<R: Read>(input: R, threads: usize) -> Result<(Header, Unpacker<R>), ReadError> {
    let mut input = Input::new(input);
    let header = header(&mut input).map_err(|fault| fault.of_record(1))?;
    let unpacker = Unpacker::new(input, header.storage(), threads).map_err(|fault| fault.of_record(FIRST))?;
    Ok((header, unpacker))
}

fn header<R: Read>(input: &mut Input<R>) -> Result<Header, LocatedKind> {
    let found = input.peek(RECORD_BYTES);
    let magic: [u8; 4] = std::array::from_fn(|at| found.get(at).copied().unwrap_or(0));
    let is_astf = b"ASTF".starts_with(&found[..found.len().min(4)]);
    let header = found.first_chunk().map(|bytes| HeaderView::new(bytes).get());
    let bytes = found.len();
    let kind = match header {
        None if bytes == 0 => ReadErrorKind::Empty,
        _ if !is_astf => ReadErrorKind::NotAstf { found: magic },
        None => ReadErrorKind::CutShort { bytes },
        Some(header) if header.version_major > Header::VERSION.0 => ReadErrorKind::NewerMajor(header.version_major),
        Some(header) => {
            input.consume(RECORD_BYTES);
            return Ok(header);
        }
    };
    // What could not be read explains what is missing.
    let end = input.held().len() as u64;
    Err(input.failure().map_or(LocatedKind::new(kind, 0), |error| LocatedKind::new(error.into(), end)))
}

fn warnings(header: &Header) -> Vec<Warning> {
    let minor = header.version_minor;
    let all = [
        (minor > Header::VERSION.1, Warning::NewerMinor(minor)),
        (minor < OLDEST_MINOR, Warning::OlderMinor(minor)),
        (header.use_zlib && !header.compressed, Warning::ZlibUncompressed),
        (header.reserved62 != 0, Warning::FormatFlags(header.reserved62 << 2)),
    ];
    all.into_iter().filter_map(|(applies, warning)| applies.then_some(warning)).collect()
}

/// The oldest version that anything is known about.
const OLDEST_MINOR: u8 = 10;
