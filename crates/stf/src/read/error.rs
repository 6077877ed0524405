//! Errors that end reading, and warnings that do not.

use std::io;

use unspool_container::{Damage, Fault};

use crate::layout::Malformed;

/// Maximum length of a record.
pub(super) const MAX_RECORD: usize = 64 << 20;

/// Error that ends reading.
#[derive(Debug, thiserror::Error)]
#[error("record {record} at {offset:#x}: {kind}")]
pub struct ReadError {
    /// Offset in the uncompressed trace.
    pub offset: u64,
    /// Number of the record that could not be read.
    pub record: u64,
    /// The problem.
    pub kind: ReadErrorKind,
}

/// Kind of a read error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file has another format.
    #[error("this is no STF trace: it starts with {0:02x?}")]
    NotStf([u8; 4]),
    /// The layout of records is unknown.
    #[error("version {major}.{minor} is not supported, only 1.2 and later 1.x")]
    Version {
        /// The major version.
        major: u32,
        /// The minor version.
        minor: u32,
    },
    /// The bytes are not a record.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A record longer than the maximum.
    #[error("a record of more than {MAX_RECORD} bytes")]
    TooLong,
    /// The header has no end.
    #[error("the trace ends within its header")]
    WithinHeader,
    /// Data follows the end mark.
    #[error("the trace continues after its end mark")]
    AfterEnd,
    /// A trace without an index cannot be read backward.
    #[error("instruction {0} was read before, and this file can only be read forward")]
    Backward(u64),
    /// A chunk of a .zstf file is damaged.
    #[error("chunk {chunk}, byte {at:#x} of the file: {fault}")]
    Chunk {
        /// Number of the chunk; the first is 0.
        chunk: u64,
        /// Offset in the file.
        at: u64,
        /// The damage.
        fault: Fault,
    },
    /// There is no chunk where one should start.
    #[error("chunk {chunk}, byte {at:#x} of the file: expected the start of a chunk")]
    NoChunk {
        /// Number of the chunk; the first is 0.
        chunk: u64,
        /// Offset in the file.
        at: u64,
    },
    /// The header of a .zstf file is invalid.
    #[error("byte 0x4 of the file: the header declares chunks without instructions")]
    NoMarkers,
    /// The compressed data is damaged.
    #[error(transparent)]
    Compressed(#[from] Damage),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadErrorKind {
    /// Converts the error of an input, which may be that of a decompressor.
    pub(super) fn of(error: io::Error) -> Self {
        Damage::of(&error).map_or(Self::Io(error), Self::Compressed)
    }
}

/// Oddity of a readable file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// The version is newer than supported.
    #[error("version 1.{0} is newer than 1.6: there may be unknown records")]
    NewerMinor(u32),
    /// The second record should be the version.
    #[error("the second record is not the version")]
    NoVersion,
    /// The writer did not finish the file.
    #[error("the file was not finished: its index is missing, so its chunks were read one by one")]
    Unfinished,
    /// The index is invalid.
    #[error("the index of the file is damaged ({0}), so its chunks were read one by one")]
    DamagedIndex(&'static str),
    /// A chunk is damaged, and reading resumed at the next one.
    #[error(
        "chunk {chunk}, byte {at:#x} of the file: {}, so up to {lost} instructions are lost; reading resumes at chunk {}, with the address of the index and an unknown mode",
        fault.map_or_else(|| "its records cannot be read".to_string(), |fault| fault.to_string()),
        chunk + 1
    )]
    DamagedChunk {
        /// Number of the chunk; the first is 0.
        chunk: u64,
        /// Offset in the file.
        at: u64,
        /// The damage. `None`: the chunk is intact, but its contents are not records.
        fault: Option<Fault>,
        /// Instructions, or transactions, of the chunk that were not read.
        lost: u64,
    },
    /// The index has a wrong size for a chunk.
    #[error("the index has {index} bytes for chunk {chunk}, which has {found}: the reference library {}", if index < found { "silently drops the rest" } else { "rejects the chunk" })]
    WrongSize {
        /// Number of the chunk; the first is 0.
        chunk: u64,
        /// Size in the index.
        index: u64,
        /// Actual size.
        found: u64,
    },
    /// A chunk has an unexpected number of instructions.
    #[error("chunk {chunk} has {found} instructions instead of {expected}: the reference library {}", consequence(*found, *expected))]
    WrongMarkers {
        /// Number of the chunk; the first is 0.
        chunk: u64,
        /// Actual number.
        found: u64,
        /// Number for every chunk but the last.
        expected: u64,
    },
    /// The index has a wrong address for the start of a chunk.
    #[error(
        "the index has address {index:#x} for chunk {chunk}, but execution continues at {found:#x}: the reference library uses the index when it seeks"
    )]
    WrongPc {
        /// Number of the chunk; the first is 0.
        chunk: u64,
        /// Address of its first instruction in the index.
        index: u64,
        /// Address after the previous chunk.
        found: u64,
    },
    /// A chunk is more than one zstd frame.
    #[error("chunk {chunk} consists of {frames} zstd frames: the reference library reads only the first")]
    SeveralFrames {
        /// Number of the chunk; the first is 0.
        chunk: u64,
        /// Number of frames.
        frames: u64,
    },
    /// Data follows the index.
    #[error("data after the index, at byte {at:#x} of the file, is ignored")]
    Trailing {
        /// Offset in the file.
        at: u64,
    },
    /// More warnings were dropped.
    #[error("further warnings are omitted")]
    More,
}

/// Maximum number of warnings that are kept.
pub(super) const MAX_WARNINGS: usize = 100;

fn consequence(found: u64, expected: u64) -> String {
    match found.checked_sub(expected) {
        Some(lost) => format!("silently drops the last {lost}"),
        None => "reads past its end".into(),
    }
}
