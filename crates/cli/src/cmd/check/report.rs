//! Report of a check: findings, totals per file, and a summary.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use unspool::check::{Broken, Check, CheckedSteps, Found, Place, PlaceSource, TakeFound};
use unspool::model::json::Object;
use unspool::model::rule::Severity;
use unspool::number::{grouped, many};

use super::{Args, role_of};
use crate::output::Output;
use crate::verdict::Verdict;

/// Report of all files.
pub(super) struct Report<'a> {
    args: &'a Args,
    /// Opened for the first file that can be read.
    output: Option<Output>,
    total: Check,
    files: Vec<Totals>,
}

/// Totals of a file.
struct Totals {
    name: String,
    unit: &'static str,
    /// Records, lines or sources; `None`: only steps were checked.
    count: Option<u64>,
    errors: u64,
    warnings: u64,
    is_read_once: bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a Args) -> Self {
        Self { args, output: None, total: Check::default(), files: Vec::new() }
    }

    /// Opens the output, once an input is open.
    pub(super) fn start(&mut self) -> anyhow::Result<&mut Output> {
        let output = match self.output.take() {
            Some(output) => output,
            None => Output::open_unless(&self.args.output, |path| role_of(path, self.args))?,
        };
        Ok(self.output.insert(output))
    }

    /// Prints the totals of a file, if any of it was checked.
    pub(super) fn end_file(&mut self, file: &FileReport<'_>) -> Verdict {
        let Some(output) = self.output.as_mut().filter(|_| file.is_started) else { return Verdict::Clean };
        let totals = file.totals();
        let is_bad = totals.errors > 0 || self.args.strict && file.is_odd;
        if !self.args.output.json {
            output.write(|out| text(&totals, &file.check, out));
        }
        self.total.append(&file.check);
        self.files.push(totals);
        Verdict::of(is_bad)
    }

    /// Prints the summary.
    pub(super) fn finish(mut self, verdict: Verdict) -> anyhow::Result<()> {
        let Some(mut output) = self.output.take() else { return Ok(()) };
        if self.args.output.json && !self.files.is_empty() {
            output.write(|out| self.json(verdict, out));
        } else if self.files.len() > 1 {
            let files = many(self.files.len() as u64, "file");
            output.write(|out| writeln!(out, "{files}: {}", counts(&self.total)));
        }
        output.finish()
    }

    fn json(&self, verdict: Verdict, out: &mut dyn Write) -> io::Result<()> {
        let rules: BTreeMap<&str, u64> = self.total.rules().map(|broken| (broken.rule.name, broken.count)).collect();
        let mut line = String::new();
        let mut object = Object::summary(&mut line, "check");
        object.flag("clean", matches!(verdict, Verdict::Clean));
        object.list("files", &self.files, |line, totals| {
            let mut object = Object::nested(line);
            object.string("file", &totals.name).plain("errors", totals.errors).plain("warnings", totals.warnings);
            object.close_nested();
        });
        for unit in ["source", "record", "line"] {
            let counts: Vec<u64> =
                self.files.iter().filter(|file| file.unit == unit).filter_map(|file| file.count).collect();
            if !counts.is_empty() {
                object.plain(&format!("{unit}s"), counts.iter().sum::<u64>());
            }
        }
        if let Some(CheckedSteps { steps, gaps, repeats }) = self.total.steps {
            object.plain("steps", steps).plain("gaps", gaps).plain("repeats", repeats);
        } else if self.files.iter().any(|file| file.is_read_once) {
            object.nullable("steps", None::<u64>);
        }
        let [errors, warnings] = [Severity::Error, Severity::Warning].map(|severity| self.total.count(severity));
        object.plain("errors", errors).plain("warnings", warnings).plain("rules", serde_json::json!(rules));
        object.write_line(out)
    }
}

