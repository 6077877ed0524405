//! Reuse distances: how many other lines were accessed since a line was accessed before.
//!
//! An access hits a fully associative cache of `n` lines that replaces the least recently used one if its distance is less
//! than `n`. Each line has a mark at the time of its last access; the distance is the number of marks after it, which a Fenwick
//! tree counts. Times are numbered anew when they run out, so memory depends on the number of lines only.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::number_hash::Fibonacci;

/// Maximum number of lines; accesses of further ones are left out.
const MAX_LINES: usize = 1 << 24;

/// Times at first.
const FIRST_TIMES: usize = 1 << 12;

/// Distances from `from` up to `to`, and accesses with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The lowest distance.
    pub from: u64,
    /// The highest distance.
    pub to: u64,
    /// Accesses.
    pub accesses: u64,
}

/// Reuse distances of lines.
#[derive(Debug)]
pub struct Reuse {
    shift: u32,
    /// The time of the last access of each line.
    last: HashMap<u64, u32, BuildHasherDefault<Fibonacci>>,
    marks: Marks,
    now: u32,
    /// First accesses of a line.
    pub first: u64,
    /// Accesses that were left out.
    pub others: u64,
    /// By the number of bits of the distance.
    counts: [u64; 33],
}

impl Reuse {
    /// Distances of lines of `1 << shift` bytes.
    pub fn new(shift: u32) -> Self {
        Self {
            shift: shift.min(63),
            last: HashMap::default(),
            marks: Marks::new(FIRST_TIMES),
            now: 0,
            first: 0,
            others: 0,
            counts: [0; 33],
        }
    }

    /// Counts an access, and returns its distance; `None`: its line was not accessed before, or is left out.
    pub fn add(&mut self, address: u64) -> Option<u64> {
        let line = address >> self.shift;
        if self.last.len() >= MAX_LINES && !self.last.contains_key(&line) {
            self.others += 1;
            return None;
        }
        if self.now as usize == self.marks.len() {
            self.number_anew();
        }
        let before = self.last.insert(line, self.now);
        let distance = before.map(|before| {
            self.marks.add(before, -1);
            self.marks.after(before)
        });
        self.marks.add(self.now, 1);
        self.now += 1;
        match distance {
            Some(distance) => self.counts[(u32::BITS - distance.leading_zeros()) as usize] += 1,
            None => self.first += 1,
        }
        distance.map(u64::from)
    }

    /// Accesses by distance, in powers of two, up to the highest that occurs.
    pub fn buckets(&self) -> Vec<Bucket> {
        let end = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let bounds = |bits: usize| ((1_u64 << bits) >> 1, ((1_u64 << bits) - 1));
        let counts = self.counts.iter().take(end).enumerate();
        counts.map(|(bits, accesses)| (bounds(bits), *accesses)).map(of_bounds).collect()
    }

    /// Numbers the last accesses from zero, in their order, and leaves room for as many again.
    fn number_anew(&mut self) {
        let mut times: Vec<&mut u32> = self.last.values_mut().collect();
        times.sort_unstable();
        self.marks = Marks::new((2 * times.len()).max(FIRST_TIMES));
        self.now = 0;
        for time in times {
            *time = self.now;
            self.marks.add(self.now, 1);
            self.now += 1;
        }
    }
}

fn of_bounds(((from, to), accesses): ((u64, u64), u64)) -> Bucket {
    Bucket { from, to, accesses }
}

/// Marks at times, as a Fenwick tree.
#[derive(Debug)]
struct Marks {
    sums: Vec<u32>,
    all: u32,
}

impl Marks {
    fn new(times: usize) -> Self {
        Self { sums: vec![0; times], all: 0 }
    }

    fn len(&self) -> usize {
        self.sums.len()
    }

    fn add(&mut self, time: u32, change: i32) {
        self.all = self.all.wrapping_add_signed(change);
        let mut at = time as usize;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = sum.wrapping_add_signed(change);
            at |= at + 1;
        }
    }

    /// The number of marks after a time.
    fn after(&self, time: u32) -> u32 {
        let (mut sum, mut end) = (0_u32, time as usize + 1);
        while end > 0 {
            sum = sum.wrapping_add(self.sums[end - 1]);
            end &= end - 1;
        }
        self.all.wrapping_sub(sum)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The list of lines, the most recent first: the definition.
    fn by_list(addresses: &[u64]) -> Vec<Option<u64>> {
        let mut list: Vec<u64> = Vec::new();
        let distance = |address: &u64| {
            let at = list.iter().position(|line| line == address);
            at.map(|at| list.remove(at));
            list.insert(0, *address);
            at.map(|at| at as u64)
        };
        addresses.iter().map(distance).collect()
    }

    #[test]
    fn distances_are_those_of_a_list() {
        proptest!(|(addresses in prop::collection::vec(0_u64..200, 0..9000))| {
            let mut reuse = Reuse::new(0);
            let found: Vec<_> = addresses.iter().map(|address| reuse.add(*address)).collect();
            prop_assert_eq!(&found, &by_list(&addresses));
            for bucket in reuse.buckets() {
                let expected = found.iter().flatten().filter(|&&at| bucket.from <= at && at <= bucket.to).count();
                prop_assert_eq!(bucket.accesses, expected as u64);
            }
            prop_assert_eq!(reuse.first as usize, found.iter().filter(|distance| distance.is_none()).count());
        });
    }

    #[test]
    fn buckets_are_powers_of_two() {
        let mut reuse = Reuse::new(4);
        for address in [0x10, 0x1f, 0x20, 0x30, 0x10] {
            reuse.add(address);
        }
        let rows = [(0, 0, 1), (1, 1, 0), (2, 3, 1)];
        assert_eq!(reuse.buckets(), rows.map(|(from, to, accesses)| Bucket { from, to, accesses }));
        assert_eq!(reuse.first, 3);
    }
}
