//! Memory as one core sees it, in granules of eight bytes.
//!
//! For every byte it keeps the value of the first read before any change, the value of the last change, and the lines
//! of both. Parts of a log can therefore be processed separately and joined afterwards: a first read in a later part
//! applies to the earlier one.

use std::ops::RangeInclusive;

use super::data::GranulePart;
use super::unknown_writes::{UnknownWrites, bytes_of};

/// Number of bytes in a granule.
pub(crate) const GRANULE: u64 = 8;

/// State of eight bytes in a part of a log. Masks have one bit per byte and values one byte per byte, the lowest
/// address lowest. Lines are counted from the start of the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Granule {
    /// Value of the first read, before any change.
    pub(crate) first: u64,
    /// Value of the last change.
    pub(crate) last: u64,
    pub(crate) first_at: [u32; 8],
    pub(crate) last_at: [u32; 8],
    /// Mask of the bytes with a first read.
    pub(crate) firsts: u8,
    /// Mask of the bytes that changed.
    pub(crate) changed: u8,
    /// Mask of the changed bytes whose value is known.
    pub(crate) known: u8,
    /// Mask of the changed bytes whose change a read revealed, not a write.
    pub(crate) seen: u8,
}

/// Direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
}

impl Granule {
    /// Applies an access.
    #[inline]
    pub(crate) fn touch(&mut self, touch: Touch, part: &GranulePart, line: u32) {
        match touch {
            Touch::Read => self.read(part.value, part.known, line),
            Touch::Write => self.write(part.value, part.bytes, part.known, line),
        }
    }

    /// Applies a read of known bytes.
    #[inline]
    pub(crate) fn read(&mut self, value: u64, bytes: u8, line: u32) {
        let fresh = bytes & !(self.changed | self.firsts);
        if fresh != 0 {
            self.first = mix(self.first, value, fresh);
            self.firsts |= fresh;
            set_lines(&mut self.first_at, fresh, line);
        }
        // A read reveals the value of an earlier unknown write.
        let revealed = bytes & self.changed & !self.known;
        if revealed != 0 {
            self.last = mix(self.last, value, revealed);
            self.known |= revealed;
        }
        let held = bytes & !fresh & !revealed;
        let other = different(mix(self.first, self.last, self.changed), value) & held;
        if other != 0 {
            self.write(value, other, other, line);
            self.seen |= other;
        }
    }

    /// Applies a write; `known` is the mask of known bytes.
    #[inline]
    pub(crate) fn write(&mut self, value: u64, bytes: u8, known: u8, line: u32) {
        self.last = mix(self.last, value, bytes);
        self.changed |= bytes;
        self.known = self.known & !bytes | known & bytes;
        self.seen &= !bytes;
        set_lines(&mut self.last_at, bytes, line);
    }

    /// Appends the state of a later part, whose lines start `shift` after these.
    pub(crate) fn append(&mut self, later: &Self, shift: u32) {
        each_line(&later.first_at, later.firsts, |bytes, line| {
            self.read(later.first, bytes, line.saturating_add(shift));
        });
        each_line(&later.last_at, later.changed, |bytes, line| {
            self.write(later.last, bytes, later.known, line.saturating_add(shift));
        });
        self.seen |= later.seen & later.changed;
    }

    /// Value at the end of the part, and the mask of known bytes.
    pub(crate) fn value(&self) -> (u64, u8) {
        let bytes = self.firsts & !self.changed | self.known & self.changed;
        (mix(self.first, self.last, self.changed), bytes)
    }

