//! Checks of a trace against the rules of its format and the rules of steps, which are the same for all formats.
//!
//! ```text
//! records, lines, captures ─▶ rules of the format ─┬─▶ findings, and a count per rule
//! steps ────────────────────▶ rules of steps ──────┘
//! ```
//!
//! A finding of steps that repeats one of the format is counted, not reported.

mod capture;
mod missing_code;
mod rules;
mod steps;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use unspool_analyze::check as step_rules;
use unspool_astf::check as astf;
use unspool_model::json::Object;
use unspool_model::rule::{Rule, Severity};
use unspool_model::{SourceError, StepSource};
use unspool_stf::check as stf;
use unspool_tarmac::check as tarmac;

pub use self::capture::TraceChecks;
pub use self::missing_code::{MissingCode, MissingRegion};
pub use self::rules::RULES;
pub use self::steps::StepCheck;
use self::steps::check_steps;
use crate::FileKind;
use crate::file::{End, FileError, Resumable, TraceFile};
use crate::meter::{Meter, OnProgress};

/// Finding of a format or of steps.
#[derive(Debug, Clone, Copy)]
pub struct Found<'f> {
    /// Broken rule.
    pub rule: &'static Rule,
    /// Severity: that of the rule, unless the format requires more or warnings are errors.
    pub severity: Severity,
    /// Number of the record or of the line, or an offset in a buffer.
    pub position: u64,
    /// Offset in the uncompressed trace.
    pub offset: Option<u64>,
    /// Number of the instruction.
    pub instruction: Option<u64>,
    /// Column in the line.
    pub column: Option<u32>,
    /// Core, of steps.
    pub core: Option<u32>,
    /// Details.
    pub detail: &'f str,
}

impl<'f> Found<'f> {
    fn new(rule: &'static Rule, position: u64, detail: &'f str) -> Self {
        let severity = rule.severity;
        Self { rule, severity, position, offset: None, instruction: None, column: None, core: None, detail }
    }

    /// Writes the finding as a JSON line.
    pub fn write_json(&self, place: &Place<'_>, line: &mut String) {
        let mut object = Object::new(line);
        object.string("kind", "finding").string("file", place.file);
        if let Some(source) = &place.source {
            object.nullable("source", source.id).plain("session", source.session);
        }
        object.plain(place.unit, self.position).optional("column", self.column).optional("offset", self.offset);
        object.optional("instruction", self.instruction).optional("core", self.core).string("rule", self.rule.name);
        object.string("severity", self.severity).string("section", self.rule.section);
        object.string("what", self.detail).end_line();
    }
}

/// The file that findings are about.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p> {
    /// Name of the file.
    pub file: &'p str,
    /// Unit and JSON key of positions: `record`, `line` or `offset`.
    pub unit: &'p str,
    /// Source, if the file is a capture.
    pub source: Option<PlaceSource<'p>>,
}

/// Source of a capture.
#[derive(Debug, Clone, Copy)]
pub struct PlaceSource<'p> {
    /// Trace id.
    pub id: Option<u8>,
    /// Name.
    pub name: &'p str,
    /// Index of the buffer among those that contain this id.
    pub session: usize,
}

impl<'f> From<&'f astf::Finding> for Found<'f> {
    fn from(finding: &'f astf::Finding) -> Self {
        Self { offset: Some(finding.offset), ..Self::new(finding.rule, finding.record, &finding.detail) }
    }
}

impl<'f> From<&'f stf::Finding> for Found<'f> {
    fn from(finding: &'f stf::Finding) -> Self {
        let (offset, instruction) = (Some(finding.position.offset), Some(finding.instruction));
        Self { offset, instruction, ..Self::new(finding.rule, finding.position.record, &finding.detail) }
    }
}

impl<'f> From<&'f tarmac::Finding> for Found<'f> {
    fn from(finding: &'f tarmac::Finding) -> Self {
        let (offset, column) = (Some(finding.position.offset), Some(finding.column));
        Self { offset, column, ..Self::new(finding.rule, finding.position.line, &finding.detail) }
    }
}

