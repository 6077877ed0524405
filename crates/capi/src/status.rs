//! Status codes, and which of them an error of the library is.

use std::io::{self, ErrorKind};

use unspool::tarmac::read::ReadErrorKind;
use unspool::{Error, FileError, capture};

/// Result of a function.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnspoolStatus {
    /// Success.
    Ok = 0,
    /// Nothing is left to read.
    End = 1,
    /// Not an error: the trace and its images do not have it.
    Absent = 2,
    /// A pointer is NULL.
    NullArgument = 3,
    /// A text is not UTF-8.
    InvalidText = 4,
    /// An argument has a value that makes no sense: an unknown protocol, an index out of range, a capacity of 0.
    InvalidArgument = 5,
    /// The file does not exist.
    NotFound = 6,
    /// The system reported an error: a file cannot be opened or read, a thread cannot be started.
    System = 7,
    /// The file, trace or source is of another kind, or of a version that is not supported.
    WrongKind = 8,
    /// The capture does not have the source, or has several of that name.
    NoSource = 9,
    /// Part of the trace is damaged. Reading continues after it.
    Damaged = 10,
    /// Any other reason.
    Other = 11,
    /// A defect of the library. An iterator has nothing more to read: free it.
    Panic = 12,
}

impl UnspoolStatus {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Capture(error) => of_capture(error),
            Error::File(error) => of_file(error),
            Error::Read { .. } | Error::Thread(_) => Self::System,
            Error::Steps(error) if !error.is_damage => Self::System,
            Error::Steps(_) | Error::Frame(_) => Self::Damaged,
            Error::UnknownProtocol { .. } | Error::NoInstructions { .. } | Error::WrongKind(_) => Self::WrongKind,
            Error::NoSource { .. } | Error::SharedId { .. } | Error::WhichSource { .. } | Error::NoTraceId { .. } => {
                Self::NoSource
            }
            _ => Self::Other,
        }
    }
}

fn of_capture(error: &capture::Error) -> UnspoolStatus {
    match error {
        capture::Error::Io { source, .. } => of_system(source),
        capture::Error::OtherMachine { .. } | capture::Error::NotACapture { .. } => UnspoolStatus::WrongKind,
        capture::Error::Zip { .. } => UnspoolStatus::Damaged,
        capture::Error::MissingFile { .. } => UnspoolStatus::NotFound,
        _ => UnspoolStatus::Other,
    }
}

fn of_file(error: &FileError) -> UnspoolStatus {
    match error {
        FileError::Open { source, .. } => of_system(source),
        FileError::Read { .. } => UnspoolStatus::System,
        FileError::WrongKind(_) | FileError::Unsupported(_) => UnspoolStatus::WrongKind,
        FileError::Tarmac { source, .. } if matches!(source.kind, ReadErrorKind::Io(_)) => UnspoolStatus::System,
        FileError::Damaged(_) | FileError::Tarmac { .. } => UnspoolStatus::Damaged,
        _ => UnspoolStatus::Other,
    }
}

fn of_system(error: &io::Error) -> UnspoolStatus {
    if error.kind() == ErrorKind::NotFound { UnspoolStatus::NotFound } else { UnspoolStatus::System }
}
