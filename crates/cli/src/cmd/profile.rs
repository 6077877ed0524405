//! `profile`: prints calls and cost per function of a Tarmac log, or folded stacks.

use std::cmp::Reverse;
use std::io::{self, Write};

use anyhow::Context;
use unspool::analyze::calls::{Call, Cost};
use unspool::analyze::folded::Folded;
use unspool::analyze::profile::{Profile, Row};
use unspool::model::json::Object;
use unspool::{CallForest, Clock, Program};

use super::calls::{CallArgs, function, time, unit};
use crate::file::tarmac_verdict;
use crate::json::write_summary;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Show calls and cost per function of a Tarmac log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    calls: CallArgs,

    /// Order of the functions, largest first
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = Sort::Own, conflicts_with = "folded")]
    sort: Sort,

    /// What is counted [default: time, or instructions if the log has no times]
    #[arg(long, value_name = "WHAT", value_enum)]
    weight: Option<Weight>,

    /// Print folded stacks, the input of flame graph tools
    #[arg(long)]
    folded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// Cost without callees
    #[value(name = "self")]
    Own,
    /// Cost including callees
    Total,
    /// Number of calls
    Calls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Weight {
    /// Time; folded stacks have whole numbers, in units of the last decimal of the first timestamp
    Time,
    /// Instructions; better where many instructions have the same time
    Instructions,
}

const EXAMPLES: &str = "\
Examples:
  unspool profile run.tarmac --image program.elf
  unspool profile run.tarmac --image program.elf --sort total --weight instructions
  unspool profile run.tarmac --image program.elf --folded | inferno-flamegraph > run.svg
  unspool profile run.tarmac --json | jq -r 'select(.kind == \"function\" and .self > 1000) | .name'

Reads only Tarmac logs: convert other traces first. 'total' includes callees, 'self' excludes them. A function that calls itself, directly or through others, is counted once \
in its total, so no total exceeds that of the run. The time of a call is that from its first instruction to its last.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let (mut file, program, mut output) = args.calls.open()?;
    let mut forest = CallForest::default();
    let mut progress = Progress::new(output.on_terminal);
    let (log, end) = file.calls(&mut progress.callback(), &mut |core, call| forest.add(core, call))?;
    let clock = log.clock();
    let default_weight = if clock.unit().is_some() { Weight::Time } else { Weight::Instructions };
    let weight = args.weight.unwrap_or(default_weight);
    let mut listing = Listing { args, program: &program, clock, weight, line: String::new(), rows: 0, total: 0 };
    for (core, name) in args.calls.cores(&log)? {
        if args.folded {
            let prefix = if log.cores().len() > 1 { name.as_str() } else { "" };
            let mut folded = if args.calls.complete { Folded::of_complete_calls() } else { Folded::new() };
            each_call(&mut forest, core, |depth, call| folded.add(depth, call))?;
            output.write(|out| listing.folded(prefix, &folded, out));
        } else {
            let mut profile = if args.calls.complete { Profile::of_complete_calls() } else { Profile::new() };
            each_call(&mut forest, core, |depth, call| profile.add(depth, call))?;
            output.write(|out| listing.profile(&name, &profile, out));
        }
    }
    let verdict = tarmac_verdict(&mut file, &end);
    if args.calls.output.json {
        write_summary(&mut output, "profile", verdict, |object| listing.put_totals(object));
    }
    output.finish()?;
    Ok(verdict)
}

/// Passes on the calls of a core, outer ones first, each with its depth.
fn each_call(forest: &mut CallForest, core: usize, mut add: impl FnMut(usize, &Call)) -> anyhow::Result<()> {
    let tree = forest.tree(core).context("cannot create a temporary file for the call tree")?;
    let Some(tree) = tree else { return Ok(()) };
    let each = tree.each(
        |_| true,
        |depth, call| {
            add(depth, call);
            Ok(())
        },
    );
    each.context("cannot read the temporary file of the call tree")
}

struct Listing<'a> {
    args: &'a Args,
    program: &'a Program,
    clock: Clock,
    weight: Weight,
    line: String,
    /// Number of rows so far.
    rows: u64,
    /// Total of all cores so far.
    total: u64,
}

