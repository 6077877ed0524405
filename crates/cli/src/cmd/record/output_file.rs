//! One output file of a recording, of any format.
//!
//! steps ─▶ **file**, then a report of what it contains and lacks

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use unspool::astf::lower::{LeftOut, LowerOptions};
use unspool::astf::record::Storage;
use unspool::convert::{FileSink, Format, OpenSinkError, SinkOptions};
use unspool::model::{Coverage, Losses, SinkError, Step, StepSink, TimeUnit};
use unspool::number::{grouped, many};
use unspool::target::{Reserve, Target, astf_storage, is_stream};

use crate::diagnostic;

pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    /// Number of instructions that were pushed, including those that the sink leaves out.
    pub(super) instructions: u64,
    pub(super) sink: FileSink,
}

/// A complete output file, for the report.
pub(super) struct Written {
    path: PathBuf,
    instructions: u64,
    losses: Losses,
    /// Instructions that are not in the trace, by kind.
    left_out: Vec<LeftOut>,
    /// Why the trace ends before the program, if a step was refused.
    pub(super) reason: Option<String>,
}

impl OutputFile {
    /// Creates a file. For ASTF only: `lower`, and `in_patterns`: templates of blocks will be pushed too, so records
    /// repeat (`WriteOptions::in_patterns`).
    pub(super) fn create(
        path: PathBuf,
        format: Format,
        coverage: Coverage,
        lower: &LowerOptions,
        in_patterns: bool,
        reserve: &Arc<Reserve>,
    ) -> anyhow::Result<Self> {
        let mut options = SinkOptions::for_path(format, &path);
        if let SinkOptions::Astf { lower: chosen, write } = &mut options {
            *chosen = LowerOptions { storage: storage(&path), ..*lower };
            write.in_patterns = in_patterns;
        }
        let target = Target::open_with(&path, Arc::clone(reserve))?;
        match FileSink::new(target, &path, coverage, TimeUnit::Unknown, &options) {
            Ok(sink) => Ok(Self { path, instructions: 0, sink }),
            Err(OpenSinkError::Write(error)) => Err(error.into()),
            Err(OpenSinkError::Sink(error)) => Err(sink_error(&path, error)),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        self.sink.push(step)?;
        self.instructions += u64::from(step.event.instruction().is_some());
        Ok(())
    }

    /// Names the file in an error of its sink.
    pub(super) fn error(&self, error: SinkError) -> anyhow::Error {
        sink_error(&self.path, error)
    }

    /// Completes the file. `reason`: the trace ends here because a step was refused.
    pub(super) fn finish(mut self, reason: Option<String>) -> anyhow::Result<Written> {
        match self.sink.finish() {
            // The sink refuses for the same reason.
            Err(SinkError::Refused { .. }) if reason.is_some() => {}
            finished => finished.map_err(|error| self.error(error))?,
        }
        let Self { path, instructions, sink } = self;
        let left_out = match &sink {
            FileSink::Astf(sink) => sink.left_out().collect(),
            _ => Vec::new(),
        };
        let losses = sink.losses().clone();
        sink.keep().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Written { path, instructions, losses, left_out, reason })
    }
}

impl Written {
    pub(super) fn report(&self) {
        let name = self.path.display();
        for LeftOut { kind, count, first } in &self.left_out {
            let (count, kind) = (grouped(*count), kind.name());
            diagnostic::warning(format_args!(
                "{name}: dropped: {count} × {kind}, the first at {first:#x}: \
                 the emulator does not report the addresses that they access"
            ));
        }
        let dropped = if self.left_out.is_empty() { "" } else { ", including those dropped" };
        diagnostic::note(format_args!("wrote {name}: {}{dropped}", many(self.instructions, "instruction")));
        if !self.losses.is_empty() {
            diagnostic::warning(format_args!("{name}: dropped: the format has no field for it: {}", self.losses));
        }
        if let Some(reason) = &self.reason {
            diagnostic::warning(format_args!("{reason}; the file ends there"));
        }
    }
}

