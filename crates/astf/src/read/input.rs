//! The bytes of a file in order, a few of which can be looked at before they are taken.
//!
//! A failure to read is an end that knows why: what came before it is still decompressed.

use std::io::{self, Read};
use std::ops::Range;

use memchr::memmem::Finder;

use super::{End, Fault, ReadErrorKind};

/// How much is read at a time where it is decompressed.
const BUFFER: usize = 128 << 10;

/// An input, and the bytes of it that are read but not taken.
pub(super) struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// How many bytes were taken.
    taken: u64,
    /// The last read gave all that was asked for, as one of a file does, so that the next will not have to wait.
    is_flowing: bool,
    state: State,
}

/// Where a [mark](Input::cut) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// What is before it was taken.
    Here,
    Nowhere,
    /// Not in what is at hand.
    Unknown,
}

enum State {
    Open,
    Ended,
    Failed(io::Error),
}

impl<R: Read> Input<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER], start: 0, end: 0, taken: 0, is_flowing: false, state: State::Open }
    }

    /// The place in the file of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.taken
    }

    /// What is read and not taken.
    pub(super) fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Nothing comes behind what is held.
    pub(super) fn is_at_end(&self) -> bool {
        !matches!(self.state, State::Open)
    }

    /// To have more is to read.
    pub(super) fn would_wait(&self) -> bool {
        self.start == self.end && !self.is_at_end()
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
        self.taken += bytes as u64;
    }

    /// Holds something, unless nothing comes.
    pub(super) fn more(&mut self) {
        self.peek(1);
    }

    /// The next so many bytes; fewer at the end.
    pub(super) fn peek(&mut self, bytes: usize) -> &[u8] {
        if self.end - self.start < bytes && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < bytes && !self.is_at_end() {
            let room = &mut self.buffer[self.end..];
            let room_len = room.len().min(BUFFER);
            let bytes = read(&mut self.reader, &mut self.state, &mut room[..room_len]);
            self.is_flowing = bytes == room_len;
            self.end += bytes;
        }
        let held = self.held();
        &held[..held.len().min(bytes)]
    }

    /// Takes some bytes, by one read and without a copy where none are held.
    pub(super) fn read(&mut self, output: &mut [u8]) -> (usize, Option<End>) {
        let held = self.held();
        let bytes = if held.is_empty() && !self.is_at_end() {
            let bytes = read(&mut self.reader, &mut self.state, output);
            self.taken += bytes as u64;
            bytes
        } else {
            let bytes = held.len().min(output.len());
            output[..bytes].copy_from_slice(&held[..bytes]);
            self.consume(bytes);
            bytes
        };
        let end = (bytes == 0).then(|| self.end());
        (bytes, end)
    }

    /// Takes everything up to the first mark behind so many bytes, and with it, if there are not too many bytes before it.
    /// Unless it may wait, only what is at hand is looked at.
    pub(super) fn cut(&mut self, mark: &Finder<'_>, length: Range<usize>, may_wait: bool, output: &mut Vec<u8>) -> Cut {
        let mut known = length.start;
        loop {
            let held = self.held();
            let held = &held[..held.len().min(length.end)];
            if let Some(found) = held.get(known..).and_then(|held| mark.find(held)) {
                let taken = known + found + mark.needle().len();
                output.extend_from_slice(&held[..taken]);
                self.consume(taken);
                return Cut::Here;
            }
            if held.len() == length.end || self.is_at_end() {
                return Cut::Nowhere;
            }
            if !may_wait && !self.is_flowing {
                return Cut::Unknown;
            }
            known = known.max((held.len() + 1).saturating_sub(mark.needle().len()));
            self.longer();
        }
    }

    /// Holds more than before, unless nothing comes.
    fn longer(&mut self) {
        let more = self.held().len() + 1;
        if self.buffer.len() < more + BUFFER {
            self.buffer.resize(more + BUFFER, 0);
        }
        self.peek(more);
    }

    /// Puts bytes back that were taken last.
    pub(super) fn put_back(&mut self, mut bytes: Vec<u8>) {
        self.taken -= bytes.len() as u64;
        bytes.extend_from_slice(self.held());
        (self.start, self.end) = (0, bytes.len());
        bytes.resize(bytes.len() + BUFFER, 0);
        self.buffer = bytes;
    }

    /// Takes all zeros that come next.
    pub(super) fn skip_zeros(&mut self) -> u64 {
        let before = self.taken;
        loop {
            self.more();
            let held = self.held();
            let zeros = held.iter().take_while(|byte| **byte == 0).count();
            let goes_on = zeros == held.len() && zeros > 0;
            self.consume(zeros);
            if !goes_on {
                return self.taken - before;
            }
        }
    }

    /// The end of the file, or why it could not be reached.
    pub(super) fn end(&mut self) -> End {
        self.failure().map_or(End::Clean, End::Fault)
    }

    /// Compressed data is cut short, by the end of the file or because it could not be read.
    pub(super) fn cut_short(&mut self) -> Fault {
        let end = self.taken + self.held().len() as u64;
        self.failure().unwrap_or(Fault::new(ReadErrorKind::CompressedCutShort, end))
    }

    /// Something is wrong with the next byte.
    pub(super) fn fault(&self, kind: ReadErrorKind) -> Fault {
        Fault::new(kind, self.taken)
    }

    /// Why the input could not be read any further, told once.
    pub(super) fn failure(&mut self) -> Option<Fault> {
        let end = self.taken + self.held().len() as u64;
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Failed(error) => Some(Fault::new(ReadErrorKind::Io(error), end)),
            before => {
                self.state = before;
                None
            }
        }
    }
}

fn read(reader: &mut impl Read, state: &mut State, buffer: &mut [u8]) -> usize {
    loop {
        match reader.read(buffer) {
            Ok(0) => *state = State::Ended,
            // A reader that claims more than there is room for is not believed.
            Ok(bytes) => return bytes.min(buffer.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => *state = State::Failed(error),
        }
        return 0;
    }
}
