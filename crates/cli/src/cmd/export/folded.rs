//! `export folded`: stacks with their weight, one per line, as flame graph tools read them.

use unspool::cost_forest;
use unspool::export::folded::write_stack;

use super::call_file::CallFileArgs;
use crate::cmd::stacks::Weight;
use crate::verdict::Verdict;

/// Write folded stacks, the input of flame graph tools
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    calls: CallFileArgs,

    /// What is counted [default: the time of a Tarmac log with times, otherwise instructions]
    #[arg(long, value_name = "WHAT", value_enum)]
    weight: Option<Weight>,
}

const EXAMPLES: &str = "\
Examples:
  unspool export folded run.tarmac --image program.elf -o run.folded
  unspool export folded trace.astf --image program.elf --function main -o - | inferno-flamegraph > run.svg

One line per stack: its functions, the outermost first, and what the innermost cost without callees. With several files, \
cores, processes or threads, each is the first frame of its stacks. 'unspool profile --folded' prints the same.";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.calls.open_output(&[])?;
    let verdict = args.calls.each(output.on_terminal, cost_forest, |part, mut forest, selection| {
        let weight = args.weight.unwrap_or_else(|| Weight::default_of(part.times));
        args.calls.folding(part, &selection).each_stack(part, &mut forest, &mut |names, own| {
            output.write(|out| write_stack(out, names, weight.of(own)));
            Ok(())
        })
    })?;
    output.finish()?;
    Ok(verdict)
}
