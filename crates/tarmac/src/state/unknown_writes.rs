//! Memory writes of unknown data: ranges of bytes, each with the line of its last such write.
//!
//! A host that fills a buffer of a megabyte costs as much as one that writes a byte. Ranges never overlap; adjacent
//! ones of the same line are merged.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::granule::{GRANULE, Granule};

/// Ranges by their first byte: last byte and line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnknownWrites(BTreeMap<u64, (u64, u32)>);

impl UnknownWrites {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All ranges in order, with their lines.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RangeInclusive<u64>, u32)> {
        self.0.iter().map(|(start, (end, line))| (*start..=*end, *line))
    }

    /// Ranges that intersect `range`, clipped to it.
    pub(crate) fn within(
        &self,
        range: &RangeInclusive<u64>,
    ) -> impl Iterator<Item = (RangeInclusive<u64>, u32)> + use<> {
        let (from, to) = (*range.start(), *range.end());
        let before = self.0.range(..from).next_back().map(|(start, rest)| (*start, *rest));
        let before = before.filter(|(_, (end, _))| *end >= from);
        let next = self.0.range(range.clone()).map(|(start, rest)| (*start, *rest));
        let found: Vec<_> = before.into_iter().chain(next).collect();
        found.into_iter().map(move |(start, (end, line))| (start.max(from)..=end.min(to), line))
    }

    /// Adds a write, which replaces earlier ones.
    pub(crate) fn add(&mut self, range: RangeInclusive<u64>, line: u32) {
        self.remove(&range);
        let (mut start, mut end) = (*range.start(), *range.end());
        if let Some((before, (last, other))) = self.0.range(..start).next_back()
            && *other == line
            && last.checked_add(1) == Some(start)
        {
            start = *before;
        }
        if let Some(next) = end.checked_add(1)
            && let Some((last, other)) = self.0.get(&next).copied()
            && other == line
        {
            self.0.remove(&next);
            end = last;
        }
        self.0.insert(start, (end, line));
    }

    pub(crate) fn remove(&mut self, range: &RangeInclusive<u64>) {
        let (from, to) = (*range.start(), *range.end());
        if let Some((_, rest)) = self.0.range_mut(..from).next_back()
            && rest.0 >= from
        {
            let (end, line) = *rest;
            // `from` is above the start of this range, so there is a byte before it.
            rest.0 = from - 1;
            if end > to {
                self.0.insert(to + 1, (end, line));
            }
        }
        while let Some((start, (end, line))) = self.0.range(range.clone()).next().map(|(start, rest)| (*start, *rest)) {
            self.0.remove(&start);
            if end > to {
                self.0.insert(to + 1, (end, line));
            }
        }
    }

    /// Applies the ranges to a granule.
    pub(crate) fn apply(&self, number: u64, granule: &mut Granule) {
        for (range, line) in self.within(&bytes_of(number)) {
            let bytes = range.fold(0, |bytes, address| bytes | 1 << (address % GRANULE));
            granule.write(0, bytes, 0, line);
        }
    }
}

/// The addresses of a granule.
pub(crate) fn bytes_of(number: u64) -> RangeInclusive<u64> {
    let start = number.wrapping_mul(GRANULE);
    start..=start | (GRANULE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range that is added with a line, or removed without one.
    type Step = (u64, u64, Option<u32>);
    /// Steps, and the resulting ranges: first byte, last byte, line.
    type Row = (&'static [Step], &'static [(u64, u64, u32)]);

    #[test]
    fn ranges() {
        let rows: &[Row] = &[
            (&[(10, 19, Some(1)), (10, 19, Some(2))], &[(10, 19, 2)]),
            (&[(10, 29, Some(1)), (15, 19, Some(2))], &[(10, 14, 1), (15, 19, 2), (20, 29, 1)]),
            (&[(10, 19, Some(3)), (20, 29, Some(3)), (5, 9, Some(3))], &[(5, 29, 3)]),
            (&[(10, 19, Some(1)), (30, 39, Some(2)), (15, 34, None)], &[(10, 14, 1), (35, 39, 2)]),
            (&[(0, u64::MAX, Some(1)), (8, 15, None)], &[(0, 7, 1), (16, u64::MAX, 1)]),
            (&[(10, 19, Some(1)), (0, u64::MAX, None)], &[]),
        ];
        for (steps, expected) in rows {
            let mut writes = UnknownWrites::default();
            for (start, end, line) in *steps {
                match line {
                    Some(line) => writes.add(*start..=*end, *line),
                    None => writes.remove(&(*start..=*end)),
                }
            }
            let found: Vec<_> = writes.iter().map(|(range, line)| (*range.start(), *range.end(), line)).collect();
            assert_eq!(found, *expected, "{steps:?}");
        }
    }
}
