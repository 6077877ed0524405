//! `diff`: what two traces tell differently of one run, whatever their formats.
//!
//! Comes in: two paths. Goes out: findings as they are found, and a summary by facet. Exit 1 if there is a difference.

mod text;

use std::fs::Metadata;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use unspool::analyze::diff::json::{write_finding, write_summary};
use unspool::analyze::diff::{Differ, Finding, Options, Summary, comparable};
use unspool::capture::{self, Capture};
use unspool::convert::report::describe_position;
use unspool::file::{AstfFile, FileOptions, TarmacFile, is_pipe, is_standard, peek};
use unspool::model::{Coverage, Facet, Loss, Losses, Pull, SourceError, Step, StepSource, TimeUnit};
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::parse::ParseOptions;
use unspool::tarmac::read::ReadOptions;
use unspool::{Error, FileKind, Meter, OpenSteps, OpenedSteps, Trace, open_steps, open_steps_of};

use crate::args::{ImageArgs, OutputArgs};
use crate::diagnostic::diagnostic;
use crate::file::{dialect, with_hint};
use crate::output::{Output, is_same};
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Compare two traces of one run, on what both can tell; their formats may differ
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A capture, an ASTF or STF file, or a Tarmac log ('-': standard input)
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Another one
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Go on behind the first difference, and tell all of them
    #[arg(long)]
    all: bool,

    /// With --all: tell N differences, and count the others
    #[arg(long, value_name = "N", default_value_t = 100, requires = "all")]
    limit: u64,

    /// Show N instructions before and behind a difference
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = context)]
    context: usize,

    /// Compare these facets only: instructions, opcodes, conditions, branches, accesses, data, registers, exceptions,
    /// levels, security, processes
    #[arg(long, value_name = "FACET", value_delimiter = ',', value_parser = facet)]
    only: Vec<Facet>,

    /// Do not compare these facets
    #[arg(long, value_name = "FACET", value_delimiter = ',', value_parser = facet)]
    ignore: Vec<Facet>,

    /// Other starts and other ends are differences
    #[arg(long)]
    strict: bool,

    /// Look N instructions ahead for the place at which both are together again
    #[arg(long, value_name = "N", default_value_t = 1 << 18)]
    window: usize,

    #[command(flatten)]
    sides: SideArgs,

    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Which part of each.
#[derive(Debug, clap::Args)]
struct SideArgs {
    /// The source of the capture A: its trace id or its name
    #[arg(long, value_name = "ID", help_heading = "Which part")]
    source_a: Option<String>,

    /// The source of the capture B
    #[arg(long, value_name = "ID", help_heading = "Which part")]
    source_b: Option<String>,

    /// The core of A, counted from 0 in the order in which they appear
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Which part")]
    core_a: u32,

    /// The core of B
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Which part")]
    core_b: u32,

    /// A is a Tarmac log, and who wrote it (found out, if not said): rev3, fast-models, gem5, cortex-m0, cortex-m3,
    /// cortex-r5 or other
    #[arg(long, value_name = "NAME", value_parser = dialect, help_heading = "Tarmac")]
    dialect_a: Option<Dialect>,

    /// B is a Tarmac log, and who wrote it
    #[arg(long, value_name = "NAME", value_parser = dialect, help_heading = "Tarmac")]
    dialect_b: Option<Dialect>,

    /// Instructions whose line in a Tarmac log does not name an instruction set are Thumb
    #[arg(long, help_heading = "Tarmac")]
    implicit_thumb: bool,

    /// Data of accesses in a Tarmac log is that of a big endian core
    #[arg(long, help_heading = "Tarmac")]
    big_endian: bool,
}

const EXAMPLES: &str = "\
Examples:
  unspool diff snapshot/ run.tarmac
  unspool diff old.astf new.astf --all --limit 20
  unspool diff a.zstf b.zstf --ignore registers,data
  ssh model cat run.tarmac | unspool diff snapshot/ -

One of them may start earlier, end later or have gaps: that is told and is no difference, unless --strict. Times are
never compared.

Exit codes: 0 they are equal, 1 they differ, nothing could be compared, or one of them is damaged or has lines that cannot
be read, 2 unspool could not do it.";

fn facet(name: &str) -> Result<Facet, String> {
    let found = comparable().iter().find(|facet| facet.name() == name);
    found.ok_or_else(|| format!("'{name}' is none of {}", comparable()))
}

