//! `check`: checks traces against the rules of their formats, and their steps against the architecture.
//!
//! Prints findings as they are found, and then totals per rule. The rules of the format come first, then those of steps,
//! which are the same for all formats; of a capture, both at once. Exit code 1 if there is an error. `report` prints.

mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use unspool::capture::Capture;
use unspool::check::{PlaceSource, StepCheck, TraceChecks};
use unspool::file::{TarmacFile, TraceFile, is_capture, is_pipe, peek};
use unspool::{
    Error, FileError, FileKind, Meter, OpenSteps, OpenedSteps, Program, Trace, open_capture, open_steps, open_steps_of,
};

use self::report::{FileReport, Report};
use crate::args::{BareArgs, CoreTypeArgs, ImageArgs, JobsArgs, OutputArgs, SourceArgs};
use crate::diagnostic;
use crate::file::{TarmacArgs, end_verdict, losses_verdict, open, report_lines, stf_verdict};
use crate::listing::each_trace;
use crate::output::{Output, is_read_from, is_same};
use crate::process_args::ProcessArgs;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Check traces against the rules of their formats and of the architecture; each finding has a stable rule name and a
/// position
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// ASTF file, STF file, Tarmac log ('-': standard input), snapshot directory, trace package or a .zip of either. Several
    /// are checked one after the other. With --protocol: a bare buffer, or its parts in order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Print at most N findings per rule and file; the summary counts all
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Treat warnings as errors: exit code 1
    #[arg(long)]
    strict: bool,

    /// Check only the format, not the execution
    #[arg(long)]
    native: bool,

    /// Check only the execution (instructions, exceptions, contexts) against the architecture
    #[arg(long, conflicts_with = "native")]
    steps: bool,

    #[command(flatten)]
    jobs: JobsArgs,
    #[command(flatten)]
    tarmac: TarmacArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    processes: ProcessArgs,
    #[command(flatten)]
    bare: BareArgs,
    #[command(flatten)]
    core: CoreTypeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    fn threads(&self) -> usize {
        self.jobs.count()
    }
}

const EXAMPLES: &str = "\
Examples:
  unspool check trace.astf
  unspool check trace.zstf --limit 3 --strict
  unspool check run.tarmac.xz --steps
  unspool check snapshot/ --source 0x10 --image app.elf
  unspool check *.astf
  unspool check trbe.bin --protocol ete --image app.elf
  unspool check trace.astf --json | jq -r .rule | sort | uniq -c

Errors are violations of the format or the architecture: exit code 1. Warnings report what is discouraged, unexpected, lost \
or missing; the exit code stays 0 unless --strict is given.
A capture is checked from its frames to its execution. Each region of code that is missing from all images gives one \
warning. Facts that are absent from the trace, and state that is unknown after a gap, are not checked.
Offsets refer to uncompressed records; in a capture, to its buffer.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut programs = Programs::new(args.processes.codes(&args.images)?, args.processes.load()?);
    let mut report = Report::new(args);
    let (mut verdict, mut failed) = (Verdict::Clean, None);
    // The files may be the parts of one bare buffer.
    let size = if args.bare.is_given() { args.files.len() } else { 1 };
    for paths in args.files.chunks(size.max(1)) {
        let [path, ..] = paths else { continue };
        let mut file = FileReport::new(args, path);
        let checked = match args.bare.open(paths, args.core.name()) {
            Ok(Some(capture)) => check_capture(args, &capture, &mut programs, &mut report, &mut file),
            Ok(None) => check_path(args, path, &mut programs, &mut report, &mut file),
            Err(error) => Err(error),
        };
        verdict = verdict.or(report.end_file(&file));
        match checked {
            Ok(checked) => verdict = verdict.or(checked),
            Err(error) if args.files.len() == paths.len() => failed = Some(error),
            Err(error) => {
                diagnostic::error(format_args!("{error:#}"));
                verdict = verdict.or(Verdict::Problems);
                let is_damaged = matches!(error.downcast_ref(), Some(FileError::Damaged(_)));
                failed = failed.or((!is_damaged).then(|| anyhow!("not all of the files could be checked")));
            }
        }
    }
    report.finish(verdict)?;
    programs.finish();
    failed.map_or(Ok(verdict), Err)
}

fn check_path(
    args: &Args,
    path: &Path,
    programs: &mut Programs,
    report: &mut Report<'_>,
    file: &mut FileReport<'_>,
) -> anyhow::Result<Verdict> {
    if !args.tarmac.is_given() && (path.is_dir() || is_capture(path)) {
        return check_capture(args, &open_capture(path)?, programs, report, file);
    }
    if args.steps {
        return check_steps(args, path, false, report, file);
    }
    let mut trace = open(path, None, &args.tarmac)?;
    let steps = start_steps(args, path, &mut file.name);
    let verdict = check_format(&mut trace, report.start()?, file)?;
    drop(trace);
    if args.native {
        return Ok(verdict);
    }
    if is_pipe(path) {
        file.is_read_once = true;
        return Ok(verdict);
    }
    let checked = match steps {
        Some((kind, steps)) => {
            let joined = file.with(None, report.start()?, |check, take| check.join(kind, steps, take));
            match joined {
                Err(error) if !error.is_damage => Err(error).with_context(|| file.name.clone()),
                _ => Ok(Verdict::Clean),
            }
        }
        None => check_steps(args, path, true, report, file),
    };
    match checked {
        Err(error) if matches!(verdict, Verdict::Clean) => Err(error),
        // Steps end where the format ends, and the reason was reported.
        _ => Ok(verdict),
    }
}

