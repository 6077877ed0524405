//! Runs of atoms, packed: one bit each, oldest in bit 0, set for E.
//!
//! Comes in: packet headers, or the bits themselves. Goes out: a small value that travels whole through every room.

use core::fmt;

/// Up to 32 outcomes of P0 instructions, oldest first. E: taken (or simply executed), N: not taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Atoms(
    /// The bits in the low half, the count in the high half: one load from a table brings both.
    u64,
);

impl Atoms {
    /// The most atoms that one value holds.
    pub const MOST: u32 = 32;

    /// `count` atoms (at most 32) from the low bits of `bits`.
    #[inline]
    pub const fn new(bits: u32, count: u8) -> Self {
        let count = if count > 32 { 32 } else { count };
        let mask = if count == 32 { u32::MAX } else { (1 << count) - 1 };
        Self((bits & mask) as u64 | (count as u64) << 32)
    }

    /// One bit an atom, oldest in bit 0, set for E.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// How many atoms there are.
    #[inline]
    pub const fn count(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Is there no atom?
    pub const fn is_empty(self) -> bool {
        self.count() == 0
    }

    /// Each atom, oldest first; true for E.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = bool> + ExactSizeIterator {
        (0..self.count()).map(move |index| self.bits() >> index & 1 == 1)
    }

    /// The oldest `count` atoms and the rest.
    #[must_use]
    pub const fn split_at(self, count: u32) -> (Self, Self) {
        if count >= self.count() {
            return (self, Self(0));
        }
        let rest = self.count() - count;
        (Self::new(self.bits(), count as u8), Self::new(self.bits() >> count, rest as u8))
    }

    /// The packet format (1 to 6) that carries exactly these atoms, if one does.
    pub const fn format(self) -> Option<u8> {
        match (self.count() as u8, self.bits()) {
            (count @ 1..=3, _) => Some(count),
            (count @ 4..=24, bits) if is_run_of_e(bits, count) => Some(6),
            (4, 0b1110 | 0b0000 | 0b1010 | 0b0101) => Some(4),
            (5, 0b11110 | 0b00000 | 0b01010 | 0b10101) => Some(5),
            _ => None,
        }
    }

    /// The atoms of a header byte of 0xc0 or more: all of those are atom packets.
    #[inline]
    pub(crate) fn from_header(header: u8) -> Self {
        TABLE[(header & 0x3f) as usize]
    }

    /// The header byte that carries exactly these atoms.
    pub(crate) fn header(self) -> Option<u8> {
        self.format()?;
        TABLE.iter().position(|&atoms| atoms == self).map(|index| 0xc0 | index as u8)
    }
}

/// E, E, ... and a last atom that may be either.
const fn is_run_of_e(bits: u32, count: u8) -> bool {
    let all_but_last = (1 << (count - 1)) - 1;
    bits & all_but_last == all_but_last
}

const TABLE: [Atoms; 64] = {
    let mut table = [Atoms(0); 64];
    let mut index = 0;
    while index < 64 {
        table[index] = of_header(0xc0 | index as u8);
        index += 1;
    }
    table
};

const fn of_header(header: u8) -> Atoms {
    match header {
        0xf6..=0xf7 => Atoms::new((header & 1) as u32, 1),
        0xd8..=0xdb => Atoms::new((header & 3) as u32, 2),
        0xf8..=0xff => Atoms::new((header & 7) as u32, 3),
        0xdc => Atoms::new(0b1110, 4),
        0xdd => Atoms::new(0b0000, 4),
        0xde => Atoms::new(0b1010, 4),
        0xdf => Atoms::new(0b0101, 4),
        0xf5 => Atoms::new(0b11110, 5),
        0xd5 => Atoms::new(0b00000, 5),
        0xd6 => Atoms::new(0b01010, 5),
        0xd7 => Atoms::new(0b10101, 5),
        _ => {
            let ones = (header & 0x1f) + 3;
            let last = (header >> 5 & 1 == 0) as u32;
            Atoms::new(((1 << ones) - 1) | last << ones, ones + 1)
        }
    }
}

impl fmt::Display for Atoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|taken| f.write_str(if taken { "E" } else { "N" }))
    }
}

impl fmt::Debug for Atoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Atoms({self})")
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn every_atom_header_has_its_atoms_and_the_atoms_their_header() {
        for header in 0xc0..=0xff {
            assert_eq!(Atoms::from_header(header).header(), Some(header), "{header:#x}");
        }
    }

    #[test]
    fn no_header_carries_these() {
        for (bits, count) in [(0, 0), (0b0011, 4), (0b0110, 4), (0b01110, 5), (0, 6), (u32::MAX, 25)] {
            assert_eq!(Atoms::new(bits, count).header(), None, "{bits:#b} x {count}");
        }
    }

    #[test]
    fn splitting_keeps_order() {
        let (old, new) = Atoms::new(0b10110, 5).split_at(2);
        assert_eq!((old.to_string(), new.to_string()), ("NE".into(), "ENE".into()));
        assert_eq!(Atoms::new(1, 1).split_at(9).0.count(), 1);
    }
}
