//! Reading a file: whatever it is stored in, record by record.
//!
//! bytes ─▶ storage (plain, .zstf, .gz, .xz, .zst) ─▶ window ─▶ **records**
//!
//! The storage is recognized by the first bytes, never by a name. Memory does not grow with the trace: a window of it
//! is held, and records are views on that. What cannot be read ends the trace with an error that says where; everything
//! before was handed out. What is odd but can be read is a [`Warning`].

mod chunked;
mod error;
mod gather;
mod open;

use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;

pub use super::storage::Storage;
pub use chunked::ChunkSizes;
pub use error::{ReadError, ReadErrorKind, Warning};
pub use gather::Gather;
pub use open::ReadOptions;

use self::chunked::Count;
use super::layout::{Layout, Malformed};
use super::lift::{Followed, Follower, Instruction};
use super::record::{Record, descriptor};
use super::zstf::chunks::Chunks;

/// Bytes of the window at first, and how much is read at once.
const WINDOW: usize = 1 << 18;

/// No record may have more bytes than this.
const LONGEST: usize = 64 << 20;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Its number; the first is 0. Behind [`Reader::seek_instruction`] records may be counted from there.
    pub record: u64,
    /// The offset of its first byte in the trace, uncompressed.
    pub offset: u64,
}

impl Position {
    /// The place behind a record of so many bytes.
    #[inline(always)]
    pub(super) fn behind(self, length: usize) -> Self {
        Self { record: self.record + 1, offset: self.offset + length as u64 }
    }
}

/// How far a scan of the window came.
#[derive(Clone, Copy)]
pub(super) struct Stop {
    /// Everything before was handed out.
    pub(super) done: Position,
    /// Everything before could be read.
    pub(super) at: Position,
    /// Why it stopped; `None`: nobody wants more.
    pub(super) why: Option<Malformed>,
    /// How many of the records that were handed out chunks are measured by.
    pub(super) markers: u64,
}

/// Hands out the records of a trace.
pub struct Reader<R> {
    source: Source<R>,
    storage: Storage,
    warnings: Vec<Warning>,
    layout: Layout,
    window: Vec<u8>,
    /// The part of the window that was not handed out yet.
    start: usize,
    end: usize,
    at_end: bool,
    /// Why nothing more could be read; told behind what was read before.
    failed: Option<ReadErrorKind>,
    next: Position,
    /// The features and the instruction set, if the header was looked at and has them.
    features: Option<u64>,
    isa: Option<u16>,
    /// The header has no end.
    is_header_only: bool,
    /// The mark of the end was read.
    is_behind_end: bool,
    count: Count,
    /// What the first chunk says, if it was gone through for that and can be relied on.
    first: Option<Option<Follower>>,
}

/// Where the bytes of records come from.
enum Source<R> {
    Bytes(R),
    Chunks(Box<Chunks>),
}

