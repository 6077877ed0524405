//! Lines out of a file or a pipe, compressed or not.
//!
//! ```text
//! file ─▶ container, by its first bytes ─▶ bytes ─▶ lines ─▶ records
//! ```
//!
//! Lines tile the uncompressed bytes: each has its line number and offset, and what is between its last byte and the
//! offset of the next is its end (`\n`, `\r\n`, or nothing at the end of the file). Everything before a failure to read
//! is delivered first.

use std::io::{self, Read};
use std::ops::ControlFlow;

use memchr::{memchr, memchr_iter, memrchr};
use unspool_container::{Container, Damage, Decompressor, Failure, Input};

use super::dialect::Dialect;
pub use super::lines::lines;
use super::lines::without_return;
use super::parse::{ParseOptions, Parser};
use super::record::{Line, Problem, ProblemKind, Record, Stamp};

/// Maximum bytes of a line; longer ones are split.
pub const LONGEST: usize = 1 << 20;

/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// Bytes that are examined to detect the dialect; more if they are a banner, without a line of a log.
const START: usize = 64 << 10;
const BANNER: usize = 1 << 20;

/// Position of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Its number; the first is 1.
    pub line: u64,
    /// The offset of its first byte, uncompressed.
    pub offset: u64,
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
#[error("byte {offset:#x} of the log: {kind}")]
pub struct ReadError {
    /// The offset in the uncompressed log: the number of bytes that could be read.
    pub offset: u64,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The compressed data is at fault.
    #[error(transparent)]
    Compressed(#[from] Damage),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Failure> for ReadErrorKind {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Damage(damage) => Self::Compressed(damage),
            Failure::Io { error, .. } => Self::Io(error),
        }
    }
}

/// How to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// How lines are understood. Thumb is implied where the detected dialect implies it.
    pub parse: ParseOptions,
}

/// Reads a log from its start to its end.
pub struct Reader<R> {
    input: Decompressor<R>,
    dialect: Dialect,
    is_lowered: bool,
    parser: Parser,
    /// Bytes that were read; those from `start` to `end` were not delivered.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of `start`.
    position: Position,
    /// The start of the current line was delivered: it is too long.
    is_within_line: bool,
    is_at_end: bool,
    failed: Option<ReadErrorKind>,
}

impl<R: Read> Reader<R> {
    /// Opens a log, and detects its dialect.
    pub fn new(input: R, options: ReadOptions) -> Result<Self, ReadError> {
        let mut reader = Self {
            input: decompress(input).map_err(|kind| ReadError { offset: 0, kind })?,
            dialect: Dialect::Other,
            is_lowered: false,
            parser: Parser::new(options.parse),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            position: Position { line: 1, offset: 0 },
            is_within_line: false,
            is_at_end: false,
            failed: None,
        };
        while reader.end < START && reader.fill() {}
        if reader.end == 0 {
            reader.failure()?;
        }
        if reader.has_only_a_banner() {
            while reader.end < BANNER && reader.fill() {}
        }
        let start = &reader.buffer[..reader.end];
        (reader.dialect, reader.is_lowered) = (Dialect::detect(start), Dialect::of_lowered(start).is_some());
        let implicit_thumb = options.parse.implicit_thumb || reader.dialect.has_implicit_thumb();
        reader.parser = Parser::new(ParseOptions { implicit_thumb });
        Ok(reader)
    }

    /// Whether no line that is buffered belongs to a log.
    fn has_only_a_banner(&self) -> bool {
        let mut parser = self.parser.clone();
        let start = &self.buffer[..self.end];
        self.end >= START
            && lines(start).all(|(_, raw)| matches!(parser.parse(raw).record, Record::Unknown(_) | Record::Blank))
    }

    /// How the log is compressed.
    pub fn container(&self) -> Container {
        self.input.container()
    }

    /// Overrides the detected dialect.
    pub fn with_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Dialect, detected at the start unless overridden.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether its first annotation marks it as lowered from steps; see [`super::lower`].
    pub fn is_lowered(&self) -> bool {
        self.is_lowered
    }

