//! Addresses without tags and authentication codes.

//! A register value and the sizes of the address ranges give the address that records hold.
//! Specification: Arm Architectural Structured Trace Format, issue 0.11.

/// The virtual address ranges of a translation regime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Regime {
    /// TCR_ELx.T0SZ, the effective value: number of bits at the top of a lower address that are not part of it.
    pub t0sz: u8,
    /// TCR_ELx.T1SZ, if there is an upper range.
    pub t1sz: Option<u8>,
}

impl Regime {
    /// The address without the tag or authentication code in its upper bits. Whether translation ignores the top byte
    /// (TBI) makes no difference.
    ///
    /// ```
    /// use unspool_astf::sanitize::Regime;
    ///
    /// let linux = Regime { t0sz: 16, t1sz: Some(16) };
    /// assert_eq!(linux.sanitize(0xf7a4_ffff_e762_4250), 0xffff_ffff_e762_4250);
    /// assert_eq!(linux.sanitize(0xf724_ffff_e762_4250), 0x0000_ffff_e762_4250);
    /// ```
    pub fn sanitize(self, address: u64) -> u64 {
        let is_upper = address >> 55 & 1 == 1;
        match self.t1sz {
            Some(t1sz) if is_upper => address | above(t1sz),
            _ => address & !above(self.t0sz),
        }
    }
}

/// The topmost bits.
fn above(bits: u8) -> u64 {
    // The field has six bits.
    match bits & 0x3f {
        0 => 0,
        bits => u64::MAX << (64 - bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bits_follow_bit_55() {
        let one = |t0sz| Regime { t0sz, t1sz: None };
        let two = |t0sz, t1sz| Regime { t0sz, t1sz: Some(t1sz) };
        let rows = [
            ("nothing to do", two(16, 16), 0x0000_ffff_8000_0000, 0x0000_ffff_8000_0000),
            ("a tag in the lower range", two(16, 16), 0xff00_ffff_8000_0000, 0x0000_ffff_8000_0000),
            ("a tag in the upper range", two(16, 16), 0x12ff_ffff_8000_0000, 0xffff_ffff_8000_0000),
            ("an authentication code below bit 55", two(16, 16), 0x007f_0000_0000_1000, 0x0000_0000_0000_1000),
            ("one in the upper range", two(16, 16), 0x0080_0000_0000_1000, 0xffff_0000_0000_1000),
            ("ranges of different sizes, lower", two(25, 16), 0x0000_ff80_0000_1000, 0x0000_0000_0000_1000),
            ("ranges of different sizes, upper", two(25, 16), 0x0080_0080_0000_1000, 0xffff_0080_0000_1000),
            ("52 bits", two(12, 12), 0xff0f_1234_5678_9abc, 0x000f_1234_5678_9abc),
            ("56 bits", two(8, 8), 0xaa7f_1234_5678_9abc, 0x007f_1234_5678_9abc),
            ("one range: bit 55 is no address bit", one(16), 0xffff_8000_0000_1000, 0x0000_8000_0000_1000),
            ("one range, nothing above", one(0), 0xffff_8000_0000_1000, 0xffff_8000_0000_1000),
            ("the smallest range", one(63), 0xffff_ffff_ffff_ffff, 1),
        ];
        for (name, regime, address, expected) in rows {
            assert_eq!(regime.sanitize(address), expected, "{name}");
            assert_eq!(regime.sanitize(expected), expected, "{name}, twice");
        }
    }
}
