//! Random overflows of the trace unit, which lose instructions.
//!
//! The same seed makes the same overflows.

use super::random;

/// Chooses overflows, and counts their losses.
#[derive(Debug, Clone)]
pub(crate) struct Overflows {
    /// Never zero; `None`: no overflows.
    state: Option<u64>,
    /// Number of instructions that are still to be lost.
    missing: u64,
    losses: OverflowLosses,
}

/// Losses to overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OverflowLosses {
    /// Number of overflows.
    pub overflows: u64,
    /// Number of instructions that would have been traced.
    pub instructions: u64,
}

/// Average number of P0 instructions between overflows.
const PERIOD: u64 = 64;
/// Greatest number of instructions that one overflow loses.
const LONGEST: u64 = 256;

impl Overflows {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let state = seed.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { state, missing: 0, losses: OverflowLosses::default() }
    }

    pub(crate) fn losses(&self) -> OverflowLosses {
        self.losses
    }

    pub(crate) fn are_made(&self) -> bool {
        self.state.is_some()
    }

    /// Are the next instructions lost?
    pub(crate) fn is_losing(&self) -> bool {
        self.missing > 0
    }

    /// Does an overflow follow this P0 instruction?
    #[inline]
    pub(crate) fn start(&mut self) -> bool {
        self.state.is_some() && self.choose()
    }

    fn choose(&mut self) -> bool {
        let random = self.state.as_mut().map_or(1, random);
        let is_full = random.is_multiple_of(PERIOD);
        if is_full {
            self.missing = 1 + random / PERIOD % LONGEST;
            self.losses.overflows += 1;
        }
        is_full
    }

    /// Is this instruction lost? Counts it if it would be traced.
    #[inline]
    pub(crate) fn lose(&mut self, is_shown: bool) -> bool {
        let is_lost = self.missing > 0;
        if is_lost {
            self.missing -= 1;
            self.losses.instructions += u64::from(is_shown);
        }
        is_lost
    }
}
