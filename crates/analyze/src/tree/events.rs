//! Calls of a tree as beginnings and ends, in the order of execution.
//!
//! calls with their depth, outer ones first ─▶ selection ─▶ **begin, end**, nested
//!
//! What began is ended, inner calls first, whatever is selected. Memory is that of the calls in progress.

use std::io;
use std::ops::Range;

use crate::calls::{Call, Cost, Site, Span};

/// A beginning or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEvent<'c> {
    /// A call begins, with this number of selected calls around it.
    Begin(usize, &'c Call),
    /// The innermost of the calls that began and have not ended. Of a [part](TreePart), its own cost is that in the part.
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
    /// Only calls of which something is in this part. What is outside is cut off.
    pub part: Option<TreePart>,
}

/// A part of the execution of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePart {
    /// Times: calls with one of them are in the part, whether or not an instruction of theirs is.
    pub times: Option<Range<u64>>,
    /// Numbers of instructions, counted from 0: only calls that executed one of them are in the part.
    pub is_of_instructions: bool,
    /// What the stack executed in the part, if anything.
    pub span: Option<Span>,
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
    /// What it cost in the part, and what the calls did that it made.
    total: Cost,
    inner: Cost,
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
            && selection.part.as_ref().is_none_or(|part| part.has(call));
        let total = selection.part.as_ref().map(|part| part.cost(call)).unwrap_or_default();
        let call = selection.cut(call);
        if is_selected {
            sink(TreeEvent::Begin(self.depth, &call))?;
            self.depth += 1;
        }
        self.open.push(Open { call, is_selected, is_inside, total, inner: Cost::default() });
        Ok(())
    }

    /// Ends all calls but the first ones.
    pub(super) fn end_above(
        &mut self,
        depth: usize,
        sink: &mut impl FnMut(TreeEvent<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        while self.open.len() > depth {
            let Some(mut ended) = self.open.pop() else { break };
            if self.selection.part.is_some() {
                ended.call.own = ended.total.without(ended.inner);
                self.open.last_mut().into_iter().for_each(|outer| outer.inner.add(ended.total));
            }
            if ended.is_selected {
                self.depth -= 1;
                sink(TreeEvent::End(&ended.call))?;
            }
        }
        Ok(())
    }
}

impl TreeSelection {
    /// A call without what is outside of the part.
    pub fn cut(&self, call: &Call) -> Call {
        self.part.as_ref().map_or(*call, |part| part.cut(call))
    }
}

impl TreePart {
    /// The times within: those of the window, or those of its first and last instruction.
    fn limits(&self) -> (u64, u64) {
        let instructions = self.span.as_ref().filter(|_| self.is_of_instructions).map(|span| span.times);
        let (first, last) = instructions.unwrap_or((0, u64::MAX));
        match &self.times {
            Some(times) => (first.max(times.start), last.min(times.end)),
            None => (first, last),
        }
    }

    fn numbers(&self) -> Range<u64> {
        self.span.as_ref().map_or(0..0, |span| span.numbers.clone())
    }

    fn has(&self, call: &Call) -> bool {
        let numbers = self.numbers();
        self.times.as_ref().is_none_or(|times| call.entry.time < times.end && call.exit.time >= times.start)
            && (!self.is_of_instructions || call.entry.number <= numbers.end && call.exit.number > numbers.start)
    }

    fn cut(&self, call: &Call) -> Call {
        let ((first, last), numbers) = (self.limits(), self.numbers());
        let cut = |site: Site, lowest: u64| {
            let (time, number) = (site.time.max(first).min(last), site.number.max(lowest).min(numbers.end));
            Site { time, number, ..site }
        };
        Call { entry: cut(call.entry, numbers.start.saturating_add(1)), exit: cut(call.exit, numbers.start), ..*call }
    }

    /// What a call cost in the part, with all that it called.
    fn cost(&self, call: &Call) -> Cost {
        let ((first, last), numbers) = (self.limits(), self.numbers());
        let time = call.exit.time.min(last).saturating_sub(call.entry.time.max(first));
        let before = call.entry.number.saturating_sub(1).max(numbers.start);
        Cost { time, instructions: call.exit.number.min(numbers.end).saturating_sub(before) }
    }
}
