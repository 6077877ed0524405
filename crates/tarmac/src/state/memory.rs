//! Memory as one core sees it, eight bytes at a time.
//!
//! Of every byte it is kept what a read found there before anything changed it, what it was changed to last, and on which
//! lines. Parts of a log can so be looked at by themselves and put together afterwards, and what was read first in a later
//! part was there in an earlier one.

use std::ops::RangeInclusive;

use super::data::Piece;
use super::unknown_writes::{UnknownWrites, bytes_of};

/// Bytes that are kept together.
pub(crate) const GRANULE: u64 = 8;

/// What is known of eight bytes in a part of a log. Masks have a bit a byte, numbers a byte a byte, the lowest address
/// lowest. Lines are counted from the start of the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Granule {
    /// What was read first, before anything changed.
    pub(crate) first: u64,
    /// What it was changed to last.
    pub(crate) last: u64,
    pub(crate) first_at: [u32; 8],
    pub(crate) last_at: [u32; 8],
    /// `first` holds of these.
    pub(crate) firsts: u8,
    /// `last` holds of these.
    pub(crate) changed: u8,
    /// Of those that changed: what they are is known.
    pub(crate) known: u8,
    /// Of those that changed: a read told it, not a write.
    pub(crate) seen: u8,
}

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
}

impl Granule {
    /// Bytes are read or written.
    #[inline]
    pub(crate) fn touch(&mut self, touch: Touch, piece: &Piece, line: u32) {
        match touch {
            Touch::Read => self.read(piece.value, piece.known, line),
            Touch::Write => self.write(piece.value, piece.bytes, piece.known, line),
        }
    }

    /// Known bytes are read.
    #[inline]
    pub(crate) fn read(&mut self, value: u64, bytes: u8, line: u32) {
        let fresh = bytes & !(self.changed | self.firsts);
        if fresh != 0 {
            self.first = mix(self.first, value, fresh);
            self.firsts |= fresh;
            set_lines(&mut self.first_at, fresh, line);
        }
        // What was written, but not what: a read tells.
        let told = bytes & self.changed & !self.known;
        if told != 0 {
            self.last = mix(self.last, value, told);
            self.known |= told;
        }
        let held = bytes & !fresh & !told;
        let other = different(mix(self.first, self.last, self.changed), value) & held;
        if other != 0 {
            self.write(value, other, other, line);
            self.seen |= other;
        }
    }

    /// Bytes are written, some of which are known.
    #[inline]
    pub(crate) fn write(&mut self, value: u64, bytes: u8, known: u8, line: u32) {
        self.last = mix(self.last, value, bytes);
        self.changed |= bytes;
        self.known = self.known & !bytes | known & bytes;
        self.seen &= !bytes;
        set_lines(&mut self.last_at, bytes, line);
    }

    /// What came later in the log, whose lines start `shift` behind these.
    pub(crate) fn append(&mut self, later: &Self, shift: u32) {
        each_line(&later.first_at, later.firsts, |bytes, line| {
            self.read(later.first, bytes, line.saturating_add(shift));
        });
        each_line(&later.last_at, later.changed, |bytes, line| {
            self.write(later.last, bytes, later.known, line.saturating_add(shift));
        });
        self.seen |= later.seen & later.changed;
    }

    /// What is known at the end of the part: the bytes, and which.
    pub(crate) fn value(&self) -> (u64, u8) {
        let bytes = self.firsts & !self.changed | self.known & self.changed;
        (mix(self.first, self.last, self.changed), bytes)
    }

    /// What was written to one of its bytes last, or read there.
    pub(crate) fn last_write(&self, address: u64) -> Option<LastWrite> {
        let at = address % GRANULE;
        let (value, known) = self.value();
        let is = |mask: u8| mask >> at & 1 != 0;
        is(self.firsts | self.changed).then(|| LastWrite {
            value: is(known).then_some((value >> (at * 8)) as u8),
            line: if is(self.changed) { self.last_at[at as usize].into() } else { 0 },
            is_seen: is(self.changed & self.seen),
        })
    }
}

/// Takes bytes of `other` where a mask says so.
#[inline(always)]
fn mix(value: u64, other: u64, bytes: u8) -> u64 {
    let lanes = lanes(bytes);
    value & !lanes | other & lanes
}

