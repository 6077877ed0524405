//! Architectural checks: rules that the steps of any source must satisfy.
//!
//! steps ─▶ **checker** ─▶ findings
//!
//! Each core is tracked by itself: the address at which it must continue, its state, and what its opcodes allow. Only
//! facets that the source can report are checked ([`Coverage`]), and a gap resets all expectations. After a finding the
//! checker continues from the reported state, so that one cause gives one finding. Memory use does not grow with the
//! trace. No file format is known here; the rules of formats are checked elsewhere. Specification: Arm DDI 0487, and The
//! RISC-V Instruction Set Manual.
//!
//! ```
//! use unspool_analyze::check::Checker;
//! use unspool_model::{Coverage, Event, Facet, Instruction, Step};
//!
//! let mut checker = Checker::new(Coverage::of(&[Facet::Instructions, Facet::Opcodes]));
//! let mut names = Vec::new();
//! let mut step = Step::default();
//! // A NOP does not branch.
//! for address in [0x1000, 0x1004, 0x100c] {
//!     let opcode = Some(0xd503_201f);
//!     step.event = Event::Instruction(Instruction { address, opcode, length: 4, ..Instruction::default() });
//!     checker.step(&step, &mut |finding| names.push(finding.rule.name));
//! }
//! checker.finish(&mut |finding| names.push(finding.rule.name));
//! assert_eq!(names, ["step-pc-continuity"]);
//! ```

mod access;
mod context;
mod control_flow;
mod core;
mod exception_vectors;
mod rules;

use std::collections::{BTreeMap, HashSet};

use unspool_model::{Coverage, Facet, Step};

use self::core::Core;
use self::rules::RuleId;

pub use self::rules::RULES;
pub use unspool_model::rule::{Rule, Severity};

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

/// Checker of the steps of a source.
#[derive(Debug, Clone)]
pub struct Checker {
    source: Source,
    cores: Vec<Core>,
    /// Indexes of cores by their numbers.
    numbers: BTreeMap<u32, usize>,
    /// The core of the last step.
    number: u32,
    index: usize,
    reported: Reported,
}

impl Checker {
    /// A checker for a source with this coverage.
    pub fn new(coverage: Coverage) -> Self {
        Self {
            source: Source { coverage, has_reads: false, has_writes: false, is_in_bits: false },
            cores: vec![Core::default()],
            numbers: BTreeMap::from([(0, 0)]),
            number: 0,
            index: 0,
            reported: Reported::new(),
        }
    }

    /// Checks the next step; reports findings about it or about the previous one.
    #[inline]
    pub fn step(&mut self, step: &Step, report: &mut dyn FnMut(Finding)) {
        if step.core != self.number {
            self.select_core(step.core);
        }
        let mut out = Reporter { core: step.core, reported: &mut self.reported, report };
        self.cores[self.index].step(step, &mut self.source, &mut out);
    }

    /// Checks what is left at the end of the steps.
    pub fn finish(&mut self, report: &mut dyn FnMut(Finding)) {
        for (number, index) in &self.numbers {
            let mut out = Reporter { core: *number, reported: &mut self.reported, report };
            self.cores[*index].finish(&self.source, &mut out);
        }
    }

    /// Number of findings that were not reported: repeats for the same instruction, or findings beyond the limit.
    pub fn repeats(&self) -> u64 {
        self.reported.repeats
    }

    /// Number of violations of each violated rule, reported or not.
    pub fn counts(&self) -> impl Iterator<Item = (&'static Rule, u64)> {
        RULES.iter().zip(self.reported.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    fn select_core(&mut self, core: u32) {
        let new = self.cores.len();
        self.index = *self.numbers.entry(core).or_insert(new);
        if self.index == new {
            self.cores.push(Core::default());
        }
        self.number = core;
    }
}

/// Properties of the source.
#[derive(Debug, Clone)]
struct Source {
    coverage: Coverage,
    /// Whether it has reported a read and a write: a log may lack them even if its producer can report them.
    has_reads: bool,
    has_writes: bool,
    /// Whether its access sizes are in bits.
    is_in_bits: bool,
}

impl Source {
    #[inline]
    fn covers(&self, facet: Facet) -> bool {
        self.coverage.has(facet)
    }
}

/// Maximum number of causes; beyond it, findings are only counted.
const MAX_CAUSES: usize = 1 << 18;

/// Findings so far: counts per rule, and the causes that were reported.
#[derive(Debug, Clone)]
struct Reported {
    causes: HashSet<u64>,
    counts: Vec<u64>,
    repeats: u64,
}

impl Reported {
    fn new() -> Self {
        Self { causes: HashSet::new(), counts: vec![0; RULES.len()], repeats: 0 }
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
struct Reporter<'o> {
    core: u32,
    reported: &'o mut Reported,
    report: &'o mut dyn FnMut(Finding),
}

impl Reporter<'_> {
    /// Adds a finding. Two findings of a rule have the same cause if `cause`, an address and one more number, is equal.
    #[cold]
    fn add(&mut self, rule: RuleId, position: u64, cause: (u64, u64), detail: std::fmt::Arguments<'_>) {
        if self.reported.is_new(rule, key(rule, self.core, cause)) {
            let rule = rule.rule();
            (self.report)(Finding {
                rule,
                severity: rule.severity,
                core: self.core,
                position,
                detail: detail.to_string(),
            });
        }
    }
}

/// Hash of a cause.
fn key(rule: RuleId, core: u32, (address, more): (u64, u64)) -> u64 {
    let parts = [rule as u64, u64::from(core), address, more];
    let mix = |key: u64, part: u64| (key ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    parts.into_iter().fold(0x5bd1_e995, mix).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
