//! Atoms that wait until they fill a long packet.

use alloc::vec::Vec;

/// Outcomes that no packet contains yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PendingAtoms {
    /// The oldest in bit 0, set for E.
    bits: u64,
    count: u32,
}

/// Number of atoms at which packets are emitted: enough to choose the longest ones.
const MAX: u32 = 48;

impl PendingAtoms {
    #[inline(always)]
    pub(super) fn push(&mut self, taken: bool, out: &mut Vec<u8>) {
        self.bits |= u64::from(taken) << self.count;
        self.count += 1;
        if self.count == MAX {
            self.make_room(out);
        }
    }

    #[inline(never)]
    fn make_room(&mut self, out: &mut Vec<u8>) {
        while self.count > 24 {
            out.push(self.packet());
        }
    }

    #[inline]
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        if self.count > 0 {
            self.flush_all(out);
        }
    }

    fn flush_all(&mut self, out: &mut Vec<u8>) {
        while self.count > 0 {
            out.push(self.packet());
        }
    }

    /// Drops the youngest atoms up to the last E.
    pub(super) fn forget_not_taken(&mut self) {
        self.count = u64::BITS - self.bits.leading_zeros();
    }

    /// Removes the atoms of the longest packet and returns its header.
    fn packet(&mut self) -> u8 {
        let (header, length) = self.longest();
        self.bits >>= length;
        self.count -= length;
        header
    }

    fn longest(&self) -> (u8, u32) {
        let ones = self.bits.trailing_ones().min(23);
        let length = (ones + 1).min(self.count);
        if length >= 4 {
            let ends_in_n = u8::from(self.bits >> (length - 1) & 1 == 0) << 5;
            return ((0xc0 + (length - 4) as u8) | ends_in_n, length);
        }
        let low = |count: u32| (self.bits & ((1 << count) - 1)) as u8;
        match (self.count, low(5), low(4)) {
            (5.., 0b11110, _) => (0xf5, 5),
            (5.., 0b00000, _) => (0xd5, 5),
            (5.., 0b01010, _) => (0xd6, 5),
            (5.., 0b10101, _) => (0xd7, 5),
            (4.., _, 0b1110) => (0xdc, 4),
            (4.., _, 0b0000) => (0xdd, 4),
            (4.., _, 0b1010) => (0xde, 4),
            (4.., _, 0b0101) => (0xdf, 4),
            (3.., ..) => (0xf8 | low(3), 3),
            (2, ..) => (0xd8 | low(2), 2),
            _ => (0xf6 | low(1), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etm4::atoms;

    #[test]
    fn every_sequence_is_decoded() {
        for bits in 0..1_u64 << 12 {
            for repeat in [1, 7] {
                let (mut pending, mut out, mut pushed) = (PendingAtoms::default(), Vec::new(), Vec::new());
                for at in 0..12 * repeat {
                    let taken = bits >> (at % 12) & 1 == 1;
                    pushed.push(taken);
                    pending.push(taken, &mut out);
                }
                pending.flush(&mut out);
                let found: Vec<bool> = out.iter().flat_map(|header| atoms::from_header(*header).iter()).collect();
                assert_eq!(found, pushed, "{bits:#b}");
            }
        }
    }

    #[test]
    fn runs_of_e_take_one_packet_per_24() {
        let (mut pending, mut out) = (PendingAtoms::default(), Vec::new());
        (0..240).for_each(|_| pending.push(true, &mut out));
        pending.flush(&mut out);
        assert_eq!(out, [0xd4; 10]);
    }
}
