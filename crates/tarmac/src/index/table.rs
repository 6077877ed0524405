//! Tables: the state of memory in a part of a log, as encoded blocks sorted by core and address.
//!
//! Parts are merged without loading them: their tables are read side by side, in address order.

use super::bytes::{Cursor, Malformed, put};
use crate::state::{Granule, UnknownWrites};

/// A core, and an address divided by eight.
pub(super) type Key = (u16, u64);

/// Approximate number of bytes of a block before compression.
const BLOCK: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct TableWriter {
    block: Vec<u8>,
    first: Key,
    last: Key,
}

impl TableWriter {
    /// Adds an entry; keys must ascend. `full` gets each block that is full.
    pub(super) fn add(&mut self, key: Key, granule: &Granule, full: &mut impl FnMut(Key, &[u8])) {
        if self.block.len() >= BLOCK || !self.block.is_empty() && key.0 != self.first.0 {
            self.finish(full);
        }
        if self.block.is_empty() {
            (self.first, self.last) = (key, (key.0, 0));
        }
        put(&mut self.block, key.1.wrapping_sub(self.last.1));
        self.last = key;
        encode_granule(&mut self.block, granule);
    }

    /// Passes the last block to `full`.
    pub(super) fn finish(&mut self, full: &mut impl FnMut(Key, &[u8])) {
        if !self.block.is_empty() {
            full(self.first, &self.block);
            self.block.clear();
        }
    }
}

fn encode_granule(out: &mut Vec<u8>, granule: &Granule) {
    out.push(granule.firsts);
    out.push(granule.changed);
    if granule.firsts != 0 {
        encode_lanes(out, granule.first, granule.firsts);
        encode_lines(out, &granule.first_at, granule.firsts);
    }
    if granule.changed != 0 {
        out.push(granule.known & granule.changed);
        out.push(granule.seen & granule.changed);
        encode_lanes(out, granule.last, granule.known & granule.changed);
        encode_lines(out, &granule.last_at, granule.changed);
    }
}

fn encode_lanes(out: &mut Vec<u8>, value: u64, bytes: u8) {
    let lanes = value.to_le_bytes();
    out.extend((0..8).filter(|at| bytes >> at & 1 != 0).map(|at| lanes[at]));
}

/// Encodes the line of the first byte, and those of the others unless all are the same.
fn encode_lines(out: &mut Vec<u8>, lines: &[u32; 8], bytes: u8) {
    let first = lines[bytes.trailing_zeros() as usize];
    let mut each = (0..8).filter(|at| bytes >> at & 1 != 0).map(|at| lines[at]);
    let is_one = each.clone().all(|line| line == first);
    put(out, u64::from(first) << 1 | u64::from(!is_one));
    if !is_one {
        each.next();
        each.for_each(|line| put(out, line.into()));
    }
}

/// Encodes writes of unknown data: each range by its distance from the previous one, its length minus one, and its
/// line.
pub(super) fn encode_unknown_writes(unknown_writes: &UnknownWrites) -> Vec<u8> {
    let (mut out, mut last) = (Vec::new(), 0_u64);
    for (range, line) in unknown_writes.iter() {
        put(&mut out, range.start().wrapping_sub(last));
        put(&mut out, range.end() - range.start());
        put(&mut out, line.into());
        last = *range.end();
    }
    out
}

pub(super) fn decode_unknown_writes(bytes: &[u8]) -> Result<UnknownWrites, Malformed> {
    let (mut cursor, mut last, mut unknown_writes) = (Cursor(bytes), 0_u64, UnknownWrites::default());
    while !cursor.is_empty() {
        let start = last.checked_add(cursor.number()?).ok_or(Malformed)?;
        last = start.checked_add(cursor.number()?).ok_or(Malformed)?;
        unknown_writes.add(start..=last, cursor.line()?);
    }
    Ok(unknown_writes)
}

