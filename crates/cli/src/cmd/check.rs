//! `check`: does a trace keep to the rules of its format, and could a processor have done what it tells?
//!
//! Comes in: a trace file or a capture. Goes out: findings as they are found, and how often each rule was broken. The
//! rules of the format come first, then those of steps, which are the same for all formats. Exit 1 if there is an error.

mod native;
mod report;
mod steps;

use std::path::PathBuf;

use anyhow::bail;
use unspool::What;
use unspool::capture::Capture;

use self::report::Report;
use crate::Verdict;
use crate::args::{ImageArgs, OutputArgs, SourceArgs};
use crate::astf::is_standard;
use crate::file;
use crate::output::Output;
use crate::tarmac::TarmacArgs;

/// Check a trace: an ASTF or STF file or a Tarmac log against the rules of its format, and the steps of any of them or of a
/// capture against what processors do; each finding has a stable rule name and a place
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An ASTF or STF file or a Tarmac log ('-': standard input), or a capture
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print at most N findings of each rule; the summary counts all
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Warnings are problems too: exit code 1
    #[arg(long)]
    deny_warnings: bool,

    /// Check the rules of the format only
    #[arg(long)]
    native: bool,

    /// Check the steps only
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

Errors are what the format forbids, or what no processor does: exit code 1. Warnings are what it advises against, or what
is not expected: exit code 0. What a trace cannot tell is not judged, and gaps excuse what is behind them. A capture has
no rules of its own here: 'unspool decode' tells of its packets.
Offsets are those of the records when nothing is compressed; in a capture, those of its buffer.";

/// Checks.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if is_capture(args) {
        return check_capture(args);
    }
    if args.steps {
        return check_steps(args);
    }
    let Some(opened) = file::open(&args.file, None, &args.tarmac)? else { return Ok(Verdict::Problems) };
    let mut output = Output::open_for(&args.output, &args.file)?;
    let mut report = Report::new(args);
    let end = native::check(opened, &mut report, &mut output);
    let verdict = match end {
        Ok(verdict) if !args.native && is_pipe(args) => {
            report.is_read_once = true;
            Ok(verdict)
        }
        // Where the format ends, so do the steps, and why was told.
        Ok(verdict) if !args.native => match steps::of_file(args, &mut report, &mut output, true) {
            Err(error) if matches!(verdict, Verdict::Clean) => Err(error),
            _ => Ok(verdict),
        },
        end => end,
    };
    finish(args, report, output, verdict)
}

fn check_steps(args: &Args) -> anyhow::Result<Verdict> {
    let mut report = Report::new(args);
    let mut output = Output::open_for(&args.output, &args.file)?;
    let verdict = steps::of_file(args, &mut report, &mut output, false);
    finish(args, report, output, verdict)
}

fn check_capture(args: &Args) -> anyhow::Result<Verdict> {
    if args.native {
        bail!("{}: a capture has no rules of its own to check; its steps have", args.file.display());
    }
    let mut report = Report::new(args);
    let (output, verdict) = steps::of_capture(args, &mut report)?;
    finish(args, report, output, verdict)
}

/// Tells what it came to, even if reading could not go on.
fn finish(
    args: &Args,
    mut report: Report<'_>,
    mut output: Output,
    verdict: anyhow::Result<Verdict>,
) -> anyhow::Result<Verdict> {
    output.write(|out| report.summary(out));
    output.finish()?;
    let verdict = verdict?;
    Ok(if report.is_bad(args.deny_warnings) { Verdict::Problems } else { verdict })
}

/// Is it a capture, and not just anything?
fn is_capture(args: &Args) -> bool {
    let is_meant = !is_pipe(args) && !args.tarmac.is_said();
    let is_capture = || matches!(What::at(&args.file), Ok(What::Capture));
    is_meant && is_capture() && (args.file.is_dir() || Capture::open(&args.file).is_ok())
}

/// Can it be read only once?
fn is_pipe(args: &Args) -> bool {
    is_standard(&args.file) || args.file.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir())
}