/// Rows that are longer than this nobody reads, and they are kept in memory.
fn context(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= 1000);
    number.ok_or_else(|| format!("'{text}' is no number from 0 to 1000"))
}

/// Compares.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if is_standard(&args.a) && is_standard(&args.b) {
        bail!("only one of them can come through the standard input");
    }
    let [a, b] = args.sides();
    let ((a, pull_a), (b, pull_b)) = (args.open(&a)?, args.open(&b)?);
    let (sides, pulls) = ([a, b], [pull_a, pull_b]);
    let mut output = args.output()?;
    let mut report = Report { sides, code: text::Code::default(), json: args.output.json, line: String::new() };
    let done = Differ::new(args.options()).run(pulls, &mut |finding| {
        report.finding(finding, &mut output);
        if output.is_open() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let summary = match done {
        Ok(summary) => summary,
        Err(error) => {
            output.finish()?;
            bail!("{}: {error}", report.sides[error.source_index].name);
        }
    };
    report.summary(&summary, &mut output);
    output.finish()?;
    let is_readable = summary.not_in_steps.iter().all(|untold| untold.of(Loss::Unreadable).count == 0);
    Ok(if summary.is_clean() && is_readable { Verdict::Clean } else { Verdict::Problems })
}

impl Args {
    fn options(&self) -> Options {
        let is_wanted =
            |facet: &Facet| (self.only.is_empty() || self.only.contains(facet)) && !self.ignore.contains(facet);
        let facets: Vec<Facet> = comparable().iter().filter(is_wanted).collect();
        Options {
            cores: [self.sides.core_a, self.sides.core_b],
            all: self.all,
            limit: self.limit,
            context: self.context,
            facets: Coverage::of(&facets),
            window: self.window,
            strict: self.strict,
            ..Options::default()
        }
    }

    fn sides(&self) -> [Side<'_>; 2] {
        let SideArgs { source_a, source_b, dialect_a, dialect_b, .. } = &self.sides;
        [
            Side { path: &self.a, source: source_a, dialect: *dialect_a, hint: "--dialect-a", is_shown: true },
            Side { path: &self.b, source: source_b, dialect: *dialect_b, hint: "--dialect-b", is_shown: false },
        ]
    }

    fn open(&self, side: &Side<'_>) -> anyhow::Result<(Named, Pull)> {
        let (named, steps, meter) = match side.dialect {
            Some(_) => self.open_log(side)?,
            None if is_pipe(side.path) => self.open_pipe(side)?,
            None => self.open_path(side)?,
        };
        let is_shown = side.is_shown && !self.output.json;
        Ok((named, Pull::new(Opened { steps, meter, is_shown }).context("cannot start a thread")?))
    }

    fn open_log(&self, side: &Side<'_>) -> anyhow::Result<(Named, OpenedSteps, Meter)> {
        let implicit_thumb = self.sides.implicit_thumb;
        let options = FileOptions { dialect: side.dialect, implicit_thumb, threads: None };
        let log = TarmacFile::open(side.path, &options)?;
        let named = Named { name: log.name().to_string(), kind: FileKind::Tarmac };
        let (steps, meter) = log.into_steps(self.sides.big_endian);
        Ok((named, steps, meter))
    }

    fn open_pipe(&self, side: &Side<'_>) -> anyhow::Result<(Named, OpenedSteps, Meter)> {
        let (name, kind, input) = peek(side.path)?;
        if kind == FileKind::Capture {
            // One of the readers reports why it cannot be compared.
            AstfFile::of(&name, input, None, &FileOptions::default()).map_err(|error| with_hint(error, side.hint))?;
            bail!("{name}: nothing that can be compared; a capture is a directory or an archive, and no pipe");
        }
        let options = OpenSteps { kind: Some(kind), ..self.open_steps(side)? };
        let meter = Meter { read: Arc::clone(&options.bytes_read), size: None };
        let steps = open_steps_of(&name, input, &options)?;
        Ok((Named { name, kind }, steps, meter))
    }

    fn open_path(&self, side: &Side<'_>) -> anyhow::Result<(Named, OpenedSteps, Meter)> {
        let options = self.open_steps(side)?;
        let size = side.path.metadata().ok().filter(Metadata::is_file).map(|about| about.len());
        let meter = Meter { read: Arc::clone(&options.bytes_read), size };
        let named = Named::new(side.path)?;
        let steps = match open_steps(side.path, &options) {
            Err(Error::WhichSource { .. }) => {
                open_steps(side.path, &OpenSteps { source: first_source(side.path)?, ..options })
            }
            Err(Error::Capture(capture::Error::NotACapture { .. })) if side.path.is_file() => {
                let options = FileOptions::default();
                AstfFile::open(side.path, &options).map_err(|error| with_hint(error, side.hint))?;
                open_steps(side.path, &self.open_steps(side)?)
            }
            opened => opened,
        };
        Ok((named, steps?, meter))
    }

    fn open_steps(&self, side: &Side<'_>) -> anyhow::Result<OpenSteps> {
        Ok(OpenSteps {
            source: side.source.clone(),
            codes: self.images.load()?,
            tarmac: ReadOptions { parse: ParseOptions { implicit_thumb: self.sides.implicit_thumb } },
            big_endian: self.sides.big_endian,
            ..OpenSteps::default()
        })
    }

    fn output(&self) -> anyhow::Result<Output> {
        let output = self.output.output.as_deref();
        if output.is_some_and(|output| is_same(output, &self.b)) {
            bail!("{}: the trace is read from this file; write to another one", self.b.display());
        }
        Output::open_for(&self.output, &self.a)
    }
}

/// One of both, as the user names it.
struct Side<'a> {
    path: &'a Path,
    source: &'a Option<String>,
    dialect: Option<Dialect>,
    /// The option that makes a log of any file.
    hint: &'static str,
    /// It is this one that the progress bar is about.
    is_shown: bool,
}

