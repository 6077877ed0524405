//! Frames to bytes: unpacks frames one after the other.
//!
//! Takes bytes that start with a frame or a full synchronization. Produces [`Span`]s and [`Mark`]s for a [`FrameSink`].
//! Frames without an id change, which are nearly all, take a short path; groups of frames whose ids were examined take a
//! shorter one. Where frames start if bytes are missing is decided in `deformat.rs`.

use core::ops::Range;

use super::group::Group;
use super::saved::{FRAMES, MAX_OFFSET};
use super::{
    BadFrame, FRAME_DATA, FRAME_LENGTH, FSYNC, FrameError, FrameSink, HSYNC, ID_FLUSH, ID_LAST, ID_NULL, ID_TRIGGER,
    Mark, Span, WholeFrames,
};

/// Frames of a buffer, read from a known start.
#[derive(Debug, Clone)]
pub(super) struct Frames {
    /// The source of the next byte.
    pub(super) id: u8,
    /// The offset of the next byte.
    pub(super) offset: u64,
    /// Bytes skipped since alignment was lost, not yet reported.
    lost: Option<FrameError>,
    /// Offset and length of the run of full synchronizations that ends here.
    syncs: (u64, u8),
}

enum Step {
    Read(usize),
    NeedMore,
}

/// Whether frames can have this state.
pub(super) fn is_state([offset, id, sync, count]: [u64; FRAMES]) -> bool {
    offset <= MAX_OFFSET && id < 0x80 && sync <= MAX_OFFSET && count < 4
}

impl Frames {
    pub(super) fn new(id: u8) -> Self {
        Self { id, offset: 0, lost: None, syncs: (0, 0) }
    }

    /// The state as numbers. `None`: bytes without a frame are not reported yet.
    pub(super) fn save(&self) -> Option<[u64; FRAMES]> {
        let (sync, count) = self.syncs;
        self.lost.is_none().then_some([self.offset, self.id.into(), sync, count.into()])
    }

    /// Frames that continue at a [state](is_state).
    pub(super) fn restored([offset, id, sync, count]: [u64; FRAMES]) -> Self {
        Self { id: id as u8, offset, lost: None, syncs: (sync, count as u8) }
    }

    /// Reads the frames that start before an offset, as far as `bytes` has them whole. Returns the number of bytes read.
    pub(super) fn read(&mut self, bytes: &[u8], until: u64, last: bool, out: &mut impl FrameSink) -> usize {
        let mut at = 0;
        while self.offset < until {
            at += self.read_plain(&bytes[at..], until, out);
            if self.offset >= until {
                break;
            }
            match self.step(&bytes[at..], last, out) {
                Step::Read(length) => {
                    at += length;
                    self.offset += length as u64;
                }
                Step::NeedMore => break,
            }
        }
        at
    }

    /// Ends the buffer.
    pub(super) fn finish(&mut self, out: &mut impl FrameSink) {
        self.report_lost(out);
    }

    /// Skips bytes that belong to no frame.
    pub(super) fn skip(&mut self, length: usize, kind: BadFrame) {
        self.lose(length, kind);
        self.offset += length as u64;
    }

    /// The short path: whole frames with nothing but ids and data in them.
    #[inline]
    fn read_plain(&mut self, bytes: &[u8], until: u64, out: &mut impl FrameSink) -> usize {
        if self.lost.is_some() {
            return 0;
        }
        let (frames, _) = bytes.as_chunks::<FRAME_LENGTH>();
        let wanted = (until - self.offset).div_ceil(FRAME_LENGTH as u64);
        let frames = &frames[..frames.len().min(usize::try_from(wanted).unwrap_or(usize::MAX))];
        let mut read = 0;
        while read < frames.len() {
            let count = frames[read..].iter().take_while(|frame| has_no_ids(frame)).count();
            self.whole(&frames[read..read + count], out);
            read += count;
            let Some(frame) = frames.get(read) else { break };
            let ids = id_pairs(frame);
            if !ids_of(frame, ids).all(is_known) {
                break;
            }
            self.plain(frame, ids, out);
            read += 1;
        }
        if read > 0 {
            self.syncs.1 = 0;
        }
        read * FRAME_LENGTH
    }

