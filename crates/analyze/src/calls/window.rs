//! A part of an execution: some times, or some instructions of each core.
//!
//! instructions of stacks, with their times ─▶ **spans** of the stacks: numbers and times of what is in the window
//!
//! Calls need all that was executed, so nothing is left out while they are followed. The spans cut the tree afterwards.

use std::ops::Range;

use super::Moment;

/// A part of an execution. All conditions hold in it; the default has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// Times, in the unit of the source.
    pub times: Option<Range<u64>>,
    /// Numbers of the instructions of each core, counted from 0.
    pub instructions: Option<Range<u64>>,
}

/// What a stack executed in a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Numbers of its instructions, counted from 0.
    pub numbers: Range<u64>,
    /// Times of the first and the last of them.
    pub times: (u64, u64),
}

/// Consecutive instructions of a stack at one time.
#[derive(Debug, Clone, Copy)]
pub struct Executions {
    /// The number of the first among those of the stack, counted from 0.
    pub first: u64,
    /// Its number among those of the core, counted from 0.
    pub on_core: u64,
    /// How many there are.
    pub count: u64,
    /// The time.
    pub time: u64,
}

/// Spans of all stacks in a window.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    window: Window,
    spans: Vec<Option<Span>>,
}

impl Window {
    /// Whether it is the whole execution.
    pub fn is_all(&self) -> bool {
        self.times.is_none() && self.instructions.is_none()
    }

    /// Whether a time of a core is in it: that before an instruction, if it is of instructions.
    pub fn has(&self, at: &Moment) -> bool {
        self.times.as_ref().is_none_or(|times| times.contains(&at.time))
            && self.instructions.as_ref().is_none_or(|numbers| numbers.contains(&at.number))
    }
}

impl Spans {
    /// Spans in a window, of which nothing was executed yet.
    pub fn new(window: Window) -> Self {
        Self { window, spans: Vec::new() }
    }

    /// The span of a stack, if it executed anything in the window.
    pub fn of(&self, stack: usize) -> Option<&Span> {
        self.spans.get(stack)?.as_ref()
    }

    /// A stack executes instructions.
    #[inline]
    pub fn add(&mut self, stack: usize, executed: Executions) {
        if !self.window.is_all() {
            self.find(stack, executed);
        }
    }

    fn find(&mut self, stack: usize, executed: Executions) {
        let Executions { first, on_core, count, time } = executed;
        if self.window.times.as_ref().is_some_and(|times| !times.contains(&time)) {
            return;
        }
        let Range { start, end } = self.window.instructions.clone().unwrap_or(0..u64::MAX);
        let (start, end) = (start.max(on_core), end.min(on_core.saturating_add(count)));
        if start >= end {
            return;
        }
        let found = first + (start - on_core)..first + (end - on_core);
        if self.spans.len() <= stack {
            self.spans.resize(stack + 1, None);
        }
        let Some(span) = self.spans.get_mut(stack) else { return };
        match span {
            Some(span) => {
                // A thread that ran on several cores has all between its first and its last instruction.
                span.numbers = span.numbers.start.min(found.start)..span.numbers.end.max(found.end);
                span.times = (span.times.0.min(time), span.times.1.max(time));
            }
            None => *span = Some(Span { numbers: found, times: (time, time) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_what_is_in_the_window() {
        let window = |times, instructions| Window { times, instructions };
        let rows = [
            ("all", window(None, None), None),
            ("a time", window(Some(20..30), None), Some((10..20, (20, 20)))),
            ("instructions", window(None, Some(105..112)), Some((5..12, (10, 20)))),
            ("both", window(Some(20..21), Some(105..112)), Some((10..12, (20, 20)))),
            ("before", window(None, Some(0..100)), None),
            ("after", window(Some(31..40), None), None),
        ];
        for (name, window, expected) in rows {
            let mut spans = Spans::new(window);
            // The stack started when its core had executed 100 instructions.
            for (first, count, time) in [(0, 10, 10), (10, 10, 20), (20, 5, 30)] {
                spans.add(1, Executions { first, on_core: 100 + first, count, time });
            }
            let found = spans.of(1).map(|span| (span.numbers.clone(), span.times));
            assert_eq!((found, spans.of(0)), (expected, None), "{name}");
        }
    }
}
