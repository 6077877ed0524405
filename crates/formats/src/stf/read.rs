//! Reading a file: whatever it is stored in, record by record.
//!
//! bytes ─▶ container (plain, .zstf, .gz, .xz, .zst) ─▶ window ─▶ **records**
//!
//! The container is recognised by its first bytes, never by a name. Memory does not grow with the trace: a window of it
//! is held, and records are views on that. What cannot be read ends the trace with an error that says where; everything
//! before was handed out.

use std::io::{self, Read};
use std::ops::ControlFlow;

use super::layout::{Layout, Malformed};
use super::record::{Record, descriptor};

/// Bytes of the window at first, and how much is read at once.
const WINDOW: usize = 1 << 18;

/// No record may have more bytes than this.
const LONGEST: usize = 64 << 20;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number; the first is 0.
    pub record: u64,
    /// The offset of its first byte in the trace, uncompressed.
    pub offset: u64,
}

impl Place {
    /// The place behind a record of so many bytes.
    #[inline(always)]
    pub(super) fn behind(self, length: usize) -> Self {
        Self { record: self.record + 1, offset: self.offset + length as u64 }
    }
}

/// How far a scan of the window came.
pub(super) struct Stop {
    /// Everything before was handed out.
    pub(super) done: Place,
    /// Everything before could be read.
    pub(super) at: Place,
    /// Why it stopped; `None`: nobody wants more.
    pub(super) why: Option<Malformed>,
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
#[error("record {record} at {offset:#x}: {kind}")]
pub struct ReadError {
    /// The offset in the uncompressed trace.
    pub offset: u64,
    /// The number of the record that could not be had.
    pub record: u64,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// There is nothing at all.
    #[error("the file is empty")]
    Empty,
    /// It is another format.
    #[error("this is no STF trace: it starts with {0:02x?}")]
    NotStf([u8; 4]),
    /// The bytes are no record.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A record that would not fit into memory.
    #[error("a record of more than {LONGEST} bytes")]
    TooLong,
    /// The container is damaged, or could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Hands out the records of a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    layout: Layout,
    window: Vec<u8>,
    /// The part of the window that was not handed out yet.
    start: usize,
    end: usize,
    at_end: bool,
    /// Why nothing more could be read; told behind what was read before.
    failed: Option<io::Error>,
    next: Place,
}

impl<R: Read> Reader<R> {
    /// Reads records as they are, without a container around them.
    pub fn plain(input: R) -> Self {
        Self {
            input,
            layout: Layout::default(),
            window: vec![0; WINDOW],
            start: 0,
            end: 0,
            at_end: false,
            failed: None,
            next: Place { record: 0, offset: 0 },
        }
    }

    /// How the records are laid out, as far as the header was read.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the next record is.
    pub fn place(&self) -> Place {
        self.next
    }

    /// Hands out records until `take` breaks, the trace ends or the rest of it cannot be read. True: there is more.
    #[inline]
    pub fn each(&mut self, mut take: impl FnMut(Place, &Record<'_>) -> ControlFlow<()>) -> Result<bool, ReadError> {
        self.scan(|bytes, mut place, layout| {
            let start = place;
            loop {
                let read = (place.offset - start.offset) as usize;
                let (record, length) = match Record::parse(&bytes[read..], layout) {
                    Ok(parsed) => parsed,
                    Err(error) => return Stop { done: place, at: place, why: Some(error) },
                };
                if record.descriptor() <= descriptor::END_HEADER {
                    layout.follow(&record);
                }
                let flow = take(place, &record);
                place = place.behind(length);
                if flow.is_break() {
                    return Stop { done: place, at: place, why: None };
                }
            }
        })
    }

    /// Lets `scan` go through the window, again and again with more bytes in it.
    #[inline(always)]
    pub(super) fn scan(&mut self, mut scan: impl FnMut(&[u8], Place, &mut Layout) -> Stop) -> Result<bool, ReadError> {
        loop {
            let Stop { done, at, why } = scan(&self.window[self.start..self.end], self.next, &mut self.layout);
            self.start += (done.offset - self.next.offset) as usize;
            self.next = done;
            match why {
                None => return Ok(true),
                Some(Malformed::Truncated) if !self.at_end => self.fill()?,
                Some(error) => return self.end(error, at),
            }
        }
    }

    /// Reads more bytes behind those that are left.
    fn fill(&mut self) -> Result<(), ReadError> {
        self.window.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.window.len() {
            if self.end >= LONGEST {
                return Err(self.error(ReadErrorKind::TooLong));
            }
            self.window.resize(self.end * 2, 0);
        }
        while self.end < self.window.len() {
            match self.input.read(&mut self.window[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    (self.at_end, self.failed) = (true, Some(error));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Nothing more can be handed out: what is `at` this place cannot be read.
    fn end(&mut self, error: Malformed, at: Place) -> Result<bool, ReadError> {
        let left = (self.end - self.start) as u64 - (at.offset - self.next.offset);
        let kind = match (error, self.failed.take()) {
            (Malformed::Truncated, Some(failed)) => failed.into(),
            (Malformed::Truncated, None) if left == 0 => return Ok(false),
            (error, _) => error.into(),
        };
        Err(ReadError { offset: at.offset, record: at.record, kind })
    }

    fn error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError { offset: self.next.offset, record: self.next.record, kind }
    }
}
