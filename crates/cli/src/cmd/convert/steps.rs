//! Converting into another format: as steps, with what is lost counted.
//!
//! any trace ─▶ steps ─▶ ASTF, STF or Tarmac ─▶ OUT, and a report of what it could not say

use std::cell::Cell;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use unspool::analyze::diff;
use unspool::analyze::join::Join;
use unspool::capture::Capture;
use unspool::convert::{Format, Origin, TransferError, Transferred, Way, transfer, way};
use unspool::formats::astf;
use unspool::formats::stf::{self, build};
use unspool::formats::tarmac;
use unspool::formats::tarmac::convert::Style;
use unspool::formats::tarmac::parse::ParseOptions;
use unspool::model::{Losses, SinkError, StepSink};
use unspool::{OpenSteps, OpenedSteps, What, open_steps};

use super::super::grouped;
use super::{Args, To, container_by_name, open_writer};
use crate::Verdict;
use crate::args::tell;
use crate::astf::is_standard;
use crate::file::Opened;
use crate::json::Object;
use crate::progress::{Meter, Progress};
use crate::target::Target;

/// How many steps go by between two looks at the progress bar.
const STRIDE: u64 = 1 << 14;

/// What is converted.
pub(super) struct Source {
    about: About,
    origin: Origin,
    steps: OpenedSteps,
}

/// What it is called, and how far it was read.
struct About {
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
        Ok(Self { about: About { name, place, meter }, origin, steps: completed(args, what, steps)? })
    }

    /// A source of a capture.
    pub(super) fn capture(args: &Args) -> anyhow::Result<Self> {
        let steps = open_steps(&args.input, &options(args, Some(What::Capture))?)?;
        let name = args.input.display().to_string();
        let about = About { name, place: "offset", meter: Meter::default() };
        Ok(Self { about, origin: Origin::Capture, steps: completed(args, What::Capture, steps)? })
    }
}

impl About {
    /// Where in the source, in words.
    fn at(&self, place: u64) -> String {
        if self.place == "offset" { format!("offset {place:#x}") } else { format!("{} {place}", self.place) }
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
    let again = open_steps(&args.input, &options(args, Some(what))?)?;
    let other = open_steps(other, &OpenSteps { source: None, ..options(args, None)? })?;
    let pairing = diff::Options { cores: [args.core.unwrap_or(0), args.accesses_core], ..diff::Options::default() };
    Ok(Box::new(Join::new([steps, again], other, pairing)))
}

/// Is it a capture? A pipe is none.
pub(super) fn is_capture(path: &Path) -> bool {
    let is_pipe = is_standard(path) || path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir());
    !is_pipe && matches!(What::at(path), Ok(What::Capture)) && Capture::open(path).is_ok()
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
            };
            let header = astf::lower::header(coverage, unit, &options).map_err(refused)?;
            let writer = super::astf_writer(args, &header)?;
            let sink = astf::lower::Lowerer::new(writer, &header, coverage, unit, &options).map_err(refused)?;
            hand_over(args, (&about, steps), to, sink, |sink| sink.into_sink().finish())
        }
        Format::Stf => {
            let options =
                stf::lower::LowerOptions { version: args.stf_version.map_or(build::StfVersion::default(), Into::into) };
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
    let is_stream = is_standard(&args.output);
    let (mut progress, count) = (Progress::new(false), Cell::new(0_u64));
    let done = transfer(steps, args.core, &mut sink, |_, sink| {
        count.set(count.get() + 1);
        if count.get() % STRIDE == 0 {
            about.meter.show(&mut progress);
        }
        // What goes through a pipe cannot be taken back: the first loss is one too many.
        let is_denied = args.deny_loss && is_stream && !sink.losses().is_empty();
        if is_denied { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(progress);
    let damage = match done {
        Ok(done) => {
            tell_other_cores(about, done);
            None
        }
        Err(TransferError::Source(error)) if error.is_damage => Some(error),
        Err(TransferError::Sink(error)) => return Err(refusal(about, error)),
        Err(error) => return Err(anyhow!(error).context(about.name.clone())),
    };
    let losses = sink.losses().clone();
    if let Some(error) = damage {
        tell(format_args!("{}: {error}", about.name));
        if !args.keep_damaged {
            return Ok(Verdict::Problems);
        }
        sink.finish().map_err(|error| refusal(about, error))?;
        keep(args, close(sink))?;
        report(args, about, to, &losses);
        return Ok(Verdict::Problems);
    }
    if args.deny_loss && !losses.is_empty() {
        tell(format_args!("{}: {} cannot say {losses}; nothing was written", about.name, to.name()));
        return Ok(Verdict::Problems);
    }
    keep(args, close(sink))?;
    report(args, about, to, &losses);
    Ok(Verdict::Clean)
}

fn keep(args: &Args, closed: io::Result<Target>) -> anyhow::Result<()> {
    closed.and_then(Target::keep).with_context(|| format!("cannot write {}", args.output.display()))
}

fn tell_other_cores(about: &About, done: Transferred) {
    if done.other_cores > 0 {
        let name = &about.name;
        tell(format_args!("{name}: {} steps of other cores were left out", grouped(done.other_cores)));
    }
}

/// What keeps a sink from taking a step.
fn refusal(about: &About, error: SinkError) -> anyhow::Error {
    match error {
        SinkError::Io(error) => anyhow!(error).context("cannot write the trace"),
        SinkError::Refused { place: Some(place), reason } => {
            anyhow!("{}: {}: {reason}", about.name, about.at(place))
        }
        SinkError::Refused { place: None, reason } => anyhow!("{}: {reason}", about.name),
    }
}

/// What was lost, for people or for programs: on the standard error, since the standard output may be the trace.
fn report(args: &Args, about: &About, to: Format, losses: &Losses) {
    if !args.json {
        if !losses.is_empty() {
            tell(format_args!("{}: lost, since {} cannot say it: {losses}", about.name, to.name()));
        }
        return;
    }
    let mut line = String::new();
    for (loss, lost) in losses.iter() {
        let mut object = Object::new(&mut line);
        object.string("kind", "lost").string("what", loss.name());
        object.plain("count", lost.count).plain(about.place, lost.first);
        // A closed error stream leaves nobody to tell.
        let _ = object.finish(&mut io::stderr());
    }
}

/// Lines go into a container.
struct Lines(stf::write::Writer<Target>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
