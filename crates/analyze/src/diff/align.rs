//! Alignment of two sequences of instructions.
//!
//! two sequences of keys ─▶ **number of keys to skip in each**
//!
//! A key represents an instruction; equal keys mean equal instructions. Among several alignments, the one that leaves
//! the fewest keys unmatched is chosen; a short run of equal keys is often a function that was called before.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A position at which one sequence matches the beginning of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    /// Number of keys before it.
    pub(super) position: usize,
    /// Number of equal keys from there on.
    pub(super) length: usize,
    /// Distance to the next position with the same length: the sequence repeats itself.
    pub(super) period: Option<usize>,
    /// Whether the match ends with one of the sequences, so that nothing contradicts it.
    pub(super) is_open: bool,
}

/// The first position with the longest match of a prefix of `pattern` in `text`.
pub(super) fn longest_fit(pattern: &[u64], text: &[u64]) -> Option<Fit> {
    let joined: Vec<u64> = pattern.iter().chain(text).copied().collect();
    let lengths = common_prefixes(&joined);
    let mut best: Option<Fit> = None;
    for (position, length) in lengths[pattern.len()..].iter().enumerate() {
        let length = (*length).min(pattern.len());
        match &mut best {
            Some(fit) if fit.length == length => {
                fit.period = fit.period.or(Some(position - fit.position));
            }
            Some(fit) if fit.length > length => {}
            _ => best = Some(Fit { position, length, period: None, is_open: false }),
        }
    }
    let is_open = |fit: &Fit| fit.length == pattern.len() || fit.position + fit.length == text.len();
    best.filter(|fit| fit.length > 0).map(|fit| Fit { is_open: is_open(&fit), ..fit })
}

/// Length of the common prefix of a sequence and each of its suffixes (the Z function).
fn common_prefixes(row: &[u64]) -> Vec<usize> {
    let mut lengths = vec![0; row.len()];
    let (mut start, mut end) = (0, 0);
    for at in 1..row.len() {
        let mut length = if at < end { lengths[at - start].min(end - at) } else { 0 };
        while at + length < row.len() && row[length] == row[at + length] {
            length += 1;
        }
        if at + length > end {
            (start, end) = (at, at + length);
        }
        lengths[at] = length;
    }
    if let Some(first) = lengths.first_mut() {
        *first = row.len();
    }
    lengths
}

/// Search for a pattern in a stream of keys (Knuth, Morris and Pratt).
#[derive(Debug)]
pub(super) struct Search<'p> {
    pattern: &'p [u64],
    /// Length of the longest proper border of each prefix of the pattern.
    borders: Vec<usize>,
    /// Length of the prefix of the pattern that the last keys match.
    matched: usize,
}

impl<'p> Search<'p> {
    pub(super) fn new(pattern: &'p [u64]) -> Self {
        let mut borders = vec![0; pattern.len()];
        let mut border = 0;
        for at in 1..pattern.len() {
            while border > 0 && pattern[at] != pattern[border] {
                border = borders[border - 1];
            }
            border += usize::from(pattern[at] == pattern[border]);
            borders[at] = border;
        }
        Self { pattern, borders, matched: 0 }
    }

    pub(super) fn length(&self) -> usize {
        self.pattern.len()
    }

    /// Whether the last keys, including this one, are the pattern.
    pub(super) fn is_complete_with(&mut self, key: u64) -> bool {
        if self.matched == self.pattern.len() {
            self.matched = self.borders.last().copied().unwrap_or(0);
        }
        while self.matched > 0 && self.pattern.get(self.matched) != Some(&key) {
            self.matched = self.borders[self.matched - 1];
        }
        self.matched += usize::from(self.pattern.get(self.matched) == Some(&key));
        self.matched == self.pattern.len()
    }
}

/// A pair of positions from which both sequences are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Joint {
    /// Number of keys of each sequence before it.
    pub(super) at: [usize; 2],
    /// Number of equal keys from there on.
    pub(super) length: usize,
    /// Whether they are equal to the end of one of the sequences.
    pub(super) is_open: bool,
}

