//! Sessions: which bytes of which file each AUX record announces.
//!
//! AUX records, AUXTRACE records ─▶ **sessions** ─▶ ranges of files, or why there are none
//!
//! An AUX record has offsets in the endless trace of a CPU or a thread; an AUXTRACE record says which part of that trace
//! is in the file. Either may come first. The bytes themselves are not read.

use std::collections::BTreeMap;

/// Ranges of one session, more than any recorder writes.
const PART_LIMIT: usize = 16;

/// Flags of an AUX record.
const TRUNCATED: u64 = 1;
const OVERWRITE: u64 = 2;
const PARTIAL: u64 = 4;
const COLLISION: u64 = 8;
const RAW: u64 = 0x100;

/// Trace that was recorded without interruption: a decoder starts anew with each session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    /// The CPU, if the record has it.
    pub cpu: Option<u32>,
    /// The thread that ran when the record was written, or to which the trace belongs.
    pub tid: Option<u32>,
    /// Whether the trace is that of a thread, on any CPU.
    pub is_of_thread: bool,
    /// The file of the AUX record, and its byte offset there. Without such a record, those of the AUXTRACE record.
    pub file: usize,
    /// See `file`.
    pub offset: u64,
    /// Time of the AUX record in nanoseconds; `None` if it has none.
    pub time: Option<u64>,
    /// Whether the bytes are the stream of one source; otherwise they are frames.
    pub is_raw: bool,
    /// The buffer was full, and trace was lost.
    pub is_truncated: bool,
    /// The buffer was overwritten in a circle: a snapshot.
    pub is_overwritten: bool,
    /// Some of the trace may be missing inside.
    pub is_partial: bool,
    /// Samples collided with each other.
    pub is_collision: bool,
    /// No AUX record announces these bytes; whether they are raw is a guess.
    pub is_unannounced: bool,
    /// The bytes, in order.
    pub parts: Vec<Part>,
    /// Number of announced bytes that are not in the file.
    pub missing: u64,
    /// Why there are no bytes.
    pub absent: Option<Absent>,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The file, as an index into the files of the recording.
    pub file: usize,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Why a session has no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Absent {
    /// The record announces none.
    Empty,
    /// No trace of this CPU or thread is in the file.
    NoTrace,
    /// The trace of this CPU or thread does not have these bytes.
    NotRecorded,
}

impl Session {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.length).fold(0, u64::saturating_add)
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An AUX record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aux {
    pub(crate) file: usize,
    pub(crate) place: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) flags: u64,
    pub(crate) cpu: Option<u32>,
    pub(crate) tid: Option<u32>,
    pub(crate) time: Option<u64>,
    /// The attribute of its event.
    pub(crate) attr: usize,
}

/// An AUXTRACE record: a part of the trace of a CPU or thread that is in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) cpu: Option<u32>,
    pub(crate) tid: u32,
    /// Offset of the record.
    pub(crate) place: u64,
    /// Offset in the trace.
    pub(crate) start: u64,
    /// The bytes.
    pub(crate) part: Part,
}

/// Whose trace it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Cpu(u32),
    Thread(u32),
}

/// Matches records. Sessions are in the order of their times if all have one, else in that of the records.
pub(crate) fn sessions(records: &[Aux], pieces: &[Piece]) -> Vec<Session> {
    let mut owners = Owners::new(pieces);
    let mut sessions: Vec<Session> = records.iter().map(|aux| owners.session(aux)).collect();
    let is_raw = records.iter().any(|aux| aux.flags & RAW != 0);
    sessions.extend(owners.unannounced(is_raw));
    if sessions.iter().all(|session| session.time.is_some()) {
        sessions.sort_by_key(|session| session.time);
    }
    sessions
}

/// Pieces by owner, sorted by their offsets in the trace.
struct Owners<'a>(BTreeMap<Owner, Vec<(&'a Piece, bool)>>);

impl<'a> Owners<'a> {
    fn new(pieces: &'a [Piece]) -> Self {
        let mut owners: BTreeMap<Owner, Vec<(&Piece, bool)>> = BTreeMap::new();
        for piece in pieces.iter().filter(|piece| piece.part.length > 0) {
            let owner = piece.cpu.map_or(Owner::Thread(piece.tid), Owner::Cpu);
            owners.entry(owner).or_default().push((piece, false));
        }
        owners.values_mut().for_each(|pieces| pieces.sort_by_key(|(piece, _)| piece.start));
        Self(owners)
    }

