//! Errors that prevent reading a capture or a trace. Damage inside a stream is an item of the stream instead.

use std::io;

use unspool_coresight::Protocol;
use unspool_coresight::frame::FrameError;
use unspool_model::SourceError;

use crate::file::FileError;
use crate::identify::WrongKind;

/// Why a stream cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The package or one of its files cannot be opened.
    #[error(transparent)]
    Capture(#[from] unspool_capture::Error),
    /// A trace file cannot be opened or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Reading a buffer failed on the way.
    #[error("{buffer}: reading stopped at byte {offset:#x}: {source}")]
    Read {
        /// Name of the buffer.
        buffer: String,
        /// Bytes that were read before.
        offset: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// The steps of a trace ended early.
    #[error(transparent)]
    Steps(#[from] SourceError),
    /// Bytes of a buffer belong to no frame, so that their source is unknown.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The type of the source is not a known one.
    #[error("{source_name}: unknown type of trace source '{kind}'; name it with --protocol")]
    UnknownProtocol {
        /// Name of the source.
        source_name: String,
        /// Type as written.
        kind: String,
    },
    /// The protocol traces no instructions.
    #[error("{source_name}: {protocol} trace has no instructions; 'unspool decode' lists what software wrote")]
    NoInstructions {
        /// Name of the source.
        source_name: String,
        /// Protocol of the source.
        protocol: Protocol,
    },
    /// The buffer is formatted, and the trace id of the source is unknown.
    #[error(
        "{source_name}: no trace id is known, so its bytes cannot be separated from those of other sources; \
         give it with --id or in TRCTRACEIDR"
    )]
    NoTraceId {
        /// Name of the source.
        source_name: String,
    },
    /// The file is of another kind than what was asked for.
    #[error(transparent)]
    WrongKind(Box<WrongKind>),
    /// The capture has no such source.
    #[error("no source '{wanted}' in the capture; it has {known}")]
    NoSource {
        /// Source that was asked for.
        wanted: String,
        /// Names of all sources.
        known: String,
    },
    /// Several sources have the given trace id.
    #[error("the capture has several sources with the id '{wanted}' ({known}); name one of them")]
    SharedId {
        /// Trace id.
        wanted: String,
        /// Names of the sources that have it.
        known: String,
    },
    /// The trace does not have what its steps are selected by.
    #[error("steps cannot be selected by {facet}: the trace has none")]
    NotCovered {
        /// What it does not have.
        facet: &'static str,
    },
    /// The capture has several sources, and steps are those of one.
    #[error("the capture has several sources ({known}); name one with --source")]
    WhichSource {
        /// Names of all sources.
        known: String,
    },
}

impl Error {
    /// Whether the source is merely of another kind: a capture may have sources of any kind.
    pub fn is_other_kind(&self) -> bool {
        matches!(self, Self::NoInstructions { .. })
    }
}

impl From<WrongKind> for Error {
    fn from(wrong: WrongKind) -> Self {
        Self::WrongKind(Box::new(wrong))
    }
}
