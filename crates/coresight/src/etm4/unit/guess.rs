//! A PE that guesses: which branches are guessed wrong, what is thrown away, and when the rest is certain.
//!
//! The same seed makes the same guesses.

/// Makes guesses, and counts the P0 elements that are not certain yet.
#[derive(Debug, Clone)]
pub(super) struct Guesses {
    /// Never zero; `None`: nothing is guessed.
    state: Option<u64>,
    most: u32,
    outstanding: u32,
}

/// What becomes of an atom before it is certain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guess {
    /// It is told wrong first.
    pub(super) is_wrong: bool,
    /// How many atoms follow that never happened.
    pub(super) junk: u32,
    /// Which.
    pub(super) junk_atoms: u64,
    /// Some elements become certain.
    pub(super) commits: bool,
}

impl Guesses {
    pub(super) fn new(seed: Option<u64>, most: u32) -> Self {
        let state = seed.filter(|_| most > 0).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { state, most, outstanding: 0 }
    }

    pub(super) fn are_made(&self) -> bool {
        self.most > 0
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// P0 elements were told. Those above the most that there can be are certain by that.
    pub(super) fn element(&mut self, count: u32) {
        self.outstanding = self.outstanding.saturating_add(count).min(self.most);
    }

    pub(super) fn cancel(&mut self, count: u32) {
        self.outstanding = self.outstanding.saturating_sub(count);
    }

    pub(super) fn commit(&mut self, count: u32) {
        self.outstanding = self.outstanding.saturating_sub(count);
    }

    /// How many become certain: some of those that are not.
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
        // The atom itself must not be certain when what is behind it is thrown away.
        let junk = if wanders { (1 + (random >> 8) % 3).min(u64::from(self.most.saturating_sub(1))) as u32 } else { 0 };
        Guess { is_wrong, junk, junk_atoms: random >> 16, commits: random >> 24 & 3 == 0 }
    }

    fn random(&mut self) -> u64 {
        self.state.as_mut().map_or(0, random)
    }
}

/// xorshift64*. The state is never zero.
pub(super) fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
}