fn text(totals: &Totals, check: &Check, out: &mut dyn Write) -> io::Result<()> {
    let mut parts: Vec<String> = totals.count.map(|count| many(count, totals.unit)).into_iter().collect();
    if let Some(CheckedSteps { steps, gaps, .. }) = check.steps {
        parts.push(many(steps, "step"));
        parts.extend((gaps > 0).then(|| many(gaps, "gap")));
    } else if totals.is_read_once {
        parts.push("steps not checked (a pipe can be read only once: see --steps)".to_string());
    }
    parts.push(counts(check));
    writeln!(out, "{}: {}", totals.name, parts.join(", "))?;
    for Broken { rule, severity, count } in check.rules() {
        let severity = severity.to_string();
        writeln!(out, "{:>10} {severity:<7} {} ({}): {}", grouped(count), rule.name, rule.section, rule.summary)?;
    }
    match check.steps {
        Some(CheckedSteps { repeats, .. }) if repeats > 0 && check.rules().next().is_some() => {
            writeln!(out, "{:>10} more findings in steps repeat one above", grouped(repeats))
        }
        _ => Ok(()),
    }
}

/// Counts of errors and warnings.
fn counts(check: &Check) -> String {
    let [errors, warnings] = [Severity::Error, Severity::Warning].map(|severity| check.count(severity));
    match (errors, warnings) {
        (0, 0) => "nothing found".to_string(),
        _ => format!("{}, {}", many(errors, "error"), many(warnings, "warning")),
    }
}

/// Report of one file.
pub(super) struct FileReport<'a> {
    args: &'a Args,
    pub(super) name: String,
    /// Unit of positions.
    pub(super) unit: &'static str,
    check: Check,
    /// Checked sources of a capture.
    sources: BTreeSet<String>,
    is_started: bool,
    /// Steps were not checked: the input is a pipe.
    pub(super) is_read_once: bool,
    /// An oddity without a rule was reported.
    pub(super) is_odd: bool,
}

impl<'a> FileReport<'a> {
    pub(super) fn new(args: &'a Args, path: &Path) -> Self {
        Self {
            args,
            name: path.display().to_string(),
            unit: "offset",
            check: Check::new(args.strict),
            sources: BTreeSet::new(),
            is_started: false,
            is_read_once: false,
            is_odd: false,
        }
    }

    pub(super) fn add_source(&mut self, source: String) {
        self.sources.insert(source);
    }

    /// Runs a check, and prints its findings.
    pub(super) fn with<T>(
        &mut self,
        source: Option<PlaceSource<'_>>,
        output: &mut Output,
        run: impl FnOnce(&mut Check, &mut TakeFound<'_>) -> T,
    ) -> T {
        self.is_started = true;
        let (args, mut line) = (self.args, String::new());
        let place = Place { file: &self.name, unit: self.unit, source };
        run(&mut self.check, &mut |found, count| {
            if args.limit.is_none_or(|limit| count <= limit) {
                print(args, &place, found, &mut line, output);
            }
            output.is_open()
        })
    }

    fn totals(&self) -> Totals {
        let (unit, count) = match self.unit {
            "offset" => ("source", Some(self.sources.len() as u64)),
            unit => (unit, (!self.args.steps).then_some(self.check.records)),
        };
        let [errors, warnings] = [Severity::Error, Severity::Warning].map(|severity| self.check.count(severity));
        Totals { name: self.name.clone(), unit, count, errors, warnings, is_read_once: self.is_read_once }
    }
}

fn print(args: &Args, place: &Place<'_>, found: &Found<'_>, line: &mut String, output: &mut Output) {
    if args.output.json {
        found.write_json(place, line);
        return output.write(|out| out.write_all(line.as_bytes()));
    }
    let &Found { rule, severity, position, offset, instruction, column, core, detail } = found;
    let source = match place.source {
        None => String::new(),
        Some(PlaceSource { name, session: 0, .. }) => format!(" {name}"),
        Some(PlaceSource { name, session, .. }) => format!(" {name} session {session}"),
    };
    let at = match (place.unit, offset) {
        ("offset", _) => format!("offset {position:#x}"),
        ("record", Some(offset)) => format!("record {position} at offset {offset:#x}"),
        (unit, _) => format!("{unit} {position}"),
    };
    let column = column.map_or_else(String::new, |column| format!(", column {column}"));
    let instruction = instruction.filter(|number| *number > 0);
    let instruction = instruction.map_or_else(String::new, |number| format!(" (instruction {number})"));
    // A source of a capture is one core.
    let core = core.filter(|core| *core > 0).map_or_else(String::new, |core| format!(", core {core}"));
    let (name, rule) = (place.file, rule.name);
    output.write(|out| writeln!(out, "{name}{source}: {at}{column}{instruction}{core}: {severity}: {rule}: {detail}"));
}
