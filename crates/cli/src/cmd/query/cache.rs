//! Tables of a trace, kept until the trace changes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::Context;
use unspool_tables::{Table, TableFolder};

use super::Args;
use crate::cmd::tables::write::write;
use crate::diagnostic;
use crate::file::cache_folder;
use crate::verdict::Verdict;

/// Files of a capture that are looked at for a change.
const MAX_FILES: usize = 10_000;

/// The folder with these tables of a trace, which are written if they are not there, or not of this trace as it is now.
pub(super) fn tables_of(args: &Args, wanted: &BTreeSet<Table>) -> anyhow::Result<(TableFolder, Verdict)> {
    if let Ok(folder) = TableFolder::at(&args.trace) {
        return Ok((folder, Verdict::Clean));
    }
    let trace = args.trace.canonicalize().with_context(|| format!("cannot open {}", args.trace.display()))?;
    let made_of = identity(&trace, args)?;
    let mut tables = wanted.clone();
    for path in places(&trace) {
        let Ok(folder) = TableFolder::at(&path) else { continue };
        if folder.made_of().identity != made_of || args.rebuild {
            continue;
        }
        if wanted.iter().all(|table| folder.has(*table)) {
            let has_problems = folder.made_of().has_problems;
            if has_problems {
                diagnostic::warning("the trace has problems: see the table 'sources', and gaps in 'events'");
            }
            return Ok((folder, Verdict::of(has_problems)));
        }
        tables.extend(Table::ALL.into_iter().filter(|table| folder.has(*table)));
    }
    let path =
        places(&trace).into_iter().find(|path| is_writable(path)).context("there is no folder for the tables")?;
    diagnostic::note(format_args!("writing tables to {}", path.display()));
    let verdict = write(&[trace], &args.read, &path, &tables, &made_of)?;
    Ok((TableFolder::at(&path)?, verdict))
}

/// Where tables of a trace may be: beside it, and in the cache folder.
fn places(trace: &Path) -> Vec<PathBuf> {
    let mut name = trace.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".tables");
    let mut hasher = DefaultHasher::new();
    trace.hash(&mut hasher);
    let hash = hasher.finish();
    let cached = cache_folder().map(|folder| folder.join("tables").join(format!("{hash:016x}.tables")));
    [Some(trace.with_file_name(name)), cached].into_iter().flatten().collect()
}

/// Whether a folder can be made at this path.
fn is_writable(path: &Path) -> bool {
    let Some(parent) = path.parent() else { return false };
    // The cache may not exist yet.
    let _ = fs::create_dir_all(parent);
    tempfile::tempfile_in(parent).is_ok()
}

/// Identifies the trace as it is now, and the options that it is read with.
fn identity(trace: &Path, args: &Args) -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), format!("{:?}", args.read)).hash(&mut hasher);
    let mut files = Vec::new();
    for path in [trace.to_path_buf()].into_iter().chain(args.read.image_paths()) {
        list(&path, &mut files).with_context(|| format!("cannot read {}", path.display()))?;
    }
    files.sort();
    files.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Path, size and time of change of a file, or of all files below a folder.
fn list(path: &Path, files: &mut Vec<(PathBuf, u64, u128)>) -> std::io::Result<()> {
    let about = fs::metadata(path)?;
    if !about.is_dir() {
        files.push((path.to_path_buf(), about.len(), changed(&about)));
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        if files.len() < MAX_FILES {
            list(&entry?.path(), files)?;
        }
    }
    Ok(())
}

/// When a file was changed last, in nanoseconds.
fn changed(about: &Metadata) -> u128 {
    let time = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    time.map_or(0, |time| time.as_nanos())
}
