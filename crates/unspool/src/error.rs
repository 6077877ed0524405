//! Why a capture cannot be gone through at all. Damage inside of a stream is no error here but an item of the stream.

use std::io;

use unspool_coresight::Protocol;

/// What keeps a stream from being read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The package or one of its files cannot be opened.
    #[error(transparent)]
    Capture(#[from] unspool_capture::Error),
    /// Reading a buffer failed on the way.
    #[error("{buffer}: reading stopped at byte {offset:#x}: {source}")]
    Read {
        /// The buffer.
        buffer: String,
        /// How far reading came.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The type of the source is a word that we do not know.
    #[error("{source_name}: unknown type of trace source '{kind}'; name it with --protocol")]
    UnknownProtocol {
        /// The source.
        source_name: String,
        /// Its type as written.
        kind: String,
    },
    /// The protocol is known, but this version cannot read it.
    #[error("{source_name}: {protocol} trace cannot be read by this version yet")]
    NotReadable {
        /// The source.
        source_name: String,
        /// Its protocol.
        protocol: Protocol,
    },
    /// The buffer is formatted, and nobody says which id the source has.
    #[error(
        "{source_name}: no trace id is known, so its bytes cannot be told from those of others; \
         give it with --id or in TRCTRACEIDR"
    )]
    NoTraceId {
        /// The source.
        source_name: String,
    },
    /// A file cannot be opened, or its start cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// An ASTF file cannot be read.
    #[error("{path}: {source}")]
    Astf {
        /// The file.
        path: String,
        /// Why.
        source: unspool_astf::read::ReadError,
    },
    /// An STF file cannot be read.
    #[error("{path}: {source}")]
    Stf {
        /// The file.
        path: String,
        /// Why.
        source: unspool_stf::read::ReadError,
    },
    /// A Tarmac log cannot be read.
    #[error("{path}: {source}")]
    Tarmac {
        /// The file.
        path: String,
        /// Why.
        source: unspool_tarmac::read::ReadError,
    },
    /// What comes through a pipe is no trace file.
    #[error("{path}: neither ASTF nor STF nor a Tarmac log; a capture is a directory or an archive, and no pipe")]
    NotATrace {
        /// What it is called.
        path: String,
    },
    /// The capture has no such source.
    #[error("no source '{wanted}' in the capture; it has {known}")]
    NoSource {
        /// What was asked for.
        wanted: String,
        /// All sources.
        known: String,
    },
    /// Several sources have the trace id that was given.
    #[error("the capture has several sources with the id '{wanted}' ({known}); name one of them")]
    SharedId {
        /// The id.
        wanted: String,
        /// The sources that have it.
        known: String,
    },
    /// The capture has several sources, and steps are those of one.
    #[error("the capture has several sources ({known}); name one with --source")]
    WhichSource {
        /// All sources.
        known: String,
    },
}
