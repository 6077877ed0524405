//! `diff`: what two traces tell differently of one run, whatever their formats.
//!
//! Comes in: two paths. Goes out: findings as they are found, and a summary by facet. Exit 1 if there is a difference.

mod text;

use std::fs::Metadata;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use unspool::analyze::diff::{Differ, Ending, Finding, Options, Site, SkipReason, Summary, comparable};
use unspool::capture::{self, Capture};
use unspool::model::{Coverage, Facet, Loss, Losses, Pull, SourceError, Step, StepSource, TimeUnit};
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::parse::ParseOptions;
use unspool::tarmac::read::ReadOptions;
use unspool::{Error, OpenSteps, OpenedSteps, Trace, What, open_steps, open_steps_of};

use crate::Verdict;
use crate::args::{ImageArgs, OutputArgs, tell};
use crate::astf::{Astf, is_standard};
use crate::file::{is_pipe, pipe};
use crate::json::Object;
use crate::output::{Output, is_same};
use crate::progress::{Meter, Progress};
use crate::tarmac::{Tarmac, TarmacArgs, dialect};

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
        let log = Tarmac::open(side.path, &TarmacArgs { dialect: side.dialect, implicit_thumb, hint: side.hint })?;
        let named = Named { name: log.name().to_string(), what: What::Tarmac };
        let (steps, meter) = log.into_steps(self.sides.big_endian);
        Ok((named, steps, meter))
    }

    fn open_pipe(&self, side: &Side<'_>) -> anyhow::Result<(Named, OpenedSteps, Meter)> {
        let (name, input) = pipe(side.path).with_context(|| side.path.display().to_string())?;
        let (what, input) = What::peek(input).with_context(|| name.clone())?;
        if what == What::Capture {
            // That it is nothing to compare is for one of them to say.
            Astf::of(&name, Box::new(input), None, None, Some(side.hint))?;
            bail!("{name}: nothing that can be compared; a capture is a directory or an archive, and no pipe");
        }
        let options = OpenSteps { what: Some(what), ..self.open_steps(side)? };
        let meter = Meter { read: Arc::clone(&options.bytes_read), size: None };
        let steps = open_steps_of(&name, input, &options)?;
        Ok((Named { name, what }, steps, meter))
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
                Astf::open(side.path, None, Some(side.hint))?;
                open_steps(side.path, &options)
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
        tell(format_args!("{}: of several sources, {name} is compared; see --source-a and --source-b", path.display()));
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
                meter.show(&mut progress);
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
    what: What,
}

impl Named {
    fn new(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let what = What::at(path).with_context(|| name.clone())?;
        Ok(Self { name, what })
    }

    /// What places are: the key in JSON, and the word.
    fn unit(&self) -> &'static str {
        match self.what {
            What::Astf | What::Stf => "record",
            What::Tarmac => "line",
            _ => "offset",
        }
    }

    fn place(&self, place: u64) -> String {
        match self.unit() {
            "offset" => format!("offset {place:#x}"),
            unit => format!("{unit} {place}"),
        }
    }
}

/// Tells what is found.
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
        let Self { sides, line, .. } = self;
        let mut object = Object::new(line);
        match finding {
            Finding::Skipped { reason: why, skipped: passed, at } => {
                object.string("kind", "passed").string("why", why_name(*why));
                object.plain("a_instructions", passed[0]).plain("b_instructions", passed[1]);
                put_sites(&mut object, sides, [at[0].as_ref(), at[1].as_ref()]);
            }
            Finding::Diverged { around, apart } => {
                object.string("kind", "diverged").flag("together_again", apart.is_some());
                object.optional("a_instructions", apart.map(|apart| apart[0]));
                object.optional("b_instructions", apart.map(|apart| apart[1]));
                put_sites(&mut object, sides, [around.here[0].first(), around.here[1].first()]);
            }
            Finding::Differs { facet, name: what, values, around } => {
                object.string("kind", "differs").string("facet", facet.name()).string("what", what);
                object.string("a_value", &values[0]).string("b_value", &values[1]);
                put_sites(&mut object, sides, [around.here[0].first(), around.here[1].first()]);
            }
        }
        output.write(|out| object.finish(out));
    }

    fn summary(&mut self, summary: &Summary, output: &mut Output) {
        if !self.json {
            return output.write(|out| self.summary_text(summary, out));
        }
        let mut object = Object::new(&mut self.line);
        object.string("kind", "summary").string("a", &self.sides[0].name).string("b", &self.sides[1].name);
        object.flag("equal", summary.is_clean()).plain("differences", summary.differences);
        object
            .string("ending", ending_name(summary.ending))
            .plain("common", summary.common)
            .plain("loose", summary.in_loops);
        let counts = [
            ("instructions", summary.instructions),
            ("before", summary.before),
            ("after", summary.after),
            ("gaps", summary.gaps),
            ("in_gaps", summary.in_gaps),
            ("islands", summary.islands),
            ("tried", summary.attempted),
        ];
        for (name, [a, b]) in counts {
            object.plain(&format!("a_{name}"), a).plain(&format!("b_{name}"), b);
        }
        for (side, (key, untold)) in self.sides.iter().zip(["a_untold", "b_untold"].iter().zip(&summary.not_in_steps)) {
            object.list(key, untold.iter(), |text, (loss, lost)| {
                let mut object = Object::within(text);
                object.string("what", loss.name()).plain("count", lost.count).plain(side.unit(), lost.first);
                object.close();
            });
        }
        for (key, damage) in ["a_damage", "b_damage"].iter().zip(&summary.damage) {
            if let Some(damage) = damage {
                object.string(key, damage);
            }
        }
        object.list("facets", summary.facets.iter(), |text, facet| {
            let tally = summary.tally(facet);
            let mut object = Object::within(text);
            object.string("facet", facet.name()).plain("compared", tally.compared).plain("equal", tally.equal());
            object.plain("different", tally.different).plain("only_a", tally.only[0]).plain("only_b", tally.only[1]);
            object.close();
        });
        output.write(|out| object.finish(out));
    }
}

/// Where it is in both.
fn put_sites(object: &mut Object<'_>, sides: &[Named; 2], sites: [Option<&Site>; 2]) {
    for ((letter, side), site) in ["a", "b"].iter().zip(sides).zip(sites) {
        let Some(site) = site else { continue };
        object.plain(&format!("{letter}_{}", side.unit()), site.place);
        object.plain(&format!("{letter}_number"), site.number);
        object.hex(&format!("{letter}_pc"), site.instruction.address);
        if let Some(opcode) = site.instruction.opcode {
            object.hex(&format!("{letter}_opcode"), u64::from(opcode));
        }
    }
}

fn why_name(why: SkipReason) -> &'static str {
    match why {
        SkipReason::Start => "start",
        SkipReason::End => "end",
        SkipReason::Gap(_) => "gap",
        SkipReason::Island => "island",
        SkipReason::Attempted => "tried",
    }
}

fn ending_name(ending: Ending) -> &'static str {
    match ending {
        Ending::Complete => "complete",
        Ending::Stopped => "stopped",
        Ending::Diverged => "apart",
    }
}
