//! `query`: asks a question about a trace in SQL.
//!
//! The tables of the trace are written once and kept; DuckDB, a program of its own, reads them.

#[cfg(feature = "tables")]
mod cache;
#[cfg(feature = "tables")]
mod engine;
#[cfg(feature = "tables")]
mod run;

use std::path::PathBuf;

use crate::args::OutputArgs;
use crate::traces::ReadArgs;
use crate::verdict::Verdict;

/// Ask a question about a trace in SQL
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture, ASTF file, STF file or Tarmac log, or a folder that 'unspool tables' has written
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The question; without one, a shell in which to ask
    #[arg(value_name = "SQL")]
    sql: Option<String>,

    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    output: OutputArgs,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Write the tables of the trace again, even if they are up to date
    #[arg(long)]
    rebuild: bool,
}

const EXAMPLES: &str = "\
Examples:
  unspool query trace.astf 'SELECT function, instructions FROM hot_functions LIMIT 10' --image program.elf
  unspool query snapshot/ 'SELECT count(*) FROM steps WHERE address = 0x400580'
  unspool query run.tarmac 'SELECT kind, name, count(*) FROM events GROUP BY ALL' --csv
  unspool query trace.astf
  unspool query run.tables 'SELECT max(instructions) FROM blocks'

docs/queries.md describes the views, such as 'executed' (blocks with the name of their function), 'steps', 'hot_functions', \
'branch_bias' and 'interrupt_latency'. The tables are written beside the trace, or to the cache folder if that cannot be, and \
are used again until the trace or an option changes. The engine is DuckDB, a program that is looked for in $UNSPOOL_DUCKDB, beside \
unspool, and in the PATH.";

#[cfg(feature = "tables")]
pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    run::run(args)
}

#[cfg(not(feature = "tables"))]
pub(crate) fn run(_: &Args) -> anyhow::Result<Verdict> {
    anyhow::bail!("{}", super::tables::WITHOUT)
}
