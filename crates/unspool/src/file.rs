//! Trace files, opened by path or from a pipe; the first bytes decide the format.
//!
//! ```text
//! path ─▶ FileKind ─▶ AstfFile, StfFile or TarmacFile ─▶ records, lines or steps
//! ```
//!
//! Damage is an [`End`], after everything before it was handed out; a file that cannot be read is a [`FileError`].
//! Knows nothing of captures, and prints nothing.

mod astf;
mod input;
mod stf;
mod tarmac;

use std::path::Path;

pub use self::astf::AstfFile;
pub(crate) use self::input::peek_input;
pub use self::input::{
    End, FileError, FileOptions, Input, OpenedSteps, STANDARD_INPUT, is_capture, is_pipe, is_standard, peek, pipe,
};
pub use self::stf::{Resumable, StfFile, is_damage};
pub use self::tarmac::{TarmacFile, Unreadable};
use crate::identify::{Identity, Wanted};
use crate::meter::Meter;
use crate::sniff::FileKind;
use crate::tee::tee;

/// Open trace file.
pub enum TraceFile {
    /// ASTF.
    Astf(AstfFile),
    /// STF.
    Stf(StfFile),
    /// Tarmac.
    Tarmac(TarmacFile),
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
        match FileKind::at(path) {
            Ok(FileKind::Capture) => Err(refusal(path)),
            // A path that cannot be examined cannot be opened either, and opening it reports why.
            kind => Self::open_as(kind.unwrap_or(FileKind::Astf), path, options),
        }
    }

    /// Opens a file or a pipe; `None`: it is not a trace file, but may be a capture.
    pub fn open_if_trace(path: &Path) -> Option<Result<Self, FileError>> {
        let options = FileOptions::default();
        if is_pipe(path) {
            return Some(peek(path).and_then(|(name, kind, input)| Self::of(kind, &name, input, &options)));
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

    /// Opens a stream as a file of this kind.
    pub fn of(kind: FileKind, name: &str, input: Input, options: &FileOptions) -> Result<Self, FileError> {
        match kind {
            FileKind::Tarmac => TarmacFile::of(name, input, None, options).map(Self::Tarmac),
            FileKind::Stf => StfFile::of(name, input, options).map(Self::Stf),
            FileKind::Astf | FileKind::Capture => AstfFile::of(name, input, None, options).map(Self::Astf),
        }
    }

    /// Opens a pipe for two readers of an STF file or a Tarmac log, and for one of an ASTF file.
    pub fn open_twice(path: &Path, options: &FileOptions) -> Result<(Self, Option<Self>), FileError> {
        let (name, input) = pipe(path)?;
        let (kind, input) = match options.is_tarmac() {
            true => (FileKind::Tarmac, input),
            false => peek_input(&name, input)?,
        };
        if matches!(kind, FileKind::Astf | FileKind::Capture) {
            return Ok((Self::of(kind, &name, input, options)?, None));
        }
        let [one, other] = tee(input).map_err(|source| FileError::open(&name, source))?;
        let one = Self::of(kind, &name, Box::new(one), options)?;
        Ok((one, Some(Self::of(kind, &name, Box::new(other), options)?)))
    }

    /// Name in messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Astf(file) => file.name(),
            Self::Stf(file) => file.name(),
            Self::Tarmac(file) => file.name(),
        }
    }

    /// Format of the file.
    pub fn kind(&self) -> FileKind {
        match self {
            Self::Astf(_) => FileKind::Astf,
            Self::Stf(_) => FileKind::Stf,
            Self::Tarmac(_) => FileKind::Tarmac,
        }
    }

    /// Steps of the file, and the meter of what is read. `big_endian`: byte order of data in a Tarmac log.
    pub fn into_steps(self, big_endian: bool) -> (OpenedSteps, Meter) {
        match self {
            Self::Astf(file) => file.into_steps(),
            Self::Stf(file) => file.into_steps(),
            Self::Tarmac(file) => file.into_steps(big_endian),
        }
    }
}

/// The refusal of a path that is not a trace file.
fn refusal(path: &Path) -> FileError {
    let name = path.display().to_string();
    match Identity::at(path) {
        Ok(found) => found.refused(name, Wanted::TraceFile).into(),
        Err(source) => FileError::open(name, source),
    }
}
