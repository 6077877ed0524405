//! .zstf: chunks of records, each a zstd frame, and an index of them at the end.
//!
//! ```text
//! ZSTF, M, E │ chunk 0 │ chunk 1 │ … │ E: N, N × (offset, PC, size)
//! ```
//!
//! M instructions are in every chunk but the last. With the index, chunks are read where it says; without, or where it
//! cannot be right, from frame to frame. Either way they come out in order, decompressed by several threads.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Receiver;

use super::Fault;
use super::frame::{self, PIECE, Packed, Piece, Then, Walked, Zstd};
use super::input::{Input, Origin};
use super::workers::{self, MOST_THREADS, Workers};
use crate::read::{ReadErrorKind, Warning};

/// Bytes before the first chunk.
pub(crate) const HEADER: u64 = 20;

/// Bytes of an entry of the index.
pub(crate) const ENTRY: u64 = 24;

/// A chunk with more compressed bytes than this is not held in memory.
const LARGE: u64 = 32 << 20;

/// So many chunks are remembered to compare them with the index behind them.
const REMEMBERED: usize = 1 << 20;

/// What the index says of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    /// Where it is in the file.
    pub(crate) offset: u64,
    /// Where execution goes on with it.
    pub(crate) pc: u64,
    /// How much it holds.
    pub(crate) size: u64,
}

impl Entry {
    fn from_bytes(bytes: &[u8; ENTRY as usize]) -> Self {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Self { offset: word(0), pc: word(8), size: word(16) }
    }

