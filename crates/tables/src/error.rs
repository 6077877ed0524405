//! Why there are no tables.

use std::io;
use std::path::Path;

/// Why tables cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be created, written or renamed.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// There is something else at the path of the tables.
    #[error("{path}: {problem}")]
    Occupied {
        /// The path.
        path: String,
        /// What is there, and what to do.
        problem: &'static str,
    },
    /// A batch cannot be made.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A Parquet file cannot be written.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// The trace cannot be opened.
    #[error(transparent)]
    Trace(#[from] unspool::Error),
    /// There is more code than the shards of a trace can have.
    #[error(
        "more than eight million instructions of code were executed: write the tables with 'unspool tables' on one machine"
    )]
    MuchCode,
    /// Bytes that should be the code of a shard are not.
    #[error("this is not the code of a shard")]
    NoRecord,
    /// Text that should describe a shard does not.
    #[error("this does not describe a shard of the trace")]
    NoShard,
    /// A thread ended early.
    #[error("a thread that makes tables ended early")]
    Thread,
}

impl Error {
    pub(crate) fn of_file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.display().to_string(), source }
    }
}
