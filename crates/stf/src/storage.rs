//! Storage of the records of a trace: one stream in any container, or the chunks of a .zstf file.
//!
//! file ─▶ its first bytes ─▶ **storage**
//!
//! Specification: the files of the public library.

use std::fmt;
use std::path::Path;

use unspool_container::Container;

use super::zstf;

/// Storage of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// All records in one stream.
    Stream(Container),
    /// Chunks, each a zstd frame, with an index.
    Zstf,
}

impl Storage {
    /// Uncompressed records.
    pub const PLAIN: Self = Self::Stream(Container::Plain);
    /// Records in a gzip file.
    pub const GZIP: Self = Self::Stream(Container::Gzip);
    /// Records in an .xz file.
    pub const XZ: Self = Self::Stream(Container::Xz);
    /// Records in a zstd file, without chunks.
    pub const ZSTD: Self = Self::Stream(Container::Zstd);

    /// All storages that can be read and written.
    pub const ALL: [Self; 5] = [Self::PLAIN, Self::Zstf, Self::GZIP, Self::XZ, Self::ZSTD];

    /// Number of bytes that [`of`](Self::of) needs.
    pub const PEEK: usize = Container::PEEK;

    /// First bytes of a file in this storage.
    pub fn magic(self) -> &'static [u8] {
        match self {
            Self::Stream(Container::Plain) => &[1, b'S', b'T', b'F'],
            Self::Stream(container) => container.magic(),
            Self::Zstf => &zstf::MAGIC,
        }
    }

    /// The storage of a file that starts with these bytes. A file may end within the magic number.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let fits = |storage: &Self| {
            let (magic, found) = (storage.magic(), &bytes[..bytes.len().min(storage.magic().len())]);
            !found.is_empty() && magic.starts_with(found)
        };
        Self::ALL.into_iter().find(fits)
    }

    /// The storage for the last extension of a file name.
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "stf" => Some(Self::PLAIN),
            "zstf" => Some(Self::Zstf),
            _ => Container::from_path(path).map(Self::Stream).filter(|storage| Self::ALL.contains(storage)),
        }
    }
}

impl From<Container> for Storage {
    fn from(container: Container) -> Self {
        Self::Stream(container)
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(container) => container.fmt(f),
            Self::Zstf => f.write_str("zstf"),
        }
    }
}
