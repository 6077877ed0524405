//! `tuples`: sequences of instructions with their counts, and pairs that a processor may fuse.

use std::collections::HashMap;
use std::ops::ControlFlow;

use unspool::analyze::tuples::{MAX_LENGTH, Tuples};
use unspool::fusion::Fusion;
use unspool::isa::{Disassembler, Isa};
use unspool::model::json::Object;
use unspool::model::{BlockSink, Event, Step};

use crate::args::{OutputArgs, RangeArgs};
use crate::diagnostic;
use crate::json::write_summary;
use crate::output::Output;
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// Count sequences of instructions, and pairs that a processor may fuse
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceArgs,

    /// Instructions of a sequence, from 1 to 8
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=MAX_LENGTH as u64))]
    length: u64,

    /// Only pairs that a processor may execute as one: the second reads what the first writes
    #[arg(long, conflicts_with = "length")]
    fusion: bool,

    #[command(flatten)]
    range: RangeArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool tuples trace.astf --limit 20
  unspool tuples snapshot/ --length 3 --limit 20
  unspool tuples trace.zstf --fusion

Columns: executions, their share of all instructions in percent, and the mnemonics; with --fusion, the kind of pair before them.
Every instruction starts a sequence, so sequences overlap; exceptions and gaps end them.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let mut output = args.traces.open_output(&args.output)?;
    let (mut instructions, mut rows) = (0, 0);
    let verdict = args.traces.each(|trace| {
        let selection = trace.select(&args.traces.selection)?;
        let mut listing = Listing { args, trace: Source::of(trace), output: &mut output, rows };
        if args.traces.len() > 1 && !args.output.json {
            listing.output.write(|out| writeln!(out, "# {}", trace.name()));
        }
        let verdict = if args.fusion {
            let mut pairs = Pairs::default();
            let verdict = trace.follow(&selection, &mut pairs)?;
            instructions += pairs.instructions;
            listing.pairs(pairs);
            verdict
        } else {
            let mut names = Disassembler::new();
            let name = move |isa, opcode| names.mnemonic(isa, opcode).map_or_else(|| "?".to_string(), Into::into);
            let mut tuples = Tuples::new(args.length as usize, name);
            let verdict = trace.follow(&selection, &mut tuples)?;
            instructions += tuples.instructions;
            listing.tuples(&tuples);
            verdict
        };
        rows = listing.rows;
        Ok(verdict)
    })?;
    if args.output.json {
        write_summary(&mut output, "tuples", verdict, |object| {
            object.plain("instructions", instructions);
        });
    }
    output.finish()?;
    Ok(verdict)
}

/// Names of a trace.
struct Source {
    name: String,
    source: Option<String>,
}

impl Source {
    fn of(trace: &OpenTrace) -> Self {
        Self { name: trace.name(), source: trace.source.as_ref().map(|(name, _)| name.clone()) }
    }
}

/// Pairs that may be fused.
#[derive(Default)]
struct Pairs {
    fusion: Fusion,
    /// The last instruction of each core.
    last: HashMap<u32, (Isa, u32)>,
    /// By instruction set, opcodes of a pair.
    counts: HashMap<(Isa, u32, u32), u64>,
    instructions: u64,
}

/// Maximum number of pairs of opcodes that are counted apart before they are added up.
const MAX_PAIRS: usize = 1 << 20;

impl BlockSink for Pairs {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        match &step.event {
            Event::Instruction(instruction) => {
                self.instructions += 1;
                let now = instruction.opcode.map(|opcode| (instruction.isa, opcode));
                let last = match now {
                    Some(now) => self.last.insert(step.core, now),
                    None => self.last.remove(&step.core),
                };
                if let (Some((isa, first)), Some((_, second))) =
                    (last.filter(|last| now.is_some_and(|now| now.0 == last.0)), now)
                    && (self.counts.len() < MAX_PAIRS || self.counts.contains_key(&(isa, first, second)))
                {
                    *self.counts.entry((isa, first, second)).or_default() += 1;
                }
            }
            Event::Exception(_) | Event::Gap(_) => {
                self.last.remove(&step.core);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Listing of one trace.
struct Listing<'a> {
    args: &'a Args,
    trace: Source,
    output: &'a mut Output,
    /// Rows so far, of all traces.
    rows: u64,
}

impl Listing<'_> {
    /// Whether the next row is printed.
    fn is_selected(&mut self) -> bool {
        let RangeArgs { skip, limit } = self.args.range;
        let number = self.rows;
        self.rows += 1;
        number >= skip && limit.is_none_or(|limit| number < skip.saturating_add(limit))
    }

    fn row(&mut self, kind: Option<&str>, mnemonics: &[&str], count: u64, all: u64) {
        if !self.is_selected() {
            return;
        }
        let (source, is_json) = (self.trace.source.as_deref(), self.args.output.json);
        self.output.write(|out| {
            if !is_json {
                let share = 100.0 * count as f64 / all.max(1) as f64;
                let kind = kind.map_or(String::new(), |kind| format!("  {kind:<22}"));
                return writeln!(out, "{count:>14} {share:>6.2}%{kind}  {}", mnemonics.join(", "));
            }
            let mut line = String::new();
            let mut object = Object::new(&mut line);
            object.string("kind", if kind.is_some() { "fusion" } else { "tuple" }).nullable_string("source", source);
            if let Some(kind) = kind {
                object.string("pair", kind);
            }
            object.list("mnemonics", mnemonics.iter(), |text, name| text.push_str(&format!("\"{name}\"")));
            object.plain("count", count).write_line(out)
        });
    }

    fn tuples(&mut self, tuples: &Tuples<'_>) {
        for (mnemonics, count) in tuples.rows() {
            self.row(None, &mnemonics, count, tuples.instructions);
        }
        if tuples.others > 0 {
            let others = tuples.others;
            diagnostic::warning(format_args!(
                "{}: too many sequences; {others} executions are left out",
                self.trace.name
            ));
        }
    }

    fn pairs(&mut self, pairs: Pairs) {
        let Pairs { mut fusion, counts, instructions, .. } = pairs;
        let mut names = Disassembler::new();
        let mut name = |isa, opcode| names.mnemonic(isa, opcode).map_or_else(|| "?".to_string(), Into::into);
        let mut rows: HashMap<(&str, String, String), u64> = HashMap::new();
        for ((isa, first, second), count) in counts {
            if let Some(kind) = fusion.kind(isa, first, second) {
                *rows.entry((kind, name(isa, first), name(isa, second))).or_default() += count;
            }
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_unstable_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
        for ((kind, first, second), count) in &rows {
            self.row(Some(kind), &[first, second], *count, instructions);
        }
    }
}
