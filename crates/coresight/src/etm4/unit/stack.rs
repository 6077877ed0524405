//! The return stack of the trace unit: targets that it need not tell.

use crate::Target;

/// How many entries there are. A reader keeps at least as many.
const DEPTH: usize = 15;

/// Return addresses, youngest on top.
#[derive(Debug, Clone, Default)]
pub(super) struct ReturnStack {
    entries: [Target; DEPTH],
    /// The youngest entry is the one before.
    top: usize,
    count: usize,
}

impl ReturnStack {
    #[inline]
    pub(super) fn push(&mut self, target: Target) {
        self.entries[self.top] = target;
        self.top = if self.top + 1 == DEPTH { 0 } else { self.top + 1 };
        self.count = (self.count + 1).min(DEPTH);
    }

    /// Is this on top? Then it is taken away.
    #[inline]
    pub(super) fn pop_if(&mut self, target: Target) -> bool {
        let top = if self.top == 0 { DEPTH - 1 } else { self.top - 1 };
        let is_it = self.count > 0 && self.entries[top] == target;
        if is_it {
            self.top = top;
            self.count -= 1;
        }
        is_it
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}
