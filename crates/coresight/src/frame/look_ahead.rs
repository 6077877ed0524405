//! The ids of frames, examined before the frames are emitted: they show where frames start elsewhere.
//!
//! Takes the bytes that are not emitted yet. Produces the offset up to which frames can be emitted, or another start. An id
//! that is not familiar starts a search (`realign.rs`); so does the start of a buffer, which may be inside a frame. Searches
//! that decide nothing become rare, so that a buffer without evidence is read as fast as any other.
//!
//! Where the sources are not known, a new id may be that of a source that starts late. Then frames start elsewhere only if
//! there are also ids that no source may have; an even number of bytes away, where ids say little, also if all synchronizations
//! there are intact.

use super::evidence::SourceEvidence;
use super::group::{GROUP, Group};
use super::read::{Gathered, gather, has_no_ids, id_pairs, ids_of, is_known, is_source, sync_within};
use super::realign::{FIRST_WINDOW, LAST_WINDOW, Score, Scores};
use super::saved::{LOOK_AHEAD, MAX_OFFSET};
use super::{FRAME_LENGTH, FSYNC, ID_FLUSH, ID_NULL, ID_TRIGGER, Ids};

/// State of the examination.
#[derive(Debug, Clone)]
pub(super) struct LookAhead {
    /// The ids of frames before this offset were examined.
    examined: u64,
    /// Ids that need no search.
    familiar: Ids,
    /// The values of an even byte that are other ids, or reserved.
    unfamiliar: [bool; 256],
    /// The start of the frames at this offset is examined, whatever their ids are.
    next_look: u64,
    /// Distance to the next such look if this one decides nothing.
    distance: u64,
    /// No search because of an id before this offset: the last one decided nothing.
    search_from: u64,
    /// Number of bytes that the current search examines.
    window: usize,
    /// Number of bytes that searches have read.
    spent: u64,
    /// The offset at which frames were found the last time. None of them starts earlier.
    floor: u64,
}

/// Bytes whose ids are examined before frames are emitted: a lost byte shows only when data is taken for an id.
pub(super) const HELD: u64 = GROUP as u64;
/// Bytes before an unfamiliar id in which frames may start elsewhere: those held, except a frame at their start.
const REACH: u64 = HELD - 64;
/// Number of bytes whose ids are examined at once.
const BATCH: u64 = 4096;
/// Lead of another start, in well-formed bytes, where no id is in doubt.
const SAFE_LEAD: i64 = 128;
/// Bytes that searches may read, and more for each byte of the buffer: damage everywhere must not take forever.
const CREDIT: u64 = 4 << 20;
const CREDIT_PER_BYTE: u64 = 4;
const NEVER: u64 = u64::MAX;
/// Distance to the second look at the start of the frames.
const FIRST_DISTANCE: u64 = LAST_WINDOW as u64 / 2;

/// Result of a search.
pub(super) enum Search {
    /// Frames that start before this offset can be emitted.
    Clear(u64),
    /// Frames start elsewhere: at this index. The bytes up to `end` were examined.
    Shift {
        /// Start of the first frame.
        start: usize,
        /// End of the examined bytes.
        end: usize,
    },
}

/// Result of examining ids.
enum Scan {
    /// All are familiar in this many bytes. None: there is no whole frame.
    Familiar(usize),
    /// A frame has others, or is damaged.
    Unfamiliar { at: usize, frame: Gist },
}

/// Whether an examination can have this state.
pub(super) fn is_state([examined, _, _, next_look, distance, search_from, spent, floor]: [u64; LOOK_AHEAD]) -> bool {
    let offsets = [examined, distance, search_from, spent, floor];
    let is_valid =
        offsets.iter().all(|offset| *offset <= MAX_OFFSET) && (next_look <= MAX_OFFSET || next_look == NEVER);
    // Without a distance, the next look would be at the same place.
    is_valid && distance >= FIRST_DISTANCE
}

