//! Granules: the state of eight bytes of memory in a part of a log.
//!
//! For every byte it keeps the value of the first read before any change, the value of the last change, and the lines
//! of both. Parts of a log can therefore be processed separately and joined afterwards: a first read in a later part
//! applies to the earlier one.

use super::super::record::Direction;
use super::data::GranulePart;

/// Number of bytes in a granule.
pub(crate) const GRANULE: u64 = 8;

/// State of eight bytes in a part of a log. Masks have one bit per byte and values one byte per byte, the lowest
/// address lowest. Lines are counted from the start of the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Granule {
    /// Value of the first read, before any change.
    pub(crate) first: u64,
    /// Value of the last change.
    pub(crate) last: u64,
    pub(crate) first_at: [u32; 8],
    pub(crate) last_at: [u32; 8],
    /// Mask of the bytes with a first read.
    pub(crate) firsts: u8,
    /// Mask of the bytes that changed.
    pub(crate) changed: u8,
    /// Mask of the changed bytes whose value is known.
    pub(crate) known: u8,
    /// Mask of the changed bytes whose change a read revealed, not a write.
    pub(crate) seen: u8,
}

impl Granule {
    /// Applies an access.
    #[inline]
    pub(crate) fn touch(&mut self, direction: Direction, part: &GranulePart, line: u32) {
        match direction {
            Direction::Read => self.read(part.value, part.known, line),
            Direction::Write => self.write(part.value, part.bytes, part.known, line),
        }
    }

    /// Applies a read of known bytes.
    #[inline]
    pub(crate) fn read(&mut self, value: u64, bytes: u8, line: u32) {
        let fresh = bytes & !(self.changed | self.firsts);
        if fresh != 0 {
            self.first = mix(self.first, value, fresh);
            self.firsts |= fresh;
            set_lines(&mut self.first_at, fresh, line);
        }
        // A read reveals the value of an earlier unknown write.
        let revealed = bytes & self.changed & !self.known;
        if revealed != 0 {
            self.last = mix(self.last, value, revealed);
            self.known |= revealed;
        }
        let held = bytes & !fresh & !revealed;
        let other = different(mix(self.first, self.last, self.changed), value) & held;
        if other != 0 {
            self.write(value, other, other, line);
            self.seen |= other;
        }
    }

    /// Applies a write; `known` is the mask of known bytes.
    #[inline]
    pub(crate) fn write(&mut self, value: u64, bytes: u8, known: u8, line: u32) {
        self.last = mix(self.last, value, bytes);
        self.changed |= bytes;
        self.known = self.known & !bytes | known & bytes;
        self.seen &= !bytes;
        set_lines(&mut self.last_at, bytes, line);
    }

    /// Appends the state of a later part, whose lines start `shift` after these.
    pub(crate) fn append(&mut self, later: &Self, shift: u32) {
        each_line(&later.first_at, later.firsts, |bytes, line| {
            self.read(later.first, bytes, line.saturating_add(shift));
        });
        each_line(&later.last_at, later.changed, |bytes, line| {
            self.write(later.last, bytes, later.known, line.saturating_add(shift));
        });
        self.seen |= later.seen & later.changed;
    }

    /// Value at the end of the part, and the mask of known bytes.
    pub(crate) fn value(&self) -> (u64, u8) {
        let bytes = self.firsts & !self.changed | self.known & self.changed;
        (mix(self.first, self.last, self.changed), bytes)
    }

    /// The last write to a byte, or its first read.
    pub(crate) fn last_write(&self, address: u64) -> Option<LastWrite> {
        let at = address % GRANULE;
        let (value, known) = self.value();
        let is = |mask: u8| mask >> at & 1 != 0;
        is(self.firsts | self.changed).then(|| LastWrite {
            value: is(known).then_some((value >> (at * 8)) as u8),
            line: if is(self.changed) { self.last_at[at as usize].into() } else { 0 },
            is_seen: is(self.changed & self.seen),
        })
    }
}

/// Takes the bytes of `other` in the mask.
#[inline(always)]
fn mix(value: u64, other: u64, bytes: u8) -> u64 {
    let lanes = lanes(bytes);
    value & !lanes | other & lanes
}

/// A byte mask as a bit mask.
#[inline(always)]
fn lanes(bytes: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // Every byte of the product has all bits of the mask, and keeps its own.
    let own = u64::from(bytes).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    // Moves whichever bit it is to the top of its byte, then fills the byte.
    let top = (((own & LOW) + LOW) | own) & !LOW;
    (top >> 7) * 0xff
}

/// Mask of the bytes that differ.
#[inline(always)]
fn different(a: u64, b: u64) -> u8 {
    let mut bytes = 0;
    for (at, byte) in (a ^ b).to_le_bytes().into_iter().enumerate() {
        bytes |= u8::from(byte != 0) << at;
    }
    bytes
}

#[inline(always)]
fn set_lines(lines: &mut [u32; 8], bytes: u8, line: u32) {
    if bytes == 0xff {
        *lines = [line; 8];
        return;
    }
    for (at, slot) in lines.iter_mut().enumerate() {
        if bytes >> at & 1 != 0 {
            *slot = line;
        }
    }
}

/// Passes on the bytes of a mask, grouped by line.
fn each_line(lines: &[u32; 8], bytes: u8, mut sink: impl FnMut(u8, u32)) {
    let mut left = bytes;
    while left != 0 {
        let line = lines[left.trailing_zeros() as usize];
        let same = (0..8).filter(|at| lines[*at] == line).fold(0, |same, at| same | 1 << at) & left;
        sink(same, line);
        left &= !same;
    }
}

/// A known byte of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The value.
    pub value: u8,
    /// Line of the write; 0: never written.
    pub line: u64,
    /// Whether no line wrote it, but a read on this line returned a changed value.
    pub is_seen: bool,
}

/// The last write to a byte of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastWrite {
    /// The value; `None`: unknown.
    pub value: Option<u8>,
    /// Line of the write; 0: never written.
    pub line: u64,
    /// Whether no line wrote it, but a read on this line returned a changed value.
    pub is_seen: bool,
}

impl LastWrite {
    /// The byte, if it is known.
    pub fn known(&self) -> Option<Known> {
        Some(Known { value: self.value?, line: self.line, is_seen: self.is_seen })
    }
}
