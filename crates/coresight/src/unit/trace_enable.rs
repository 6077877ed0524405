//! TraceEnable of a PTM or an ETMv3: which instructions are traced, by their addresses.
//!
//! registers, addresses of executed instructions ─▶ **traced, or not**
//!
//! Has the address range comparators only; [`UnitRegisters::unmodeled`] names what else the registers may ask for.
//! Specification: Arm IHI 0014 and IHI 0035, TraceEnable.

use alloc::vec::Vec;
use core::ops::Range;

use super::UnitRegisters;

/// ETMTECR1: the ranges are excluded.
const EXCLUDE: u32 = 1 << 24;

/// Number of pairs of address comparators.
pub(super) const PAIRS: usize = 8;

/// The address ranges that are traced, or those that are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceEnable {
    ranges: Vec<Range<u64>>,
    is_included: bool,
}

impl TraceEnable {
    /// `None`: everything is traced.
    pub(crate) fn new(registers: &UnitRegisters) -> Option<Self> {
        let control = registers.get("ETMTECR1")? as u32;
        let pair = |pair: usize| {
            let [start, end] = registers.comparators(pair);
            start..end
        };
        let ranges: Vec<_> = (0..PAIRS).filter(|index| control >> index & 1 == 1).map(pair).collect();
        let is_included = control & EXCLUDE == 0;
        (is_included || !ranges.is_empty()).then_some(Self { ranges, is_included })
    }

    /// Whether an instruction at this address is traced.
    #[inline]
    pub(crate) fn has(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address)) == self.is_included
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(values: &[(&str, u64)]) -> Vec<u64> {
        let mut registers = UnitRegisters::new(0, 0);
        values.iter().for_each(|(name, value)| assert!(registers.set(name, *value), "{name}"));
        let enable = TraceEnable::new(&registers);
        let addresses = [0x0ffe, 0x1000, 0x1ffe, 0x2000, 0x2ffe, 0x3000];
        addresses.into_iter().filter(|address| enable.as_ref().is_none_or(|enable| enable.has(*address))).collect()
    }

    #[test]
    fn ranges_are_included_or_excluded() {
        let all = [0x0ffe, 0x1000, 0x1ffe, 0x2000, 0x2ffe, 0x3000];
        let pairs =
            [("ETMACVR1", 0x1000), ("ETMACVR2", 0x2000), ("ETMACVR15", 0x2ffe), ("ETMACVR16", 0x3000), ("ETMTECR1", 0)];
        let with = |control| enabled(&[&pairs[..4], &[("ETMTECR1", control)]].concat());
        assert_eq!(enabled(&pairs[..4]), all, "without ETMTECR1");
        assert_eq!(with(1), [0x1000, 0x1ffe]);
        assert_eq!(with(0x81), [0x1000, 0x1ffe, 0x2ffe]);
        assert_eq!(with(0), []);
        assert_eq!(with(1 << 24), all);
        assert_eq!(with(1 << 24 | 0x81), [0x0ffe, 0x2000, 0x3000]);
    }
}
