//! Q elements: blocks of which the trace counts the instructions but not the branches.
//!
//! A Q element represents whole blocks. Anything that has to be emitted in the middle of one ends it after its last
//! complete block. The same seed makes the same Q elements.

use super::settings::Settings;
use super::{Class, Executed, Unit};
use crate::Target;
use crate::etm4::packet::Packet;
use crate::unit::random;

/// Chooses Q elements, and counts the instructions of the open one.
#[derive(Debug, Clone)]
pub(super) struct QElements {
    /// Never zero; `None`: there are no Q elements.
    state: Option<u64>,
    may_count: bool,
    may_be_silent: bool,
    open: Option<OpenQ>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OpenQ {
    /// Number of blocks until its end.
    blocks: u32,
    /// Number of instructions, those of an incomplete block included.
    instructions: u32,
    /// Number of instructions of complete blocks.
    complete: u32,
    /// Address after the last complete block.
    next: Option<Target>,
}

/// Average number of blocks between Q elements.
const PERIOD: u64 = 8;
/// Greatest number of blocks of a Q element.
const LONGEST: u64 = 6;

impl QElements {
    pub(super) fn new(settings: &Settings) -> Self {
        let (may_count, may_be_silent) = settings.q_elements();
        let is_possible = (may_count || may_be_silent) && !settings.broadcasts();
        let state = settings.q_seed.filter(|_| is_possible).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Self { state, may_count, may_be_silent, open: None }
    }

    #[inline]
    pub(super) fn are_made(&self) -> bool {
        self.state.is_some()
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Does a Q element start here? To be called at the start of a block.
    pub(super) fn starts(&mut self) -> bool {
        let random = self.state.as_mut().map_or(1, random);
        self.open.is_none() && random.is_multiple_of(PERIOD)
    }

    pub(super) fn open(&mut self) {
        let random = self.state.as_mut().map_or(0, random);
        self.open = Some(OpenQ { blocks: 1 + (random % LONGEST) as u32, ..OpenQ::default() });
    }

    /// Adds instructions to the open Q element.
    pub(super) fn instructions(&mut self, count: u32) {
        if let Some(open) = &mut self.open {
            open.instructions = open.instructions.saturating_add(count);
        }
    }

    /// Completes a block.
    pub(super) fn block(&mut self) {
        if let Some(open) = &mut self.open {
            (open.complete, open.next) = (open.instructions, None);
            open.blocks = open.blocks.saturating_sub(1);
        }
    }

    /// Sets the address after a block. True: the Q element is long enough.
    pub(super) fn arrive(&mut self, at: Target) -> bool {
        self.open.as_mut().is_some_and(|open| {
            open.next = open.next.or(Some(at));
            open.blocks == 0
        })
    }

    /// Does the next Q element have a count? Random if the trace unit supports both.
    fn counts(&mut self) -> bool {
        let random = self.state.as_mut().map_or(0, random);
        self.may_count && !(self.may_be_silent && random.is_multiple_of(4))
    }
}

impl Unit {
    /// Adds an instruction to the open Q element, or ends it.
    pub(super) fn extend_q(&mut self, at: Target) {
        if self.view.may_be_in_q(at, &self.whole_context) {
            self.q_elements.instructions(1);
        } else {
            self.flush_q();
        }
    }

    /// Is this P0 instruction part of a Q element? Exception returns never are.
    pub(super) fn is_in_q(&mut self, executed: &Executed) -> bool {
        if executed.class == Class::ExceptionReturn {
            self.flush_q();
        }
        self.q_elements.block();
        self.q_elements.is_open()
    }

    /// Ends the open Q element after its last complete block.
    #[inline]
    pub(super) fn flush_q(&mut self) {
        if self.q_elements.is_open() {
            self.end_q();
        }
    }

    fn end_q(&mut self) {
        let Some(OpenQ { complete, next, .. }) = self.q_elements.open.take() else { return };
        if complete == 0 {
            return;
        }
        let count = self.q_elements.counts().then_some(complete);
        // Calls within the Q element are not on the reader's return stack.
        self.stack.clear();
        self.guesses.element(1);
        let Some(next) = next else {
            self.emit(&Packet::Q { count, address: None });
            return self.require_address();
        };
        (self.needs_address, self.address_is_forced) = (false, false);
        let has_room = count.is_some() && !self.context_changed && self.addresses.is_near(next);
        if has_room {
            let address = Some(self.addresses.shortest(next));
            self.emit(&Packet::Q { count, address });
        } else {
            self.emit(&Packet::Q { count, address: None });
            self.address(next, true);
        }
    }
}
