//! Kinds of containers, recognized by their first bytes or by the name of a file.

use std::fmt;
use std::path::Path;

use crate::is_zstd_frame;

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// Not compressed.
    Plain,
    /// gzip, RFC 1952.
    Gzip,
    /// A zlib stream, RFC 1950.
    Zlib,
    /// .xz.
    Xz,
    /// The legacy .lzma container.
    Lzma,
    /// Zstandard, RFC 8878.
    Zstd,
}

/// Bytes of the header of an .lzma file.
const LZMA_HEADER: usize = 13;

impl Container {
    /// All containers.
    pub const ALL: [Self; 6] = [Self::Plain, Self::Gzip, Self::Zlib, Self::Xz, Self::Lzma, Self::Zstd];

    /// Number of bytes that [`of`](Self::of) needs.
    pub const PEEK: usize = 6;

    /// Number of bytes that [`has_header`](Self::has_header) needs.
    pub fn header_bytes(self) -> usize {
        match self {
            Self::Zlib => 2,
            Self::Lzma => LZMA_HEADER,
            magic => magic.magic().len(),
        }
    }

    /// Magic number; empty where there is none. That of gzip includes its only compression method.
    pub fn magic(self) -> &'static [u8] {
        match self {
            Self::Gzip => &[0x1f, 0x8b, 8],
            Self::Xz => &[0xfd, b'7', b'z', b'X', b'Z', 0],
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
            Self::Plain | Self::Zlib | Self::Lzma => &[],
        }
    }

    /// The container with a magic number that these bytes start with. zlib and .lzma have none; see
    /// [`has_header`](Self::has_header).
    pub fn of(bytes: &[u8]) -> Option<Self> {
        [Self::Gzip, Self::Xz, Self::Zstd].into_iter().find(|container| container.has_header(bytes))
    }

    /// Whether these bytes can be the start of this container. Without a magic number, other data may look the same.
    pub fn has_header(self, bytes: &[u8]) -> bool {
        match self {
            Self::Plain => true,
            Self::Zlib => has_zlib_header(bytes),
            Self::Lzma => has_lzma_header(bytes),
            // A frame, or one that decompressors skip.
            Self::Zstd => is_zstd_frame(bytes),
            Self::Gzip | Self::Xz => bytes.starts_with(self.magic()),
        }
    }

    /// The container that the last extension of a file names; never [`Plain`](Self::Plain).
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" => Some(Self::Gzip),
            "zz" | "z" | "zlib" => Some(Self::Zlib),
            "xz" => Some(Self::Xz),
            "lzma" => Some(Self::Lzma),
            "zst" | "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
            Self::Xz => "xz",
            Self::Lzma => "lzma",
            Self::Zstd => "zstd",
        })
    }
}

/// Compression method, window size, and a check of five bits.
fn has_zlib_header(bytes: &[u8]) -> bool {
    let [method, flags, ..] = bytes else { return false };
    method & 0xf == 8 && method >> 4 <= 7 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31)
}

/// The heuristic of `xz`: dictionary sizes are round, and files have less than 256 GiB.
fn has_lzma_header(bytes: &[u8]) -> bool {
    let Some(&[properties, a, b, c, d, ref size @ ..]) = bytes.first_chunk::<LZMA_HEADER>() else { return false };
    let (dictionary, size) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(*size));
    // One or two leading ones and nothing else.
    let ones = dictionary.count_ones();
    let is_round = ones == 1 || (ones == 2 && (dictionary & dictionary << 1) != 0) || dictionary == u32::MAX;
    properties < 9 * 5 * 5 && is_round && (size == u64::MAX || size < 1 << 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_name() {
        let rows = [
            ("a.gz", Some(Container::Gzip)),
            ("dir.gz/a.XZ", Some(Container::Xz)),
            ("a.stf.zst", Some(Container::Zstd)),
            ("a.zstd", Some(Container::Zstd)),
            ("a.lzma", Some(Container::Lzma)),
            ("a.zz", Some(Container::Zlib)),
            ("a.gz.txt", None),
            ("gz", None),
            ("-", None),
        ];
        for (name, expected) in rows {
            assert_eq!(Container::from_path(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn by_first_bytes() {
        let rows: &[(&[u8], Option<Container>)] = &[
            (b"", None),
            (b"\x1f\x8b", None),
            (b"\x1f\x8b\x08", Some(Container::Gzip)),
            (b"\xfd7zXZ\0", Some(Container::Xz)),
            (b"\x28\xb5\x2f\xfd", Some(Container::Zstd)),
            (b"\x53\x2a\x4d\x18", Some(Container::Zstd)),
            (b"x^ is text as well as a zlib header", None),
        ];
        for (bytes, expected) in rows {
            assert_eq!(Container::of(bytes), *expected, "{bytes:?}");
        }
        let lzma = [0x5d, 0, 0, 0x80, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(Container::Lzma.has_header(&lzma) && !Container::Lzma.has_header(&lzma[..12]));
        assert!(Container::Zlib.has_header(b"x^") && !Container::Zlib.has_header(b"x]"));
    }
}
