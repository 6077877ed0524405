//! What the bytes behind a header look like, whatever the header says.

use std::fmt;

use flate2::{Decompress, FlushDecompress};

use crate::record::{Context, ExtraEa, Instruction, StringContinuation, StringStart, Timestamp, Trap};

/// What the bytes behind a header look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// A record of a known type.
    Records,
    /// The .xz container.
    Xz,
    /// The legacy .lzma container.
    Lzma,
    /// A zlib stream, RFC 1950.
    Zlib,
    /// The gzip container, RFC 1952.
    Gzip,
    /// None of these.
    Unknown,
}

impl Content {
    /// As much as [`Content::of`] likes to see.
    pub(super) const PEEK: usize = 32;

    /// What starts with these bytes. A record is more likely than a container that only looks like one: a Context of a
    /// small process may well pass for the header of an .lzma file.
    pub(super) fn of(bytes: &[u8]) -> Self {
        match bytes {
            _ if bytes.starts_with(&XZ) => Self::Xz,
            _ if bytes.starts_with(&GZIP) => Self::Gzip,
            [first, ..] if TYPES.contains(first) => Self::Records,
            [LZMA_PROPERTIES, ..] if has_lzma_header(bytes) => Self::Lzma,
            _ if is_zlib(bytes) => Self::Zlib,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Records => "what follows looks like records that are not compressed",
            Self::Xz => "what follows is an .xz file (LZMA)",
            Self::Lzma => "what follows looks like an .lzma file (LZMA)",
            Self::Zlib => "what follows looks like a zlib stream",
            Self::Gzip => "what follows looks like a gzip file (zlib)",
            Self::Unknown => "what follows is nothing of the kind",
        })
    }
}

/// How an .xz stream starts.
pub(super) const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];

/// How a gzip member starts: the only compression method behind the magic number.
pub(super) const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// The bytes of the header of an .lzma file, which has no magic number.
pub(super) const LZMA_HEADER: usize = 13;

/// The first of them in nearly all files: the properties that all tools have as their default.
const LZMA_PROPERTIES: u8 = 0x5d;

/// The types of records that may follow the header.
const TYPES: [u8; 7] = [
    Instruction::TYPE,
    Trap::TYPE,
    ExtraEa::TYPE,
    Context::TYPE,
    StringStart::TYPE,
    StringContinuation::TYPE,
    Timestamp::TYPE,
];

/// The same judgement as that of `xz`: sizes of dictionaries are round, and nobody stores 256 GiB.
pub(super) fn has_lzma_header(bytes: &[u8]) -> bool {
    let Some([properties, rest @ ..]) = bytes.first_chunk::<LZMA_HEADER>() else { return false };
    let dictionary = rest[..4].iter().rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
    let size = rest[4..].iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    // One or two leading ones and nothing else.
    let ones = dictionary.count_ones();
    let is_round = ones == 1 || (ones == 2 && (dictionary & dictionary << 1) != 0) || dictionary == u32::MAX;
    *properties < 9 * 5 * 5 && is_round && (size == u64::MAX || size < 1 << 38)
}

/// The header of a zlib stream: the method, the window, and a check of five bits.
pub(super) fn has_zlib_header(bytes: &[u8]) -> bool {
    let [method, flags, ..] = bytes else { return false };
    method & 0xf == 8 && method >> 4 <= 7 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31)
}

/// Any record of an unknown type may have the two bytes of the header, so this looks at what follows too.
fn is_zlib(bytes: &[u8]) -> bool {
    has_zlib_header(bytes) && Decompress::new(true).decompress(bytes, &mut [0; 4096], FlushDecompress::None).is_ok()
}
