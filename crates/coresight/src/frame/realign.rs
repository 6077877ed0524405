//! Frames that start at another offset: bytes are missing, or there are too many.
//!
//! Takes a window of a buffer. Produces the start of its frames under which the bytes are the trace of the sources. A lost byte
//! moves data to where ids are, so ids exclude half of the sixteen starts; under seven of the other eight, bytes of flags
//! are taken for data, which breaks alignment synchronizations and packets.

use alloc::vec::Vec;

use super::evidence::{Fit, SourceEvidence};
use super::read::{Frames, is_source};
use super::{FRAME_LENGTH, FrameSink, Ids, Mark, Span, WholeFrames};

/// Number of bytes examined at first: what is near decides, since there may be more damage later.
pub(super) const FIRST_WINDOW: usize = 1024;
/// Number of bytes examined if fewer decide nothing. Most trace units synchronize every few kilobytes.
pub(super) const LAST_WINDOW: usize = 64 * 1024;

/// What a malformed place counts, in well-formed bytes.
const MALFORMED: i64 = 24;
/// What a frame with an unexpected id counts, in well-formed bytes.
const UNEXPECTED: i64 = 8;
/// Lead over the second best start, in well-formed bytes, that decides in a short window.
const CLEAR_LEAD: i64 = 64;

/// Well-formed bytes that suffice without a look at other starts.
const PLAUSIBLE: i64 = 256;

/// Number of possible starts.
const STARTS: usize = FRAME_LENGTH;

/// How well a window fits the sources, for one start of its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Score {
    fit: Fit,
    /// Number of frames with ids that no source has.
    unexpected: u64,
    /// The ids of the sources found.
    pub(super) ids: Ids,
}

impl Score {
    /// Reads the window as frames.
    pub(super) fn of(window: &[u8], sources: &impl SourceEvidence) -> Self {
        Streams::of(sources.ids()).score(window, sources)
    }

    /// The window has a synchronization and packets after it.
    pub(super) fn is_evidence(&self) -> bool {
        self.fit.well_formed > 0
    }

    /// There is evidence for this start, and no more than this many frames and places contradict it.
    pub(super) fn is_plausible(&self, contradictions: u64) -> bool {
        self.value() >= PLAUSIBLE && self.fit.malformed + self.unexpected <= contradictions
    }

    /// All ids may be those of sources.
    pub(super) fn is_possible(&self) -> bool {
        self.unexpected == 0
    }

    /// Whether frames that start this far from others may be believed although the sources are not known: fewer of them have
    /// ids that no source has or, since an even distance leaves ids where they are, all their synchronizations are intact.
    pub(super) fn is_credible(&self, distance: usize, other: &Self) -> bool {
        let is_intact = distance.is_multiple_of(2) && self.fit.malformed == 0;
        is_intact || self.unexpected < other.unexpected
    }

    /// Well-formed bytes, less what contradicts this start.
    pub(super) fn value(&self) -> i64 {
        value(&self.fit) - UNEXPECTED * self.unexpected as i64
    }
}

/// Well-formed bytes, less what malformed places count.
fn value(fit: &Fit) -> i64 {
    fit.well_formed as i64 - MALFORMED * fit.malformed as i64
}

/// Scores of all starts in a window, as distances from its first byte.
pub(super) struct Scores([Score; STARTS]);

impl Scores {
    pub(super) fn of(window: &[u8], sources: &impl SourceEvidence) -> Self {
        // The first frame may be the damaged one, with ids that mean nothing.
        let from = |start: usize| window.get(start + FRAME_LENGTH..).unwrap_or_default();
        let mut streams = Streams::of(sources.ids());
        Self(core::array::from_fn(|start| streams.score(from(start), sources)))
    }

    /// The score if frames start with the window.
    pub(super) fn here(&self) -> &Score {
        &self.0[0]
    }

    /// The best of the other starts: the nearest one, in either direction, if several are.
    pub(super) fn best(&self) -> (usize, &Score) {
        let nearness = |start: usize| -(start.min(STARTS - start) as i64);
        let others = self.0.iter().enumerate().skip(1);
        others.max_by_key(|(start, score)| (score.value(), nearness(*start))).unwrap_or((0, &self.0[0]))
    }

    /// The best start of all, if there is evidence for one.
    pub(super) fn first(&self) -> Option<usize> {
        let (start, best) = self.best();
        let is_here = self.here().value() >= best.value();
        let (start, score) = if is_here { (0, self.here()) } else { (start, best) };
        score.is_evidence().then_some(start)
    }

    /// Is one start clearly better than all others?
    pub(super) fn is_clear(&self) -> bool {
        let mut values = self.0.map(|score| score.value());
        values.sort_unstable();
        let [.., second, first] = values;
        first >= second + CLEAR_LEAD && self.0.iter().any(Score::is_evidence)
    }
}

/// The bytes of each id in a window. Its memory is kept from one start of frames to the next.
struct Streams {
    /// Those of ids that are expected: no other bytes can be evidence.
    expected: Vec<(u8, Vec<u8>)>,
    /// The index of each id there, if it has been seen.
    indexes: [Option<u8>; 128],
    /// All ids of the window.
    ids: Ids,
    /// Ids that are expected; all, if empty.
    known: Ids,
    unexpected: u64,
}

