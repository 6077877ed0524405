//! `profile`: prints calls, time and instructions per function of a Tarmac log, or folded stacks.

use std::io::{self, Write};

use anyhow::Context;
use unspool::analyze::calls::{Call, Cost};
use unspool::analyze::folded::Folded;
use unspool::analyze::profile::{Profile, Row};
use unspool::model::json::Object;
use unspool::{CallForest, Clock, Program};

use super::calls::{CallArgs, function, start_table, time, unit};
use crate::file::tarmac_verdict;
use crate::progress::Progress;
use crate::verdict::Verdict;

/// Show calls, time and instructions per function of a Tarmac log
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    calls: CallArgs,

    /// Print folded stacks, the input of flame graph tools
    #[arg(long)]
    folded: bool,

    /// Weight of folded stacks (JSON always has both)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Weight::Time, requires = "folded")]
    weight: Weight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Weight {
    /// Time, as a whole number in units of the last decimal of the first timestamp
    Time,
    /// Instructions; better where many instructions have the same time
    Instructions,
}

const EXAMPLES: &str = "\
Examples:
  unspool profile run.tarmac --image program.elf
  unspool profile run.tarmac --image program.elf --folded | inferno-flamegraph > run.svg
  unspool profile run.tarmac --json | jq -r 'select(.own_instructions > 1000) | .name'

'time' and 'instructions' include callees, 'own' excludes them. 'time' also includes the last instruction, which is taken
to last 1 (in the last decimal of the first timestamp): a call that starts and ends at the same time has time 1 and own time 0.
Rows are sorted by address.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let (mut file, program, mut output) = args.calls.open()?;
    let mut totals = match args.folded {
        true => Totals::Stacks(CallForest::default()),
        false => Totals::Functions(Vec::new()),
    };
    let mut progress = Progress::new(output.on_terminal);
    let (log, end) =
        file.calls(&mut progress.callback(), &mut |core, call| totals.add(core, call, args.calls.complete))?;
    let mut listing = Listing { args, program: &program, clock: log.clock(), line: String::new() };
    for (core, name) in args.calls.cores(&log)? {
        let prefix = if log.cores().len() > 1 { name.as_str() } else { "" };
        match &mut totals {
            Totals::Stacks(forest) => {
                let folded = fold(forest, core, args.calls.complete)?;
                output.write(|out| listing.folded(prefix, &folded, out));
            }
            Totals::Functions(profiles) => output.write(|out| listing.profile(&name, profiles.get(core), out)),
        }
    }
    output.finish()?;
    Ok(tarmac_verdict(&mut file, &end))
}

/// Calls of all cores, as the output needs them.
enum Totals {
    /// With --folded: the call trees, since a stack has the callers too.
    Stacks(CallForest),
    /// The profile of each core.
    Functions(Vec<Profile>),
}

impl Totals {
    fn add(&mut self, core: usize, call: &Call, complete: bool) {
        match self {
            Self::Stacks(forest) => forest.add(core, call),
            Self::Functions(profiles) => {
                if profiles.len() <= core {
                    let empty = || if complete { Profile::of_complete_calls() } else { Profile::new() };
                    profiles.resize_with(core + 1, empty);
                }
                profiles[core].add(call);
            }
        }
    }
}

/// Stacks of a core.
fn fold(forest: &mut CallForest, core: usize, complete: bool) -> anyhow::Result<Folded> {
    let mut folded = if complete { Folded::of_complete_calls() } else { Folded::new() };
    if let Some(tree) = forest.tree(core).context("cannot create a temporary file for the call tree")? {
        let add = |depth: usize, call: &Call| {
            folded.add(depth, call);
            Ok(())
        };
        tree.each(|_| true, add).context("cannot read the temporary file of the call tree")?;
    }
    Ok(folded)
}

struct Listing<'a> {
    args: &'a Args,
    program: &'a Program,
    clock: Clock,
    line: String,
}

impl Listing<'_> {
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
        let weight = match self.args.weight {
            Weight::Time => own.time,
            Weight::Instructions => own.instructions,
        };
        if !self.args.calls.output.json {
            return writeln!(out, "{stack} {weight}");
        }
        let mut object = Object::new(&mut self.line);
        object.string("kind", "stack").string("stack", stack);
        object.plain("own_time", time(self.clock, own.time)).string("unit", unit(self.clock));
        object.plain("own_instructions", own.instructions).write_line(out)
    }

    fn profile(&mut self, core: &str, profile: Option<&Profile>, out: &mut dyn Write) -> io::Result<()> {
        let Some(profile) = profile else { return Ok(()) };
        if !self.args.calls.output.json {
            let time = start_table(core, self.clock, out)?;
            write!(out, "# {:>16} {:>10} {time:>14} {:>14}", "address", "calls", "own time")?;
            writeln!(out, " {:>14} {:>16}  function", "instructions", "own instructions")?;
        }
        for (address, row) in profile.rows() {
            let name = function(self.program, address);
            self.row(core, Some(address), &name, row, out)?;
        }
        profile.rest().map_or(Ok(()), |row| self.row(core, None, "(others)", row, out))
    }

    fn row(&mut self, core: &str, address: Option<u64>, name: &str, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        let Row { calls, incomplete, instructions, own, .. } = *row;
        let [total_time, own_time] = [row.time, own.time].map(|at| time(self.clock, at));
        if !self.args.calls.output.json {
            let address = address.map_or_else(String::new, |address| format!("{address:#x}"));
            write!(out, "{address:>18} {calls:>10} {total_time:>14} {own_time:>14}")?;
            return writeln!(out, " {instructions:>14} {:>16}  {name}", own.instructions);
        }
        let mut object = Object::new(&mut self.line);
        object.string("kind", "function").string("core", core).nullable_hex("function", address).string("name", name);
        object.plain("calls", calls).plain("incomplete", incomplete);
        object.plain("time", total_time).plain("own_time", own_time).string("unit", unit(self.clock));
        object.plain("instructions", instructions).plain("own_instructions", own.instructions).write_line(out)
    }
}