impl Joint {
    fn of(rows: [&[u64]; 2], at: [usize; 2]) -> Self {
        let rest = [&rows[0][at[0]..], &rows[1][at[1]..]];
        let length = rest[0].iter().zip(rest[1]).take_while(|(a, b)| a == b).count();
        Self { at, length, is_open: rest.iter().any(|rest| rest.len() == length) }
    }

    /// Number of unmatched keys before it.
    pub(super) fn cost(&self) -> usize {
        self.at[0] + self.at[1]
    }

    /// Number of unmatched keys on the way through this joint to `other`.
    pub(super) fn cost_to(&self, other: &Self) -> usize {
        let end = self.at.map(|at| at + self.length);
        let late = (end[0].saturating_sub(other.at[0])).max(end[1].saturating_sub(other.at[1]));
        // If this joint lasts as long as the other one, there is no need to go there.
        if self.is_open || late >= other.length {
            return self.cost();
        }
        self.cost() + other.at[0] + late - end[0] + other.at[1] + late - end[1]
    }
}

/// The best joint with at least `run` equal keys. Longer runs are further away: they are chosen if the nearer joints on
/// the way save nothing. If both sequences are complete, a common end is enough, however short.
pub(super) fn joint(rows: [&[u64]; 2], run: usize, are_complete: bool) -> Option<Joint> {
    let hashes = rows.map(RollingHashes::new);
    let runs = std::iter::successors(Some(run.max(1)), |run| run.checked_mul(4));
    let found = runs.map_while(|run| nearest([&hashes[0], &hashes[1]], run)).map(|at| Joint::of(rows, at));
    let end = are_complete.then(|| common_end(rows)).flatten().map(|at| Joint::of(rows, at));
    let better = |near: Joint, far: Joint| {
        let is_further = far.cost() <= near.cost_to(&far);
        if is_further { far } else { near }
    };
    match (found.reduce(better), end) {
        (Some(found), Some(end)) if end.cost() < found.cost() => Some(end),
        (found, end) => found.or(end),
    }
}

/// Positions of `run` equal consecutive keys, with as few keys as possible before them.
fn nearest(rows: [&RollingHashes; 2], run: usize) -> Option<[usize; 2]> {
    let mut first: HashMap<u64, usize, BuildHasherDefault<IdentityHasher>> = HashMap::default();
    for (index, hash) in rows[0].of_runs(run).enumerate() {
        first.entry(hash).or_insert(index);
    }
    let positions = rows[1].of_runs(run).enumerate();
    let found = positions.filter_map(|(other, hash)| first.get(&hash).map(|index| [*index, other]));
    found.min_by_key(|[index, other]| index + other)
}

/// Rolling hashes of a sequence, for runs of any length (Rabin and Karp).
struct RollingHashes(Vec<u64>);

impl RollingHashes {
    /// Modulus and base of the hashes. The base is arbitrary.
    const PRIME: u64 = (1 << 61) - 1;
    const BASE: u64 = 0x1d8a_f066_5d3c_4e17;

    fn new(row: &[u64]) -> Self {
        let mut hash = 0;
        let add = |key: &u64| {
            hash = (Self::times(hash, Self::BASE) + key % Self::PRIME) % Self::PRIME;
            hash
        };
        Self(std::iter::once(0).chain(row.iter().map(add).collect::<Vec<_>>()).collect())
    }

    fn times(a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(Self::PRIME)) as u64
    }

    /// The hash of each run of this length.
    fn of_runs(&self, run: usize) -> impl Iterator<Item = u64> {
        let power = (0..run.min(self.0.len())).fold(1, |power, _| Self::times(power, Self::BASE));
        let ends = self.0.get(run..).unwrap_or_default();
        self.0.iter().zip(ends).map(move |(start, end)| (end + Self::PRIME - Self::times(*start, power)) % Self::PRIME)
    }
}

