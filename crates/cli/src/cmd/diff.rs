//! `diff`: compares two traces of one run, on the facets that both contain; formats may differ.
//!
//! Prints differences as they are found, and a summary by facet. Exit code 1 if there is a difference.

mod report;

use std::fs::Metadata;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use unspool::analyze::diff::{Differ, Options, comparable};
use unspool::capture::Capture;
use unspool::file::{FileOptions, TarmacFile, is_pipe, is_standard, peek};
use unspool::model::{
    BlockSink, CoreSelector, Coverage, Facet, Loss, Losses, Pull, SourceError, Step, StepSource, TimeUnit,
};
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::parse::ParseOptions;
use unspool::tarmac::read::ReadOptions;
use unspool::{Error, FileKind, Meter, OpenSteps, OpenedSteps, Trace, open_steps, open_steps_of};

use self::report::{Named, Report};
use crate::args::{ImageArgs, OutputArgs};
use crate::diagnostic;
use crate::file::{parse_dialect, with_hint};
use crate::output::{Output, is_same};
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Compare two traces of the same run, on the facets that both contain; formats may differ
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture, ASTF file, STF file or Tarmac log ('-': standard input)
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Trace to compare with
    #[arg(value_name = "B")]
    b: PathBuf,

    /// Continue after the first difference, and report all
    #[arg(long)]
    all: bool,

    /// With --all: report N differences, and count the others
    #[arg(long, value_name = "N", default_value_t = 100, requires = "all")]
    limit: u64,

    /// Show N instructions before and after a difference
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_context)]
    context: usize,

    /// Compare only these kinds of facts, separated by commas: instructions, opcodes, conditions, branches, accesses, data, registers, exceptions,
    /// levels, security, processes
    #[arg(long, value_name = "FACET,...", value_delimiter = ',', value_parser = facet)]
    only: Vec<Facet>,

    /// Do not compare these
    #[arg(long, value_name = "FACET,...", value_delimiter = ',', value_parser = facet)]
    ignore: Vec<Facet>,

    /// Treat different starts and ends as differences
    #[arg(long)]
    strict: bool,

    /// Look N instructions ahead for the point where both traces agree again
    #[arg(long, value_name = "N", default_value_t = 1 << 18)]
    window: usize,

    #[command(flatten)]
    sides: SideArgs,
    #[command(flatten)]
    images: ImageArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Selection of a part of each trace.
#[derive(Debug, clap::Args)]
struct SideArgs {
    /// Source of capture A: its trace id or its name [default: the first]
    #[arg(long, value_name = "ID|NAME", help_heading = "Which part")]
    source_a: Option<String>,

    /// The same for capture B
    #[arg(long, value_name = "ID|NAME", help_heading = "Which part")]
    source_b: Option<String>,

    /// Core of A: its name, or its number in order of appearance, counted from 0 [default: the first]
    #[arg(long, value_name = "N|NAME", help_heading = "Which part")]
    core_a: Option<CoreSelector>,

    /// The same for B
    #[arg(long, value_name = "N|NAME", help_heading = "Which part")]
    core_b: Option<CoreSelector>,

    /// Read A as a Tarmac log of this producer: rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other [default:
    /// auto-detected]
    #[arg(long, value_name = "NAME", value_parser = parse_dialect, help_heading = "Tarmac")]
    dialect_a: Option<Dialect>,

    /// The same for B
    #[arg(long, value_name = "NAME", value_parser = parse_dialect, help_heading = "Tarmac")]
    dialect_b: Option<Dialect>,

    /// Instructions of A are Thumb where their line names no instruction set
    #[arg(long, help_heading = "Tarmac")]
    implicit_thumb_a: bool,

    /// The same for B
    #[arg(long, help_heading = "Tarmac")]
    implicit_thumb_b: bool,

    /// Accesses of A are those of a big-endian core
    #[arg(long, help_heading = "Tarmac")]
    big_endian_a: bool,

    /// The same for B
    #[arg(long, help_heading = "Tarmac")]
    big_endian_b: bool,
}