    fn session(&mut self, aux: &Aux) -> Session {
        let mut session = Session::of(aux);
        if aux.size == 0 {
            session.absent = Some(Absent::Empty);
            return session;
        }
        let owners = [aux.cpu.map(Owner::Cpu), aux.tid.map(Owner::Thread)];
        session.absent = Some(Absent::NoTrace);
        for owner in owners.into_iter().flatten() {
            let Some(pieces) = self.0.get_mut(&owner) else { continue };
            session.absent = Some(Absent::NotRecorded);
            session.parts = find(aux, pieces);
            if !session.parts.is_empty() {
                session.is_of_thread = matches!(owner, Owner::Thread(_));
                session.absent = None;
                break;
            }
        }
        if !session.is_overwritten || session.absent.is_some() {
            session.missing = aux.size.saturating_sub(session.len());
        }
        session
    }

    /// Pieces that no AUX record refers to.
    fn unannounced(&self, is_raw: bool) -> Vec<Session> {
        let left = self.0.values().flatten().filter(|(_, is_used)| !is_used).map(|(piece, _)| *piece);
        let mut found: Vec<Session> = left
            .map(|piece| Session {
                cpu: piece.cpu,
                tid: Some(piece.tid).filter(|tid| piece.cpu.is_none() && *tid != u32::MAX),
                is_of_thread: piece.cpu.is_none(),
                file: piece.part.file,
                offset: piece.place,
                is_raw,
                is_unannounced: true,
                parts: vec![piece.part],
                ..Session::default()
            })
            .collect();
        found.sort_by_key(|session| (session.file, session.offset));
        found
    }
}

/// The bytes that a record announces.
fn find(aux: &Aux, pieces: &mut [(&Piece, bool)]) -> Vec<Part> {
    if aux.flags & OVERWRITE != 0 {
        // The offset is that of the end; the size may be that of the whole buffer.
        let index = pieces.partition_point(|(piece, _)| piece.start < aux.offset);
        let Some((piece, is_used)) = index.checked_sub(1).and_then(|index| pieces.get_mut(index)) else {
            return Vec::new();
        };
        let before_end = aux.offset - piece.start;
        if before_end > piece.part.length {
            return Vec::new();
        }
        *is_used = true;
        let length = aux.size.min(before_end);
        return vec![Part { length, offset: piece.part.offset.saturating_add(before_end - length), ..piece.part }];
    }
    let end = aux.offset.saturating_add(aux.size);
    let mut at = aux.offset;
    let mut parts = Vec::new();
    let mut index = pieces.partition_point(|(piece, _)| piece.start <= at).saturating_sub(1);
    while at < end && parts.len() < PART_LIMIT {
        let next = pieces.get(index + 1).map(|(piece, _)| piece.start);
        let Some((piece, is_used)) = pieces.get_mut(index) else { break };
        let last = piece.start.saturating_add(piece.part.length);
        // perf fills the last word of a piece with zeros; the next piece has the bytes that belong there.
        let last = next.filter(|next| (at + 1..last).contains(next)).unwrap_or(last);
        if !(piece.start..last).contains(&at) {
            break;
        }
        *is_used = true;
        let length = last.min(end) - at;
        parts.push(Part { length, offset: piece.part.offset.saturating_add(at - piece.start), ..piece.part });
        at += length;
        index += 1;
    }
    parts
}

