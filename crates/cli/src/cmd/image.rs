//! `image`: the program that a trace executed, as an ELF file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use unspool::ExecutedImage;
use unspool::number::many;

use crate::args::ForceArgs;
use crate::diagnostic;
use crate::output::report_written;
use crate::traces::TraceArgs;
use crate::verdict::Verdict;

/// Write the instructions that traces executed as an ELF file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceArgs,

    /// ELF file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    force: ForceArgs,
}

const EXAMPLES: &str = "\
Examples:
  unspool image trace.astf -o program.elf
  unspool image run1.tarmac run2.tarmac -o program.elf
  unspool decode buffer.bin --protocol ete --image program.elf

The file has a segment for each area of code, at the addresses of the trace. What was not executed is not in a trace: it is \
zero inside a segment, and there are no symbols and no data. Where code was changed, the first version is kept.";

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.force.check(&args.output)?;
    let mut image = ExecutedImage::default();
    let verdict = args.traces.each(|trace| {
        image.start();
        let selection = trace.select(&args.traces.selection)?;
        trace.follow(&selection, &mut image)
    })?;
    let path = args.output.display();
    let write = || -> std::io::Result<_> {
        let mut out = BufWriter::new(File::create(&args.output)?);
        let totals = image.write(&mut out)?;
        out.flush()?;
        Ok(totals)
    };
    if image.is_empty() {
        bail!("no opcode is in the trace, so there is no image to write");
    }
    let Some(totals) = write().with_context(|| format!("cannot write {path}"))? else { return Ok(verdict) };
    report_written(&args.output);
    let (segments, bytes) = (many(totals.segments as u64, "segment"), many(totals.bytes, "byte"));
    diagnostic::note(format_args!("{path}: {segments}, {bytes} of code"));
    if totals.changed > 0 {
        let changed = many(totals.changed, "instruction");
        diagnostic::warning(format_args!("{path}: code was changed: {changed} with other opcodes left out"));
    }
    Ok(verdict)
}
