//! Buffered input: the bytes of a file in order, which can be examined before they are consumed.
//!
//! A read error is an end with a reason: what was read before it is still delivered.

use std::io::{self, Read, Seek, SeekFrom};

/// Number of bytes that are read at a time.
const BUFFER: usize = 128 << 10;

/// A file or a pipe.
pub enum MaybeSeek {
    /// Can be read forward only.
    Pipe(Box<dyn Read + Send>),
    /// Can seek.
    File(Box<dyn ReadSeek>),
}

/// An input that can seek.
pub trait ReadSeek: Read + Seek + Send {}

impl<R: Read + Seek + Send> ReadSeek for R {}

impl Read for MaybeSeek {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.read(output),
            Self::File(file) => file.read(output),
        }
    }
}

/// An input, and the bytes of it that are read but not consumed.
pub struct Input<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the file of the next byte.
    offset: u64,
    is_flowing: bool,
    state: State,
}

enum State {
    Open,
    Ended,
    Failed(io::Error),
}

impl<R: Read> Input<R> {
    /// The reader is at the start of the file.
    pub fn new(reader: R) -> Self {
        let buffer = vec![0; BUFFER];
        Self { reader, buffer, start: 0, end: 0, offset: 0, is_flowing: false, state: State::Open }
    }

    /// Offset in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes that are read and not consumed.
    pub fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether nothing follows the held bytes.
    pub fn is_at_end(&self) -> bool {
        !matches!(self.state, State::Open)
    }

    /// Whether the next byte has to be read from the file.
    pub fn would_wait(&self) -> bool {
        self.start == self.end && !self.is_at_end()
    }

    /// Whether the last read filled its buffer, as that of a file does, so that the next one will not wait.
    pub fn is_flowing(&self) -> bool {
        self.is_flowing
    }

    /// The next bytes; fewer at the end.
    pub fn peek(&mut self, bytes: usize) -> &[u8] {
        if self.end - self.start < bytes && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.end - self.start < bytes && !self.is_at_end() {
            let free = &mut self.buffer[self.end..];
            let length = free.len().min(BUFFER);
            let bytes = read(&mut self.reader, &mut self.state, &mut free[..length]);
            self.is_flowing = bytes == length;
            self.end += bytes;
        }
        &self.buffer[self.start..self.end.min(self.start + bytes)]
    }

    /// Holds more bytes than before, unless the input is at its end.
    pub fn hold_more(&mut self) {
        let more = self.held().len() + 1;
        if self.buffer.len() < more + BUFFER {
            self.buffer.resize(more + BUFFER, 0);
        }
        self.peek(more);
    }

    /// Advances over bytes that are held.
    pub fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
        self.offset += bytes as u64;
    }

    /// Consumes some bytes, by one read and without a copy where none are held. 0: the end, or a
    /// [failure](Self::failure).
    pub fn read(&mut self, output: &mut [u8]) -> usize {
        if self.would_wait() {
            let bytes = read(&mut self.reader, &mut self.state, output);
            self.offset += bytes as u64;
            return bytes;
        }
        let held = self.held();
        let bytes = held.len().min(output.len());
        output[..bytes].copy_from_slice(&held[..bytes]);
        self.consume(bytes);
        bytes
    }

    /// Consumes this many bytes, fewer at the end, and appends them. Memory grows as they arrive.
    pub fn append(&mut self, output: &mut Vec<u8>, mut bytes: usize) -> usize {
        let before = output.len();
        while bytes > 0 {
            let next = self.peek(bytes.min(BUFFER));
            let length = next.len();
            if length == 0 {
                break;
            }
            output.extend_from_slice(next);
            self.consume(length);
            bytes -= length;
        }
        output.len() - before
    }

    /// Puts back the bytes that were consumed last.
    pub fn unread(&mut self, mut bytes: Vec<u8>) {
        self.offset -= bytes.len() as u64;
        bytes.extend_from_slice(self.held());
        (self.start, self.end) = (0, bytes.len());
        bytes.resize(bytes.len() + BUFFER, 0);
        self.buffer = bytes;
    }

    /// Consumes all zeros that come next.
    pub fn skip_zeros(&mut self) -> u64 {
        let before = self.offset;
        loop {
            self.peek(1);
            let zeros = self.held().iter().take_while(|byte| **byte == 0).count();
            let has_more = zeros == self.held().len() && zeros > 0;
            self.consume(zeros);
            if !has_more {
                return self.offset - before;
            }
        }
    }

    /// Ends the input with this error.
    pub fn fail(&mut self, error: io::Error) {
        self.state = State::Failed(error);
    }

    /// The error that ended the input. It is returned once.
    pub fn failure(&mut self) -> Option<io::Error> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Failed(error) => Some(error),
            before => {
                self.state = before;
                None
            }
        }
    }
}

impl Input<MaybeSeek> {
    /// Length of a file; `None` for a pipe.
    pub fn length(&mut self) -> io::Result<Option<u64>> {
        match &mut self.reader {
            MaybeSeek::Pipe(_) => Ok(None),
            MaybeSeek::File(file) => {
                let length = file.seek(SeekFrom::End(0))?;
                file.seek(SeekFrom::Start(self.offset + (self.end - self.start) as u64))?;
                Ok(Some(length))
            }
        }
    }

    /// Continues at this offset. In a pipe, only what is held can be skipped; otherwise nothing happens.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        let held = (self.end - self.start) as u64;
        if (self.offset..=self.offset + held).contains(&offset) {
            self.consume((offset - self.offset) as usize);
            return Ok(());
        }
        if let MaybeSeek::File(file) = &mut self.reader {
            file.seek(SeekFrom::Start(offset))?;
            (self.start, self.end, self.offset, self.state) = (0, 0, offset, State::Open);
        }
        Ok(())
    }
}

fn read(reader: &mut impl Read, state: &mut State, output: &mut [u8]) -> usize {
    loop {
        match reader.read(output) {
            Ok(0) => *state = State::Ended,
            // A reader that claims more than there is room for is not believed.
            Ok(bytes) => return bytes.min(output.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => *state = State::Failed(error),
        }
        return 0;
    }
}
