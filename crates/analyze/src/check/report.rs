//! Findings, and the reporter that passes on one finding per cause.

use std::collections::HashSet;

use unspool_model::rule::{Rule, Severity};
use unspool_model::{Coverage, Facet};

use super::rules::{RULES, RuleId};

/// A step that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Its severity.
    pub severity: Severity,
    /// The core.
    pub core: u32,
    /// Position in the source, in its own unit.
    pub position: u64,
    /// Description of the violation.
    pub detail: String,
}

#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) coverage: Coverage,
    /// Whether it has reported a read and a write: a log may lack them even if its producer can report them.
    pub(super) has_reads: bool,
    pub(super) has_writes: bool,
    /// Whether its access sizes are in bits.
    pub(super) is_in_bits: bool,
}

impl Source {
    #[inline]
    pub(super) fn covers(&self, facet: Facet) -> bool {
        self.coverage.has(facet)
    }
}

/// Maximum number of causes; beyond it, findings are only counted.
const MAX_CAUSES: usize = 1 << 18;

/// Findings so far: counts per rule, and the causes that were reported.
#[derive(Debug, Clone)]
pub(super) struct Reported {
    causes: HashSet<u64>,
    pub(super) counts: Vec<u64>,
    pub(super) repeats: u64,
}

impl Reported {
    pub(super) fn new() -> Self {
        Self { causes: HashSet::new(), counts: vec![0; RULES.len()], repeats: 0 }
    }

    /// Total number of findings, reported or not.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts a finding and remembers its cause; returns whether the cause is new.
    fn is_new(&mut self, rule: RuleId, cause: u64) -> bool {
        self.counts[rule as usize] += 1;
        let is_new = self.causes.len() < MAX_CAUSES && self.causes.insert(cause);
        self.repeats += u64::from(!is_new);
        is_new
    }
}

/// Sink of the findings of a core.
pub(super) struct Reporter<'o> {
    pub(super) core: u32,
    pub(super) reported: &'o mut Reported,
    pub(super) report: &'o mut dyn FnMut(Finding),
}

impl Reporter<'_> {
    /// Adds a finding. Two findings of a rule have the same cause if `cause`, an address and one more number, is equal.
    #[cold]
    pub(super) fn add(&mut self, rule: RuleId, position: u64, cause: (u64, u64), detail: std::fmt::Arguments<'_>) {
        if self.reported.is_new(rule, key(rule, self.core, cause)) {
            let (rule, detail) = (rule.rule(), detail.to_string());
            (self.report)(Finding { rule, severity: rule.severity, core: self.core, position, detail });
        }
    }
}

/// Hash of a cause.
fn key(rule: RuleId, core: u32, (address, more): (u64, u64)) -> u64 {
    let parts = [rule as u64, u64::from(core), address, more];
    let mix = |key: u64, part: u64| (key ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    parts.into_iter().fold(0x5bd1_e995, mix).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
