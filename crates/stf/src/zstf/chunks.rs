//! Reading the chunks of a .zstf file.
//!
//! With the index, chunks are read at the offsets it has; without, or where it cannot be right, from frame to frame.
//! Either way they come out in order, decompressed by several threads.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use unspool_container::{Damage, Fault, Input, MaybeSeek, Workers, ZstdDecoder, is_zstd_frame};

use super::frame::{self, ChunkPart, CompressedChunk, PART, Then, Walked};
use super::{ENTRY, Entry, HEADER, MAX_THREADS};
use crate::read::error::{ReadErrorKind, Warning};

/// A chunk with more compressed bytes than this is not held in memory.
const LARGE: u64 = 32 << 20;

/// Maximum number of chunks that are remembered, to compare them with the index that follows them.
const REMEMBERED: usize = 1 << 20;

/// Some records, for the reader.
pub(crate) struct Part {
    pub(crate) buffer: Vec<u8>,
    pub(crate) length: usize,
    /// Number of their chunk.
    pub(crate) chunk: u64,
    /// Nothing follows, for this reason if there is one.
    pub(crate) end: Option<Option<ReadErrorKind>>,
}

/// The chunks of a file, in order.
pub(crate) struct Chunks {
    input: Input<MaybeSeek>,
    /// Number of instructions that a chunk should have.
    markers: u64,
    /// Offset that the index should have; 0: there is none.
    end: u64,
    index: Option<Vec<Entry>>,
    /// The index has to be compared with what was found before it.
    compares: bool,
    /// Chunks are read by the index. False: from frame to frame.
    by_index: bool,
    /// Number of the next chunk to be read.
    next: u64,
    /// The index is wrong about that one. That is dealt with when its turn comes, so that it is the same for any number
    /// of threads.
    is_next_odd: bool,
    has_ended: bool,
    has_failed: bool,
    queue: VecDeque<Pending>,
    zstd: ZstdDecoder,
    /// Number of threads that may decompress.
    threads: usize,
    /// They start when more than one part is asked for.
    workers: Workers<CompressedChunk, ChunkPart>,
    spare: Spare,
    runs_ahead: bool,
    /// Offsets and sizes of the chunks that were found.
    found: Vec<(u64, u64)>,
    last_size: u64,
    warnings: Vec<Warning>,
}

/// Buffers to be used again.
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

/// A chunk that is being decompressed.
struct Pending {
    chunk: u64,
    offset: u64,
    /// Number of its frames, if it is not one.
    frames: Option<u64>,
    /// Bytes of it so far.
    size: u64,
    source: Source,
}

enum Source {
    Worker(Receiver<ChunkPart>),
    Memory(CompressedChunk),
    /// Too long to be held: straight from the input.
    Stream,
    /// There is no such chunk.
    None(Then),
}

impl Chunks {
    /// Reads the header, and the index where that is possible.
    pub(crate) fn new(mut input: Input<MaybeSeek>, threads: usize) -> Result<Self, ReadErrorKind> {
        let (markers, end) = header(&mut input)?;
        let zstd = ZstdDecoder::new().map_err(|fault| Damage { offset: 0, fault })?;
        let mut chunks = Self { end, ..Self::none(input, markers, zstd, threads) };
        chunks.read_index()?;
        Ok(chunks)
    }

    /// Chunks of no file; see [`one`](Self::one).
    pub(crate) fn unknown(markers: u64) -> Option<Self> {
        let input = Input::new(MaybeSeek::Pipe(Box::new(io::empty())));
        Some(Self::none(input, markers, ZstdDecoder::new().ok()?, 1))
    }

