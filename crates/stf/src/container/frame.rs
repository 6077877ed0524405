//! zstd frames: how far one goes, and what is in it.
//!
//! compressed bytes ─▶ **frames** ─▶ pieces of what they hold
//!
//! A frame says of each of its blocks how long it is, so that its end is found without decompressing it.
//! Specification: RFC 8878, "Zstandard Frames".

use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::input::Input;
use super::{Container, Fault};

/// The most bytes of a piece. What holds no more is decompressed at once, and stays in the cache until it is read.
pub(super) const PIECE: usize = 4 << 20;

/// As many bytes of a frame tell what it is: the magic number and what comes before all others.
const FIRST: usize = 5;

/// Do these bytes start a frame, if one that holds nothing for us?
pub(super) fn is_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(Container::Zstd.magic()) || is_skippable(bytes)
}

fn is_skippable(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// How a walk along a frame ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    /// At its end.
    Whole,
    /// It is longer than wanted; what was taken of it is part of it.
    Long,
    /// At the end of the file, or where it contradicts itself. A decoder will tell.
    Broken,
}

/// Takes a frame from the input, but not much more than `most` bytes of it.
pub(super) fn take(input: &mut Input, frame: &mut Vec<u8>, most: usize) -> Walked {
    let first = input.peek(8);
    if is_skippable(first) {
        let &[_, _, _, _, a, b, c, d] = first else { return rest(input, frame) };
        let length = 8 + u32::from_le_bytes([a, b, c, d]) as usize;
        return whole(input.append(frame, length) == length);
    }
    let Some(&flags) = first.get(4) else { return rest(input, frame) };
    let header = 5 + header_length(flags);
    if input.append(frame, header) < header {
        return Walked::Broken;
    }
    loop {
        let &[a, b, c] = input.peek(3) else { return rest(input, frame) };
        let block = u32::from_le_bytes([a, b, c, 0]);
        let length = match block >> 1 & 3 {
            // All bytes are the same.
            1 => 1,
            3 => return Walked::Broken,
            _ => (block >> 3) as usize,
        };
        if input.append(frame, 3 + length) < 3 + length {
            return Walked::Broken;
        }
        if block & 1 == 1 {
            let check = if flags & 4 != 0 { 4 } else { 0 };
            return whole(input.append(frame, check) == check);
        }
        if frame.len() > most {
            return Walked::Long;
        }
    }
}

fn rest(input: &mut Input, frame: &mut Vec<u8>) -> Walked {
    input.append(frame, FIRST + 3);
    Walked::Broken
}

fn whole(is_whole: bool) -> Walked {
    if is_whole { Walked::Whole } else { Walked::Broken }
}

/// Bytes of the header behind the flags.
fn header_length(flags: u8) -> usize {
    let is_single_segment = flags & 0x20 != 0;
    let window = usize::from(!is_single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
    let content = [usize::from(is_single_segment), 2, 4, 8][usize::from(flags >> 6)];
    window + dictionary + content
}

/// What a step of a decompressor led to.
pub(super) enum Progress {
    More,
    /// Nothing more can be made of the input.
    Stuck,
    Ended,
}

/// Decompresses zstd frames.
pub(super) struct Zstd {
    context: DCtx<'static>,
    /// How many bytes it wants to see next. It is not given more: then an error costs no block but its own.
    wants: usize,
}

impl Zstd {
    pub(super) fn new() -> Result<Self, Fault> {
        Ok(Self { context: DCtx::try_create().ok_or(Fault::Memory)?, wants: FIRST })
    }

    /// A frame starts.
    pub(super) fn start(&mut self) {
        // Of a context that is nowhere within a frame, this cannot fail.
        let _ = self.context.reset(ResetDirective::SessionOnly);
        self.wants = FIRST;
    }

    /// How many bytes it wants to see next.
    pub(super) fn wants(&self) -> usize {
        self.wants
    }

    /// Whole frames at once, if there is room for what they hold.
    pub(super) fn whole(&mut self, input: &[u8], output: &mut [u8]) -> Option<usize> {
        self.context.decompress(output, input).ok()
    }

    /// How many bytes were used and made, and what came of it.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> (usize, usize, Result<Progress, Fault>) {
        let mut from = InBuffer::around(&input[..input.len().min(self.wants)]);
        let mut to = OutBuffer::around(output);
        let result = self.context.decompress_stream(&mut to, &mut from);
        let (used, made) = (from.pos(), to.pos());
        let progress = match result {
            Ok(0) => Ok(Progress::Ended),
            Ok(wants) => {
                self.wants = wants;
                Ok(if used == 0 && made == 0 { Progress::Stuck } else { Progress::More })
            }
            Err(code) if get_error_name(code).contains("too much memory") => Err(Fault::Memory),
            Err(code) if get_error_name(code).contains("ictionary") => Err(Fault::Unsupported),
            Err(_) => Err(Fault::Damaged),
        };
        (used, made, progress)
    }
}

