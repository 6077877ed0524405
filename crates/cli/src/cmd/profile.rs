//! `profile`: prints calls and cost per function of a trace, or folded stacks.
//!
//! `by_lines` prints instructions per source line, source file or module instead.
//! Costs per function are summed up while the trace is read; folded stacks need the call tree.

mod by_lines;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::bail;
use unspool::analyze::calls::Cost;
use unspool::analyze::profile::{Profile, Profiles, Row};
use unspool::call_forest;
use unspool::export::folded::push_stack;
use unspool::line_profile::LineGroup;
use unspool::model::json::Object;

use super::follow::{CallArgs, NamedStack, Part, Times};
use super::stacks::{Folding, Weight};
use crate::args::OutputArgs;
use crate::json::write_summary;
use crate::selection_args::SelectionArgs;
use crate::verdict::Verdict;

/// Show calls and cost per function of a trace
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    calls: CallArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    selection: SelectionArgs,

    /// What the rows are
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = By::Function)]
    by: By,

    /// Order of the functions, largest first
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = Sort::Own, conflicts_with = "folded")]
    sort: Sort,

    /// What is counted [default: the time of a Tarmac log with times, otherwise instructions]
    #[arg(long, value_name = "WHAT", value_enum)]
    weight: Option<Weight>,

    /// Print folded stacks, the input of flame graph tools
    #[arg(long)]
    folded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Functions, with their calls
    Function,
    /// Source lines
    Line,
    /// Source files
    File,
    /// Programs and libraries
    Module,
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

const EXAMPLES: &str = "\
Examples:
  unspool profile run.tarmac --image program.elf
  unspool profile snapshot/ --image program.elf
  unspool profile trace.astf --image program.elf --sort total --weight instructions
  unspool profile run.tarmac --image program.elf --folded | inferno-flamegraph > run.svg
  unspool profile snapshot/ --image program.elf --by line
  unspool profile trace.astf --image program.elf --by file --mode user
  unspool profile run.tarmac --json | jq -r 'select(.kind == \"function\" and .self > 1000) | .name'

'total' includes callees, 'self' excludes them. A function that calls itself, directly or through others, is counted once \
in its total, so no total exceeds that of the run. The time of a call is that from its first instruction to its last. There is a table \
for each core, and for each of its processes if the trace shows them; threads of a process share one. See 'unspool calls' for what \
is a call: a function that another one jumps to, as in a tail call, is a part of that one.
--by line, file and module count instructions, without their callees: those that were inlined count for the line that they are \
from. Lines need debug information (DWARF) in the images; what has no line is 'unknown', so that all rows add up to the total. All \
processes of a trace are counted together, and 'at least' marks a trace with gaps. The options of a selection need such rows, except \
--process: the calls of a part of the execution are not known.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if let Some(group) = args.group()? {
        return by_lines::run(args, group);
    }
    let processes = &args.selection.process;
    let mut output = args.calls.open_output(&args.output)?;
    let mut totals = Totals::default();
    let complete = args.calls.complete;
    let verdict = if args.folded {
        args.calls.each(processes, output.on_terminal, call_forest, |part, mut forest| {
            let mut listing = Listing::new(args, part, &mut totals);
            let folding = Folding { heading: None, functions: &[], complete };
            folding.each_stack(part, &mut forest, &mut |names, own| {
                output.write(|out| listing.folded(names, own, out));
                Ok(())
            })?;
            Ok(())
        })?
    } else {
        args.calls.each(
            processes,
            output.on_terminal,
            || Profiles::new(complete),
            |part, profiles| {
                let mut listing = Listing::new(args, part, &mut totals);
                output.write(|out| {
                    listing.part_heading(out)?;
                    tables(part, &profiles).iter().try_for_each(|table| listing.profile(table, out))
                });
                Ok(())
            },
        )?
    };
    if args.output.json {
        write_summary(&mut output, "profile", verdict, |object| totals.put(args, object));
    }
    output.finish()?;
    Ok(verdict)
}

impl Args {
    /// What is counted instead of functions. Fails if an option does not apply to it.
    fn group(&self) -> anyhow::Result<Option<LineGroup>> {
        let group = match self.by {
            By::Line => LineGroup::Line,
            By::File => LineGroup::File,
            By::Module => LineGroup::Module,
            By::Function => {
                return match self.selection.given().find(|option| *option != "--process") {
                    Some(option) => bail!("{option} needs --by line, file or module: calls need the whole execution"),
                    None => Ok(None),
                };
            }
        };
        let of_functions = [
            (self.folded, "--folded"),
            (self.calls.complete, "--complete"),
            (self.sort != Sort::Own, "--sort"),
            (self.weight == Some(Weight::Time), "--weight time"),
            (self.calls.core.is_some(), "--core"),
        ];
        match of_functions.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => bail!("{option} applies to --by function"),
            None => Ok(Some(group)),
        }
    }
}

/// The costs of a core, or of one of its processes.
struct Table {
    core: String,
    process: Option<u64>,
    heading: String,
    profile: Profile,
}