const EXAMPLES: &str = "\
Examples:
  unspool diff snapshot/ run.tarmac
  unspool diff old.astf new.astf --all --limit 20
  unspool diff a.zstf b.zstf --ignore registers,data
  unspool diff two-cores.tarmac one.astf --core-a cpu1
  ssh model cat run.tarmac | unspool diff snapshot/ -

Stops at the first difference; the table then counts what was compared up to there. --all continues. \
Options that end in -a are for A, those that end in -b for B; --image is for both.
One trace may start earlier, end later or have gaps: that is reported but is not a difference, unless --strict. Times are \
never compared.

Exit codes: 0 the traces are identical in what both contain, 1 they differ, nothing could be compared, or a trace is damaged or has lines that cannot \
be parsed, 2 the command failed.";

fn facet(name: &str) -> Result<Facet, String> {
    let found = comparable().iter().find(|facet| facet.name() == name);
    found.ok_or_else(|| format!("unknown facet '{name}': use {}", comparable()))
}

/// The limit bounds memory.
fn parse_context(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= 1000);
    number.ok_or_else(|| format!("'{text}' is not a number from 0 to 1000"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if is_standard(&args.a) && is_standard(&args.b) {
        bail!("only one trace can be read from standard input");
    }
    let [a, b] = args.sides();
    let ((named_a, opened_a), (named_b, opened_b)) = (args.open(&a)?, args.open(&b)?);
    let options = args.options([a.core_number(&named_a)?, b.core_number(&named_b)?]);
    let compared = opened_a.coverage().and(opened_b.coverage()).and(options.facets);
    let pull = |opened| Pull::with_blocks(opened, compared.has(Facet::Accesses)).context("cannot start a thread");
    let (sides, pulls) = ([named_a, named_b], [pull(opened_a)?, pull(opened_b)?]);
    let mut output = args.output()?;
    let mut report = Report::new(sides, args.output.json, output.palette);
    let result = Differ::new(options).run(pulls, &mut |finding| {
        report.finding(finding, &mut output);
        if output.is_open() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => {
            output.finish()?;
            bail!("{}: {error}", report.sides[error.source_index].name);
        }
    };
    report.summary(&summary, &mut output);
    output.finish()?;
    let is_unreadable = summary.not_in_steps.iter().any(|losses| losses.of(Loss::Unreadable).count > 0);
    Ok(Verdict::of(!summary.is_clean() || is_unreadable))
}

impl Args {
    fn options(&self, cores: [u32; 2]) -> Options {
        let is_selected =
            |facet: &Facet| (self.only.is_empty() || self.only.contains(facet)) && !self.ignore.contains(facet);
        let facets: Vec<Facet> = comparable().iter().filter(is_selected).collect();
        Options {
            cores,
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
        let of = &self.sides;
        [
            Side {
                path: &self.a,
                source: of.source_a.as_ref(),
                core: of.core_a.as_ref(),
                dialect: of.dialect_a,
                implicit_thumb: of.implicit_thumb_a,
                big_endian: of.big_endian_a,
                hint: "--dialect-a",
                is_shown: true,
            },
            Side {
                path: &self.b,
                source: of.source_b.as_ref(),
                core: of.core_b.as_ref(),
                dialect: of.dialect_b,
                implicit_thumb: of.implicit_thumb_b,
                big_endian: of.big_endian_b,
                hint: "--dialect-b",
                is_shown: false,
            },
        ]
    }

    fn open(&self, side: &Side<'_>) -> anyhow::Result<(Named, Opened)> {
        let (named, steps, meter) = match side.dialect {
            Some(_) => self.open_log(side)?,
            None if is_pipe(side.path) => self.open_pipe(side)?,
            None => self.open_path(side)?,
        };
        let is_shown = side.is_shown && !self.output.json;
        Ok((named, Opened { steps, meter, is_shown }))
    }

    fn open_log(&self, side: &Side<'_>) -> anyhow::Result<(Named, OpenedSteps, Meter)> {
        let log = TarmacFile::open(side.path, &side.file_options())?;
        let named = Named { name: log.name().to_string(), kind: FileKind::Tarmac };
        let (steps, meter) = log.into_steps(side.big_endian);
        Ok((named, steps, meter))
    }

    fn open_pipe(&self, side: &Side<'_>) -> anyhow::Result<(Named, OpenedSteps, Meter)> {
        let (name, kind, input) = peek(side.path).map_err(|error| with_hint(error.into(), side.hint))?;
        let options = OpenSteps { kind: Some(kind), ..self.open_steps(side)? };
        let meter = Meter { read: Arc::clone(&options.bytes_read), size: None };
        let steps = open_steps_of(&name, input, &options)?;
        Ok((Named { name, kind }, steps, meter))
    }

    fn open_path(&self, side: &Side<'_>) -> anyhow::Result<(Named, OpenedSteps, Meter)> {
        let options = self.open_steps(side)?;
        let size = side.path.metadata().ok().filter(Metadata::is_file).map(|about| about.len());
        let meter = Meter { read: Arc::clone(&options.bytes_read), size };
        let name = side.path.display().to_string();
        let named = Named { kind: FileKind::at(side.path).with_context(|| name.clone())?, name };
        let steps = match open_steps(side.path, &options) {
            Err(Error::WhichSource { .. }) => {
                open_steps(side.path, &OpenSteps { source: first_source(side.path)?, ..options })
            }
            opened => opened,
        };
        Ok((named, steps.map_err(|error| with_hint(error.into(), side.hint))?, meter))
    }

    fn open_steps(&self, side: &Side<'_>) -> anyhow::Result<OpenSteps> {
        Ok(OpenSteps {
            source: side.source.cloned(),
            codes: self.images.load()?,
            tarmac: ReadOptions { parse: ParseOptions { implicit_thumb: side.implicit_thumb } },
            big_endian: side.big_endian,
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

/// One of both traces, as the user names it.
struct Side<'a> {
    path: &'a Path,
    source: Option<&'a String>,
    core: Option<&'a CoreSelector>,
    dialect: Option<Dialect>,
    implicit_thumb: bool,
    big_endian: bool,
    /// Option that reads any file as a log.
    hint: &'static str,
    /// Does the progress bar follow this one?
    is_shown: bool,
}

impl Side<'_> {
    fn file_options(&self) -> FileOptions {
        FileOptions { dialect: self.dialect, implicit_thumb: self.implicit_thumb, threads: None }
    }

    /// Number of the core to compare. Only logs name their cores; a pipe cannot be searched for a name.
    fn core_number(&self, named: &Named) -> anyhow::Result<u32> {
        let Some(wanted) = self.core else { return Ok(0) };
        let found = match named.kind {
            FileKind::Tarmac if !is_pipe(self.path) => {
                TarmacFile::open(self.path, &self.file_options())?.core_number(wanted)?
            }
            _ => None,
        };
        found.or(wanted.number()).with_context(|| format!("{}: no core '{wanted}'; try its number", named.name))
    }
}

/// Name of the first of several sources, since one can be compared at a time.
fn first_source(path: &Path) -> anyhow::Result<Option<String>> {
    let capture = Capture::open(path)?;
    let first = Trace::all(&capture).first().map(|trace| trace.source().name.clone());
    if let Some(name) = &first {
        let path = path.display();
        diagnostic::note(format_args!("{path}: comparing {name} of several sources; see --source-a and --source-b"));
    }
    Ok(first)
}

struct Opened {
    steps: OpenedSteps,
    meter: Meter,
    /// Does the progress bar follow this one?
    is_shown: bool,
}

impl StepSource for Opened {
    fn coverage(&self) -> Coverage {
        self.steps.coverage()
    }

    fn time_unit(&self) -> TimeUnit {
        self.steps.time_unit()
    }

    fn each(&mut self, push: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let _progress = self.is_shown.then(|| Progress::follow(&self.meter));
        self.steps.each(push)
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        let _progress = self.is_shown.then(|| Progress::follow(&self.meter));
        self.steps.follow(sink)
    }

    fn losses(&self) -> Losses {
        self.steps.losses()
    }
}