/// Starts to check the steps of a file while its format is checked. `None`: one after the other.
fn start_steps(args: &Args, path: &Path, name: &mut String) -> Option<(FileKind, StepCheck)> {
    if args.native || args.threads() < 2 || is_pipe(path) {
        return None;
    }
    // What cannot be opened is reported by the check that follows.
    let (kind, steps, _) = open_file_steps(args, path, name).ok()?;
    Some((kind, StepCheck::start(steps).ok()?))
}

/// Checks a file against the rules of its format.
fn check_format(trace: &mut TraceFile, output: &mut Output, file: &mut FileReport<'_>) -> anyhow::Result<Verdict> {
    (file.name, file.unit) = (trace.name().to_string(), trace.kind().unit());
    let mut progress = Progress::new(false);
    let end = file.with(None, output, |check, take| check.file(trace, &mut progress.callback(), take));
    if let TraceFile::Tarmac(log) = trace {
        report_lines(log);
    }
    let end = end?;
    let TraceFile::Stf(trace) = trace else { return Ok(end_verdict(&end)) };
    let verdict = stf_verdict(trace, &end);
    // Oddities of the container have no rule.
    file.is_odd = !trace.warnings().is_empty();
    Ok(verdict)
}

/// Checks the steps of a file or a pipe. `is_again`: damage was reported already.
fn check_steps(
    args: &Args,
    path: &Path,
    is_again: bool,
    report: &mut Report<'_>,
    file: &mut FileReport<'_>,
) -> anyhow::Result<Verdict> {
    let (kind, mut source, meter) = open_file_steps(args, path, &mut file.name)?;
    file.unit = kind.unit();
    let output = report.start()?;
    let mut progress = Progress::new(false);
    let checked = file
        .with(None, output, |check, take| check.steps(kind, &mut *source, (&meter, &mut progress.callback()), take));
    match checked {
        // Checking the format has reported each line.
        Ok(()) if is_again => Ok(Verdict::Clean),
        Ok(()) => Ok(losses_verdict(&file.name, &source.losses())),
        Err(error) if error.is_damage => {
            if !is_again {
                diagnostic::error(format_args!("{}: {error}", file.name));
            }
            Ok(Verdict::Problems)
        }
        Err(error) => Err(error).with_context(|| file.name.clone()),
    }
}

/// Opens the steps of a file or a pipe, and sets its name.
fn open_file_steps(args: &Args, path: &Path, name: &mut String) -> anyhow::Result<(FileKind, OpenedSteps, Meter)> {
    if args.tarmac.is_given() {
        let log = TarmacFile::open(path, &args.tarmac.options(None))?;
        log.name().clone_into(name);
        let (steps, meter) = log.into_steps(false);
        return Ok((FileKind::Tarmac, steps, meter));
    }
    let options = OpenSteps::default();
    let read = Arc::clone(&options.bytes_read);
    if is_pipe(path) {
        let (kind, input);
        (*name, kind, input) = peek(path)?;
        let steps = open_steps_of(name, input, &OpenSteps { kind: Some(kind), ..options })?;
        return Ok((kind, steps, Meter { read, size: None }));
    }
    let kind = FileKind::at(path).with_context(|| name.clone())?;
    let size = path.metadata().ok().map(|metadata| metadata.len());
    let steps = open_steps(path, &OpenSteps { kind: Some(kind), ..options })?;
    Ok((kind, steps, Meter { read, size }))
}

fn check_capture(
    args: &Args,
    capture: &Capture,
    programs: &mut Programs,
    report: &mut Report<'_>,
    file: &mut FileReport<'_>,
) -> anyhow::Result<Verdict> {
    programs.start(capture);
    let (output, mut buffers) = (report.start()?, BTreeSet::new());
    each_trace(capture, &args.sources, |trace| {
        trace.features()?;
        let program = programs.of(capture, trace.source().core);
        let checks = TraceChecks {
            native: !args.steps,
            frames: buffers.insert(trace.buffer_index()),
            steps: !args.native,
            threads: args.threads(),
        };
        check_trace(trace, program, checks, output, file)
    })
}

fn check_trace(
    trace: &Trace<'_>,
    program: &Program,
    checks: TraceChecks,
    output: &mut Output,
    file: &mut FileReport<'_>,
) -> Result<Verdict, Error> {
    let source = trace.source();
    // A recording that was stopped and restarted may describe the same source under two names.
    file.add_source(source.id.map_or_else(|| source.name.clone(), |id| id.to_string()));
    let place = PlaceSource { id: source.id, name: &source.name, session: trace.session() };
    let mut progress = Progress::new(false);
    file.with(Some(place), output, |check, take| check.trace(trace, program, checks, &mut progress.callback(), take))?;
    Ok(Verdict::Clean)
}

/// What is read from a path that the output should be written to, if it is an input.
fn role_of(path: &Path, args: &Args) -> Option<&'static str> {
    let is_read = |input: &PathBuf| {
        let capture = || is_capture(input).then(|| Capture::open(input).ok()).flatten();
        is_same(path, input) || capture().is_some_and(|capture| is_read_from(path, &capture))
    };
    if args.files.iter().any(is_read) {
        return Some("the trace");
    }
    args.images.paths().iter().any(|image| is_same(path, image)).then_some("code")
}
