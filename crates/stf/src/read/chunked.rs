//! Chunks of a .zstf file as the window of a reader, and seeking to an instruction.

use std::io::Read;
use std::ops::ControlFlow;

use super::error::{MAX_RECORD, MAX_WARNINGS, ReadError, ReadErrorKind, Warning};
use super::markers::{ChunkSizes, MarkerCount, is_marker};
use super::{ChunkStart, Reader, Source};
use crate::lift::Follower;
use crate::position::Position;
use crate::record::Record;

/// With more bytes left than this, several chunks are added at once.
const LARGE_REST: usize = 64 << 10;

/// No trace is longer than this.
const MAX_OFFSET: u64 = u64::MAX / 2;

impl<R: Read> Reader<R> {
    /// The chunk sizes of a .zstf file.
    pub fn chunks(&self) -> Option<ChunkSizes> {
        let Source::Chunks(chunks) = &self.source else { return None };
        Some(ChunkSizes { instructions: chunks.markers(), count: chunks.count() })
    }

    /// Compares the address at the start of a later chunk with the index.
    pub(crate) fn check_pc(&mut self, chunk: u64, found: u64) {
        let Source::Chunks(chunks) = &self.source else { return };
        let entry = chunks.index().and_then(|index| index.get(chunk as usize));
        if let Some(index) = entry.map(|entry| entry.pc).filter(|pc| *pc != found) {
            self.warn(Warning::WrongPc { chunk, index, found });
        }
    }

