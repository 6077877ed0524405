//! Reading a file in any storage, record by record.
//!
//! bytes ─▶ storage (plain, .zstf, .gz, .xz, .zst) ─▶ window ─▶ **records**
//!
//! The storage is recognized by the first bytes, never by the file name. Memory does not grow with the trace: records
//! are views of a window of it. An unreadable record ends the trace with an error and its offset, after everything
//! before it was emitted. An oddity that does not prevent reading is a [`Warning`].

mod chunked;
pub(super) mod error;
mod gather;
mod instructions;
mod markers;
mod open;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;

pub use super::position::Position;
pub use super::storage::Storage;
pub use error::{ReadError, ReadErrorKind, Warning};
pub use gather::Gather;
pub use markers::ChunkSizes;
pub use open::ReadOptions;

use self::error::MAX_RECORD;
use self::markers::{MarkerCount, is_marker};
use super::layout::{Layout, Malformed};
use super::lift::Follower;
use super::position::Stop;
use super::record::{Record, descriptor};
use super::zstf::chunks::Chunks;

/// Initial size of the window, and number of bytes read at once.
const WINDOW: usize = 1 << 18;

/// Reads the records of a trace.
pub struct Reader<R> {
    source: Source<R>,
    storage: Storage,
    warnings: Vec<Warning>,
    layout: Layout,
    window: Vec<u8>,
    /// The part of the window that was not emitted yet.
    start: usize,
    end: usize,
    at_end: bool,
    /// Why no more bytes can be read; reported after all records before.
    failed: Option<ReadErrorKind>,
    next: Position,
    /// Features and instruction set, if the header was parsed and has them.
    features: Option<u64>,
    isa: Option<u16>,
    /// The header has no end.
    is_header_only: bool,
    /// The end mark was read.
    is_after_end: bool,
    count: MarkerCount,
    /// Chunks in the window.
    starts: VecDeque<ChunkStart>,
    /// State in the first chunk's header, if that was read for a seek; `None` inside: its size contradicts the file
    /// header.
    first: Option<Option<Follower>>,
}

/// Start of a chunk in the trace. The index may have another.
#[derive(Debug, Clone, Copy)]
struct ChunkStart {
    chunk: u64,
    offset: u64,
    /// The chunk before it ends inside of a group of records.
    is_inside_group: bool,
}

/// Source of the bytes of records.
enum Source<R> {
    Bytes(R),
    Chunks(Box<Chunks>),
}

impl<R: Read> Reader<R> {
    /// A reader of uncompressed records, without any check of the header.
    pub fn plain(input: R) -> Self {
        Self::with(Source::Bytes(input), Storage::PLAIN, WINDOW)
    }

    /// A reader of uncompressed records that continues at a position of a trace whose header another reader has read. The
    /// input starts there.
    pub fn resumed<H>(header: &Reader<H>, input: R, position: Position) -> Self {
        let mut reader = Self::plain(input);
        (reader.layout, reader.features, reader.isa) = (header.layout, header.features, header.isa);
        reader.next = position;
        reader
    }

    fn with(source: Source<R>, storage: Storage, window: usize) -> Self {
        Self {
            source,
            storage,
            warnings: Vec::new(),
            layout: Layout::default(),
            window: vec![0; window],
            start: 0,
            end: 0,
            at_end: false,
            failed: None,
            next: Position::default(),
            features: None,
            isa: None,
            is_header_only: false,
            is_after_end: false,
            count: MarkerCount::default(),
            starts: VecDeque::new(),
            first: None,
        }
    }

    /// The storage of the trace.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Warnings about the file, as far as it was read.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The layout of records, as far as the header was read.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The features in the header, if it was parsed and has any.
    pub fn features(&self) -> Option<u64> {
        self.features
    }

    /// The instruction set in the header (1 RISC-V, 2 Arm), if it was parsed and has one.
    pub fn isa(&self) -> Option<u16> {
        self.isa
    }

    /// Position of the next record.
    pub fn position(&self) -> Position {
        self.next
    }

    /// Sets the number of the next record.
    pub(crate) fn count_from(&mut self, record: u64) {
        self.next.record = record;
    }

