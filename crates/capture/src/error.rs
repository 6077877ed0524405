//! Errors that end the reading or writing of a capture.
//!
//! Only problems that leave nothing to work with are errors: no package at the path, a broken archive, a file that
//! cannot be read. Missing or invalid parts of a package are reported as [`Note`](crate::Note)s.

use std::io;
use std::path::{Path, PathBuf};

use crate::code::Machine;

/// Reason why a capture could not be opened, read or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory that was being read or written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The image is a program of another architecture.
    #[error("{name}: this is a program for {machine}, and the cores are Arm; give the program that was traced")]
    OtherMachine {
        /// The image.
        name: String,
        /// Its architecture.
        machine: Machine,
    },
    /// The path exists but is not a capture.
    #[error(
        "{}: {found}; a capture is a directory or zip archive that contains snapshot.ini or contents.ini; \
         to open a bare trace buffer, give its protocol",
        path.display()
    )]
    NotACapture {
        /// The path that was opened.
        path: PathBuf,
        /// Description of what was found there.
        found: String,
    },
    /// The archive is truncated, damaged or not supported.
    #[error("{}: not a zip archive, or damaged or truncated ({reason})", path.display())]
    Zip {
        /// The archive.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// The file is larger than the caller's limit.
    #[error("{name}: larger than the limit of {limit} bytes")]
    TooLarge {
        /// The file.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The capture has fewer buffers.
    #[error("no buffer {index}: the capture has {count}")]
    NoBuffer {
        /// Index of the requested buffer.
        index: usize,
        /// Number of buffers.
        count: usize,
    },
    /// The package names the file but does not contain it.
    #[error("{name}: not in the capture")]
    MissingFile {
        /// The requested name.
        name: String,
    },
    /// The file exists but must not or cannot be used.
    #[error("{name}: {reason}")]
    Unusable {
        /// The requested name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The directory to save into is not empty; saving never overwrites.
    #[error("{}: not empty; a capture is saved into a new or empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The text cannot be represented in an ini file, for example because of a line break.
    #[error("{text:?} cannot be written into an ini file")]
    Unwritable {
        /// The line that could not be written.
        text: String,
    },
}

impl Error {
    /// Adds the path to an error of the operating system.
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { path: path.as_ref().to_path_buf(), source }
    }
}
