//! Could a processor have done this? What steps of any source are held to.
//!
//! steps ─▶ **checker** ─▶ findings
//!
//! Each core is followed on its own: where it must go on, in which state it is, what its opcodes allow. Only what the
//! source can tell is judged ([`Coverage`]), and a gap excuses everything. After a finding the checker goes on from what
//! it was told, so that one cause is found once. Memory does not grow with the trace. Knows no format: what a file owes to
//! its format is checked elsewhere. Specification: Arm DDI 0487, and The RISC-V Instruction Set Manual.
//!
//! ```
//! use unspool_analyze::check::Checker;
//! use unspool_model::{Coverage, Event, Facet, Instruction, Step};
//!
//! let mut checker = Checker::new(Coverage::of(&[Facet::Instructions, Facet::Opcodes]));
//! let mut names = Vec::new();
//! let mut step = Step::default();
//! // Nothing of this branches.
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
mod rules;
mod vector;

use std::collections::{BTreeMap, HashSet};

use unspool_model::{Coverage, Facet, Step};

use self::core::Core;
use self::rules::RuleId;

pub use self::rules::RULES;
pub use unspool_model::rule::{Rule, Severity};

/// A step that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Which core.
    pub core: u32,
    /// Where the source says so, as it counts.
    pub place: u64,
    /// What was found.
    pub detail: String,
}

/// Follows the steps of a source.
#[derive(Debug, Clone)]
pub struct Checker {
    source: Source,
    cores: Vec<Core>,
    /// Where the core of a number is.
    numbers: BTreeMap<u32, usize>,
    /// The core of the last step.
    number: u32,
    index: usize,
    told: Told,
}

impl Checker {
    /// Of a source that can tell this.
    pub fn new(coverage: Coverage) -> Self {
        Self {
            source: Source { coverage, has_reads: false, has_writes: false, is_in_bits: false },
            cores: vec![Core::default()],
            numbers: BTreeMap::from([(0, 0)]),
            number: 0,
            index: 0,
            told: Told::new(),
        }
    }

    /// Takes the next step, and tells what is wrong with it or with the one before it.
    #[inline]
    pub fn step(&mut self, step: &Step, tell: &mut dyn FnMut(Finding)) {
        if step.core != self.number {
            self.turn_to(step.core);
        }
        let mut out = Out { core: step.core, told: &mut self.told, tell };
        self.cores[self.index].step(step, &mut self.source, &mut out);
    }

    /// There are no more steps.
    pub fn finish(&mut self, tell: &mut dyn FnMut(Finding)) {
        for (number, index) in &self.numbers {
            let mut out = Out { core: *number, told: &mut self.told, tell };
            self.cores[*index].finish(&self.source, &mut out);
        }
    }

    /// How many findings were not told: the same was told of the same instruction, or too many others were told.
    pub fn repeats(&self) -> u64 {
        self.told.repeats
    }

    /// How often each rule was broken, told or not; rules that were not broken are left out.
    pub fn counts(&self) -> impl Iterator<Item = (&'static Rule, u64)> {
        RULES.iter().zip(self.told.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    fn turn_to(&mut self, core: u32) {
        let new = self.cores.len();
        self.index = *self.numbers.entry(core).or_insert(new);
        if self.index == new {
            self.cores.push(Core::default());
        }
        self.number = core;
    }
}

/// What is known of the source.
#[derive(Debug, Clone)]
struct Source {
    coverage: Coverage,
    /// It has told a read, and a write: a log can be without them, whatever its producer can tell.
    has_reads: bool,
    has_writes: bool,
    /// Its sizes are those of a producer that counts bits.
    is_in_bits: bool,
}

impl Source {
    #[inline]
    fn tells(&self, facet: Facet) -> bool {
        self.coverage.has(facet)
    }
}

/// Causes that are remembered. Whoever breaks rules in so many ways has said enough.
const REMEMBERED: usize = 1 << 18;

/// What was found: each rule is counted, and the same is told once of the same instruction.
#[derive(Debug, Clone)]
struct Told {
    causes: HashSet<u64>,
    counts: Vec<u64>,
    repeats: u64,
}

impl Told {
    fn new() -> Self {
        Self { causes: HashSet::new(), counts: vec![0; RULES.len()], repeats: 0 }
    }

    /// Counts it, and remembers its cause; true: it is new.
    fn is_new(&mut self, rule: RuleId, cause: u64) -> bool {
        self.counts[rule as usize] += 1;
        let is_new = self.causes.len() < REMEMBERED && self.causes.insert(cause);
        self.repeats += u64::from(!is_new);
        is_new
    }
}

/// Takes the findings of a core.
struct Out<'o> {
    core: u32,
    told: &'o mut Told,
    tell: &'o mut dyn FnMut(Finding),
}

impl Out<'_> {
    /// Something is wrong at this place; the address and one more number say what is the same cause.
    #[cold]
    fn add(&mut self, rule: RuleId, place: u64, cause: (u64, u64), detail: std::fmt::Arguments<'_>) {
        if self.told.is_new(rule, key(rule, self.core, cause)) {
            let rule = rule.rule();
            (self.tell)(Finding { rule, severity: rule.severity, core: self.core, place, detail: detail.to_string() });
        }
    }
}

/// A number for a cause.
fn key(rule: RuleId, core: u32, (address, more): (u64, u64)) -> u64 {
    let parts = [rule as u64, u64::from(core), address, more];
    let mix = |key: u64, part: u64| (key ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    parts.into_iter().fold(0x5bd1_e995, mix).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
