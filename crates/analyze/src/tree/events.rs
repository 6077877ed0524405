//! Calls of a tree as beginnings and ends, in the order of execution.
//!
//! calls with their depth, outer ones first ─▶ selection ─▶ **begin, end**, nested
//!
//! What began is ended, inner calls first, whatever is selected. Memory is that of the calls in progress.

use std::io;
use std::ops::Range;

use crate::calls::{Call, Site};

/// A beginning or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEvent<'c> {
    /// A call begins, with this number of selected calls around it.
    Begin(usize, &'c Call),
    /// The innermost of the calls that began and have not ended.
    End(&'c Call),
}

/// Calls of a tree. The default is all of them.
#[derive(Debug, Clone, Default)]
pub struct TreeSelection {
    /// Addresses of functions: only their calls, with what they call. Empty: all.
    pub functions: Vec<Range<u64>>,
    /// Maximum number of calls around a call.
    pub depth: Option<usize>,
    /// Only the root and the calls whose beginning and end are in the trace.
    pub is_complete_only: bool,
    /// Only calls of which a part is at these times. What is outside is cut off; numbers of instructions stay as they are.
    pub times: Option<Range<u64>>,
}

/// Calls in progress.
#[derive(Debug)]
pub(super) struct Walk<'s> {
    selection: &'s TreeSelection,
    open: Vec<Open>,
    /// Number of those that are selected.
    depth: usize,
}

#[derive(Debug)]
struct Open {
    call: Call,
    is_selected: bool,
    /// It is one of the functions, or within one.
    is_inside: bool,
}

impl<'s> Walk<'s> {
    pub(super) fn new(selection: &'s TreeSelection) -> Self {
        Self { selection, open: Vec::new(), depth: 0 }
    }

    /// The next call, within the first `depth` of those in progress.
    pub(super) fn call(
        &mut self,
        depth: usize,
        call: &Call,
        sink: &mut impl FnMut(TreeEvent<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.end_above(depth, sink)?;
        let Self { selection, open, .. } = &*self;
        let is_named = || selection.functions.iter().any(|range| range.contains(&call.function));
        let is_inside =
            selection.functions.is_empty() || open.last().is_some_and(|outer| outer.is_inside) || is_named();
        let is_selected = is_inside
            && selection.depth.is_none_or(|limit| self.depth <= limit)
            && (!selection.is_complete_only || call.is_complete() || call.is_root())
            && selection.has_time_of(call);
        let call = selection.cut(call);
        if is_selected {
            sink(TreeEvent::Begin(self.depth, &call))?;
            self.depth += 1;
        }
        self.open.push(Open { call, is_selected, is_inside });
        Ok(())
    }

    /// Ends all calls but the first ones.
    pub(super) fn end_above(
        &mut self,
        depth: usize,
        sink: &mut impl FnMut(TreeEvent<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        while self.open.len() > depth {
            if let Some(Open { call, is_selected: true, .. }) = self.open.pop() {
                self.depth -= 1;
                sink(TreeEvent::End(&call))?;
            }
        }
        Ok(())
    }
}

impl TreeSelection {
    fn has_time_of(&self, call: &Call) -> bool {
        self.times.as_ref().is_none_or(|times| call.entry.time < times.end && call.exit.time >= times.start)
    }

    fn cut(&self, call: &Call) -> Call {
        let Some(times) = &self.times else { return *call };
        let cut = |site: Site| Site { time: site.time.clamp(times.start, times.end), ..site };
        Call { entry: cut(call.entry), exit: cut(call.exit), ..*call }
    }
}
