//! A small hash table for the hot path: one multiplication, one load, one comparison.
//!
//! Keys are numbers other than zero, values are numbers. Grows by doubling and never shrinks; the caller limits its size.

/// Open addressing with linear probing, at most a quarter full.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    used: usize,
    /// Shift of a hash to an index.
    shift: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Zero: a free slot.
    key: u64,
    value: u64,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self::with_bits(8)
    }

    fn with_bits(bits: u32) -> Self {
        Self { entries: vec![Entry::default(); 1 << bits], used: 0, shift: u64::BITS - bits }
    }

    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<u64> {
        let entry = self.entries[self.slot(key)];
        if entry.key == key { Some(entry.value) } else { self.find_by_probing(key) }
    }

    #[inline(never)]
    fn find_by_probing(&self, key: u64) -> Option<u64> {
        let entry = self.entries[self.probe(key)];
        (entry.key == key).then_some(entry.value)
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, key: u64, value: u64) {
        if self.used * 4 >= self.entries.len() {
            let mut larger = Self::with_bits(u64::BITS - self.shift + 1);
            self.entries.iter().filter(|entry| entry.key != 0).for_each(|entry| larger.insert(entry.key, entry.value));
            *self = larger;
        }
        let slot = self.probe(key);
        self.entries[slot] = Entry { key, value };
        self.used += 1;
    }

    /// The slot of the key, or the empty one where it belongs.
    fn probe(&self, key: u64) -> usize {
        let mut slot = self.slot(key);
        while self.entries[slot].key != key && self.entries[slot].key != 0 {
            slot = (slot + 1) & (self.entries.len() - 1);
        }
        slot
    }

    /// The first slot of a key.
    #[inline(always)]
    fn slot(&self, key: u64) -> usize {
        // The golden ratio spreads adjacent keys.
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_map_finds(pairs in proptest::collection::vec((1_u64..5000, any::<u64>()), 0..4000)) {
            let (mut table, mut map) = (Table::new(), HashMap::new());
            for (key, value) in pairs {
                if map.insert(key, value).is_none() {
                    table.insert(key, value);
                } else {
                    map.insert(key, table.find(key).unwrap());
                }
            }
            for key in 1..5000 {
                prop_assert_eq!(table.find(key), map.get(&key).copied());
            }
            prop_assert_eq!(table.used, map.len());
        }
    }
}
