//! Writes traces into a folder of tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use unspool_tables::{Extraction, FolderWriter, MadeOf, Table, TableFolder};

use super::Args;
use crate::output::report_written;
use crate::progress::Progress;
use crate::traces::{EachOptions, OpenTrace, ReadArgs};
use crate::verdict::Verdict;

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if TableFolder::at(&args.output).is_ok() && !args.force {
        bail!("{}: there are tables already; use --force to replace them", args.output.display());
    }
    let named = args.tables.iter().filter_map(|name| Table::named(name));
    let tables: BTreeSet<Table> = if args.tables.is_empty() { Table::ALL.into() } else { named.collect() };
    let verdict = write(&args.files, &args.read, &args.output, &tables, "")?;
    report_written(&args.output);
    Ok(verdict)
}

/// Writes the tables of traces. `identity` identifies the traces.
pub(crate) fn write(
    files: &[PathBuf],
    read: &ReadArgs,
    folder: &Path,
    tables: &BTreeSet<Table>,
    identity: &str,
) -> anyhow::Result<Verdict> {
    let mut writer = FolderWriter::create(folder, &tables.iter().copied().collect::<Vec<_>>())?;
    let mut extraction = Extraction::new(tables.iter().copied(), &mut writer);
    let (mut verdict, options) = (Verdict::Clean, EachOptions { software: true, ..EachOptions::default() });
    for file in files {
        verdict = verdict.or(read.each(file, options, &mut |trace| extract(trace, &mut extraction))?);
    }
    extraction.finish()?;
    let has_problems = verdict != Verdict::Clean;
    writer.publish(&MadeOf { identity: identity.to_string(), has_problems })?;
    Ok(verdict)
}

fn extract(trace: &mut OpenTrace, extraction: &mut Extraction<'_>) -> anyhow::Result<Verdict> {
    if let Some(source) = trace.software() {
        let _progress = Progress::follow(&trace.meter);
        extraction.software(source, &trace.meter)?;
        return Ok(Verdict::Clean);
    }
    let name = trace.source.as_ref().map_or_else(|| trace.file.clone(), |(name, _)| name.clone());
    let program = trace.program().clone();
    trace.steps()?;
    let progress = Progress::follow(&trace.meter);
    let ended = extraction.trace(&name, trace.steps()?, &program)?;
    drop(progress);
    trace.end(ended)
}
