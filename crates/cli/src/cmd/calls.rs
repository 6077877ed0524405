//! `calls`: prints the call tree of a Tarmac log.
//!
//! The tree is kept in a temporary file until the log ends, since the line of a call comes before those of its callees and
//! contains its end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};

use anyhow::{Context, bail};
use unspool::analyze::calls::{Began, Call, Ended};
use unspool::analyze::tree::Tree;
use unspool::capture::Code;
use unspool::file::TarmacFile;
use unspool::model::digits::push_decimal;
use unspool::{CallForest, Clock, Program, TarmacCalls};

use crate::args::{ImageArgs, OutputArgs};
use crate::file::{FileArgs, open_log, tarmac_verdict};
use crate::json::write_summary;
use crate::output::Output;
use crate::progress::Progress;
use crate::symbols::{printable, symbol_text};
use crate::verdict::Verdict;

/// Print the call tree of a Tarmac log, each call with its lines, times and instructions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    calls: CallArgs,

    /// Omit calls that are nested more than N deep
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
}

/// Arguments of the verbs that follow calls.
#[derive(Debug, clap::Args)]
pub(super) struct CallArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    #[command(flatten)]
    images: ImageArgs,

    /// Only this core: its number, counted from 0 in order of appearance, or its name
    #[arg(long, value_name = "CORE")]
    core: Option<String>,

    /// Only calls whose start and end are both in the log
    #[arg(long)]
    pub(super) complete: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool calls run.tarmac --image program.elf
  unspool calls run.tarmac --image program.elf --depth 3
  unspool calls run.tarmac --core cpu1 --json

Reads only Tarmac logs: convert other traces first. Columns: 'line' and 'to line', the first and the last line of the call in the log; 'time' and 'to', the times of both, if \
the log has times; 'instructions', their number from the first to the last, callees included; 'function', indented by the depth \
of the call. The first call of a core is the function that it was in when the log started. Calls are recognized \
by branches with link, return addresses and the stack pointer; exception handlers are shown as calls too.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let (mut file, program, mut output) = args.calls.open()?;
    let mut forest = CallForest::default();
    let mut progress = Progress::new(output.on_terminal);
    let (calls, end) = file.calls(&mut progress.callback(), &mut |core, call| forest.add(core, call))?;
    let names = args.calls.cores(&calls)?;
    let (clock, line) = (calls.clock(), String::new());
    let mut listing = Listing { args, program: &program, clock, names: HashMap::new(), line, count: 0 };
    for (core, name) in names {
        let Some(tree) = forest.tree(core).context("cannot create a temporary file for the call tree")? else {
            continue;
        };
        let mut written = Ok(());
        output.write(|out| {
            written = listing.core(&name, tree, out);
            Ok(())
        });
        written.context("cannot write the call tree")?;
    }
    let verdict = tarmac_verdict(&mut file, &end);
    if args.calls.output.json {
        write_summary(&mut output, "calls", verdict, |object| {
            object.plain("calls", listing.count);
        });
    }
    output.finish()?;
    Ok(verdict)
}

impl CallArgs {
    /// Opens log, program and output. Calls of other formats are not supported yet.
    pub(super) fn open(&self) -> anyhow::Result<(TarmacFile, Program, Output)> {
        let file = open_log(&self.file.file, &self.file.tarmac)?;
        let images = self.images.load_for(&self.file.file)?;
        images.iter().try_for_each(Code::require_arm)?;
        let program = Program::new(images);
        Ok((file, program, Output::open_for(&self.output, &self.file.file)?))
    }

    /// Index and name of the selected cores.
    pub(super) fn cores(&self, calls: &TarmacCalls) -> anyhow::Result<Vec<(usize, String)>> {
        let names = calls.cores().map(|name| String::from_utf8_lossy(name).into_owned());
        let all: Vec<(usize, String)> = names.enumerate().collect();
        let Some(wanted) = &self.core else { return Ok(all) };
        let by_number = all.iter().find(|(number, _)| wanted.parse() == Ok(*number));
        let by_name = || all.iter().find(|(_, name)| name == wanted);
        let Some(found) = by_number.or_else(by_name) else {
            let name =
                |(number, name): &(usize, String)| if name.is_empty() { number.to_string() } else { name.clone() };
            bail!("no core '{wanted}' in the log; cores: {}", all.iter().map(name).collect::<Vec<_>>().join(", "));
        };
        Ok(vec![found.clone()])
    }
}