    /// The last write to a byte, or its first read.
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

/// Takes the bytes of `other` in the mask.
#[inline(always)]
fn mix(value: u64, other: u64, bytes: u8) -> u64 {
    let lanes = lanes(bytes);
    value & !lanes | other & lanes
}

/// A byte mask as a bit mask.
#[inline(always)]
pub(super) fn lanes(bytes: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // Every byte of the product has all bits of the mask, and keeps its own.
    let own = u64::from(bytes).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    // Moves whichever bit it is to the top of its byte, then fills the byte.
    let top = (((own & LOW) + LOW) | own) & !LOW;
    (top >> 7) * 0xff
}

/// Mask of the bytes that differ.
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
    for (at, slot) in lines.iter_mut().enumerate() {
        if bytes >> at & 1 != 0 {
            *slot = line;
        }
    }
}

/// Passes on the bytes of a mask, grouped by line.
pub(crate) fn each_line(lines: &[u32; 8], bytes: u8, mut sink: impl FnMut(u8, u32)) {
    let mut left = bytes;
    while left != 0 {
        let line = lines[left.trailing_zeros() as usize];
        let same = (0..8).filter(|at| lines[*at] == line).fold(0, |same, at| same | 1 << at) & left;
        sink(same, line);
        left &= !same;
    }
}

/// A known byte of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The value.
    pub value: u8,
    /// Line of the write; 0: never written.
    pub line: u64,
    /// Whether no line wrote it, but a read on this line returned a changed value.
    pub is_seen: bool,
}

/// The last write to a byte of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastWrite {
    /// The value; `None`: unknown.
    pub value: Option<u8>,
    /// Line of the write; 0: never written.
    pub line: u64,
    /// Whether no line wrote it, but a read on this line returned a changed value.
    pub is_seen: bool,
}

impl LastWrite {
    /// The byte, if it is known.
    pub fn known(&self) -> Option<Known> {
        Some(Known { value: self.value?, line: self.line, is_seen: self.is_seen })
    }
}

/// Memory as a core saw it since the start of a log or of a part.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Hash table of indexes into `entries`, plus one; 0: empty.
    table: Vec<u32>,
    entries: Vec<(u64, Granule)>,
    last: usize,
    /// Maximum number of granules, unless 0.
    limit: usize,
    is_full: bool,
    /// Writes of unknown data, later than everything in the granules.
    unknown_writes: UnknownWrites,
}

impl Memory {
    /// Memory with nothing known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory that keeps at most `limit` granules of eight bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether there was more than the limit allows.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    #[inline]
    pub(crate) fn touch(&mut self, touch: Touch, part: &GranulePart, line: u32) {
        if let Some(granule) = self.granule(part.granule) {
            granule.touch(touch, part, line);
        }
    }

    /// The granule with a number (an address divided by eight), created if needed.
    #[inline]
    pub(crate) fn granule(&mut self, number: u64) -> Option<&mut Granule> {
        let at = match self.entries.get(self.last) {
            Some((last, _)) if *last == number => self.last,
            _ => self.find(number)?,
        };
        self.last = at;
        if !self.unknown_writes.is_empty() {
            self.apply_unknown(at);
        }
        self.entries.get_mut(at).map(|(_, granule)| granule)
    }

    /// A granule, if anything is known of it.
    pub(crate) fn get(&self, number: u64) -> Option<Granule> {
        let entry = self.entry(number).copied();
        if self.unknown_writes.is_empty() {
            return entry;
        }
        let mut granule = entry.unwrap_or_default();
        self.unknown_writes.apply(number, &mut granule);
        (granule.firsts | granule.changed != 0).then_some(granule)
    }

    fn entry(&self, number: u64) -> Option<&Granule> {
        if self.table.is_empty() {
            return None;
        }
        let slot = self.table[self.table_index(number)];
        self.entries.get((slot as usize).checked_sub(1)?).map(|(_, granule)| granule)
    }