    fn none(input: Input<MaybeSeek>, markers: u64, zstd: ZstdDecoder, threads: usize) -> Self {
        let spare = Spare::default();
        Self {
            input,
            markers,
            end: 0,
            index: None,
            compares: false,
            by_index: false,
            next: 0,
            is_next_odd: false,
            has_ended: false,
            has_failed: false,
            queue: VecDeque::new(),
            zstd,
            threads,
            workers: workers(threads, &spare),
            spare,
            runs_ahead: false,
            found: Vec::new(),
            last_size: 0,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn markers(&self) -> u64 {
        self.markers
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Number of chunks, if it is known.
    pub(crate) fn count(&self) -> Option<u64> {
        match self.index() {
            Some(index) => Some(index.len() as u64),
            None => Some(self.next).filter(|_| self.has_ended && self.queue.is_empty() && !self.has_failed),
        }
    }

    /// The index, if chunks are read by it.
    pub(crate) fn index(&self) -> Option<&[Entry]> {
        self.index.as_deref().filter(|_| self.by_index)
    }

    /// Whether the index has this chunk, at any offset.
    pub(crate) fn should_be(&self, chunk: u64) -> bool {
        self.index.as_ref().is_some_and(|index| chunk < index.len() as u64)
    }

    /// Warnings about the file, as far as it was read. Each is returned once.
    pub(crate) fn take_warnings(&mut self) -> impl Iterator<Item = Warning> {
        self.warnings.drain(..)
    }

    /// Continues with this chunk, which the index has.
    pub(crate) fn seek(&mut self, chunk: u64) {
        self.queue.clear();
        (self.next, self.is_next_odd, self.has_ended, self.has_failed, self.runs_ahead) =
            (chunk, false, false, false, false);
    }

    /// A chunk as it is in the file, if it is sound and can be held in memory. To continue otherwise,
    /// [`seek`](Self::seek) first.
    pub(crate) fn compressed(&mut self, chunk: u64) -> Option<CompressedChunk> {
        let entry = *self.index()?.get(chunk as usize)?;
        let length = self.end_of(chunk).saturating_sub(entry.offset);
        if length > LARGE || self.queue.iter().any(|pending| matches!(pending.source, Source::Stream)) {
            return None;
        }
        self.input.seek(entry.offset).ok()?;
        let bytes = self.bytes(length as usize);
        (frames(&bytes) == 1).then_some(CompressedChunk { bytes, used: 0, size: Some(entry.size) })
    }

    /// Whether all parts of a chunk came out.
    pub(crate) fn is_after(&self, chunk: u64) -> bool {
        self.queue.front().is_none_or(|pending| pending.chunk > chunk)
    }

    /// Continues with one chunk only, which is not in a file.
    pub(crate) fn one(&mut self, chunk: CompressedChunk) {
        self.seek(0);
        self.found.clear();
        let pending = self.pending(0, Source::Memory(chunk));
        self.queue.push_back(pending);
        self.has_ended = true;
    }

    /// The next part, in the buffer `spare` if no thread decompresses it.
    pub(crate) fn next(&mut self, mut spare: Vec<u8>) -> Part {
        loop {
            self.top_up();
            let Some(mut pending) = self.queue.pop_front() else {
                return Part { buffer: spare, length: 0, chunk: self.next, end: Some(self.last()) };
            };
            if let Some(frames) = pending.frames.take() {
                self.warnings.push(Warning::SeveralFrames { chunk: pending.chunk, frames });
            }
            let part = match &mut pending.source {
                Source::Worker(parts) => {
                    if !spare.is_empty() {
                        let mut all = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
                        all.push(std::mem::take(&mut spare));
                    }
                    parts.recv().unwrap_or_else(|_| worker_lost())
                }
                Source::Memory(chunk) => chunk.next(&mut self.zstd, spare),
                Source::Stream => {
                    if pending.size == 0 {
                        self.zstd.start();
                    }
                    frame::stream(&mut self.zstd, &mut self.input, pending.offset, spare)
                }
                Source::None(then) => ChunkPart { buffer: spare, length: 0, then: *then },
            };
            let ChunkPart { buffer, length, then } = part;
            pending.size += length as u64;
            let (chunk, offset) = (pending.chunk, pending.offset);
            let end = match then {
                Then::More => {
                    self.queue.push_front(pending);
                    None
                }
                Then::End => {
                    self.compare_entry(&pending);
                    None
                }
                Then::Fault(fault, after) => {
                    let failed = self.input.failure().filter(|_| fault == Fault::CutShort);
                    let of_chunk = || ReadErrorKind::Chunk { chunk, at: offset + after, fault };
                    Some(Some(failed.map_or_else(of_chunk, ReadErrorKind::Io)))
                }
                Then::NoChunk => Some(Some(ReadErrorKind::NoChunk { chunk, at: offset })),
            };
            if end.is_some() {
                (self.has_ended, self.has_failed) = (true, true);
                self.queue.clear();
            }
            if length == 0 && end.is_none() {
                spare = buffer;
                continue;
            }
            self.runs_ahead = true;
            return Part { buffer, length, chunk, end };
        }
    }

    /// Compares a chunk that came out whole with the index.
    fn compare_entry(&mut self, pending: &Pending) {
        self.last_size = pending.size;
        if self.by_index {
            let entry = self.index.as_ref().and_then(|index| index.get(pending.chunk as usize));
            if let Some(entry) = entry.filter(|entry| entry.size != pending.size) {
                self.warnings.push(Warning::WrongSize { chunk: pending.chunk, index: entry.size, found: pending.size });
            }
            if let Source::Stream = pending.source {
                self.after_stream(pending.chunk);
            }
        } else if self.found.len() < REMEMBERED {
            self.found.push((pending.offset, pending.size));
        }
    }

    /// Checks that a chunk that was not held ended where the next one starts.
    fn after_stream(&mut self, chunk: u64) {
        if self.input.offset() != self.end_of(chunk) {
            self.leave_index(chunk, "a chunk is elsewhere");
        }
    }

    /// Reads chunks until enough are in flight.
    fn top_up(&mut self) {
        let limit = if self.runs_ahead && self.threads > 1 { self.threads.min(MAX_THREADS) + 2 } else { 1 };
        while self.queue.len() < limit && !self.has_ended {
            if let Some(Pending { source: Source::Stream, .. }) = self.queue.back() {
                return;
            }
            if self.is_next_odd && !self.queue.is_empty() {
                return;
            }
            let pending = if self.by_index { self.indexed() } else { self.walked() };
            match pending {
                Some(pending) => self.queue.push_back(pending),
                None => self.has_ended = !self.is_next_odd,
            }
        }
    }

    /// Offset of the end of a chunk by the index.
    fn end_of(&self, chunk: u64) -> u64 {
        let next = self.index.as_ref().and_then(|index| index.get(chunk as usize + 1));
        next.map_or(self.end, |next| next.offset)
    }

    /// The next chunk by the index. `None`: there is none, or the index is wrong about it and it is not yet its turn.
    fn indexed(&mut self) -> Option<Pending> {
        let entry = *self.index.as_ref()?.get(self.next as usize)?;
        if let Err(error) = self.input.seek(entry.offset) {
            self.input.fail(error);
            return None;
        }
        let length = self.end_of(self.next).saturating_sub(entry.offset);
        if length > LARGE {
            return Some(self.pending(entry.offset, Source::Stream));
        }
        let bytes = self.bytes(length as usize);
        let frames = frames(&bytes);
        // If another chunk, or the index, starts where this one should end, the frame is damaged. The decoder finds out how.
        let is_elsewhere = frames == 0 && !self.is_boundary(entry.offset + length);
        self.is_next_odd = is_elsewhere && !self.queue.is_empty();
        if self.is_next_odd {
            return None;
        }
        if is_elsewhere {
            // Reading from frame to frame will find out where the chunk ends.
            self.leave_index(self.next, "a chunk is elsewhere");
            return match self.input.seek(entry.offset) {
                Ok(()) => self.walked(),
                Err(error) => {
                    self.input.fail(error);
                    None
                }
            };
        }
        let source = self.send(CompressedChunk { bytes, used: 0, size: Some(entry.size) });
        Some(Pending { frames: Some(frames).filter(|frames| *frames > 1), ..self.pending(entry.offset, source) })
    }

    /// Is the input at this offset, where a chunk or the index starts?
    fn is_boundary(&mut self, offset: u64) -> bool {
        self.input.offset() == offset && (offset == self.end || is_zstd_frame(self.input.peek(4)))
    }

    /// The next bytes of the file; fewer at its end.
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length.min(1 << 20));
        self.input.append(&mut bytes, length);
        bytes
    }

    /// Stops using the index, which is wrong about this chunk.
    fn leave_index(&mut self, chunk: u64, why: &'static str) {
        self.warnings.push(Warning::DamagedIndex(why));
        self.by_index = false;
        self.next = self.next.max(chunk);
    }

    /// The next chunk, at the end of the last one.
    fn walked(&mut self) -> Option<Pending> {
        let offset = self.input.offset();
        if offset == self.end {
            return None;
        }
        let first = self.input.peek(4);
        if !is_zstd_frame(first) {
            let then = if first.len() < 4 { Then::Fault(Fault::CutShort, 0) } else { Then::NoChunk };
            // Without an index, it is not known whether there should be more.
            return (offset < self.end).then(|| self.pending(offset, Source::None(then)));
        }
        let mut bytes = Vec::new();
        let walked = frame::read_frame(&mut self.input, &mut bytes, LARGE as usize);
        if walked == Walked::Long {
            self.input.unread(bytes);
            return Some(self.pending(offset, Source::Stream));
        }
        let size = Some(PART as u64).filter(|size| self.last_size <= *size);
        let source = self.send(CompressedChunk { bytes, used: 0, size });
        Some(self.pending(offset, source))
    }

    fn send(&mut self, chunk: CompressedChunk) -> Source {
        if !self.runs_ahead || self.threads <= 1 {
            return Source::Memory(chunk);
        }
        self.workers.push(chunk).map_or_else(Source::Memory, Source::Worker)
    }

    fn pending(&mut self, offset: u64, source: Source) -> Pending {
        self.next += 1;
        Pending { chunk: self.next - 1, offset, frames: None, size: 0, source }
    }
}

impl Chunks {
    /// Reads the index, and returns to the first chunk.
    fn read_index(&mut self) -> io::Result<()> {
        if self.end == 0 {
            self.warnings.push(Warning::Unfinished);
            return Ok(());
        }
        let Some(length) = self.input.length()? else {
            self.compares = true;
            return Ok(());
        };
        match self.entries(length) {
            Ok((index, end)) => {
                if end < length {
                    self.warnings.push(Warning::Trailing { at: end });
                }
                (self.index, self.by_index) = (Some(index), true);
            }
            Err(why) => self.warnings.push(Warning::DamagedIndex(why)),
        }
        self.input.seek(HEADER)
    }

