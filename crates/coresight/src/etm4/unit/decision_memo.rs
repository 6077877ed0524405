//! Memo of ViewInst decisions, keyed by state and address window.
//!
//! Takes decisions as they are evaluated; returns them with the state that follows. Does not know registers or addresses:
//! `view_inst.rs` describes the state machine.

use alloc::vec::Vec;

/// Number of states that are kept.
const MAX_STATES: usize = 64;

/// The state of ViewInst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// Between a start point and a stop point.
    pub(super) is_started: bool,
    /// Events that held with the last instruction.
    pub(super) holding: u8,
    /// Single-shot comparators that have matched.
    pub(super) fired: u32,
}

/// Decision of ViewInst about one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Decision {
    /// The instruction is traced.
    pub(super) is_shown: bool,
    /// Events that start to hold with it, one bit each.
    pub(super) events: u8,
    /// A timestamp is requested.
    pub(super) asks_for_time: bool,
}

impl Decision {
    /// Traced, with no other effect.
    pub(super) const SHOWN: Self = Self { is_shown: true, events: 0, asks_for_time: false };
}

/// A decision, and the number of the state after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transition {
    pub(super) decision: Decision,
    pub(super) next: u16,
}

/// The decision for every instruction of a window, where it leaves the state as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Steady {
    /// The state changes, or the decision has not been evaluated.
    #[default]
    Not,
    /// Traced, with no other effect.
    Shown,
    /// Traced, and a timestamp is requested.
    Timed,
    /// Not traced, with no other effect.
    Hidden,
}

/// The decisions of one context.
#[derive(Debug, Clone)]
pub(super) struct DecisionMemo {
    windows: usize,
    pub(super) states: Vec<State>,
    /// One row per state, one column per window.
    transitions: Vec<Option<Transition>>,
    /// The same for transitions that stay in their state.
    steady: Vec<Steady>,
    /// The number of the current state.
    pub(super) state: u16,
}

impl Steady {
    fn of(decision: Decision) -> Self {
        match decision {
            Decision { events: 0, is_shown: true, asks_for_time: false } => Self::Shown,
            Decision { events: 0, is_shown: true, asks_for_time: true } => Self::Timed,
            Decision { events: 0, is_shown: false, asks_for_time: false } => Self::Hidden,
            _ => Self::Not,
        }
    }
}

impl DecisionMemo {
    pub(super) fn new(windows: usize, state: State) -> Self {
        let mut memo = Self { windows, states: Vec::new(), transitions: Vec::new(), steady: Vec::new(), state: 0 };
        memo.clear(state);
        memo
    }

    /// Forgets all decisions; the machine is in this state.
    pub(super) fn clear(&mut self, state: State) {
        self.states.clear();
        self.transitions.clear();
        self.steady.clear();
        self.state = self.number(state);
    }

    #[inline]
    pub(super) fn find(&self, window: u16) -> Option<Transition> {
        self.transitions[self.cell(window)]
    }

    #[inline(always)]
    pub(super) fn steady(&self, window: u16) -> Steady {
        self.steady[self.cell(window)]
    }

    #[inline(always)]
    fn cell(&self, window: u16) -> usize {
        usize::from(self.state) * self.windows + usize::from(window)
    }

    /// Adds the decision for a window and the state after it.
    pub(super) fn learn(&mut self, window: u16, decision: Decision, state: State) {
        if self.states.len() == MAX_STATES {
            return self.clear(state);
        }
        let (cell, next) = (self.cell(window), self.number(state));
        self.transitions[cell] = Some(Transition { decision, next });
        if next == self.state {
            self.steady[cell] = Steady::of(decision);
        }
        self.state = next;
    }

    fn number(&mut self, state: State) -> u16 {
        let known = self.states.iter().position(|known| *known == state);
        known.unwrap_or_else(|| {
            self.states.push(state);
            self.transitions.resize(self.states.len() * self.windows, None);
            self.steady.resize(self.transitions.len(), Steady::Not);
            self.states.len() - 1
        }) as u16
    }
}
