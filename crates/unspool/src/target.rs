//! Output files that appear when they are complete, or not at all, and the writers of each format.
//!
//! ```text
//! records ─▶ temporary file beside OUT ─▶ OUT
//! ```

mod reserve;
mod unfinished;

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unspool_astf as astf;
use unspool_astf::record::Storage;
use unspool_container::{CompressOptions, CompressedWriter, Container};
use unspool_stf as stf;

pub use self::reserve::Reserve;
pub use self::unfinished::TemporaryPath;
pub use self::unfinished::remove_unfinished;
use crate::file::is_standard;

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct WriteError {
    /// Path of the file.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

impl WriteError {
    /// Error at this path.
    pub fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_path_buf(), source }
    }
}

/// Output file, or a stream.
pub enum Target {
    /// A pipe or a device: written data cannot be taken back.
    Stream(Box<dyn Write + Send>),
    /// A file that is not complete yet.
    Partial(Partial),
}

impl Target {
    /// Opens a file, or the standard output if the path is `-`.
    pub fn open(path: &Path) -> Result<Self, WriteError> {
        if is_standard(path) {
            return Ok(Self::Stream(Box::new(io::stdout())));
        }
        Self::create(path).map_err(|source| WriteError::new(path, source))
    }

    /// Opens a file that can be completed when the disk is full.
    pub fn open_with(path: &Path, reserve: Arc<Reserve>) -> Result<Self, WriteError> {
        let mut target = Self::open(path)?;
        if let Self::Partial(partial) = &mut target {
            partial.reserve = Some(reserve);
        }
        Ok(target)
    }

    fn create(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {
                // The target of a link is replaced, not the link.
                let partial = Partial::beside(&path.canonicalize()?)?;
                fs::set_permissions(partial.path.path(), metadata.permissions())?;
                Ok(Self::Partial(partial))
            }
            Ok(_) => Ok(Self::Stream(Box::new(File::options().write(true).open(path)?))),
            Err(_) => Ok(Self::Partial(Partial::beside(path)?)),
        }
    }

    /// Whether it can only be written forward.
    pub fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Gives the complete file its name.
    pub fn keep(self) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::Partial(partial) => partial.keep(),
        }
    }
}

/// Whether the path is a pipe or a device, where written data cannot be taken back.
pub fn is_stream(path: &Path) -> bool {
    is_standard(path) || path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(out) => out.write(bytes),
            Self::Partial(partial) => partial.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(out) => out.flush(),
            Self::Partial(partial) => partial.file.flush(),
        }
    }
}

impl Seek for Target {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Stream(_) => Err(io::ErrorKind::NotSeekable.into()),
            Self::Partial(partial) => partial.file.seek(to),
        }
    }
}

/// File under a temporary name, which is removed unless it is kept.
pub struct Partial {
    file: File,
    path: TemporaryPath,
    target: PathBuf,
    reserve: Option<Arc<Reserve>>,
}

impl Partial {
    fn beside(target: &Path) -> io::Result<Self> {
        let path = TemporaryPath::beside(target);
        let file = File::options().write(true).create_new(true).open(path.path())?;
        Ok(Self { file, path, target: target.to_path_buf(), reserve: None })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.file.write(bytes), &self.reserve) {
            (Err(error), Some(reserve)) if reserve.release(&error) => self.file.write(bytes),
            (written, _) => written,
        }
    }

    fn keep(self) -> io::Result<()> {
        fs::rename(self.path.path(), &self.target)
    }
}

/// Opens a writer of STF records.
pub fn open_writer(
    path: &Path,
    storage: stf::Storage,
    options: stf::write::WriteOptions,
) -> Result<stf::write::Writer<Target>, WriteError> {
    writer(Target::open(path)?, storage, options).map_err(|source| WriteError::new(path, source))
}

pub(crate) fn writer(
    target: Target,
    storage: stf::Storage,
    options: stf::write::WriteOptions,
) -> io::Result<stf::write::Writer<Target>> {
    if target.is_stream() {
        stf::write::Writer::new(target, storage, options)
    } else {
        stf::write::Writer::seekable(target, storage, options)
    }
}

/// Opens a writer of ASTF records.
pub fn open_astf_writer(
    path: &Path,
    header: &astf::record::Header,
    options: astf::write::WriteOptions,
) -> Result<astf::write::Writer<Target>, WriteError> {
    astf::write::Writer::new(Target::open(path)?, header, options).map_err(|source| WriteError::new(path, source))
}

/// Opens a writer of Tarmac lines.
pub fn open_log(
    path: &Path,
    container: Container,
    options: CompressOptions,
) -> Result<CompressedWriter<Target>, WriteError> {
    CompressedWriter::new(Target::open(path)?, container, options).map_err(|source| WriteError::new(path, source))
}

/// Storage of an ASTF file, by the extension of its path.
pub fn astf_storage(path: &Path) -> Option<Storage> {
    match Container::from_path(path) {
        Some(Container::Xz | Container::Lzma) => Some(Storage::Lzma),
        Some(Container::Gzip | Container::Zlib) => Some(Storage::Zlib),
        Some(Container::Zstd | Container::Plain) => None,
        None => matches!(extension(path)?.as_str(), "astf" | "raw").then_some(Storage::Raw),
    }
}

/// Container of a Tarmac log, by the extension of its path: plain text unless it names a compressor.
pub fn log_container(path: &Path) -> Container {
    match Container::from_path(path) {
        Some(container @ (Container::Gzip | Container::Xz | Container::Zstd)) => container,
        _ => Container::Plain,
    }
}

pub(crate) fn extension(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_by_extension() {
        let rows = [
            ("a.astf", Some(Storage::Raw), Container::Plain),
            ("a.astf.xz", Some(Storage::Lzma), Container::Xz),
            ("a.astf.LZMA", Some(Storage::Lzma), Container::Plain),
            ("dir.xz/a.astf.gz", Some(Storage::Zlib), Container::Gzip),
            ("a.zz", Some(Storage::Zlib), Container::Plain),
            ("a.trace", None, Container::Plain),
            ("a.tarmac", None, Container::Plain),
            ("a.log", None, Container::Plain),
            ("a.tarmac.gz", Some(Storage::Zlib), Container::Gzip),
            ("a.XZ", Some(Storage::Lzma), Container::Xz),
            ("a.tarmac.zst", None, Container::Zstd),
            ("-", None, Container::Plain),
        ];
        for (name, storage, container) in rows {
            assert_eq!(astf_storage(Path::new(name)), storage, "{name}");
            assert_eq!(log_container(Path::new(name)), container, "{name}");
        }
    }
}
