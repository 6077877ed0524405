//! `check`: checks a trace against the rules of its format, and its steps against the architecture.
//!
//! Prints findings as they are found, and then totals per rule. The rules of the format come first, then those of steps,
//! which are the same for all formats. Exit code 1 if there is an error.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use unspool::capture::Code;
use unspool::check::{Check, CheckedSteps, Found};
use unspool::file::{TarmacFile, TraceFile, is_capture, is_pipe, peek};
use unspool::model::json::Object;
use unspool::model::rule::Severity;
use unspool::number::{grouped, many};
use unspool::{FileKind, Meter, OpenSteps, OpenedSteps, open_capture, open_steps, open_steps_of};

use crate::args::{ImageArgs, OutputArgs, SourceArgs};
use crate::diagnostic;
use crate::file::{TarmacArgs, end_verdict, losses_verdict, open, report_lines, stf_verdict};
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Check a trace file against the rules of its format, and its steps or those of a capture against the architecture; each
/// finding has a stable rule name and a position
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// ASTF file, STF file, Tarmac log ('-': standard input) or capture
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print at most N findings per rule; the summary counts all
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Treat warnings as problems: exit code 1
    #[arg(long)]
    deny_warnings: bool,

    /// Check only the rules of the format
    #[arg(long)]
    native: bool,

    /// Check only the steps
    #[arg(long, conflicts_with = "native")]
    steps: bool,

    #[command(flatten)]
    tarmac: TarmacArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool check trace.astf
  unspool check trace.zstf --limit 3 --deny-warnings
  unspool check run.tarmac.xz --steps
  unspool check snapshot/ --source 0x10
  unspool check trace.astf --json | jq -r .rule | sort | uniq -c

Errors are violations of the format or the architecture: exit code 1. Warnings are discouraged or unexpected: exit code 0.
What a trace does not contain is not checked, nor is what follows from a gap. Only the steps of a capture are checked:
'unspool decode' reports problems of its packets.
Offsets refer to uncompressed records; in a capture, to its buffer.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if !args.tarmac.is_given() && (args.file.is_dir() || is_capture(&args.file)) {
        return check_capture(args);
    }
    if args.steps {
        let mut report = Report::new(args, Output::open_for(&args.output, &args.file)?);
        let verdict = report.check_steps(false);
        return report.finish(verdict);
    }
    let mut file = open(&args.file, None, &args.tarmac)?;
    let mut report = Report::new(args, Output::open_for(&args.output, &args.file)?);
    let verdict = match report.check_file(&mut file) {
        Ok(verdict) if !args.native && is_pipe(&args.file) => {
            report.is_read_once = true;
            Ok(verdict)
        }
        // Steps end where the format ends, and the reason was reported.
        Ok(verdict) if !args.native => match report.check_steps(true) {
            Err(error) if matches!(verdict, Verdict::Clean) => Err(error),
            _ => Ok(verdict),
        },
        end => end,
    };
    report.finish(verdict)
}

fn check_capture(args: &Args) -> anyhow::Result<Verdict> {
    if args.native {
        bail!("{}: --native does not apply to captures, whose steps are checked", args.file.display());
    }
    let capture = open_capture(&args.file)?;
    let codes = args.images.load()?;
    let mut names: Vec<String> = Vec::new();
    for trace in args.sources.select(&capture)? {
        let name = &trace.source().name;
        if names.last() != Some(name) {
            names.push(name.clone());
        }
    }
    let output = Output::open_beside(&args.output, &capture, &args.images.paths())?;
    drop(capture);
    let mut report = Report::new(args, output);
    let checked = names.iter().try_for_each(|name| report.check_source(name, &codes));
    if checked.is_ok() && report.sources == 0 {
        bail!("{}: no trace source could be read; 'unspool info' shows what the capture contains", report.name);
    }
    report.finish(checked.map(|()| Verdict::Clean))
}

