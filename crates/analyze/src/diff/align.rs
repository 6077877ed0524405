//! Where two rows of instructions are the same.
//!
//! keys of instructions, twice ─▶ **how many to pass over**
//!
//! Knows no instructions: a key stands for one, and equal keys for equal instructions.

use std::collections::HashMap;

/// A place at which one row goes on like the beginning of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    /// How many are before it.
    pub(super) position: usize,
    /// How many are equal from there on.
    pub(super) length: usize,
    /// It fits as well this many further on: the row repeats itself.
    pub(super) period: Option<usize>,
}

/// Where `text` goes on like `pattern` for the longest time; of several places, the first.
pub(super) fn longest(pattern: &[u64], text: &[u64]) -> Option<Fit> {
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
            _ => best = Some(Fit { position, length, period: None }),
        }
    }
    best.filter(|fit| fit.length > 0)
}

/// How long each end of a row is equal to its beginning (the Z function).
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

/// Looks for a row in keys that come one by one (Knuth, Morris and Pratt).
#[derive(Debug)]
pub(super) struct Search<'p> {
    pattern: &'p [u64],
    /// How long the longest beginning is that each beginning ends with.
    borders: Vec<usize>,
    /// How much of the pattern the last keys are.
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

    /// How long the pattern is.
    pub(super) fn length(&self) -> usize {
        self.pattern.len()
    }

    /// Are the last keys, with this one, the pattern?
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

/// Where both have `run` equal ones in a row, with as few as possible before them. If both rows are complete, the same
/// end will do, however short.
pub(super) fn nearest(rows: [&[u64]; 2], run: usize, are_complete: bool) -> Option<[usize; 2]> {
    let run = run.max(1);
    let mut first = HashMap::new();
    for (index, piece) in rows[0].windows(run).enumerate() {
        first.entry(piece).or_insert(index);
    }
    let places = rows[1].windows(run).enumerate();
    let found = places.filter_map(|(other, piece)| first.get(piece).map(|index| [*index, other]));
    let end = are_complete.then(|| common_end(rows)).flatten();
    found.chain(end).min_by_key(|[index, other]| index + other)
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
    fn a_row_is_found_among_keys_that_come_one_by_one() {
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
            ("nothing to look for", &[], &[3, 4], None),
        ];
        for (name, pattern, text, expected) in rows {
            let fit = longest(pattern, text).map(|fit| (fit.position, fit.length, fit.period));
            assert_eq!(fit, *expected, "{name}");
        }
    }

    #[test]
    fn the_nearest_row() {
        type Row<'r> = (&'r str, [&'r [u64]; 2], bool, Option<[usize; 2]>);
        let rows: &[Row<'_>] = &[
            ("one more", [&[7, 1, 2], &[1, 2, 3]], false, Some([1, 0])),
            ("another one", [&[7, 1, 2], &[8, 1, 2]], false, Some([1, 1])),
            ("the nearer one", [&[7, 1, 2, 3, 4], &[8, 3, 4, 9, 1, 2]], false, Some([3, 1])),
            ("too short", [&[7, 1], &[8, 1]], false, None),
            ("too short but the end", [&[7, 1], &[8, 1]], true, Some([1, 1])),
            ("nothing", [&[7, 1], &[8, 2]], true, None),
        ];
        for (name, row, are_complete, expected) in rows {
            assert_eq!(nearest(*row, 2, *are_complete), *expected, "{name}");
        }
    }
}
