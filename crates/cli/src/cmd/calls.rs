//! `calls`: the call tree of a log.
//!
//! The tree waits in a temporary file for the end of the log, since a call stands before all that it called and has its
//! end on the same line.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};

use anyhow::{Context, bail};
use unspool::analyze::calls::{Began, Call, Ended};
use unspool::analyze::tree::Tree;
use unspool::file::TarmacFile;
use unspool::{CallForest, Clock, Program, TarmacCalls, TraceFile};

use crate::args::{ImageArgs, OutputArgs};
use crate::file::{FileArgs, tarmac_verdict};
use crate::output::Output;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Print the call tree of a Tarmac log, each call with its lines, times and instructions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    file: FileArgs,

    #[command(flatten)]
    images: ImageArgs,

    #[command(flatten)]
    which: WhichArgs,

    /// Leave out what is more than N calls deep
    #[arg(long, value_name = "N")]
    depth: Option<usize>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Which calls.
#[derive(Debug, clap::Args)]
pub(super) struct WhichArgs {
    /// Only this core
    #[arg(long, value_name = "NAME")]
    core: Option<String>,

    /// Only calls whose beginning and end are both in the log
    #[arg(long)]
    pub(super) complete: bool,
}

const EXAMPLES: &str = "\
Examples:
  unspool calls run.tarmac --image program.elf
  unspool calls run.tarmac --image program.elf --depth 3
  unspool calls run.tarmac --core cpu1 --json

A line has the first and the last line of the call in the log, the times of both, how many instructions there were from
one to the other, and the function. The first call of a core is what it was in when the log started. Calls are told by
branches with link, return addresses and the stack pointer; exception handlers are shown as calls too.";

/// Prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut file = open(&args.file, "calls")?;
    let program = Program::new(args.images.load()?);
    let mut output = Output::open_for(&args.output, &args.file.file)?;
    let mut forest = CallForest::default();
    let mut progress = Progress::new(output.on_terminal);
    let (calls, end) = file.calls(&mut progress.callback(), &mut |core, call| forest.add(core, call))?;
    let names = args.which.cores(&calls)?;
    let (clock, line) = (calls.clock(), String::new());
    let mut listing = Listing { args, program: &program, clock, names: HashMap::new(), line };
    for (core, name) in names {
        let tree = forest.tree(core).context("the call tree needs a temporary file")?;
        let Some(tree) = tree else { continue };
        let mut written = Ok(());
        output.write(|out| {
            written = listing.core(&name, tree, out);
            Ok(())
        });
        written.context("the temporary file of the call tree, or the output")?;
    }
    output.finish()?;
    Ok(tarmac_verdict(&mut file, &end))
}

/// Opens a log; other formats have no calls yet.
pub(super) fn open(args: &FileArgs, verb: &str) -> anyhow::Result<TarmacFile> {
    match args.open()? {
        TraceFile::Tarmac(file) => Ok(file),
        _ => bail!("{}: '{verb}' reads Tarmac logs only, so far", args.file.display()),
    }
}

impl WhichArgs {
    /// The cores that were asked for: their index and name.
    pub(super) fn cores(&self, calls: &TarmacCalls) -> anyhow::Result<Vec<(usize, String)>> {
        let names = calls.cores().map(|name| String::from_utf8_lossy(name).into_owned());
        let all: Vec<(usize, String)> = names.enumerate().collect();
        let Some(wanted) = &self.core else { return Ok(all) };
        let found: Vec<_> = all.iter().filter(|(_, name)| name == wanted).cloned().collect();
        if found.is_empty() {
            let names: Vec<&str> =
                all.iter().map(|(_, name)| if name.is_empty() { "one without name" } else { name }).collect();
            bail!("no core '{wanted}' in the log; there is {}", names.join(", "));
        }
        Ok(found)
    }
}

