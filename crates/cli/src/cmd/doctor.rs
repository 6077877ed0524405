//! `doctor`: diagnoses a capture: what is wrong with it, what that costs, and what to do.
//!
//! Prints a verdict, and then findings with their evidence and remedies. Exit code 1 if one of them is a problem. The
//! library makes the findings.

use std::io::{self, Write};

use unspool::capture::{Capture, Code};
use unspool::doctor::{Diagnosis, Doctor, Finding, Severity};
use unspool::model::json::{Object, quoted};
use unspool::number::many;
use unspool::{Program, SpaceOptions, place_images};

use crate::args::{CaptureArgs, ImageArgs, OutputArgs};
use crate::diagnostic;
use crate::json::write_summary;
use crate::output::Output;
use crate::process_args::ProcessArgs;
use crate::progress::Progress;
use crate::style::Palette;
use crate::verdict::Verdict;

/// Diagnose a capture: what is wrong with its format, registers, synchronization, code and time, what was lost, and how to
/// record a better one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    processes: ProcessArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Lines of evidence that are printed per finding.
const MAX_LISTED: usize = 10;

const EXAMPLES: &str = "\
Examples:
  unspool doctor snapshot/
  unspool doctor perf.data --sysroot target/
  unspool doctor capture.zip --image vmlinux --json
  unspool doctor trbe.bin --protocol ete --image app.elf

The first line is the share of the trace that was decoded: P0 elements are branches, each with the instructions before it. A problem means that recorded trace is lost, cannot be decoded, or contradicts the code. Advice is about a more \
complete, more certain or smaller recording.
'unspool check' lists every violation with its offset; 'unspool info' lists what the capture contains.
Exit codes: 0 no problem, 1 there is a problem, 2 the command failed.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let capture = args.capture.open()?;
    let added = args.images.load()?;
    added.iter().try_for_each(Code::require_arm)?;
    let spaces = args.processes.load()?;
    let mut output = Output::open_beside(&args.output, &capture, &args.images.paths())?;
    let diagnosis = examine(&capture, added, &spaces);
    let verdict = Verdict::of(diagnosis.count(Severity::Problem) > 0);
    if args.output.json {
        let mut line = String::new();
        for finding in &diagnosis.findings {
            output.write(|out| json(&capture, finding, &mut line, out));
        }
        write_summary(&mut output, "doctor", verdict, |object| totals(&diagnosis, object));
    } else {
        let palette = output.palette;
        output.write(|out| text(&capture, &diagnosis, &palette, out));
    }
    output.finish()?;
    Ok(verdict)
}

/// Examines all traces, each with the program of its core.
fn examine(capture: &Capture, mut added: Vec<Code>, spaces: &SpaceOptions) -> Diagnosis {
    let mut doctor = Doctor::new(capture, &mut Progress::new(false).callback());
    doctor.add_notes(place_images(capture, &mut added));
    // Files of processes, and images that all cores have, are the same for all.
    let has_cores = capture.has_images_of_cores();
    let mut loaded: Option<(Option<usize>, Program)> = None;
    for trace in doctor.traces() {
        let core = trace.source().core.filter(|_| has_cores);
        let program = match loaded.take() {
            Some((of, program)) if of == core => program,
            _ => {
                let (program, notes) = Program::with_spaces(capture, core, &added, spaces);
                doctor.add_notes(notes);
                program
            }
        };
        doctor.examine(&trace, &program, &mut Progress::new(false).callback());
        loaded = Some((core, program));
    }
    doctor.finish()
}

fn text(capture: &Capture, diagnosis: &Diagnosis, palette: &Palette, out: &mut dyn Write) -> io::Result<()> {
    let Palette { heading, reset, .. } = palette;
    writeln!(out, "{heading}{}: {}{reset}", capture.path.display(), diagnosis.verdict())?;
    for finding in &diagnosis.findings {
        finding_text(finding, palette, out)?;
    }
    writeln!(out, "{}", counts(diagnosis))
}

fn finding_text(finding: &Finding, palette: &Palette, out: &mut dyn Write) -> io::Result<()> {
    let color = match finding.severity {
        Severity::Problem => palette.problem,
        Severity::Advice => palette.mark,
        Severity::Fine => palette.added,
    };
    let severity = palette.paint(color, finding.severity.name());
    writeln!(out, "{severity}: {}: {}", finding.topic, finding.title)?;
    let limit = if diagnostic::is_verbose() { usize::MAX } else { MAX_LISTED };
    finding.evidence.iter().take(limit).try_for_each(|evidence| writeln!(out, "    {evidence}"))?;
    if finding.evidence.len() > limit {
        writeln!(out, "    and {} more; -v shows all of them", finding.evidence.len() - limit)?;
    }
    finding.remedies.iter().try_for_each(|remedy| writeln!(out, "  > {remedy}"))
}

/// Counts of findings by severity.
fn counts(diagnosis: &Diagnosis) -> String {
    let [problems, advice, fine] = Severity::ALL.map(|severity| diagnosis.count(severity) as u64);
    format!("{}, {} with advice, {fine} fine", many(problems, "problem"), many(advice, "finding"))
}

fn json(capture: &Capture, finding: &Finding, line: &mut String, out: &mut dyn Write) -> io::Result<()> {
    let mut object = Object::new(line);
    object.string("kind", "finding").string("file", capture.path.display());
    object.string("topic", finding.topic).string("severity", finding.severity).string("what", &finding.title);
    object.list("evidence", &finding.evidence, |line, evidence| {
        let mut object = Object::nested(line);
        object.nullable_string("place", evidence.place.as_ref());
        object.nullable_string("buffer", evidence.buffer.as_ref()).nullable("offset", evidence.offset);
        object.string("what", &evidence.text).close_nested();
    });
    object.list("remedies", &finding.remedies, quoted);
    object.write_line(out)
}

/// Totals of the last line of JSON.
fn totals(diagnosis: &Diagnosis, object: &mut Object<'_>) {
    object.plain("sources", diagnosis.sources).plain("bytes", diagnosis.bytes);
    object.plain("instructions", diagnosis.instructions).plain("p0_elements", diagnosis.elements);
    object.plain("followed", diagnosis.followed);
    if diagnosis.written > 0 {
        object.plain("written", diagnosis.written);
    }
    let [problems, advice, fine] = Severity::ALL.map(|severity| diagnosis.count(severity));
    object.plain("problems", problems).plain("advice", advice).plain("fine", fine);
    object.string("verdict", diagnosis.verdict());
}
