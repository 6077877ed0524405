//! `tables`: writes a trace as tables for other programs.
//!
//! The tables need Arrow and Parquet, which take long to build: they are a feature of this crate.

#[cfg(feature = "tables")]
pub(super) mod write;

use std::path::PathBuf;

use crate::traces::ReadArgs;
use crate::verdict::Verdict;

/// Write traces as tables (Parquet files) for SQL, Python and data frames
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Captures, ASTF files, STF files or Tarmac logs ('-': standard input, except for captures)
    #[arg(value_name = "TRACE", required = true)]
    pub(super) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) read: ReadArgs,

    /// Folder to write, with a folder for each table
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,

    /// Replace the tables of an earlier run
    #[arg(long)]
    force: bool,

    /// Only these tables, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = ["sources", "blocks", "instructions", "calls", "accesses", "events"])]
    tables: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  unspool tables snapshot/ -o run.tables --image program.elf
  unspool tables trace.astf -o run.tables --tables blocks,instructions,sources
  duckdb -c \"SELECT sum(instructions) FROM 'run.tables/blocks/*.parquet'\"

'blocks' has a row for each execution of straight-line code, 'instructions' a row for each instruction of the code, and \
'calls', 'accesses' and 'events' one for each call, load or store, and exception, context, gap, note or value of software trace. \
docs/tables.md describes the columns. The folder appears when all tables are complete. 'unspool query' asks questions in SQL.";

#[cfg(feature = "tables")]
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    write::run(args)
}

#[cfg(not(feature = "tables"))]
pub(crate) fn run(_: &Args) -> anyhow::Result<Verdict> {
    anyhow::bail!("{WITHOUT}")
}

/// Why a build without the feature has no tables.
#[cfg(not(feature = "tables"))]
pub(super) const WITHOUT: &str =
    "this build has no tables: use a release of unspool, or build it with 'cargo build --release --features tables'";