impl<R: Read> Reader<R> {
    /// Reads records as they are, that are not compressed. Nothing is expected of them.
    pub fn plain(input: R) -> Self {
        Self::with(Source::Bytes(input), Storage::PLAIN, WINDOW)
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
            next: Position { record: 0, offset: 0 },
            features: None,
            isa: None,
            is_header_only: false,
            is_behind_end: false,
            count: Count::default(),
            first: None,
        }
    }

    /// How the trace is stored.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// What is odd about the file, as far as it was read.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// How the records are laid out, as far as the header was read.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The features that the header names, if it was looked at and names any.
    pub fn features(&self) -> Option<u64> {
        self.features
    }

    /// The instruction set that the header names (1 RISC-V, 2 Arm), if it was looked at and names one.
    pub fn isa(&self) -> Option<u16> {
        self.isa
    }

    /// Where the next record is.
    pub fn position(&self) -> Position {
        self.next
    }

    /// Hands out records until `take` breaks, the trace ends or the rest of it cannot be read. True: there is more.
    #[inline]
    pub fn each(&mut self, mut take: impl FnMut(Position, &Record<'_>) -> ControlFlow<()>) -> Result<bool, ReadError> {
        if self.is_behind_end {
            return self.nothing_follows();
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
                markers += u64::from(chunked::is_marker(descriptor));
                let flow = take(position, &record);
                position = position.behind(length);
                is_end = descriptor == descriptor::RESERVE_END;
                if flow.is_break() || is_end {
                    return Stop { done: position, at: position, why: None, markers };
                }
            }
        });
        self.ends(is_end, result)
    }

    /// Hands out the bytes of whole records, many at a time, until `take` breaks, the trace ends or the rest of it
    /// cannot be read. True: there is more.
    pub fn each_run(&mut self, mut take: impl FnMut(Position, &[u8]) -> ControlFlow<()>) -> Result<bool, ReadError> {
        if self.is_behind_end {
            return self.nothing_follows();
        }
        let mut is_end = false;
        let result = self.scan(|bytes, start, layout| {
            let (mut position, mut markers, mut read) = (start, 0, 0);
            let why = loop {
                // Parsed, not measured: here the processor guesses what record comes next, and with it the length.
                let (record, length) = match Record::parse(&bytes[read..], layout) {
                    Ok(parsed) => parsed,
                    Err(error) => break Some(error),
                };
                let descriptor = record.descriptor();
                if descriptor <= descriptor::END_HEADER {
                    layout.follow(&record);
                }
                markers += u64::from(chunked::is_marker(descriptor));
                (position, read) = (position.behind(length), read + length);
                is_end = descriptor == descriptor::RESERVE_END;
                if is_end {
                    break None;
                }
            };
            let flow = if read > 0 { take(start, &bytes[..read]) } else { ControlFlow::Continue(()) };
            let why = why.filter(|_| flow.is_continue());
            Stop { done: position, at: position, why, markers }
        });
        self.ends(is_end, result)
    }

    /// Lets `scan` go through the window, again and again with more bytes in it.
    #[inline(always)]
    fn scan(&mut self, mut scan: impl FnMut(&[u8], Position, &mut Layout) -> Stop) -> Result<bool, ReadError> {
        loop {
            let stop = scan(&self.window[self.start..self.end], self.next, &mut self.layout);
            if let Some(more) = self.stopped(stop)? {
                return Ok(more);
            }
        }
    }

    /// Lets a follower go through the window.
    #[inline(always)]
    pub(super) fn follow(
        &mut self,
        follower: &mut Follower,
        take: &mut impl FnMut(&Instruction<'_>) -> ControlFlow<()>,
    ) -> Followed {
        follower.go_through(&self.window[self.start..self.end], self.next, &mut self.layout, take)
    }

    /// Is this place the end of the window?
    pub(super) fn is_last(&self, position: Position) -> bool {
        position.offset - self.next.offset == (self.end - self.start) as u64
    }

    /// A scan of the window came so far. `None`: there are more bytes in it now.
    pub(super) fn stopped(&mut self, stop: Stop) -> Result<Option<bool>, ReadError> {
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

    /// Reads more bytes behind those that are left.
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
            if self.end >= LONGEST {
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

    /// Nothing more can be handed out: what is `at` this place cannot be read.
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

    /// Was the mark of the end read?
    pub(super) fn is_behind_end(&self) -> bool {
        self.is_behind_end
    }

    /// How a scan ended that met the mark of the end, or did not.
    pub(super) fn ends(&mut self, is_end: bool, result: Result<bool, ReadError>) -> Result<bool, ReadError> {
        self.is_behind_end = is_end;
        if is_end && result.is_ok() { self.nothing_follows() } else { result }
    }

    /// The trace ends at this place in the window; what was not handed out before it stays there.
    pub(super) fn ends_at(&mut self, end: Position) -> Result<bool, ReadError> {
        let left = (end.offset - self.next.offset) as usize;
        if self.end - self.start == left && !self.at_end {
            self.fill()?;
        }
        if self.end - self.start > left {
            return Err(ReadError { offset: end.offset, record: end.record, kind: ReadErrorKind::BehindEnd });
        }
        Ok(false)
    }

    /// The mark of the end was read, and should be the last.
    pub(super) fn nothing_follows(&mut self) -> Result<bool, ReadError> {
        while self.start == self.end && !self.at_end {
            self.fill()?;
        }
        match self.failed.take() {
            Some(failed) if self.start == self.end => Err(self.error(failed)),
            _ if self.start < self.end => Err(self.error(ReadErrorKind::BehindEnd)),
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