impl Session {
    fn of(aux: &Aux) -> Self {
        let has = |flag| aux.flags & flag != 0;
        Self {
            cpu: aux.cpu,
            tid: aux.tid,
            file: aux.file,
            offset: aux.place,
            time: aux.time,
            is_raw: has(RAW),
            is_truncated: has(TRUNCATED),
            is_overwritten: has(OVERWRITE),
            is_partial: has(PARTIAL),
            is_collision: has(COLLISION),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of CPU 7 whose bytes are at 10,000 plus their offset in the trace.
    fn piece(start: u64, length: u64) -> Piece {
        Piece { cpu: Some(7), tid: u32::MAX, place: 0, start, part: Part { file: 0, offset: 10_000 + start, length } }
    }

    fn aux(offset: u64, size: u64, flags: u64) -> Aux {
        Aux { file: 0, place: 0, offset, size, flags, cpu: Some(7), tid: Some(5), time: None, attr: 0 }
    }

    fn parts(aux: &Aux, pieces: &[Piece]) -> (Vec<(u64, u64)>, u64, Option<Absent>) {
        let session = sessions(&[*aux], pieces).remove(0);
        let parts = session.parts.iter().map(|part| (part.offset - 10_000, part.length)).collect();
        (parts, session.missing, session.absent)
    }

    #[test]
    fn announced_bytes() {
        let pieces = [piece(0x200, 0x100), piece(0, 0x100), piece(0x100, 0x50)];
        // offset, size, flags; ranges, missing bytes, why absent
        type Row<'a> = (u64, u64, u64, &'a [(u64, u64)], u64, Option<Absent>);
        let rows: &[Row<'_>] = &[
            (0, 0x50, 0, &[(0, 0x50)], 0, None),
            (0x50, 0xb0, 0, &[(0x50, 0xb0)], 0, None),
            (0xf0, 0x20, 0, &[(0xf0, 0x10), (0x100, 0x10)], 0, None),
            (0x140, 0x20, 0, &[(0x140, 0x10)], 0x10, None),
            (0x160, 0x20, 0, &[], 0x20, Some(Absent::NotRecorded)),
            (0x300, 8, 0, &[], 8, Some(Absent::NotRecorded)),
            (0x2f8, u64::MAX, 0, &[(0x2f8, 8)], u64::MAX - 8, None),
            (0, 0, 0, &[], 0, Some(Absent::Empty)),
            // Snapshots end at the offset.
            (0x300, 0x1000, OVERWRITE, &[(0x200, 0x100)], 0, None),
            (0x300, 0x40, OVERWRITE, &[(0x2c0, 0x40)], 0, None),
            (0x280, 0x1000, OVERWRITE, &[(0x200, 0x80)], 0, None),
            (0x400, 0x40, OVERWRITE, &[], 0x40, Some(Absent::NotRecorded)),
            (0, 0x40, OVERWRITE, &[], 0x40, Some(Absent::NotRecorded)),
        ];
        for (offset, size, flags, expected, missing, absent) in rows {
            let found = parts(&aux(*offset, *size, *flags), &pieces);
            assert_eq!(found, (expected.to_vec(), *missing, *absent), "{offset:#x} {size:#x} {flags}");
        }
        assert_eq!(parts(&aux(0, 8, 0), &[]), (vec![], 8, Some(Absent::NoTrace)));
    }

    #[test]
    fn filling_at_the_end_of_a_piece_is_not_trace() {
        // 0x4c bytes are stored as 0x50; the next piece starts where they really end.
        let pieces = [piece(0, 0x50), piece(0x4c, 0x50)];
        assert_eq!(parts(&aux(0, 0x98, 0), &pieces), (vec![(0, 0x4c), (0x4c, 0x4c)], 0, None));
        assert_eq!(parts(&aux(0x4c, 0x4c, 0), &pieces), (vec![(0x4c, 0x4c)], 0, None));
    }

    #[test]
    fn buffers_of_threads() {
        let of_thread = |tid| Piece { cpu: None, tid, ..piece(0, 0x100) };
        let found = sessions(&[aux(0, 0x10, 0)], &[of_thread(4), of_thread(5)]);
        assert_eq!((found[0].is_of_thread, found[0].tid, found[0].len()), (true, Some(5), 0x10));
        assert_eq!((found[1].is_unannounced, found[1].tid, found[1].len()), (true, Some(4), 0x100));
        let found = sessions(&[Aux { cpu: None, ..aux(0, 0x10, 0) }], &[of_thread(5)]);
        assert!(found[0].is_of_thread && found.len() == 1);
    }

    #[test]
    fn flags_and_order() {
        let late = Aux { time: Some(9), ..aux(0, 8, RAW | TRUNCATED) };
        let early = Aux { time: Some(3), ..aux(8, 8, COLLISION | PARTIAL) };
        let found = sessions(&[late, early], &[piece(0, 16)]);
        assert_eq!((found[0].is_collision, found[0].is_partial, found[0].is_raw), (true, true, false));
        assert_eq!((found[1].is_truncated, found[1].is_raw, found[1].is_collision), (true, true, false));
        let untimed = sessions(&[late, Aux { time: None, ..early }], &[piece(0, 16)]);
        assert_eq!((untimed[0].time, untimed[1].time), (Some(9), None), "the order of the records");
    }

    #[test]
    fn one_record_over_many_pieces_is_limited() {
        let pieces: Vec<Piece> = (0..100).map(|index| piece(index * 8, 8)).collect();
        let session = sessions(&[aux(0, 800, 0)], &pieces).remove(0);
        assert_eq!((session.parts.len(), session.missing), (PART_LIMIT, 800 - 8 * PART_LIMIT as u64));
    }
}