impl Streams {
    fn of(known: Ids) -> Self {
        Self { expected: Vec::new(), indexes: [None; 128], ids: Ids::default(), known, unexpected: 0 }
    }

    /// Reads a window as frames. Up to the first id, its bytes may belong to any source.
    fn score(&mut self, window: &[u8], sources: &impl SourceEvidence) -> Score {
        self.expected.iter_mut().for_each(|(_, bytes)| bytes.clear());
        (self.ids, self.unexpected) = (Ids::default(), 0);
        let mut frames = Frames::new(HEAD_ID);
        let is_last = false;
        frames.read(window, u64::MAX, is_last, self);
        frames.finish(self);
        let mut score = Score { fit: Fit::default(), unexpected: self.unexpected, ids: self.ids };
        for (id, bytes) in self.expected.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            if *id == HEAD_ID {
                let fits = sources.ids().iter().map(|id| sources.examine(id, bytes));
                let none = sources.examine(HEAD_ID, bytes);
                score.fit += fits.max_by_key(value).unwrap_or(none);
            } else {
                score.fit += sources.examine(*id, bytes);
            }
        }
        score
    }

    /// The bytes of an id, if it is expected.
    fn bytes_of(&mut self, id: u8) -> Option<&mut Vec<u8>> {
        let is_head = id == HEAD_ID;
        if !is_head {
            self.ids.insert(id);
        }
        if !is_head && !self.known.is_empty() && !self.known.contains(id) {
            return None;
        }
        let index = self.indexes.get_mut(usize::from(id))?;
        let index = *index.get_or_insert_with(|| {
            self.expected.push((id, Vec::new()));
            (self.expected.len() - 1) as u8
        });
        self.expected.get_mut(usize::from(index)).map(|(_, bytes)| bytes)
    }
}

impl FrameSink for Streams {
    fn span(&mut self, span: Span<'_>) {
        match self.bytes_of(span.id) {
            Some(bytes) => bytes.extend_from_slice(span.bytes),
            None => self.unexpected += 1,
        }
    }

    fn whole(&mut self, id: u8, _offset: u64, frames: WholeFrames<'_>) {
        match self.bytes_of(id) {
            Some(bytes) => frames.append_to(bytes),
            None => self.unexpected += (frames.length() / FRAME_LENGTH) as u64,
        }
    }

    fn mark(&mut self, mark: Mark) {
        if let Mark::Lost(error) = mark {
            self.unexpected += error.skipped.div_ceil(FRAME_LENGTH as u64);
        }
    }
}

/// Damaged bytes between frames, and the bytes after them.
pub(super) struct Damage<'b> {
    /// From the start of a frame before the damage to that of a frame after it.
    pub(super) damaged: &'b [u8],
    pub(super) after: &'b [u8],
    /// The id of the first damaged byte.
    pub(super) id: u8,
}

impl Damage<'_> {
    /// The id of the bytes after the damage, up to the first id that frames name there: the source whose trace they clearly
    /// are, or else the one that the damaged bytes name.
    pub(super) fn id_after(&self, sources: &impl SourceEvidence) -> u8 {
        let ids = sources.ids();
        let likely = self.named_id(ids);
        let mut head = Head { bytes: Vec::new(), is_complete: false };
        Frames::new(HEAD_ID).read(self.after, u64::MAX, false, &mut head);
        let value = |id: u8| value(&sources.examine(id, &head.bytes));
        let best = ids.iter().filter(|id| is_source(*id)).max_by_key(|id| value(*id));
        best.filter(|best| value(*best) >= value(likely) + CLEAR_LEAD).unwrap_or(likely)
    }

    /// The id that most ways to split the damaged bytes agree on. Up to the split, frames start as before; then, as after.
    fn named_id(&self, expected: Ids) -> u8 {
        let length = self.damaged.len();
        let id_at = |index: usize| {
            let byte = self.damaged[index];
            (byte & 1 == 1 && expected.contains(byte >> 1)).then_some(byte >> 1)
        };
        let id_of = |split: usize| {
            let after = (split..length).rev().filter(|index| (length - index).is_multiple_of(2)).find_map(id_at);
            let before = || (0..split).rev().filter(|index| index.is_multiple_of(2)).find_map(id_at);
            after.or_else(before).unwrap_or(self.id)
        };
        let ids: Vec<u8> = (0..=length).map(id_of).collect();
        let votes = |id: u8| ids.iter().filter(|other| **other == id).count();
        ids.iter().copied().max_by_key(|id| votes(*id)).unwrap_or(self.id)
    }
}

/// An id that frames do not name, for the bytes before their first id.
const HEAD_ID: u8 = super::ID_LAST + 1;

/// The bytes before the first id.
struct Head {
    bytes: Vec<u8>,
    is_complete: bool,
}

impl FrameSink for Head {
    fn span(&mut self, span: Span<'_>) {
        self.is_complete |= span.id != HEAD_ID;
        if !self.is_complete {
            self.bytes.extend_from_slice(span.bytes);
        }
    }

    fn mark(&mut self, _: Mark) {}
}
