//! The output files of a recording.
//!
//! steps of all threads ─▶ **a sink per thread** ─▶ files; of a Tarmac log, one sink for all

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use unspool::astf::{self, record::Level, record::Storage};
use unspool::container::{CompressOptions, CompressedWriter};
use unspool::convert::Format;
use unspool::model::{BlockSink, Coverage, Losses, SinkError, Step, StepSink, StoppedAt, TemplateTrace, TimeUnit};
use unspool::target::{Target, astf_storage, log_container, open_log, open_writer};
use unspool::tarmac::restyle::Style;
use unspool::{stf, tarmac};

/// Sinks of threads, each made with the first step of its thread.
pub(super) struct Sinks {
    path: PathBuf,
    format: Format,
    coverage: Coverage,
    sinks: Vec<Option<One>>,
    /// The error that ended the recording.
    failed: Option<anyhow::Error>,
}

/// What was written.
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) instructions: u64,
    pub(super) losses: Losses,
    /// Instructions that are not in the trace, by kind.
    pub(super) left_out: Vec<astf::lower::LeftOut>,
}

struct One {
    path: PathBuf,
    instructions: u64,
    sink: Sink,
}

pub(super) enum Sink {
    Astf(Box<astf::lower::Lowerer<astf::write::Writer<Target>>>),
    Stf(Box<stf::lower::Lowerer<stf::write::Writer<Target>>>),
    Tarmac(Box<tarmac::lower::Lowerer<CompressedWriter<Target>>>),
}

impl Sinks {
    pub(super) fn new(path: &Path, format: Format, coverage: Coverage) -> Self {
        Self { path: path.to_path_buf(), format, coverage, sinks: Vec::new(), failed: None }
    }

    /// Takes a step of any thread.
    #[inline]
    fn take(&mut self, step: &Step) -> anyhow::Result<()> {
        // A log has cores; other formats have one in a file.
        let at = if self.format == Format::Tarmac { 0 } else { step.core as usize };
        if let Some(Some(one)) = self.sinks.get_mut(at) {
            one.instructions += u64::from(step.event.instruction().is_some());
            return one.sink.push(step).map_err(|error| sink_error(&one.path, error));
        }
        self.open(at)?;
        self.take(step)
    }

    /// Takes templates of a thread that has emitted steps before.
    fn push_templates(&mut self, trace: &TemplateTrace<'_>) -> anyhow::Result<Option<StoppedAt>> {
        let one = self.sinks.get_mut(trace.core as usize);
        let Some(Some(One { path, instructions, sink: Sink::Astf(sink) })) = one else {
            return Ok(Some(StoppedAt { executions: 0, addresses: 0, is_final: false }));
        };
        let stopped = sink.push_templates(trace).map_err(|error| sink_error(path, error))?;
        *instructions += match &stopped {
            None => trace.instructions,
            Some(stopped) => trace.instructions_of(stopped.executions),
        };
        Ok(stopped)
    }

