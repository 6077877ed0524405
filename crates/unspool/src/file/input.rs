//! Opening files and pipes, before their format is known: names in messages, sizes, errors.
//!
//! Takes a path; produces an [`Input`] or a [`FileError`]. Knows nothing of records.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use unspool_capture::Capture;
use unspool_model::StepSource;
use unspool_tarmac::dialect::Dialect;

use crate::identify::{Identity, Wanted, WrongKind};
use crate::sniff::{FileKind, beginning};

/// Name of the standard input in messages.
pub const STANDARD_INPUT: &str = "standard input";

/// Bytes of a trace file.
pub type Input = Box<dyn Read + Send>;

/// Steps of an open file or capture.
pub type OpenedSteps = Box<dyn StepSource + Send>;

/// Options for opening trace files.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// Threads that decompress; `None`: one per processor.
    pub threads: Option<usize>,
    /// Dialect of a Tarmac log; `None`: auto-detected.
    pub dialect: Option<Dialect>,
    /// Instructions of a Tarmac log that name no instruction set are Thumb.
    pub implicit_thumb: bool,
}

impl FileOptions {
    /// Whether the options apply to Tarmac only, so that any file is read as a log.
    pub fn is_tarmac(&self) -> bool {
        self.dialect.is_some() || self.implicit_thumb
    }
}

/// How reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// At the end of the file.
    Whole,
    /// Stopped by the caller.
    Stopped,
    /// The file is damaged or cut short: problem and position.
    Damaged(String),
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be opened.
    #[error("{name}")]
    Open {
        /// Name of the file.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Reading failed on the way.
    #[error("{name}: reading stopped at offset {offset:#x}")]
    Read {
        /// Name of the file.
        name: String,
        /// Offset in the uncompressed trace.
        offset: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// A Tarmac log cannot be read.
    #[error("{name}")]
    Tarmac {
        /// Name of the file.
        name: String,
        /// Error of the reader.
        source: unspool_tarmac::read::ReadError,
    },
    /// The file is of another kind.
    #[error(transparent)]
    WrongKind(Box<WrongKind>),
    /// The file cannot be read by this version, or is of another kind.
    #[error("{0}")]
    Unsupported(String),
    /// The file is damaged before the first record.
    #[error("{0}")]
    Damaged(String),
}

impl From<WrongKind> for FileError {
    fn from(wrong: WrongKind) -> Self {
        Self::WrongKind(Box::new(wrong))
    }
}

impl FileError {
    pub(crate) fn open(name: impl Into<String>, source: io::Error) -> Self {
        Self::Open { name: name.into(), source }
    }
}

/// Opens the standard input or another pipe, with its name in messages.
pub fn pipe(path: &Path) -> Result<(String, Input), FileError> {
    if is_standard(path) {
        return Ok((STANDARD_INPUT.to_string(), Box::new(io::stdin())));
    }
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((name, Box::new(file))),
        Err(source) => Err(FileError::open(name, source)),
    }
}

/// Opens a pipe and detects the format of its data. Data that is not a trace file is refused: a capture consists of files.
pub fn peek(path: &Path) -> Result<(String, FileKind, Input), FileError> {
    let (name, input) = pipe(path)?;
    let (kind, input) = peek_input(&name, input)?;
    Ok((name, kind, input))
}

/// Detects the format of a stream, and puts its first bytes back.
pub(crate) fn peek_input(name: &str, mut input: Input) -> Result<(FileKind, Input), FileError> {
    let start = beginning(&mut input).map_err(|source| FileError::open(name, source))?;
    match FileKind::of(&start) {
        FileKind::Capture => Err(Identity::of(&start, name).refused(name, Wanted::TraceFile).into()),
        kind => Ok((kind, Box::new(Cursor::new(start).chain(input)))),
    }
}

/// Opens a file, with its name in messages and its size if it is a regular file. `refusal`: message for a directory.
pub(super) fn open_file(path: &Path, refusal: &str) -> Result<(String, Input, Option<u64>), FileError> {
    if is_standard(path) {
        return Ok((STANDARD_INPUT.to_string(), Box::new(io::stdin()), None));
    }
    let name = path.display().to_string();
    let of_file = |source| FileError::open(&name, source);
    let file = File::open(path).map_err(of_file)?;
    let metadata = file.metadata().map_err(of_file)?;
    if metadata.is_dir() {
        return Err(FileError::Unsupported(format!("{name}: {refusal}")));
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok((name, Box::new(file), size))
}

/// Whether this path means the standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether the path can be read only once.
pub fn is_pipe(path: &Path) -> bool {
    is_standard(path) || path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Whether the path is a capture that can be opened. A pipe is not.
pub fn is_capture(path: &Path) -> bool {
    !is_pipe(path) && matches!(FileKind::at(path), Ok(FileKind::Capture)) && Capture::open(path).is_ok()
}
