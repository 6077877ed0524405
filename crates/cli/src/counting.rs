//! Executions of all instructions of traces, for the verbs that show them by source line or by instruction.
//!
//! captures, ASTF, STF, Tarmac ─▶ counts by address ─▶ counts by image

use std::path::{Path, PathBuf};

use unspool::Program;
use unspool::analyze::address_counts::{AddressCounter, AddressCounts};
use unspool::coverage::ExecutedImages;
use unspool::lines::Lines;

use crate::selection_args::SelectionArgs;
use crate::source_lines::source_lines;
use crate::traces::{EachOptions, OpenTrace, ReadArgs};
use crate::verdict::Verdict;

/// Options of verbs that count executions.
#[derive(Debug, clap::Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    selection: SelectionArgs,
}

impl CountArgs {
    /// Files that are read beside the traces.
    pub(crate) fn image_paths(&self) -> Vec<PathBuf> {
        self.read.image_paths()
    }

    /// Source lines of the images.
    pub(crate) fn lines(&self) -> anyhow::Result<Lines> {
        Ok(source_lines(&self.read.processes.load()?, &self.read.images))
    }

    /// Adds what a trace executed.
    pub(crate) fn count(&self, path: &Path, executed: &mut ExecutedImages) -> anyhow::Result<Verdict> {
        self.count_each(path, &mut |counts, program| executed.add(counts, program))
    }

    /// Passes on what each source of a trace executed.
    pub(crate) fn count_each(&self, path: &Path, take: &mut TakeCounts<'_>) -> anyhow::Result<Verdict> {
        self.read.each(path, EachOptions::default(), &mut |trace| count(trace, &self.selection, &self.read, take))
    }
}

/// Consumer of the executions of a source, and of its program.
pub(crate) type TakeCounts<'t> = dyn FnMut(&AddressCounts, &Program) + 't;

/// Counts what is selected of a trace.
pub(crate) fn count(
    trace: &mut OpenTrace,
    selection: &SelectionArgs,
    read: &ReadArgs,
    take: &mut TakeCounts<'_>,
) -> anyhow::Result<Verdict> {
    let selection = trace.select(selection)?;
    let (counter, ended) = trace.run_pass(&selection, read.jobs, AddressCounter::default)?;
    take(&counter.finish(), trace.program());
    trace.end(ended)
}
