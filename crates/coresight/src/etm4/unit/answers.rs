//! What there was to instructions before: in the same state and the same window of addresses it is the same again.

use alloc::vec::Vec;

use super::view::Seen;

/// More states than these are not kept.
const MOST_STATES: usize = 64;

/// What an answer depends on besides the window of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// Between a start and a stop.
    pub(super) is_started: bool,
    /// Events that held with the last instruction.
    pub(super) holding: u8,
    /// Single-shot comparators that matched already.
    pub(super) fired: u32,
}

/// What there is to an instruction, and the number of the state behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) seen: Seen,
    pub(super) next: u16,
}

/// Answers in one context.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    windows: usize,
    pub(super) states: Vec<State>,
    /// Of each state, one for each window.
    answers: Vec<Option<Answer>>,
    /// The number of the state that holds.
    pub(super) state: u16,
}

impl Answers {
    pub(super) fn new(windows: usize, state: State) -> Self {
        let mut answers = Self { windows, states: Vec::new(), answers: Vec::new(), state: 0 };
        answers.clear(state);
        answers
    }

    /// Nothing is known; this state holds.
    pub(super) fn clear(&mut self, state: State) {
        self.states.clear();
        self.answers.clear();
        self.state = self.number(state);
    }

    #[inline]
    pub(super) fn find(&self, window: u16) -> Option<Answer> {
        self.answers[usize::from(self.state) * self.windows + usize::from(window)]
    }

    /// What was seen in a window, and the state that holds then.
    pub(super) fn learn(&mut self, window: u16, seen: Seen, state: State) {
        if self.states.len() == MOST_STATES {
            return self.clear(state);
        }
        let (before, next) = (usize::from(self.state), self.number(state));
        self.answers[before * self.windows + usize::from(window)] = Some(Answer { seen, next });
        self.state = next;
    }

    fn number(&mut self, state: State) -> u16 {
        let known = self.states.iter().position(|known| *known == state);
        known.unwrap_or_else(|| {
            self.states.push(state);
            self.answers.resize(self.states.len() * self.windows, None);
            self.states.len() - 1
        }) as u16
    }
}
