//! Frames that start at another offset: bytes are missing, or there are too many.
//!
//! Takes bytes around a frame with an id that no source has. Produces where frames start after it. Every possible start is
//! tried on a window of bytes, and the one under which the sources send packets is chosen:
//!
//! ```text
//!            frames as before     first strange id        window
//! ──┬───────┬───────┬──────▒┬───────┬─X─────┬───────┬───────┬───────  read as before
//! ──┴───────┴───────┴──▒▒▒▒▒──┬───────┬───────┬───────┬───────┬─────  read from another start
//!                     lost byte └ earliest start whose ids all fit
//! ```
//!
//! Ids exclude the starts at an odd distance, since every second byte of data looks like an id there. At an even distance
//! all ids are right, and only the streams decide: a byte of flags is taken for data, and a byte of data for flags.

use alloc::vec::Vec;
use core::cmp::Reverse;

use memchr::memmem;

use super::evidence::{Fit, SourceEvidence};
use super::read::{Deformatter, Unit, fits, ids_of_unit};
use super::{BadFrame, FRAME_DATA, FRAME_LENGTH, FSYNC, FrameSink, HSYNC, ID_NULL, Ids, Mark, Span};

/// Number of bytes examined at first. Most trace units synchronize every few kilobytes.
pub(super) const SHORT_WINDOW: usize = 8 * 1024;
/// Number of bytes examined if that was not enough.
pub(super) const LONG_WINDOW: usize = 64 * 1024;
/// Number of bytes before a strange id in which the frames may have shifted.
pub(super) const LOOK_BACK: usize = 512;

/// Value from which on a start is proven: a synchronization and some packets after it.
const PROOF: i64 = 64;
/// Value from which on no other start is tried. Some synchronizations are intact by chance.
const CERTAIN: i64 = 16 * PROOF;
/// Weight of malformed bytes, and of an id that no source is known to have.
const MISFIT: i64 = 64;
/// Weight of a full synchronization between frames.
const FULL_SYNC: i64 = 32;
/// Value by which another start or id of a shifted frame must be better than the most likely one.
const BETTER: i64 = 16;

/// Knowledge with which starts are judged.
pub(super) struct Setting<'s, S> {
    pub(super) sources: &'s S,
    /// Ids that sources are known to have.
    pub(super) ids: Ids,
    /// The id of the bytes before the first id.
    pub(super) id: u8,
}

/// Where frames start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// As before.
    Stay {
        /// Sources send packets.
        is_proven: bool,
        /// All ids of the next frames are possible.
        is_clean: bool,
    },
    /// At this index.
    Move {
        start: usize,
        /// Sources send packets; otherwise ids are all the evidence.
        is_proven: bool,
    },
    /// A longer window is necessary.
    Undecided,
}

/// One possible start.
struct Candidate {
    start: usize,
    value: i64,
    /// No impossible id in the first frames.
    is_clean: bool,
    /// Only known ids.
    is_known: bool,
    /// Enough bytes to judge by ids.
    has_bytes: bool,
}

