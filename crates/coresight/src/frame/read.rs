//! Frames to bytes: finds frames, unpacks them, and finds them again when alignment is lost.
//!
//! Takes the buffer in chunks of any size. Produces [`Span`]s and [`Mark`]s for a [`FrameSink`]; chunk boundaries make no
//! difference to them. Frames without an id change, which are nearly all, take a short path. The ids of frames are
//! examined before earlier frames are emitted: after a strange one, the frames before it may be read again from another
//! start (`realign.rs`).

use alloc::vec::Vec;
use core::ops::Range;

use memchr::memmem;

use super::evidence::{SourceEvidence, UnknownSources};
use super::realign::{Choice, LONG_WINDOW, LOOK_BACK, MIN_WINDOW, SHORT_WINDOW, Setting, Shift, Strange};
use super::{
    BadFrame, FRAME_DATA, FRAME_LENGTH, FSYNC, FrameData, FrameError, FrameSink, HSYNC, ID_FLUSH, ID_LAST, ID_NULL,
    ID_TRIGGER, Ids, Mark, Span,
};

/// Start of the frames in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// The first frame starts at the first byte, as in a trace buffer in memory.
    #[default]
    FromStart,
    /// Frames start after a full synchronization, as in a capture of a trace port.
    FromFullSync,
}

/// Takes formatted trace apart. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
#[derive(Debug, Clone)]
pub struct Deformatter<S = UnknownSources> {
    sources: S,
    id: u8,
    aligned: bool,
    /// Bytes skipped since alignment was lost, not yet reported.
    lost: Option<FrameError>,
    /// Offset and length of the run of full synchronizations that ends here.
    syncs: (u64, u8),
    /// Bytes that are not emitted yet.
    carry: Vec<u8>,
    /// The offset of the first byte of `carry`.
    offset: u64,
    ahead: LookAhead,
}

/// State of the look ahead.
#[derive(Debug, Clone)]
struct LookAhead {
    /// Ids that are not strange.
    ids: Ids,
    /// The ids of frames up to this offset were examined. The end of time: ids are never examined.
    until: u64,
    /// The start of frames is in doubt from this offset on, whatever their ids are.
    doubt: u64,
    /// A short window was not enough for the current search.
    is_long: bool,
    /// Number of bytes that searches have examined.
    spent: u64,
}

/// Number of bytes whose ids are examined at once.
const BATCH: usize = 4096;
/// Bytes that searches may examine, besides two for each byte of the buffer: damage everywhere must not take forever.
const CREDIT: u64 = 3 * LONG_WINDOW as u64;
/// Factor by which a search that finds no frames counts: there are probably none.
const IN_VAIN: u64 = 8;
const NEVER: u64 = u64::MAX;

enum Step {
    Read(usize),
    NeedMore,
}

/// Result of looking ahead.
enum Ahead {
    /// Frames that start in this many bytes can be emitted.
    Clear(usize),
    /// The frame at this index is strange.
    Strange(usize),
}

impl Deformatter {
    /// A deformatter at the start of a buffer whose sources are not known.
    pub fn new(layout: Layout) -> Self {
        Self::with_sources(layout, UnknownSources)
    }

    /// A deformatter in the middle of a buffer that never searches for another frame start.
    pub(super) fn trusting(id: u8) -> Self {
        let mut trusting = Self::new(Layout::FromStart);
        trusting.id = id;
        trusting.ahead.until = NEVER;
        trusting
    }
}

impl<S: SourceEvidence> Deformatter<S> {
    /// A deformatter at the start of a buffer. What is known of its sources shows where frames start if bytes are missing.
    pub fn with_sources(layout: Layout, sources: S) -> Self {
        let ids = sources.ids();
        Self {
            sources,
            id: ID_NULL,
            aligned: layout == Layout::FromStart,
            lost: None,
            syncs: (0, 0),
            carry: Vec::new(),
            offset: 0,
            ahead: LookAhead { ids, until: 0, doubt: 0, is_long: false, spent: 0 },
        }
    }

