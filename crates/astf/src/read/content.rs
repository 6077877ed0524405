//! Detection of the content after a header, independent of the header.

use std::fmt;

use flate2::{Decompress, FlushDecompress};
use unspool_container::Container;

use crate::record::{Context, ExtraEa, Instruction, StringContinuation, StringStart, Timestamp, Trap};

/// Content after a header, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// A record of a known type.
    Records,
    /// One of the containers of the format: xz, lzma, zlib, gzip.
    Compressed(Container),
    /// None of these.
    Unknown,
}

impl Content {
    /// Number of bytes that [`Content::of`] needs.
    pub(super) const PEEK: usize = 32;

    /// The content that starts with these bytes. A record is more likely than a container without a magic number: a
    /// Context of a small process may well look like the header of an .lzma file.
    pub(super) fn of(bytes: &[u8]) -> Self {
        if let Some(container @ (Container::Xz | Container::Gzip)) = Container::of(bytes) {
            return Self::Compressed(container);
        }
        match bytes {
            [first, ..] if TYPES.contains(first) => Self::Records,
            [LZMA_PROPERTIES, ..] if Container::Lzma.has_header(bytes) => Self::Compressed(Container::Lzma),
            _ if is_zlib(bytes) => Self::Compressed(Container::Zlib),
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Records => "what follows looks like records that are not compressed",
            Self::Compressed(Container::Xz) => "what follows is an .xz file (LZMA)",
            Self::Compressed(Container::Lzma) => "what follows looks like an .lzma file (LZMA)",
            Self::Compressed(Container::Zlib) => "what follows looks like a zlib stream",
            Self::Compressed(Container::Gzip) => "what follows looks like a gzip file (zlib)",
            Self::Compressed(_) | Self::Unknown => "what follows is nothing of the kind",
        })
    }
}

/// First byte of nearly all .lzma files, which have no magic number: the properties that all tools have as their
/// default.
const LZMA_PROPERTIES: u8 = 0x5d;

/// Types of records that may follow the header.
const TYPES: [u8; 7] = [
    Instruction::TYPE,
    Trap::TYPE,
    ExtraEa::TYPE,
    Context::TYPE,
    StringStart::TYPE,
    StringContinuation::TYPE,
    Timestamp::TYPE,
];

/// Any record of an unknown type may have the two bytes of the zlib header, so this tries what follows too.
fn is_zlib(bytes: &[u8]) -> bool {
    Container::Zlib.has_header(bytes)
        && Decompress::new(true).decompress(bytes, &mut [0; 4096], FlushDecompress::None).is_ok()
}
