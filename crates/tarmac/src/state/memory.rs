//! Memory as one core sees it: a hash table of granules, and ranges of unknown writes.

use std::ops::RangeInclusive;

use super::super::record::Direction;
use super::data::GranulePart;
use super::granule::{GRANULE, Granule, Known, LastWrite};
use super::unknown_writes::{UnknownWrites, bytes_of};

/// Memory as a core saw it since the start of a log or of a part.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Hash table of indexes into `entries`, plus one; 0: empty.
    table: Vec<u32>,
    entries: Vec<(u64, Granule)>,
    last: usize,
    /// Maximum number of granules, unless 0.
    limit: usize,
    /// Writes of unknown data, later than everything in the granules.
    unknown_writes: UnknownWrites,
}

impl Memory {
    /// Memory that keeps at most `limit` granules of eight bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    #[inline]
    pub(crate) fn touch(&mut self, direction: Direction, part: &GranulePart, line: u32) {
        if let Some(granule) = self.granule(part.granule) {
            granule.touch(direction, part, line);
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
