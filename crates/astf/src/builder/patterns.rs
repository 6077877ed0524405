//! Instructions that were looked at once, written again and again.

use std::io;

use super::super::layout::Bytes;
use super::super::write::{Passes, Patterns};
use super::{Builder, RecordSink};

impl<S: RecordSink> Builder<S> {
    /// Where instructions that break no rule go on, if [patterns](Self::patterns) of them may be written there.
    pub(in super::super) fn goes_on(&self) -> Option<u64> {
        let is_supported = self.course.state.is_some_and(|state| !state.unsupported);
        let is_here = !self.course.left && self.regime.is_none();
        self.course.next.filter(|pc| is_supported && is_here && self.checker.leads_to(*pc))
    }

    /// Does this record of an instruction break no rule wherever it may stand?
    pub(in super::super) fn is_certain(&mut self, record: &Bytes) -> bool {
        self.checker.is_certain(record)
    }

    /// Writes instructions that follow each other and break no rule. Behind them [`passed`](Self::passed) has to be
    /// called.
    pub(in super::super) fn patterns(&mut self, patterns: &mut Patterns, passes: Passes<'_>) -> io::Result<()> {
        self.sink.write_patterns(patterns, passes)
    }

    /// So many instructions of patterns were written; behind the last execution goes on at `next`.
    pub(in super::super) fn passed(&mut self, count: u64, last: &Bytes, next: u64) {
        self.course.next = Some(next);
        self.checker.pass(count, last, next);
    }
}
