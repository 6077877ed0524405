//! A pattern whose bits are encoded once, with gaps for addresses.
//!
//! bytes of a pattern ─▶ **precoded template**; template, addresses ─▶ bits
//!
//! The template is written where the pattern is not in the window; see
//! [`TemplateDeflater`](super::template_deflater::TemplateDeflater).

use super::super::record::RECORD_BYTES;
use super::bits::{BitWriter, Code, LITERAL, LONGEST, SHORTEST, distance_code, literal_code, records_code, reference};

/// Number of records that are searched for a match.
const BACK: usize = 32;

/// Bits, and the addresses between them.
#[derive(Debug)]
pub(super) struct PrecodedTemplate(Vec<Part>);

/// Bits, and whether an address follows them.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    bits: u64,
    count: u8,
    has_address: bool,
    /// Distance from this address to the next one, in records.
    next: u16,
}

/// An address that was written earlier, and its distance in records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Earlier {
    pub(super) address: u64,
    pub(super) records: usize,
}

impl PrecodedTemplate {
    /// Encodes these bytes, with an address at each of `offsets`. Bytes that repeat an earlier record become a reference.
    pub(super) fn new(bytes: &[u8], offsets: &[usize]) -> Self {
        let mut known: Vec<Option<u8>> = bytes.iter().copied().map(Some).collect();
        offsets.iter().for_each(|offset| known.iter_mut().skip(*offset).take(8).for_each(|byte| *byte = None));
        let mut parts = Vec::new();
        let mut at = 0;
        for (index, offset) in offsets.iter().enumerate() {
            let part = encode(&mut parts, known.get(..*offset).unwrap_or_default(), at);
            let next = offsets.get(index + 1).map_or(0, |next| (next - offset) / RECORD_BYTES);
            parts.push(Part { has_address: true, next: next as u16, ..part });
            at = offset + 8;
        }
        let part = encode(&mut parts, &known, at);
        parts.push(part);
        Self(parts)
    }

    /// Writes all of it, with these addresses.
    #[inline(always)]
    pub(super) fn write<'b>(
        &self,
        mut writer: BitWriter<'b>,
        addresses: &[u64],
        earlier: Option<Earlier>,
    ) -> BitWriter<'b> {
        // Without an earlier one, all of the first is new.
        let first = addresses.first().map_or(0, |first| !first);
        let mut earlier = earlier.unwrap_or(Earlier { address: first, records: 0 });
        let mut addresses = addresses.iter();
        for part in &self.0 {
            writer.put(part.bits, part.count.into());
            if part.has_address
                && let Some(address) = addresses.next()
            {
                writer.address(*address, earlier.address, records_code(earlier.records));
                earlier = Earlier { address: *address, records: part.next.into() };
            }
        }
        writer
    }
}

/// Encodes the bytes from `at` on: all parts but the last, which is returned.
fn encode(parts: &mut Vec<Part>, known: &[Option<u8>], mut at: usize) -> Part {
    let mut part = Part::default();
    while let Some(Some(byte)) = known.get(at) {
        let (code, length) = best(known, at).unwrap_or((literal_code(*byte), 1));
        if u32::from(part.count) + code.count > BitWriter::MAX_BITS {
            parts.push(std::mem::take(&mut part));
        }
        part.bits |= u64::from(code.bits) << part.count;
        part.count += code.count as u8;
        at += length;
    }
    part
}

/// The reference that saves most, if one does: to the previous byte, or the same bytes of an earlier record.
fn best(known: &[Option<u8>], at: usize) -> Option<(Code, usize)> {
    let here = known.get(at..)?;
    let records = (1..=BACK).map(|records| records * RECORD_BYTES);
    let saved = |distance: usize| {
        let there = known.get(at.checked_sub(distance)?..)?;
        let length =
            here.iter().zip(there).take(LONGEST).take_while(|(one, other)| one.is_some() && one == other).count();
        let code = (length >= SHORTEST).then(|| reference(length, distance_code(distance)))?;
        Some((LITERAL * length as u32 - code.count, code, length))
    };
    let (_, code, length) = [1].into_iter().chain(records).filter_map(saved).max_by_key(|(saved, ..)| *saved)?;
    Some((code, length))
}