impl<'f> From<&'f step_rules::Finding> for Found<'f> {
    fn from(finding: &'f step_rules::Finding) -> Self {
        Self { core: Some(finding.core), ..Self::new(finding.rule, finding.position, &finding.detail) }
    }
}

/// Limit of findings of the format that are remembered.
const REMEMBERED: usize = 1 << 16;

/// Sink of findings, with the number of findings of the rule so far. Returns false to stop.
pub type TakeFound<'t> = dyn FnMut(&Found<'_>, u64) -> bool + 't;

/// Totals of a check.
#[derive(Debug, Default)]
pub struct Check {
    /// Warnings are errors.
    is_strict: bool,
    /// Records or lines that were checked.
    pub records: u64,
    /// Steps that were checked, if any.
    pub steps: Option<CheckedSteps>,
    rules: BTreeMap<&'static str, Broken>,
    /// Findings of the format: topic, position, whether it is an error.
    native: BTreeSet<(Topic, u64, bool)>,
}

/// A broken rule, with the number of its findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: &'static Rule,
    /// Severity of its findings.
    pub severity: Severity,
    /// Count of its findings.
    pub count: u64,
}

/// Totals of steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckedSteps {
    /// Count of steps.
    pub steps: u64,
    /// Count of gaps.
    pub gaps: u64,
    /// Findings that repeat findings of the format.
    pub repeats: u64,
}

/// Subject of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Flow,
    Accesses,
    State,
    Time,
}

/// Subjects of rules, by the words in their names.
const TOPICS: [(Topic, &[&str]); 4] = [
    (Topic::Accesses, &["access", "memory"]),
    (Topic::State, &["level", "context", "mode", "security", "isa"]),
    (Topic::Time, &["time"]),
    (Topic::Flow, &["pc", "branch", "target", "trap", "vector", "length", "align", "condition", "exception", "return"]),
];

/// Severity of a violation of a rule of steps in a file of this kind, so that both layers of a check agree. ASTF and STF
/// require the accesses of an instruction (`astf-memory-ea-valid`, `stf-access-missing`). Producers of STF report modes
/// loosely (`stf-mode-down`).
pub fn severity_in(kind: FileKind, rule: &Rule) -> Severity {
    match (rule.name, kind) {
        ("step-access-missing", FileKind::Astf | FileKind::Stf) => Severity::Error,
        ("step-level-change", FileKind::Stf) => Severity::Warning,
        _ => rule.severity,
    }
}

fn topic(name: &str) -> Option<Topic> {
    let has = |words: &[&str]| words.iter().any(|word| name.split('-').any(|part| part.starts_with(word)));
    TOPICS.iter().find(|(_, words)| has(words)).map(|(topic, _)| *topic)
}

impl Check {
    /// A check without findings. `is_strict`: warnings are errors.
    pub fn new(is_strict: bool) -> Self {
        Self { is_strict, ..Self::default() }
    }

    /// Broken rules, by name.
    pub fn rules(&self) -> impl Iterator<Item = Broken> {
        self.rules.values().copied()
    }