    /// The index of a file of this length and the offset of its end, or why there is none.
    fn entries(&mut self, length: u64) -> Result<(Vec<Entry>, u64), &'static str> {
        let room = length.checked_sub(self.end).ok_or("it should start after the end of the file")?;
        if self.end < HEADER || self.input.seek(self.end).is_err() {
            return Err("it should start before the chunks do");
        }
        let count = self.word().ok_or(SHORT)?;
        if count > (room - 8) / ENTRY {
            return Err(SHORT);
        }
        let mut index = Vec::new();
        for _ in 0..count {
            index.push(self.entry().ok_or(SHORT)?);
        }
        let is_ordered = index.windows(2).all(|pair| pair[0].offset < pair[1].offset);
        let first = index.first().map_or(self.end, |entry| entry.offset);
        let is_within = index.last().is_none_or(|entry| entry.offset < self.end);
        if !is_ordered || first != HEADER || !is_within {
            return Err("its chunks are not where chunks can be");
        }
        Ok((index, self.end + 8 + count * ENTRY))
    }

    fn word(&mut self) -> Option<u64> {
        let word = u64::from_le_bytes(*self.input.peek(8).first_chunk()?);
        self.input.consume(8);
        Some(word)
    }

    fn entry(&mut self) -> Option<Entry> {
        let entry = Entry::from_bytes(self.input.peek(ENTRY as usize).first_chunk()?);
        self.input.consume(ENTRY as usize);
        Some(entry)
    }