    /// The offset of the next byte that is not processed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Processes the next chunk of the buffer.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl FrameSink) {
        self.advance(bytes, false, out);
    }

    /// Ends the buffer: what is left is less than a frame.
    pub fn finish(&mut self, out: &mut impl FrameSink) {
        self.advance(&[], true, out);
        self.report_lost(out);
    }

    /// Processes a buffer that is all present.
    pub(super) fn read_all(&mut self, bytes: &[u8], out: &mut impl FrameSink) {
        self.read(bytes, true, out);
        self.report_lost(out);
    }

    fn advance(&mut self, bytes: &[u8], last: bool, out: &mut impl FrameSink) {
        if self.carry.is_empty() {
            let read = self.read(bytes, last, out);
            self.carry.extend_from_slice(&bytes[read..]);
        } else {
            let mut carry = core::mem::take(&mut self.carry);
            carry.extend_from_slice(bytes);
            let read = self.read(&carry, last, out);
            carry.drain(..read);
            self.carry = carry;
        }
    }

    /// Returns the number of bytes that are processed.
    fn read(&mut self, bytes: &[u8], last: bool, out: &mut impl FrameSink) -> usize {
        let start = self.offset;
        loop {
            let rest = &bytes[(self.offset - start) as usize..];
            let is_moved = match self.look_ahead(rest, last) {
                _ if !self.aligned => self.read_step(rest, last, out),
                Ahead::Clear(length) => self.read_up_to(rest, length, last, out),
                Ahead::Strange(at) => self.examine(rest, at, last, out),
            };
            if !is_moved {
                return (self.offset - start) as usize;
            }
        }
    }

    /// Examines the ids of the next frames.
    #[inline]
    fn look_ahead(&mut self, bytes: &[u8], last: bool) -> Ahead {
        if self.ahead.until == NEVER || !self.aligned {
            return Ahead::Clear(bytes.len());
        }
        let mut at = (self.ahead.until - self.offset) as usize;
        let limit = at + BATCH;
        while at < limit {
            let undoubted = self.ahead.doubt.saturating_sub(self.offset + at as u64).min(BATCH as u64) as usize;
            at += known_frames(&bytes[at..], undoubted.div_ceil(FRAME_LENGTH), self.ahead.ids);
            if at >= limit {
                break;
            }
            if self.offset + at as u64 >= self.ahead.doubt && at < bytes.len() {
                return self.strange(at);
            }
            match Unit::at(&bytes[at..], last) {
                Unit::NeedMore if last => {
                    self.ahead.until = self.offset + at as u64;
                    return Ahead::Clear(bytes.len());
                }
                Unit::NeedMore => break,
                Unit::Frame(frame) if !ids_of_unit(&frame).all(|id| fits(self.ahead.ids, id)) => {
                    return self.strange(at);
                }
                Unit::Damaged { kind: BadFrame::ReservedId(_) | BadFrame::CutShort, .. } => return self.strange(at),
                unit => at += unit.length(),
            }
        }
        self.ahead.until = self.offset + at as u64;
        Ahead::Clear(at.saturating_sub(LOOK_BACK))
    }

    fn strange(&mut self, at: usize) -> Ahead {
        self.ahead.until = self.offset + at as u64;
        Ahead::Strange(at)
    }

    /// Emits the frames that start in the first `length` bytes. False: nothing was emitted.
    fn read_up_to(&mut self, bytes: &[u8], length: usize, last: bool, out: &mut impl FrameSink) -> bool {
        let start = self.offset;
        loop {
            let at = (self.offset - start) as usize;
            let at = at + self.read_plain(&bytes[at..], length.saturating_sub(at), out);
            if at >= length {
                return self.offset > start;
            }
            if !self.read_step(&bytes[at..], last, out) {
                return self.offset > start;
            }
        }
    }

    /// Processes what is next. False: more bytes are necessary.
    fn read_step(&mut self, bytes: &[u8], last: bool, out: &mut impl FrameSink) -> bool {
        let Step::Read(length) = self.step(bytes, last, out) else { return false };
        self.offset += length as u64;
        true
    }

    /// The short path: whole frames with nothing but ids and data in them, which start in the first `length` bytes.
    #[inline]
    fn read_plain(&mut self, bytes: &[u8], length: usize, out: &mut impl FrameSink) -> usize {
        if !self.aligned || self.lost.is_some() {
            return 0;
        }
        let (frames, _) = bytes.as_chunks::<FRAME_LENGTH>();
        let frames = &frames[..frames.len().min(length.div_ceil(FRAME_LENGTH))];
        let mut read = 0;
        while read < frames.len() {
            read += self.read_whole(&frames[read..], out);
            let Some(frame) = frames.get(read) else { break };
            let ids = id_pairs(frame);
            if !ids_of(frame, ids).all(is_known) {
                break;
            }
            self.unpack(frame, ids, &data_of(frame).bytes(), None, out);
            self.offset += FRAME_LENGTH as u64;
            read += 1;
        }
        if read > 0 {
            self.syncs.1 = 0;
        }
        read * FRAME_LENGTH
    }

    /// Frames that are all data of the current source. Returns their number.
    #[inline]
    fn read_whole(&mut self, frames: &[[u8; FRAME_LENGTH]], out: &mut impl FrameSink) -> usize {
        let id = self.id;
        if !is_source(id) {
            return 0;
        }
        let start = self.offset;
        let mut offset = start;
        for frame in frames {
            if id_pairs(frame) != 0 {
                break;
            }
            out.whole(id, offset, data_of(frame));
            offset += FRAME_LENGTH as u64;
        }
        self.offset = offset;
        ((offset - start) / FRAME_LENGTH as u64) as usize
    }

    fn step(&mut self, bytes: &[u8], last: bool, out: &mut impl FrameSink) -> Step {
        if !self.aligned {
            return self.seek_full_sync(bytes, last);
        }
        match Unit::at(bytes, last) {
            Unit::FullSync => self.full_sync(out),
            Unit::Frame(frame) => self.frame(&frame, out),
            Unit::Damaged { length, kind } => self.lose(length, kind),
            Unit::NeedMore => Step::NeedMore,
        }
    }

    fn seek_full_sync(&mut self, bytes: &[u8], last: bool) -> Step {
        match memmem::find(bytes, &FSYNC) {
            Some(0) => {
                self.align(0);
                Step::Read(0)
            }
            Some(length) => self.lose(length, BadFrame::NotSynchronized),
            None if self.ahead.doubt == 0 && !bytes.is_empty() => self.seek_frames(bytes, last),
            None if last && !bytes.is_empty() => self.lose(bytes.len(), BadFrame::NotSynchronized),
            None if bytes.len() >= FSYNC.len() => self.lose(bytes.len() - (FSYNC.len() - 1), BadFrame::NotSynchronized),
            None => Step::NeedMore,
        }
    }

    /// Searches for frames at the start of a buffer that has no full synchronization for long.
    fn seek_frames(&mut self, bytes: &[u8], last: bool) -> Step {
        if bytes.len() < LONG_WINDOW && !last {
            return Step::NeedMore;
        }
        self.ahead.doubt = NEVER;
        let setting = self.setting(ID_NULL);
        match setting.choose(bytes, None, LONG_WINDOW, false) {
            Choice::Move { start, is_proven: true } => {
                self.align(start);
                self.lose(start, BadFrame::NotSynchronized)
            }
            Choice::Stay { is_proven: true, .. } => {
                self.align(0);
                Step::Read(0)
            }
            _ => Step::Read(0),
        }
    }

    /// Frames start this many bytes from here.
    fn align(&mut self, length: usize) {
        self.aligned = true;
        self.ahead.until = self.ahead.until.max(self.offset + length as u64);
        self.ahead.doubt = NEVER;
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

    fn frame(&mut self, frame: &Frame, out: &mut impl FrameSink) -> Step {
        self.report_lost(out);
        self.syncs.1 = 0;
        for &index in frame.half_syncs() {
            out.mark(Mark::HalfSync { offset: self.offset + u64::from(index) });
        }
        let ids = id_pairs(&frame.bytes);
        self.unpack(&frame.bytes, ids, &data_of(&frame.bytes).bytes(), Some(&frame.indexes), out);
        Step::Read(frame.length)
    }

    /// Examines where frames start, at a strange one or where there is doubt. False: more bytes are necessary.
    fn examine(&mut self, bytes: &[u8], at: usize, last: bool, out: &mut impl FrameSink) -> bool {
        if self.read_up_to(bytes, at.saturating_sub(LOOK_BACK), last, out) {
            return true;
        }
        let window = if self.ahead.is_long { LONG_WINDOW } else { SHORT_WINDOW };
        let has_enough = bytes.len() >= at + window + 4 * FRAME_LENGTH;
        if !has_enough && !last {
            return false;
        }
        let offset = self.offset + at as u64;
        let unit = Unit::at(&bytes[at..], last);
        if offset < self.ahead.doubt && bytes[at + unit.length()..].starts_with(&FSYNC) {
            self.follow_full_sync(bytes, at, &unit, last, out);
            return true;
        }
        let strange = (offset < self.ahead.doubt).then_some(Strange { at, length: unit.length() });
        let length = strange.map_or(0, |strange| strange.length);
        if self.ahead.spent + window as u64 > CREDIT + 2 * offset {
            self.stay(offset + length as u64, false);
            return true;
        }
        self.ahead.spent += window as u64;
        let can_grow = !self.ahead.is_long && (has_enough || !last);
        let setting = self.setting(self.id_at(bytes, at));
        let choice = match strange {
            Some(_) => setting.choose(bytes, strange, window, can_grow),
            None => self.start(&bytes[at..], &setting, window, can_grow),
        };
        match choice {
            Choice::Undecided => self.ahead.is_long = true,
            Choice::Stay { is_proven, is_clean } => {
                if strange.is_some()
                    && is_clean
                    && let Unit::Frame(frame) = &unit
                {
                    let new = ids_of_unit(frame).filter(|&id| is_source(id));
                    new.for_each(|id| self.ahead.ids.insert(id));
                }
                if !is_proven && !is_clean {
                    self.ahead.spent += IN_VAIN * window as u64;
                }
                self.stay(offset + length as u64, is_proven);
            }
            Choice::Move { start, is_proven } => {
                let shift = match strange {
                    Some(strange) => self.setting(self.id).locate(bytes, strange, start),
                    None => Shift { end: at, start: at + start, dropped: 0, id: ID_NULL },
                };
                self.read_up_to(bytes, shift.end, last, out);
                self.shift(bytes, shift, out);
                self.look_again(is_proven);
            }
        }
        true
    }

    /// A full synchronization is inside a strange frame, or at its end: frames start there.
    fn follow_full_sync(&mut self, bytes: &[u8], at: usize, unit: &Unit, last: bool, out: &mut impl FrameSink) {
        let sync = at + unit.length();
        if unit.length().is_multiple_of(2) {
            return self.stay(self.offset + sync as u64, true);
        }
        let strange = Strange { at, length: FRAME_LENGTH };
        let shift = self.setting(self.id).locate(bytes, strange, sync);
        self.read_up_to(bytes, shift.end, last, out);
        self.shift(bytes, shift, out);
        self.look_again(true);
    }

    /// Chooses the start of frames where no id is strange.
    fn start(&self, bytes: &[u8], setting: &Setting<'_, S>, window: usize, can_grow: bool) -> Choice {
        let mut known = 0;
        while known < window {
            let unit = Unit::at(&bytes[known..], true);
            let fits = |id| fits(self.ahead.ids, id);
            match &unit {
                Unit::Frame(frame) if ids_of_unit(frame).all(fits) => known += unit.length(),
                Unit::FullSync => known += unit.length(),
                _ => break,
            }
        }
        // If frames shift later, what follows is no evidence for where they start.
        match known {
            known if known < window && known >= MIN_WINDOW => setting.choose(&bytes[..known], None, window, false),
            _ => setting.choose(bytes, None, window, can_grow),
        }
    }

    /// Frames continue as before from an offset on.
    fn stay(&mut self, offset: u64, is_proven: bool) {
        self.ahead.until = offset;
        self.look_again(is_proven);
    }

    /// Frames continue at another distance. `bytes` start with a frame as before.
    fn shift(&mut self, bytes: &[u8], shift: Shift, out: &mut impl FrameSink) {
        self.lose(shift.start + shift.dropped - shift.end, BadFrame::Shifted);
        self.offset = self.offset - shift.end as u64 + shift.start as u64;
        self.id = shift.id;
        if let Some(frame) = shift.rest_of_frame(bytes) {
            self.report_lost(out);
            self.id = ID_NULL;
            self.unpack(&frame, id_pairs(&frame), &data_of(&frame).bytes(), None, out);
            self.offset += FRAME_LENGTH as u64;
        }
        self.ahead.until = self.offset;
    }

    /// Without proof of where frames start, there is another look when half of the window has been read.
    fn look_again(&mut self, is_proven: bool) {
        self.ahead.is_long = false;
        self.ahead.doubt = match is_proven {
            true => NEVER,
            false => self.ahead.until + LONG_WINDOW as u64 / 2,
        };
    }

    /// Knowledge for a search, where bytes before the first id have this one.
    fn setting(&self, id: u8) -> Setting<'_, S> {
        let mut ids = self.ahead.ids.iter();
        let id = match (id, ids.next(), ids.next()) {
            // There is only one source.
            (ID_NULL, Some(only), None) => only,
            _ => id,
        };
        Setting { sources: &self.sources, ids: self.ahead.ids, id }
    }

    /// The id at a frame that was examined.
    fn id_at(&self, bytes: &[u8], index: usize) -> u8 {
        let (mut at, mut id) = (0, self.id);
        while at < index {
            let unit = Unit::at(&bytes[at..], true);
            if let Unit::Frame(frame) = &unit {
                id = ids_of_unit(frame).last().unwrap_or(id);
            }
            at += unit.length().max(1);
        }
        id
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
    bytes: [u8; FRAME_LENGTH],
    indexes: Indexes,
    /// Number of buffer bytes of the frame.
    pub(super) length: usize,
    syncs: [u8; FRAME_LENGTH],
    sync_count: usize,
}

