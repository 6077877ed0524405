//! `bbv`: basic-block vectors, for SimPoint.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use unspool::Program;
use unspool::analyze::basic_blocks::{BasicBlock, BasicBlockVectors};
use unspool::number::many;

use crate::args::ForceArgs;
use crate::diagnostic;
use crate::output::report_written;
use crate::symbols::{printable, symbol_text};
use crate::traces::TraceArgs;
use crate::verdict::Verdict;

/// Write basic-block vectors of a trace, for SimPoint
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    trace: TraceArgs,

    /// Instructions per interval. An interval ends with the basic block that reaches it
    #[arg(long, value_name = "N", default_value_t = 100_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,

    /// Also list the basic blocks in FILE: number, first address, address after the last, process and symbol of each
    #[arg(long, value_name = "FILE")]
    blocks: Option<PathBuf>,

    /// File for the vectors
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    force: ForceArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool bbv trace.astf -o run.bb
  unspool bbv snapshot/ --source 0x10 --interval 10000000 -o run.bb
  unspool bbv trace.zstf -o run.bb --blocks run.blocks

Each line is an interval: T, and then :BLOCK:COUNT for each basic block that was executed in it. Blocks are numbered from 1 in \
the order of their first execution; a count is the number of instructions that the block contributed, as SimPoint expects it. A \
basic block starts where a taken branch, an exception or a gap leads, ends with the next of them, and is known by its first and \
last address in its process, as in stf_bbv. The last interval may be shorter. A trace of several sources or cores is read source by source: select one with --source.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.force.check(&args.output)?;
    args.blocks.iter().try_for_each(|path| args.force.check(path))?;
    if args.trace.len() > 1 {
        bail!("the intervals of several traces would be mixed: give one trace");
    }
    let create = |path: &Path| -> anyhow::Result<BufWriter<File>> {
        Ok(BufWriter::new(File::create(path).with_context(|| format!("cannot create {}", path.display()))?))
    };
    let mut has_trace = false;
    let verdict = args.trace.each(|trace| {
        if std::mem::replace(&mut has_trace, true) {
            bail!("the capture has several sources, whose intervals would be mixed: select one with --source");
        }
        let selection = trace.select(&args.trace.selection)?;
        let mut vectors = BasicBlockVectors::new(args.interval, create(&args.output)?);
        let verdict = trace.follow(&selection, &mut vectors)?;
        let (totals, blocks) = vectors.finish().with_context(|| format!("cannot write {}", args.output.display()))?;
        if let Some(path) = &args.blocks {
            let written = write_blocks(&blocks, trace.program(), create(path)?);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        diagnostic::note(format_args!(
            "{} of {} in {}",
            many(totals.intervals, "interval"),
            many(totals.instructions, "instruction"),
            many(totals.blocks as u64, "basic block")
        ));
        Ok(verdict)
    })?;
    report_written(&args.output);
    args.blocks.iter().for_each(|path| report_written(path));
    Ok(verdict)
}

fn write_blocks(blocks: &[BasicBlock], program: &Program, mut out: impl Write) -> std::io::Result<()> {
    for (number, block) in (1..).zip(blocks) {
        let process = block.process.map_or("-".to_string(), |process| process.to_string());
        let symbol = program.symbol(block.start).map_or(String::new(), |symbol| printable(&symbol_text(symbol)));
        writeln!(out, "{number} {:#x} {:#x} {process} {symbol}", block.start, block.end)?;
    }
    out.flush()
}
