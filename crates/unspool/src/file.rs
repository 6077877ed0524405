//! Trace files, opened by path or from a pipe; the first bytes decide which format it is.
//!
//! ```text
//! path ─▶ FileKind ─▶ AstfFile, StfFile or TarmacFile ─▶ records, lines or steps
//! ```
//!
//! Damage on the way is an [`End`], after everything before it was handed out; what prevents reading is a [`FileError`].
//! Knows nothing of captures, and prints nothing.

mod astf;
mod stf;
mod tarmac;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use unspool_capture::Capture;
use unspool_tarmac::dialect::Dialect;

pub use self::astf::AstfFile;
pub use self::stf::{StfFile, is_damage};
pub use self::tarmac::{TarmacFile, Unreadable};
use crate::meter::Meter;
use crate::tee::tee;
use crate::{FileKind, OpenedSteps};

/// Name of the standard input in messages.
pub const STANDARD_INPUT: &str = "standard input";

/// Bytes of a trace file.
pub type Input = Box<dyn Read + Send>;

/// Open trace file.
pub enum TraceFile {
    /// ASTF.
    Astf(AstfFile),
    /// STF.
    Stf(StfFile),
    /// Tarmac.
    Tarmac(TarmacFile),
}

/// How trace files are opened.
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
    /// Do the options make a Tarmac log of any file?
    pub fn is_tarmac(&self) -> bool {
        self.dialect.is_some() || self.implicit_thumb
    }
}

/// How reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// At the end of the file.
    Whole,
    /// Where the caller stopped.
    Stopped,
    /// Where the file is damaged or cut short: what and where.
    Damaged(String),
}

/// What prevents a file from being read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be opened.
    #[error("{name}")]
    Open {
        /// The file.
        name: String,
        /// What the system reported.
        source: io::Error,
    },
    /// Reading failed on the way.
    #[error("{name}: reading stopped at offset {offset:#x}")]
    Read {
        /// The file.
        name: String,
        /// Offset in the uncompressed trace.
        offset: u64,
        /// What the system reported.
        source: io::Error,
    },
    /// A Tarmac log cannot be read.
    #[error("{name}")]
    Tarmac {
        /// The file.
        name: String,
        /// Why.
        source: unspool_tarmac::read::ReadError,
    },
    /// It is not an ASTF file.
    #[error("{name}: {reason}{looks_like}")]
    NotAstf {
        /// The file.
        name: String,
        /// What its first bytes are.
        reason: String,
        /// What starts like this instead.
        looks_like: &'static str,
    },
    /// It cannot be read by this version, or is another kind of file.
    #[error("{0}")]
    Unsupported(String),
    /// It is damaged before the first record.
    #[error("{0}")]
    Damaged(String),
}

impl FileError {
    fn open(name: &str, source: io::Error) -> Self {
        Self::Open { name: name.to_string(), source }
    }
}

