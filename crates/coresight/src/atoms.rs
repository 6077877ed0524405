//! Runs of atoms, packed: one bit each, oldest in bit 0, set for E.
//!
//! Takes bits and a count, produces a small value that passes through every stage unchanged. Shared by all protocols
//! with atoms; their packet formats are in the folders of the protocols.

use core::fmt;

/// Up to 32 outcomes of P0 instructions, oldest first. E: taken (or simply executed), N: not taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Atoms(
    /// The bits in the low half, the count in the high half: one load from a table brings both.
    u64,
);

impl Atoms {
    /// `count` atoms (at most 32) from the low bits of `bits`.
    #[inline]
    pub const fn new(bits: u32, count: u8) -> Self {
        let count = if count > 32 { 32 } else { count };
        let mask = if count == 32 { u32::MAX } else { (1 << count) - 1 };
        Self((bits & mask) as u64 | (count as u64) << 32)
    }

    /// One bit per atom, oldest in bit 0, set for E.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Number of atoms.
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
    fn splitting_keeps_order() {
        let (old, new) = Atoms::new(0b10110, 5).split_at(2);
        assert_eq!((old.to_string(), new.to_string()), ("NE".into(), "ENE".into()));
        assert_eq!(Atoms::new(1, 1).split_at(9).0.count(), 1);
    }
}
