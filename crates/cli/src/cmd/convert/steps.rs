//! Converting into another format: as steps, with what is lost counted.
//!
//! any trace ─▶ steps ─▶ ASTF, STF or Tarmac ─▶ OUT, and a report of what it could not say

use std::cell::Cell;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use unspool::analyze::diff::{self, Differ};
use unspool::analyze::join::Join;
use unspool::astf;
use unspool::capture::Capture;
use unspool::convert::{Format, Origin, TransferError, Way, transfer, way};
use unspool::model::{Pull, SinkError, StepSink};
use unspool::stf::{self, builder};
use unspool::tarmac;
use unspool::tarmac::restyle::Style;
use unspool::tarmac::parse::ParseOptions;
use unspool::{OpenSteps, OpenedSteps, What, open_steps};

use super::report::{Report, at, unkept};
use super::{Args, To, container_by_name, open_writer};
use crate::Verdict;
use crate::args::tell;
use crate::astf::is_standard;
use crate::file::{Opened, is_pipe};
use crate::progress::{Meter, Progress};
use crate::target::{Target, is_stream};
use crate::tarmac::Tarmac;

/// How many steps go by between two looks at the progress bar.
const STRIDE: u64 = 1 << 14;

/// What is converted.
pub(super) struct Source {
    about: About,
    origin: Origin,
    steps: OpenedSteps,
}

/// What it is, what it is called, and how far it was read.
struct About {
    what: What,
    name: String,
    /// What places are called.
    place: &'static str,
    meter: Meter,
}

impl Source {
    /// A file that is open.
    pub(super) fn file(args: &Args, file: Opened) -> anyhow::Result<Self> {
        let (name, place) = match &file {
            Opened::Astf(file) => (file.name().to_string(), "record"),
            Opened::Stf(file) => (file.name().to_string(), "record"),
            Opened::Tarmac(file) => (file.name().to_string(), "line"),
        };
        let (what, origin) = match &file {
            Opened::Astf(_) => (What::Astf, Origin::Astf),
            Opened::Stf(file) if file.is_arm() => (What::Stf, Origin::StfArm),
            Opened::Stf(_) => (What::Stf, Origin::StfRiscv),
            Opened::Tarmac(_) => (What::Tarmac, Origin::Tarmac),
        };
        let (steps, meter) = match file {
            Opened::Astf(file) => {
                file.tell_warnings();
                file.into_steps()
            }
            Opened::Stf(mut file) => {
                file.tell_warnings();
                file.into_steps()
            }
            Opened::Tarmac(file) => file.into_steps(args.big_endian),
        };
        Ok(Self { about: About { what, name, place, meter }, origin, steps: completed(args, what, steps)? })
    }

    /// A source of a capture.
    pub(super) fn capture(args: &Args) -> anyhow::Result<Self> {
        let steps = open_steps(&args.input, &options(args, Some(What::Capture))?)?;
        let name = args.input.display().to_string();
        let about = About { what: What::Capture, name, place: "offset", meter: Meter::default() };
        Ok(Self { about, origin: Origin::Capture, steps: completed(args, What::Capture, steps)? })
    }
}

fn options(args: &Args, what: Option<What>) -> anyhow::Result<OpenSteps> {
    Ok(OpenSteps {
        what,
        source: args.source.clone(),
        codes: args.images.load()?,
        tarmac: tarmac::read::ReadOptions { parse: ParseOptions { implicit_thumb: args.implicit_thumb } },
        big_endian: args.big_endian,
        threads: args.jobs.map(usize::from),
        ..OpenSteps::default()
    })
}

/// The steps with what another trace of the same run tells of them.
fn completed(args: &Args, what: What, steps: OpenedSteps) -> anyhow::Result<OpenedSteps> {
    let Some(other) = &args.accesses else { return Ok(steps) };
    if is_standard(&args.input) || is_standard(other) {
        bail!("--accesses needs files: traces are aligned by reading one of them twice");
    }
    Ok(Box::new(Join::new([steps, again(args, what)?], open_other(args, other)?, pairing(args))))
}

/// The trace once more.
fn again(args: &Args, what: What) -> anyhow::Result<OpenedSteps> {
    match what {
        What::Tarmac => Ok(Tarmac::open(&args.input, &args.tarmac())?.into_steps(args.big_endian).0),
        what => Ok(open_steps(&args.input, &options(args, Some(what))?)?),
    }
}

/// The trace that completes it.
fn open_other(args: &Args, path: &Path) -> anyhow::Result<OpenedSteps> {
    Ok(open_steps(path, &OpenSteps { source: None, ..options(args, None)? })?)
}

fn pairing(args: &Args) -> diff::Options {
    diff::Options { cores: [args.core.unwrap_or(0), args.accesses_core], ..diff::Options::default() }
}

/// Why the other trace is of no help, if it is of none.
fn unpaired(args: &Args, about: &About) -> Option<anyhow::Error> {
    let path = args.accesses.as_deref()?;
    let pulls = [again(args, about.what).ok()?, open_other(args, path).ok()?].map(|steps| Pull::new(steps).ok());
    let [Some(one), Some(other)] = pulls else { return None };
    let mut is_paired = false;
    let summary = Differ::new(pairing(args)).pairs([one, other], &mut |_| {
        is_paired = true;
        ControlFlow::Break(())
    });
    let summary = summary.ok().filter(|_| !is_paired)?;
    let (name, core) = (path.display(), args.accesses_core);
    if summary.instructions[1] == 0 && (core > 0 || summary.other_cores[1] > 0) {
        return Some(anyhow!("{name}: there is no instruction of core {core}; see --accesses-core"));
    }
    Some(anyhow!(
        "{name}: it has no instruction in common with {}; --accesses takes a trace of the same run",
        about.name
    ))
}

