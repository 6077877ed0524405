//! Q elements: q_elements of blocks of which the trace says how many instructions they had, and not which way they went.
//!
//! A stretch is made of whole blocks. Whatever has to be told in the middle of one ends it behind the last block that is
//! complete. The same seed makes the same q_elements.

use super::guess::random;
use super::settings::Settings;
use super::{Class, Executed, Unit};
use crate::Target;
use crate::etm4::packet::Packet;

/// Chooses q_elements, and counts what is in the open one.
#[derive(Debug, Clone)]
pub(super) struct QElements {
    /// Never zero; `None`: there are no Q elements.
    state: Option<u64>,
    may_count: bool,
    may_be_silent: bool,
    open: Option<Stretch>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    /// Blocks that are still to come.
    blocks: u32,
    /// Instructions, those of the last block too.
    instructions: u32,
    /// Instructions of complete blocks.
    complete: u32,
    /// Where execution went on behind the last complete block.
    behind: Option<Target>,
}

/// One block in so many starts a stretch.
const EVERY: u64 = 8;
/// The most blocks of a stretch.
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

    /// Does a stretch start here? Time for an answer is at the start of a block.
    pub(super) fn starts(&mut self) -> bool {
        let random = self.state.as_mut().map_or(1, random);
        self.open.is_none() && random.is_multiple_of(EVERY)
    }

    pub(super) fn open(&mut self) {
        let random = self.state.as_mut().map_or(0, random);
        self.open = Some(Stretch { blocks: 1 + (random % LONGEST) as u32, ..Stretch::default() });
    }

    /// So many instructions are in it.
    pub(super) fn instructions(&mut self, count: u32) {
        if let Some(stretch) = &mut self.open {
            stretch.instructions = stretch.instructions.saturating_add(count);
        }
    }

    /// A block is complete.
    pub(super) fn block(&mut self) {
        if let Some(stretch) = &mut self.open {
            (stretch.complete, stretch.behind) = (stretch.instructions, None);
            stretch.blocks = stretch.blocks.saturating_sub(1);
        }
    }

    /// Execution went on here behind a block. True: the stretch is long enough.
    pub(super) fn arrive(&mut self, at: Target) -> bool {
        self.open.as_mut().is_some_and(|stretch| {
            stretch.behind = stretch.behind.or(Some(at));
            stretch.blocks == 0
        })
    }

    /// Is the count told? Without a choice it is what the trace unit can.
    fn counts(&mut self) -> bool {
        let random = self.state.as_mut().map_or(0, random);
        self.may_count && !(self.may_be_silent && random.is_multiple_of(4))
    }
}

impl Unit {
    /// An instruction that a Q element may stand for.
    pub(super) fn go_on_untold(&mut self, at: Target) {
        if self.view.may_be_in_q(at, &self.whole_context) {
            self.q_elements.instructions(1);
        } else {
            self.flush_q();
        }
    }

    /// Does a Q element stand for this P0 instruction? Returns from exceptions are always told.
    pub(super) fn is_untold(&mut self, executed: &Executed) -> bool {
        if executed.class == Class::ExceptionReturn {
            self.flush_q();
        }
        self.q_elements.block();
        self.q_elements.is_open()
    }

    /// Ends the open stretch behind its last complete block.
    #[inline]
    pub(super) fn flush_q(&mut self) {
        if self.q_elements.is_open() {
            self.end_stretch();
        }
    }

    fn end_stretch(&mut self) {
        let Some(Stretch { complete, behind, .. }) = self.q_elements.open.take() else { return };
        if complete == 0 {
            return;
        }
        let count = self.q_elements.counts().then_some(complete);
        // Calls within are not on the reader's return stack.
        self.stack.clear();
        self.guesses.element(1);
        let Some(behind) = behind else {
            self.emit(&Packet::Q { count, address: None });
            return self.go_anywhere();
        };
        (self.needs_address, self.address_is_forced) = (false, false);
        let has_room = count.is_some() && !self.has_moved && self.addresses.is_near(behind);
        if has_room {
            let address = Some(self.addresses.shortest(behind));
            self.emit(&Packet::Q { count, address });
        } else {
            self.emit(&Packet::Q { count, address: None });
            self.address(behind, true);
        }
    }
}
