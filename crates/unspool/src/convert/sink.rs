//! Sinks that write steps to a file of any format.
//!
//! steps ─▶ **sink** ─▶ ASTF, STF or Tarmac records ─▶ file

use std::io;
use std::path::Path;

use unspool_astf as astf;
use unspool_container::{CompressOptions, CompressedWriter, Container};
use unspool_model::{Coverage, Losses, SinkError, Step, StepSink, TimeUnit};
use unspool_stf as stf;
use unspool_tarmac as tarmac;

use super::plan::Format;
use crate::target::{self, Target, WriteError, astf_storage, log_container};

/// Format to write, with its options.
#[derive(Debug, Clone)]
pub enum SinkOptions {
    /// ASTF.
    Astf {
        /// How steps become records.
        lower: astf::lower::LowerOptions,
        /// How records are compressed.
        write: astf::write::WriteOptions,
    },
    /// STF.
    Stf {
        /// How steps become records.
        lower: stf::lower::LowerOptions,
        /// Storage of the records.
        storage: stf::Storage,
        /// How records are compressed.
        write: stf::write::WriteOptions,
    },
    /// Tarmac.
    Tarmac {
        /// How steps become lines.
        lower: tarmac::lower::LowerOptions,
        /// Container of the log.
        container: Container,
        /// Compression level and threads.
        write: CompressOptions,
    },
}

impl SinkOptions {
    /// The format.
    pub fn format(&self) -> Format {
        match self {
            Self::Astf { .. } => Format::Astf,
            Self::Stf { .. } => Format::Stf,
            Self::Tarmac { .. } => Format::Tarmac,
        }
    }

    /// Default options for a format; the name of the file selects how it is compressed.
    pub fn for_path(format: Format, path: &Path) -> Self {
        match format {
            Format::Astf => {
                let mut lower = astf::lower::LowerOptions::default();
                lower.storage = astf_storage(path).unwrap_or(lower.storage);
                Self::Astf { lower, write: astf::write::WriteOptions::default() }
            }
            Format::Stf => Self::Stf {
                lower: stf::lower::LowerOptions::default(),
                storage: stf::Storage::from_path(path).unwrap_or(stf::Storage::PLAIN),
                write: stf::write::WriteOptions::default(),
            },
            Format::Tarmac => Self::Tarmac {
                lower: tarmac::lower::LowerOptions { style: tarmac::write::Style::Rev3, disassemble: true },
                container: log_container(path),
                write: CompressOptions::default(),
            },
        }
    }
}

/// Trace file that takes steps.
pub enum FileSink {
    /// ASTF.
    Astf(Box<astf::lower::Lowerer<astf::write::Writer<Target>>>),
    /// STF.
    Stf(Box<stf::lower::Lowerer<stf::write::Writer<Target>>>),
    /// Tarmac.
    Tarmac(Box<tarmac::lower::Lowerer<CompressedWriter<Target>>>),
}

/// Why no sink was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenSinkError {
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The format cannot express steps of such a source.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl FileSink {
    /// Opens a file for the steps of a source.
    pub fn open(path: &Path, coverage: Coverage, unit: TimeUnit, options: &SinkOptions) -> Result<Self, OpenSinkError> {
        if let SinkOptions::Astf { lower, .. } = options {
            // A refusal leaves the file as it is.
            astf::lower::header(coverage, unit, lower)?;
        }
        Self::new(Target::open(path)?, path, coverage, unit, options)
    }

    /// Writes the steps of a source to an open file, which has this path.
    pub fn new(
        target: Target,
        path: &Path,
        coverage: Coverage,
        unit: TimeUnit,
        options: &SinkOptions,
    ) -> Result<Self, OpenSinkError> {
        let failed = |source| WriteError::new(path, source);
        Ok(match *options {
            SinkOptions::Astf { ref lower, write } => {
                let header = astf::lower::header(coverage, unit, lower)?;
                let writer = astf::write::Writer::new(target, &header, write).map_err(failed)?;
                Self::Astf(Box::new(astf::lower::Lowerer::new(writer, &header, coverage, unit, lower)?))
            }
            SinkOptions::Stf { ref lower, storage, write } => {
                let writer = target::writer(target, storage, write).map_err(failed)?;
                Self::Stf(Box::new(stf::lower::Lowerer::new(writer, coverage, unit, lower)?))
            }
            SinkOptions::Tarmac { ref lower, container, write } => {
                let writer = CompressedWriter::new(target, container, write).map_err(failed)?;
                Self::Tarmac(Box::new(tarmac::lower::Lowerer::new(writer, coverage, unit, lower)?))
            }
        })
    }

    /// Keeps the file, which is complete.
    pub fn keep(self) -> io::Result<()> {
        let target = match self {
            Self::Astf(sink) => sink.into_sink().finish(),
            Self::Stf(sink) => sink.into_sink().finish(),
            Self::Tarmac(sink) => sink.into_inner().finish(),
        };
        target?.keep()
    }
}

impl StepSink for FileSink {
    #[inline]
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        match self {
            Self::Astf(sink) => sink.push(step),
            Self::Stf(sink) => sink.push(step),
            Self::Tarmac(sink) => sink.push(step),
        }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Astf(sink) => sink.finish(),
            Self::Stf(sink) => sink.finish(),
            Self::Tarmac(sink) => sink.finish(),
        }
    }

    fn losses(&self) -> &Losses {
        match self {
            Self::Astf(sink) => sink.losses(),
            Self::Stf(sink) => sink.losses(),
            Self::Tarmac(sink) => sink.losses(),
        }
    }
}