/// Is it a capture? A pipe is none.
pub(super) fn is_capture(path: &Path) -> bool {
    !is_pipe(path) && matches!(What::at(path), Ok(What::Capture)) && Capture::open(path).is_ok()
}

/// Converts.
pub(super) fn run(args: &Args, source: Source, to: Format) -> anyhow::Result<Verdict> {
    let Source { about, origin, steps } = source;
    if let Way::Refused { why, unless } = way(origin, to)
        && (unless.is_none() || args.accesses.is_none())
    {
        let unless = unless.map_or(String::new(), |unless| format!(", unless {unless}"));
        bail!("{}: {why}{unless}", about.name);
    }
    let (coverage, unit) = (steps.coverage(), steps.time_unit());
    let refused = |error| refusal(&about, error);
    match to {
        Format::Astf => {
            let options = astf::lower::LowerOptions {
                level: args.astf_level.map(Into::into),
                storage: super::storage(args)?,
                assumed: args.assume.unwrap_or_default(),
                ..astf::lower::LowerOptions::default()
            };
            let header = astf::lower::header(coverage, unit, &options).map_err(refused)?;
            let writer = super::astf_writer(args, &header)?;
            let sink = astf::lower::Lowerer::new(writer, &header, coverage, unit, &options).map_err(refused)?;
            hand_over(args, (&about, steps), to, sink, |sink| sink.into_sink().finish())
        }
        Format::Stf => {
            let options = stf::lower::LowerOptions {
                version: args.stf_version.map_or(builder::StfVersion::default(), Into::into),
            };
            let container = match args.to {
                Some(to) => to.stf(),
                None => container_by_name(&args.output),
            };
            let container = container.unwrap_or(stf::read::Container::Plain);
            let writer = open_writer(&args.output, container, super::stf::options(args))?;
            let sink = stf::lower::Lowerer::new(writer, coverage, unit, &options).map_err(refused)?;
            hand_over(args, (&about, steps), to, sink, |sink| sink.into_sink().finish())
        }
        Format::Tarmac => {
            let options = tarmac::lower::LowerOptions {
                style: args.dialect.map_or(Style::Rev3, Into::into),
                disassemble: !args.no_disassembly,
            };
            let container = args.to.and_then(To::tarmac).unwrap_or_else(|| super::tarmac::by_name(&args.output));
            let writer = open_writer(&args.output, container, super::stf::options(args))?;
            let sink = tarmac::lower::Lowerer::new(Lines(writer), coverage, unit, &options).map_err(refused)?;
            hand_over(args, (&about, steps), to, sink, |sink| sink.into_inner().0.finish())
        }
    }
}

/// Hands the steps over, keeps what was written, and tells what was lost.
fn hand_over<S: StepSink>(
    args: &Args,
    (about, steps): (&About, OpenedSteps),
    to: Format,
    mut sink: S,
    close: impl FnOnce(S) -> io::Result<Target>,
) -> anyhow::Result<Verdict> {
    // What goes through a pipe cannot be taken back: the first loss is one too many.
    let stops = args.deny_loss && is_stream(&args.output);
    let (mut progress, count) = (Progress::new(false), Cell::new(0_u64));
    let done = transfer(steps, args.core, &mut sink, |_, sink| {
        count.set(count.get() + 1);
        if count.get() % STRIDE == 0 {
            about.meter.show(&mut progress);
        }
        if stops && !sink.losses().is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(progress);
    let done = done.map_err(|error| failure(args, about, error))?;
    if let Some(damage) = &done.damage {
        tell(format_args!("{}: {damage}", about.name));
        if args.keep_damaged {
            sink.finish().map_err(|error| refusal(about, error))?;
        }
    }
    let report = Report::new(args, (&about.name, about.place), to.name()).with_steps(&done.untold, sink.losses());
    report.left_out(done.other_cores);
    if report.is_denied() {
        report.deny();
        return Ok(Verdict::Problems);
    }
    if done.damage.is_some() && !args.keep_damaged {
        if is_stream(&args.output) {
            tell(format_args!("{}: {}", about.name, unkept(args)));
        }
        return Ok(Verdict::Problems);
    }
    keep(args, close(sink))?;
    report.tell();
    Ok(if done.damage.is_some() || report.is_unreadable() { Verdict::Problems } else { Verdict::Clean })
}

fn keep(args: &Args, closed: io::Result<Target>) -> anyhow::Result<()> {
    closed.and_then(Target::keep).with_context(|| format!("cannot write {}", args.output.display()))
}

/// Why not all steps were handed over.
fn failure(args: &Args, about: &About, error: TransferError) -> anyhow::Error {
    match error {
        TransferError::NoCore { .. } => anyhow!("{}: {error}; see --core", about.name),
        TransferError::Sink(SinkError::Io(error)) => refusal(about, error.into()),
        TransferError::Sink(error) => unpaired(args, about).unwrap_or_else(|| refusal(about, error)),
        TransferError::Source(error) => {
            unpaired(args, about).unwrap_or_else(|| anyhow!(error).context(about.name.clone()))
        }
    }
}

/// What keeps a sink from taking a step.
fn refusal(about: &About, error: SinkError) -> anyhow::Error {
    match error {
        SinkError::Io(error) => anyhow!(error).context("cannot write the trace"),
        SinkError::Refused { place: Some(place), reason } => {
            anyhow!("{}: {}: {reason}", about.name, at(about.place, place))
        }
        SinkError::Refused { place: None, reason } => anyhow!("{}: {reason}", about.name),
    }
}

/// Lines go into a container.
pub(in crate::cmd) struct Lines(pub(in crate::cmd) stf::write::Writer<Target>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
