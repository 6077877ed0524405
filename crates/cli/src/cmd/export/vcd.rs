//! `export vcd`: registers, program counter, Exception level and events over time, for viewers of waveforms.

use anyhow::bail;
use unspool::export::vcd::{Clock, VcdWriter};
use unspool::model::Facet;
use unspool::number::many;
use unspool::{FileKind, Spill};

use super::whole_file::write_file;
use super::{FileArgs, InstructionArgs, warn_if_nothing};
use crate::diagnostic;
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// Write registers, program counter and events over time for viewers of waveforms (VCD)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    instructions: InstructionArgs,
    #[command(flatten)]
    file: FileArgs,

    /// What the time is [default: the time of a Tarmac log with times, otherwise the number of the instruction]
    #[arg(long, value_name = "WHAT", value_enum)]
    clock: Option<ClockName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClockName {
    /// The time of the trace
    Time,
    /// The number of the instruction, counted from 0
    Instructions,
}

/// Size from which common viewers need very long to open a dump.
const LARGE: u64 = 2 << 30;

const EXAMPLES: &str = "\
Examples:
  unspool export vcd run.tarmac -o run.vcd && gtkwave run.vcd
  unspool export vcd trace.zstf --clock instructions -o run.vcd
  unspool export vcd run.tarmac --time 1us..2us -o run.vcd

A value change dump (IEEE 1364) with a scope for each core: 'pc', 'opcode', 'el' (Exception level or privilege mode), 'process', 'thread', all \
registers that the trace has, and the events 'exception', 'exception_return' and 'gap'. Bits that the trace does not have are x; after a gap, \
all are. Where many instructions have the same time, viewers show the last one: --clock instructions keeps them apart.";

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.file.force.check(&args.file.output)?;
    if args.trace.len() > 1 {
        bail!("the instructions of several traces would be mixed: give one trace");
    }
    let mut has_trace = false;
    args.trace.each(|trace| {
        if std::mem::replace(&mut has_trace, true) {
            bail!("the capture has several sources, which would be mixed: select one with --source");
        }
        write(args, trace)
    })
}

fn write(args: &Args, trace: &mut OpenTrace) -> anyhow::Result<Verdict> {
    let (coverage, unit) = trace.coverage()?;
    let has_times = coverage.has(Facet::Times);
    let clock = match args.clock {
        Some(ClockName::Time) if !has_times => bail!("{}: --clock time: the trace has no times", trace.name()),
        Some(ClockName::Time) => Clock::Times(unit),
        // Every line of a log has a time of its own; elsewhere, many instructions share one.
        None if has_times && trace.kind == FileKind::Tarmac => Clock::Times(unit),
        _ => Clock::Instructions,
    };
    if !coverage.has(Facet::Registers) {
        diagnostic::note(format_args!("{}: the trace has no registers", trace.name()));
    }
    let selection = args.instructions.select(trace, &args.trace)?;
    let mut writer = VcdWriter::new(clock, Spill::default());
    let verdict = trace.each(&selection, &mut writer)?;
    if writer.size() > LARGE {
        diagnostic::warning(format_args!(
            "the dump has {}, and viewers load all of it: --time, --instructions and --function make it smaller",
            many(writer.size(), "byte")
        ));
    }
    let written = write_file(&args.file.output, |out| writer.finish(out))?;
    warn_if_nothing(&trace.name(), written.instructions, selection.is_all());
    let [instructions, variables, changes] =
        [(written.instructions, "instruction"), (written.variables, "variable"), (written.changes, "change")]
            .map(|(count, noun)| many(count, noun));
    diagnostic::note(format_args!("{instructions}, {variables}, {changes}"));
    if written.gaps > 0 {
        diagnostic::note(format_args!("{}: values after them are x", many(written.gaps, "gap")));
    }
    if written.left_out > 0 {
        diagnostic::note(format_args!("left out, too many or too large: {}", many(written.left_out, "register write")));
    }
    Ok(verdict)
}