    /// Records a write of unknown data.
    pub(crate) fn write_unknown(&mut self, range: RangeInclusive<u64>, line: u32) {
        if self.limit == 0 || self.unknown_writes.len() < self.limit {
            return self.unknown_writes.add(range, line);
        }
        // At the limit, only invalidate the granules that are held.
        self.is_full = true;
        let mut unknown_writes = UnknownWrites::default();
        unknown_writes.add(range.clone(), line);
        let granules = range.start() / GRANULE..=range.end() / GRANULE;
        let mut held = Vec::new();
        self.each_within(&granules, |number, _| held.push(number));
        for number in held {
            self.granule(number).into_iter().for_each(|granule| unknown_writes.apply(number, granule));
        }
    }

    /// Applies the writes of unknown data to a granule.
    #[cold]
    fn apply_unknown(&mut self, at: usize) {
        if let Some((number, granule)) = self.entries.get_mut(at) {
            self.unknown_writes.apply(*number, granule);
            self.unknown_writes.remove(&bytes_of(*number));
        }
    }

    /// Appends the state of a later part in a range of granules, whose lines start `shift` after these.
    pub(crate) fn append(&mut self, later: &Self, range: &RangeInclusive<u64>, shift: u32) {
        later.each_within(range, |number, later| {
            if let Some(granule) = self.granule(number) {
                granule.append(later, shift);
            }
        });
        let bytes = *bytes_of(*range.start()).start()..=*bytes_of((*range.end()).min(u64::MAX / GRANULE)).end();
        for (range, line) in later.unknown_writes.within(&bytes) {
            self.write_unknown(range, line.saturating_add(shift));
        }
    }

    fn find(&mut self, number: u64) -> Option<usize> {
        if self.entries.len() * 2 >= self.table.len() {
            self.grow();
        }
        let slot = self.table_index(number);
        if let Some(at) = (self.table[slot] as usize).checked_sub(1) {
            return Some(at);
        }
        if self.limit != 0 && self.entries.len() >= self.limit || self.entries.len() >= u32::MAX as usize {
            self.is_full = true;
            return None;
        }
        self.entries.push((number, Granule::default()));
        self.table[slot] = self.entries.len() as u32;
        Some(self.entries.len() - 1)
    }

    /// Index of a granule in the hash table, or of the free entry for it. The table is neither empty nor full.
    #[inline]
    fn table_index(&self, number: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            match (self.table[slot] as usize).checked_sub(1) {
                Some(at) if self.entries[at].0 != number => slot = (slot + 1) & mask,
                _ => return slot,
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(1 << 10);
        self.table.clear();
        self.table.resize(size, 0);
        for at in 0..self.entries.len() {
            let slot = self.table_index(self.entries[at].0);
            self.table[slot] = at as u32 + 1;
        }
    }

    /// All granules in address order, and the writes of unknown data to others. Invalidates the hash table.
    pub(crate) fn sorted(&mut self) -> (&[(u64, Granule)], &UnknownWrites) {
        self.entries.sort_unstable_by_key(|(number, _)| *number);
        if !self.unknown_writes.is_empty() {
            (0..self.entries.len()).for_each(|at| self.apply_unknown(at));
        }
        (&self.entries, &self.unknown_writes)
    }

    /// Passes on the granules of a range, in no order, without later writes of unknown data.
    pub(crate) fn each_within(&self, range: &RangeInclusive<u64>, mut sink: impl FnMut(u64, &Granule)) {
        let few = range.end() - range.start() < self.entries.len() as u64;
        if few {
            return range
                .clone()
                .for_each(|number| self.entry(number).into_iter().for_each(|granule| sink(number, granule)));
        }
        self.entries
            .iter()
            .filter(|(number, _)| range.contains(number))
            .for_each(|(number, granule)| sink(*number, granule));
    }

    /// A byte, if it is known.
    pub fn byte(&self, address: u64) -> Option<Known> {
        self.last_write(address)?.known()
    }

    /// The last write to a byte, or its first read, even if the value is unknown.
    pub fn last_write(&self, address: u64) -> Option<LastWrite> {
        self.get(address / GRANULE).and_then(|granule| granule.last_write(address))
    }

    /// All addresses with a known value, in order.
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