impl Frame {
    fn half_syncs(&self) -> &[u8] {
        &self.syncs[..self.sync_count]
    }
}

/// Contents of a buffer at the start of a frame.
pub(super) enum Unit {
    /// A full synchronization.
    FullSync,
    /// A frame with possible ids.
    Frame(Frame),
    /// No frame. If a full synchronization starts in it, the next frame follows that.
    Damaged {
        length: usize,
        kind: BadFrame,
    },
    NeedMore,
}

impl Unit {
    pub(super) fn at(bytes: &[u8], last: bool) -> Self {
        if bytes.starts_with(&FSYNC) {
            return Self::FullSync;
        }
        match gather(bytes) {
            Gathered::Frame(frame) => Self::of(bytes, frame, last),
            Gathered::CutShort(length) => Self::Damaged { length, kind: BadFrame::CutShort },
            Gathered::NeedMore if last && !bytes.is_empty() => {
                Self::Damaged { length: bytes.len(), kind: BadFrame::Truncated }
            }
            Gathered::NeedMore => Self::NeedMore,
        }
    }

    fn of(bytes: &[u8], frame: Frame, last: bool) -> Self {
        let Some(id) = ids_of_unit(&frame).find(|&id| !is_known(id)) else { return Self::Frame(frame) };
        let reach = frame.length + FSYNC.len() - 1;
        if bytes.len() < reach && !last {
            return Self::NeedMore;
        }
        let sync = memmem::find(&bytes[..reach.min(bytes.len())], &FSYNC);
        Self::Damaged { length: sync.unwrap_or(frame.length), kind: BadFrame::ReservedId(id) }
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::FullSync => FSYNC.len(),
            Self::Frame(frame) => frame.length,
            Self::Damaged { length, .. } => *length,
            Self::NeedMore => 0,
        }
    }
}

