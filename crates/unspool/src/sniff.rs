//! What is at a path, or comes through a pipe: its first bytes tell.
//!
//! Comes in: a path or a stream. Goes out: which of our readers is meant. Opens nothing for longer than a look, and of a
//! stream gives back what it took.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::ops::ControlFlow;
use std::path::Path;

use unspool_stf::Record;
use unspool_stf::read::{Container, ReadErrorKind, ReadOptions, Reader};
use unspool_tarmac as tarmac;
use unspool_tarmac::parse::ParseOptions;

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// A capture, or what may be one: a directory, an archive, bytes that say nothing.
    Capture,
    /// An ASTF file.
    Astf,
    /// An STF file, in any of its containers.
    Stf,
    /// A Tarmac log, compressed or not.
    Tarmac,
}

/// Bytes that are looked at: of what is compressed, so many that something comes out of it.
const LOOK: u64 = 64 << 10;

/// Lines that tell whether text is a log.
const LINES: usize = 256;

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
        match container(bytes) {
            _ if bytes.starts_with(b"ASTF") => Self::Astf,
            Some(Container::Plain | Container::Zstf) => Self::Stf,
            Some(_) if holds_stf(bytes) => Self::Stf,
            _ if holds_log(bytes) => Self::Tarmac,
            _ => Self::Capture,
        }
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

/// What starts with these bytes. Of a magic number that is cut short, the letters have to be there that make it certain.
fn container(bytes: &[u8]) -> Option<Container> {
    Container::of(bytes).filter(|container| match container {
        Container::Plain => bytes.len() >= 2,
        Container::Zstf => bytes.len() >= 3,
        packed => bytes.starts_with(packed.magic()),
    })
}

/// Does what is compressed here start like a trace? That it breaks off is no wonder.
fn holds_stf(bytes: &[u8]) -> bool {
    let mut reader = match Reader::new(Cursor::new(bytes.to_vec()), ReadOptions { threads: 1 }) {
        Ok(reader) => reader,
        // It is one, if one that cannot be read.
        Err(error) => return matches!(error.kind, ReadErrorKind::Version { .. }),
    };
    let mut found = false;
    // How it ends is of no interest.
    let _ = reader.each(|_, record| {
        found = matches!(record, Record::Identifier([b'S', b'T', b'F']));
        ControlFlow::Break(())
    });
    found
}

/// Are these, unpacked if need be, lines of a log? Some may be damaged; most have to mean something, unless we wrote it.
fn holds_log(bytes: &[u8]) -> bool {
    let options = tarmac::read::ReadOptions { parse: ParseOptions { implicit_thumb: true } };
    let Ok(mut reader) = tarmac::read::Reader::new(bytes, options) else { return false };
    let (mut lines, mut known, mut unknown) = (0, 0, 0);
    if reader.is_lowered() {
        return true;
    }
    // How it ends is of no interest: the beginning is all that is there.
    let _ = reader.each(|_, line| {
        lines += 1;
        match line.record {
            tarmac::Record::Blank | tarmac::Record::Comment(_) | tarmac::Record::Opaque(_) => {}
            tarmac::Record::Header(_) => known += LINES,
            tarmac::Record::Unknown(_) => unknown += 1,
            _ => known += 1,
        }
        if lines < LINES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    known > 0 && known >= unknown
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
            (b"\x01STF\x02", What::Stf),
            (b"\x01ST", What::Stf),
            (b"\x01", What::Capture),
            (b"ZST", What::Stf),
            (b"ZS", What::Capture),
            (b"ZSTF and so on", What::Stf),
            (b"Tarmac Text Rev 3t\n", What::Tarmac),
            (b"# notes\n\n1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n", What::Tarmac),
            (b"# unspool covers times=cycles opcodes\n# unspool note text=and no more\n", What::Tarmac),
            (b"# unspool sliced this\n", What::Capture),
            (b"[snapshot]\nversion=1.0\n", What::Capture),
            (b"Read me first.\nThis is a text.\n", What::Capture),
            (b"\x1f\x8b", What::Capture),
            (b"\x1f\x8b\x08\0\0\0\0\0\0\x03 and no more", What::Capture),
        ];
        for (bytes, expected) in rows {
            assert_eq!(What::of(bytes), *expected);
            let (what, mut input) = What::peek(*bytes).unwrap();
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert_eq!((what, &all[..]), (*expected, *bytes));
        }
    }

    /// A trace is a trace in any container, also if the beginning is all that is seen of it.
    #[test]
    fn what_is_compressed() {
        let packed = |bytes: &[u8]| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut packed, bytes).unwrap();
            packed.finish().unwrap()
        };
        let mut trace = b"\x01STF\x02\x01\0\0\0\x06\0\0\0".to_vec();
        // Bytes that do not compress well, so that not all of them are seen.
        let mut number = 1_u32;
        trace.extend(
            std::iter::repeat_with(|| {
                number = number.wrapping_mul(0x9e37_79b9).wrapping_add(1) ^ number >> 15;
                number as u8
            })
            .take(1 << 20),
        );
        let rows = [
            (trace.clone(), What::Stf),
            (trace[..13].to_vec(), What::Stf),
            (b"notes".to_vec(), What::Capture),
            (b"2 clk R X0 00000000_00000000\n".to_vec(), What::Tarmac),
        ];
        for (bytes, expected) in rows {
            let bytes = packed(&bytes);
            let (what, mut input) = What::peek(&bytes[..]).unwrap();
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert_eq!(what, expected);
            assert!(all == bytes);
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