pub(super) fn sink_error(path: &Path, error: SinkError) -> anyhow::Error {
    match error {
        SinkError::Io(error) => anyhow!(error).context(format!("cannot write {}", path.display())),
        SinkError::Refused { position: Some(position), reason } => {
            anyhow!("{}: instruction {position}: {reason}", path.display())
        }
        SinkError::Refused { position: None, reason } => anyhow!("{}: {reason}", path.display()),
    }
}

/// Storage of an ASTF file: as its extension names it. `.astf` alone is zlib here, unlike elsewhere, because one second of
/// a program has gigabytes of records; `.raw` is not compressed.
fn storage(path: &Path) -> Storage {
    let is_raw = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("raw"));
    astf_storage(path).filter(|storage| *storage != Storage::Raw || is_raw).unwrap_or(Storage::Zlib)
}

/// Refuses to overwrite the output, or a numbered file of it, which a recording of several threads has.
pub(super) fn refuse_existing(path: &Path) -> anyhow::Result<()> {
    if path.exists() && !is_stream(path) {
        bail!("{} exists; use --force to replace it", path.display());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let numbered = names.filter(|name| is_numbered(path, &name.to_string_lossy())).min();
    match numbered {
        Some(name) => {
            let found = path.with_file_name(name);
            bail!("{} exists, and may be a file of this recording; use --force to replace it", found.display());
        }
        None => Ok(()),
    }
}

/// Whether this is the name of a numbered file: of a thread or CPU, or of a part of its trace.
fn is_numbered(path: &Path, name: &str) -> bool {
    let numbers: Vec<u64> = name.split(['.', '-']).filter_map(|part| part.parse().ok()).collect();
    let cores = [0].iter().chain(&numbers).map(|core| numbered(path, *core as usize));
    let mut all =
        cores.flat_map(|path| [1].iter().chain(&numbers).map(|part| part_name(&path, *part)).collect::<Vec<_>>());
    all.any(|other| other != path && other.file_name().is_some_and(|other| *other == *name))
}

/// Path of a part of the trace of a CPU: all but the first have a number before the extensions.
pub(super) fn part_name(path: &Path, number: u64) -> PathBuf {
    if number == 1 {
        return path.to_path_buf();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extensions) =
        name.split_once('.').map_or((&*name, String::new()), |(stem, rest)| (stem, format!(".{rest}")));
    path.with_file_name(format!("{stem}-{number}{extensions}"))
}

/// Path of the file of a thread or CPU: all but the first have a number before the extensions, which start at the last
/// one that names a format (`.astf.xz`).
pub(super) fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_path_buf();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_format = |part: &&str| ["astf", "stf", "zstf", "tarmac", "log"].contains(part);
    let parts: Vec<&str> = name.split('.').collect();
    let extensions = parts.iter().rposition(is_format).unwrap_or(parts.len() - 1).max(1);
    let (stem, rest) = parts.split_at(extensions.min(parts.len()));
    let mut numbered = OsString::from(format!("{}.{number}", stem.join(".")));
    if !rest.is_empty() {
        numbered.push(format!(".{}", rest.join(".")));
    }
    path.with_file_name(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_of_an_output_are_recognized() {
        let rows = [
            ("out.astf", "out.astf", false),
            ("out.astf", "out.1.astf", true),
            ("out.astf", "out-2.astf", true),
            ("out.astf", "out-2.1.astf", true),
            ("out.astf", "out.01.astf", false),
            ("out.astf", "out.1.stf", false),
            ("out.astf", "other.1.astf", false),
            ("out.2.astf", "out.2.astf", false),
            ("out.2.astf", "out.2.3.astf", true),
            ("out", "out.18446744073709551616", false),
        ];
        for (path, name, expected) in rows {
            assert_eq!(is_numbered(Path::new(path), name), expected, "{path} {name}");
        }
    }

    #[test]
    fn names_are_numbered() {
        let rows = [
            ("out.astf", 0, "out.astf"),
            ("out.astf", 1, "out.1.astf"),
            ("a/b.c.astf.xz", 12, "a/b.c.12.astf.xz"),
            ("out", 2, "out.2"),
            ("out.bin", 2, "out.2.bin"),
        ];
        for (name, number, expected) in rows {
            assert_eq!(numbered(Path::new(name), number), Path::new(expected), "{name}");
        }
    }
}