    /// Emits records until `visit` breaks, the trace ends or the rest cannot be read. True: there is more.
    #[inline]
    pub fn each(&mut self, mut visit: impl FnMut(Position, &Record<'_>) -> ControlFlow<()>) -> Result<bool, ReadError> {
        if self.is_after_end {
            return self.check_end();
        }
        let mut is_end = false;
        let result = self.scan(|bytes, mut position, layout| {
            let (start, mut markers) = (position, 0);
            loop {
                let read = (position.offset - start.offset) as usize;
                let (record, length) = match Record::parse(&bytes[read..], layout) {
                    Ok(parsed) => parsed,
                    Err(error) => return Stop { done: position, at: position, why: Some(error), markers },
                };
                let descriptor = record.descriptor();
                if descriptor <= descriptor::END_HEADER {
                    layout.follow(&record);
                }
                markers += u64::from(is_marker(descriptor));
                let flow = visit(position, &record);
                position = position.after(length);
                is_end = descriptor == descriptor::RESERVE_END;
                if flow.is_break() || is_end {
                    return Stop { done: position, at: position, why: None, markers };
                }
            }
        });
        self.end_scan(is_end, result)
    }

    /// Emits the bytes of whole records, many at a time, until `visit` breaks, the trace ends or the rest cannot be
    /// read. True: there is more.
    pub fn each_run(&mut self, mut visit: impl FnMut(Position, &[u8]) -> ControlFlow<()>) -> Result<bool, ReadError> {
        if self.is_after_end {
            return self.check_end();
        }
        let mut is_end = false;
        let result = self.scan(|bytes, start, layout| {
            let (mut position, mut markers, mut read) = (start, 0, 0);
            let why = loop {
                // Parsed instead of measured: branch prediction then covers the record and its length together.
                let (record, length) = match Record::parse(&bytes[read..], layout) {
                    Ok(parsed) => parsed,
                    Err(error) => break Some(error),
                };
                let descriptor = record.descriptor();
                if descriptor <= descriptor::END_HEADER {
                    layout.follow(&record);
                }
                markers += u64::from(is_marker(descriptor));
                (position, read) = (position.after(length), read + length);
                is_end = descriptor == descriptor::RESERVE_END;
                if is_end {
                    break None;
                }
            };
            let flow = if read > 0 { visit(start, &bytes[..read]) } else { ControlFlow::Continue(()) };
            let why = why.filter(|_| flow.is_continue());
            Stop { done: position, at: position, why, markers }
        });
        self.end_scan(is_end, result)
    }

    /// Runs `scan` on the window, repeatedly with more bytes in it.
    #[inline(always)]
    fn scan(&mut self, mut scan: impl FnMut(&[u8], Position, &mut Layout) -> Stop) -> Result<bool, ReadError> {
        loop {
            let stop = scan(&self.window[self.start..self.end], self.next, &mut self.layout);
            if let Some(more) = self.apply(stop)? {
                return Ok(more);
            }
        }
    }

    /// Is this position the end of the window?
    pub(super) fn is_last(&self, position: Position) -> bool {
        position.offset - self.next.offset == (self.end - self.start) as u64
    }

    /// Applies the outcome of a scan. `None`: there are more bytes in the window now.
    pub(super) fn apply(&mut self, stop: Stop) -> Result<Option<bool>, ReadError> {
        let Stop { done, at, why, markers } = stop;
        self.start += (done.offset - self.next.offset) as usize;
        self.next = done;
        self.count.found += markers;
        match why {
            None => Ok(Some(true)),
            Some(Malformed::Truncated) if !self.at_end => self.fill().map(|()| None),
            Some(error) => self.end(error, at).map(Some),
        }
    }

    /// Reads more bytes after the remaining ones.
    fn fill(&mut self) -> Result<(), ReadError> {
        match self.source {
            Source::Bytes(_) => self.fill_window(),
            Source::Chunks(_) => self.fill_chunk(),
        }
    }

    fn fill_window(&mut self) -> Result<(), ReadError> {
        let Source::Bytes(input) = &mut self.source else { return Ok(()) };
        self.window.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.window.len() {
            if self.end >= MAX_RECORD {
                return Err(self.error(ReadErrorKind::TooLong));
            }
            self.window.resize(self.end * 2, 0);
        }
        while self.end < self.window.len() {
            match input.read(&mut self.window[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    (self.at_end, self.failed) = (true, Some(ReadErrorKind::of(error)));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Ends the trace at a position that cannot be read.
    fn end(&mut self, error: Malformed, at: Position) -> Result<bool, ReadError> {
        let left = (self.end - self.start) as u64 - (at.offset - self.next.offset);
        let kind = match (error, self.failed.take()) {
            (Malformed::Truncated, Some(failed)) => failed,
            (Malformed::Truncated, None) if left == 0 && self.is_header_only => ReadErrorKind::WithinHeader,
            (Malformed::Truncated, None) if left == 0 => return Ok(false),
            (error, _) => error.into(),
        };
        Err(ReadError { offset: at.offset, record: at.record, kind })
    }

    /// Applies the outcome of a scan that did or did not reach the end mark.
    pub(super) fn end_scan(&mut self, is_end: bool, result: Result<bool, ReadError>) -> Result<bool, ReadError> {
        self.is_after_end = is_end;
        if is_end && result.is_ok() { self.check_end() } else { result }
    }

    /// Ends the trace at this position of the window. Records before it that were not emitted stay in the window.
    pub(super) fn end_at(&mut self, end: Position) -> Result<bool, ReadError> {
        let left = (end.offset - self.next.offset) as usize;
        if self.end - self.start == left && !self.at_end {
            self.fill()?;
        }
        if self.end - self.start > left {
            return Err(ReadError { offset: end.offset, record: end.record, kind: ReadErrorKind::AfterEnd });
        }
        Ok(false)
    }

    /// Checks that nothing follows the end mark.
    pub(super) fn check_end(&mut self) -> Result<bool, ReadError> {
        while self.start == self.end && !self.at_end {
            self.fill()?;
        }
        match self.failed.take() {
            Some(failed) if self.start == self.end => Err(self.error(failed)),
            _ if self.start < self.end => Err(self.error(ReadErrorKind::AfterEnd)),
            _ => Ok(false),
        }
    }

    fn error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError { offset: self.next.offset, record: self.next.record, kind }
    }
}

impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("storage", &self.storage).field("next", &self.next).finish_non_exhaustive()
    }
}
