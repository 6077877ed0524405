//! Reasons why a compressed stream ends early.

use std::io;

use crate::MEMORY_LIMIT;

/// Fault of a compressed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file ends within the compressed data.
    #[error("the file ends before its compressed data does")]
    CutShort,
    /// The data contradicts itself, or its check value.
    #[error("the compressed data is damaged")]
    Damaged,
    /// A filter, a check or a dictionary that is not supported.
    #[error("the data is compressed in a way that is not supported")]
    Unsupported,
    /// Decompression needs too much memory.
    #[error("decompressing needs more than the {} MiB of memory that are allowed", MEMORY_LIMIT >> 20)]
    Memory,
    /// Other bytes follow the compressed data.
    #[error("the compressed data ends here, but the file continues")]
    Trailing,
}

/// A fault and its offset in the file.
///
/// Damage is noticed where it is or later: at the latest where the next check value ends, and with several threads where
/// these were reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("byte {offset:#x} of the file: {fault}")]
pub struct Damage {
    /// Offset in the file.
    pub offset: u64,
    /// The fault.
    pub fault: Fault,
}

impl Damage {
    /// The damage that an error of a [`Decompressor`](crate::Decompressor) carries as its source.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// Reason why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The compressed data is at fault.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The file could not be read.
    #[error("{error}")]
    Io {
        /// Offset in the file of the first byte that could not be read.
        offset: u64,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

impl From<Damage> for io::Error {
    fn from(damage: Damage) -> Self {
        Self::other(damage)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Damage(damage) => damage.into(),
            Failure::Io { error, .. } => error,
        }
    }
}
