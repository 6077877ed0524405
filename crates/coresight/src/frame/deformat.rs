//! A buffer to bytes: finds frames, and finds them again when bytes are missing.
//!
//! Takes the buffer in chunks of any size. Produces [`Span`](super::Span)s and [`Mark`](super::Mark)s for a [`FrameSink`];
//! chunk boundaries make no difference to them. The ids of frames are examined some frames before these are emitted: an id
//! that no source has may mean that bytes are missing, and then frames are read from the start that fits the sources best.
//! Undamaged frames are read in groups (`group.rs`), so that each frame is looked at once.
//!
//! ```text
//!   emitted │   held back: 512 bytes    │ id of no source         window
//! ──────────┼───────┬───────┬───▒▒▒▒────┼───────┬───────┬─────────────────
//! as before:│ known │ known │   known   │unknown│unknown│  few packets
//! elsewhere:│       │unknown│unknown─┬─known──┬──known─┬─  synchronizations, packets
//!                                    ▲ frames are read from here; between the two, bytes are lost
//! ```

use alloc::vec::Vec;

use memchr::memmem;

use super::evidence::{SourceEvidence, UnknownSources};
use super::group::{GROUP, Group};
use super::look_ahead::{HELD, LookAhead, Search};
use super::read::Frames;
use super::realign::{Damage, LAST_WINDOW, Scores};
use super::saved::SavedFrames;
use super::{BadFrame, FRAME_LENGTH, FSYNC, FrameSink, ID_NULL};

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
    frames: Frames,
    /// The start of frames is known.
    is_aligned: bool,
    /// Bytes that are not emitted yet; the first is at the offset of `frames`.
    carry: Vec<u8>,
    ahead: LookAhead,
}

/// Bytes that are added at once to those held from the last chunk.
const ADDED: usize = 4096;

/// What to do next.
enum Next {
    /// Emit the frames that start before this offset.
    Emit(u64),
    /// Read frames from elsewhere on.
    Shift(Shift),
    /// This many bytes belong to no frame.
    Skip(usize),
    NeedMore,
}

/// Frames that start elsewhere, as indexes of bytes that are not emitted yet.
struct Shift {
    /// Start of the first frame.
    start: usize,
    /// End of the bytes that were examined.
    end: usize,
}

impl Deformatter {
    /// A deformatter at the start of a buffer whose sources are not known.
    pub fn new(layout: Layout) -> Self {
        Self::with_sources(layout, UnknownSources)
    }
}

impl<S: SourceEvidence> Deformatter<S> {
    /// A deformatter at the start of a buffer. What is known of its sources shows where frames start if bytes are missing.
    pub fn with_sources(layout: Layout, sources: S) -> Self {
        let ahead = LookAhead::new(sources.ids());
        let is_aligned = layout == Layout::FromStart;
        Self { sources, frames: Frames::new(ID_NULL), is_aligned, carry: Vec::new(), ahead }
    }

    /// The offset of the next byte that is not processed.
    pub fn offset(&self) -> u64 {
        self.frames.offset
    }

    /// The state between two chunks, for [`restored`](Self::restored). `None`: a search waits for bytes, or bytes without a
    /// frame are not reported yet.
    pub fn save(&self) -> Option<SavedFrames> {
        let (frames, ahead) = (self.frames.save()?, self.ahead.save()?);
        Some(SavedFrames { is_aligned: self.is_aligned, frames, ahead })
    }

    /// A deformatter of the same sources that continues where another was. `held`: the bytes from the
    /// [saved offset](SavedFrames::offset) up to the next chunk.
    #[must_use]
    pub fn restored(self, saved: &SavedFrames, held: Vec<u8>) -> Self {
        let SavedFrames { is_aligned, frames, ahead } = *saved;
        let (frames, ahead) = (Frames::restored(frames), LookAhead::restored(ahead));
        Self { sources: self.sources, frames, is_aligned, carry: held, ahead }
    }