    /// Count of findings of this severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.rules().filter(|broken| broken.severity == severity).map(|broken| broken.count).sum()
    }

    /// Adds the totals of another check.
    pub fn append(&mut self, other: &Self) {
        self.records += other.records;
        for broken in other.rules() {
            let total = self.rules.entry(broken.rule.name).or_insert(Broken { count: 0, ..broken });
            total.count += broken.count;
        }
        if let Some(CheckedSteps { steps, gaps, repeats }) = other.steps {
            let all = self.steps.get_or_insert_default();
            (all.steps, all.gaps, all.repeats) = (all.steps + steps, all.gaps + gaps, all.repeats + repeats);
        }
    }

    /// Checks a file against the rules of its format.
    pub fn file(
        &mut self,
        file: &mut TraceFile,
        progress: &mut OnProgress<'_>,
        take: &mut TakeFound<'_>,
    ) -> Result<End, FileError> {
        let (mut records, wants_more) = (0, Cell::new(true));
        let mut report = |found: Found<'_>| wants_more.set(self.native(&found, take) && wants_more.get());
        // A trace that is cut short is not checked for what is missing at its end.
        let end = match file {
            TraceFile::Astf(file) => {
                let mut checker = astf::Checker::new();
                let end = file.each(progress, |_, batch| {
                    batch.iter().for_each(|record| checker.push(record, &mut |finding| report((&finding).into())));
                    records += batch.len() as u64;
                    wants_more.get()
                })?;
                if end == End::Whole {
                    checker.finish(&mut |finding| report((&finding).into()));
                }
                end
            }
            TraceFile::Stf(file) => {
                let mut checker = stf::Checker::new();
                let end = file.each_or_resume(progress, |item| {
                    match item {
                        Resumable::Item((position, record)) => {
                            checker.push(position, record, &mut |finding| report((&finding).into()));
                            records += 1;
                        }
                        Resumable::Resumed { instructions, pc } => checker.resume(instructions, pc),
                    }
                    wants_more.get()
                })?;
                if end == End::Whole {
                    checker.finish(&mut |finding| report((&finding).into()));
                }
                end
            }
            TraceFile::Tarmac(file) => {
                let mut checker = tarmac::Checker::new(file.dialect());
                let end = file.each(progress, |position, line| {
                    checker.push(position, line, &mut |finding| report((&finding).into()));
                    records += 1;
                    wants_more.get()
                })?;
                if end == End::Whole {
                    checker.finish(&mut |finding| report((&finding).into()));
                }
                end
            }
        };
        self.records += records;
        Ok(end)
    }

    /// Checks the steps of a file of this kind against the rules of steps.
    pub fn steps(
        &mut self,
        kind: FileKind,
        source: &mut dyn StepSource,
        (meter, progress): (&Meter, &mut OnProgress<'_>),
        take: &mut TakeFound<'_>,
    ) -> Result<(), SourceError> {
        let mut repeats = 0;
        let (counted, ended) = check_steps(source, (meter, progress), &mut |position, finding| {
            let found = Found { severity: severity_in(kind, finding.rule), ..Found::from(&finding) };
            self.step(&found, position, &mut repeats, take)
        });
        self.add_steps(counted, repeats);
        ended
    }

    /// Takes the findings of steps that were checked on another thread, after those of the format.
    pub fn join(&mut self, kind: FileKind, steps: StepCheck, take: &mut TakeFound<'_>) -> Result<(), SourceError> {
        let mut repeats = 0;
        let (counted, ended) = steps.join(&mut |position, finding| {
            let found = Found { severity: severity_in(kind, finding.rule), ..Found::from(&finding) };
            self.step(&found, position, &mut repeats, take)
        });
        self.add_steps(counted, repeats);
        ended
    }

    fn add_steps(&mut self, counted: CheckedSteps, repeats: u64) {
        let all = self.steps.get_or_insert_default();
        all.steps += counted.steps;
        all.gaps += counted.gaps;
        all.repeats += counted.repeats + repeats;
    }

    /// Reports a finding of the format.
    fn native(&mut self, found: &Found<'_>, take: &mut TakeFound<'_>) -> bool {
        if let Some(topic) = topic(found.rule.name).filter(|_| self.native.len() < REMEMBERED) {
            self.native.insert((topic, found.position, found.severity == Severity::Error));
        }
        self.add(found, take)
    }

    /// Reports a finding of a step, whose records end before `until`.
    fn step(&mut self, found: &Found<'_>, until: u64, repeats: &mut u64, take: &mut TakeFound<'_>) -> bool {
        let is_repeated = topic(found.rule.name).is_some_and(|topic| {
            let from = found.position;
            let positions = (topic, from, false)..(topic, until.max(from.saturating_add(1)), false);
            let is_warning = found.severity == Severity::Warning;
            self.native.range(positions).any(|(_, _, is_error)| *is_error || is_warning)
        });
        *repeats += u64::from(is_repeated);
        is_repeated || self.add(found, take)
    }

    fn add(&mut self, found: &Found<'_>, take: &mut TakeFound<'_>) -> bool {
        let severity = if self.is_strict { Severity::Error } else { found.severity };
        let found = Found { severity, ..*found };
        let broken = self.rules.entry(found.rule.name).or_insert(Broken { rule: found.rule, severity, count: 0 });
        broken.count += 1;
        take(&found, broken.count)
    }
}
