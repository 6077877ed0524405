//! `branches`: every branch of a trace with outcome and target, or the totals of each branch instruction.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use unspool::analyze::branches::{BranchTotals, Executed, Totals};
use unspool::convert::report::describe_position;
use unspool::model::json::Object;
use unspool::model::{BlockSink, BlockTrace, Step};
use unspool::{FileKind, Program};

use crate::args::{OutputArgs, RangeArgs};
use crate::json::write_summary;
use crate::output::Output;
use crate::symbols::{printable, symbol_text};
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// List the branches of traces, with outcome and target
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceArgs,

    /// List each branch instruction once, with its totals, the most frequent first
    #[arg(long)]
    totals: bool,

    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool branches snapshot/ --limit 100
  unspool branches trace.astf --totals --limit 20
  unspool branches trace.zstf --json | jq -r 'select(.kind == \"branch\") | [.address, .taken, .target] | @tsv'

Columns of a list: the position in the trace; the time, if the trace has times; the address of the branch; T taken, N not taken, ? unknown; the \
target, also of a branch that was not taken if its opcode has it; the kind of branch, with a * if it is conditional.
Columns with --totals: executions, taken, not taken, how often the outcome changed from one execution to the next, the \
number of targets, address, kind and symbol.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.traces.open_output(&args.output)?;
    let (mut branches, mut rows) = (0, 0);
    let verdict = args.traces.each(|trace| {
        let selection = trace.select(&args.traces.selection)?;
        let mut listing = Listing::new(args, trace, rows, &mut output);
        let verdict = trace.follow(&selection, &mut listing)?;
        if args.totals {
            listing.totals();
        }
        (branches, rows) = (branches + listing.branches, listing.rows);
        Ok(verdict)
    })?;
    if args.output.json {
        write_summary(&mut output, "branches", verdict, |object| {
            object.plain("branches", branches);
        });
    }
    output.finish()?;
    Ok(verdict)
}

/// Listing of one trace.
struct Listing<'a> {
    args: &'a Args,
    source: Option<String>,
    kind: FileKind,
    program: Arc<Program>,
    output: &'a mut Output,
    totals: BranchTotals,
    /// Branches so far.
    branches: u64,
    /// Rows so far, of all traces.
    rows: u64,
    line: String,
}

impl<'a> Listing<'a> {
    fn new(args: &'a Args, trace: &OpenTrace, rows: u64, output: &'a mut Output) -> Self {
        if args.traces.len() > 1 && !args.output.json {
            output.write(|out| writeln!(out, "# {}", trace.name()));
        }
        Self {
            args,
            source: trace.source.as_ref().map(|(name, _)| name.clone()),
            kind: trace.kind,
            program: Arc::clone(trace.program()),
            output,
            totals: BranchTotals::default(),
            branches: 0,
            rows,
            line: String::new(),
        }
    }

    /// Whether the next row is printed.
    fn is_selected(&mut self) -> bool {
        let number = self.rows;
        self.rows += 1;
        number >= self.args.range.skip && !self.is_past(number)
    }

    fn is_past(&self, row: u64) -> bool {
        let RangeArgs { skip, limit } = self.args.range;
        limit.is_some_and(|limit| row >= skip.saturating_add(limit))
    }

