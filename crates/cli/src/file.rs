//! Trace files as the verbs use them.
//!
//! Takes arguments; produces a file of the library, and reports damage, oddities and unreadable lines.

#[cfg(any(unix, feature = "tables"))]
use std::env;
use std::path::{Path, PathBuf};

use anyhow::bail;
use unspool::astf::record::Storage;
use unspool::file::{AstfFile, End, FileError, FileOptions, StfFile, TarmacFile, TraceFile, is_damage};
use unspool::model::{Loss, Losses, Lost};
use unspool::number::{grouped, many};
use unspool::tarmac::dialect::Dialect;
use unspool::{Error, Identity, Wanted};

use crate::verdict::Verdict;
use crate::{diagnostic, is_closed_pipe, text_of};

#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// ASTF file, STF file or Tarmac log ('-': standard input)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) tarmac: TarmacArgs,
}

impl FileArgs {
    pub(crate) fn open(&self) -> anyhow::Result<TraceFile> {
        open(&self.file, None, &self.tarmac)
    }
}

/// Properties of a Tarmac log that its lines do not contain.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TarmacArgs {
    /// Dialect of the log: rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other [default: auto-detected]
    #[arg(long, value_name = "NAME", value_parser = parse_dialect, help_heading = "Tarmac")]
    pub(crate) dialect: Option<Dialect>,

    /// Instructions are Thumb where their line names no instruction set
    #[arg(long, help_heading = "Tarmac")]
    pub(crate) implicit_thumb: bool,

    /// Option of the verb that reads any file as a log.
    #[arg(skip = "--dialect")]
    pub(crate) hint: &'static str,
}

pub(crate) fn parse_dialect(name: &str) -> Result<Dialect, String> {
    let names = "rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other";
    Dialect::from_name(name).ok_or_else(|| format!("unknown dialect '{name}': use {names}"))
}

impl TarmacArgs {
    /// Does an option say that the file is a log?
    pub(crate) fn is_given(&self) -> bool {
        self.dialect.is_some() || self.implicit_thumb
    }

    pub(crate) fn options(&self, threads: Option<usize>) -> FileOptions {
        FileOptions { threads, dialect: self.dialect, implicit_thumb: self.implicit_thumb }
    }
}

pub(crate) fn open(path: &Path, threads: Option<usize>, tarmac: &TarmacArgs) -> anyhow::Result<TraceFile> {
    let file = TraceFile::open(path, &tarmac.options(threads)).map_err(|error| with_hint(error.into(), tarmac.hint))?;
    diagnostic::detail(format_args!("{}: {}", file.name(), describe(&file)));
    Ok(file)
}

/// Kind of a trace file, and how it is stored.
fn describe(file: &TraceFile) -> String {
    match file {
        TraceFile::Astf(file) => {
            let storage = match file.header().storage() {
                Storage::Raw => "uncompressed",
                Storage::Lzma => "LZMA",
                Storage::Zlib => "zlib",
            };
            format!("ASTF file, {storage}")
        }
        TraceFile::Stf(file) => format!("STF file, {}", file.storage()),
        TraceFile::Tarmac(file) => format!("Tarmac log, dialect {}", file.dialect().name()),
    }
}

/// Runs a verb on each of several files. A file that cannot be read does not stop the others, but the command fails.
pub(crate) fn each_file(
    paths: &[PathBuf],
    mut run: impl FnMut(usize, &Path) -> anyhow::Result<Verdict>,
) -> anyhow::Result<Verdict> {
    if let [path] = paths {
        return run(0, path);
    }
    let (mut verdict, mut failed) = (Verdict::Clean, 0);
    for (index, path) in paths.iter().enumerate() {
        match run(index, path) {
            Ok(found) => verdict = verdict.or(found),
            Err(error) if is_closed_pipe(&error) => return Err(error),
            Err(error) => {
                diagnostic::error(text_of(&error));
                failed += 1;
            }
        }
    }
    match failed {
        0 => Ok(verdict),
        failed => bail!("{} of {} could not be read", grouped(failed), many(paths.len() as u64, "file")),
    }
}