/// Hasher that passes keys through, since they are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        // Hash tables use the highest bits and the lowest.
        self.0 = number ^ number << 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn common_end([a, b]: [&[u64]; 2]) -> Option<[usize; 2]> {
    let length = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (length > 0).then(|| [a.len() - length, b.len() - length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        assert_eq!(common_prefixes(&[1, 2, 1, 2, 1, 3]), [6, 0, 3, 0, 1, 0]);
        assert_eq!(common_prefixes(&[]), [0; 0]);
    }

    #[test]
    fn a_pattern_is_found_in_a_stream() {
        type Row<'r> = (&'r [u64], &'r [u64], &'r [usize]);
        let rows: &[Row<'_>] = &[
            (&[1, 2], &[1, 2, 1, 2], &[1, 3]),
            (&[1, 1, 2], &[1, 1, 1, 2, 3], &[3]),
            (&[1, 2, 1], &[1, 2, 1, 2, 1], &[2, 4]),
            (&[5], &[1, 5, 5], &[1, 2]),
            (&[1, 2, 3], &[1, 2, 1, 2], &[]),
        ];
        for (pattern, text, expected) in rows {
            let mut search = Search::new(pattern);
            let ends: Vec<usize> =
                text.iter().enumerate().filter(|(_, key)| search.is_complete_with(**key)).map(|(at, _)| at).collect();
            assert_eq!(ends, *expected, "{pattern:?} in {text:?}");
        }
    }

    #[test]
    fn the_longest_fit() {
        type Row<'r> = (&'r str, &'r [u64], &'r [u64], Option<(usize, usize, Option<usize>)>);
        let rows: &[Row<'_>] = &[
            ("at once", &[1, 2, 3], &[1, 2, 3], Some((0, 3, None))),
            ("later", &[1, 2, 3], &[9, 1, 2, 9, 1, 2, 3], Some((4, 3, None))),
            ("twice", &[1, 2], &[1, 2, 1, 2], Some((0, 2, Some(2)))),
            ("never", &[1, 2], &[3, 4], None),
            ("empty pattern", &[], &[3, 4], None),
        ];
        for (name, pattern, text, expected) in rows {
            let fit = longest_fit(pattern, text).map(|fit| (fit.position, fit.length, fit.period));
            assert_eq!(fit, *expected, "{name}");
        }
    }

    #[test]
    fn the_best_joint() {
        type Row<'r> = (&'r str, [&'r [u64]; 2], bool, Option<[usize; 2]>);
        let long: Vec<u64> = (100..140).collect();
        let [more, other] = [[&[7, 1, 2, 3, 4], &long[..]].concat(), [&[1, 2, 9], &long[..]].concat()];
        let [twice, removed] = [[&[7, 1, 2, 8, 9], &long[..]].concat(), [&[1, 2], &long[..]].concat()];
        let rows: &[Row<'_>] = &[
            ("one more", [&[7, 1, 2], &[1, 2, 3]], false, Some([1, 0])),
            ("another one", [&[7, 1, 2], &[8, 1, 2]], false, Some([1, 1])),
            ("the nearer one", [&[7, 1, 2, 3, 4], &[8, 3, 4, 9, 1, 2]], false, Some([3, 1])),
            ("too short", [&[7, 1], &[8, 1]], false, None),
            ("too short but the end", [&[7, 1], &[8, 1]], true, Some([1, 1])),
            ("nothing", [&[7, 1], &[8, 2]], true, None),
            ("on the way to a long one", [&more, &other], false, Some([1, 0])),
            ("on the way, two differences", [&twice, &removed], false, Some([1, 0])),
            (
                "a detour",
                [&[&[1, 2, 5, 6, 1, 2], &long[..]].concat(), &[&[6, 1, 2], &long[..]].concat()],
                false,
                Some([3, 0]),
            ),
        ];
        for (name, row, are_complete, expected) in rows {
            assert_eq!(joint(*row, 2, *are_complete).map(|joint| joint.at), *expected, "{name}");
        }
    }

    #[test]
    fn equal_runs_have_equal_hashes() {
        let hashes = RollingHashes::new(&[5, 6, u64::MAX, 5, 6, u64::MAX, 7]);
        let runs: Vec<u64> = hashes.of_runs(3).collect();
        assert_eq!((runs.len(), runs[0]), (5, runs[3]));
        assert!(runs[1..3].iter().all(|hash| *hash != runs[0]));
        assert_eq!((hashes.of_runs(8).count(), hashes.of_runs(usize::MAX).count()), (0, 0));
    }
}
