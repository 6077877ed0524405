//! `calls`: prints the call tree of a trace.
//!
//! The tree is kept in a temporary file until the trace ends, since the line of a call comes before those of its callees and
//! contains its end.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::Context;
use unspool::analyze::calls::{Began, Call, CallLine, Ended};
use unspool::model::digits::push_decimal;
use unspool::{CallForest, FileKind, call_forest};

use super::follow::{CallArgs, NamedStack, Part};
use crate::args::OutputArgs;
use crate::json::write_summary;
use crate::verdict::Verdict;

/// Print the call tree of a trace, each call with its position, times and instructions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    calls: CallArgs,
    #[command(flatten)]
    output: OutputArgs,

    /// Only this process: its number, or the file name of its program. Can be repeated
    #[arg(long, value_name = "PID|NAME")]
    process: Vec<String>,

    /// Omit calls that are nested more than N deep
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  unspool calls run.tarmac --image program.elf
  unspool calls snapshot/ --source 0x10 --depth 3
  unspool calls trace.astf --image program.elf --json
  unspool calls run.tarmac --core cpu1 --json

Columns: the first and the last line of the call in a log, or its first and last record in an ASTF or STF file, or the offsets of \
both in the buffer of a capture; 'time' and 'to', the times of both, if the trace has times; 'instructions', their number from the first to the last, \
callees included; 'function', indented by the depth of the call. The first call of a stack is the function that it was in when the \
trace started. Each thread has a tree, if the trace shows threads; otherwise each process of a core, or each core.

Calls are recognized by branches with link and by return addresses, and by the stack pointer if the trace has registers; \
exception handlers are shown as calls too. After a gap the stack is uncertain: what follows is a call that began in the gap until \
a return leads to a call from before the gap, which may be a later call of the same place. A function that another one jumps to, as in a tail call, is a part of that one.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.calls.open_output(&args.output)?;
    let (mut count, mut parts) = (0, 0);
    let verdict = args.calls.each(&args.process, output.on_terminal, call_forest, |part, mut forest| {
        let mut listing = Listing { args, part, names: HashMap::new(), line: String::new(), count: 0 };
        let mut written = Ok(());
        output.write(|out| {
            written = listing.part(&mut forest, parts > 0, out);
            Ok(())
        });
        (count, parts) = (count + listing.count, parts + 1);
        written.context("cannot write the call tree")
    })?;
    if args.output.json {
        write_summary(&mut output, "calls", verdict, |object| {
            object.plain("calls", count);
        });
    }
    output.finish()?;
    Ok(verdict)
}

const MAX_NAMES: usize = 1 << 16;

struct Listing<'a> {
    args: &'a Args,
    part: &'a Part<'a>,
    names: HashMap<(Option<u64>, u64), String>,
    line: String,
    /// Number of calls so far.
    count: u64,
}

impl Listing<'_> {
    fn part(&mut self, forest: &mut CallForest, has_parts_before: bool, out: &mut dyn Write) -> io::Result<()> {
        if let Some(name) = self.part.heading.as_ref().filter(|_| !self.args.output.json) {
            writeln!(out, "{}# {name}", if has_parts_before { "\n" } else { "" })?;
        }
        self.part.stacks.iter().try_for_each(|stack| self.stack(stack, forest, out))
    }

    fn stack(&mut self, stack: &NamedStack, forest: &mut CallForest, out: &mut dyn Write) -> io::Result<()> {
        let Args { calls: CallArgs { complete, .. }, output, depth: limit, .. } = self.args;
        if !output.json {
            self.heading(stack, out)?;
        }
        let keep = |call: &Call| !complete || call.is_complete() || call.is_root();
        forest.each(stack.number, keep, |depth, call| match limit {
            Some(limit) if depth > *limit => Ok(()),
            _ if output.json => self.json(stack, depth, call, out),
            _ => self.text(stack, depth, call, out),
        })
    }

    fn heading(&self, stack: &NamedStack, out: &mut dyn Write) -> io::Result<()> {
        let Part { kind, times, has_several, .. } = self.part;
        match stack.heading(*has_several) {
            heading if heading.is_empty() => {}
            heading => writeln!(out, "# {heading}")?,
        }
        let time = if times.unit.is_empty() { "time".to_string() } else { format!("time ({})", times.unit) };
        let times = if times.are_known { format!(" {time:>14} {:>14}", "to") } else { String::new() };
        let (position, to_position) = (kind.unit(), format!("to {}", kind.unit()));
        writeln!(out, "# {position:>8} {to_position:>10}{times} {:>12}  function", "instructions")
    }

    fn text(&mut self, stack: &NamedStack, depth: usize, call: &Call, out: &mut dyn Write) -> io::Result<()> {
        let Self { part, names, line, .. } = self;
        let Call { entry, exit, function: address, .. } = call;
        line.clear();
        push_right(line, 10, entry.position);
        push_right(line, 11, exit.position);
        match part.times.decimals {
            _ if !part.times.are_known => {}
            0 => [entry.time, exit.time].iter().for_each(|at| push_right(line, 15, *at)),
            _ => [entry.time, exit.time].iter().for_each(|at| line.push_str(&format!(" {:>14}", part.times.text(*at)))),
        }
        push_right(line, 13, call.total().instructions);
        line.extend(std::iter::repeat_n(' ', 2 + depth * 2));
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let name = names.entry((stack.process, *address)).or_insert_with(|| part.function(stack.process, *address));
        line.push_str(name);
        line.push_str(note(call, part.kind));
        line.push('\n');
        self.count += 1;
        out.write_all(line.as_bytes())
    }

    fn json(&mut self, stack: &NamedStack, depth: usize, call: &Call, out: &mut dyn Write) -> io::Result<()> {
        let Self { part, .. } = *self;
        let name = part.function(stack.process, call.function);
        self.count += 1;
        let about = CallLine {
            core: &stack.core,
            process: stack.process,
            thread: stack.thread,
            depth,
            name: &name,
            position: part.kind.unit(),
            unit: part.times.unit,
        };
        call.write_json(&about, &|at| part.times.text(at), &mut self.line);
        out.write_all(self.line.as_bytes())
    }
}

/// Adds a right-aligned number. Trees have millions of lines, and the formatter is slower.
fn push_right(line: &mut String, width: usize, number: u64) {
    let digits = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    // Columns do not touch, however long a number is.
    line.extend(std::iter::repeat_n(' ', width.saturating_sub(digits).max(1)));
    push_decimal(line, number);
}

/// Remark about an unusual call.
fn note(call: &Call, kind: FileKind) -> &'static str {
    match (call.began, call.ended) {
        (Began::Called, Ended::Returned) if call.has_gap => " (with a gap)",
        (Began::Start, _) | (Began::Called, Ended::Returned) => "",
        (Began::Before, _) if kind == FileKind::Tarmac => " (began before the log)",
        (Began::Before, _) => " (began before the trace)",
        (Began::Exception, Ended::AtEnd) => " (exception, unfinished)",
        (Began::Exception, Ended::InGap) => " (exception, ended in a gap)",
        (Began::Exception, _) => " (exception)",
        (Began::Gap, _) => " (began in a gap)",
        (Began::Called, Ended::AtEnd) => " (unfinished)",
        (Began::Called, Ended::InGap) => " (ended in a gap)",
        (Began::Called, Ended::Unwound) => " (left without a return)",
    }
}