/// Length and ids of a frame.
struct Gist {
    length: usize,
    ids: Ids,
}

/// Decision about the start of frames.
enum Decision {
    Stay,
    Shift {
        start: usize,
        end: usize,
    },
    /// More bytes are needed.
    Wait,
}

impl LookAhead {
    pub(super) fn new(expected: Ids) -> Self {
        let familiar = expected.iter().chain([ID_NULL, ID_FLUSH, ID_TRIGGER]).collect();
        let distance = FIRST_DISTANCE;
        let (examined, next_look, search_from, spent, floor) = (0, 0, 0, 0, 0);
        let unfamiliar = other_ids(familiar);
        Self { examined, familiar, unfamiliar, next_look, distance, search_from, window: FIRST_WINDOW, spent, floor }
    }

    /// The state as numbers. `None`: a search waits for bytes.
    pub(super) fn save(&self) -> Option<[u64; LOOK_AHEAD]> {
        let Self { examined, familiar: Ids(ids), next_look, distance, search_from, spent, floor, .. } = *self;
        let numbers = [examined, ids as u64, (ids >> 64) as u64, next_look, distance, search_from, spent, floor];
        (self.window == FIRST_WINDOW && is_state(numbers)).then_some(numbers)
    }

    /// An examination that continues at a [state](is_state).
    pub(super) fn restored(numbers: [u64; LOOK_AHEAD]) -> Self {
        let [examined, low, high, next_look, distance, search_from, spent, floor] = numbers;
        let familiar = Ids(u128::from(high) << 64 | u128::from(low));
        let (unfamiliar, window) = (other_ids(familiar), FIRST_WINDOW);
        Self { examined, familiar, unfamiliar, next_look, distance, search_from, window, spent, floor }
    }

    /// The start of frames is certain.
    pub(super) fn settle(&mut self) {
        self.next_look = NEVER;
    }

    /// Frames start here. Some time later this is examined again.
    pub(super) fn continue_at(&mut self, offset: u64) {
        (self.examined, self.floor) = (offset, offset);
        self.next_look = offset + LAST_WINDOW as u64 / 2;
    }

    /// The ids of frames before this offset were examined.
    pub(super) fn examined(&self) -> u64 {
        self.examined
    }

    /// Whether all ids of a group of frames are familiar, so that it needs no search.
    #[inline]
    pub(super) fn knows(&self, group: &Group<'_>) -> bool {
        group.with_ids().all(|frame| self.is_familiar(frame))
    }

    /// Examines the next group of frames. False: ids are not familiar, or a look is due; then use [`search`](Self::search).
    #[inline]
    pub(super) fn pass_group(&mut self, group: &Group<'_>) -> bool {
        let end = self.examined + GROUP as u64;
        let is_passed = end <= self.next_look && self.knows(group);
        if is_passed {
            self.examined = end;
        }
        is_passed
    }

    /// Examines the ids of the next frames. `base` is the offset of the first of the bytes.
    pub(super) fn search(&mut self, base: u64, bytes: &[u8], last: bool, sources: &impl SourceEvidence) -> Search {
        self.examined = self.examined.max(base);
        let end = base + HELD + BATCH;
        while self.examined < end {
            let at = (self.examined - base) as usize;
            let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else { break };
            let is_due = self.examined >= self.next_look;
            let mut frame = None;
            if !is_due {
                let length = (end.min(self.next_look) - self.examined) as usize;
                match self.scan(rest, length, last) {
                    Scan::Familiar(0) => break,
                    Scan::Familiar(length) => {
                        self.examined += length as u64;
                        continue;
                    }
                    Scan::Unfamiliar { at, frame: unfamiliar } => {
                        self.examined += at as u64;
                        frame = Some(unfamiliar);
                    }
                }
            }
            let decision = if is_due || self.may_search() {
                self.decide(base, bytes, is_due, last, sources)
            } else {
                Decision::Stay
            };
            match decision {
                Decision::Stay => self.pass(frame),
                Decision::Shift { start, end } => return Search::Shift { start, end },
                Decision::Wait => break,
            }
        }
        Search::Clear(if last && self.examined < end { NEVER } else { self.examined.saturating_sub(HELD) })
    }