/// Opens the steps of a file or a pipe, and sets its name.
fn open_file_steps(args: &Args, name: &mut String) -> anyhow::Result<(FileKind, OpenedSteps, Meter)> {
    if args.tarmac.is_given() {
        let log = TarmacFile::open(&args.file, &args.tarmac.options(None))?;
        log.name().clone_into(name);
        let (steps, meter) = log.into_steps(false);
        return Ok((FileKind::Tarmac, steps, meter));
    }
    let options = OpenSteps::default();
    let read = Arc::clone(&options.bytes_read);
    if is_pipe(&args.file) {
        let (kind, input);
        (*name, kind, input) = peek(&args.file)?;
        let steps = open_steps_of(name, input, &OpenSteps { kind: Some(kind), ..options })?;
        return Ok((kind, steps, Meter { read, size: None }));
    }
    let kind = FileKind::at(&args.file).with_context(|| name.clone())?;
    let size = args.file.metadata().ok().map(|metadata| metadata.len());
    let steps = open_steps(&args.file, &OpenSteps { kind: Some(kind), ..options })?;
    Ok((kind, steps, Meter { read, size }))
}

struct Report<'a> {
    args: &'a Args,
    output: Output,
    name: String,
    /// Unit of positions.
    unit: &'static str,
    check: Check,
    /// Number of checked sources of a capture.
    sources: u64,
    /// Steps were not checked: the input is a pipe.
    is_read_once: bool,
    /// An oddity without a rule was reported.
    is_odd: bool,
}

impl<'a> Report<'a> {
    fn new(args: &'a Args, output: Output) -> Self {
        Self {
            args,
            output,
            name: args.file.display().to_string(),
            unit: "offset",
            check: Check::default(),
            sources: 0,
            is_read_once: false,
            is_odd: false,
        }
    }

    fn check_file(&mut self, file: &mut TraceFile) -> anyhow::Result<Verdict> {
        (self.name, self.unit) = (file.name().to_string(), file.kind().unit());
        let mut progress = Progress::new(self.output.on_terminal);
        let mut printer =
            Printer { args: self.args, unit: self.unit, name: &self.name, source: None, line: String::new() };
        let output = &mut self.output;
        let end = self.check.file(file, &mut progress.callback(), &mut |found, count| {
            printer.print(found, count, output);
            output.is_open()
        });
        if let TraceFile::Tarmac(file) = file {
            report_lines(file);
        }
        let end = end?;
        let TraceFile::Stf(file) = file else { return Ok(end_verdict(&end)) };
        let verdict = stf_verdict(file, &end);
        // Oddities of the container have no rule.
        self.is_odd = !file.warnings().is_empty();
        Ok(verdict)
    }

    /// Checks the steps of a file or a pipe. `is_again`: damage was reported already.
    fn check_steps(&mut self, is_again: bool) -> anyhow::Result<Verdict> {
        let (kind, mut source, meter) = open_file_steps(self.args, &mut self.name)?;
        self.unit = kind.unit();
        let mut progress = Progress::new(self.output.on_terminal);
        match self.check_each(&mut source, &meter, &mut progress, None) {
            // Checking the format has reported each line.
            Ok(()) if is_again => Ok(Verdict::Clean),
            Ok(()) => Ok(losses_verdict(&self.name, &source.losses())),
            Err(error) if error.is_damage => {
                if !is_again {
                    diagnostic::error(format_args!("{}: {error}", self.name));
                }
                Ok(Verdict::Problems)
            }
            Err(error) => Err(error).with_context(|| self.name.clone()),
        }
    }