    /// May a group of frames be read?
    pub(super) fn is_between_frames(&self) -> bool {
        self.lost.is_none()
    }

    /// Reads a group of frames with nothing but known ids and data in them.
    #[inline]
    pub(super) fn read_group(&mut self, group: &Group<'_>, out: &mut impl FrameSink) {
        self.syncs.1 = 0;
        for (run, next) in group.runs() {
            self.whole(run, out);
            if let Some(frame) = next {
                self.plain(frame, id_pairs(frame), out);
            }
        }
    }

    /// Reads consecutive frames without ids.
    #[inline]
    fn whole(&mut self, frames: &[[u8; FRAME_LENGTH]], out: &mut impl FrameSink) {
        if frames.is_empty() {
            return;
        }
        if is_source(self.id) {
            out.whole(self.id, self.offset, WholeFrames(frames));
            self.offset += (frames.len() * FRAME_LENGTH) as u64;
        } else {
            frames.iter().for_each(|frame| self.plain(frame, 0, out));
        }
    }

    /// Reads a frame with nothing but known ids and data in it.
    #[inline]
    fn plain(&mut self, frame: &[u8; FRAME_LENGTH], ids: u8, out: &mut impl FrameSink) {
        self.unpack(frame, ids, &data_of(frame), None, out);
        self.offset += FRAME_LENGTH as u64;
    }

    fn step(&mut self, bytes: &[u8], last: bool, out: &mut impl FrameSink) -> Step {
        if bytes.is_empty() {
            return Step::NeedMore;
        }
        if bytes.starts_with(&FSYNC) {
            return self.full_sync(out);
        }
        match gather(bytes) {
            Gathered::Frame(frame) => self.frame(bytes, &frame, last, out),
            Gathered::CutShort(length) => self.lose(length, BadFrame::CutShort),
            Gathered::NeedMore if last => self.lose(bytes.len(), BadFrame::Truncated),
            Gathered::NeedMore => Step::NeedMore,
        }
    }

    fn full_sync(&mut self, out: &mut impl FrameSink) -> Step {
        self.report_lost(out);
        if self.syncs.1 == 0 {
            self.syncs.0 = self.offset;
        }
        self.syncs.1 += 1;
        out.mark(Mark::FullSync { offset: self.offset });
        if self.syncs.1 == 4 {
            out.mark(Mark::Barrier { offset: self.syncs.0 });
            self.syncs.1 = 0;
            self.id = ID_NULL;
        }
        Step::Read(FSYNC.len())
    }

    fn frame(&mut self, bytes: &[u8], frame: &Frame, last: bool, out: &mut impl FrameSink) -> Step {
        let ids = id_pairs(&frame.bytes);
        if let Some(id) = ids_of(&frame.bytes, ids).find(|&id| !is_known(id)) {
            return self.damaged(bytes, frame.length, BadFrame::ReservedId(id), last);
        }
        self.report_lost(out);
        self.syncs.1 = 0;
        for &index in frame.half_syncs() {
            out.mark(Mark::HalfSync { offset: self.offset + u64::from(index) });
        }
        self.unpack(&frame.bytes, ids, &data_of(&frame.bytes), Some(&frame.indexes), out);
        Step::Read(frame.length)
    }

    /// An impossible frame. If a full synchronization starts in it, the next frame follows that.
    fn damaged(&mut self, bytes: &[u8], length: usize, kind: BadFrame, last: bool) -> Step {
        match sync_within(bytes, length) {
            None if bytes.len() < length + FSYNC.len() - 1 && !last => Step::NeedMore,
            sync => self.lose(sync.unwrap_or(length), kind),
        }
    }

    fn lose(&mut self, length: usize, kind: BadFrame) -> Step {
        self.syncs.1 = 0;
        let offset = self.offset;
        let lost = self.lost.get_or_insert(FrameError { offset, skipped: 0, kind });
        lost.skipped += length as u64;
        Step::Read(length)
    }