impl<S: SourceEvidence> Setting<'_, S> {
    /// Chooses among the starts after a strange frame, or at the start of the bytes. A longer window can be had if
    /// `can_grow`.
    pub(super) fn choose(&self, bytes: &[u8], strange: Option<Strange>, window: usize, can_grow: bool) -> Choice {
        let stay = strange.map_or(0, |strange| strange.at + strange.length);
        let here = self.candidate(stay, window_at(bytes, stay, window));
        if here.value >= CERTAIN && here.is_clean && here.is_known {
            return Choice::Stay { is_proven: true, is_clean: true };
        }
        let candidate = |start: usize| {
            // The evidence may be between the lost byte and the strange frame.
            let first = strange.map_or(start, |strange| self.starts_up_to(bytes, strange, start).earliest);
            self.candidate(start, window_at(bytes, first, window))
        };
        let others = other_starts(bytes, strange, stay).map(candidate);
        // Frames that are not damaged here may be so later: that is no evidence for other frames here.
        let mut others: Vec<Candidate> = others.filter(|other| other.is_clean || !here.is_clean).collect();
        // Of equal ones, the nearest: one byte is lost more often than several.
        others.sort_by_key(|other| (Reverse(other.value), other.start.abs_diff(stay)));
        let second = others.get(1).map_or(0, |other| other.value).max(here.value).max(0);
        let stays = |is_proven| Choice::Stay { is_proven, is_clean: here.is_clean };
        match others.first() {
            Some(best) if best.is_proven() && best.value > 2 * here.value.max(0) => {
                if can_grow && best.value < 2 * second + PROOF {
                    return Choice::Undecided;
                }
                Choice::Move { start: best.start, is_proven: true }
            }
            _ if here.is_proven() => stays(true),
            _ if can_grow => Choice::Undecided,
            _ if here.is_clean || strange.is_none() => stays(false),
            _ => others
                .iter()
                .filter(|other| other.is_clean && other.is_known && other.has_bytes)
                .min_by_key(|other| other.start.abs_diff(stay))
                .map_or(stays(false), |other| Choice::Move { start: other.start, is_proven: false }),
        }
    }

    fn candidate(&self, start: usize, bytes: &[u8]) -> Candidate {
        let (found, bytes_of_ids) = (Found::default(), Vec::new());
        let mut streams = Streams { setting: self, found, best: None, first_lost: None, bytes: bytes_of_ids };
        Deformatter::trusting(self.id).read_all(bytes, &mut streams);
        streams.examine();
        let Found { unknown, .. } = streams.found;
        let is_clean = streams.first_lost.is_none_or(|offset| offset >= MIN_WINDOW as u64);
        let has_bytes = bytes.len() >= MIN_WINDOW && !streams.bytes.is_empty();
        let value = streams.best.unwrap_or(0);
        Candidate { start, value, is_clean, is_known: unknown == 0, has_bytes }
    }

    /// Finds where frames shifted. `bytes` start with a frame as before; the one at `strange` has a strange id; `start` is
    /// one of the shifted frames after it.
    pub(super) fn locate(&self, bytes: &[u8], strange: Strange, start: usize) -> Shift {
        let starts = self.starts_up_to(bytes, strange, start);
        let before = self.frames_before(bytes, starts.earliest, strange.at);
        let ids = self.ids_in(bytes, &before, start);
        let id = ids.first().copied().unwrap_or(before.id);
        let mut shift = Shift { end: before.end, start, dropped: 0, id };
        let mut best = self.value(bytes, &shift);
        let whole = starts.list.iter().take(MAX_STARTS).map(|&start| (start, 0));
        let parts = starts.part.into_iter().filter(|(start, dropped)| before.end <= start + dropped);
        for (start, dropped) in whole.chain(parts) {
            let ids = self.ids_in(bytes, &before, start + dropped);
            let others = self.ids.iter().filter(|id| !ids.contains(id));
            for id in ids.iter().copied().chain(others).take(MAX_IDS) {
                let other = Shift { end: before.end, start, dropped, id };
                let value = self.value(bytes, &other);
                if value >= best + BETTER {
                    (shift, best) = (other, value);
                }
            }
        }
        shift
    }

    /// Value of the bytes from a shift on.
    fn value(&self, bytes: &[u8], shift: &Shift) -> i64 {
        let window = window_at(bytes, shift.start, SHORT_WINDOW);
        let (id, patched) = match shift.rest_of_frame(bytes) {
            Some(frame) => (ID_NULL, [&frame[..], window.get(FRAME_LENGTH..).unwrap_or_default()].concat()),
            None => (shift.id, window.to_vec()),
        };
        Setting { id, ids: self.ids, sources: self.sources }.candidate(shift.start, &patched).value
    }

    /// The starts of shifted frames with known ids only, from a given one back to the earliest.
    fn starts_up_to(&self, bytes: &[u8], strange: Strange, start: usize) -> Starts {
        let mut starts = Starts { list: alloc::vec![start], earliest: start, part: None };
        // At an even distance all ids are right, so they cannot show where frames shifted.
        let is_odd = start.abs_diff(strange.at + strange.length) % 2 == 1;
        while is_odd && let Some((before, is_known)) = self.unit_before(bytes, starts.earliest) {
            if !is_known {
                starts.part = self.known_part(bytes, before, starts.earliest);
                break;
            }
            starts.list.push(before);
            starts.earliest = before;
            if bytes[before..].starts_with(&FSYNC) {
                break;
            }
        }
        starts
    }

    /// A frame of which only the last ids are known, and the number of bytes before them.
    fn known_part(&self, bytes: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
        let frame = bytes.get(start..end).filter(|frame| frame.len() == FRAME_LENGTH)?;
        let is_known = |pair: &&[u8]| pair[0] & 1 == 0 || fits(self.ids, pair[0] >> 1);
        let dropped = FRAME_LENGTH - 2 * frame.chunks(2).rev().take_while(is_known).count();
        (2..FRAME_LENGTH).contains(&dropped).then_some((start, dropped))
    }

    /// The start of the frame or full synchronization that ends at an index, and whether its ids are known.
    fn unit_before(&self, bytes: &[u8], end: usize) -> Option<(usize, bool)> {
        let bytes = bytes.get(..end)?;
        if bytes.ends_with(&FSYNC) {
            return Some((end - FSYNC.len(), true));
        }
        let lengths = (FRAME_LENGTH..=2 * FRAME_LENGTH).step_by(HSYNC.len());
        lengths.filter_map(|length| end.checked_sub(length)).find_map(|start| match Unit::at(&bytes[start..], true) {
            Unit::Frame(frame) if frame.length == end - start => {
                Some((start, ids_of_unit(&frame).all(|id| fits(self.ids, id))))
            }
            Unit::Damaged { length, kind: BadFrame::ReservedId(_) } if length == end - start => Some((start, false)),
            _ => None,
        })
    }

    /// The frames that continue those before, up to the earliest shifted one.
    fn frames_before(&self, bytes: &[u8], earliest: usize, strange: usize) -> Before {
        let mut before = Before { end: 0, id: self.id };
        while before.end < strange {
            let unit = Unit::at(&bytes[before.end..], true);
            let end = before.end + unit.length();
            // A frame with a byte too many ends right before a shifted one.
            if unit.length() == 0 || end + FRAME_LENGTH / 2 > earliest {
                break;
            }
            if let Unit::Frame(frame) = &unit {
                before.id = ids_of_unit(frame).last().unwrap_or(before.id);
            }
            before.end = end;
        }
        before
    }

    /// The ids that bytes may have at a start of shifted frames, the most likely first. In between is the frame with the
    /// damage: up to an unknown byte its ids are where they were before, and then where those of shifted frames are.
    fn ids_in(&self, bytes: &[u8], before: &Before, start: usize) -> Vec<u8> {
        let id_at = |index: usize| {
            let pair = bytes.get(index..index + 2)?;
            (pair[0] & 1 == 1 && pair != HSYNC).then_some(pair[0] >> 1)
        };
        let is_known = |index: &usize| id_at(*index).is_none_or(|id| fits(self.ids, id));
        let mut found: Vec<(u8, u32)> = Vec::new();
        for split in before.end..=start {
            let old = || (before.end..split.saturating_sub(1)).step_by(2);
            let new = || (split..start).filter(|index| (start - index).is_multiple_of(2));
            if !old().all(|index| is_known(&index)) || !new().all(|index| is_known(&index)) {
                continue;
            }
            let id = old().chain(new()).rev().find_map(id_at).unwrap_or(before.id);
            match found.iter_mut().find(|(known, _)| *known == id) {
                Some((_, count)) => *count += 1,
                None => found.push((id, 1)),
            }
        }
        found.sort_by_key(|&(_, count)| Reverse(count));
        found.into_iter().map(|(id, _)| id).collect()
    }
}