    fn branch(&mut self, step: &Step, branch: &Executed) -> ControlFlow<()> {
        self.branches += 1;
        if self.args.totals {
            self.totals.add(branch);
            return ControlFlow::Continue(());
        }
        if self.is_selected() {
            self.line.clear();
            if self.args.output.json {
                self.json(step, branch);
            } else {
                self.text(step, branch);
            }
            let Self { output, line, .. } = self;
            output.write(|out| out.write_all(line.as_bytes()));
        }
        if self.is_past(self.rows) || !self.output.is_open() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn text(&mut self, step: &Step, branch: &Executed) {
        let position = describe_position(self.kind.unit(), step.position);
        let time = step.time.map_or(String::new(), |time| format!(" t={time}"));
        let outcome = match branch.is_taken {
            Some(true) => 'T',
            Some(false) => 'N',
            None => '?',
        };
        let target = branch.target.map_or("-".to_string(), |target| format!("{target:#x}"));
        let kind = kind_text(branch.kind.name(), branch.is_conditional);
        self.line = format!("{position:<14}{time} {:#018x} {outcome} {target:>18} {kind}\n", branch.address);
    }

    fn json(&mut self, step: &Step, branch: &Executed) {
        let mut object = Object::new(&mut self.line);
        object.string("kind", "branch").nullable_string("source", self.source.as_ref());
        object.plain(self.kind.unit(), step.position).plain("core", step.core);
        if let Some(time) = step.time {
            object.plain("time", time);
        }
        object.hex("address", branch.address).string("isa", branch.isa.name()).string("branch", branch.kind.name());
        object.flag("conditional", branch.is_conditional).nullable("taken", branch.is_taken);
        object.nullable_hex("target", branch.target).end_line();
    }

    /// Prints the totals of all branch instructions.
    fn totals(&mut self) {
        if !self.args.output.json {
            self.output.write(|out| {
                let [executions, taken, not_taken, changes] = ["executions", "taken", "not taken", "changes"];
                writeln!(
                    out,
                    "# {executions:>12} {taken:>14} {not_taken:>14} {changes:>14} {:>7} {:>18} kind  symbol",
                    "targets", "address"
                )
            });
        }
        let all = std::mem::take(&mut self.totals);
        for (address, totals) in all.rows() {
            if !self.is_selected() {
                continue;
            }
            let symbol = self.program.symbol(address).map(|symbol| printable(&symbol_text(symbol)));
            let Self { output, line, source, args, .. } = self;
            output.write(|out| match args.output.json {
                true => totals_json(address, totals, source.as_deref(), symbol.as_deref(), line, out),
                false => totals_text(address, totals, symbol.as_deref(), out),
            });
        }
    }
}

fn kind_text(name: &str, is_conditional: bool) -> String {
    format!("{name}{}", if is_conditional { "*" } else { "" })
}

fn totals_text(address: u64, totals: &Totals, symbol: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let (kind, targets) = (kind_text(totals.kind.name(), totals.is_conditional), totals.targets().len());
    let targets = if totals.other_targets > 0 { format!("{targets}+") } else { targets.to_string() };
    let Totals { taken, not_taken, changes, .. } = totals;
    let (executions, symbol) = (totals.executions(), symbol.unwrap_or_default());
    writeln!(
        out,
        "{executions:>14} {taken:>14} {not_taken:>14} {changes:>14} {targets:>7} {address:#018x} {kind}  {symbol}"
    )
}

fn totals_json(
    address: u64,
    totals: &Totals,
    source: Option<&str>,
    symbol: Option<&str>,
    line: &mut String,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut object = Object::new(line);
    object.string("kind", "totals").nullable_string("source", source).hex("address", address);
    object.string("branch", totals.kind.name()).flag("conditional", totals.is_conditional);
    object.nullable_string("symbol", symbol).plain("executions", totals.executions()).plain("taken", totals.taken);
    object.plain("not_taken", totals.not_taken).plain("unknown", totals.unknown).plain("changes", totals.changes);
    object.list("targets", totals.targets().iter(), |text, (target, count)| {
        let mut object = Object::nested(text);
        object.hex("address", *target).plain("count", count).close_nested();
    });
    object.plain("other_targets", totals.other_targets).write_line(out)
}

impl BlockSink for Listing<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        Executed::of(step).map_or(ControlFlow::Continue(()), |branch| self.branch(step, &branch))
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        // Only the last instruction of a block may be a branch.
        trace.each_execution(|index, position| match trace.steps(index, position).last() {
            Some(step) => self.step(&step),
            None => ControlFlow::Continue(()),
        })
    }
}
