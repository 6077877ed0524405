//! What is at a path, or comes through a pipe: its first bytes tell.
//!
//! Comes in: a path or a stream. Goes out: which of our readers is meant. Opens nothing for longer than a look, and of a
//! stream gives back what it took.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::path::Path;

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// A capture, or what may be one: a directory, an archive, bytes that say nothing.
    Capture,
    /// An ASTF file.
    Astf,
}

/// Bytes that have to be seen.
const LOOK: u64 = 4;

impl What {
    /// What is at a path. Only files are looked into: the beginning of a pipe would be lost; see [`peek`](Self::peek).
    pub fn at(path: &Path) -> io::Result<Self> {
        if !path.metadata()?.is_file() {
            return Ok(Self::Capture);
        }
        Ok(Self::of(&beginning(&mut File::open(path)?)?))
    }

    /// What starts with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"ASTF") { Self::Astf } else { Self::Capture }
    }

    /// What comes out of a stream, and the stream as it was.
    pub fn peek<R: Read>(mut input: R) -> io::Result<(Self, Peeked<R>)> {
        let start = beginning(&mut input)?;
        Ok((Self::of(&start), Cursor::new(start).chain(input)))
    }
}

/// A stream whose beginning was looked at.
pub type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

fn beginning(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    input.take(LOOK).read_to_end(&mut start)?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes() {
        let rows: &[(&[u8], What)] = &[
            (b"ASTF", What::Astf),
            (b"ASTF\0\x0b and more", What::Astf),
            (b"AST", What::Capture),
            (b"", What::Capture),
            (b"PK\x03\x04", What::Capture),
        ];
        for (bytes, expected) in rows {
            assert_eq!(What::of(bytes), *expected);
            let (what, mut input) = What::peek(*bytes).unwrap();
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert_eq!((what, &all[..]), (*expected, *bytes));
        }
    }

    #[test]
    fn paths() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.bin");
        std::fs::write(&file, b"ASTF\0\0").unwrap();
        assert_eq!(What::at(dir.path()).unwrap(), What::Capture);
        assert_eq!(What::at(&file).unwrap(), What::Astf);
        assert!(What::at(&dir.path().join("absent")).is_err());
    }
}
