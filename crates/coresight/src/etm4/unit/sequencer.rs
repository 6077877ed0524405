//! The sequencer: a machine of four states, each of which is a resource.
//!
//! Takes TRCSEQEVR, TRCSEQRSTEVR and TRCSEQSTR, then one step per executed instruction with the events that hold. Produces
//! the states that it is in, or passed through, from the next instruction on.
//! Specification: DDI 0487, Sequencer (D4.6.10); ETMv4 has the same one (IHI 0064, Sequencer).

use super::settings::Settings;
use crate::etm4::config::field;

/// The sequencer of a trace unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequencer {
    state: usize,
    /// Resources that are active, one bit for each state.
    active: u32,
    /// Events that lead from one state to the next.
    forward: [u32; 3],
    /// Events that lead back.
    back: [u32; 3],
    reset: u32,
}

impl Sequencer {
    pub(super) fn new(settings: &Settings) -> Self {
        let events = |low| core::array::from_fn(|n| field(settings.numbered("TRCSEQEVR", n) as u32, low, 8));
        let state = field(settings.low("TRCSEQSTR"), 0, 2) as usize;
        let reset = field(settings.low("TRCSEQRSTEVR"), 0, 8);
        Self { state, active: 1 << state, forward: events(0), back: events(8), reset }
    }

    /// The states, one bit each: the current one, and those that the last cycle passed through.
    pub(super) fn active(&self) -> u32 {
        self.active
    }

    /// Advances by a cycle, given the events that hold in it.
    pub(super) fn step(&mut self, holds: impl Fn(u32) -> bool) {
        if holds(self.reset) {
            // No other transition happens, and no state is passed through (R_KVSXC, I_DCFMF).
            (self.state, self.active) = (0, 1);
            return;
        }
        let [forward, back] = [self.forward, self.back].map(|events| events.map(&holds));
        let before = self.state;
        while self.state < 3 && forward[self.state] {
            self.state += 1;
        }
        if self.state == before {
            // A transition forward has priority over the one that leads back from it (R_NPVRQ).
            while self.state > 0 && back[self.state - 1] && !forward[self.state - 1] {
                self.state -= 1;
            }
        }
        let passed = before.min(self.state)..=before.max(self.state);
        let passed = passed.filter(|state| *state != before).fold(0, |bits, state| bits | 1 << state);
        self.active = passed | 1 << self.state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    /// Event numbers: 1 to 3 forward from states 0 to 2, 5 to 7 back into them, 8 resets.
    fn sequencer(state: u64) -> Sequencer {
        let mut settings = Settings::new(Protocol::Ete);
        let events = [("TRCSEQEVR0", 0x501), ("TRCSEQEVR1", 0x602), ("TRCSEQEVR2", 0x703)];
        let others = [("TRCSEQRSTEVR", 8), ("TRCSEQSTR", state)];
        events.iter().chain(&others).for_each(|(register, value)| assert!(settings.set(register, *value)));
        Sequencer::new(&settings)
    }

    /// All 512 cells of the table of R_JDPYL, which gives the conditions of each transition.
    #[test]
    fn every_transition_is_that_of_the_table() {
        for state in 0..4_u64 {
            for events in 0..128_u32 {
                let [f0, f1, f2, b0, b1, b2, reset] = core::array::from_fn(|bit| events >> bit & 1 == 1);
                let rows = match state {
                    0 => [!f0, f0 && !f1, f0 && f1 && !f2, f0 && f1 && f2],
                    1 => [b0 && !f1 && !f0, (!b0 || f0) && !f1, f1 && !f2, f1 && f2],
                    2 => [b0 && b1 && !f2 && !f1 && !f0, b1 && (!b0 || f0) && !f1 && !f2, (!b1 || f1) && !f2, f2],
                    _ => [
                        b0 && b1 && b2 && !f2 && !f1 && !f0,
                        b2 && b1 && (!b0 || f0) && !f1 && !f2,
                        b2 && (!b1 || f1) && !f2,
                        !b2 || f2,
                    ],
                };
                let expected = if reset { Some(0) } else { rows.iter().position(|holds| *holds) };
                let mut sequencer = sequencer(state);
                sequencer.step(|event| match event {
                    1..=3 => events >> (event - 1) & 1 == 1,
                    5..=7 => events >> (event - 2) & 1 == 1,
                    8 => reset,
                    _ => false,
                });
                assert_eq!(Some(sequencer.state), expected, "from {state}: {events:#09b}");
            }
        }
    }

    /// R_HQHFT and I_DCFMF.
    #[test]
    fn states_that_are_passed_through_are_active() {
        let rows: &[(u64, &[u32], u32)] =
            &[(0, &[], 0b0001), (0, &[1], 0b0010), (0, &[1, 2, 3], 0b1110), (3, &[7, 6], 0b0110), (3, &[8], 0b0001)];
        for (state, events, active) in rows {
            let mut sequencer = sequencer(*state);
            sequencer.step(|event| events.contains(&event));
            assert_eq!(sequencer.active(), *active, "from {state}: {events:?}");
        }
    }
}
