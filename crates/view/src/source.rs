//! Opened traces and their sources.
//!
//! path ─▶ **trace** ─▶ sources; a source ─▶ its index, its calls and its findings, made in the background

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use unspool::capture::Code;
use unspool::indexed_log::LogError;
use unspool::lines::Lines;
use unspool::model::{Coverage, Facet, TimeUnit};
use unspool::{Error, FileKind, Opened, Program, SeekableSteps};

use crate::Refusal;
use crate::calls::Calls;
use crate::findings::Findings;
use crate::job::{Job, NoResult, Work, locked};
use crate::line_counts::LineCounts;
use crate::rows::Reader;
use crate::source_file::Files;

/// Bytes of a trace that is read from its beginning at every jump, since that is fast.
const SMALL: u64 = 4 << 20;

/// Why a trace has no place that reading can start at.
const FROM_BEGINNING: &str = "the trace can only be read from its beginning";

/// A trace on the page.
pub(crate) struct Trace {
    pub(crate) path: PathBuf,
    pub(crate) opened: Opened,
    pub(crate) sources: Vec<Source>,
}

/// A source of a trace, with instruction numbers of its own.
pub(crate) struct Source {
    /// Its name, or that of the file.
    pub(crate) name: String,
    pub(crate) program: Arc<Program>,
    pub(crate) time_unit: TimeUnit,
    pub(crate) coverage: Coverage,
    /// Its steps at any place.
    pub(crate) reader: Mutex<Reader>,
    pub(crate) lines: Lines,
    pub(crate) files: Mutex<Files>,
    pub(crate) index: Job<()>,
    pub(crate) calls: Job<Calls>,
    pub(crate) findings: Job<Findings>,
    pub(crate) line_counts: Job<LineCounts>,
}

impl Trace {
    /// Opens a trace; `codes` are added to its program.
    pub(crate) fn open(path: &Path, codes: &[Code]) -> Result<Self, Error> {
        let mut opened = unspool::open(path)?;
        // The first one takes precedence.
        codes.iter().rev().for_each(|code| opened.add_code(code.clone()));
        let sources = opened.seekable_steps()?.into_iter().map(Source::new).collect();
        Ok(Self { path: path.to_path_buf(), opened, sources })
    }

    /// A source by its index.
    pub(crate) fn source(&self, number: usize) -> Result<&Source, Refusal> {
        self.sources.get(number).ok_or_else(|| Refusal::absent(format!("there is no source {number}")))
    }

    /// What the page shows first.
    pub(crate) fn json(&self) -> Value {
        let name = self.path.file_name().unwrap_or_else(|| self.path.as_os_str());
        let sources: Vec<Value> = self.sources.iter().map(|source| source.json(self)).collect();
        let notes: Vec<String> = match self.opened.capture() {
            Some(capture) => capture.notes.iter().map(ToString::to_string).collect(),
            None => Vec::new(),
        };
        json!({
            "name": name.to_string_lossy(), "path": self.path.to_string_lossy(), "kind": kind_name(self.opened.kind()),
            "sources": sources, "notes": notes,
        })
    }

    /// What is done in the background for all sources: calls first, since the timeline is of them.
    pub(crate) fn work(self: &Arc<Self>) -> VecDeque<Work> {
        let jobs: [fn(&Self, usize); 4] = [Self::find_calls, Self::make_index, Self::find_findings, Self::count_lines];
        let each = jobs.into_iter().flat_map(|job| (0..self.sources.len()).map(move |number| (job, number)));
        each.map(|(job, number)| {
            let trace = Arc::clone(self);
            Box::new(move || job(&trace, number)) as Work
        })
        .collect()
    }

    fn find_calls(&self, number: usize) {
        let Some(source) = self.sources.get(number) else { return };
        let calls = self.steps_of(number).and_then(|steps| {
            let progress = &mut |done, total| source.calls.report(done, total);
            Calls::follow(&steps, progress).map_err(|error| NoResult::Failed(error.to_string()))
        });
        source.calls.end(calls);
    }

    fn find_findings(&self, number: usize) {
        let Some(source) = self.sources.get(number) else { return };
        let progress = &mut |done, total| source.findings.report(done, total);
        let found = self.steps_of(number).and_then(|steps| Findings::of(&steps, progress).map_err(NoResult::Failed));
        source.findings.end(found);
    }

