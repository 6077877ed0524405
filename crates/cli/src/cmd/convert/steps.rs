//! Conversions to another format, step by step.
//!
//! IN ─▶ steps ─▶ sink of the format ─▶ OUT

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use unspool::analyze::diff;
use unspool::analyze::join::{Common, Join, common};
use unspool::analyze::step_selection::SelectedSource;
use unspool::convert::report::{LossReport, describe_position};
use unspool::convert::{
    ConversionPlan, FileSink, Format, OpenSinkError, Origin, SinkOptions, SplitSink, TransferError, plan, transfer,
};
use unspool::file::{TarmacFile, TraceFile, is_standard};
use unspool::model::{SinkError, StepSink, StepSource};
use unspool::target::{WriteError, is_stream};
use unspool::tarmac::parse::ParseOptions;
use unspool::tarmac::restyle::Style;
use unspool::tarmac::state::Machine;
use unspool::{
    CaptureSteps, FileKind, Meter, OpenSteps, OpenedSteps, Program, astf, open_capture, open_steps, stf, tarmac,
};

use super::args::Args;
use super::losses::{print_denial, print_losses, print_other_cores, print_rejection, print_written, unkept};
use crate::diagnostic;
use crate::file::{report_astf, report_stf};
use crate::progress::Progress;
use crate::verdict::Verdict;

pub(super) struct Source {
    kind: FileKind,
    origin: Origin,
    name: String,
    /// Unit of positions.
    unit: &'static str,
    meter: Meter,
}

impl Source {
    pub(super) fn file(args: &Args, mut file: TraceFile) -> anyhow::Result<(Self, OpenedSteps)> {
        let (kind, name) = (file.kind(), file.name().to_string());
        let (origin, unit) = match &mut file {
            TraceFile::Astf(file) => {
                report_astf(file);
                (Origin::Astf, "record")
            }
            TraceFile::Stf(file) => {
                report_stf(file);
                (if file.is_arm() { Origin::StfArm } else { Origin::StfRiscv }, "record")
            }
            TraceFile::Tarmac(_) => (Origin::Tarmac, "line"),
        };
        let (steps, meter) = file.into_steps(args.big_endian);
        let source = Self { kind, origin, name, unit, meter };
        let codes = if args.selection.function.is_empty() { Vec::new() } else { args.images.load_for(&args.input)? };
        let steps = source.selected(args, &Program::new(codes), joined(args, kind, steps)?)?;
        Ok((source, steps))
    }

    pub(super) fn capture(args: &Args) -> anyhow::Result<(Self, OpenedSteps)> {
        let kind = FileKind::Capture;
        let meter = Meter::default();
        let steps = capture_steps(args)?.counting(&meter.read);
        let (meter, program) = (Meter { size: Some(steps.size()), ..meter }, Arc::clone(steps.program()));
        let name = args.input.display().to_string();
        let source = Self { kind, origin: Origin::Capture, name, unit: "offset", meter };
        let steps = source.selected(args, &program, joined(args, kind, Box::new(steps))?)?;
        Ok((source, steps))
    }

    /// The selected steps.
    fn selected(&self, args: &Args, program: &Program, steps: OpenedSteps) -> anyhow::Result<OpenedSteps> {
        if args.selection.is_all() {
            return Ok(steps);
        }
        let selection = args.selection.resolve(&self.name, program, steps.coverage(), steps.time_unit())?;
        Ok(Box::new(SelectedSource::new(steps, selection)))
    }

    pub(super) fn convert(&self, args: &Args, steps: OpenedSteps, to: Format) -> anyhow::Result<Verdict> {
        if let ConversionPlan::Refused { why, unless } = plan(self.origin, to)
            && (unless.is_none() || args.accesses.is_none())
        {
            let unless = unless.map_or(String::new(), |unless| format!(", unless {unless}"));
            bail!("{}: {why}{unless}", self.name);
        }
        let options = sink_options(args, to)?;
        let (coverage, unit) = (steps.coverage(), steps.time_unit());
        if args.split {
            let sink = SplitSink::new(args.output(), coverage, unit, options, args.pieces);
            return self.transfer(args, steps, to, Sink::Split(Box::new(sink)));
        }
        let sink = FileSink::open(args.output(), coverage, unit, &options);
        let sink = sink.map_err(|error| match error {
            OpenSinkError::Write(error) => error.into(),
            OpenSinkError::Sink(error) => self.refusal(error),
        })?;
        self.transfer(args, steps, to, Sink::One(sink))
    }