/// Number of bytes from which on ids alone are evidence.
pub(super) const MIN_WINDOW: usize = 16 * FRAME_LENGTH;
/// Number of damaged frames after which the rest of a window is not examined.
const MAX_LOST: i64 = 4;
/// Maximum numbers of starts and ids that are tried.
const MAX_STARTS: usize = 8;
const MAX_IDS: usize = 8;

/// A frame with a strange id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strange {
    pub(super) at: usize,
    pub(super) length: usize,
}

/// The possible starts of shifted frames.
struct Starts {
    /// The starts of whole frames, the last first.
    list: Vec<usize>,
    earliest: usize,
    /// The start of a frame before those, and the number of its bytes that do not fit.
    part: Option<(usize, usize)>,
}

/// Where frames shifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shift {
    /// End of the last frame before.
    pub(super) end: usize,
    /// Start of the first frame after.
    pub(super) start: usize,
    /// Number of bytes of that frame which are lost.
    pub(super) dropped: usize,
    /// The id of its first bytes.
    pub(super) id: u8,
}

impl Shift {
    /// The first frame after, if a part of it is lost: an id takes effect where the rest starts.
    pub(super) fn rest_of_frame(&self, bytes: &[u8]) -> Option<[u8; FRAME_LENGTH]> {
        let whole: &[u8; FRAME_LENGTH] = bytes.get(self.start..)?.first_chunk()?;
        let pair = self.dropped.checked_sub(2)? / 2;
        let mut frame = [0; FRAME_LENGTH];
        frame[self.dropped..].copy_from_slice(&whole[self.dropped..]);
        frame[2 * pair] = self.id << 1 | 1;
        frame[FRAME_DATA] = whole[FRAME_DATA] & (u8::MAX << pair << 1) | 1 << pair;
        Some(frame)
    }
}

