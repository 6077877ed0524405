//! Trace files as the verbs use them: which one, and what is reported about it.
//!
//! Takes arguments; produces a file of the library, and diagnostics about damage, oddities and unreadable lines.

use std::path::{Path, PathBuf};

use unspool::file::{AstfFile, End, FileError, FileOptions, StfFile, TarmacFile, TraceFile, is_damage};
use unspool::model::{Loss, Losses};
use unspool::number::many;
use unspool::tarmac::dialect::Dialect;

use crate::diagnostic::diagnostic;
use crate::verdict::Verdict;

/// Which file.
#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// An ASTF or STF file or a Tarmac log ('-': standard input)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) tarmac: TarmacArgs,
}

impl FileArgs {
    /// Opens it.
    pub(crate) fn open(&self) -> anyhow::Result<TraceFile> {
        open(&self.file, None, &self.tarmac)
    }
}

/// What lines of a log do not contain.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TarmacArgs {
    /// Who wrote the log (found out, if not said): rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other
    #[arg(long, value_name = "NAME", value_parser = dialect, help_heading = "Tarmac")]
    pub(crate) dialect: Option<Dialect>,

    /// Instructions whose line does not name an instruction set are Thumb
    #[arg(long, help_heading = "Tarmac")]
    pub(crate) implicit_thumb: bool,

    /// The option of the verb that makes a log of any file.
    #[arg(skip = "--dialect")]
    pub(crate) hint: &'static str,
}

/// A dialect by its name.
pub(crate) fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::from_name(name).ok_or_else(|| {
        format!("'{name}' is none of rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 and other")
    })
}

impl TarmacArgs {
    /// Was anything given about a log?
    pub(crate) fn is_given(&self) -> bool {
        self.dialect.is_some() || self.implicit_thumb
    }

    /// The options of the library.
    pub(crate) fn options(&self, threads: Option<usize>) -> FileOptions {
        FileOptions { threads, dialect: self.dialect, implicit_thumb: self.implicit_thumb }
    }
}

/// Opens a file or the standard input.
pub(crate) fn open(path: &Path, threads: Option<usize>, tarmac: &TarmacArgs) -> anyhow::Result<TraceFile> {
    TraceFile::open(path, &tarmac.options(threads)).map_err(|error| with_hint(error, tarmac.hint))
}

/// Adds to the refusal of a file that is no trace the option that makes a log of it.
pub(crate) fn with_hint(error: FileError, option: &str) -> anyhow::Error {
    match error {
        FileError::NotAstf { name, reason, looks_like } => {
            let none = format!("no ASTF or STF file and no Tarmac log ({option} makes it one)");
            let reason = reason.replace("not an ASTF file", &none);
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
            diagnostic(text);
            Verdict::Problems
        }
    }
}

/// Reports what is odd about the header.
pub(crate) fn report_astf(file: &AstfFile) {
    file.warnings().iter().for_each(|warning| diagnostic(format_args!("{}: {warning}", file.name())));
}

/// Reports what is odd about the file and was not reported before.
pub(crate) fn report_stf(file: &mut StfFile) {
    let warnings = file.new_warnings();
    warnings.iter().for_each(|warning| diagnostic(format_args!("{}: {warning}", file.name())));
}

/// Reports damage and oddities. A container that contradicts itself is a problem, even if all of it could be read.
pub(crate) fn stf_verdict(file: &mut StfFile, end: &End) -> Verdict {
    report_stf(file);
    end_verdict(end).or(Verdict::of(file.warnings().iter().any(is_damage)))
}

/// Reports the first lines that cannot be parsed, if that was not done before.
pub(crate) fn report_lines(file: &mut TarmacFile) {
    let lines = std::mem::take(&mut file.unreadable().first);
    lines.iter().for_each(|line| diagnostic(format_args!("{}: {line}", file.name())));
}

/// Reports damage and lines that cannot be parsed, which are problems.
pub(crate) fn tarmac_verdict(file: &mut TarmacFile, end: &End) -> Verdict {
    report_lines(file);
    let verdict = end_verdict(end);
    let (count, has_more) = (file.unreadable().count, file.unreadable().has_more());
    if has_more {
        diagnostic(format_args!("{}: {} in all cannot be understood", file.name(), many(count, "line")));
    }
    verdict.or(Verdict::of(count > 0))
}

/// Reports lines of a trace that steps could not be made of, which are a problem.
pub(crate) fn losses_verdict(name: &str, losses: &Losses) -> Verdict {
    let lost = losses.of(Loss::Unreadable);
    if lost.count > 0 {
        diagnostic(format_args!(
            "{name}: {} cannot be read, the first is line {}",
            many(lost.count, "line"),
            lost.first
        ));
    }
    Verdict::of(lost.count > 0)
}
