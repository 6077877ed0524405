//! The return stack: the targets that a trace unit may leave out.
//!
//! Specification: Arm DDI 0487, trace analyzer, operation of the return stack. The depth is the greatest that a trace
//! unit can have; a push beyond it drops the oldest entry.

use unspool_isa::Target;

use crate::graph::Block;

/// Number of entries.
const DEPTH: usize = 15;

/// Return addresses, youngest on top.
#[derive(Debug, Clone)]
pub(crate) struct ReturnStack {
    /// A ring: the youngest entry is the one before `top`.
    entries: [Option<Target>; DEPTH],
    top: usize,
    /// The return address of an indirect call whose own target may still have to be found here.
    waiting: Option<Target>,
    /// The entries are cleared after the next P0 element has found its address.
    clear_pending: bool,
    /// Calls were executed that are not known: the trace unit may have entries that are missing here.
    is_incomplete: bool,
}

impl ReturnStack {
    pub(crate) fn new() -> Self {
        Self { entries: [None; DEPTH], top: 0, waiting: None, clear_pending: false, is_incomplete: false }
    }

    /// Pushes the return address of the call that ends a block. If a call is compared with the stack first, an indirect one
    /// waits until its own target is found.
    pub(crate) fn push_call(&mut self, call: &Block, compares_first: bool) {
        self.settle();
        if compares_first && call.last.flow.is_indirect() {
            self.waiting = Some(call.return_target());
        } else {
            self.push(call.return_target());
        }
    }

    /// Pushes the return address that waits, since the target of its call is found. To be called at a P0 element.
    fn settle(&mut self) {
        if let Some(target) = self.waiting.take() {
            self.push(target);
        }
    }

    pub(crate) fn push(&mut self, target: Target) {
        self.entries[self.top] = Some(target);
        self.top = (self.top + 1) % DEPTH;
    }

    pub(crate) fn pop(&mut self) -> Option<Target> {
        self.top = (self.top + DEPTH - 1) % DEPTH;
        let target = self.entries[self.top].take();
        self.settle();
        target
    }

    /// Clears all entries at the next P0 element.
    pub(crate) fn clear_later(&mut self) {
        self.clear_pending = true;
    }

    /// Will the next P0 element find nothing here, as in a trace unit that starts?
    pub(crate) fn will_be_empty(&self) -> bool {
        let is_empty = self.waiting.is_none() && self.entries.iter().all(Option::is_none);
        self.clear_pending || !self.is_incomplete && is_empty
    }

    /// Does a trace unit perhaps have entries that are missing here?
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Clears the entries if a clear is pending. To be called at a P0 element.
    pub(crate) fn clear_if_pending(&mut self) {
        self.settle();
        if self.clear_pending {
            *self = Self::new();
        }
    }

    /// Drops all entries, since unknown calls and returns have changed those of the trace unit.
    pub(crate) fn forget(&mut self) {
        *self = Self { is_incomplete: true, ..Self::new() };
    }
}

#[cfg(test)]
mod tests {
    use unspool_isa::Isa;

    use super::*;

    fn at(address: u64) -> Target {
        Target { address, isa: Isa::A64 }
    }

    #[test]
    fn the_sixteenth_entry_drops_the_oldest() {
        let mut stack = ReturnStack::new();
        (0..16).for_each(|address| stack.push(at(address)));
        let popped: Vec<u64> = std::iter::from_fn(|| stack.pop()).map(|target| target.address).collect();
        assert_eq!(popped, (1..16).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn a_pending_clear_waits_for_the_next_p0_element() {
        let mut stack = ReturnStack::new();
        stack.push(at(4));
        stack.clear_later();
        stack.push(at(8));
        assert_eq!(stack.pop(), Some(at(8)));
        stack.clear_if_pending();
        assert_eq!(stack.pop(), None);
        stack.push(at(12));
        stack.clear_if_pending();
        assert_eq!(stack.pop(), Some(at(12)));
    }

    #[test]
    fn a_forgotten_stack_is_incomplete_until_it_is_cleared() {
        let mut stack = ReturnStack::new();
        stack.push(at(4));
        stack.forget();
        assert_eq!(stack.pop(), None);
        assert!(stack.is_incomplete() && !stack.will_be_empty());
        stack.clear_later();
        assert!(stack.is_incomplete() && stack.will_be_empty());
        stack.clear_if_pending();
        assert!(!stack.is_incomplete());
    }
}
