//! Patterns: records that are written many times, with nothing new but addresses.
//!
//! Each knows where it was written last, and what it adds to an Adler-32, so that writing it again needs neither a
//! search nor a pass over its bytes.

use std::io;
use std::ops::Range;

use unspool_model::BlockExecution;

use super::super::layout::Bytes;
use super::bits::FEW;
use super::template::PrecodedTemplate;

/// Field `ea` of an Instruction record, bits 128 to 191: the address of an access, or the target of a branch. All records
/// of a pattern are of this type.
const EA: Range<usize> = 16..24;

/// Records that are written many times, some of which differ in their address. A pattern is identified by
/// [`BlockExecution::index`], which is a block with its branch outcome, so that one block may have two patterns. Patterns
/// belong to one trace.
#[derive(Debug, Default)]
pub struct Patterns {
    /// Hot fields, by index.
    pub(super) patterns: Vec<Pattern>,
    /// Cold fields, by index.
    cold: Vec<ColdFields>,
    /// Slots of all patterns.
    pub(super) slots: Vec<Slot>,
    /// Records of all patterns, with the addresses that were filled in last.
    records: Vec<Bytes>,
    /// Indexes of patterns, in the order in which they were added.
    indexes: Vec<usize>,
}

/// Block executions that are written in order.
#[derive(Debug, Clone, Copy)]
pub struct Executions<'p> {
    /// Each has a pattern.
    pub executions: &'p [BlockExecution],
    /// Addresses of all executions, in order.
    pub addresses: &'p [u64],
    /// Number of their records.
    pub record_count: u64,
}

/// One pattern; one without bytes is absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    /// Position where it was written last, as [`TemplateDeflater`](super::template_deflater::TemplateDeflater) counts,
    /// or [`NOWHERE`].
    pub(super) last_position: u64,
    /// Contribution to the first half of an Adler-32: the sum of its bytes, with the addresses that were written last.
    pub(super) sum: u32,
    /// Contribution to the second half: the sum of its bytes, each times its distance from the end; the last counts once.
    pub(super) weighted: u64,
    /// Bytes of its records.
    pub(super) length: u32,
    /// First of its slots among all slots, and their count.
    first: u32,
    count: u32,
}

pub(super) fn no_pattern() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a block execution has no pattern or too few addresses")
}

/// Position of a pattern that was never written: farther than the window from every real one.
pub(super) const NOWHERE: u64 = 1 << 63;

/// Cold fields of a pattern.
#[derive(Debug, Default)]
struct ColdFields {
    /// Its records among all records.
    records: Range<usize>,
    /// Its template, once it was needed.
    template: Option<PrecodedTemplate>,
}

/// An address in a pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The address that was written last.
    pub(super) address: u64,
    /// Offset in the bytes of the pattern.
    offset: u32,
}

impl Patterns {
    /// Adds a pattern under an index that has none yet. The records whose positions are in `slot_records`, in order,
    /// have an address that is given each time; positions after the last record are ignored.
    pub fn set(&mut self, index: usize, records: &[Bytes], slot_records: &[usize]) {
        if self.patterns.len() <= index {
            self.patterns.resize(index + 1, Pattern::NONE);
            self.cold.resize_with(index + 1, ColdFields::default);
        }
        let (first, from) = (self.slots.len(), self.records.len());
        let slot_records = slot_records.iter().filter(|record| **record < records.len());
        self.slots.extend(slot_records.map(|record| Slot::new(size_of::<Bytes>() * record + EA.start)));
        self.records.extend_from_slice(records);
        let mut pattern = Pattern {
            length: size_of_val(records) as u32,
            first: first as u32,
            count: (self.slots.len() - first) as u32,
            ..Pattern::NONE
        };
        let blank = self.records.get_mut(from..).unwrap_or_default().as_flattened_mut();
        self.slots.get(first..).unwrap_or_default().iter().for_each(|slot| slot.put_in(blank));
        for (byte, weight) in blank.iter().rev().zip(1..) {
            pattern.sum += u32::from(*byte);
            pattern.weighted += u64::from(*byte) * weight;
        }
        if let (Some(entry), Some(cold)) = (self.patterns.get_mut(index), self.cold.get_mut(index)) {
            (*entry, cold.records) = (pattern, from..self.records.len());
        }
        self.indexes.push(index);
    }

    /// The records of a pattern with these addresses, [`slot_count`](Self::slot_count) of them. A slot without one keeps
    /// its last address.
    pub fn fill(&mut self, index: usize, addresses: &[u64]) -> &[Bytes] {
        let Some(pattern) = self.patterns.get_mut(index) else { return &[] };
        let Some(cold) = self.cold.get(index) else { return &[] };
        let records = self.records.get_mut(cold.records.clone()).unwrap_or_default();
        let slots = self.slots.get_mut(pattern.slot_range()).unwrap_or_default();
        for (slot, address) in slots.iter_mut().zip(addresses) {
            slot.set_address(*address, pattern);
            slot.put_in(records.as_flattened_mut());
        }
        records
    }

    /// Passes the records of each of these executions to `take`.
    pub fn each(&mut self, all: Executions<'_>, mut take: impl FnMut(&[Bytes]) -> io::Result<()>) -> io::Result<()> {
        let mut addresses = all.addresses;
        for execution in all.executions {
            let (now, rest) = addresses.split_at_checked(self.slot_count(execution.index())).ok_or_else(no_pattern)?;
            match self.fill(execution.index(), now) {
                [] => return Err(no_pattern()),
                records => take(records)?,
            }
            addresses = rest;
        }
        Ok(())
    }

