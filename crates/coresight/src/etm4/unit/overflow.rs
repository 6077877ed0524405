//! A trace unit that runs out of room now and then: what the PE does until there is room again is lost.
//!
//! The same seed makes the same overflows.

use super::guess::random;

/// Chooses overflows, and counts what they cost.
#[derive(Debug, Clone)]
pub(super) struct Overflows {
    /// Never zero; `None`: there is always room.
    state: Option<u64>,
    /// Instructions until there is room again.
    missing: u64,
    losses: Overflowed,
}

/// What overflows cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overflowed {
    /// How often there was no room.
    pub overflows: u64,
    /// Instructions that would have been traced, and were not.
    pub instructions: u64,
}

/// One P0 instruction in so many is the last for a while.
const EVERY: u64 = 64;
/// The most instructions that are lost at a time.
const LONGEST: u64 = 256;

impl Overflows {
    pub(super) fn new(seed: Option<u64>) -> Self {
        let state = seed.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { state, missing: 0, losses: Overflowed::default() }
    }

    pub(super) fn losses(&self) -> Overflowed {
        self.losses
    }

    pub(super) fn are_made(&self) -> bool {
        self.state.is_some()
    }

    /// Are the next instructions lost?
    pub(super) fn is_losing(&self) -> bool {
        self.missing > 0
    }

    /// Is there no room behind this P0 instruction?
    #[inline]
    pub(super) fn start(&mut self) -> bool {
        self.state.is_some() && self.choose()
    }

    fn choose(&mut self) -> bool {
        let random = self.state.as_mut().map_or(1, random);
        let is_full = random.is_multiple_of(EVERY);
        if is_full {
            self.missing = 1 + random / EVERY % LONGEST;
            self.losses.overflows += 1;
        }
        is_full
    }

    /// Is this instruction lost, which would be traced or not?
    #[inline]
    pub(super) fn lose(&mut self, is_shown: bool) -> bool {
        let is_lost = self.missing > 0;
        if is_lost {
            self.missing -= 1;
            self.losses.instructions += u64::from(is_shown);
        }
        is_lost
    }
}