    fn report_lost(&mut self, out: &mut impl FrameSink) {
        if let Some(error) = self.lost.take() {
            out.mark(Mark::Lost(error));
        }
    }

    /// Emits the bytes between the ids of a frame.
    #[inline]
    fn unpack(
        &mut self,
        frame: &[u8; FRAME_LENGTH],
        mut ids: u8,
        data: &[u8; FRAME_LENGTH],
        indexes: Option<&Indexes>,
        out: &mut impl FrameSink,
    ) {
        let mut start = 0;
        while ids != 0 {
            let pair = ids.trailing_zeros() as usize;
            ids &= ids - 1;
            self.emit(data, start..2 * pair, indexes, out);
            start = 2 * pair + 1;
            // With its flag set, an id takes effect after the next byte, if the frame has one.
            if frame[FRAME_DATA] >> pair & 1 == 1 && start < FRAME_DATA {
                self.emit(data, start..start + 1, indexes, out);
                start += 1;
            }
            self.id = frame[2 * pair] >> 1;
        }
        self.emit(data, start..FRAME_DATA, indexes, out);
    }

    #[inline]
    fn emit(
        &self,
        data: &[u8; FRAME_LENGTH],
        range: Range<usize>,
        indexes: Option<&Indexes>,
        out: &mut impl FrameSink,
    ) {
        if range.is_empty() || self.id == ID_NULL {
            return;
        }
        let Some(indexes) = indexes else {
            return emit(self.id, self.offset + range.start as u64, &data[range], out);
        };
        // Half synchronizations may be between these bytes.
        let apart = |byte: &usize| indexes[byte - 1] + 1 != indexes[*byte];
        let mut start = range.start;
        for end in (range.start + 1..range.end).filter(apart).chain([range.end]) {
            emit(self.id, self.offset + u64::from(indexes[start]), &data[start..end], out);
            start = end;
        }
    }
}

#[inline]
fn emit(id: u8, offset: u64, bytes: &[u8], out: &mut impl FrameSink) {
    match id {
        ID_TRIGGER => (offset..).zip(bytes).for_each(|(offset, _)| out.mark(Mark::Trigger { offset })),
        ID_FLUSH => (offset..).zip(bytes).for_each(|(offset, _)| out.mark(Mark::Flush { offset })),
        _ => out.span(Span { id, offset, bytes }),
    }
}

/// The index of each byte of a frame, counted from the frame's start.
type Indexes = [u8; FRAME_LENGTH];

/// A frame without its half synchronizations.
pub(super) struct Frame {
    pub(super) bytes: [u8; FRAME_LENGTH],
    indexes: Indexes,
    /// Number of buffer bytes of the frame.
    pub(super) length: usize,
    syncs: [u8; FRAME_LENGTH],
    sync_count: usize,
}

impl Frame {
    /// A frame without half synchronizations.
    fn whole(bytes: [u8; FRAME_LENGTH]) -> Self {
        let indexes = core::array::from_fn(|index| index as u8);
        Self { bytes, indexes, length: FRAME_LENGTH, syncs: [0; FRAME_LENGTH], sync_count: 0 }
    }

    fn half_syncs(&self) -> &[u8] {
        &self.syncs[..self.sync_count]
    }
}

pub(super) enum Gathered {
    Frame(Frame),
    CutShort(usize),
    NeedMore,
}

/// Greatest number of half synchronizations in a frame.
const MAX_HALF_SYNCS: usize = FRAME_LENGTH;

/// The frame that starts with these bytes.
pub(super) fn gather(bytes: &[u8]) -> Gathered {
    match bytes.first_chunk() {
        // Synchronizations start with this byte where an id could be.
        Some(frame) if frame.iter().step_by(2).all(|even| *even != FSYNC[0]) => Gathered::Frame(Frame::whole(*frame)),
        _ => gather_between(bytes),
    }
}

