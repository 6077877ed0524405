//! Findings: which record breaks a rule, and how.

use std::fmt;

use unspool_model::rule::Rule;

use super::super::record::{RECORD_BYTES, View};
use super::rules::RuleId;

/// A rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Number of the record that breaks it; the Header is 1.
    pub record: u64,
    /// Offset of the record in the uncompressed trace.
    pub offset: u64,
    /// Details, in one sentence.
    pub detail: String,
}

/// Receiver of findings about the current record.
pub(super) struct Report<'f> {
    /// Number of the current record.
    pub(super) record: u64,
    pub(super) found: &'f mut dyn FnMut(Finding),
}

impl Report<'_> {
    /// The current record breaks a rule.
    #[cold]
    pub(super) fn add(&mut self, rule: RuleId, detail: fmt::Arguments<'_>) {
        self.add_at(self.record, rule, detail);
    }

    /// An earlier record breaks a rule.
    #[cold]
    pub(super) fn add_at(&mut self, record: u64, rule: RuleId, detail: fmt::Arguments<'_>) {
        let offset = record.saturating_sub(1) * RECORD_BYTES as u64;
        (self.found)(Finding { rule: rule.rule(), record, offset, detail: detail.to_string() });
    }
}

/// Name of a record, with its article.
pub(super) fn record_name(view: View<'_>) -> &'static str {
    match view {
        View::Header(_) => "a Header",
        View::Instruction(_) => "an Instruction",
        View::Trap(_) => "a Trap",
        View::ExtraEa(_) => "an Extra EA",
        View::Context(_) => "a Context",
        View::StringStart(_) => "a String",
        View::StringContinuation(_) => "a String continuation",
        View::Timestamp(_) => "a Timestamp",
        View::Unknown(_) => "of an unknown type",
    }
}
