//! The bytes of a file in order, of which some can be looked at before they are taken.
//!
//! A failure to read is an end that knows why: what came before it is still decompressed.

use std::io::{self, Read, Seek, SeekFrom};

/// How much is read at a time.
const BUFFER: usize = 128 << 10;

/// A file that can be gone about in.
pub(crate) trait File: Read + Seek + Send {}

impl<R: Read + Seek + Send> File for R {}

/// Where bytes come from.
pub(crate) enum Origin {
    Pipe(Box<dyn Read + Send>),
    File(Box<dyn File>),
}

/// An input, and the bytes of it that are read but not taken.
pub(crate) struct Input {
    origin: Origin,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The place in the file of the next byte.
    offset: u64,
    is_at_end: bool,
    failed: Option<io::Error>,
}

impl Input {
    /// The origin is at the start of the file.
    pub(crate) fn new(origin: Origin) -> Self {
        Self { origin, buffer: vec![0; BUFFER], start: 0, end: 0, offset: 0, is_at_end: false, failed: None }
    }

    /// The place in the file of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// What is read and not taken.
    pub(crate) fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Nothing comes behind what is held.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// How long the file is, if that can be known.
    pub(crate) fn length(&mut self) -> io::Result<Option<u64>> {
        match &mut self.origin {
            Origin::Pipe(_) => Ok(None),
            Origin::File(file) => {
                let length = file.seek(SeekFrom::End(0))?;
                file.seek(SeekFrom::Start(self.offset + (self.end - self.start) as u64))?;
                Ok(Some(length))
            }
        }
    }

    /// Goes on at this place; nothing happens where that is not possible.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        let held = (self.end - self.start) as u64;
        if (self.offset..=self.offset + held).contains(&offset) {
            self.consume((offset - self.offset) as usize);
            return Ok(());
        }
        if let Origin::File(file) = &mut self.origin {
            file.seek(SeekFrom::Start(offset))?;
            (self.start, self.end, self.offset, self.is_at_end) = (0, 0, offset, false);
        }
        Ok(())
    }

    /// The next so many bytes; fewer at the end.
    pub(crate) fn peek(&mut self, bytes: usize) -> &[u8] {
        if self.end - self.start < bytes && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.end - self.start < bytes && !self.is_at_end {
            self.end += read(&mut self.origin, &mut self.buffer[self.end..], &mut self.is_at_end, &mut self.failed);
        }
        &self.buffer[self.start..self.end.min(self.start + bytes)]
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
        self.offset += bytes as u64;
    }

    /// Takes so many bytes, fewer at the end, and appends them. Memory grows as they come.
    pub(crate) fn append(&mut self, output: &mut Vec<u8>, mut bytes: usize) -> usize {
        let before = output.len();
        while bytes > 0 {
            let piece = self.peek(bytes.min(BUFFER));
            let length = piece.len();
            if length == 0 {
                break;
            }
            output.extend_from_slice(piece);
            self.consume(length);
            bytes -= length;
        }
        output.len() - before
    }

    /// Gives back bytes that were taken last.
    pub(crate) fn unread(&mut self, mut bytes: Vec<u8>) {
        self.offset -= bytes.len() as u64;
        bytes.extend_from_slice(self.held());
        (self.start, self.end) = (0, bytes.len());
        self.buffer = bytes;
    }

    /// Takes all zeros that come next.
    pub(crate) fn skip_zeros(&mut self) -> u64 {
        let before = self.offset;
        loop {
            self.peek(1);
            let zeros = self.held().iter().take_while(|byte| **byte == 0).count();
            let goes_on = zeros == self.held().len() && zeros > 0;
            self.consume(zeros);
            if !goes_on {
                return self.offset - before;
            }
        }
    }

    /// The input cannot be read any further.
    pub(crate) fn fail(&mut self, error: io::Error) {
        (self.is_at_end, self.failed) = (true, Some(error));
    }

    /// Why the input could not be read any further, told once.
    pub(crate) fn failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }
}

fn read(origin: &mut Origin, room: &mut [u8], is_at_end: &mut bool, failed: &mut Option<io::Error>) -> usize {
    loop {
        let result = match origin {
            Origin::Pipe(pipe) => pipe.read(room),
            Origin::File(file) => file.read(room),
        };
        match result {
            Ok(0) => *is_at_end = true,
            Ok(bytes) => return bytes.min(room.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => (*is_at_end, *failed) = (true, Some(error)),
        }
        return 0;
    }
}
