//! Why reading ended, and what is odd though it did not.

use std::io;

use unspool_container::{Damage, Fault};

use super::super::layout::Malformed;
use super::LONGEST;

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
#[error("record {record} at {offset:#x}: {kind}")]
pub struct ReadError {
    /// The offset in the uncompressed trace.
    pub offset: u64,
    /// The number of the record that could not be had.
    pub record: u64,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// There is nothing at all.
    #[error("the file is empty")]
    Empty,
    /// It is another format.
    #[error("this is no STF trace: it starts with {0:02x?}")]
    NotStf([u8; 4]),
    /// The layout of records is not known.
    #[error("version {major}.{minor} of the format is not known, only 1.2 and later of 1")]
    Version {
        /// Before the dot.
        major: u32,
        /// Behind the dot.
        minor: u32,
    },
    /// The bytes are no record.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A record that would not fit into memory.
    #[error("a record of more than {LONGEST} bytes")]
    TooLong,
    /// There is no record that ends the header.
    #[error("the trace ends within its header")]
    WithinHeader,
    /// The record that ends the trace is not the last.
    #[error("the trace says that it ends before this, but it goes on")]
    BehindEnd,
    /// A trace without an index cannot be gone back in.
    #[error("instruction {0} was read before, and this file can only be read forward")]
    Backward(u64),
    /// A chunk of a .zstf file is damaged.
    #[error("chunk {chunk}, byte {at:#x} of the file: {fault}")]
    Chunk {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// The offset in the file.
        at: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// There is no chunk where one should start.
    #[error("chunk {chunk}, byte {at:#x} of the file: a chunk should start here, and none does")]
    NoChunk {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// The offset in the file.
        at: u64,
    },
    /// The header of a .zstf file cannot be.
    #[error("byte 0x4 of the file: the header declares chunks without instructions")]
    NoMarkers,
    /// The compressed data is at fault.
    #[error(transparent)]
    Compressed(#[from] Damage),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ReadErrorKind {
    /// The error of an input, which may be that of a decompressor.
    pub(super) fn of(error: io::Error) -> Self {
        Damage::of(&error).map_or(Self::Io(error), Self::Compressed)
    }
}

/// What is odd about a file, though it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// There may be records that are not known here.
    #[error("version 1.{0} is newer than 1.6: there may be unknown records")]
    NewerMinor(u32),
    /// The second record should be the version.
    #[error("the second record is not the version")]
    NoVersion,
    /// The tool that wrote the file did not come to its end.
    #[error("the file was not finished: its index is missing, so its chunks were read one by one")]
    Unfinished,
    /// The index cannot be right.
    #[error("the index of the file is damaged ({0}), so its chunks were read one by one")]
    DamagedIndex(&'static str),
    /// The index is wrong about a chunk.
    #[error("the index says that chunk {chunk} holds {index} bytes, and it holds {found}: the reference library {}", if index < found { "loses the rest without a word" } else { "refuses it" })]
    WrongSize {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// How much it holds by the index.
        index: u64,
        /// How much it holds.
        found: u64,
    },
    /// A chunk has another number of instructions than it should have.
    #[error("chunk {chunk} has {found} instructions where the file says {expected}: the reference library {}", lost(*found, *expected))]
    WrongMarkers {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// How many it has.
        found: u64,
        /// How many every chunk but the last should have.
        expected: u64,
    },
    /// The index is wrong about where a chunk starts.
    #[error(
        "the index says that chunk {chunk} starts at {index:#x}, and execution goes on at {found:#x}: the reference library takes the index for right when it goes there"
    )]
    WrongPc {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// Where its first instruction is by the index.
        index: u64,
        /// Where execution goes on behind the chunk before.
        found: u64,
    },
    /// A chunk is more than one zstd frame.
    #[error("chunk {chunk} has {frames} zstd frames: the reference library reads only the first")]
    SeveralFrames {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// How many frames.
        frames: u64,
    },
    /// The index is not the last thing in the file.
    #[error("the file goes on behind its index, at byte {at:#x}: that is left out")]
    Trailing {
        /// The place in the file.
        at: u64,
    },
    /// There is more of the kind.
    #[error("there is more of this kind")]
    More,
}

/// So many warnings are kept.
pub(super) const MOST_WARNINGS: usize = 100;

fn lost(found: u64, expected: u64) -> String {
    match found.checked_sub(expected) {
        Some(lost) => format!("loses the last {lost} of them without a word"),
        None => "reads beyond its end".into(),
    }
}