    /// Examines the ids of the frames in the first `length` bytes.
    fn scan(&self, bytes: &[u8], length: usize, last: bool) -> Scan {
        let mut at = 0;
        while at < length {
            at += self.scan_plain(&bytes[at..], length - at);
            let rest = &bytes[at..];
            if at >= length {
                break;
            } else if rest.starts_with(&FSYNC) {
                at += FSYNC.len();
                continue;
            }
            let frame = match gather(rest) {
                Gathered::Frame(frame) => frame,
                Gathered::CutShort(length) => {
                    at += length;
                    continue;
                }
                Gathered::NeedMore => break,
            };
            let gist = Gist::of(&frame.bytes, frame.length);
            if gist.ids.is_subset(self.familiar) {
                at += frame.length;
            } else if let Some(sync) = sync_within(rest, frame.length) {
                at += sync;
            } else if rest.len() < frame.length + FSYNC.len() && !last {
                break;
            } else {
                return Scan::Unfamiliar { at, frame: gist };
            }
        }
        Scan::Familiar(at)
    }

    /// The short path: whole frames with familiar ids.
    #[inline]
    fn scan_plain(&self, bytes: &[u8], length: usize) -> usize {
        let (frames, _) = bytes.as_chunks::<FRAME_LENGTH>();
        let frames = &frames[..frames.len().min(length.div_ceil(FRAME_LENGTH))];
        let is_familiar = |frame: &&[u8; FRAME_LENGTH]| has_no_ids(frame) || self.is_familiar(frame);
        frames.iter().take_while(is_familiar).count() * FRAME_LENGTH
    }

    /// Whether all ids of a frame are familiar. The number of ids makes no difference to the time that this takes.
    #[inline]
    fn is_familiar(&self, frame: &[u8; FRAME_LENGTH]) -> bool {
        !frame.iter().step_by(2).fold(false, |is_any, byte| is_any | self.unfamiliar[usize::from(*byte)])
    }

    /// A search that waits for more bytes continues, whatever it has spent: chunks make no difference.
    fn may_search(&self) -> bool {
        let is_in_progress = self.window > FIRST_WINDOW;
        let may_start = self.examined >= self.search_from && self.spent <= CREDIT + CREDIT_PER_BYTE * self.examined;
        is_in_progress || may_start
    }

    /// Frames start as before; the ids of this one are familiar from now on.
    fn pass(&mut self, frame: Option<Gist>) {
        if let Some(frame) = frame {
            self.examined += frame.length as u64;
            self.accept(frame.ids.iter().filter(|id| is_known(*id)));
        }
    }

    /// These ids need no search from now on.
    fn accept(&mut self, ids: impl Iterator<Item = u8>) {
        self.familiar = ids.chain(self.familiar.iter()).collect();
        self.unfamiliar = other_ids(self.familiar);
    }

