//! The rules of steps, which are the same whatever the format.
//!
//! Comes in: a trace file, a pipe, or the sources of a capture. Goes out: findings into the report.

use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::{Context, bail};
use unspool::analyze::check::{Checker, Finding, Severity};
use unspool::capture::{Capture, Code};
use unspool::model::{Event, SourceError, StepSource};
use unspool::{OpenSteps, OpenedSteps, What, open_steps, open_steps_of};

use super::super::unreadable;
use super::report::{Found, Report, Rule};
use super::{Args, is_pipe};
use crate::Verdict;
use crate::args::tell;
use crate::file::pipe;
use crate::output::Output;
use crate::progress::{Meter, Progress};
use crate::tarmac::Tarmac;

/// How many steps go by between two looks at the progress bar.
const STRIDE: u64 = 1 << 16;

/// Checks the steps of a file or a pipe. `is_again`: damage was told already.
pub(super) fn of_file(
    args: &Args,
    report: &mut Report<'_>,
    output: &mut Output,
    is_again: bool,
) -> anyhow::Result<Verdict> {
    let (what, mut source, meter) = open(args, report)?;
    let unit = if what == What::Tarmac { "line" } else { "record" };
    let name = report.name.clone();
    report.begin(&name, unit);
    let mut progress = Progress::new(output.on_terminal);
    match go_through(&mut *source, report, output, || meter.show(&mut progress)) {
        // The rules of the format have told of each line.
        Ok(()) if is_again => Ok(Verdict::Clean),
        Ok(()) => Ok(unreadable(&name, &source.losses())),
        Err(error) if error.is_damage => {
            if !is_again {
                tell(format_args!("{name}: {error}"));
            }
            Ok(Verdict::Problems)
        }
        Err(error) => Err(error).with_context(|| name),
    }
}

fn open(args: &Args, report: &mut Report<'_>) -> anyhow::Result<(What, OpenedSteps, Meter)> {
    if args.tarmac.is_said() {
        let log = Tarmac::open(&args.file, &args.tarmac)?;
        log.name().clone_into(&mut report.name);
        let (steps, meter) = log.into_steps(false);
        return Ok((What::Tarmac, steps, meter));
    }
    let options = OpenSteps::default();
    let read = Arc::clone(&options.bytes_read);
    if !is_pipe(args) {
        let what = What::at(&args.file).with_context(|| report.name.clone())?;
        let options = OpenSteps { what: Some(what), ..options };
        let size = args.file.metadata().ok().map(|about| about.len());
        return Ok((what, open_steps(&args.file, &options)?, Meter { read, size }));
    }
    let (name, input) = pipe(&args.file).with_context(|| report.name.clone())?;
    report.name = name;
    let (what, input) = What::peek(input).with_context(|| report.name.clone())?;
    let options = OpenSteps { what: Some(what), ..options };
    Ok((what, open_steps_of(&report.name, input, &options)?, Meter { read, size: None }))
}

/// Checks the sources of a capture that were asked for.
pub(super) fn of_capture(args: &Args, report: &mut Report<'_>) -> anyhow::Result<(Output, anyhow::Result<Verdict>)> {
    let capture = Capture::open(&args.file)?;
    let codes = args.images.load()?;
    let mut names: Vec<String> = Vec::new();
    for trace in args.sources.select(&capture)? {
        let name = &trace.source().name;
        if names.last() != Some(name) {
            names.push(name.clone());
        }
    }
    let others: Vec<_> = args.images.paths().collect();
    let mut output = Output::open_beside(&args.output, &capture, &others)?;
    drop(capture);
    let mut verdict = Ok(Verdict::Clean);
    for name in names {
        verdict = of_source(args, name, &codes, report, &mut output);
        if verdict.is_err() {
            break;
        }
    }
    if verdict.is_ok() && report.sources == 0 {
        bail!("{}: no trace source could be read; 'unspool info' tells what is there", report.name);
    }
    Ok((output, verdict))
}

fn of_source(
    args: &Args,
    name: String,
    codes: &[Code],
    report: &mut Report<'_>,
    output: &mut Output,
) -> anyhow::Result<Verdict> {
    let options = OpenSteps { source: Some(name.clone()), codes: codes.to_vec(), ..OpenSteps::default() };
    let mut source = match open_steps(&args.file, &options) {
        Ok(source) => source,
        // Other kinds of trace are beside it in many captures.
        Err(error) if args.sources.is_empty() => {
            tell(format_args!("{}: {error}", report.name));
            return Ok(Verdict::Clean);
        }
        Err(error) => return Err(error.into()),
    };
    report.source = Some(name);
    report.sources += 1;
    go_through(&mut *source, report, output, || {}).map_err(|error| anyhow::anyhow!("{}: {error}", report.name))?;
    Ok(Verdict::Clean)
}

/// Checks all steps of a source.
fn go_through(
    source: &mut dyn StepSource,
    report: &mut Report<'_>,
    output: &mut Output,
    mut look: impl FnMut(),
) -> Result<(), SourceError> {
    let mut checker = Checker::new(source.coverage());
    let before = report.steps.unwrap_or_default();
    report.steps = Some(before);
    let (mut steps, mut gaps) = (0_u64, 0_u64);
    let mut place = 0;
    let told = source.each(&mut |step| {
        steps += 1;
        gaps += u64::from(matches!(step.event, Event::Gap(_)));
        place = step.place;
        checker.step(step, &mut |finding| report.add_step(&of_step(&finding), place, output));
        if steps.is_multiple_of(STRIDE) {
            look();
        }
        if output.is_open() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    checker.finish(&mut |finding| report.add_step(&of_step(&finding), place, output));
    if let Some(all) = &mut report.steps {
        all.steps += steps;
        all.gaps += gaps;
        all.repeats += checker.repeats();
    }
    told
}

fn of_step(finding: &Finding) -> Found<'_> {
    let unspool::analyze::check::Rule { name, severity, section, says } = *finding.rule;
    let rule = Rule { name, is_error: severity == Severity::Error, section, says };
    Found { core: Some(finding.core), ..Found::new(rule, finding.place, &finding.detail) }
}