    /// Number of addresses of a pattern.
    pub fn slot_count(&self, index: usize) -> usize {
        self.patterns.get(index).map_or(0, |pattern| pattern.count as usize)
    }

    /// The indexes of all patterns that were added after the first `known`.
    pub(super) fn indexes_after(&self, known: usize) -> &[usize] {
        self.indexes.get(known..).unwrap_or_default()
    }

    /// The records of a pattern, with any addresses.
    pub(super) fn records(&self, index: usize) -> &[Bytes] {
        self.cold.get(index).and_then(|cold| self.records.get(cold.records.clone())).unwrap_or_default()
    }

    /// Positions of the records of a pattern that have an address.
    pub(super) fn slot_records(&self, index: usize) -> impl Iterator<Item = usize> {
        let slots = self.patterns.get(index).and_then(|pattern| self.slots.get(pattern.slot_range()));
        slots.unwrap_or_default().iter().map(|slot| slot.offset() / size_of::<Bytes>())
    }

    /// The template of a pattern.
    pub(super) fn template(&mut self, index: usize) -> Option<&PrecodedTemplate> {
        let cold = self.cold.get_mut(index)?;
        if cold.template.is_none() {
            let slots = self.slots.get(self.patterns.get(index)?.slot_range())?;
            let offsets: Vec<usize> = slots.iter().map(Slot::offset).collect();
            let records = self.records.get(cold.records.clone())?;
            cold.template = Some(PrecodedTemplate::new(records.as_flattened(), &offsets));
        }
        cold.template.as_ref()
    }
}

impl Pattern {
    const NONE: Self = Self { last_position: NOWHERE, sum: 0, weighted: 0, length: 0, first: 0, count: 0 };

    /// Its slots among all slots.
    #[inline(always)]
    pub(super) fn slot_range(&self) -> Range<usize> {
        self.first as usize..self.first as usize + self.count as usize
    }
}

impl Slot {
    /// One without an address.
    fn new(offset: usize) -> Self {
        Self { address: 0, offset: offset as u32 }
    }

    /// Offset in the bytes of the pattern.
    #[inline(always)]
    pub(super) fn offset(&self) -> usize {
        self.offset as usize
    }

    /// Changes the address, and the sums of its pattern.
    #[inline(never)]
    pub(super) fn set_address(&mut self, address: u64, pattern: &mut Pattern) {
        let ((sum, weighted), (sum_before, weighted_before)) = (byte_sums(address), byte_sums(self.address));
        self.apply_delta(
            address,
            i64::from(sum) - i64::from(sum_before),
            i64::from(weighted) - i64::from(weighted_before),
            pattern,
        );
    }

    /// Like [`set_address`](Self::set_address), if the addresses differ in the lowest [`FEW`] bytes only.
    #[inline(always)]
    pub(super) fn set_address_low3(&mut self, address: u64, pattern: &mut Pattern) {
        const { assert!(FEW == 3) };
        let byte = |word: u64, position: u32| (word >> (8 * position) & 0xff).cast_signed();
        let [delta_0, delta_1, delta_2] =
            [0, 1, 2].map(|position| byte(address, position) - byte(self.address, position));
        self.apply_delta(address, delta_0 + delta_1 + delta_2, delta_1 + 2 * delta_2, pattern);
    }

    /// Changes the address, given the differences of both [`byte_sums`]. A byte at position p of the address is p bytes
    /// nearer to the end of the pattern than the slot, so its weight is p less.
    #[inline(always)]
    fn apply_delta(&mut self, address: u64, sum_delta: i64, weighted_delta: i64, pattern: &mut Pattern) {
        let to_end = i64::from(pattern.length - self.offset);
        pattern.sum = pattern.sum.wrapping_add_signed(sum_delta as i32);
        pattern.weighted = pattern.weighted.wrapping_add_signed(to_end * sum_delta - weighted_delta);
        self.address = address;
    }

    /// Stores the address in these bytes.
    fn put_in(&self, bytes: &mut [u8]) {
        if let Some(slot) = bytes.get_mut(self.offset()..self.offset() + EA.len()) {
            slot.copy_from_slice(&self.address.to_le_bytes());
        }
    }
}

/// The sum of the bytes of a word, and the sum of each times its position.
fn byte_sums(word: u64) -> (u16, u16) {
    const LOW: u64 = 0x00ff_00ff_00ff_00ff;
    const ONES: u64 = 0x0001_0001_0001_0001;
    // Weighs lane i with i: the top lane of a product is the sum of lane[i] * weight[3 - i].
    const LANE_NUMBERS: u64 = 0x0000_0001_0002_0003;
    // Four lanes of 16 bits; lane i of `pairs` is the sum of the bytes 2i and 2i + 1. Each counts 2i times, and the odd
    // one once more.
    let odd = word >> 8 & LOW;
    let pairs = (word & LOW) + odd;
    let weigh = |lanes: u64, weights: u64| (lanes.wrapping_mul(weights) >> 48) as u16;
    (weigh(pairs, ONES), 2 * weigh(pairs, LANE_NUMBERS) + weigh(odd, ONES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_sums_weight_positions() {
        for word in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 0xff00_0000_0000_0000, 0x8000_0000] {
            let bytes = word.to_le_bytes();
            let sum = bytes.iter().map(|byte| u16::from(*byte)).sum();
            let positions = (0_u16..).zip(bytes).map(|(position, byte)| position * u16::from(byte)).sum();
            assert_eq!(byte_sums(word), (sum, positions), "{word:#x}");
        }
    }
}