    /// Decides whether frames start elsewhere than assumed, by what the sources would send then.
    fn decide(&mut self, base: u64, bytes: &[u8], is_due: bool, last: bool, sources: &impl SourceEvidence) -> Decision {
        let at = (self.examined - base) as usize;
        let lead_needed = if is_due { SAFE_LEAD } else { 1 };
        loop {
            if bytes.len() < at + self.window && !last {
                return Decision::Wait;
            }
            let mut end = bytes.len().min(at + self.window);
            let mut is_last = self.window >= LAST_WINDOW || last && end == bytes.len();
            if is_due && let Some(familiar) = self.familiar_bytes(&bytes[at..end]) {
                // What follows may be damage, which is examined when it is reached.
                (end, is_last) = (at + familiar, true);
            }
            let window = &bytes[at..end];
            self.spent += window.len() as u64;
            let here = Score::of(window, sources);
            if here.is_plausible(if is_due { 0 } else { 1 }) {
                return self.stay(is_due, &here);
            }
            let is_known = !sources.ids().is_empty();
            if !is_known && !is_due && here.is_possible() {
                // A source starts here, or the damage shows later.
                self.window = FIRST_WINDOW;
                return Decision::Stay;
            }
            self.spent += (FRAME_LENGTH * window.len()) as u64;
            let scores = Scores::of(window, sources);
            let (start, best) = scores.best();
            let lead = best.value() - here.value();
            let is_better = lead >= lead_needed && (is_known || best.is_credible(start, &here));
            if is_better && (scores.is_clear() || is_last && best.is_evidence()) {
                self.window = FIRST_WINDOW;
                let start = self.first_frame(base, &bytes[..end], at + start, sources);
                return Decision::Shift { start, end };
            } else if is_last || is_due && scores.is_clear() && lead < 0 {
                return self.stay(is_due, &here);
            }
            self.window *= 2;
        }
    }

    /// Number of bytes up to the first frame with unfamiliar ids, if there is one and ids are known.
    fn familiar_bytes(&self, bytes: &[u8]) -> Option<usize> {
        let is_last = true;
        match self.scan(bytes, bytes.len(), is_last) {
            Scan::Unfamiliar { at, .. } if self.familiar.iter().any(is_source) => Some(at),
            _ => None,
        }
    }

    /// Frames start as assumed, or there is no evidence for another start.
    fn stay(&mut self, is_due: bool, here: &Score) -> Decision {
        self.window = FIRST_WINDOW;
        match (is_due, here.is_evidence()) {
            (true, true) => self.next_look = NEVER,
            (true, false) => {
                self.next_look = self.examined + self.distance;
                self.distance = self.distance.saturating_mul(2);
            }
            (false, true) => {}
            (false, false) => self.search_from = self.examined + LAST_WINDOW as u64 / 2,
        }
        if here.is_evidence() {
            self.accept(here.ids.iter());
        }
        Decision::Stay
    }

    /// The first of the frames that start at an index: earlier ones may have familiar ids too, and the frame here may be the
    /// damaged one. Again the streams decide; with equal ones, the earliest frame is the first.
    fn first_frame(&self, base: u64, bytes: &[u8], start: usize, sources: &impl SourceEvidence) -> usize {
        let floor = self.floor.max(self.examined.saturating_sub(REACH)).saturating_sub(base) as usize;
        let is_frame = |start: &usize| {
            let frame = bytes.get(*start..).and_then(|bytes| bytes.first_chunk());
            frame.is_some_and(|frame| Gist::of(frame, FRAME_LENGTH).ids.is_subset(self.familiar))
        };
        let before = |start: &usize| start.checked_sub(FRAME_LENGTH).filter(|start| *start >= floor);
        let earlier = core::iter::successors(before(&start), before).take_while(is_frame);
        let value = |start: &usize| Score::of(bytes.get(*start..).unwrap_or_default(), sources).value();
        let later = Some(start + FRAME_LENGTH).filter(|later| *later <= bytes.len());
        later.into_iter().chain([start]).chain(earlier).max_by_key(value).unwrap_or(start)
    }
}

/// The values of an even byte of a frame that are ids other than these, or that no frame may name.
fn other_ids(familiar: Ids) -> [bool; 256] {
    let is_familiar = |id: u8| familiar.contains(id) && is_known(id);
    core::array::from_fn(|byte| byte & 1 == 1 && !is_familiar((byte >> 1) as u8))
}

impl Gist {
    fn of(frame: &[u8; FRAME_LENGTH], length: usize) -> Self {
        Self { length, ids: ids_of(frame, id_pairs(frame)).collect() }
    }
}