    /// Position of the next line.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Delivers the whole lines that are buffered, without consuming them.
    pub fn look(&self, mut sink: impl FnMut(&Line<'_>)) {
        let held = &self.buffer[self.start..self.end];
        let whole = memrchr(b'\n', held).map_or(held, |end| &held[..=end]);
        let mut parser = self.parser.clone();
        lines(whole).for_each(|(_, raw)| sink(&parser.parse(raw)));
    }

    /// Delivers lines until `sink` breaks or the log ends. True: there is more.
    pub fn each(&mut self, mut sink: impl FnMut(Position, &Line<'_>) -> ControlFlow<()>) -> Result<bool, ReadError> {
        while let Some(newline) = self.buffered_line(memchr)? {
            let held = &self.buffer[self.start..self.end];
            let (length, with_end) = newline.map_or((held.len(), held.len()), |at| (at, at + 1));
            let whole = without_return(&held[..length], newline.is_some());
            let is_split = whole.len() > LONGEST;
            let raw = if is_split { &whole[..LONGEST] } else { whole };
            let line = if is_split || self.is_within_line { too_long(raw) } else { self.parser.parse(raw) };
            let passed = if is_split { LONGEST } else { with_end };
            let flow = sink(self.position, &line);
            self.pass(passed, u64::from(newline.is_some() && !is_split));
            self.is_within_line = is_split;
            if flow.is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Delivers whole lines with their ends, many at a time, until `sink` breaks or the log ends. True: there is more.
    /// Lines of more than [`LONGEST`] bytes may be split.
    pub fn each_run(&mut self, mut sink: impl FnMut(Position, &[u8]) -> ControlFlow<()>) -> Result<bool, ReadError> {
        while let Some(newline) = self.buffered_line(memrchr)? {
            let held = &self.buffer[self.start..self.end];
            let run = &held[..newline.map_or(held.len(), |at| at + 1)];
            let (passed, lines) = (run.len(), memchr_iter(b'\n', run).count() as u64);
            let flow = sink(self.position, run);
            self.pass(passed, lines);
            self.is_within_line = newline.is_none();
            if flow.is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads until a line end is buffered, and finds it. `Some(None)`: there is none, at the end of the log or in a line
    /// that is too long. `None`: the log has ended.
    #[inline(always)]
    fn buffered_line(&mut self, find: impl Fn(u8, &[u8]) -> Option<usize>) -> Result<Option<Option<usize>>, ReadError> {
        let newline = loop {
            let held = &self.buffer[self.start..self.end];
            let newline = find(b'\n', held);
            // A carriage return belongs to the end of a line.
            if newline.is_some() || held.len() > LONGEST + 1 || !self.fill() {
                break newline;
            }
        };
        if self.start == self.end { self.failure().map(|()| None) } else { Ok(Some(newline)) }
    }

    #[inline(always)]
    fn pass(&mut self, bytes: usize, lines: u64) {
        self.start += bytes;
        self.position.offset += bytes as u64;
        self.position.line += lines;
    }

    /// Reads some more. False: there is no more.
    fn fill(&mut self) -> bool {
        if self.is_at_end {
            return false;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() < self.end + CHUNK {
            self.buffer.resize(self.end + CHUNK, 0);
        }
        match self.input.read_some(&mut self.buffer[self.end..self.end + CHUNK]) {
            Ok(0) => self.is_at_end = true,
            Ok(bytes) => self.end += bytes,
            Err(failure) => (self.is_at_end, self.failed) = (true, Some(failure.into())),
        }
        !self.is_at_end
    }

    /// Why reading ended; returned once.
    fn failure(&mut self) -> Result<(), ReadError> {
        let offset = self.position.offset;
        self.failed.take().map_or(Ok(()), |kind| Err(ReadError { offset, kind }))
    }
}

/// The bytes of a log, out of the container that its first bytes name.
fn decompress<R: Read>(input: R) -> Result<Decompressor<R>, ReadErrorKind> {
    let mut input = Input::new(input);
    let first = input.peek(Container::PEEK);
    let (is_empty, container) = (first.is_empty(), Container::of(first).unwrap_or(Container::Plain));
    match input.failure() {
        Some(error) if is_empty => return Err(error.into()),
        Some(error) => input.fail(error),
        None => {}
    }
    Ok(Decompressor::new(input, container, 1)?)
}

/// Part of a line that is too long to be parsed.
fn too_long(raw: &[u8]) -> Line<'_> {
    let record = Record::Unknown(Problem { column: 1, kind: ProblemKind::TooLongLine });
    Line { raw, stamp: Stamp::Absent, core: None, record }
}