/// Of several sources, one can be compared at a time.
fn first_source(path: &Path) -> anyhow::Result<Option<String>> {
    let capture = Capture::open(path)?;
    let first = Trace::all(&capture).first().map(|trace| trace.source().name.clone());
    if let Some(name) = &first {
        diagnostic(format_args!(
            "{}: of several sources, {name} is compared; see --source-a and --source-b",
            path.display()
        ));
    }
    Ok(first)
}

/// A source that was opened, whatever it is, and how far it was read.
struct Opened {
    steps: OpenedSteps,
    meter: Meter,
    /// It is this one that the progress bar is about.
    is_shown: bool,
}

/// How many steps go by between two looks at the progress bar.
const STRIDE: u64 = 1 << 16;

impl StepSource for Opened {
    fn coverage(&self) -> Coverage {
        self.steps.coverage()
    }

    fn time_unit(&self) -> TimeUnit {
        self.steps.time_unit()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let (mut progress, mut count) = (Progress::new(!self.is_shown), 0);
        let Self { steps, meter, .. } = self;
        steps.each(&mut |step| {
            count += 1;
            if count % STRIDE == 0 {
                meter.report(&mut progress.callback());
            }
            take(step)
        })
    }

    fn losses(&self) -> Losses {
        self.steps.losses()
    }
}

/// A trace by its name, and what its places are.
struct Named {
    name: String,
    kind: FileKind,
}

impl Named {
    fn new(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let kind = FileKind::at(path).with_context(|| name.clone())?;
        Ok(Self { name, kind })
    }

    /// What positions are: the key in JSON, and the word.
    fn unit(&self) -> &'static str {
        self.kind.unit()
    }

    fn position(&self, position: u64) -> String {
        describe_position(self.unit(), position)
    }
}

/// Prints what is found.
struct Report {
    sides: [Named; 2],
    code: text::Code,
    json: bool,
    line: String,
}

impl Report {
    fn finding(&mut self, finding: &Finding, output: &mut Output) {
        if !self.json {
            return output.write(|out| self.finding_text(finding, out));
        }
        write_finding(finding, self.units(), &mut self.line);
        output.write(|out| out.write_all(self.line.as_bytes()));
    }

    fn summary(&mut self, summary: &Summary, output: &mut Output) {
        if !self.json {
            return output.write(|out| self.summary_text(summary, out));
        }
        let names = [&*self.sides[0].name, &*self.sides[1].name];
        write_summary(summary, names, self.units(), &mut self.line);
        output.write(|out| out.write_all(self.line.as_bytes()));
    }

    fn units(&self) -> [&'static str; 2] {
        [self.sides[0].unit(), self.sides[1].unit()]
    }
}
