//! Why reading ended.

use std::io;

use unspool_container::{Damage, Failure};

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
#[error("byte {offset:#x} of the log: {kind}")]
pub struct ReadError {
    /// The offset in the uncompressed log: the number of bytes that could be read.
    pub offset: u64,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The compressed data is at fault.
    #[error(transparent)]
    Compressed(#[from] Damage),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Failure> for ReadErrorKind {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Damage(damage) => Self::Compressed(damage),
            Failure::Io { error, .. } => Self::Io(error),
        }
    }
}