    fn count_lines(&self, number: usize) {
        let Some(source) = self.sources.get(number) else { return };
        let counts =
            self.steps_of(number).and_then(|steps| LineCounts::of(&steps, &source.lines).map_err(NoResult::Failed));
        source.line_counts.end(counts);
    }

    fn make_index(&self, number: usize) {
        let Some(source) = self.sources.get(number) else { return };
        let made = self.steps_of(number).and_then(|steps| {
            let progress = &mut |done, total| source.index.report(done, total);
            let of_log = |error| match error {
                LogError::NotSeekable { why, .. } => NoResult::Absent(why.to_string()),
                error => NoResult::Failed(error.to_string()),
            };
            let index = match steps.open_index() {
                Err(error) if error.is_absent() && steps.size() <= SMALL => {
                    return Err(NoResult::Absent("the trace is small: it is read from its beginning".to_string()));
                }
                Err(error) if error.is_absent() || error.is_stale() => {
                    let points = steps.find_points(progress).map_err(of_log)?;
                    let points = points.ok_or_else(|| NoResult::Absent(FROM_BEGINNING.to_string()))?;
                    locked(&source.reader).steps.set_points(points);
                    if !source.has_values() {
                        return Ok(());
                    }
                    steps.make_index(progress)
                }
                opened => opened,
            };
            locked(&source.reader).steps.set_index(index.map_err(of_log)?);
            Ok(())
        });
        source.index.end(made);
    }

    /// The steps of a source for work of its own.
    fn steps_of(&self, number: usize) -> Result<SeekableSteps, NoResult> {
        let all = self.opened.seekable_steps().map_err(|error| NoResult::Failed(error.to_string()))?;
        all.into_iter().nth(number).ok_or_else(|| NoResult::Failed("the source is gone".to_string()))
    }
}

impl Source {
    fn new(steps: SeekableSteps) -> Self {
        Self {
            name: short_name(&steps),
            program: Arc::clone(&steps.program),
            time_unit: steps.time_unit,
            coverage: steps.coverage,
            reader: Mutex::new(Reader::new(steps)),
            lines: Lines::default(),
            files: Mutex::default(),
            index: Job::default(),
            calls: Job::default(),
            findings: Job::default(),
            line_counts: Job::default(),
        }
    }

    /// Whether it has values, so that the state at a place needs an index.
    pub(crate) fn has_values(&self) -> bool {
        self.coverage.has(Facet::Registers) || self.coverage.has(Facet::Data)
    }

    fn json(&self, trace: &Trace) -> Value {
        let has = |facet| self.coverage.has(facet);
        let unit = match self.time_unit {
            _ if !has(Facet::Times) => None,
            TimeUnit::Unknown => Some("ticks".to_string()),
            TimeUnit::Cycles => Some("cycles".to_string()),
            TimeUnit::Seconds(power) => Some(match power {
                0 => "s".to_string(),
                -3 => "ms".to_string(),
                -6 => "us".to_string(),
                -9 => "ns".to_string(),
                -12 => "ps".to_string(),
                power => format!("10^{power} s"),
            }),
        };
        json!({
            "name": self.name, "time_unit": unit,
            "has": {
                "times": has(Facet::Times), "registers": has(Facet::Registers), "data": has(Facet::Data),
                "packets": trace.opened.capture().is_some(),
            },
        })
    }

    /// How far its work is.
    pub(crate) fn progress(&self) -> Value {
        let indexed = self.reader.try_lock().ok().and_then(|reader| reader.steps.instructions());
        let instructions = indexed.or_else(|| self.calls.result().map(|calls| calls.instructions));
        json!({
            "index": self.index.json(), "calls": self.calls.json(), "findings": self.findings.json(),
            "lines": self.line_counts.json(), "instructions": instructions,
        })
    }

    /// Name of the function at an address, and the offset in it.
    pub(crate) fn function(&self, process: Option<u64>, address: u64) -> Option<(&str, u64)> {
        self.program.symbol_of(process, address)
    }
}

/// Name of a source of a capture, or of the file.
fn short_name(steps: &SeekableSteps) -> String {
    match steps.kind() {
        FileKind::Capture => steps.name.clone(),
        _ => Path::new(&steps.name).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
    }
}

/// The format of a trace, for people.
fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Astf => "ASTF",
        FileKind::Stf => "STF",
        FileKind::Tarmac => "Tarmac",
        _ => "capture",
    }
}
