//! The address that each block was translated for: a table that grows without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks per part of the table, and the number of parts.
const PART: usize = 1 << 16;
const PARTS: usize = 1 << 12;

/// Addresses, by the numbers of blocks.
pub(crate) struct BlockAddresses(Box<[OnceLock<Box<[AtomicU64]>>]>);

impl BlockAddresses {
    pub(crate) fn new() -> Self {
        Self((0..PARTS).map(|_| OnceLock::new()).collect())
    }

    pub(crate) fn set(&self, id: u32, address: u64) {
        let Some(part) = self.0.get(id as usize / PART) else { return };
        let part = part.get_or_init(|| (0..PART).map(|_| AtomicU64::new(0)).collect());
        if let Some(slot) = part.get(id as usize % PART) {
            slot.store(address, Ordering::Relaxed);
        }
    }

    /// `None`: it is unknown.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> Option<u64> {
        let part = self.0.get(id as usize / PART)?.get()?;
        part.get(id as usize % PART).map(|slot| slot.load(Ordering::Relaxed))
    }
}
