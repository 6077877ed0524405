//! What ends the reading or the writing of a capture.
//!
//! Only what leaves nothing to work with is an error: no package at the path, a broken archive, a file that
//! cannot be read. Everything that is merely missing or odd inside of a package is a [`Note`](crate::Note).

use std::io;
use std::path::{Path, PathBuf};

/// Why a capture could not be opened, read or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was being read or written.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The path holds something, but no capture.
    #[error(
        "{}: {found}; a capture is a directory or zip archive that holds snapshot.ini or contents.ini, \
         and a bare buffer is opened by naming the protocol that it speaks",
        path.display()
    )]
    NotACapture {
        /// What was opened.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// The archive is truncated, damaged or of a kind that we do not read.
    #[error("{}: not a zip archive, or one that is damaged or cut short ({reason}); copy or make it again", path.display())]
    Zip {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file does not fit into the memory that was set aside for it.
    #[error("{name}: larger than the limit of {limit} bytes")]
    TooLarge {
        /// The file.
        name: String,
        /// How many bytes would have been accepted.
        limit: u64,
    },
    /// The capture has fewer buffers.
    #[error("there is no buffer {index}: the capture has {count}")]
    NoBuffer {
        /// The buffer asked for, counted from 0.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The package names the file but does not contain it.
    #[error("{name}: not in the capture")]
    MissingFile {
        /// The file as it was asked for.
        name: String,
    },
    /// The file is there but must not or cannot be used.
    #[error("{name}: {reason}")]
    Unusable {
        /// The file as it was asked for.
        name: String,
        /// Why it stays closed.
        reason: String,
    },
    /// Saving never writes over something else.
    #[error("{}: not empty; a capture is saved into a new or empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The text has a form that an ini file cannot hold, for example a line break.
    #[error("{text:?} cannot be written into an ini file")]
    Unwritable {
        /// The line as it would have been.
        text: String,
    },
}

impl Error {
    /// Puts the path in front of what the operating system said.
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { path: path.as_ref().to_path_buf(), source }
    }
}