    /// The error that ended the recording, if there was one.
    pub(super) fn result(&mut self) -> anyhow::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn or_end<T>(&mut self, taken: anyhow::Result<T>) -> ControlFlow<(), T> {
        match taken {
            Ok(taken) => ControlFlow::Continue(taken),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    #[cold]
    fn open(&mut self, at: usize) -> anyhow::Result<()> {
        let path = numbered(&self.path, at);
        let sink = Sink::open(&path, self.format, self.coverage)?;
        if self.sinks.len() <= at {
            self.sinks.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.sinks.get_mut(at) {
            *slot = Some(One { path, instructions: 0, sink });
        }
        Ok(())
    }

    /// Completes all files.
    pub(super) fn finish(self) -> anyhow::Result<Vec<Written>> {
        let all = self.sinks.into_iter().flatten().map(|one| {
            let One { path, instructions, mut sink } = one;
            sink.finish().map_err(|error| sink_error(&path, error))?;
            let (losses, left_out) = (sink.losses().clone(), sink.left_out());
            sink.close().with_context(|| format!("cannot write {}", path.display()))?;
            Ok(Written { path, instructions, losses, left_out })
        });
        all.collect()
    }
}

impl BlockSink for Sinks {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let taken = self.take(step);
        self.or_end(taken)
    }

    fn takes_templates(&self) -> bool {
        self.format == Format::Astf
    }

    fn templates(&mut self, trace: &TemplateTrace<'_>) -> ControlFlow<(), Option<StoppedAt>> {
        let taken = self.push_templates(trace);
        self.or_end(taken)
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

impl Sink {
    pub(super) fn open(path: &Path, format: Format, coverage: Coverage) -> anyhow::Result<Self> {
        let unit = TimeUnit::Unknown;
        let refused = |error| sink_error(path, error);
        Ok(match format {
            Format::Astf => {
                let options = astf::lower::LowerOptions {
                    level: Some(Level::Basic),
                    storage: storage(path),
                    leave_out: true,
                    ..astf::lower::LowerOptions::default()
                };
                Self::astf(path, coverage, &options, true)?
            }
            Format::Stf => {
                let storage = stf::Storage::from_path(path).unwrap_or(stf::Storage::PLAIN);
                let writer = open_writer(path, storage, stf::write::WriteOptions::default())?;
                let options = stf::lower::LowerOptions::default();
                let lowerer = stf::lower::Lowerer::new(writer, coverage, unit, &options).map_err(refused)?;
                Self::Stf(Box::new(lowerer))
            }
            Format::Tarmac => {
                let writer = open_log(path, log_container(path), CompressOptions::default())?;
                let options = tarmac::lower::LowerOptions { style: Style::Rev3, disassemble: true };
                let lowerer = tarmac::lower::Lowerer::new(writer, coverage, unit, &options).map_err(refused)?;
                Self::Tarmac(Box::new(lowerer))
            }
        })
    }

    /// An ASTF file, of records that come in patterns or one by one.
    pub(super) fn astf(
        path: &Path,
        coverage: Coverage,
        options: &astf::lower::LowerOptions,
        in_patterns: bool,
    ) -> anyhow::Result<Self> {
        let unit = TimeUnit::Unknown;
        let refused = |error| sink_error(path, error);
        let header = astf::lower::header(coverage, unit, options).map_err(refused)?;
        let target = Target::open(path)?;
        let write = astf::write::WriteOptions { in_patterns, ..Default::default() };
        let writer = astf::write::Writer::new(target, &header, write)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let lowerer = astf::lower::Lowerer::new(writer, &header, coverage, unit, options).map_err(refused)?;
        Ok(Self::Astf(Box::new(lowerer)))
    }

    #[inline]
    pub(super) fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        match self {
            Self::Astf(sink) => sink.push(step),
            Self::Stf(sink) => sink.push(step),
            Self::Tarmac(sink) => sink.push(step),
        }
    }

    pub(super) fn finish(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Astf(sink) => sink.finish(),
            Self::Stf(sink) => sink.finish(),
            Self::Tarmac(sink) => sink.finish(),
        }
    }

    pub(super) fn losses(&self) -> &Losses {
        match self {
            Self::Astf(sink) => sink.losses(),
            Self::Stf(sink) => sink.losses(),
            Self::Tarmac(sink) => sink.losses(),
        }
    }

    pub(super) fn left_out(&self) -> Vec<astf::lower::LeftOut> {
        match self {
            Self::Astf(sink) => sink.left_out().collect(),
            Self::Stf(_) | Self::Tarmac(_) => Vec::new(),
        }
    }

    pub(super) fn close(self) -> std::io::Result<()> {
        let target = match self {
            Self::Astf(sink) => sink.into_sink().finish(),
            Self::Stf(sink) => sink.into_sink().finish(),
            Self::Tarmac(sink) => sink.into_inner().finish(),
        };
        target?.keep()
    }
}

/// How records are stored: compressed, unless the name selects otherwise. A second of a program has gigabytes of them.
pub(super) fn storage(path: &Path) -> Storage {
    let is_raw = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("raw"));
    astf_storage(path).filter(|storage| *storage != Storage::Raw || is_raw).unwrap_or(Storage::Zlib)
}

/// The file of a thread: the first has the name as it is, others a number before the extensions.
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
    fn threads_have_names() {
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
