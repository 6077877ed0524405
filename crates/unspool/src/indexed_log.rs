//! Tarmac logs on disk, with an index file beside them.
//!
//! log ─▶ index that exists and matches, or a new one ─▶ log and index, ready for queries
//!
//! An index is written under a temporary name first, so that it is never seen half-written.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use unspool_container::Container;
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::index::{Fingerprint, Index, IndexError, IndexOptions, Indexed, Totals, build};
use unspool_tarmac::parse::ParseOptions;
use unspool_tarmac::read::{ReadError, ReadOptions, Reader};

use crate::file::FileOptions;
use crate::target::{TemporaryPath, is_stream};

/// Log and its index.
pub type IndexedLog = Indexed<File, File>;

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A file cannot be opened, written or renamed.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The start of the log cannot be read.
    #[error("{path}: {source}")]
    Log {
        /// Path of the file.
        path: String,
        /// Error of the reader.
        source: ReadError,
    },
    /// The file is not an index, or not of this log.
    #[error("{path}: {source}")]
    Index {
        /// Path of the file.
        path: String,
        /// Error of the reader.
        source: IndexError,
    },
    /// Reading can only start at the beginning of the trace.
    #[error("{path}: {why}")]
    NotSeekable {
        /// Path of the file.
        path: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// The log is compressed.
    #[error("{path}: a compressed log has no index; decompress it first")]
    Compressed {
        /// Path of the file.
        path: String,
    },
}

impl LogError {
    pub(crate) fn of_file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.display().to_string(), source }
    }

    pub(crate) fn of_index(path: &Path, source: IndexError) -> Self {
        Self::Index { path: path.display().to_string(), source }
    }

    /// Whether there is no index yet.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the index has to be replaced.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Index { source, .. } if source.is_of_index())
    }
}

/// Default path of the index of a log.
pub fn index_path(log: &Path) -> PathBuf {
    let mut name = OsString::from(log);
    name.push(".unspool-index");
    name.into()
}

/// Container and dialect of a log.
pub fn detect(log: &Path) -> Result<(Container, Dialect), LogError> {
    let file = File::open(log).map_err(|error| LogError::of_file(log, error))?;
    let reader = Reader::new(file, ReadOptions::default())
        .map_err(|source| LogError::Log { path: log.display().to_string(), source })?;
    Ok((reader.container(), reader.dialect()))
}

/// Container of a log, and options for its index.
pub fn index_options(
    log: &Path,
    options: &FileOptions,
    big_endian: bool,
) -> Result<(Container, IndexOptions), LogError> {
    let (container, detected) = detect(log)?;
    let dialect = options.dialect.unwrap_or(detected);
    let implicit_thumb = options.implicit_thumb || dialect.has_implicit_thumb() || detected.has_implicit_thumb();
    let threads = || std::thread::available_parallelism().map_or(1, usize::from);
    let index = IndexOptions {
        parse: ParseOptions { implicit_thumb },
        dialect,
        big_endian,
        threads: options.threads.unwrap_or_else(threads),
        ..IndexOptions::of(Dialect::Other)
    };
    Ok((container, index))
}

/// Opens a log with its index, and makes the index if there is none of this log. `stale` is called before an index that
/// does not fit is replaced.
pub fn open_or_make(
    log: &Path,
    index: &Path,
    options: &IndexOptions,
    progress: impl FnMut(u64),
    stale: impl FnOnce(&LogError),
) -> Result<IndexedLog, LogError> {
    match open_indexed(log, index, options) {
        Err(error) if error.is_stale() => stale(&error),
        Err(error) if error.is_absent() => {}
        opened => return opened,
    }
    make_index(log, index, options, progress)?;
    open_indexed(log, index, options)
}

/// Opens a small log with an index in memory.
pub fn index_in_memory(log: &Path, options: &IndexOptions) -> Result<Indexed<File, Cursor<Vec<u8>>>, LogError> {
    let of_file = |error| LogError::of_file(log, error);
    let of_index = |error| LogError::of_index(log, error);
    let mut text = File::open(log).map_err(of_file)?;
    let fingerprint = Fingerprint::of(&mut text, 0).map_err(of_file)?;
    let mut index = Cursor::new(Vec::new());
    build(&mut text, &mut index, fingerprint, options, |_| {}).map_err(of_index)?;
    Ok(Indexed::new(text, Index::open(index).map_err(of_index)?))
}

/// Opens a log with its index.
pub fn open_indexed(log: &Path, index: &Path, options: &IndexOptions) -> Result<IndexedLog, LogError> {
    let (text, fingerprint) = open(log)?;
    let file = File::open(index).map_err(|error| LogError::of_file(index, error))?;
    let opened = Index::open(file).map_err(|error| LogError::of_index(index, error))?;
    if !opened.is_of(&fingerprint, options) {
        return Err(LogError::of_index(index, IndexError::Changed));
    }
    Ok(Indexed::new(text, opened))
}

/// Makes the index of a log. `progress` is called with the bytes of the log that are done.
pub fn make_index(
    log: &Path,
    index: &Path,
    options: &IndexOptions,
    progress: impl FnMut(u64),
) -> Result<Totals, LogError> {
    let (mut text, fingerprint) = open(log)?;
    write_index(index, |file| {
        build(&mut text, file, fingerprint, options, progress).map_err(|error| LogError::of_index(index, error))
    })
}

/// Writes an index under a temporary name, and puts it in place when it is complete.
pub(crate) fn write_index(
    index: &Path,
    make: impl FnOnce(&mut File) -> Result<Totals, LogError>,
) -> Result<Totals, LogError> {
    let of_file = |error| LogError::of_file(index, error);
    if is_stream(index) {
        return Err(of_file(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an index must be a file, not a pipe or a device",
        )));
    }
    // An incomplete index is of no use, and is removed.
    let part = TemporaryPath::beside(index);
    let made = File::options().read(true).write(true).create(true).truncate(true).open(part.path());
    let totals = make(&mut made.map_err(of_file)?)?;
    fs::rename(part.path(), index).map_err(of_file)?;
    Ok(totals)
}

pub(crate) fn open(log: &Path) -> Result<(File, Fingerprint), LogError> {
    let of_file = |error| LogError::of_file(log, error);
    let mut text = File::open(log).map_err(of_file)?;
    let about = text.metadata().map_err(of_file)?;
    // Without a time of modification, the length and the contents identify the log.
    let modified = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.map_or(0, |time| time.as_nanos() as u64);
    let fingerprint = Fingerprint::of(&mut text, modified).map_err(of_file)?;
    Ok((text, fingerprint))
}
