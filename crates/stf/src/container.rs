//! What a trace is stored in, and its bytes out of that.
//!
//! ```text
//! file ─▶ by its first bytes ─▶ plain ───────────────────────────────▶ bytes of records
//!                              ├ gzip, xz, zstd ─▶ unpack ───────────▶
//!                              └ zstf ─▶ chunks, by several threads ─▶
//! ```
//!
//! Names are of no interest, and nothing is executed. What records say is of no interest either: only the index of a
//! .zstf file counts them, and that is for the reader to check.
//! Specification: what the files of the public library hold.

pub(super) mod ahead;
pub(super) mod frame;
pub(super) mod input;
pub(super) mod unpack;
pub(super) mod workers;
pub(super) mod zstf;

use std::fmt;

/// What a trace is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// Records as they are.
    Plain,
    /// Chunks, each a zstd frame, with an index of them.
    Zstf,
    /// gzip, RFC 1952.
    Gzip,
    /// .xz.
    Xz,
    /// Zstandard, RFC 8878, without chunks.
    Zstd,
}

impl Container {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Zstf, Self::Gzip, Self::Xz, Self::Zstd];

    /// As many bytes as [`of`](Self::of) likes to see.
    pub const PEEK: usize = 6;

    /// How a file of this kind starts.
    pub fn magic(self) -> &'static [u8] {
        match self {
            Self::Plain => &[1, b'S', b'T', b'F'],
            Self::Zstf => b"ZSTF",
            Self::Gzip => &[0x1f, 0x8b],
            Self::Xz => &[0xfd, b'7', b'z', b'X', b'Z', 0],
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        }
    }

    /// What starts with these bytes. A file that ends within its magic number is taken for what it would be.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let fits = |container: &Self| {
            let (magic, found) = (container.magic(), &bytes[..bytes.len().min(container.magic().len())]);
            !found.is_empty() && magic.starts_with(found)
        };
        Self::ALL.into_iter().find(fits)
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Zstf => "zstf",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        })
    }
}

/// What is wrong with a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file ends within it.
    #[error("the file ends before the compressed records do")]
    CutShort,
    /// It contradicts itself, or its check value.
    #[error("the compressed records are damaged")]
    Damaged,
    /// It is compressed in a way that is not supported.
    #[error("the records are compressed in a way that is not supported")]
    Unsupported,
    /// Decompression would take too much memory.
    #[error("decompressing needs more memory than is allowed")]
    Memory,
    /// Something else follows.
    #[error("the compressed records end here, but the file goes on")]
    Trailing,
    /// A chunk should be here.
    #[error("a chunk should start here, and none does")]
    NoChunk,
    /// The header of a .zstf file cannot be.
    #[error("the file says that a chunk has no instruction")]
    NoMarkers,
}
