//! The return stack of the trace unit: targets that it may leave out.

use crate::Target;

/// Number of entries. A reader keeps at least as many.
const DEPTH: usize = 15;

/// Return addresses, youngest on top.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReturnStack {
    entries: [Target; DEPTH],
    /// Index after the youngest entry.
    top: usize,
    count: usize,
}

impl ReturnStack {
    #[inline]
    pub(crate) fn push(&mut self, target: Target) {
        self.entries[self.top] = target;
        self.top = if self.top + 1 == DEPTH { 0 } else { self.top + 1 };
        self.count = (self.count + 1).min(DEPTH);
    }

    /// Pops the youngest entry if it is this one.
    #[inline]
    pub(crate) fn pop_if(&mut self, target: Target) -> bool {
        let top = if self.top == 0 { DEPTH - 1 } else { self.top - 1 };
        let is_on_top = self.count > 0 && self.entries[top] == target;
        if is_on_top {
            self.top = top;
            self.count -= 1;
        }
        is_on_top
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}