    /// Why nothing follows the last chunk, if not because all is read.
    fn last(&mut self) -> Option<ReadErrorKind> {
        if std::mem::take(&mut self.compares) {
            let is_there = self.input.offset() == self.end;
            let difference = if is_there { self.compare() } else { Some("it should start within a chunk") };
            self.warnings.extend(difference.map(Warning::DamagedIndex));
        }
        let failed = self.input.failure().map(ReadErrorKind::Io);
        self.has_failed |= failed.is_some();
        failed
    }

    /// The difference between the index, which is next, and what was found.
    fn compare(&mut self) -> Option<&'static str> {
        let Some(count) = self.word() else { return Some(SHORT) };
        if count != self.next {
            return Some("it has another number of chunks than the file");
        }
        let found = std::mem::take(&mut self.found);
        for chunk in 0..count {
            let Some(entry) = self.entry() else { return Some(SHORT) };
            match found.get(chunk as usize) {
                Some((offset, _)) if *offset != entry.offset => return Some("a chunk is elsewhere"),
                Some((_, size)) if *size != entry.size => {
                    self.warnings.push(Warning::WrongSize { chunk, index: entry.size, found: *size });
                }
                _ => {}
            }
        }
        if !self.input.peek(1).is_empty() {
            self.warnings.push(Warning::Trailing { at: self.input.offset() });
        }
        None
    }
}

