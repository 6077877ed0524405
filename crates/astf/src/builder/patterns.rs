//! Patterns: records that were checked once and are written many times.

use std::io;

use super::super::layout::Bytes;
use super::super::write::{Executions, Patterns};
use super::{Builder, RecordSink};

impl<S: RecordSink> Builder<S> {
    /// Address where [patterns](Self::patterns) may be written, if execution continues there.
    pub(in super::super) fn pattern_start(&self) -> Option<u64> {
        let is_supported = self.progress.state.is_some_and(|state| !state.unsupported);
        let is_here = !self.progress.needs_context && self.regime.is_none();
        self.progress.next.filter(|pc| is_supported && is_here && self.checker.leads_to(*pc))
    }

    /// Whether this record of an instruction breaks no rule at any address.
    pub(in super::super) fn is_certain(&mut self, record: &Bytes) -> bool {
        self.checker.is_certain(record)
    }

    /// Writes consecutive instructions that break no rule. [`passed`](Self::passed) has to be called afterwards.
    pub(in super::super) fn patterns(&mut self, patterns: &mut Patterns, executions: Executions<'_>) -> io::Result<()> {
        self.sink.write_patterns(patterns, executions)
    }

    /// Advances over `count` instructions of patterns; after the last, execution continues at `next`.
    pub(in super::super) fn passed(&mut self, count: u64, last: &Bytes, next: u64) {
        self.progress.next = Some(next);
        self.checker.pass(count, last, next);
    }
}
