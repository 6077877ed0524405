//! Why reading ended, and where.

use std::io;

use unspool_container::{Damage, Failure, Fault};

use super::content::Content;
use crate::record::Storage;

/// The error that ended reading, with its position.
#[derive(Debug, thiserror::Error)]
#[error("byte {offset:#x}, record {record}: {kind}")]
pub struct ReadError {
    /// The offset in the file. Of damaged compressed data, see [`Damage`].
    pub offset: u64,
    /// The number of the record that could not be had; the header is number 1.
    pub record: u64,
    /// The problem.
    #[source]
    pub kind: ReadErrorKind,
}

/// Kind of a [`ReadError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// There is not a single byte.
    #[error("the file is empty")]
    Empty,
    /// The first characters are not `ASTF`.
    #[error("not an ASTF file: it starts with \"{}\"", found.escape_ascii())]
    NotAstf {
        /// The first bytes; zero where there is none.
        found: [u8; 4],
    },
    /// The layout of records is not known.
    #[error("version {0} of the format is not known, only version 0")]
    NewerMajor(u8),
    /// The records end within one.
    #[error("the last record is cut short: it has {bytes} of its 32 bytes")]
    CutShort {
        /// Number of its bytes.
        bytes: usize,
    },
    /// The compressed data is at fault.
    #[error(transparent)]
    Compressed(#[from] Fault),
    /// The header contradicts the file.
    #[error("the header declares the records {}, but {found}", stored(*.header))]
    WrongStorage {
        /// Storage by the header.
        header: Storage,
        /// Content by its first bytes.
        found: Content,
    },
    /// The input could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An error that does not know yet which record it affects.
pub(crate) struct LocatedKind {
    offset: u64,
    kind: ReadErrorKind,
}

impl LocatedKind {
    pub(super) fn new(kind: ReadErrorKind, offset: u64) -> Self {
        Self { offset, kind }
    }

    pub(super) fn of_record(self, record: u64) -> ReadError {
        ReadError { offset: self.offset, record, kind: self.kind }
    }
}

impl From<Damage> for LocatedKind {
    fn from(Damage { offset, fault }: Damage) -> Self {
        Self::new(fault.into(), offset)
    }
}

impl From<Failure> for LocatedKind {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Damage(damage) => damage.into(),
            Failure::Io { offset, error } => Self::new(error.into(), offset),
        }
    }
}

fn stored(storage: Storage) -> &'static str {
    match storage {
        Storage::Raw => "not compressed",
        Storage::Lzma => "compressed with LZMA",
        Storage::Zlib => "compressed with zlib",
    }
}