impl TraceFile {
    /// Opens a file, or the standard input if the path is `-`.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, FileError> {
        if options.is_tarmac() {
            return Self::open_as(FileKind::Tarmac, path, options);
        }
        if is_pipe(path) {
            let (name, kind, input) = peek(path)?;
            return Self::of(kind, &name, input, options);
        }
        // A path that cannot be examined cannot be opened either, and opening it reports why.
        Self::open_as(FileKind::at(path).unwrap_or(FileKind::Astf), path, options)
    }

    /// Opens a file or a pipe; `None`: it is not a trace file.
    pub fn open_if_trace(path: &Path) -> Option<Result<Self, FileError>> {
        let options = FileOptions::default();
        if is_pipe(path) {
            let (name, kind, input) = peek(path).ok()?;
            return (kind != FileKind::Capture).then(|| Self::of(kind, &name, input, &options));
        }
        let kind = FileKind::at(path).ok().filter(|kind| *kind != FileKind::Capture)?;
        Some(Self::open_as(kind, path, &options))
    }

    /// Opens a file or the standard input as a file of this kind. A capture is refused as a file that is not ASTF.
    pub fn open_as(kind: FileKind, path: &Path, options: &FileOptions) -> Result<Self, FileError> {
        match kind {
            FileKind::Tarmac => TarmacFile::open(path, options).map(Self::Tarmac),
            FileKind::Stf if is_pipe(path) => {
                let (name, input) = pipe(path)?;
                Self::of(kind, &name, input, options)
            }
            FileKind::Stf => StfFile::open(path, options).map(Self::Stf),
            FileKind::Astf | FileKind::Capture => AstfFile::open(path, options).map(Self::Astf),
        }
    }

    /// Opens what comes through a pipe as a file of this kind.
    pub fn of(kind: FileKind, name: &str, input: Input, options: &FileOptions) -> Result<Self, FileError> {
        match kind {
            FileKind::Tarmac => TarmacFile::of(name, input, None, options).map(Self::Tarmac),
            FileKind::Stf => StfFile::of(name, input, options).map(Self::Stf),
            FileKind::Astf | FileKind::Capture => AstfFile::of(name, input, None, options).map(Self::Astf),
        }
    }

    /// Opens a pipe for two readers of an STF file or a Tarmac log, and for one of an ASTF file.
    pub fn open_twice(path: &Path, options: &FileOptions) -> Result<(Self, Option<Self>), FileError> {
        let (name, mut kind, input) = peek(path)?;
        if options.is_tarmac() {
            kind = FileKind::Tarmac;
        }
        if matches!(kind, FileKind::Astf | FileKind::Capture) {
            return Ok((Self::of(kind, &name, input, options)?, None));
        }
        let [one, other] = tee(input).map_err(|source| FileError::open(&name, source))?;
        let one = Self::of(kind, &name, Box::new(one), options)?;
        Ok((one, Some(Self::of(kind, &name, Box::new(other), options)?)))
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Astf(file) => file.name(),
            Self::Stf(file) => file.name(),
            Self::Tarmac(file) => file.name(),
        }
    }

    /// Which format it is.
    pub fn kind(&self) -> FileKind {
        match self {
            Self::Astf(_) => FileKind::Astf,
            Self::Stf(_) => FileKind::Stf,
            Self::Tarmac(_) => FileKind::Tarmac,
        }
    }

    /// Its steps, and how far it was read. `big_endian`: byte order of data in a Tarmac log.
    pub fn into_steps(self, big_endian: bool) -> (OpenedSteps, Meter) {
        match self {
            Self::Astf(file) => file.into_steps(),
            Self::Stf(file) => file.into_steps(),
            Self::Tarmac(file) => file.into_steps(big_endian),
        }
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
        Err(source) => Err(FileError::Open { name, source }),
    }
}

/// Opens a pipe and detects which format comes through it.
pub fn peek(path: &Path) -> Result<(String, FileKind, Input), FileError> {
    let (name, input) = pipe(path)?;
    match FileKind::peek(input) {
        Ok((kind, input)) => Ok((name, kind, Box::new(input))),
        Err(source) => Err(FileError::Open { name, source }),
    }
}

/// Opens a file, with its name in messages and its size if it is a regular file.
fn open_file(path: &Path, refuse: &str) -> Result<(String, Input, Option<u64>), FileError> {
    if is_standard(path) {
        return Ok((STANDARD_INPUT.to_string(), Box::new(io::stdin()), None));
    }
    let name = path.display().to_string();
    let of_file = |source| FileError::open(&name, source);
    let file = File::open(path).map_err(of_file)?;
    let metadata = file.metadata().map_err(of_file)?;
    if metadata.is_dir() {
        return Err(FileError::Unsupported(format!("{name}: {refuse}")));
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok((name, Box::new(file), size))
}

/// Is this the path of the standard input or output?
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Can it be read only once?
pub fn is_pipe(path: &Path) -> bool {
    is_standard(path) || path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Is it a capture that can be opened? A pipe is not.
pub fn is_capture(path: &Path) -> bool {
    !is_pipe(path) && matches!(FileKind::at(path), Ok(FileKind::Capture)) && Capture::open(path).is_ok()
}