/// Opens a Tarmac log, and refuses everything else.
pub(crate) fn open_log(path: &Path, tarmac: &TarmacArgs) -> anyhow::Result<TarmacFile> {
    let opened = open(path, None, tarmac).map_err(|mut error| {
        if let Some(FileError::WrongKind(wrong)) = error.downcast_mut() {
            wrong.wanted = Wanted::Tarmac;
        }
        error
    });
    match opened? {
        TraceFile::Tarmac(file) => Ok(file),
        other => bail!(Identity::known(other.kind()).refused(other.name(), Wanted::Tarmac)),
    }
}

/// Adds the option that reads any text as a log to the error about a file of another kind.
pub(crate) fn with_hint(mut error: anyhow::Error, option: &'static str) -> anyhow::Error {
    let of_file = match error.downcast_mut() {
        Some(Error::WrongKind(wrong)) => {
            wrong.log_option = Some(option);
            None
        }
        Some(Error::File(error)) => Some(error),
        _ => error.downcast_mut(),
    };
    if let Some(FileError::WrongKind(wrong)) = of_file {
        wrong.log_option = Some(option);
    }
    error
}

/// Reports damage, which is a problem.
pub(crate) fn end_verdict(end: &End) -> Verdict {
    match end {
        End::Whole | End::Stopped => Verdict::Clean,
        End::Damaged(text) => {
            diagnostic::error(text);
            Verdict::Problems
        }
    }
}

pub(crate) fn report_astf(file: &AstfFile) {
    file.warnings().iter().for_each(|warning| diagnostic::warning(format_args!("{}: {warning}", file.name())));
}

/// Reports oddities of the file that were not reported before.
pub(crate) fn report_stf(file: &mut StfFile) {
    let warnings = file.new_warnings();
    warnings.iter().for_each(|warning| diagnostic::warning(format_args!("{}: {warning}", file.name())));
}

/// Reports damage and oddities. A container that contradicts itself is a problem, even if all of it could be read.
pub(crate) fn stf_verdict(file: &mut StfFile, end: &End) -> Verdict {
    report_stf(file);
    end_verdict(end).or(Verdict::of(file.warnings().iter().any(is_damage)))
}

/// Reports the first lines that cannot be parsed, once.
pub(crate) fn report_lines(file: &mut TarmacFile) {
    let lines = std::mem::take(&mut file.unreadable().first);
    lines.iter().for_each(|line| diagnostic::warning(format_args!("{}: {line}", file.name())));
}

/// Reports damage and lines that cannot be parsed, which are problems.
pub(crate) fn tarmac_verdict(file: &mut TarmacFile, end: &End) -> Verdict {
    report_lines(file);
    let verdict = end_verdict(end);
    let (count, has_more) = (file.unreadable().count, file.unreadable().has_more());
    if has_more {
        diagnostic::error(format_args!("{}: {} in total cannot be parsed", file.name(), many(count, "line")));
    }
    verdict.or(Verdict::of(count > 0))
}

/// Reports loads that the log calls writes, if there are any.
pub(crate) fn report_corrected_loads(name: &str, corrected: Lost) {
    if corrected.count > 0 {
        diagnostic::warning(format_args!("{name}: taken as reads: {}", corrected_loads(corrected)));
    }
}

/// Loads that the log calls writes, in words.
pub(crate) fn corrected_loads(corrected: Lost) -> String {
    let loads = many(corrected.count, "load");
    format!("{loads} that the log calls a write, the first in line {}", corrected.first)
}

/// Reports lines that became no steps, which are a problem, and corrected ones, which are not.
pub(crate) fn losses_verdict(name: &str, losses: &Losses) -> Verdict {
    report_corrected_loads(name, losses.of(Loss::CorrectedLoads));
    let lost = losses.of(Loss::Unreadable);
    if lost.count > 0 {
        let lines = many(lost.count, "line");
        diagnostic::error(format_args!("{name}: {lines} cannot be read, the first is line {}", lost.first));
    }
    Verdict::of(lost.count > 0)
}

/// The folder in the cache of the user; `None`: there is no cache.
#[cfg(any(unix, feature = "tables"))]
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    Some(named.or_else(|| Some(home()?.join(".cache")))?.join("unspool"))
}