/// The same where synchronizations are in the frame, or where it is incomplete.
fn gather_between(bytes: &[u8]) -> Gathered {
    let none = [0; FRAME_LENGTH];
    let mut frame = Frame { bytes: none, indexes: none, length: 0, syncs: none, sync_count: 0 };
    let mut filled = 0;
    while filled < FRAME_LENGTH {
        let rest = &bytes[frame.length..];
        let Some(&[even, odd]) = rest.first_chunk::<2>() else { return Gathered::NeedMore };
        if [even, odd] == [0xff, 0xff] {
            if rest.starts_with(&FSYNC) {
                return Gathered::CutShort(frame.length);
            }
            if rest.len() < FSYNC.len() && FSYNC.starts_with(rest) {
                return Gathered::NeedMore;
            }
        }
        let index = frame.length as u8;
        if [even, odd] == HSYNC && frame.sync_count < MAX_HALF_SYNCS {
            frame.syncs[frame.sync_count] = index;
            frame.sync_count += 1;
        } else {
            frame.bytes[filled..filled + 2].copy_from_slice(&[even, odd]);
            frame.indexes[filled..filled + 2].copy_from_slice(&[index, index + 1]);
            filled += 2;
        }
        frame.length += 2;
    }
    Gathered::Frame(frame)
}

pub(super) fn is_source(id: u8) -> bool {
    (ID_NULL + 1..=ID_LAST).contains(&id)
}

/// A full synchronization that starts in a frame of this length.
pub(super) fn sync_within(bytes: &[u8], length: usize) -> Option<usize> {
    bytes[..bytes.len().min(length + FSYNC.len() - 1)].windows(FSYNC.len()).position(|bytes| bytes == FSYNC)
}

/// May a frame name this id?
pub(super) fn is_known(id: u8) -> bool {
    is_source(id) || matches!(id, ID_NULL | ID_FLUSH | ID_TRIGGER)
}

/// The ids that a frame switches to; `pairs` has a bit for each.
pub(super) fn ids_of(frame: &[u8; FRAME_LENGTH], pairs: u8) -> impl Iterator<Item = u8> {
    (0..FRAME_LENGTH / 2).filter(move |pair| pairs >> pair & 1 == 1).map(|pair| frame[2 * pair] >> 1)
}

/// Bit 0 of every even byte of a half frame.
const EVEN_LOW_BITS: u64 = 0x0001_0001_0001_0001;

fn halves(frame: &[u8; FRAME_LENGTH]) -> (u64, u64) {
    let word = u128::from_le_bytes(*frame);
    (word as u64, (word >> 64) as u64)
}

/// The byte pairs of a frame that start with an id, one bit each: their even byte is odd.
#[inline]
pub(super) fn id_pairs(frame: &[u8; FRAME_LENGTH]) -> u8 {
    if has_no_ids(frame) {
        return 0;
    }
    let (low, high) = halves(frame);
    gather_flags(low) | gather_flags(high) << 4
}

/// Whether a frame is all data.
#[inline]
pub(super) fn has_no_ids(frame: &[u8; FRAME_LENGTH]) -> bool {
    let (low, high) = halves(frame);
    (low | high) & EVEN_LOW_BITS == 0
}

/// The data of a frame: even bytes get their lowest bit back from the flags.
#[inline]
pub(super) fn data_of(frame: &[u8; FRAME_LENGTH]) -> [u8; FRAME_LENGTH] {
    let flags = u64::from(frame[FRAME_DATA]);
    let low_bits = u128::from(spread_flags(flags & 0xf)) | u128::from(spread_flags(flags >> 4)) << 64;
    (u128::from_le_bytes(*frame) | low_bits).to_le_bytes()
}

/// Four flags to the low bits of four even bytes.
#[inline]
fn spread_flags(flags: u64) -> u64 {
    (flags | flags << 15 | flags << 30 | flags << 45) & EVEN_LOW_BITS
}

/// The low bits of four even bytes to four flags.
#[inline]
fn gather_flags(half: u64) -> u8 {
    const MOVES: u64 = 1 << 48 | 1 << 33 | 1 << 18 | 1 << 3;
    ((half & EVEN_LOW_BITS).wrapping_mul(MOVES) >> 48) as u8 & 0xf
}