pub(super) fn function(program: &Program, address: u64) -> String {
    program.symbol(address).map_or_else(|| format!("{address:#x}"), |symbol| printable(&symbol_text(symbol)))
}

pub(super) fn unit(clock: Clock) -> &'static str {
    clock.unit().map_or("", |unit| unit.name())
}

/// Formats a time with its decimals.
pub(super) fn time(clock: Clock, time: u64) -> String {
    let decimals = usize::from(clock.decimals());
    if decimals == 0 {
        return time.to_string();
    }
    let digits = format!("{time:0width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    format!("{whole}.{fraction}")
}

/// Writes the name of a core, if it has one; returns the heading of the time column.
pub(super) fn start_table(core: &str, clock: Clock, out: &mut dyn Write) -> io::Result<String> {
    if !core.is_empty() {
        writeln!(out, "# core {core}")?;
    }
    Ok(match unit(clock) {
        "" => "time".to_string(),
        unit => format!("time ({unit})"),
    })
}

const MAX_NAMES: usize = 1 << 16;

struct Listing<'a> {
    args: &'a Args,
    program: &'a Program,
    clock: Clock,
    names: HashMap<u64, String>,
    line: String,
    /// Number of calls so far.
    count: u64,
}

impl Listing<'_> {
    fn core(&mut self, name: &str, tree: &mut Tree<File>, out: &mut dyn Write) -> io::Result<()> {
        let Args { calls: CallArgs { complete, output, .. }, depth: limit } = self.args;
        if !output.json {
            let time = start_table(name, self.clock, out)?;
            let times = if self.has_times() { format!(" {time:>14} {:>14}", "to") } else { String::new() };
            let [line, to_line, instructions] = ["line", "to line", "instructions"];
            writeln!(out, "# {line:>8} {to_line:>10}{times} {instructions:>12}  function")?;
        }
        let keep = |call: &Call| !complete || call.is_complete() || call.is_root();
        tree.each(keep, |depth, call| match limit {
            Some(limit) if depth > *limit => Ok(()),
            _ if output.json => self.json(name, depth, call, out),
            _ => self.text(depth, call, out),
        })
    }

    /// A log without times has no unit either.
    fn has_times(&self) -> bool {
        self.clock.unit().is_some()
    }

    fn text(&mut self, depth: usize, call: &Call, out: &mut dyn Write) -> io::Result<()> {
        let has_times = self.has_times();
        let Self { program, clock, names, line, .. } = self;
        let Call { entry, exit, function: address, .. } = call;
        line.clear();
        push_right(line, 10, entry.line);
        push_right(line, 11, exit.line);
        match clock.decimals() {
            _ if !has_times => {}
            0 => [entry.time, exit.time].iter().for_each(|at| push_right(line, 15, *at)),
            _ => [entry.time, exit.time].iter().for_each(|at| line.push_str(&format!(" {:>14}", time(*clock, *at)))),
        }
        push_right(line, 13, call.total().instructions);
        line.extend(std::iter::repeat_n(' ', 2 + depth * 2));
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        line.push_str(names.entry(*address).or_insert_with(|| function(program, *address)));
        line.push_str(note(call));
        line.push('\n');
        out.write_all(line.as_bytes())
    }

    fn json(&mut self, core: &str, depth: usize, call: &Call, out: &mut dyn Write) -> io::Result<()> {
        let (clock, name) = (self.clock, function(self.program, call.function));
        self.count += 1;
        call.write_json((core, depth, &name), (&|at| time(clock, at), unit(clock)), &mut self.line);
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
fn note(call: &Call) -> &'static str {
    match (call.began, call.ended) {
        (Began::Start, _) | (Began::Called, Ended::Returned) => "",
        (Began::Before, _) => " (began before the log)",
        (Began::Exception, Ended::AtEnd) => " (exception, unfinished)",
        (Began::Exception, _) => " (exception)",
        (Began::Called, Ended::AtEnd) => " (unfinished)",
        (Began::Called, Ended::Unwound) => " (left without a return)",
    }
}
