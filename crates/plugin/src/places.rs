//! Where each block was translated: a table that grows without a lock, for threads that look at each block.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of a part of the table, and parts.
const PART: usize = 1 << 16;
const PARTS: usize = 1 << 12;

/// Addresses, by the numbers of blocks.
pub(crate) struct Places(Box<[OnceLock<Box<[AtomicU64]>>]>);

impl Places {
    pub(crate) fn new() -> Self {
        Self((0..PARTS).map(|_| OnceLock::new()).collect())
    }

    pub(crate) fn set(&self, id: u32, address: u64) {
        let Some(part) = self.0.get(id as usize / PART) else { return };
        let part = part.get_or_init(|| (0..PART).map(|_| AtomicU64::new(0)).collect());
        if let Some(place) = part.get(id as usize % PART) {
            place.store(address, Ordering::Relaxed);
        }
    }

    /// `None`: nobody knows.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> Option<u64> {
        let part = self.0.get(id as usize / PART)?.get()?;
        part.get(id as usize % PART).map(|place| place.load(Ordering::Relaxed))
    }
}