    /// As the file has it.
    pub(crate) fn to_bytes(self) -> [u8; ENTRY as usize] {
        let mut bytes = [0; ENTRY as usize];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (place, word) in words.iter_mut().zip([self.offset, self.pc, self.size]) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

/// A part of the trace for the reader.
pub(crate) struct Part {
    pub(crate) buffer: Vec<u8>,
    pub(crate) length: usize,
    /// The number of the chunk that it is of.
    pub(crate) chunk: u64,
    /// Nothing comes behind it, for this reason if there is one.
    pub(crate) end: Option<Option<ReadErrorKind>>,
}

/// The chunks of a file, in order.
pub(crate) struct Chunks {
    input: Input,
    /// How many instructions a chunk should have.
    markers: u64,
    /// Where the index should be; 0: nowhere.
    end: u64,
    index: Option<Vec<Entry>>,
    /// The index has to be compared with what was found before it.
    compares: bool,
    /// The chunks are where the index says. False: from frame to frame.
    by_index: bool,
    /// The number of the next chunk to be read.
    next: u64,
    /// The index is wrong about that one. That is seen to when its turn comes, so that it is the same for any number of
    /// threads.
    is_next_odd: bool,
    has_ended: bool,
    has_failed: bool,
    queue: VecDeque<Pending>,
    zstd: Zstd,
    /// How many threads may decompress.
    threads: usize,
    /// They start when more than one part is asked for.
    workers: Option<Workers>,
    runs_ahead: bool,
    /// Where chunks were found, and how much they held.
    found: Vec<(u64, u64)>,
    /// How much the last chunk held.
    last_size: u64,
    warnings: Vec<Warning>,
}

/// A chunk on its way.
struct Pending {
    chunk: u64,
    offset: u64,
    /// How many frames it has, if that is odd.
    frames: Option<u64>,
    /// How much of it came out.
    size: u64,
    source: Source,
}

enum Source {
    Worker(Receiver<Piece>),
    Memory(Packed),
    /// Too long to be held: straight from the input.
    Stream,
    /// There is no such chunk.
    None(Fault),
}

impl Chunks {
    /// Reads what is before the first chunk, and the index where that is possible.
    pub(crate) fn new(mut input: Input, threads: usize) -> Result<Self, ReadErrorKind> {
        let (markers, end) = header(&mut input)?;
        let zstd = Zstd::new().map_err(|fault| ReadErrorKind::packed(fault, 0))?;
        let mut chunks = Self { end, threads, ..Self::none(input, markers, zstd) };
        chunks.read_index()?;
        Ok(chunks)
    }

    /// Chunks of a file that is not known.
    pub(crate) fn unknown(markers: u64) -> Option<Self> {
        let input = Input::new(Origin::Pipe(Box::new(io::empty())));
        Some(Self::none(input, markers, Zstd::new().ok()?))
    }

    fn none(input: Input, markers: u64, zstd: Zstd) -> Self {
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
            threads: 1,
            workers: None,
            runs_ahead: false,
            found: Vec::new(),
            last_size: 0,
            warnings: Vec::new(),
        }
    }

    /// How many instructions a chunk should have.
    pub(crate) fn markers(&self) -> u64 {
        self.markers
    }

    /// How many threads may be used.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// How many chunks there are, as far as that is known.
    pub(crate) fn count(&self) -> Option<u64> {
        match self.index() {
            Some(index) => Some(index.len() as u64),
            None => Some(self.next).filter(|_| self.has_ended && self.queue.is_empty() && !self.has_failed),
        }
    }

    /// The index, if chunks are where it says.
    pub(crate) fn index(&self) -> Option<&[Entry]> {
        self.index.as_deref().filter(|_| self.by_index)
    }

    /// Does the index have this chunk, wherever that is?
    pub(crate) fn should_be(&self, chunk: u64) -> bool {
        self.index.as_ref().is_some_and(|index| chunk < index.len() as u64)
    }

    /// What is odd about the file, as far as it was read. Each is told once.
    pub(crate) fn take_warnings(&mut self) -> impl Iterator<Item = Warning> {
        self.warnings.drain(..)
    }

    /// Goes on with this chunk, which the index has.
    pub(crate) fn seek(&mut self, chunk: u64) {
        self.queue.clear();
        (self.next, self.is_next_odd, self.has_ended, self.has_failed, self.runs_ahead) =
            (chunk, false, false, false, false);
    }

    /// What a chunk holds, if there is nothing odd about it and it can be held in memory. Whoever goes on otherwise
    /// has to [`seek`](Self::seek) first.
    pub(crate) fn packed(&mut self, chunk: u64) -> Option<Packed> {
        let entry = *self.index()?.get(chunk as usize)?;
        let length = self.end_of(chunk).saturating_sub(entry.offset);
        if length > LARGE || self.queue.iter().any(|pending| matches!(pending.source, Source::Stream)) {
            return None;
        }
        self.input.seek(entry.offset).ok()?;
        let bytes = self.bytes(length as usize);
        (frames(&bytes) == 1).then_some(Packed { bytes, used: 0, room: Some(entry.size) })
    }

    /// All parts of a chunk came out.
    pub(crate) fn is_behind(&self, chunk: u64) -> bool {
        self.queue.front().is_none_or(|pending| pending.chunk > chunk)
    }

    /// One chunk only, which is not in a file.
    pub(crate) fn one(&mut self, packed: Packed) {
        self.seek(0);
        self.found.clear();
        let pending = self.pending(0, Source::Memory(packed));
        self.queue.push_back(pending);
        self.has_ended = true;
    }

    /// The next part, decompressed to where `spare` was if nobody else does it.
    pub(crate) fn next(&mut self, mut spare: Vec<u8>) -> Part {
        loop {
            self.top_up();
            let Some(mut pending) = self.queue.pop_front() else {
                return Part { buffer: spare, length: 0, chunk: self.next, end: Some(self.last()) };
            };
            if let Some(frames) = pending.frames.take() {
                self.warnings.push(Warning::SeveralFrames { chunk: pending.chunk, frames });
            }
            let piece = match &mut pending.source {
                Source::Worker(pieces) => {
                    if let Some(workers) = &self.workers
                        && !spare.is_empty()
                    {
                        workers::give_back(&workers.spare, std::mem::take(&mut spare));
                    }
                    pieces.recv().unwrap_or_else(|_| lost())
                }
                Source::Memory(packed) => packed.next(&mut self.zstd, spare),
                Source::Stream => {
                    if pending.size == 0 {
                        self.zstd.start();
                    }
                    frame::stream(&mut self.zstd, &mut self.input, pending.offset, spare)
                }
                Source::None(fault) => Piece { buffer: spare, length: 0, then: Then::Fault(*fault, 0) },
            };
            let Piece { buffer, length, then } = piece;
            pending.size += length as u64;
            let (chunk, offset) = (pending.chunk, pending.offset);
            let end = match then {
                Then::More => {
                    self.queue.push_front(pending);
                    None
                }
                Then::End => {
                    self.judge(&pending);
                    None
                }
                Then::Fault(fault, behind) => {
                    (self.has_ended, self.has_failed) = (true, true);
                    self.queue.clear();
                    let failed = self.input.failure().filter(|_| fault == Fault::CutShort);
                    let of_chunk = || ReadErrorKind::Chunk { chunk, at: offset + behind, fault };
                    Some(Some(failed.map_or_else(of_chunk, ReadErrorKind::Io)))
                }
            };
            if length == 0 && end.is_none() {
                spare = buffer;
                continue;
            }
            self.runs_ahead = true;
            return Part { buffer, length, chunk, end };
        }
    }

    /// A chunk came out whole.
    fn judge(&mut self, pending: &Pending) {
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

    /// A chunk that was not held should have ended where the next one starts.
    fn after_stream(&mut self, chunk: u64) {
        if self.input.offset() != self.end_of(chunk) {
            self.leave_index(chunk, "a chunk is elsewhere");
        }
    }

    /// Reads chunks until enough are on their way.
    fn top_up(&mut self) {
        let most = if self.runs_ahead && self.threads > 1 { self.threads.min(MOST_THREADS) + 2 } else { 1 };
        while self.queue.len() < most && !self.has_ended {
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

    /// Where a chunk ends by the index.
    fn end_of(&self, chunk: u64) -> u64 {
        let next = self.index.as_ref().and_then(|index| index.get(chunk as usize + 1));
        next.map_or(self.end, |next| next.offset)
    }

    /// The next chunk, where the index says. `None`: there is none, or it is odd and not yet its turn.
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
        self.is_next_odd = frames == 0 && !self.queue.is_empty();
        if self.is_next_odd {
            return None;
        }
        if frames == 0 {
            // The next chunk starts elsewhere, or the frame is damaged. Whoever goes from frame to frame finds out.
            self.leave_index(self.next, "a chunk is elsewhere");
            return match self.input.seek(entry.offset) {
                Ok(()) => self.walked(),
                Err(error) => {
                    self.input.fail(error);
                    None
                }
            };
        }
        let source = self.give(Packed { bytes, used: 0, room: Some(entry.size) });
        Some(Pending { frames: Some(frames).filter(|frames| *frames > 1), ..self.pending(entry.offset, source) })
    }

    /// The next so many bytes of the file; fewer at its end.
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length.min(1 << 20));
        self.input.append(&mut bytes, length);
        bytes
    }

    /// The index is wrong about this chunk, so it is not used from there on.
    fn leave_index(&mut self, chunk: u64, why: &'static str) {
        self.warnings.push(Warning::DamagedIndex(why));
        self.by_index = false;
        self.next = self.next.max(chunk);
    }

    /// The next chunk, from where the last one ended.
    fn walked(&mut self) -> Option<Pending> {
        let offset = self.input.offset();
        if offset == self.end {
            return None;
        }
        let first = self.input.peek(4);
        if !frame::is_frame(first) {
            let fault = if first.len() < 4 { Fault::CutShort } else { Fault::NoChunk };
            // Without an index nobody knows whether there should be more.
            return (offset < self.end).then(|| self.pending(offset, Source::None(fault)));
        }
        let mut bytes = Vec::new();
        let walked = frame::take(&mut self.input, &mut bytes, LARGE as usize);
        if walked == Walked::Long {
            self.input.unread(bytes);
            return Some(self.pending(offset, Source::Stream));
        }
        let room = Some(PIECE as u64).filter(|size| self.last_size <= *size);
        let source = self.give(Packed { bytes, used: 0, room });
        Some(self.pending(offset, source))
    }

    fn give(&mut self, packed: Packed) -> Source {
        if self.runs_ahead && self.threads > 1 && self.workers.is_none() {
            // Without threads it goes on too.
            self.workers = Workers::new(self.threads).ok();
        }
        match self.workers.as_ref().filter(|_| self.runs_ahead) {
            Some(workers) => Source::Worker(workers.give(packed)),
            None => Source::Memory(packed),
        }
    }

    fn pending(&mut self, offset: u64, source: Source) -> Pending {
        self.next += 1;
        Pending { chunk: self.next - 1, offset, frames: None, size: 0, source }
    }
}

impl Chunks {
    /// Reads the index, and goes back to the first chunk.
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

