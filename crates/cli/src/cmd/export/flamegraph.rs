//! `export flamegraph`: a picture of where a trace spends its time, or of how two traces differ.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::analyze::calls::Cost;
use unspool::analyze::tree::TreeSelection;
use unspool::export::flamegraph::{FlameOptions, write_flamegraph};
use unspool::export::stacks::{Side, StackTree};
use unspool::number::{grouped, many};
use unspool::{CallForest, cost_forest};

use super::call_file::{CallFileArgs, ToOutput};
use crate::cmd::follow::{Part, Times};
use crate::cmd::stacks::Weight;
use crate::diagnostic;
use crate::verdict::Verdict;

/// Draw a flame graph, as an SVG with search and zoom
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    calls: CallFileArgs,

    /// Color functions by what they cost more (red) or less (blue) than in this trace, without callees
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,

    /// What is counted [default: time if all are Tarmac logs with times, otherwise instructions]
    #[arg(long, value_name = "WHAT", value_enum)]
    weight: Option<Weight>,
}

const EXAMPLES: &str = "\
Examples:
  unspool export flamegraph run.tarmac --image program.elf -o run.svg
  unspool export flamegraph snapshot/ --function main -o run.svg
  unspool export flamegraph new.astf --diff old.astf --image program.elf -o difference.svg

Open the file in a browser: a click on a frame zooms, Escape shows everything again, and the field searches by a regular \
expression. Callees are below their callers; frames that are too narrow to be seen are left out. With --diff, widths are those of \
TRACE; functions that only OTHER has are not shown.";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let others: Vec<PathBuf> = args.diff.iter().cloned().collect();
    let mut output = args.calls.open_output(&others)?;
    let mut stacks = Stacks { args, tree: StackTree::new(), times: None };
    let mut verdict = args.calls.each(output.on_terminal, cost_forest, |part, forest, selection| {
        stacks.add(Side::Shown, part, forest, &selection)
    })?;
    if !others.is_empty() {
        verdict =
            verdict.or(args.calls.each_of(&others, output.on_terminal, cost_forest, |part, forest, selection| {
                stacks.add(Side::Base, part, forest, &selection)
            })?);
    }
    stacks.draw(&mut ToOutput(&mut output))?;
    output.finish()?;
    Ok(verdict)
}

struct Stacks<'a> {
    args: &'a Args,
    tree: StackTree,
    /// Times that all traces so far have; not fine if they differ.
    times: Option<Times>,
}

impl Stacks<'_> {
    fn add(
        &mut self,
        side: Side,
        part: &Part<'_>,
        mut forest: CallForest,
        selection: &TreeSelection,
    ) -> anyhow::Result<()> {
        let times = self.times.get_or_insert(part.times);
        if (times.unit, times.decimals, times.are_fine) != (part.times.unit, part.times.decimals, part.times.are_fine) {
            if self.args.weight == Some(Weight::Time) {
                bail!("the traces have different units of time: use --weight instructions");
            }
            times.are_fine = false;
        }
        self.args.calls.folding(part, selection).each_stack(part, &mut forest, &mut |names, own| {
            self.tree.add(side, names, own);
            Ok(())
        })
    }

    fn draw(&self, out: &mut ToOutput<'_>) -> anyhow::Result<()> {
        let times = self.times.unwrap_or_default();
        let weight = self.args.weight.unwrap_or_else(|| Weight::default_of(times));
        let text = |value: u64| match weight {
            Weight::Time => format!("{} {}", times.text(value), times.unit).trim_end().to_string(),
            Weight::Instructions if value == 1 => "1 instruction".to_string(),
            Weight::Instructions => format!("{} instructions", grouped(value)),
        };
        let is_comparison = self.args.diff.is_some();
        let title = self.args.calls.title();
        let of = |cost: Cost| weight.of(cost);
        let options = FlameOptions { title: &title, weight: &of, text: &text, is_comparison };
        let drawn = write_flamegraph(out, &self.tree, &options).context("cannot write the flame graph")?;
        out.flush().context("cannot write the flame graph")?;
        if drawn.left_out > 0 {
            let left_out = many(drawn.left_out as u64, "stack");
            diagnostic::note(format_args!("left out, too narrow to be seen: {left_out}; --function NAME shows more"));
        }
        Ok(())
    }
}
