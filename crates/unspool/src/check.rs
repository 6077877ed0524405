//! Checks of a trace: the rules of its format, and the rules of steps, which are the same for all formats.
//!
//! ```text
//! records, lines ─▶ rules of the format ─┬─▶ findings, and how often each rule was broken
//! steps ──────────▶ rules of steps ──────┘
//! ```
//!
//! A finding of steps that repeats one of the format is counted, not handed out.

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

/// A finding, whichever rules it is of.
#[derive(Debug, Clone, Copy)]
pub struct Found<'f> {
    /// The rule that is broken.
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
    /// What was found.
    pub detail: &'f str,
}

impl<'f> Found<'f> {
    fn new(rule: &'static Rule, position: u64, detail: &'f str) -> Self {
        Self { rule, position, offset: None, instruction: None, column: None, core: None, detail }
    }

    /// Writes it as a JSON line. Positions are such units; a capture has a source.
    pub fn write_json(&self, unit: &str, source: Option<&str>, line: &mut String) {
        let mut object = Object::new(line);
        object.string("kind", "finding");
        if let Some(source) = source {
            object.string("source", source);
        }
        object.plain(unit, self.position).optional("column", self.column).optional("offset", self.offset);
        object.optional("instruction", self.instruction).optional("core", self.core).string("rule", self.rule.name);
        object.string("severity", self.rule.severity).string("section", self.rule.section);
        object.string("detail", self.detail).end();
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

/// Takes a finding, and how often its rule was broken so far; false: no more are wanted.
pub type TakeFound<'t> = dyn FnMut(&Found<'_>, u64) -> bool + 't;

/// Totals of a check.
#[derive(Debug, Default)]
pub struct Check {
    /// Records or lines that were checked.
    pub records: u64,
    /// Steps that were checked; `None`: none were.
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
    /// Findings that repeat others.
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

/// Words in the names of rules, and their subjects.
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
    /// Rules that were broken, and how often.
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
        let mut is_open = true;
        match file {
            TraceFile::Astf(file) => {
                let mut checker = astf::Checker::new();
                let end = file.each(progress, |_, records| {
                    for record in records {
                        checker.push(record, &mut |finding| is_open &= self.native(&(&finding).into(), take));
                    }
                    self.records += records.len() as u64;
                    is_open
                })?;
                // Nothing is known to be missing from a trace that is cut short.
                if end == End::Whole {
                    checker.finish(&mut |finding| is_open &= self.native(&(&finding).into(), take));
                }
                Ok(end)
            }
            TraceFile::Stf(file) => {
                let mut checker = stf::Checker::new();
                let end = file.each(progress, |position, record| {
                    checker.push(position, record, &mut |finding| is_open &= self.native(&(&finding).into(), take));
                    self.records += 1;
                    is_open
                })?;
                if end == End::Whole {
                    checker.finish(&mut |finding| is_open &= self.native(&(&finding).into(), take));
                }
                Ok(end)
            }
            TraceFile::Tarmac(file) => {
                let mut checker = tarmac::Checker::new(file.dialect());
                let end = file.each(progress, |position, line| {
                    checker.push(position, line, &mut |finding| is_open &= self.native(&(&finding).into(), take));
                    self.records += 1;
                    is_open
                })?;
                if end == End::Whole {
                    checker.finish(&mut |finding| is_open &= self.native(&(&finding).into(), take));
                }
                Ok(end)
            }
        }
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

    /// A finding of the format.
    fn native(&mut self, found: &Found<'_>, take: &mut TakeFound<'_>) -> bool {
        if let Some(topic) = topic(found.rule.name).filter(|_| self.native.len() < REMEMBERED) {
            self.native.insert((topic, found.position, found.rule.severity == Severity::Error));
        }
        self.add(found, take)
    }

    /// A finding of a step, whose records end before `until`.
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
