//! Strides: by how much the address of an instruction's access differs from that of its execution before.
//!
//! The accesses of one execution are counted apart from each other: a pair of loads has two strides.

use std::collections::HashMap;

/// Maximum number of accesses of instructions; further ones are left out.
const MAX_PATTERNS: usize = 1 << 20;

/// Maximum number of strides of an access that are counted by themselves.
const MAX_STRIDES: usize = 32;

/// The strides of one access of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pattern {
    /// How often it took place.
    pub accesses: u64,
    last: u64,
    /// Strides, and how often each occurred.
    strides: Vec<(i64, u64)>,
    /// Strides that came when there were too many.
    pub others: u64,
}

impl Pattern {
    fn add(&mut self, address: u64) {
        let stride = address.wrapping_sub(self.last) as i64;
        self.last = address;
        self.accesses += 1;
        if self.accesses == 1 {
            return;
        }
        match self.strides.iter().position(|(known, _)| *known == stride) {
            Some(at) => {
                self.strides[at].1 += 1;
                // Frequent strides are found first.
                if at > 0 && self.strides[at].1 > self.strides[at - 1].1 {
                    self.strides.swap(at, at - 1);
                }
            }
            None if self.strides.len() < MAX_STRIDES => self.strides.push((stride, 1)),
            None => self.others += 1,
        }
    }

    /// Strides with their number, the most frequent first.
    pub fn strides(&self) -> Vec<(i64, u64)> {
        let mut strides = self.strides.clone();
        strides.sort_unstable_by_key(|(stride, count)| (std::cmp::Reverse(*count), *stride));
        strides
    }
}

/// Strides of all instructions.
#[derive(Debug, Default)]
pub struct Strides {
    patterns: HashMap<(u64, u32), Pattern>,
    /// Accesses that were left out.
    pub others: u64,
}

impl Strides {
    /// Counts the access with this index of an execution of an instruction.
    pub fn add(&mut self, instruction: u64, index: u32, address: u64) {
        let key = (instruction, index);
        if self.patterns.len() < MAX_PATTERNS || self.patterns.contains_key(&key) {
            self.patterns.entry(key).or_default().add(address);
        } else {
            self.others += 1;
        }
    }

    /// Address of the instruction, index of the access and its pattern; the most frequent first.
    pub fn rows(&self) -> Vec<(u64, u32, &Pattern)> {
        let mut rows: Vec<_> = self.patterns.iter().map(|(key, pattern)| (key.0, key.1, pattern)).collect();
        rows.sort_unstable_by_key(|(address, index, pattern)| (std::cmp::Reverse(pattern.accesses), *address, *index));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_counted_by_instruction_and_access() {
        let mut strides = Strides::default();
        for n in 0..10_u64 {
            strides.add(0x1000, 0, 0x8000 + 8 * n);
            strides.add(0x1000, 1, 0x9000 - 4 * (n / 2));
        }
        (0..100).for_each(|n: u64| strides.add(0x2000, 0, n * n));
        let rows = strides.rows();
        assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(0x2000, 0), (0x1000, 0), (0x1000, 1)]);
        assert_eq!(rows[1].2.strides(), [(8, 9)]);
        assert_eq!(rows[2].2.strides(), [(0, 5), (-4, 4)]);
        assert_eq!((rows[0].2.strides().len(), rows[0].2.others), (32, 67));
    }
}
