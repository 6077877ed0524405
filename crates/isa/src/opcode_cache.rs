//! A direct-mapped cache of values that depend on an opcode.
//!
//! key ─▶ hash ─▶ one slot ─▶ **value**, or a miss
//!
//! Programs run in loops, so that a small table of recent opcodes contains nearly all that are needed. A new entry evicts the
//! one in its slot; the size never changes.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::fmt;

use crate::Isa;

/// Key of an [`OpcodeCache`]: an opcode, alone or with anything else that the value depends on.
pub trait OpcodeKey: Copy + PartialEq {
    /// A hash whose highest bits select the slot.
    fn hash(&self) -> u32;
}

impl OpcodeKey for u32 {
    /// Fibonacci hashing: opcodes differ in their middle bits, which the multiplication brings to the top.
    #[inline]
    fn hash(&self) -> u32 {
        self.wrapping_mul(0x9e37_79b9)
    }
}

impl OpcodeKey for (Isa, u32) {
    #[inline]
    fn hash(&self) -> u32 {
        self.1.hash()
    }
}

/// A direct-mapped cache with a fixed number of slots.
///
/// ```
/// use unspool_isa::{Isa, OpcodeCache, decode};
///
/// let mut cache = OpcodeCache::new(10);
/// let ret = cache.get_or_insert_with(0xd65f_03c0_u32, || decode(Isa::A64, 0, 0xd65f_03c0));
/// assert!(ret.ret);
/// ```
#[derive(Clone)]
pub struct OpcodeCache<K, V> {
    slots: Box<[Option<(K, V)>]>,
    /// Brings the highest bits of a hash down to an index.
    shift: u32,
}

impl<K: OpcodeKey, V> OpcodeCache<K, V> {
    /// An empty cache with two to the power of `bits` slots, from 1 to 31.
    pub fn new(bits: u32) -> Self {
        let slots = (0..1_usize << bits).map(|_| None).collect();
        Self { slots, shift: u32::BITS - bits }
    }

    #[inline]
    fn index(&self, key: &K) -> usize {
        (key.hash() >> self.shift) as usize
    }

    /// The value of the key, if it is cached.
    #[inline]
    pub fn get(&self, key: K) -> Option<&V> {
        match &self.slots[self.index(&key)] {
            Some((known, value)) if *known == key => Some(value),
            _ => None,
        }
    }

    /// The value of the key, if it is cached.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        match &mut self.slots[self.index(&key)] {
            Some((known, value)) if *known == key => Some(value),
            _ => None,
        }
    }

    /// The value of the key, computed if it is not cached.
    #[inline]
    pub fn get_or_insert_with(&mut self, key: K, compute: impl FnOnce() -> V) -> &mut V {
        let slot = &mut self.slots[(key.hash() >> self.shift) as usize];
        if slot.as_ref().is_none_or(|(known, _)| *known != key) {
            *slot = None;
        }
        &mut slot.get_or_insert_with(|| (key, compute())).1
    }

    /// Caches the value of a key, and returns the entry that it evicts.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        self.slots[self.index(&key)].replace((key, value))
    }

    /// Removes all entries.
    pub fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.slots.iter_mut().filter_map(Option::take)
    }
}

/// Texts of opcodes: as an [`OpcodeCache`], but keeps what it evicts, since disassembly is slow and programs are large.
#[derive(Debug)]
pub struct TextCache<K, V> {
    recent: OpcodeCache<K, V>,
    evicted: BTreeMap<K, V>,
}

/// Bits of the cache of recent texts.
const TEXT_CACHE_BITS: u32 = 18;

/// Maximum number of evicted texts; beyond it, all of them are dropped.
const MAX_EVICTED: usize = 1 << 18;

impl<K: OpcodeKey + Ord, V> TextCache<K, V> {
    /// An empty cache.
    pub fn new() -> Self {
        Self { recent: OpcodeCache::new(TEXT_CACHE_BITS), evicted: BTreeMap::new() }
    }

    /// The text of the key, computed if it is not cached.
    #[inline]
    pub fn get_or_insert_with(&mut self, key: K, compute: impl FnOnce() -> V) -> &mut V {
        let Self { recent, evicted } = self;
        let index = recent.index(&key);
        let slot = &mut recent.slots[index];
        if slot.as_ref().is_some_and(|(known, _)| *known != key) {
            evict(slot.take(), evicted);
        }
        &mut slot.get_or_insert_with(|| (key, evicted.remove(&key).unwrap_or_else(compute))).1
    }
}

#[cold]
fn evict<K: Ord, V>(entry: Option<(K, V)>, evicted: &mut BTreeMap<K, V>) {
    if evicted.len() >= MAX_EVICTED {
        evicted.clear();
    }
    evicted.extend(entry);
}

impl<K: OpcodeKey + Ord, V> Default for TextCache<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for OpcodeCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpcodeCache").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicted_texts_are_kept() {
        let mut cache = TextCache::new();
        let mut computed = 0;
        let keys = 3 << TEXT_CACHE_BITS;
        for key in (0..keys).chain(0..1000).chain(keys - 1000..keys) {
            let value = cache.get_or_insert_with(key, || {
                computed += 1;
                key ^ 1
            });
            assert_eq!(*value, key ^ 1);
        }
        assert!(cache.evicted.len() <= MAX_EVICTED);
        // The first thousand were dropped with all that were evicted with them.
        assert!((keys..=keys + 1000).contains(&computed), "{computed}");
    }
}