/// A part of what a chunk holds.
pub(super) struct Piece {
    pub(super) buffer: Vec<u8>,
    pub(super) length: usize,
    pub(super) then: Then,
}

/// What comes behind a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// More of the chunk.
    More,
    /// The end of the chunk.
    End,
    /// Nothing: this is wrong, so far behind the start of the chunk.
    Fault(Fault, u64),
}

/// A chunk in memory, and how far it was decompressed.
pub(crate) struct Packed {
    pub(super) bytes: Vec<u8>,
    pub(super) used: usize,
    /// Room for what it holds, if that is thought to be little.
    pub(super) room: Option<u64>,
}

impl Packed {
    /// The next piece of it.
    pub(super) fn next(&mut self, zstd: &mut Zstd, mut buffer: Vec<u8>) -> Piece {
        let is_first = self.used == 0;
        if is_first {
            if let Some(piece) = self.at_once(zstd, &mut buffer) {
                return piece;
            }
            zstd.start();
        }
        fill(&mut buffer, PIECE);
        let mut length = 0;
        let then = loop {
            if length == buffer.len() {
                break Then::More;
            }
            let (used, made, progress) = zstd.step(&self.bytes[self.used..], &mut buffer[length..]);
            self.used += used;
            length += made;
            match progress {
                Ok(Progress::More) => {}
                Ok(Progress::Stuck) => break Then::Fault(Fault::CutShort, self.used as u64),
                // A frame may ask for more memory than it needs. What holds little is read anyway.
                Err(Fault::Memory) if is_first => match self.within(zstd, &mut Vec::new(), PIECE) {
                    Some(piece) => return piece,
                    None => break Then::Fault(Fault::Memory, self.used as u64),
                },
                Err(fault) => break Then::Fault(fault, self.used as u64),
                Ok(Progress::Ended) if self.used == self.bytes.len() => break Then::End,
                Ok(Progress::Ended) if is_frame(&self.bytes[self.used..]) => zstd.start(),
                Ok(Progress::Ended) => break Then::Fault(Fault::Trailing, self.used as u64),
            }
        };
        Piece { buffer, length, then }
    }

    /// All of it, where it is small enough and nothing is wrong with it.
    fn at_once(&mut self, zstd: &mut Zstd, buffer: &mut Vec<u8>) -> Option<Piece> {
        let size = self.room.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= PIECE)?;
        self.within(zstd, buffer, size)
    }

    /// All of it, if it has no more bytes than these.
    fn within(&mut self, zstd: &mut Zstd, buffer: &mut Vec<u8>, size: usize) -> Option<Piece> {
        fill(buffer, size);
        let length = zstd.whole(&self.bytes, &mut buffer[..size])?;
        self.used = self.bytes.len();
        Some(Piece { buffer: std::mem::take(buffer), length, then: Then::End })
    }
}

/// The next piece of a frame that is too long to be in memory. Not a byte behind it is taken.
pub(super) fn stream(zstd: &mut Zstd, input: &mut Input, start: u64, mut buffer: Vec<u8>) -> Piece {
    fill(&mut buffer, PIECE);
    let mut length = 0;
    let then = loop {
        if length == buffer.len() {
            break Then::More;
        }
        let (used, made, progress) = zstd.step(input.peek(zstd.wants()), &mut buffer[length..]);
        input.consume(used);
        length += made;
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Stuck) => break Then::Fault(Fault::CutShort, input.offset() - start),
            Err(fault) => break Then::Fault(fault, input.offset() - start),
            Ok(Progress::Ended) => break Then::End,
        }
    };
    Piece { buffer, length, then }
}

fn fill(buffer: &mut Vec<u8>, size: usize) {
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
}