    /// Processes the next chunk of the buffer.
    pub fn push(&mut self, bytes: &[u8], out: &mut impl FrameSink) {
        let mut rest = bytes;
        while !self.carry.is_empty() && !rest.is_empty() {
            let mut carry = core::mem::take(&mut self.carry);
            let (held, added) = (carry.len(), rest.len().min(ADDED));
            carry.extend_from_slice(&rest[..added]);
            let read = self.read(&carry, false, out);
            if read >= held {
                // The chunk itself continues from here.
                rest = &rest[read - held..];
            } else {
                carry.drain(..read);
                rest = &rest[added..];
                self.carry = carry;
            }
        }
        if !rest.is_empty() {
            let read = self.read(rest, false, out);
            self.carry.extend_from_slice(&rest[read..]);
        }
    }

    /// Ends the buffer: what is left is less than a frame.
    pub fn finish(&mut self, out: &mut impl FrameSink) {
        let carry = core::mem::take(&mut self.carry);
        self.read(&carry, true, out);
        self.frames.finish(out);
    }

    /// Returns the number of bytes that were processed.
    fn read(&mut self, bytes: &[u8], last: bool, out: &mut impl FrameSink) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            at += self.read_groups(&bytes[at..], out);
            let rest = &bytes[at..];
            at += match self.next(rest, last) {
                Next::Emit(until) => self.frames.read(rest, until, last, out),
                Next::Shift(shift) => self.shift(rest, &shift, out),
                Next::Skip(length) => {
                    self.frames.skip(length, BadFrame::NotSynchronized);
                    length
                }
                Next::NeedMore => break,
            };
        }
        at
    }

    /// The short path: emits each group of frames when the one after it has been examined. Returns the number of bytes
    /// that were processed.
    fn read_groups(&mut self, bytes: &[u8], out: &mut impl FrameSink) -> usize {
        let is_held = self.ahead.examined() == self.frames.offset + HELD;
        let (groups, _) = bytes.as_chunks::<GROUP>();
        let Some((first, rest)) = groups.split_first().filter(|_| is_held && self.is_aligned) else { return 0 };
        let mut held = Group::of(first);
        if !self.ahead.knows(&held) || !self.frames.is_between_frames() {
            return 0;
        }
        let mut read = 0;
        for group in rest {
            let next = Group::of(group);
            if !self.ahead.pass_group(&next) {
                break;
            }
            self.frames.read_group(&held, out);
            held = next;
            read += GROUP;
        }
        read
    }

    fn next(&mut self, bytes: &[u8], last: bool) -> Next {
        if !self.is_aligned {
            return self.first_frame(bytes, last);
        }
        let search = self.ahead.search(self.frames.offset, bytes, last, &self.sources);
        match search {
            Search::Clear(until) if until > self.frames.offset => Next::Emit(until),
            Search::Clear(_) => Next::NeedMore,
            Search::Shift { start, end } => Next::Shift(Shift { start, end }),
        }
    }

    /// Searches for a full synchronization, or for frames that the sources have made if there is none.
    fn first_frame(&mut self, bytes: &[u8], last: bool) -> Next {
        let window = &bytes[..bytes.len().min(LAST_WINDOW)];
        match memmem::find(window, &FSYNC) {
            Some(0) => {
                self.is_aligned = true;
                self.ahead.settle();
                self.next(bytes, last)
            }
            Some(length) => Next::Skip(length),
            None if window.len() < LAST_WINDOW && !last => Next::NeedMore,
            None => match Scores::of(window, &self.sources).first() {
                Some(start) => Next::Shift(Shift { start, end: window.len() }),
                None if last => Next::Skip(window.len()),
                None => Next::Skip(window.len() / 2),
            },
        }
    }

    /// Emits the frames before those that start elsewhere, and skips what is between.
    fn shift(&mut self, bytes: &[u8], shift: &Shift, out: &mut impl FrameSink) -> usize {
        let start = shift.start;
        // Frames from here on have unfamiliar ids, and the last one before may be damaged.
        let until = if self.is_aligned { self.ahead.examined() } else { 0 };
        let mut read = self.frames.read(&bytes[..start.saturating_sub(FRAME_LENGTH)], until, false, out);
        let id = self.frames.id;
        let damage = Damage { damaged: &bytes[read..start], after: &bytes[start..shift.end], id };
        let id = damage.id_after(&self.sources);
        read += self.frames.read(&bytes[read..start], until, false, out);
        self.frames.skip(start - read, BadFrame::Shifted);
        self.frames.id = id;
        self.is_aligned = true;
        self.ahead.continue_at(self.frames.offset);
        start
    }
}