    /// Transfers the steps, keeps the output, and reports losses.
    fn transfer(&self, args: &Args, steps: OpenedSteps, to: Format, mut output: Sink) -> anyhow::Result<Verdict> {
        let stops_at_loss = args.native().stops_at_loss();
        let progress = Progress::follow(&self.meter);
        let core = selected_core(args, self.kind)?;
        let sink = output.steps();
        let done = transfer(steps, core, sink, |_, sink| {
            if stops_at_loss && !sink.losses().is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        drop(progress);
        let done = done.map_err(|error| self.failure(args, error))?;
        if let Some(damage) = &done.damage {
            diagnostic::error(format_args!("{}: {damage}", self.name));
            if args.keep_damaged {
                sink.finish().map_err(|error| self.refusal(error))?;
            }
        }
        let report = LossReport::new(self.unit, to.name()).with_steps(&done.not_in_steps, sink.losses());
        print_other_cores(args, &self.name, done.other_cores);
        if let Some(corrections) = report.corrections().filter(|_| args.strict) {
            print_rejection(args, &self.name, &corrections);
            return Ok(Verdict::Problems);
        }
        if args.native().is_denied(&report) {
            print_denial(args, &self.name, &report);
            return Ok(Verdict::Problems);
        }
        if done.damage.is_some() && !args.keep_damaged {
            if is_stream(args.output()) {
                diagnostic::error(format_args!("{}: {}", self.name, unkept(args)));
            }
            return Ok(Verdict::Problems);
        }
        let written = output.keep(args.output(), done.instructions)?;
        print_losses(args, &self.name, &report);
        written.iter().for_each(|(path, instructions)| print_written(args, path, Some(*instructions)));
        Ok(Verdict::of(done.damage.is_some() || report.is_unreadable()))
    }

    /// Error of an incomplete transfer.
    fn failure(&self, args: &Args, error: TransferError) -> anyhow::Error {
        match error {
            TransferError::NoCore { .. } => anyhow!("{}: {error}; see --core", self.name),
            TransferError::Sink(SinkError::Io(error)) => self.refusal(error.into()),
            TransferError::Sink(error) => self.unpaired(args).unwrap_or_else(|| self.refusal(error)),
            TransferError::Source(error) => {
                self.unpaired(args).unwrap_or_else(|| anyhow!(error).context(self.name.clone()))
            }
        }
    }

    /// Error of a sink that refuses a step.
    fn refusal(&self, error: SinkError) -> anyhow::Error {
        match error {
            SinkError::Io(error) => anyhow!(error).context("cannot write the trace"),
            SinkError::Refused { position: Some(position), reason } => {
                anyhow!("{}: {}: {reason}", self.name, describe_position(self.unit, position))
            }
            SinkError::Refused { position: None, reason } => anyhow!("{}: {reason}", self.name),
        }
    }

    /// Error if the other trace does not match.
    fn unpaired(&self, args: &Args) -> Option<anyhow::Error> {
        let path = args.accesses.as_deref()?;
        let steps = [reopen(args, self.kind).ok()?, open_other(args, path).ok()?];
        let (name, core) = (path.display(), args.accesses_core);
        match common(steps, pairing(args, self.kind).ok()?)? {
            Common::Instructions => None,
            Common::NoSuchCore => Some(anyhow!("{name}: no instruction of core {core}; see --accesses-core")),
            Common::Nothing => Some(anyhow!(
                "{name}: no instruction in common with {}; --accesses needs a trace of the same run",
                self.name
            )),
        }
    }
}

/// Output of the conversion.
enum Sink {
    One(FileSink),
    Split(Box<SplitSink>),
}

impl Sink {
    fn steps(&mut self) -> &mut dyn StepSink {
        match self {
            Self::One(sink) => sink,
            Self::Split(sink) => &mut **sink,
        }
    }

    /// Keeps the complete files. Returns each with its number of instructions.
    fn keep(self, path: &Path, instructions: u64) -> Result<Vec<(PathBuf, u64)>, WriteError> {
        match self {
            Self::One(sink) => {
                sink.keep().map_err(|error| WriteError::new(path, error))?;
                Ok(vec![(path.to_path_buf(), instructions)])
            }
            Self::Split(sink) => sink.keep(),
        }
    }
}

/// Number of the core that `--core` selects, by number or by name.
fn selected_core(args: &Args, kind: FileKind) -> anyhow::Result<Option<u32>> {
    let Some(core) = args.core.as_ref().filter(|_| args.core_type().is_none()) else { return Ok(None) };
    if let Ok(number) = core.parse() {
        return Ok(Some(number));
    }
    if kind != FileKind::Tarmac || is_standard(&args.input) {
        bail!("--core {core}: only the cores of a Tarmac log in a file have names; use a number, counted from 0");
    }
    let (mut machine, mut found) = (Machine::new(false, 1), None);
    let mut file = TarmacFile::open(&args.input, &args.tarmac().options(None))?;
    file.each(&mut |_, _| {}, |position, line| {
        machine.line(position.line, line);
        found = machine.cores().iter().position(|other| other.name == core.as_bytes());
        found.is_none()
    })?;
    let names =
        || machine.cores().iter().map(|core| String::from_utf8_lossy(&core.name)).collect::<Vec<_>>().join(", ");
    match found {
        Some(number) => Ok(Some(number as u32)),
        None => bail!("{}: no core '{core}'; cores: {}", args.input.display(), names()),
    }
}

fn sink_options(args: &Args, to: Format) -> anyhow::Result<SinkOptions> {
    Ok(match to {
        Format::Astf => {
            let lower = astf::lower::LowerOptions {
                level: args.astf_level,
                storage: args.astf_storage()?,
                assumed: args.assume.unwrap_or_default(),
                ..astf::lower::LowerOptions::default()
            };
            SinkOptions::Astf { lower, write: args.astf_options()? }
        }
        Format::Stf => {
            let version = args.stf_version.unwrap_or_default();
            let storage = args.stf_storage().unwrap_or(stf::Storage::PLAIN);
            SinkOptions::Stf { lower: stf::lower::LowerOptions { version }, storage, write: args.stf_options() }
        }
        Format::Tarmac => {
            let style = args.to_dialect.unwrap_or(Style::Rev3);
            let lower = tarmac::lower::LowerOptions { style, disassemble: !args.no_disassembly };
            SinkOptions::Tarmac { lower, container: args.log_container(), write: args.log_options() }
        }
    })
}

fn open_options(args: &Args, kind: Option<FileKind>) -> anyhow::Result<OpenSteps> {
    Ok(OpenSteps {
        kind,
        source: args.source.clone(),
        codes: args.processes.codes(&args.images)?,
        spaces: args.processes.load()?,
        tarmac: tarmac::read::ReadOptions { parse: ParseOptions { implicit_thumb: args.implicit_thumb } },
        big_endian: args.big_endian,
        threads: args.jobs.threads(),
        ..OpenSteps::default()
    })
}

/// Joins the steps with those of `--accesses`.
fn joined(args: &Args, kind: FileKind, steps: OpenedSteps) -> anyhow::Result<OpenedSteps> {
    let Some(other) = &args.accesses else { return Ok(steps) };
    if is_standard(&args.input) || is_standard(other) {
        bail!("--accesses needs files: aligning the traces reads one of them twice");
    }
    Ok(Box::new(Join::new([steps, reopen(args, kind)?], open_other(args, other)?, pairing(args, kind)?)))
}

/// Steps of a capture or a bare buffer.
fn capture_steps(args: &Args) -> anyhow::Result<CaptureSteps> {
    let capture = match args.bare.open(slice::from_ref(&args.input), args.core_type())? {
        Some(capture) => capture,
        None => open_capture(&args.input)?,
    };
    let codes = args.processes.codes(&args.images)?;
    Ok(CaptureSteps::with_spaces(capture, args.source.as_deref(), &codes, &args.processes.load()?)?)
}

fn reopen(args: &Args, kind: FileKind) -> anyhow::Result<OpenedSteps> {
    match kind {
        FileKind::Capture => Ok(Box::new(capture_steps(args)?)),
        FileKind::Tarmac => {
            Ok(TarmacFile::open(&args.input, &args.tarmac().options(None))?.into_steps(args.big_endian).0)
        }
        kind => Ok(open_steps(&args.input, &open_options(args, Some(kind))?)?),
    }
}

fn open_other(args: &Args, path: &Path) -> anyhow::Result<OpenedSteps> {
    Ok(open_steps(path, &OpenSteps { source: None, ..open_options(args, None)? })?)
}

fn pairing(args: &Args, kind: FileKind) -> anyhow::Result<diff::Options> {
    let core = selected_core(args, kind)?.unwrap_or(0);
    Ok(diff::Options { cores: [core, args.accesses_core], ..diff::Options::default() })
}