/// Eight ones for each bit.
#[inline(always)]
pub(super) fn lanes(bytes: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // Every byte of the product has all bits of the mask, and keeps its own.
    let own = u64::from(bytes).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    // Whichever bit it is, it becomes the highest of its byte, and then fills it.
    let top = (((own & LOW) + LOW) | own) & !LOW;
    (top >> 7) * 0xff
}

/// Which bytes differ?
#[inline(always)]
fn different(a: u64, b: u64) -> u8 {
    let mut bytes = 0;
    for (at, byte) in (a ^ b).to_le_bytes().into_iter().enumerate() {
        bytes |= u8::from(byte != 0) << at;
    }
    bytes
}

#[inline(always)]
fn set_lines(lines: &mut [u32; 8], bytes: u8, line: u32) {
    if bytes == 0xff {
        *lines = [line; 8];
        return;
    }
    for (at, place) in lines.iter_mut().enumerate() {
        if bytes >> at & 1 != 0 {
            *place = line;
        }
    }
}

/// Bytes that have the same line, together.
pub(crate) fn each_line(lines: &[u32; 8], bytes: u8, mut take: impl FnMut(u8, u32)) {
    let mut left = bytes;
    while left != 0 {
        let line = lines[left.trailing_zeros() as usize];
        let same = (0..8).filter(|at| lines[*at] == line).fold(0, |same, at| same | 1 << at) & left;
        take(same, line);
        left &= !same;
    }
}

/// A byte of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What it is.
    pub value: u8,
    /// The line that wrote it; 0: it was never written.
    pub line: u64,
    /// Nothing wrote it, but on this line it was read as something else than before.
    pub is_seen: bool,
}

/// The last write to a byte of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastWrite {
    /// What the byte is since; `None`: nobody says.
    pub value: Option<u8>,
    /// The line that wrote it; 0: it was never written.
    pub line: u64,
    /// Nothing wrote it, but on this line it was read as something else than before.
    pub is_seen: bool,
}

impl LastWrite {
    /// The byte, if it is known.
    pub fn known(&self) -> Option<Known> {
        Some(Known { value: self.value?, line: self.line, is_seen: self.is_seen })
    }
}

/// Memory as a core saw it from the start of a log on, or of a part of it.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The places of granules, by their hash; 0: none.
    places: Vec<u32>,
    entries: Vec<(u64, Granule)>,
    last: usize,
    /// No more granules than these, if not 0.
    limit: usize,
    is_full: bool,
    /// Written without a line that says what, after all that the granules have.
    forgotten: UnknownWrites,
}

impl Memory {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps no more than so many times eight bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Was there more than the limit allows?
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    #[inline]
    pub(crate) fn touch(&mut self, touch: Touch, piece: &Piece, line: u32) {
        if let Some(granule) = self.granule(piece.granule) {
            granule.touch(touch, piece, line);
        }
    }

    /// The granule of a number (an address divided by eight), new if need be.
    #[inline]
    pub(crate) fn granule(&mut self, number: u64) -> Option<&mut Granule> {
        let at = match self.entries.get(self.last) {
            Some((last, _)) if *last == number => self.last,
            _ => self.find(number)?,
        };
        self.last = at;
        if !self.forgotten.is_empty() {
            self.settle(at);
        }
        self.entries.get_mut(at).map(|(_, granule)| granule)
    }

    /// A granule, if anything is known of it.
    pub(crate) fn get(&self, number: u64) -> Option<Granule> {
        let entry = self.entry(number).copied();
        if self.forgotten.is_empty() {
            return entry;
        }
        let mut granule = entry.unwrap_or_default();
        self.forgotten.settle(number, &mut granule);
        (granule.firsts | granule.changed != 0).then_some(granule)
    }

    fn entry(&self, number: u64) -> Option<&Granule> {
        if self.places.is_empty() {
            return None;
        }
        let place = self.places[self.place(number)];
        self.entries.get((place as usize).checked_sub(1)?).map(|(_, granule)| granule)
    }

