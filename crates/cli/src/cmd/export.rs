//! `export`: traces and analyses as files of other tools, one file per kind.

mod afdo;
mod bolt;
mod call_file;
mod callgrind;
mod champsim;
mod flamegraph;
mod folded;
mod html;
mod perfetto;
mod software;
mod speedscope;
mod vcd;
mod whole_file;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use unspool::ChannelNames;
use unspool::analyze::step_selection::StepSelection;

use crate::args::ForceArgs;
use crate::diagnostic;
use crate::selection_args::parse_instructions;
use crate::traces::{OpenTrace, TraceArgs};
use crate::verdict::Verdict;

/// Write a trace or an analysis of it for another tool
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    Afdo(afdo::Args),
    Bolt(bolt::Args),
    Callgrind(callgrind::Args),
    #[command(name = "champsim")]
    ChampSim(champsim::Args),
    #[command(name = "flamegraph")]
    FlameGraph(flamegraph::Args),
    Folded(folded::Args),
    Html(html::Args),
    Perfetto(perfetto::Args),
    Speedscope(speedscope::Args),
    Vcd(vcd::Args),
}

/// The file to write.
#[derive(Debug, clap::Args)]
struct FileArgs {
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    force: ForceArgs,
}

/// Instructions by their number.
#[derive(Debug, clap::Args)]
struct InstructionArgs {
    /// Only instructions A up to, but not including, B of each core, counted from 0. A or B may be left out
    #[arg(long, value_name = "A..B", value_parser = parse_instructions)]
    instructions: Option<Range<u64>>,
}

impl InstructionArgs {
    /// What is selected of a trace.
    fn select(&self, trace: &mut OpenTrace, args: &TraceArgs) -> anyhow::Result<StepSelection> {
        Ok(StepSelection { instructions: self.instructions.clone(), ..trace.select(&args.selection)? })
    }
}

/// The names of masters and channels in a file.
fn channel_names(path: Option<&Path>) -> anyhow::Result<ChannelNames> {
    let Some(path) = path else { return Ok(ChannelNames::default()) };
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    ChannelNames::parse(&text).with_context(|| path.display().to_string())
}

/// Warns of a trace of which nothing is exported.
fn warn_if_nothing(name: &str, instructions: u64, is_all: bool) {
    match (instructions, is_all) {
        (0, true) => diagnostic::warning(format_args!("{name}: nothing was executed: the trace has no instructions")),
        (0, false) => diagnostic::warning(format_args!("{name}: no instruction is selected")),
        _ => {}
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    match &args.kind {
        Kind::Afdo(args) => afdo::run(args),
        Kind::Bolt(args) => bolt::run(args),
        Kind::Callgrind(args) => callgrind::run(args),
        Kind::ChampSim(args) => champsim::run(args),
        Kind::FlameGraph(args) => flamegraph::run(args),
        Kind::Folded(args) => folded::run(args),
        Kind::Html(args) => html::run(args),
        Kind::Perfetto(args) => perfetto::run(args),
        Kind::Speedscope(args) => speedscope::run(args),
        Kind::Vcd(args) => vcd::run(args),
    }
}