    fn check_source(&mut self, name: &str, codes: &[Code]) -> anyhow::Result<()> {
        let options = OpenSteps { source: Some(name.to_string()), codes: codes.to_vec(), ..OpenSteps::default() };
        let mut source = match open_steps(&self.args.file, &options) {
            Ok(source) => source,
            // Captures may contain other kinds of trace.
            Err(error) if self.args.sources.is_empty() => {
                diagnostic::error(format_args!("{}: {error}", self.name));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.sources += 1;
        let checked = self.check_each(&mut source, &Meter::default(), &mut Progress::new(true), Some(name));
        checked.map_err(|error| anyhow!("{}: {error}", self.name))
    }

    fn check_each(
        &mut self,
        steps: &mut OpenedSteps,
        meter: &Meter,
        progress: &mut Progress,
        source: Option<&str>,
    ) -> Result<(), unspool::model::SourceError> {
        let mut printer = Printer { args: self.args, unit: self.unit, name: &self.name, source, line: String::new() };
        let output = &mut self.output;
        self.check.steps(&mut **steps, (meter, &mut progress.callback()), &mut |found, count| {
            printer.print(found, count, output);
            output.is_open()
        })
    }

    /// Prints the summary, even if reading failed.
    fn finish(mut self, verdict: anyhow::Result<Verdict>) -> anyhow::Result<Verdict> {
        let [errors, warnings] = [Severity::Error, Severity::Warning].map(|severity| self.check.count(severity));
        let mut text = Vec::new();
        match self.args.output.json {
            true => self.summary_json([errors, warnings], &mut text)?,
            false => self.summary_text([errors, warnings], &mut text)?,
        }
        self.output.write(|out| out.write_all(&text));
        self.output.finish()?;
        let is_bad = errors > 0 || self.args.deny_warnings && (self.is_odd || warnings > 0);
        Ok(verdict?.or(Verdict::of(is_bad)))
    }

    fn summary_json(&self, [errors, warnings]: [u64; 2], out: &mut dyn Write) -> io::Result<()> {
        let rules: BTreeMap<&str, u64> = self.check.rules().map(|(rule, count)| (rule.name, count)).collect();
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "summary");
        match self.unit {
            "offset" => object.plain("sources", self.sources),
            _ if self.args.steps => &mut object,
            unit => object.plain(&format!("{unit}s"), self.check.records),
        };
        if let Some(CheckedSteps { steps, gaps, repeats }) = self.check.steps {
            object.plain("steps", steps).plain("gaps", gaps).plain("repeats", repeats);
        } else if self.is_read_once {
            object.nullable("steps", None::<u64>);
        }
        object.plain("errors", errors).plain("warnings", warnings).plain("rules", serde_json::json!(rules));
        object.write_line(out)
    }

    fn summary_text(&self, [errors, warnings]: [u64; 2], out: &mut dyn Write) -> io::Result<()> {
        let mut parts = Vec::new();
        match self.unit {
            "offset" => parts.push(many(self.sources, "source")),
            _ if self.args.steps => {}
            unit => parts.push(many(self.check.records, unit)),
        }
        if let Some(CheckedSteps { steps, gaps, .. }) = self.check.steps {
            parts.push(many(steps, "step"));
            parts.extend((gaps > 0).then(|| many(gaps, "gap")));
        } else if self.is_read_once {
            parts.push("steps not checked (a pipe can be read only once: see --steps)".to_string());
        }
        if self.check.rules().next().is_none() {
            return writeln!(out, "{}: {}, nothing found", self.name, parts.join(", "));
        }
        parts.extend([many(errors, "error"), many(warnings, "warning")]);
        writeln!(out, "{}: {}", self.name, parts.join(", "))?;
        for (rule, count) in self.check.rules() {
            let severity = rule.severity.to_string();
            writeln!(out, "{:>10} {severity:<7} {} ({}): {}", grouped(count), rule.name, rule.section, rule.summary)?;
        }
        match self.check.steps {
            Some(CheckedSteps { repeats, .. }) if repeats > 0 => {
                writeln!(out, "{:>10} more findings in steps repeat one above", grouped(repeats))
            }
            _ => Ok(()),
        }
    }
}

struct Printer<'a> {
    args: &'a Args,
    unit: &'static str,
    name: &'a str,
    source: Option<&'a str>,
    line: String,
}

impl Printer<'_> {
    fn print(&mut self, found: &Found<'_>, count: u64, output: &mut Output) {
        if self.args.limit.is_some_and(|limit| count > limit) {
            return;
        }
        if self.args.output.json {
            found.write_json(self.unit, self.source, &mut self.line);
            return output.write(|out| out.write_all(self.line.as_bytes()));
        }
        let &Found { rule, position, offset, instruction, column, core, detail } = found;
        let source = self.source.map_or_else(String::new, |source| format!(" {source}"));
        let at = match (self.unit, offset) {
            ("offset", _) => format!("offset {position:#x}"),
            ("record", Some(offset)) => format!("record {position} at offset {offset:#x}"),
            (unit, _) => format!("{unit} {position}"),
        };
        let column = column.map_or_else(String::new, |column| format!(", column {column}"));
        let instruction = instruction.filter(|number| *number > 0);
        let instruction = instruction.map_or_else(String::new, |number| format!(" (instruction {number})"));
        let core = core.filter(|core| *core > 0).map_or_else(String::new, |core| format!(", core {core}"));
        let (name, rule) = (self.name, rule.name);
        output.write(|out| writeln!(out, "{name}{source}: {at}{column}{instruction}{core}: {rule}: {detail}"));
    }
}