    /// Bytes are written, and nobody says what.
    pub(crate) fn forget(&mut self, range: RangeInclusive<u64>, line: u32) {
        if self.limit == 0 || self.forgotten.len() < self.limit {
            return self.forgotten.add(range, line);
        }
        // No more ranges: it is at least not said that anything still holds.
        self.is_full = true;
        let mut forgotten = UnknownWrites::default();
        forgotten.add(range.clone(), line);
        let granules = range.start() / GRANULE..=range.end() / GRANULE;
        let mut held = Vec::new();
        self.each_within(&granules, |number, _| held.push(number));
        for number in held {
            self.granule(number).into_iter().for_each(|granule| forgotten.settle(number, granule));
        }
    }

    /// A granule gets what was forgotten of it.
    #[cold]
    fn settle(&mut self, at: usize) {
        if let Some((number, granule)) = self.entries.get_mut(at) {
            self.forgotten.settle(*number, granule);
            self.forgotten.cut(&bytes_of(*number));
        }
    }

    /// Adds what came later in a range of granules; its lines start `shift` behind these.
    pub(crate) fn append(&mut self, later: &Self, range: &RangeInclusive<u64>, shift: u32) {
        later.each_within(range, |number, later| {
            if let Some(granule) = self.granule(number) {
                granule.append(later, shift);
            }
        });
        let bytes = *bytes_of(*range.start()).start()..=*bytes_of((*range.end()).min(u64::MAX / GRANULE)).end();
        for (range, line) in later.forgotten.within(&bytes) {
            self.forget(range, line.saturating_add(shift));
        }
    }

    fn find(&mut self, number: u64) -> Option<usize> {
        if self.entries.len() * 2 >= self.places.len() {
            self.grow();
        }
        let place = self.place(number);
        if let Some(at) = (self.places[place] as usize).checked_sub(1) {
            return Some(at);
        }
        if self.limit != 0 && self.entries.len() >= self.limit || self.entries.len() >= u32::MAX as usize {
            self.is_full = true;
            return None;
        }
        self.entries.push((number, Granule::default()));
        self.places[place] = self.entries.len() as u32;
        Some(self.entries.len() - 1)
    }

    /// Where a granule is in the table, or would be. The table is not empty and never full.
    #[inline]
    fn place(&self, number: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            match (self.places[place] as usize).checked_sub(1) {
                Some(at) if self.entries[at].0 != number => place = (place + 1) & mask,
                _ => return place,
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(1 << 10);
        self.places.clear();
        self.places.resize(size, 0);
        for at in 0..self.entries.len() {
            let place = self.place(self.entries[at].0);
            self.places[place] = at as u32 + 1;
        }
    }

    /// All granules in the order of their addresses, and what was forgotten of others. The memory is of no use afterwards
    /// until it is emptied.
    pub(crate) fn sorted(&mut self) -> (&[(u64, Granule)], &UnknownWrites) {
        self.entries.sort_unstable_by_key(|(number, _)| *number);
        if !self.forgotten.is_empty() {
            (0..self.entries.len()).for_each(|at| self.settle(at));
        }
        (&self.entries, &self.forgotten)
    }

    /// Hands out the granules of a range, in no order, without what was forgotten since.
    pub(crate) fn each_within(&self, range: &RangeInclusive<u64>, mut take: impl FnMut(u64, &Granule)) {
        let few = range.end() - range.start() < self.entries.len() as u64;
        if few {
            return range
                .clone()
                .for_each(|number| self.entry(number).into_iter().for_each(|granule| take(number, granule)));
        }
        self.entries
            .iter()
            .filter(|(number, _)| range.contains(number))
            .for_each(|(number, granule)| take(*number, granule));
    }

    /// A byte, if it is known.
    pub fn byte(&self, address: u64) -> Option<Known> {
        self.last_write(address)?.known()
    }

    /// What was written to a byte last, or read there, even if it is not known.
    pub fn last_write(&self, address: u64) -> Option<LastWrite> {
        self.get(address / GRANULE).and_then(|granule| granule.last_write(address))
    }

    /// Every address of which something is known, in order.
    pub fn addresses(&self) -> Vec<u64> {
        let known = |number: u64| self.get(number).map_or(0, |granule| granule.value().1);
        let mut numbers: Vec<_> = self.entries.iter().map(|(number, _)| (*number, known(*number))).collect();
        numbers.sort_unstable();
        let each = |(number, known): (u64, u8)| {
            (0..GRANULE).filter(move |at| known >> at & 1 != 0).map(move |at| number * GRANULE + at)
        };
        numbers.into_iter().flat_map(each).collect()
    }
}
