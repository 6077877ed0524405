//! Checks of a trace against the rules of its format and the rules of steps, which are the same for all formats.
//!
//! ```text
//! records, lines ─▶ rules of the format ─┬─▶ findings, and a count per rule
//! steps ──────────▶ rules of steps ──────┘
//! ```
//!
//! A finding of steps that repeats one of the format is counted, not reported.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use unspool_analyze::check as steps;
use unspool_astf::check as astf;
use unspool_model::json::Object;
use unspool_model::rule::{Rule, Severity};
use unspool_model::{Event, SourceError, StepSource};
use unspool_stf::check as stf;
use unspool_tarmac::check as tarmac;

use crate::file::{End, FileError, TraceFile};
use crate::meter::{Meter, OnProgress};

/// Finding of a format or of steps.
#[derive(Debug, Clone, Copy)]
pub struct Found<'f> {
    /// Broken rule.
    pub rule: &'static Rule,
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
        Self { rule, position, offset: None, instruction: None, column: None, core: None, detail }
    }

    /// Writes the finding as a JSON line. `unit`: key of the position; `source`: source of a capture.
    pub fn write_json(&self, unit: &str, source: Option<&str>, line: &mut String) {
        let mut object = Object::new(line);
        object.string("kind", "finding");
        if let Some(source) = source {
            object.string("source", source);
        }
        object.plain(unit, self.position).optional("column", self.column).optional("offset", self.offset);
        object.optional("instruction", self.instruction).optional("core", self.core).string("rule", self.rule.name);
        object.string("severity", self.rule.severity).string("section", self.rule.section);
        object.string("detail", self.detail).end_line();
    }
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

impl<'f> From<&'f steps::Finding> for Found<'f> {
    fn from(finding: &'f steps::Finding) -> Self {
        Self { core: Some(finding.core), ..Self::new(finding.rule, finding.position, &finding.detail) }
    }
}

/// Limit of findings of the format that are remembered.
const REMEMBERED: usize = 1 << 16;

/// Steps between two reports of progress.
const STRIDE: u64 = 1 << 16;

/// Sink of findings, with the number of findings of the rule so far. Returns false to stop.
pub type TakeFound<'t> = dyn FnMut(&Found<'_>, u64) -> bool + 't;

/// Totals of a check.
#[derive(Debug, Default)]
pub struct Check {
    /// Records or lines that were checked.
    pub records: u64,
    /// Steps that were checked, if any.
    pub steps: Option<CheckedSteps>,
    rules: BTreeMap<&'static str, (&'static Rule, u64)>,
    /// Findings of the format: topic, position, whether it is an error.
    native: BTreeSet<(Topic, u64, bool)>,
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

fn topic(name: &str) -> Option<Topic> {
    let has = |words: &[&str]| words.iter().any(|word| name.split('-').any(|part| part.starts_with(word)));
    TOPICS.iter().find(|(_, words)| has(words)).map(|(topic, _)| *topic)
}

impl Check {
    /// Broken rules, with the number of findings of each.
    pub fn rules(&self) -> impl Iterator<Item = (&'static Rule, u64)> {
        self.rules.values().copied()
    }

    /// Count of findings of this severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.rules().filter(|(rule, _)| rule.severity == severity).map(|(_, count)| count).sum()
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
        macro_rules! check_items {
            ($file:ident, $checker:expr) => {{
                let mut checker = $checker;
                let end = $file.each(progress, |position, item| {
                    checker.push(position, item, &mut |finding| report((&finding).into()));
                    records += 1;
                    wants_more.get()
                })?;
                if end == End::Whole {
                    checker.finish(&mut |finding| report((&finding).into()));
                }
                end
            }};
        }
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
            TraceFile::Stf(file) => check_items!(file, stf::Checker::new()),
            TraceFile::Tarmac(file) => check_items!(file, tarmac::Checker::new(file.dialect())),
        };
        self.records += records;
        Ok(end)
    }

    /// Checks the steps of a source against the rules of steps.
    pub fn steps(
        &mut self,
        source: &mut dyn StepSource,
        (meter, progress): (&Meter, &mut OnProgress<'_>),
        take: &mut TakeFound<'_>,
    ) -> Result<(), SourceError> {
        let mut checker = steps::Checker::new(source.coverage());
        let mut counted = CheckedSteps::default();
        let (mut position, mut is_open) = (0, true);
        let ended = source.each(&mut |step| {
            counted.steps += 1;
            counted.gaps += u64::from(matches!(step.event, Event::Gap(_)));
            position = step.position;
            checker.step(step, &mut |finding| is_open &= self.step(&(&finding).into(), position, &mut counted, take));
            if counted.steps.is_multiple_of(STRIDE) {
                meter.report(progress);
            }
            if is_open { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        checker.finish(&mut |finding| is_open &= self.step(&(&finding).into(), position, &mut counted, take));
        let all = self.steps.get_or_insert_default();
        all.steps += counted.steps;
        all.gaps += counted.gaps;
        all.repeats += counted.repeats + checker.repeats();
        ended
    }

    /// Reports a finding of the format.
    fn native(&mut self, found: &Found<'_>, take: &mut TakeFound<'_>) -> bool {
        if let Some(topic) = topic(found.rule.name).filter(|_| self.native.len() < REMEMBERED) {
            self.native.insert((topic, found.position, found.rule.severity == Severity::Error));
        }
        self.add(found, take)
    }

    /// Reports a finding of a step, whose records end before `until`.
    fn step(&mut self, found: &Found<'_>, until: u64, counted: &mut CheckedSteps, take: &mut TakeFound<'_>) -> bool {
        let is_repeated = topic(found.rule.name).is_some_and(|topic| {
            let from = found.position;
            let positions = (topic, from, false)..(topic, until.max(from.saturating_add(1)), false);
            let is_warning = found.rule.severity == Severity::Warning;
            self.native.range(positions).any(|(_, _, is_error)| *is_error || is_warning)
        });
        counted.repeats += u64::from(is_repeated);
        is_repeated || self.add(found, take)
    }

    fn add(&mut self, found: &Found<'_>, take: &mut TakeFound<'_>) -> bool {
        let (_, count) = self.rules.entry(found.rule.name).or_insert((found.rule, 0));
        *count += 1;
        take(found, *count)
    }
}
