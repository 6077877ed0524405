//! Findings of a check, each at its instruction where that is known.
//!
//! trace ─▶ check ─▶ findings at positions ─▶ one pass over the steps ─▶ **findings at instructions**

use std::ops::ControlFlow;

use serde_json::{Value, json};
use unspool::check::{Check, Found, TraceChecks};
use unspool::file::{FileOptions, TraceFile};
use unspool::model::rule::Severity;
use unspool::model::{BlockSink, BlockTrace, Step, StepSource as _};
use unspool::{FileKind, OnProgress, SeekableSteps, Trace};

use crate::source::Source;

/// Findings that are kept.
const KEPT: usize = 1000;

/// What a check of a source found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    all: Vec<KeptFinding>,
    /// Number of those that are not kept.
    more: u64,
}

#[derive(Debug)]
struct KeptFinding {
    /// Record, line or offset, as the trace counts.
    position: u64,
    /// The instruction, if it is known.
    number: Option<u64>,
    severity: &'static str,
    rule: &'static str,
    text: String,
}

impl Findings {
    /// Checks a source.
    pub(crate) fn of(steps: &SeekableSteps, progress: &mut OnProgress<'_>) -> Result<Self, String> {
        let mut findings = Self::default();
        let has_order = match steps.capture_steps().map_err(|error| error.to_string())? {
            Some(capture) => {
                let all = Trace::all(capture.capture());
                let traces: Vec<&Trace<'_>> = all.iter().filter(|trace| trace.source().name == steps.name).collect();
                for trace in &traces {
                    let checks = TraceChecks { native: true, frames: true, steps: true, threads: 1 };
                    let take = &mut |found: &Found<'_>, _: u64| findings.take(found);
                    let checked = Check::new(false).trace(trace, &steps.program, checks, progress, take);
                    checked.map_err(|error| error.to_string())?;
                }
                // Offsets in one buffer grow.
                traces.len() == 1
            }
            None => {
                findings.check_file(steps, progress)?;
                true
            }
        };
        findings.all.sort_by_key(|finding| finding.position);
        if has_order {
            findings.find_instructions(steps)?;
        }
        Ok(findings)
    }

    fn check_file(&mut self, steps: &SeekableSteps, progress: &mut OnProgress<'_>) -> Result<(), String> {
        let open = || TraceFile::open(&steps.path(), &FileOptions::default()).map_err(|error| error.to_string());
        let (mut check, kind) = (Check::new(false), steps.kind());
        check.file(&mut open()?, progress, &mut |found, _| self.take(found)).map_err(|error| error.to_string())?;
        let (mut source, meter) = open()?.into_steps(false);
        // What is before damage was checked, and the damage is a finding.
        let _ = check.steps(kind, &mut *source, (&meter, progress), &mut |found, _| self.take(found));
        Ok(())
    }

    fn take(&mut self, found: &Found<'_>) -> bool {
        if self.all.len() >= KEPT {
            self.more += 1;
            return true;
        }
        let severity = match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let text = found.detail.to_string();
        self.all.push(KeptFinding { position: found.position, number: None, severity, rule: found.rule.name, text });
        true
    }

    /// Finds the instructions at their positions.
    fn find_instructions(&mut self, steps: &SeekableSteps) -> Result<(), String> {
        if self.all.is_empty() {
            return Ok(());
        }
        let mut source = steps.open().map_err(|error| error.to_string())?;
        let mut search = Search { wanted: &mut self.all, count: 0 };
        // The rest of a damaged trace has no instructions.
        let _ = source.follow(&mut search);
        Ok(())
    }

    /// Findings at instructions from one to another, with their texts.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &str)> {
        let place = move |finding: &KeptFinding| finding.number.filter(|number| (from..=to).contains(number));
        self.all.iter().filter_map(move |finding| Some((place(finding)?, finding.text.as_str())))
    }

    /// The next finding after an instruction, or the last one before it.
    pub(crate) fn next(&self, from: u64, is_backward: bool) -> Option<u64> {
        let numbers = self.all.iter().filter_map(|finding| finding.number);
        if is_backward {
            numbers.filter(|number| *number < from).max()
        } else {
            numbers.filter(|number| *number > from).min()
        }
    }
}

/// Goes over the steps up to the positions that are left.
struct Search<'f> {
    wanted: &'f mut [KeptFinding],
    count: u64,
}

impl Search<'_> {
    /// Whether a finding is at a position or before it.
    fn is_due(&self, position: u64) -> bool {
        self.wanted.first().is_some_and(|finding| finding.position <= position)
    }

    fn found(&mut self, number: u64) {
        if let Some((first, rest)) = std::mem::take(&mut self.wanted).split_first_mut() {
            first.number = Some(number.max(1));
            self.wanted = rest;
        }
    }
}

impl BlockSink for Search<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.count += u64::from(step.event.instruction().is_some());
        while self.is_due(step.position) {
            self.found(self.count);
        }
        if self.wanted.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let last = trace.executions.len().checked_sub(1).and_then(|last| trace.position_of(last));
        if last.is_some_and(|last| !self.is_due(last)) {
            self.count += trace.instructions() as u64;
            return ControlFlow::Continue(());
        }
        trace.each_step(|step| self.step(step))
    }
}

/// Answers a request for the findings.
pub(crate) fn answer(source: &Source) -> Value {
    let state = source.findings.json();
    let Some(findings) = source.findings.result() else {
        return json!({"items": [], "more": 0, "state": state["state"], "why": state["why"]});
    };
    let unit = match locked_kind(source) {
        FileKind::Capture => "offset",
        kind => kind.unit(),
    };
    let item = |finding: &KeptFinding| {
        json!({
            "n": finding.number, "position": finding.position, "unit": unit, "severity": finding.severity,
            "rule": finding.rule, "text": finding.text,
        })
    };
    json!({"items": findings.all.iter().map(item).collect::<Vec<_>>(), "more": findings.more, "state": "done"})
}

fn locked_kind(source: &Source) -> FileKind {
    crate::job::locked(&source.reader).steps.kind()
}