const SHORT: &str = "it is cut short";

/// Consumes the header: the number of instructions of a chunk, and the offset of the index.
fn header(input: &mut Input<MaybeSeek>) -> Result<(u64, u64), ReadErrorKind> {
    let bytes = input.peek(HEADER as usize);
    let (markers, end) = match bytes {
        [_, _, _, _, words @ ..] if words.len() == 16 => {
            let (words, _) = words.as_chunks::<8>();
            (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]))
        }
        _ => {
            let length = bytes.len() as u64;
            let failed = input.failure().map(ReadErrorKind::Io);
            return Err(failed.unwrap_or(Damage { offset: length, fault: Fault::CutShort }.into()));
        }
    };
    if markers == 0 {
        return Err(ReadErrorKind::NoMarkers);
    }
    input.consume(HEADER as usize);
    Ok((markers, end))
}

/// Number of frames that the bytes consist of; 0: of something else.
fn frames(bytes: &[u8]) -> u64 {
    let (mut rest, mut frames) = (bytes, 0);
    while !rest.is_empty() {
        match zstd::zstd_safe::find_frame_compressed_size(rest) {
            Ok(length) if length > 0 && length <= rest.len() => rest = &rest[length..],
            _ => return 0,
        }
        frames += 1;
    }
    frames
}

/// Threads that decompress chunks.
fn workers(threads: usize, spare: &Spare) -> Workers<CompressedChunk, ChunkPart> {
    let spare = Arc::clone(spare);
    Workers::new(threads.min(MAX_THREADS), "stf unpack", move || {
        let (spare, mut zstd) = (Arc::clone(&spare), ZstdDecoder::new());
        move |mut chunk: CompressedChunk, parts: &SyncSender<ChunkPart>| {
            let Ok(zstd) = &mut zstd else { return };
            loop {
                let buffer = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
                let part = chunk.next(zstd, buffer);
                let has_more = part.then == Then::More;
                if parts.send(part).is_err() || !has_more {
                    return;
                }
            }
        }
    })
}

/// The thread that had the chunk is gone.
fn worker_lost() -> ChunkPart {
    ChunkPart { buffer: Vec::new(), length: 0, then: Then::Fault(Fault::Memory, 0) }
}