impl Listing<'_> {
    fn of(&self, cost: Cost) -> u64 {
        match self.weight {
            Weight::Time => cost.time,
            Weight::Instructions => cost.instructions,
        }
    }

    /// A weight as text.
    fn weighed(&self, weight: u64) -> String {
        if self.weight == Weight::Time { time(self.clock, weight) } else { weight.to_string() }
    }

    /// One line per stack. With several cores, each is the root of its stacks.
    fn folded(&mut self, core: &str, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        folded.each(|stack, own| {
            self.line.clear();
            let functions = stack.iter().map(|address| function(self.program, *address));
            let names = Some(core.to_string()).into_iter().filter(|core| !core.is_empty()).chain(functions);
            for name in names {
                self.line.push_str(if self.line.is_empty() { "" } else { ";" });
                // The format separates functions by ';' and the weight by ' '.
                self.line
                    .extend(name.chars().map(|character| if matches!(character, ';' | ' ') { '_' } else { character }));
            }
            let stack = std::mem::take(&mut self.line);
            self.stack(&stack, own, out)
        })
    }

    fn stack(&mut self, stack: &str, own: Cost, out: &mut dyn Write) -> io::Result<()> {
        let own = self.of(own);
        (self.rows, self.total) = (self.rows + 1, self.total.saturating_add(own));
        if !self.args.calls.output.json {
            return writeln!(out, "{stack} {own}");
        }
        let own = self.weighed(own);
        let mut object = Object::new(&mut self.line);
        object.string("kind", "stack").string("stack", stack).plain("self", own).write_line(out)
    }

    fn profile(&mut self, core: &str, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        let mut rows: Vec<(Option<u64>, Row)> = profile
            .rows()
            .map(|(address, row)| (Some(address), *row))
            .chain(profile.rest().map(|row| (None, *row)))
            .collect();
        // Equal rows stay sorted by address.
        rows.sort_by_key(|(_, row)| {
            Reverse(match self.args.sort {
                Sort::Own => self.of(row.own),
                Sort::Total => self.of(row.total),
                Sort::Calls => row.calls,
            })
        });
        let total = self.of(profile.total());
        (self.rows, self.total) = (self.rows + rows.len() as u64, self.total.saturating_add(total));
        if !self.args.calls.output.json {
            self.heading(core, total, out)?;
        }
        rows.iter().try_for_each(|(address, row)| {
            let name = address.map_or_else(|| "(others)".to_string(), |address| function(self.program, address));
            if self.args.calls.output.json {
                self.json(core, *address, &name, row, out)
            } else {
                self.text(*address, &name, (row, total), out)
            }
        })
    }

    fn heading(&self, core: &str, total: u64, out: &mut dyn Write) -> io::Result<()> {
        if !core.is_empty() {
            writeln!(out, "# core {core}")?;
        }
        let weight = match (self.weight, unit(self.clock)) {
            (Weight::Instructions, _) => "instructions".to_string(),
            (Weight::Time, "") => "time".to_string(),
            (Weight::Time, unit) => format!("time in {unit}"),
        };
        writeln!(out, "# {weight}, {} in total", self.weighed(total))?;
        let [own, total, percent] = ["self", "total", "%"];
        writeln!(out, "# {own:>14} {percent:>6} {total:>16} {percent:>6} {:>10} {:>18}  function", "calls", "address")
    }

    fn text(&self, address: Option<u64>, name: &str, (row, all): (&Row, u64), out: &mut dyn Write) -> io::Result<()> {
        let [own, total] = [row.own, row.total].map(|cost| self.of(cost));
        let [own_share, total_share] = [own, total].map(|weight| percent(weight, all));
        let address = address.map_or_else(String::new, |address| format!("{address:#x}"));
        let [own, total] = [own, total].map(|weight| self.weighed(weight));
        writeln!(out, "{own:>16} {own_share:>6} {total:>16} {total_share:>6} {:>10} {address:>18}  {name}", row.calls)
    }

    fn json(&mut self, core: &str, address: Option<u64>, name: &str, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        let [own, total] = [row.own, row.total].map(|cost| self.weighed(self.of(cost)));
        let mut object = Object::new(&mut self.line);
        object.string("kind", "function").string("core", core).nullable_hex("address", address).string("name", name);
        object.plain("calls", row.calls).plain("incomplete", row.incomplete);
        object.plain("self", own).plain("total", total).write_line(out)
    }

    /// Adds totals to the summary.
    fn put_totals(&self, object: &mut Object<'_>) {
        let (weight, unit) = match self.weight {
            Weight::Time => ("time", unit(self.clock)),
            Weight::Instructions => ("instructions", ""),
        };
        object.plain(if self.args.folded { "stacks" } else { "functions" }, self.rows);
        object.string("weight", weight).string("unit", unit).plain("total", self.weighed(self.total));
    }
}

/// Share in percent, with one decimal; empty if there is no total.
fn percent(part: u64, total: u64) -> String {
    if total == 0 { String::new() } else { format!("{:.1}", part as f64 * 100.0 / total as f64) }
}