/// Passes on the entries of a block, in order.
pub(super) fn each_entry(first: Key, block: &[u8], mut sink: impl FnMut(Key, &Granule)) -> Result<(), Malformed> {
    let mut entries = Entries::new(first);
    while let Some((key, granule)) = entries.next(block)? {
        sink(key, &granule);
    }
    Ok(())
}

/// Position in a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entries {
    key: Key,
    at: usize,
}

impl Entries {
    pub(super) fn new(first: Key) -> Self {
        Self { key: (first.0, 0), at: 0 }
    }

    pub(super) fn next(&mut self, block: &[u8]) -> Result<Option<(Key, Granule)>, Malformed> {
        let mut cursor = Cursor(block.get(self.at..).unwrap_or_default());
        if cursor.is_empty() {
            return Ok(None);
        }
        self.key.1 = self.key.1.wrapping_add(cursor.number()?);
        let granule = granule(&mut cursor)?;
        self.at = block.len() - cursor.0.len();
        Ok(Some((self.key, granule)))
    }
}

fn granule(cursor: &mut Cursor<'_>) -> Result<Granule, Malformed> {
    let mut granule = Granule { firsts: cursor.byte()?, changed: cursor.byte()?, ..Granule::default() };
    if granule.firsts != 0 {
        granule.first = lanes(cursor, granule.firsts)?;
        lines(cursor, granule.firsts, &mut granule.first_at)?;
    }
    if granule.changed != 0 {
        granule.known = cursor.byte()? & granule.changed;
        granule.seen = cursor.byte()? & granule.changed;
        granule.last = lanes(cursor, granule.known)?;
        lines(cursor, granule.changed, &mut granule.last_at)?;
    }
    Ok(granule)
}

fn lanes(cursor: &mut Cursor<'_>, bytes: u8) -> Result<u64, Malformed> {
    let mut value = 0;
    for at in (0..8).filter(|at| bytes >> at & 1 != 0) {
        value |= u64::from(cursor.byte()?) << (at * 8);
    }
    Ok(value)
}

fn lines(cursor: &mut Cursor<'_>, bytes: u8, lines: &mut [u32; 8]) -> Result<(), Malformed> {
    let first = cursor.number()?;
    let line = u32::try_from(first >> 1).map_err(|_| Malformed)?;
    let lowest = bytes.trailing_zeros() as usize;
    for at in (0..8).filter(|at| bytes >> at & 1 != 0) {
        lines[at] = if first & 1 == 0 || at == lowest { line } else { cursor.line()? };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let mut granule = Granule::default();
        granule.read(0x1122_3344_5566_7788, 0x0f, 3);
        granule.read(0x1122_3344_5566_7788, 0x30, 4);
        granule.write(0x99aa, 0x03, 0x01, 5);
        granule.write(0xbb << 56, 0x80, 0x80, 70_000);
        granule.read(0xff << 16, 0x04, 9);
        let mut other = Granule::default();
        other.write(7, 0xff, 0xff, 1);
        let entries = [((0, 5), granule), ((0, u64::MAX / 8), other), ((2, 1), granule)];
        let (mut writer, mut blocks) = (TableWriter::default(), Vec::new());
        let mut full = |key: Key, block: &[u8]| blocks.push((key, block.to_vec()));
        entries.iter().for_each(|(key, granule)| writer.add(*key, granule, &mut full));
        writer.finish(&mut full);
        assert_eq!(blocks.len(), 2);
        let mut back = Vec::new();
        for (first, block) in &blocks {
            each_entry(*first, block, |key, granule| back.push((key, *granule))).unwrap();
            for length in 0..block.len() {
                let _ = each_entry(*first, &block[..length], |_, _| {});
            }
        }
        // A byte that is written but unknown has no value.
        assert_eq!(back.len(), 3);
        for ((key, granule), (other_key, other)) in entries.iter().zip(&back) {
            assert_eq!(key, other_key);
            assert_eq!(
                (granule.value().1, granule.first_at, granule.last_at),
                (other.value().1, other.first_at, other.last_at)
            );
            assert_eq!((granule.firsts, granule.changed, granule.seen), (other.firsts, other.changed, other.seen));
        }
    }
}
