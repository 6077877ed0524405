//! Why reading ended.

use std::io;

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
#[error("byte {offset:#x} of the log: {kind}")]
pub struct ReadError {
    /// The offset in the unpacked log: so much could be read.
    pub offset: u64,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The file ends before what is packed in it.
    #[error("the file ends within its compressed data")]
    CutShort,
    /// What is packed contradicts itself or its check value, or something else follows it.
    #[error("the compressed data is damaged at byte {at:#x} of the file ({what})")]
    Damaged {
        /// So much of the file was read.
        at: u64,
        /// What the decompressor says.
        what: String,
    },
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}
