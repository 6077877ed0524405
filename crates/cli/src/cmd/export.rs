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
mod speedscope;
mod vcd;
mod whole_file;

use std::path::PathBuf;

use crate::args::ForceArgs;
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
