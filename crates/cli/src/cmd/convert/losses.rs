//! Loss reports of `convert`, on standard error, since standard output may be the trace.

use std::io::{self, Write};
use std::path::Path;

use unspool::convert::report::LossReport;
use unspool::model::json::Object;
use unspool::number::many;
use unspool::target::is_stream;

use super::args::Args;
use crate::diagnostic;
use crate::verdict::Verdict;

pub(super) fn print_losses(args: &Args, name: &str, report: &LossReport) {
    if args.json {
        let mut text = String::new();
        report.push_json(&mut text);
        return print_json(&text);
    }
    report.lines().iter().for_each(|line| diagnostic::warning(format_args!("{name}: {line}")));
}

/// Prints that the output is not kept because of losses.
pub(super) fn print_denial(args: &Args, name: &str, report: &LossReport) {
    if args.json {
        print_losses(args, name, report);
        let written = if is_stream(args.output()) { "part" } else { "nothing" };
        let mut line = String::new();
        Object::new(&mut line).string("kind", "denied").string("written", written).end_line();
        return print_json(&line);
    }
    diagnostic::error(format_args!("{name}: {}; {}", report.refusal(), unkept(args)));
}

/// Prints that the output is not kept because the source had to be corrected.
pub(super) fn print_rejection(args: &Args, name: &str, corrections: &str) {
    diagnostic::error(format_args!("{name}: {corrections}: rejected because of --strict; {}", unkept(args)));
}

/// Prints what was written, with the number of instructions if it is known.
pub(super) fn print_written(args: &Args, path: &Path, instructions: Option<u64>) {
    let Some(bytes) = path.metadata().ok().filter(|_| !is_stream(path)).map(|metadata| metadata.len()) else { return };
    if args.json {
        let mut line = String::new();
        let mut object = Object::new(&mut line);
        object.string("kind", "written").string("file", path.display().to_string());
        object.optional("instructions", instructions).plain("bytes", bytes).end_line();
        return print_json(&line);
    }
    let instructions = instructions.map_or(String::new(), |count| format!("{}, ", many(count, "instruction")));
    diagnostic::note(format_args!("wrote {}: {instructions}{}", path.display(), many(bytes, "byte")));
}

/// Ends JSON.
pub(super) fn print_summary(verdict: Verdict) {
    let mut line = String::new();
    Object::summary(&mut line, "convert").flag("clean", matches!(verdict, Verdict::Clean)).end_line();
    print_json(&line);
}

pub(super) fn print_other_cores(args: &Args, name: &str, steps: u64) {
    if steps > 0 && args.json {
        let mut line = String::new();
        Object::new(&mut line)
            .string("kind", "left_out")
            .string("what", "other-cores")
            .plain("count", steps)
            .end_line();
        print_json(&line);
    } else if steps > 0 {
        diagnostic::warning(format_args!("{name}: {} of other cores omitted", many(steps, "step")));
    }
}

fn print_json(text: &str) {
    // With standard error closed, messages are dropped.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// State of an output that is not kept.
pub(super) fn unkept(args: &Args) -> &'static str {
    if is_stream(args.output()) { "the output so far is incomplete" } else { "nothing was written" }
}
