//! A speculating PE: which branches are mispredicted, which elements are canceled, and when the others are committed.
//!
//! The same seed makes the same guesses.

use crate::unit::random;

/// Makes guesses, and counts the speculative P0 elements.
#[derive(Debug, Clone)]
pub(super) struct Guesses {
    /// Never zero; `None`: nothing is mispredicted.
    state: Option<u64>,
    max: u32,
    outstanding: u32,
    /// Number of P0 elements that were traced and not canceled.
    elements: u64,
}

/// Speculation about one atom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guess {
    /// It is mispredicted.
    pub(super) is_wrong: bool,
    /// Number of atoms after it that are canceled.
    pub(super) junk: u32,
    /// Those atoms.
    pub(super) junk_atoms: u64,
    /// Some elements are committed.
    pub(super) commits: bool,
}

impl Guesses {
    pub(super) fn new(seed: Option<u64>, max: u32) -> Self {
        let state = seed.filter(|_| max > 0).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { state, max, outstanding: 0, elements: 0 }
    }

    pub(super) fn are_made(&self) -> bool {
        self.max > 0
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Counts traced P0 elements. Those above the maximum are committed by that.
    pub(super) fn element(&mut self, count: u32) {
        self.elements += u64::from(count);
        self.outstanding = self.outstanding.saturating_add(count).min(self.max);
    }

    /// Counts P0 elements that were committed or canceled.
    pub(super) fn resolve(&mut self, count: u32) {
        self.outstanding = self.outstanding.saturating_sub(count);
    }

    /// Counts P0 elements that were canceled.
    pub(super) fn cancel(&mut self, count: u32) {
        self.elements = self.elements.saturating_sub(count.into());
        self.resolve(count);
    }

    /// Number of P0 elements that were traced and not canceled.
    pub(super) fn elements(&self) -> u64 {
        self.elements
    }

    /// The number of P0 elements after the first `before`, if the PE still can cancel them all, and does.
    pub(super) fn cancels(&mut self, before: u64) -> Option<u32> {
        let after = u32::try_from(self.elements.saturating_sub(before)).ok();
        let cancelable = after.filter(|count| self.state.is_some() && (1..=self.outstanding).contains(count));
        cancelable.filter(|_| self.random() & 1 == 0)
    }

    /// A random number of the speculative elements, to be committed.
    pub(super) fn some(&mut self) -> u32 {
        match self.outstanding {
            0 => 0,
            outstanding => 1 + (self.random() % u64::from(outstanding)) as u32,
        }
    }

    pub(super) fn next(&mut self, conditional: bool) -> Guess {
        if self.state.is_none() {
            return Guess { is_wrong: false, junk: 0, junk_atoms: 0, commits: false };
        }
        let random = self.random();
        let is_wrong = conditional && random & 7 == 0;
        let wanders = random >> 3 & 15 == 0;
        // The atom itself must still be speculative when the atoms after it are canceled.
        let junk = if wanders { (1 + (random >> 8) % 3).min(u64::from(self.max.saturating_sub(1))) as u32 } else { 0 };
        Guess { is_wrong, junk, junk_atoms: random >> 16, commits: random >> 24 & 3 == 0 }
    }

    fn random(&mut self) -> u64 {
        self.state.as_mut().map_or(0, random)
    }
}
