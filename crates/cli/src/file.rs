//! Trace files as the verbs use them.
//!
//! Takes arguments; produces a file of the library, and reports damage, oddities and unreadable lines.

use std::path::{Path, PathBuf};

use unspool::file::{AstfFile, End, FileError, FileOptions, StfFile, TarmacFile, TraceFile, is_damage};
use unspool::model::{Loss, Losses, Lost};
use unspool::number::many;
use unspool::tarmac::dialect::Dialect;

use crate::diagnostic;
use crate::verdict::Verdict;

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
    /// Producer of the log: rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other [default: auto-detected]
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
    TraceFile::open(path, &tarmac.options(threads)).map_err(|error| with_hint(error, tarmac.hint))
}

/// Adds the option that reads any file as a log to the error about a file that is not a trace.
pub(crate) fn with_hint(error: FileError, option: &str) -> anyhow::Error {
    match error {
        FileError::NotAstf { name, reason, looks_like } => {
            let not_a_trace = format!("not an ASTF or STF file or a Tarmac log (use {option} to read it as a log)");
            let reason = reason.replace("not an ASTF file", &not_a_trace);
            FileError::NotAstf { name, reason, looks_like }.into()
        }
        error => error.into(),
    }
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
