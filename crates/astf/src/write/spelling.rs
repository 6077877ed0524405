//! A pattern as it is written where it was not there for long: bits that are made once, and addresses between them.
//!
//! bytes of a pattern ─▶ **spelling**, addresses ─▶ bits

use super::super::record::RECORD_BYTES;
use super::codes::{BYTE, Code, LONGEST, Pen, SHORTEST, distance_code, literal_code, records_code, reference};

/// So many records back is looked for what is there again.
const BACK: usize = 32;

/// Bits, and the places of addresses between them.
#[derive(Debug)]
pub(super) struct Spelling(Vec<Part>);

/// Bits, and an address behind them, or none.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    bits: u64,
    count: u8,
    has_address: bool,
    /// How far behind this address the next one is, in records.
    next: u16,
}

/// An address that was written before, so many records back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) address: u64,
    pub(super) records: usize,
}

impl Spelling {
    /// These bytes; an address is at each of `slots`. What was in one of the records before is told by a reference.
    pub(super) fn new(bytes: &[u8], slots: &[usize]) -> Self {
        let mut known: Vec<Option<u8>> = bytes.iter().copied().map(Some).collect();
        slots.iter().for_each(|slot| known.iter_mut().skip(*slot).take(8).for_each(|byte| *byte = None));
        let mut parts = Vec::new();
        let mut at = 0;
        for (index, slot) in slots.iter().enumerate() {
            let part = spell(&mut parts, known.get(..*slot).unwrap_or_default(), at);
            let next = slots.get(index + 1).map_or(0, |next| (next - slot) / RECORD_BYTES);
            parts.push(Part { has_address: true, next: next as u16, ..part });
            at = slot + 8;
        }
        let part = spell(&mut parts, &known, at);
        parts.push(part);
        Self(parts)
    }

    /// Puts all of it, with these addresses.
    #[inline(always)]
    pub(super) fn put<'b>(&self, mut pen: Pen<'b>, addresses: &[u64], before: Option<Before>) -> Pen<'b> {
        // Without one before, all of the first is new.
        let first = addresses.first().map_or(0, |first| !first);
        let mut before = before.unwrap_or(Before { address: first, records: 0 });
        let mut addresses = addresses.iter();
        for part in &self.0 {
            pen.put(part.bits, part.count.into());
            if part.has_address
                && let Some(address) = addresses.next()
            {
                pen.address(*address, before.address, records_code(before.records));
                before = Before { address: *address, records: part.next.into() };
            }
        }
        pen
    }
}

/// The bytes from `at` on, in parts, and the last of them.
fn spell(parts: &mut Vec<Part>, known: &[Option<u8>], mut at: usize) -> Part {
    let mut part = Part::default();
    while let Some(Some(byte)) = known.get(at) {
        let (code, length) = best(known, at).unwrap_or((literal_code(*byte), 1));
        if u32::from(part.count) + code.count > Pen::MOST {
            parts.push(std::mem::take(&mut part));
        }
        part.bits |= u64::from(code.bits) << part.count;
        part.count += code.count as u8;
        at += length;
    }
    part
}

/// The reference that saves most, if one does: to the byte before, or the same place of a record before.
fn best(known: &[Option<u8>], at: usize) -> Option<(Code, usize)> {
    let here = known.get(at..)?;
    let records = (1..=BACK).map(|records| records * RECORD_BYTES);
    let saved = |distance: usize| {
        let there = known.get(at.checked_sub(distance)?..)?;
        let length =
            here.iter().zip(there).take(LONGEST).take_while(|(one, other)| one.is_some() && one == other).count();
        let code = (length >= SHORTEST).then(|| reference(length, distance_code(distance)))?;
        Some((BYTE * length as u32 - code.count, code, length))
    };
    let (_, code, length) = [1].into_iter().chain(records).filter_map(saved).max_by_key(|(saved, ..)| *saved)?;
    Some((code, length))
}
