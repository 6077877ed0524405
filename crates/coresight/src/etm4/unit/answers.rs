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

/// What happens with every instruction of a window, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Settled {
    /// Something else each time, or nobody knows.
    #[default]
    Not,
    /// It is traced, and that is all.
    Shown,
    /// It is traced, and a timestamp is asked for.
    Timed,
    /// It is not traced, and that is all.
    Hidden,
}

/// Answers in one context.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    windows: usize,
    pub(super) states: Vec<State>,
    /// Of each state, one for each window.
    answers: Vec<Option<Answer>>,
    /// The same of those that change nothing.
    settled: Vec<Settled>,
    /// The number of the state that holds.
    pub(super) state: u16,
}

impl Settled {
    fn of(seen: Seen) -> Self {
        match seen {
            Seen { events: 0, is_shown: true, asks_for_time: false } => Self::Shown,
            Seen { events: 0, is_shown: true, asks_for_time: true } => Self::Timed,
            Seen { events: 0, is_shown: false, asks_for_time: false } => Self::Hidden,
            _ => Self::Not,
        }
    }
}

impl Answers {
    pub(super) fn new(windows: usize, state: State) -> Self {
        let mut answers = Self { windows, states: Vec::new(), answers: Vec::new(), settled: Vec::new(), state: 0 };
        answers.clear(state);
        answers
    }

    /// Nothing is known; this state holds.
    pub(super) fn clear(&mut self, state: State) {
        self.states.clear();
        self.answers.clear();
        self.settled.clear();
        self.state = self.number(state);
    }

    #[inline]
    pub(super) fn find(&self, window: u16) -> Option<Answer> {
        self.answers[self.place(window)]
    }

    #[inline(always)]
    pub(super) fn settled(&self, window: u16) -> Settled {
        self.settled[self.place(window)]
    }

    #[inline(always)]
    fn place(&self, window: u16) -> usize {
        usize::from(self.state) * self.windows + usize::from(window)
    }

    /// What was seen in a window, and the state that holds then.
    pub(super) fn learn(&mut self, window: u16, seen: Seen, state: State) {
        if self.states.len() == MOST_STATES {
            return self.clear(state);
        }
        let (place, next) = (self.place(window), self.number(state));
        self.answers[place] = Some(Answer { seen, next });
        if next == self.state {
            self.settled[place] = Settled::of(seen);
        }
        self.state = next;
    }

    fn number(&mut self, state: State) -> u16 {
        let known = self.states.iter().position(|known| *known == state);
        known.unwrap_or_else(|| {
            self.states.push(state);
            self.answers.resize(self.states.len() * self.windows, None);
            self.settled.resize(self.answers.len(), Settled::Not);
            self.states.len() - 1
        }) as u16
    }
}