    /// Makes the next part of a chunk the window, or appends it to the remaining bytes.
    pub(super) fn fill_chunk(&mut self) -> Result<(), ReadError> {
        let left = self.end - self.start;
        if left >= MAX_RECORD {
            return Err(self.error(ReadErrorKind::TooLong));
        }
        let wanted = if left > LARGE_REST { left } else { 1 };
        self.window.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, left);
        self.add_part();
        while self.end - left < wanted && !self.at_end {
            // With several chunks in the window, markers cannot be assigned to a chunk.
            self.count.is_known = false;
            self.add_part();
            self.count.is_known = false;
        }
        Ok(())
    }

    fn add_part(&mut self) {
        let Source::Chunks(chunks) = &mut self.source else { return };
        // A window with remaining bytes cannot be the output buffer of the decompressor.
        let spare = if self.end == 0 { std::mem::take(&mut self.window) } else { Vec::new() };
        let part = chunks.next(spare);
        let expected = chunks.markers();
        let warnings: Vec<Warning> = chunks.take_warnings().collect();
        // A chunk that is damaged from its first byte still counts if the index has it.
        let is_damaged = match part.end {
            Some(Some(ReadErrorKind::NoChunk { .. })) => chunks.should_be(part.chunk),
            Some(Some(ReadErrorKind::Chunk { .. })) => true,
            _ => false,
        };
        let next = Some(part.chunk).filter(|_| part.length > 0 || is_damaged);
        if next.is_none() || self.count.chunk != next {
            self.check_markers(next, expected);
        }
        if let Some(chunk) = next {
            self.note_start(chunk);
        }
        if self.end == 0 {
            (self.window, self.end) = (part.buffer, part.length);
        } else {
            self.window.truncate(self.end);
            self.window.extend_from_slice(&part.buffer[..part.length]);
            self.end = self.window.len();
        }
        if let Some(end) = part.end {
            (self.at_end, self.failed) = (true, end);
        }
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    /// Notes that the next bytes are of this chunk, and forgets chunks before the window.
    fn note_start(&mut self, chunk: u64) {
        let left = self.end - self.start;
        if self.starts.back().is_none_or(|last| last.chunk != chunk) {
            let offset = self.next.offset + left as u64;
            self.starts.push_back(ChunkStart { chunk, offset, is_inside_group: left > 0 });
        }
        while self.starts.get(1).is_some_and(|start| start.offset <= self.next.offset) {
            self.starts.pop_front();
        }
    }

    /// The chunk of a record that cannot be read. If a chunk ends inside of a group, and no instruction was found after
    /// it, the damage may be there.
    fn chunk_at(&self, offset: u64) -> Option<u64> {
        let start = self.starts.iter().rev().find(|start| start.offset <= offset)?;
        let is_before = start.is_inside_group && self.count.chunk == Some(start.chunk) && self.count.found == 0;
        start.chunk.checked_sub(u64::from(is_before))
    }

    /// Checks the marker count of the current chunk, which has ended, and starts the next one.
    pub(super) fn check_markers(&mut self, next: Option<u64>, expected: u64) {
        let MarkerCount { chunk, found, is_known } = self.count;
        let is_wrong = found > expected || (found < expected && next.is_some());
        if let (Some(chunk), true, true) = (chunk, is_known, is_wrong) {
            self.warn(Warning::WrongMarkers { chunk, found, expected });
        }
        self.count = MarkerCount { chunk: next, found: 0, is_known: true };
    }

    pub(super) fn warn(&mut self, warning: Warning) {
        match self.warnings.len() {
            MAX_WARNINGS.. => {}
            length if length == MAX_WARNINGS - 1 => self.warnings.push(Warning::More),
            _ => self.warnings.push(warning),
        }
    }

    /// Continues after an error, at the chunk after the damaged one, and sets the follower accordingly. `None`: reading
    /// cannot continue, because the error is another one, the index does not have another chunk, or its sizes are impossible.
    ///
    /// The index has the address of the next instruction. What else earlier records determine is lost: the mode is
    /// unknown, and the encoding mode and the size of vectors are assumed to be those before the damage. Record numbers
    /// count only the records that were read.
    pub fn resume(&mut self, error: &ReadError, follower: &mut Follower) -> Option<Warning> {
        let Source::Chunks(chunks) = &self.source else { return None };
        let (index, markers) = (chunks.index().filter(|_| !self.is_header_only)?, chunks.markers());
        let (chunk, at, fault) = match error.kind {
            ReadErrorKind::Chunk { chunk, at, fault } => (chunk, at, Some(fault)),
            // The record may extend into later chunks, which are not damaged for that.
            ReadErrorKind::Malformed(_) | ReadErrorKind::TooLong => {
                let chunk = self.chunk_at(error.offset)?;
                (chunk, index.get(chunk as usize)?.offset, None)
            }
            _ => return None,
        };
        let next_pc = index.get(chunk as usize + 1)?.pc;
        let offset = self.end_of_damaged(chunk, index.get(chunk as usize)?.size)?;
        let instructions = (chunk + 1).checked_mul(markers)?;
        let found = if self.count.chunk == Some(chunk) { self.count.found } else { 0 };
        self.restart_at(chunk + 1, Position { record: error.record, offset });
        *follower = Follower { next_pc, mode: None, instructions, ..*follower };
        let warning = Warning::DamagedChunk { chunk, at, fault, lost: markers.saturating_sub(found) };
        self.warn(warning);
        Some(warning)
    }

    /// Offset in the trace of the end of a chunk that was not read to its end, by its size in the index. Offsets increase,
    /// even if that is wrong. `None`: the size is impossible.
    fn end_of_damaged(&self, chunk: u64, size: u64) -> Option<u64> {
        let start = |number: u64| self.starts.iter().find(|start| start.chunk == number).map(|start| start.offset);
        let end = start(chunk).map_or(Some(self.next.offset), |start| start.checked_add(size));
        let end = start(chunk + 1).or(end).filter(|end| *end <= MAX_OFFSET)?;
        Some(end.max(self.next.offset))
    }

    /// Seeks to the instruction after the first `before` ones, and sets the follower accordingly. With the index of a
    /// .zstf file only the chunk of that instruction is read; otherwise reading continues forward. False: there are
    /// fewer.
    ///
    /// After a seek through the index, the mode is unknown if it was recorded in an earlier chunk, and records are
    /// counted from the start of the chunk.
    pub fn seek_instruction(&mut self, before: u64, follower: &mut Follower) -> Result<bool, ReadError> {
        self.seek_chunk(before, follower)?;
        if before < follower.instructions {
            return Err(self.error(ReadErrorKind::Backward(before)));
        }
        while follower.instructions < before {
            let has_more = self.each_instruction(follower, |instruction| match instruction.number == before {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })?;
            if !has_more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Seeks to the chunk of an instruction, if it is not the current one and the index is reliable.
    fn seek_chunk(&mut self, before: u64, follower: &mut Follower) -> Result<(), ReadError> {
        let Some((target, markers)) = self.chunk_of(before) else { return Ok(()) };
        let is_ahead = follower.instructions <= before;
        let is_near = is_ahead && before - follower.instructions < markers && target == follower.instructions / markers;
        if is_near {
            return Ok(());
        }
        let first = match self.first {
            Some(first) => first,
            None => self.first_chunk()?,
        };
        self.first = Some(first);
        let Some(start) = first else {
            // The chunk sizes in the file are wrong, so instructions have to be counted from the start.
            self.restart_at(0, Position::default());
            *follower = Follower::default();
            return Ok(());
        };
        let Source::Chunks(chunks) = &self.source else { return Ok(()) };
        let Some(index) = chunks.index() else { return Ok(()) };
        let mut sizes = index.iter().take(target as usize).map(|entry| entry.size);
        let Some(offset) = sizes.try_fold(0, u64::checked_add).filter(|offset| *offset <= MAX_OFFSET) else {
            self.warn(Warning::DamagedIndex("its sizes are larger than those of a file can be"));
            self.first = Some(None);
            self.restart_at(0, Position::default());
            *follower = Follower::default();
            return Ok(());
        };
        let pc = index.get(target as usize).map_or(0, |entry| entry.pc);
        self.restart_at(target, Position { record: 0, offset });
        *follower = match target {
            0 => Follower::default(),
            _ => Follower { next_pc: pc, instructions: target * markers, ..start },
        };
        Ok(())
    }

    /// The chunk of an instruction according to the index, and the number of instructions per chunk.
    fn chunk_of(&self, before: u64) -> Option<(u64, u64)> {
        let Source::Chunks(chunks) = &self.source else { return None };
        let last = (chunks.index()?.len() as u64).checked_sub(1)?;
        Some(((before / chunks.markers()).min(last), chunks.markers()))
    }

    /// Reads the header in the first chunk. `None`: the chunk has an unexpected number of instructions.
    fn first_chunk(&mut self) -> Result<Option<Follower>, ReadError> {
        let Source::Chunks(chunks) = &self.source else { return Ok(None) };
        let (expected, has_more) = (chunks.markers(), chunks.index().is_some_and(|index| index.len() > 1));
        let size = chunks.index().and_then(|index| index.first()).map_or(0, |entry| entry.size);
        self.restart_at(0, Position::default());
        let (mut start, mut found) = (Follower::default(), 0);
        self.each(|position, record| {
            match record {
                Record::Isa(isa) if found == 0 => start.isa = *isa,
                Record::InstIem(iem) if found == 0 => start.iem = *iem,
                _ => found += u64::from(is_marker(record.descriptor())),
            }
            if position.offset >= size { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok((found == expected || !has_more).then_some(start))
    }

    /// Continues with this chunk.
    pub(super) fn restart_at(&mut self, chunk: u64, position: Position) {
        let Source::Chunks(chunks) = &mut self.source else { return };
        chunks.seek(chunk);
        (self.start, self.end, self.at_end, self.is_after_end) = (0, 0, false, false);
        self.failed = None;
        self.next = position;
        self.count = MarkerCount::default();
        self.starts.clear();
    }
}