/// Frames before a shift: their end, and the id at their end.
struct Before {
    end: usize,
    id: u8,
}

impl Candidate {
    fn is_proven(&self) -> bool {
        self.value >= PROOF
    }
}

fn window_at(bytes: &[u8], start: usize, window: usize) -> &[u8] {
    let bytes = bytes.get(start..).unwrap_or_default();
    &bytes[..bytes.len().min(window)]
}

/// The other possible starts after a strange frame, or at the start of the bytes.
fn other_starts(bytes: &[u8], strange: Option<Strange>, stay: usize) -> impl Iterator<Item = usize> {
    let starts = match strange {
        None => 0..=FRAME_LENGTH - 1,
        // There are more between half synchronizations.
        Some(strange) if memmem::find(&bytes[strange.at..stay.min(bytes.len())], &HSYNC).is_some() => {
            stay - FRAME_LENGTH / 2 + 1..=stay + FRAME_LENGTH + FRAME_LENGTH / 2
        }
        Some(_) => stay - FRAME_LENGTH / 2 + 1..=stay + FRAME_LENGTH / 2,
    };
    let next = stay + Unit::at(bytes.get(stay..).unwrap_or_default(), true).length();
    starts.filter(move |&start| start != stay && start != next)
}

/// The bytes of each id, and how well they fit.
struct Streams<'s, S> {
    setting: &'s Setting<'s, S>,
    bytes: Vec<(u8, Vec<u8>)>,
    found: Found,
    /// The greatest value up to a damaged frame or the end: damage that follows proves nothing.
    best: Option<i64>,
    /// Offset of the first damaged frame.
    first_lost: Option<u64>,
}

/// Evidence for a start, and against it.
#[derive(Default)]
struct Found {
    fit: Fit,
    full_syncs: i64,
    /// Number of damaged frames.
    lost: i64,
    /// Number of ids that no source is known to have.
    unknown: i64,
}

impl<S: SourceEvidence> Streams<'_, S> {
    fn examine(&mut self) {
        for (id, bytes) in &mut self.bytes {
            self.found.fit += self.setting.sources.examine(*id, bytes);
            bytes.clear();
        }
        let Found { fit, full_syncs, lost, unknown } = &self.found;
        let against = fit.malformed as i64 + lost + unknown;
        let value = fit.well_formed as i64 + FULL_SYNC * full_syncs - MISFIT * against;
        self.best = self.best.max(Some(value));
    }

    fn is_ended(&self) -> bool {
        self.found.lost > MAX_LOST
    }
}

impl<S: SourceEvidence> FrameSink for Streams<'_, S> {
    fn span(&mut self, span: Span<'_>) {
        if self.is_ended() {
            return;
        }
        match self.bytes.iter_mut().find(|(id, _)| *id == span.id) {
            Some((_, bytes)) => bytes.extend_from_slice(span.bytes),
            None => {
                self.found.unknown += i64::from(!self.setting.ids.contains(span.id));
                self.bytes.push((span.id, span.bytes.to_vec()));
            }
        }
    }

    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::FullSync { .. } => self.found.full_syncs += i64::from(!self.is_ended()),
            Mark::Lost(error) if error.kind != BadFrame::Truncated => {
                // No source's bytes continue across lost ones.
                self.examine();
                self.found.lost += 1;
                self.first_lost.get_or_insert(error.offset);
            }
            _ => {}
        }
    }
}