/// A function: its name, with how far behind its start the address is, or the address. A terminal obeys what it is
/// sent, and names come from files.
pub(super) fn function(program: &Program, address: u64) -> String {
    let name = match program.symbol(address) {
        None => format!("{address:#x}"),
        Some((name, 0)) => name.to_string(),
        Some((name, offset)) => format!("{name}+{offset:#x}"),
    };
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// The unit of times, in words.
pub(super) fn unit(clock: Clock) -> &'static str {
    clock.unit().map_or("", |unit| unit.name())
}

/// A time with its decimals.
pub(super) fn time(clock: Clock, time: u64) -> String {
    let decimals = usize::from(clock.decimals());
    if decimals == 0 {
        return time.to_string();
    }
    let digits = format!("{time:0width$}", width = decimals + 1);
    let (whole, behind) = digits.split_at(digits.len() - decimals);
    format!("{whole}.{behind}")
}

/// Functions whose names are kept at hand.
const NAMES: usize = 1 << 16;

struct Listing<'a> {
    args: &'a Args,
    program: &'a Program,
    clock: Clock,
    names: HashMap<u64, String>,
    line: String,
}

impl Listing<'_> {
    fn core(&mut self, name: &str, tree: &mut Tree<File>, out: &mut dyn Write) -> io::Result<()> {
        let Args { which, depth: limit, output, .. } = self.args;
        if !output.json {
            self.heading(name, out)?;
        }
        let keep = |call: &Call| !which.complete || call.is_complete() || call.is_root();
        tree.each(keep, |depth, call| match limit {
            Some(limit) if depth > *limit => Ok(()),
            _ if output.json => self.json(name, depth, call, out),
            _ => self.text(depth, call, out),
        })
    }

    fn heading(&self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        if !name.is_empty() {
            writeln!(out, "# core {name}")?;
        }
        let time = match unit(self.clock) {
            "" => "time".to_string(),
            unit => format!("time ({unit})"),
        };
        writeln!(out, "# {:>8} {:>10} {time:>14} {:>14} {:>12}  function", "line", "to line", "to", "instructions")
    }

    fn text(&mut self, depth: usize, call: &Call, out: &mut dyn Write) -> io::Result<()> {
        let Self { program, clock, names, line, .. } = self;
        let Call { entry, exit, function: address, .. } = call;
        line.clear();
        push_right(line, 10, entry.line);
        push_right(line, 11, exit.line);
        match clock.decimals() {
            0 => [entry.time, exit.time].iter().for_each(|at| push_right(line, 15, *at)),
            _ => [entry.time, exit.time].iter().for_each(|at| line.push_str(&format!(" {:>14}", time(*clock, *at)))),
        }
        push_right(line, 13, call.total().instructions);
        line.extend(std::iter::repeat_n(' ', 2 + depth * 2));
        if names.len() >= NAMES {
            names.clear();
        }
        line.push_str(names.entry(*address).or_insert_with(|| function(program, *address)));
        line.push_str(note(call));
        line.push('\n');
        out.write_all(line.as_bytes())
    }

    fn json(&mut self, core: &str, depth: usize, call: &Call, out: &mut dyn Write) -> io::Result<()> {
        let (clock, name) = (self.clock, function(self.program, call.function));
        call.write_json((core, depth, &name), (&|at| time(clock, at), unit(clock)), &mut self.line);
        out.write_all(self.line.as_bytes())
    }
}

/// Adds a number with blanks before it, so that it ends in a column. Trees have millions of lines.
fn push_right(line: &mut String, width: usize, mut number: u64) {
    let mut text = [b' '; 24];
    let mut start = text.len();
    loop {
        start -= 1;
        text[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    // Columns do not touch, however long a number is.
    if text.len() - start >= width {
        line.push(' ');
    }
    let start = start.min(text.len().saturating_sub(width));
    line.push_str(str::from_utf8(&text[start..]).unwrap_or_default());
}

/// What is not ordinary about a call.
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
