//! Patterns: records that are written many times, with nothing new but addresses.
//!
//! Each knows where it was written last, and what it adds to an Adler-32, so that writing it again needs neither a
//! search nor a pass over its bytes.

use std::io;
use std::ops::Range;

use unspool_model::BlockExecution;

use super::super::layout::Bytes;
use super::template::PrecodedTemplate;

/// Bytes of an Instruction that contain the address of an access, or the target of a branch.
const EA: Range<usize> = 16..24;

/// Records that are written many times, some of which differ in their address. Patterns are identified by the
/// [numbers](BlockExecution::index) of passes, and belong to one trace.
#[derive(Debug, Default)]
pub struct Patterns {
    pub(super) patterns: Vec<Pattern>,
    /// The cold fields of each of them.
    rest: Vec<Rest>,
    /// Addresses of all of them.
    pub(super) slots: Vec<Slot>,
    /// All records, with the addresses that were filled in last.
    records: Vec<Bytes>,
    /// Numbers of patterns, in the order in which they were added.
    numbers: Vec<usize>,
}

/// Passes that are written in order.
#[derive(Debug, Clone, Copy)]
pub struct Passes<'p> {
    /// Each has a pattern.
    pub passes: &'p [BlockExecution],
    /// Addresses of all passes, in order.
    pub addresses: &'p [u64],
    /// Number of their records.
    pub records: u64,
}

/// One pattern; one without bytes is absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    /// Position where it was written last, as [`TemplateDeflater`](super::template_deflater::TemplateDeflater) counts,
    /// or [`NOWHERE`].
    pub(super) at: u64,
    /// Its contribution to both halves of an Adler-32, with the addresses that were written last.
    pub(super) sum: u32,
    pub(super) weighted: u64,
    /// Bytes of its records.
    pub(super) length: u32,
    /// Its slots among all slots.
    first: u32,
    count: u32,
}

pub(super) fn no_pattern() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a pass has no pattern, or not all addresses")
}

/// A position far from all others.
pub(super) const NOWHERE: u64 = 1 << 63;

/// Cold fields of a pattern.
#[derive(Debug, Default)]
struct Rest {
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
    at: u32,
}

impl Patterns {
    /// Adds a pattern under a number that has none yet; the records whose indexes are in `slots`, in order, have an
    /// address that is given each time.
    pub fn set(&mut self, number: usize, records: &[Bytes], slots: &[usize]) {
        if self.patterns.len() <= number {
            self.patterns.resize(number + 1, Pattern::NONE);
            self.rest.resize_with(number + 1, Rest::default);
        }
        let (first, from) = (self.slots.len(), self.records.len());
        let slots = slots.iter().filter(|slot| **slot < records.len());
        self.slots.extend(slots.map(|slot| Slot::new(size_of::<Bytes>() * slot + EA.start)));
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
        if let (Some(entry), Some(rest)) = (self.patterns.get_mut(number), self.rest.get_mut(number)) {
            (*entry, rest.records) = (pattern, from..self.records.len());
        }
        self.numbers.push(number);
    }

    /// The records of a pattern with these addresses, as many as it has slots.
    pub fn fill(&mut self, number: usize, addresses: &[u64]) -> &[Bytes] {
        let Some(pattern) = self.patterns.get_mut(number) else { return &[] };
        let Some(rest) = self.rest.get(number) else { return &[] };
        let records = self.records.get_mut(rest.records.clone()).unwrap_or_default();
        let slots = self.slots.get_mut(pattern.slots()).unwrap_or_default();
        for (slot, address) in slots.iter_mut().zip(addresses) {
            slot.set(*address, pattern);
            slot.put_in(records.as_flattened_mut());
        }
        records
    }

    /// The records of each of these passes.
    pub fn each(&mut self, all: Passes<'_>, mut take: impl FnMut(&[Bytes]) -> io::Result<()>) -> io::Result<()> {
        let mut addresses = all.addresses;
        for pass in all.passes {
            let (now, rest) = addresses.split_at_checked(self.slots(pass.index())).ok_or_else(no_pattern)?;
            match self.fill(pass.index(), now) {
                [] => return Err(no_pattern()),
                records => take(records)?,
            }
            addresses = rest;
        }
        Ok(())
    }

    /// Number of addresses of a pattern.
    pub fn slots(&self, number: usize) -> usize {
        self.patterns.get(number).map_or(0, |pattern| pattern.count as usize)
    }

