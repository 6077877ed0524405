//! Records that come again and again, with nothing new but addresses.

use super::super::layout::Bytes;

/// The bytes of an Instruction that tell the address of an access, or where a branch went.
const EA: std::ops::Range<usize> = 16..24;

/// Records that are written again and again, of which some differ in their address.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As they were written last.
    records: Vec<Bytes>,
    /// Which of them have an address, in order.
    slots: Vec<usize>,
    /// What is added to both halves of an Adler-32 without those addresses.
    pub(super) sums: (u64, u64),
    /// Where in the trace they were written last.
    pub(super) at: Option<u64>,
}

impl Pattern {
    /// These records; those whose numbers are in `slots`, in order, have an address that is told each time.
    pub fn new(records: Vec<Bytes>, slots: Vec<usize>) -> Self {
        let mut pattern = Self { records, slots, sums: (0, 0), at: None };
        pattern.slots.retain(|slot| *slot < pattern.records.len());
        (0..pattern.slots.len()).for_each(|slot| pattern.replace(slot, 0));
        let bytes = pattern.records.as_flattened();
        let weights = (1..=bytes.len() as u64).rev();
        let weighted = bytes.iter().zip(weights).map(|(byte, weight)| u64::from(*byte) * weight).sum();
        pattern.sums = (bytes.iter().map(|byte| u64::from(*byte)).sum(), weighted);
        pattern
    }

    /// The records as they were filled in last.
    pub fn records(&self) -> &[Bytes] {
        &self.records
    }

    /// How many addresses it has.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Fills the addresses in, as many as there are slots.
    pub fn fill(&mut self, addresses: &[u64]) {
        addresses.iter().enumerate().for_each(|(slot, address)| self.replace(slot, *address));
    }

    /// How many bytes the records have.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.records.as_flattened().len()
    }

    /// Where the address of this slot is in the bytes of the records, and what it was.
    #[inline]
    pub(super) fn slot(&self, slot: usize) -> Option<(usize, u64)> {
        let record = *self.slots.get(slot)?;
        let bytes = self.records.get(record)?[EA].as_array().copied()?;
        Some((size_of::<Bytes>() * record + EA.start, u64::from_le_bytes(bytes)))
    }

    #[inline]
    pub(super) fn replace(&mut self, slot: usize, address: u64) {
        if let Some(record) = self.slots.get(slot).and_then(|record| self.records.get_mut(*record)) {
            record[EA].copy_from_slice(&address.to_le_bytes());
        }
    }
}
