//! Findings of the checker, and the sink that they are reported to.

use std::fmt;

use unspool_model::rule::Rule;

use super::super::read::Position;
use super::rules::RuleId;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Position of the line.
    pub position: Position,
    /// Column in the line, counted from 1.
    pub column: u32,
    /// Description in one sentence.
    pub detail: String,
}

/// Receiver of the findings of one line.
pub(super) struct FindingSink<'f> {
    /// Position of the current line.
    pub(super) position: Position,
    pub(super) raw: &'f [u8],
    /// Set of the rules that are reported once and were.
    pub(super) once: &'f mut u64,
    pub(super) found: &'f mut dyn FnMut(Finding),
}

impl FindingSink<'_> {
    /// Reports that the line violates a rule.
    #[cold]
    pub(super) fn add(&mut self, rule: RuleId, detail: fmt::Arguments<'_>) {
        let blanks = self.raw.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.add_at(self.position, column(blanks), rule, detail);
    }

    /// Reports that a part of the line violates a rule.
    #[cold]
    pub(super) fn add_in(&mut self, part: &[u8], rule: RuleId, detail: fmt::Arguments<'_>) {
        // Slices in a record point into the line, which gives the column.
        let at = (part.as_ptr() as usize).checked_sub(self.raw.as_ptr() as usize);
        match at.filter(|at| *at <= self.raw.len()) {
            Some(at) => self.add_at(self.position, column(at), rule, detail),
            None => self.add(rule, detail),
        }
    }

    /// Reports that another line violates a rule.
    #[cold]
    pub(super) fn add_at(&mut self, position: Position, column: u32, rule: RuleId, detail: fmt::Arguments<'_>) {
        (self.found)(Finding { rule: rule.rule(), position, column, detail: detail.to_string() });
    }

    /// Reports a violation that tends to repeat, once.
    #[cold]
    pub(super) fn add_once(&mut self, rule: RuleId, detail: fmt::Arguments<'_>) {
        if self.is_first(rule) {
            self.add(rule, detail);
        }
    }

    /// Reports a violation in a part of the line that tends to repeat, once.
    #[cold]
    pub(super) fn add_once_in(&mut self, part: &[u8], rule: RuleId, detail: fmt::Arguments<'_>) {
        if self.is_first(rule) {
            self.add_in(part, rule, detail);
        }
    }

    fn is_first(&mut self, rule: RuleId) -> bool {
        let bit = 1 << (rule as u64);
        let is_first = *self.once & bit == 0;
        *self.once |= bit;
        is_first
    }
}

fn column(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1)
}
