//! Address ranges with a value each, none of which overlap.
//!
//! A range includes its last address, so that it can end at the end of memory.

use std::collections::BTreeMap;

/// First and last address.
pub(super) type Range = (u64, u64);

/// Disjoint ranges in ascending order.
#[derive(Debug, Clone)]
pub(super) struct Ranges<T> {
    /// By first address: last address and value.
    map: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self { map: BTreeMap::new() }
    }
}

impl<T: Copy> Ranges<T> {
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn clear(&mut self) {
        self.map.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Range, T)> + '_ {
        self.map.iter().map(|(&first, &(last, value))| ((first, last), value))
    }

    /// Gives a range a value in place of all others, which are handed to `removed`.
    pub(super) fn replace(&mut self, range: Range, value: T, removed: impl FnMut(Range, T)) {
        self.remove(range, removed);
        self.map.insert(range.0, (range.1, value));
    }

    /// Removes a range. What is removed is handed to `removed`; what reaches over the ends is kept there.
    pub(super) fn remove(&mut self, (first, last): Range, mut removed: impl FnMut(Range, T)) {
        let before = self.map.range(..first).next_back().map(|(&start, &(end, value))| (start, end, value));
        if let Some((start, end, value)) = before.filter(|(_, end, _)| *end >= first) {
            self.map.insert(start, (first - 1, value));
            self.keep_after(last, end, value);
            removed((first, end.min(last)), value);
        }
        while let Some((&start, &(end, value))) = self.map.range(first..=last).next() {
            self.map.remove(&start);
            self.keep_after(last, end, value);
            removed((start, end.min(last)), value);
        }
    }

    /// The parts of a range that have a value.
    pub(super) fn inside(&self, (first, last): Range) -> impl Iterator<Item = (Range, T)> + '_ {
        let before = self.map.range(..first).next_back().filter(|(_, (end, _))| *end >= first);
        let parts = before.into_iter().chain(self.map.range(first..=last));
        parts.map(move |(&start, &(end, value))| ((start.max(first), end.min(last)), value))
    }

    /// The parts of a range that have no value for which `counts` holds.
    pub(super) fn gaps(&self, (first, last): Range, counts: impl Fn(T) -> bool) -> Vec<Range> {
        let mut gaps = Vec::new();
        let mut next = Some(first);
        for ((start, end), _) in self.inside((first, last)).filter(|(_, value)| counts(*value)) {
            let Some(from) = next else { break };
            if start > from {
                gaps.push((from, start - 1));
            }
            next = end.checked_add(1);
        }
        gaps.extend(next.filter(|from| *from <= last).map(|from| (from, last)));
        gaps
    }

    fn keep_after(&mut self, last: u64, end: u64, value: T) {
        if let Some(after) = last.checked_add(1).filter(|after| *after <= end) {
            self.map.insert(after, (end, value));
        }
    }
}

/// The range of a length at an address, up to the end of memory; `None` if it is empty.
pub(super) fn range(address: u64, length: u64) -> Option<Range> {
    let more = length.checked_sub(1)?;
    Some((address, address.saturating_add(more)))
}

/// Number of bytes.
pub(super) fn size((first, last): Range) -> u128 {
    u128::from(last) - u128::from(first) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END: u64 = u64::MAX;

    proptest! {
        /// Compared with one value per address, near the start or near the end of memory.
        #[test]
        fn ranges_are_as_single_addresses(
            operations in proptest::collection::vec((0..32_u64, 0..32_u64, any::<Option<u8>>()), 0..40),
            at_end in any::<bool>(),
        ) {
            let address = |at: u64| if at_end { END - 31 + at } else { at };
            let (mut ranges, mut expected) = (Ranges::default(), [None; 32]);
            for (a, b, value) in operations {
                let (first, last) = (a.min(b), a.max(b));
                let mut removed = [None; 32];
                let index = |at: u64| usize::try_from(at - address(0)).unwrap_or(usize::MAX);
                let note = |(start, end): Range, value: u8| (start..=end).for_each(|at| removed[index(at)] = Some(value));
                let range = (address(first), address(last));
                match value {
                    Some(value) => ranges.replace(range, value, note),
                    None => ranges.remove(range, note),
                }
                for at in 0..32_u64 {
                    let (slot, is_inside) = (index(address(at)), (first..=last).contains(&at));
                    prop_assert_eq!(removed[slot], expected[slot].filter(|_| is_inside));
                    expected[slot] = if is_inside { value } else { expected[slot] };
                    let one = (address(at), address(at));
                    prop_assert_eq!(ranges.inside(one).map(|(_, value)| value).next(), expected[slot]);
                    prop_assert_eq!(ranges.gaps(one, |_| true).is_empty(), expected[slot].is_some());
                }
                let holes: u128 = ranges.gaps((address(0), address(31)), |_| true).into_iter().map(size).sum();
                prop_assert_eq!(holes, expected.iter().filter(|value| value.is_none()).count() as u128);
                prop_assert_eq!(ranges.iter().map(|(range, _)| size(range)).sum::<u128>(), 32 - holes);
            }
        }
    }
}
