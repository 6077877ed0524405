//! Passes: analyses that may run on several parts of a trace at once.
//!
//! ```text
//!            ┌ part 1 ─▶ pass ┐
//! a trace ───┼ part 2 ─▶ pass ├─▶ merge, in order ─▶ the result of one pass over the whole
//!            └ part 3 ─▶ pass ┘
//! ```
//!
//! A pass takes blocks with the number of their executions where that suffices, and steps where it must: it is a
//! [`BlockSink`]. A part starts in the middle of a trace, in the context that the part before it ends in. A pass must not
//! assume any other: it learns it when parts are merged.

use unspool_model::{BlockSink, Gap};

/// An analysis whose parts can be merged.
pub trait Pass: BlockSink + Send {
    /// Continues with what a later part has found. The result is that of one pass over both.
    fn merge(&mut self, later: Self, seam: Seam);
}

/// Steps at the start of a part that are only there because the part before it was not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seam {
    /// Its first context is the one that the part before ended in.
    pub repeats_context: bool,
    /// It starts with the gap that the part before ended with.
    pub repeats_gap: Option<Gap>,
}