enum Gathered {
    Frame(Frame),
    CutShort(usize),
    NeedMore,
}

/// Greatest number of half synchronizations in a frame.
const MAX_HALF_SYNCS: usize = FRAME_LENGTH;

fn gather(bytes: &[u8]) -> Gathered {
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

fn is_source(id: u8) -> bool {
    (ID_NULL + 1..=ID_LAST).contains(&id)
}

/// May a frame name this id?
fn is_known(id: u8) -> bool {
    is_source(id) || matches!(id, ID_NULL | ID_FLUSH | ID_TRIGGER)
}

/// May a frame name this id, if sources have only known ones?
#[inline]
pub(super) fn fits(known: Ids, id: u8) -> bool {
    known.contains(id) || matches!(id, ID_NULL | ID_FLUSH | ID_TRIGGER)
}

/// Number of bytes of the frames at the start that have known ids only, of at most `limit` frames.
#[inline]
fn known_frames(bytes: &[u8], limit: usize, known: Ids) -> usize {
    let (frames, _) = bytes.as_chunks::<FRAME_LENGTH>();
    let frames = &frames[..frames.len().min(limit)];
    let is_strange = |frame: &[u8; FRAME_LENGTH]| {
        let ids = id_pairs(frame);
        ids != 0 && !ids_of(frame, ids).all(|id| fits(known, id))
    };
    frames.iter().position(is_strange).unwrap_or(frames.len()) * FRAME_LENGTH
}

/// The ids that a frame switches to.
pub(super) fn ids_of_unit(frame: &Frame) -> impl Iterator<Item = u8> {
    ids_of(&frame.bytes, id_pairs(&frame.bytes))
}

/// The ids that a frame switches to; `pairs` has a bit for each.
fn ids_of(frame: &[u8; FRAME_LENGTH], pairs: u8) -> impl Iterator<Item = u8> {
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
fn id_pairs(frame: &[u8; FRAME_LENGTH]) -> u8 {
    let (low, high) = halves(frame);
    if (low | high) & EVEN_LOW_BITS == 0 {
        return 0;
    }
    gather_flags(low) | gather_flags(high) << 4
}

/// The data of a frame: even bytes get their lowest bit back from the flags.
#[inline]
fn data_of(frame: &[u8; FRAME_LENGTH]) -> FrameData {
    let (low, high) = halves(frame);
    let flags = u64::from(frame[FRAME_DATA]);
    FrameData { low: low | spread_flags(flags & 0xf), high: high | spread_flags(flags >> 4) }
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
