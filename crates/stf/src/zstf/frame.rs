//! zstd frames of chunks: where one ends, and its contents.
//!
//! compressed bytes ─▶ **frames** ─▶ parts of their contents
//!
//! A frame encodes the length of each of its blocks, so that its end is found without decompressing it.
//! Specification: RFC 8878, "Zstandard Frames".

use unspool_container::{Fault, Input, MaybeSeek, Progress, ZstdDecoder, is_zstd_frame, is_zstd_skippable_frame};

/// Maximum bytes of a part. A chunk of no more bytes is decompressed at once, and stays in the cache until it is read.
pub(super) const PART: usize = 4 << 20;

/// Outcome of a walk along a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    /// At its end.
    Whole,
    /// Within it: it is longer than allowed.
    Long,
    /// At the end of the file, or where it contradicts itself. A decoder will report which.
    Broken,
}

/// Consumes a frame, but not much more than `max` bytes of it.
pub(super) fn read_frame(input: &mut Input<MaybeSeek>, frame: &mut Vec<u8>, max: usize) -> Walked {
    let first = input.peek(8);
    if is_zstd_skippable_frame(first) {
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
        if frame.len() > max {
            return Walked::Long;
        }
    }
}

fn rest(input: &mut Input<MaybeSeek>, frame: &mut Vec<u8>) -> Walked {
    input.append(frame, 8);
    Walked::Broken
}

fn whole(is_whole: bool) -> Walked {
    if is_whole { Walked::Whole } else { Walked::Broken }
}

/// Bytes of the header after the flags.
fn header_length(flags: u8) -> usize {
    let is_single_segment = flags & 0x20 != 0;
    let window = usize::from(!is_single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
    let content = [usize::from(is_single_segment), 2, 4, 8][usize::from(flags >> 6)];
    window + dictionary + content
}

/// Some records of a chunk.
pub(super) struct ChunkPart {
    pub(super) buffer: Vec<u8>,
    pub(super) length: usize,
    pub(super) then: Then,
}

/// What follows a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// More of the chunk.
    More,
    /// The end of the chunk.
    End,
    /// Nothing: a fault, at this offset from the start of the chunk.
    Fault(Fault, u64),
    /// Nothing: there is no chunk.
    NoChunk,
}

/// A compressed chunk in memory, and how far it was decompressed.
pub(crate) struct CompressedChunk {
    pub(super) bytes: Vec<u8>,
    pub(super) used: usize,
    /// Bytes of its records, if they are known or expected to be few.
    pub(super) size: Option<u64>,
}

impl CompressedChunk {
    /// The next part of it.
    pub(super) fn next(&mut self, zstd: &mut ZstdDecoder, mut buffer: Vec<u8>) -> ChunkPart {
        let is_first = self.used == 0;
        if is_first {
            if let Some(part) = self.at_once(zstd, &mut buffer) {
                return part;
            }
            zstd.start();
        }
        fill(&mut buffer, PART);
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
                // A frame may ask for more memory than it needs. A small chunk is read anyway.
                Err(Fault::Memory) if is_first => match self.within(zstd, &mut Vec::new(), PART) {
                    Some(part) => return part,
                    None => break Then::Fault(Fault::Memory, self.used as u64),
                },
                Err(fault) => break Then::Fault(fault, self.used as u64),
                Ok(Progress::Ended) if self.used == self.bytes.len() => break Then::End,
                Ok(Progress::Ended) if is_zstd_frame(&self.bytes[self.used..]) => zstd.start(),
                Ok(Progress::Ended) => break Then::Fault(Fault::Trailing, self.used as u64),
            }
        };
        ChunkPart { buffer, length, then }
    }

    /// All of it, if it is small and sound.
    fn at_once(&mut self, zstd: &mut ZstdDecoder, buffer: &mut Vec<u8>) -> Option<ChunkPart> {
        let size = self.size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= PART)?;
        self.within(zstd, buffer, size)
    }

    /// All of it, if it has no more than `size` bytes.
    fn within(&mut self, zstd: &mut ZstdDecoder, buffer: &mut Vec<u8>, size: usize) -> Option<ChunkPart> {
        fill(buffer, size);
        let length = zstd.whole(&self.bytes, &mut buffer[..size])?;
        self.used = self.bytes.len();
        Some(ChunkPart { buffer: std::mem::take(buffer), length, then: Then::End })
    }
}

/// The next part of a frame that is too long to be in memory. Not a byte after it is consumed.
pub(super) fn stream(
    zstd: &mut ZstdDecoder,
    input: &mut Input<MaybeSeek>,
    start: u64,
    mut buffer: Vec<u8>,
) -> ChunkPart {
    fill(&mut buffer, PART);
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
    ChunkPart { buffer, length, then }
}

fn fill(buffer: &mut Vec<u8>, size: usize) {
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
}
