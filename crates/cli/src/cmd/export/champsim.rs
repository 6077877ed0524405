//! `export champsim`: a trace for the simulator ChampSim.

use anyhow::{Context, bail};
use unspool::champsim::ChampSimWriter;
use unspool::number::many;
use unspool::target::{Target, log_container, open_log};

use super::{FileArgs, InstructionArgs, warn_if_nothing};
use crate::diagnostic;
use crate::output::report_written;
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// Write a trace for the simulator ChampSim
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    instructions: InstructionArgs,
    #[command(flatten)]
    file: FileArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool export champsim trace.astf -o run.champsimtrace.xz
  unspool export champsim snapshot/ --source 0x10 -o run.champsimtrace.gz

The extension of FILE selects the compression: .xz, .gz, .zst or none.
64 bytes for each instruction: address, branch and outcome, up to 2 registers and addresses that it writes, 4 that it reads. \
Registers are those that the operands name; branches have the registers by which ChampSim recognizes their kind. A capture \
without data trace has no addresses of accesses.";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.file.force.check(&args.file.output)?;
    if args.trace.len() > 1 {
        bail!("the instructions of several traces would be mixed: give one trace");
    }
    let mut has_trace = false;
    let verdict = args.trace.each(|trace| {
        if std::mem::replace(&mut has_trace, true) {
            bail!("the capture has several sources, which would be mixed: select one with --source");
        }
        write(args, trace)
    })?;
    report_written(&args.file.output);
    Ok(verdict)
}

fn write(args: &Args, trace: &mut OpenTrace) -> anyhow::Result<Verdict> {
    let out = open_log(&args.file.output, log_container(&args.file.output), Default::default())?;
    let mut writer = ChampSimWriter::new(out);
    let selection = args.instructions.select(trace, &args.trace)?;
    let verdict = trace.follow(&selection, &mut writer)?;
    let written = writer.finish().and_then(|(out, written)| {
        out.finish().and_then(Target::keep)?;
        Ok(written)
    });
    let written = written.with_context(|| format!("cannot write {}", args.file.output.display()))?;
    warn_if_nothing(&trace.name(), written.instructions, selection.is_all());
    diagnostic::note(many(written.instructions, "instruction"));
    if written.left_out > 0 {
        let left_out = many(written.left_out, "register or address");
        diagnostic::note(format_args!("left out for lack of room in their records: {left_out}"));
    }
    Ok(verdict)
}
