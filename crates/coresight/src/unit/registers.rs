//! The registers that the models of PTM and ETMv3 have.
//!
//! Both have the same names: ETMCR controls the trace unit, ETMIDR and ETMCCER identify it, and ETMTECR1 selects address
//! comparators as filters. Does not know the meaning of their
//! fields, except for those that both share.
//! Specification: Arm IHI 0014 and IHI 0035, registers.

use alloc::vec::Vec;

use super::trace_enable::PAIRS;
use crate::etm4::field;

/// Names and values, in the order of the register map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitRegisters {
    values: [(&'static str, u64); 6],
    /// ETMTECR1, if it is set.
    trace_enable: Option<u64>,
    /// Of these, only those that are set are listed.
    comparators: [u64; COMPARATORS.len()],
}

/// The address comparators, in pairs for ranges.
const COMPARATORS: [&str; 2 * PAIRS] = [
    "ETMACVR1",
    "ETMACVR2",
    "ETMACVR3",
    "ETMACVR4",
    "ETMACVR5",
    "ETMACVR6",
    "ETMACVR7",
    "ETMACVR8",
    "ETMACVR9",
    "ETMACVR10",
    "ETMACVR11",
    "ETMACVR12",
    "ETMACVR13",
    "ETMACVR14",
    "ETMACVR15",
    "ETMACVR16",
];

/// TraceEnable Control Register 1.
const TRACE_ENABLE: &str = "ETMTECR1";

/// The hard-wired resource, which is always active: an event with this value always occurs, and with NOT never.
const ALWAYS: u64 = 0x6f;
const NEVER: u64 = 0x406f;

impl UnitRegisters {
    /// A trace unit that is identified by these values, and traces nothing but the program flow.
    pub(crate) const fn new(idr: u64, ccer: u64) -> Self {
        let values = [
            ("ETMCR", 0),
            ("ETMSYNCFR", 0x400),
            ("ETMIDR", idr),
            ("ETMCCER", ccer),
            ("ETMTSEVR", NEVER),
            ("ETMTRACEIDR", 0x10),
        ];
        Self { values, trace_enable: None, comparators: [0; COMPARATORS.len()] }
    }

    /// Sets a register by its name. False: the models do not have it.
    pub(crate) fn set(&mut self, name: &str, value: u64) -> bool {
        let value = value & 0xffff_ffff;
        if name.eq_ignore_ascii_case(TRACE_ENABLE) {
            self.trace_enable = Some(value);
            return true;
        }
        let comparators = COMPARATORS.iter().zip(&mut self.comparators);
        let values = self.values.iter_mut().map(|(known, old)| (&*known, old));
        let found = values.chain(comparators).find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, old)| *old = value).is_some()
    }

    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let comparators = COMPARATORS.into_iter().zip(self.comparators).filter(|(_, value)| *value != 0);
        self.values.into_iter().chain(self.trace_enable.map(|value| (TRACE_ENABLE, value))).chain(comparators)
    }

    /// The values of a pair of address comparators.
    pub(super) fn comparators(&self, pair: usize) -> [u64; 2] {
        self.comparators.as_chunks().0.get(pair).copied().unwrap_or_default()
    }

    /// A field of a register.
    pub(crate) fn field(&self, name: &str, low: u32, width: u32) -> u32 {
        field(self.get(name).unwrap_or(0) as u32, low, width)
    }

    /// ETMSYNCFR: bytes between synchronizations.
    pub(crate) fn sync_period(&self) -> Option<u64> {
        Some(u64::from(self.field("ETMSYNCFR", 0, 12))).filter(|period| *period > 0)
    }

    /// ETMTSEVR selects the event that always holds: a timestamp whenever the time changes.
    pub(crate) fn times_all(&self) -> bool {
        self.get("ETMTSEVR") == Some(ALWAYS)
    }

    /// Features that the registers enable and no model implements: the register, and the feature.
    pub(crate) fn unmodeled(&self) -> Vec<(&'static str, &'static str)> {
        let event = self.get("ETMTSEVR").filter(|event| ![0, ALWAYS, NEVER].contains(event));
        let stalls = self.field("ETMCR", 7, 1) == 1;
        let event = event.map(|_| ("ETMTSEVR", "timestamps at events other than 0x6f (always) and 0x406f (never)"));
        let stalls = stalls.then_some(("ETMCR", "stalling of the PE"));
        let others = self.field(TRACE_ENABLE, 8, 16) != 0 || self.field(TRACE_ENABLE, 25, 1) == 1;
        let others = others.then_some((TRACE_ENABLE, "filters other than address ranges"));
        event.into_iter().chain(stalls).chain(others).collect()
    }
}