    /// The numbers of all patterns after the first `known`.
    pub(super) fn numbers(&self, known: usize) -> &[usize] {
        self.numbers.get(known..).unwrap_or_default()
    }

    /// The records of a pattern, with any addresses.
    pub(super) fn records(&self, number: usize) -> &[Bytes] {
        self.rest.get(number).and_then(|rest| self.records.get(rest.records.clone())).unwrap_or_default()
    }

    /// Which records of a pattern have an address.
    pub(super) fn slot_records(&self, number: usize) -> impl Iterator<Item = usize> {
        let slots = self.patterns.get(number).and_then(|pattern| self.slots.get(pattern.slots()));
        slots.unwrap_or_default().iter().map(|slot| slot.at() / size_of::<Bytes>())
    }

    /// The template of a pattern.
    pub(super) fn template(&mut self, number: usize) -> Option<&PrecodedTemplate> {
        let rest = self.rest.get_mut(number)?;
        if rest.template.is_none() {
            let slots = self.slots.get(self.patterns.get(number)?.slots())?;
            let slots: Vec<usize> = slots.iter().map(Slot::at).collect();
            let records = self.records.get(rest.records.clone())?;
            rest.template = Some(PrecodedTemplate::new(records.as_flattened(), &slots));
        }
        rest.template.as_ref()
    }
}

impl Pattern {
    const NONE: Self = Self { at: NOWHERE, sum: 0, weighted: 0, length: 0, first: 0, count: 0 };

    /// Its slots among all slots.
    #[inline(always)]
    pub(super) fn slots(&self) -> Range<usize> {
        self.first as usize..self.first as usize + self.count as usize
    }
}

impl Slot {
    /// One without an address.
    fn new(at: usize) -> Self {
        Self { address: 0, at: at as u32 }
    }

    /// Offset in the bytes of the pattern.
    #[inline(always)]
    pub(super) fn at(&self) -> usize {
        self.at as usize
    }

    /// Changes the address, in this pattern.
    #[inline(never)]
    pub(super) fn set(&mut self, address: u64, pattern: &mut Pattern) {
        let ((sum, positions), (sum_before, positions_before)) = (byte_sums(address), byte_sums(self.address));
        self.change(
            address,
            i64::from(sum) - i64::from(sum_before),
            i64::from(positions) - i64::from(positions_before),
            pattern,
        );
    }

    /// Changes the address, of which only the three lowest bytes differ.
    #[inline(always)]
    pub(super) fn set_low(&mut self, address: u64, pattern: &mut Pattern) {
        let byte = |word: u64, position: u32| (word >> (8 * position) & 0xff).cast_signed();
        let [more, more_1, more_2] = [0, 1, 2].map(|position| byte(address, position) - byte(self.address, position));
        self.change(address, more + more_1 + more_2, more_1 + 2 * more_2, pattern);
    }

    /// Changes the address, whose bytes add up to `more` more, and to `positions` more if each is weighted by its
    /// position.
    #[inline(always)]
    fn change(&mut self, address: u64, more: i64, positions: i64, pattern: &mut Pattern) {
        let after = i64::from(pattern.length - self.at);
        pattern.sum = pattern.sum.wrapping_add_signed(more as i32);
        pattern.weighted = pattern.weighted.wrapping_add_signed(after * more - positions);
        self.address = address;
    }

    /// Stores the address in these bytes.
    fn put_in(&self, bytes: &mut [u8]) {
        if let Some(slot) = bytes.get_mut(self.at()..self.at() + EA.len()) {
            slot.copy_from_slice(&self.address.to_le_bytes());
        }
    }
}

/// The sum of the bytes of a word, and the sum of each times its position.
fn byte_sums(word: u64) -> (u16, u16) {
    const LOW: u64 = 0x00ff_00ff_00ff_00ff;
    const ONES: u64 = 0x0001_0001_0001_0001;
    // Of pairs of bytes; the highest of four lanes becomes the sum of all, each times the number opposite to it.
    let odd = word >> 8 & LOW;
    let pairs = (word & LOW) + odd;
    let all = |lanes: u64, weights: u64| (lanes.wrapping_mul(weights) >> 48) as u16;
    (all(pairs, ONES), 2 * all(pairs, 0x0000_0001_0002_0003) + all(odd, ONES))
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