/// Threads of a process share a table.
fn tables(part: &Part<'_>, profiles: &Profiles) -> Vec<Table> {
    let mut groups: BTreeMap<(&str, Option<u64>), usize> = BTreeMap::new();
    let mut tables: Vec<Table> = Vec::new();
    for stack in &part.stacks {
        let NamedStack { number, core, process, .. } = stack;
        let Some(profile) = profiles.of(*number) else { continue };
        let index = *groups.entry((core, *process)).or_insert(tables.len());
        match tables.get_mut(index) {
            Some(table) => table.profile.merge(profile),
            None => {
                let heading = NamedStack {
                    number: 0,
                    core_number: 0,
                    core: core.clone(),
                    process: *process,
                    thread: None,
                    part: None,
                }
                .heading(part.has_several);
                tables.push(Table { core: core.clone(), process: *process, heading, profile: profile.clone() });
            }
        }
    }
    tables
}

/// Totals of all traces.
#[derive(Debug, Default)]
struct Totals {
    parts: usize,
    /// Number of rows so far.
    rows: u64,
    /// Total of all cores so far.
    total: u64,
    weight: Option<(Weight, Times)>,
}

impl Totals {
    /// Adds totals to the summary.
    fn put(&self, args: &Args, object: &mut Object<'_>) {
        let (weight, times) = self.weight.unwrap_or((Weight::Instructions, Times::default()));
        let (name, unit) = match weight {
            Weight::Time => ("time", times.unit),
            Weight::Instructions => ("instructions", ""),
        };
        object.plain(if args.folded { "stacks" } else { "functions" }, self.rows);
        object.string("weight", name).string("unit", unit).plain("total", weight.text(times, self.total));
    }
}

struct Listing<'a> {
    args: &'a Args,
    part: &'a Part<'a>,
    weight: Weight,
    line: String,
    totals: &'a mut Totals,
}

impl<'a> Listing<'a> {
    fn new(args: &'a Args, part: &'a Part<'a>, totals: &'a mut Totals) -> Self {
        let weight = args.weight.unwrap_or_else(|| Weight::default_of(part.times));
        totals.weight.get_or_insert((weight, part.times));
        totals.parts += 1;
        Self { args, part, weight, line: String::new(), totals }
    }

    fn part_heading(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.part.heading.as_ref().filter(|_| !self.args.output.json) {
            Some(name) => writeln!(out, "{}# {name}", if self.totals.parts > 1 { "\n" } else { "" }),
            None => Ok(()),
        }
    }
}

impl Listing<'_> {
    fn of(&self, cost: Cost) -> u64 {
        self.weight.of(cost)
    }

    /// A weight as text.
    fn weighed(&self, value: u64) -> String {
        self.weight.text(self.part.times, value)
    }

    /// A stack as a line.
    fn folded(&mut self, names: &[Arc<str>], own: Cost, out: &mut dyn Write) -> io::Result<()> {
        let mut stack = std::mem::take(&mut self.line);
        stack.clear();
        push_stack(&mut stack, names);
        self.stack(&stack, own, out)
    }

    fn stack(&mut self, stack: &str, own: Cost, out: &mut dyn Write) -> io::Result<()> {
        let own = self.of(own);
        (self.totals.rows, self.totals.total) = (self.totals.rows + 1, self.totals.total.saturating_add(own));
        if !self.args.output.json {
            return writeln!(out, "{stack} {own}");
        }
        let own = self.weighed(own);
        let mut object = Object::new(&mut self.line);
        object.string("kind", "stack").string("stack", stack).plain("self", own).write_line(out)
    }

    fn profile(&mut self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        let profile = &table.profile;
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
        self.totals.rows += rows.len() as u64;
        self.totals.total = self.totals.total.saturating_add(total);
        if !self.args.output.json {
            self.heading(&table.heading, total, out)?;
        }
        rows.iter().try_for_each(|(address, row)| {
            let name = match address {
                Some(address) => self.part.function(table.process, *address),
                None => "(others)".to_string(),
            };
            if self.args.output.json {
                self.json(table, *address, &name, row, out)
            } else {
                self.text(*address, &name, (row, total), out)
            }
        })
    }

    fn heading(&self, heading: &str, total: u64, out: &mut dyn Write) -> io::Result<()> {
        if !heading.is_empty() {
            writeln!(out, "# {heading}")?;
        }
        let weight = match (self.weight, self.part.times.unit) {
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

    fn json(
        &mut self,
        table: &Table,
        address: Option<u64>,
        name: &str,
        row: &Row,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let [own, total] = [row.own, row.total].map(|cost| self.weighed(self.of(cost)));
        let mut object = Object::new(&mut self.line);
        object.string("kind", "function").string("core", &table.core).optional("process", table.process);
        object.nullable_hex("address", address).string("name", name);
        object.plain("calls", row.calls).plain("incomplete", row.incomplete);
        object.plain("self", own).plain("total", total).write_line(out)
    }
}

/// Share in percent, with one decimal; empty if there is no total.
fn percent(part: u64, total: u64) -> String {
    if total == 0 { String::new() } else { format!("{:.1}", part as f64 * 100.0 / total as f64) }
}