    /// The index of a file of this length, and where it ends; or why there is none.
    fn entries(&mut self, length: u64) -> Result<(Vec<Entry>, u64), &'static str> {
        let room = length.checked_sub(self.end).ok_or("it should start behind the end of the file")?;
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
        let last = index.last().map_or(HEADER, |entry| entry.offset + 1);
        if !is_ordered || first != HEADER || last > self.end {
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

    /// Behind the last chunk: why there is nothing more, if not because all is read.
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

    /// Where the index, which is next, says something else than what was found.
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

/// Takes the magic number, how many instructions a chunk has, and where the index is.
fn header(input: &mut Input) -> Result<(u64, u64), ReadErrorKind> {
    let bytes = input.peek(HEADER as usize);
    let (markers, end) = match bytes {
        [_, _, _, _, words @ ..] if words.len() == 16 => {
            let (words, _) = words.as_chunks::<8>();
            (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]))
        }
        _ => {
            let length = bytes.len() as u64;
            let failed = input.failure().map(ReadErrorKind::Io);
            return Err(failed.unwrap_or(ReadErrorKind::packed(Fault::CutShort, length)));
        }
    };
    if markers == 0 {
        return Err(ReadErrorKind::packed(Fault::NoMarkers, 4));
    }
    input.consume(HEADER as usize);
    Ok((markers, end))
}

/// How many frames the bytes are; 0: they are not frames only.
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

/// The thread that had the chunk is gone.
fn lost() -> Piece {
    Piece { buffer: Vec::new(), length: 0, then: Then::Fault(Fault::Memory, 0) }
}
