//! Detects the format of a file or a pipe by its first bytes.
//!
//! Takes a path or a stream; produces a [`FileKind`]. Keeps no file open, and puts the bytes that it read back
//! in front of a stream. Text is read further than other data, because a simulator may print a banner before its log.
//! Does not name what it cannot read: see [`Identity`](crate::Identity).

use std::fs::File;
use std::io::{self, Chain, Cursor, Read};
use std::ops::ControlFlow;
use std::path::Path;

use unspool_container::Container;
use unspool_stf::Record;
use unspool_stf::read::{ReadErrorKind, ReadOptions, Reader, Storage};
use unspool_tarmac as tarmac;
use unspool_tarmac::parse::ParseOptions;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A capture, or what may be one: a directory, an archive, bytes of no known format.
    Capture,
    /// An ASTF file.
    Astf,
    /// An STF file, in any of its containers.
    Stf,
    /// A Tarmac log, compressed or not.
    Tarmac,
}

/// Bytes that are examined: enough for compressed data to yield some output.
pub(crate) const HEAD: u64 = 64 << 10;

/// Bytes of text in which the first lines of a log are searched.
const BANNER: u64 = 1 << 20;

/// Lines that decide whether text is a log.
const LINES: usize = 256;

/// Lines of a log that are enough after a banner; at the end of the file, two are.
const LINES_AFTER_BANNER: usize = 16;

impl FileKind {
    /// Unit of positions in such a trace: `record`, `line` or `offset`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Astf | Self::Stf => "record",
            Self::Tarmac => "line",
            Self::Capture => "offset",
        }
    }

    /// Kind of the file at a path. Only files are read: a pipe would lose its beginning; see [`peek`](Self::peek).
    pub fn at(path: &Path) -> io::Result<Self> {
        if !path.metadata()?.is_file() {
            return Ok(Self::Capture);
        }
        Ok(Self::of(&beginning(&mut File::open(path)?)?))
    }

    /// Kind of a file that starts with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match storage(bytes) {
            _ if bytes.starts_with(b"ASTF") => Self::Astf,
            Some(Storage::PLAIN | Storage::Zstf) => Self::Stf,
            Some(_) if contains_stf(bytes) => Self::Stf,
            _ if contains_log(bytes) => Self::Tarmac,
            _ => Self::Capture,
        }
    }

    /// Name with its article, for messages.
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Capture => "a capture",
            Self::Astf => "an ASTF file",
            Self::Stf => "an STF file",
            Self::Tarmac => "a Tarmac log",
        }
    }

    /// Kind of a stream, and the stream with all of its bytes.
    pub fn peek<R: Read>(mut input: R) -> io::Result<(Self, Peeked<R>)> {
        let start = beginning(&mut input)?;
        Ok((Self::of(&start), Cursor::new(start).chain(input)))
    }
}

/// Stream whose first bytes were read and put back.
pub type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// Reads the first bytes: more of them if they are text, of which a log may be after a banner.
pub(crate) fn beginning(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    input.take(HEAD).read_to_end(&mut start)?;
    let is_cut_text = start.len() as u64 == HEAD && !start.contains(&0) && Container::of(&start).is_none();
    if is_cut_text && !contains_log(&start) {
        input.take(BANNER - HEAD).read_to_end(&mut start)?;
    }
    Ok(start)
}

/// Storage of a file that starts with these bytes. A truncated magic number must be unambiguous.
fn storage(bytes: &[u8]) -> Option<Storage> {
    Storage::of(bytes).filter(|storage| match *storage {
        Storage::PLAIN => bytes.len() >= 2,
        Storage::Zstf => bytes.len() >= 3,
        compressed => bytes.starts_with(compressed.magic()),
    })
}

/// Whether the compressed data starts like a trace. It is expected to be cut short.
fn contains_stf(bytes: &[u8]) -> bool {
    let mut reader = match Reader::new(Cursor::new(bytes.to_vec()), ReadOptions { threads: 1 }) {
        Ok(reader) => reader,
        // It is an STF file, although one that cannot be read.
        Err(error) => return matches!(error.kind, ReadErrorKind::Version { .. }),
    };
    let mut found = false;
    // The result of reading does not matter.
    let _ = reader.each(|_, record| {
        found = matches!(record, Record::Identifier([b'S', b'T', b'F']));
        ControlFlow::Break(())
    });
    found
}

/// Whether these are lines of a log, after decompression. Most lines have to be known, unless unspool wrote the log or a
/// banner comes first.
fn contains_log(bytes: &[u8]) -> bool {
    let options = tarmac::read::ReadOptions { parse: ParseOptions { implicit_thumb: true } };
    let Ok(mut reader) = tarmac::read::Reader::new(bytes, options) else { return false };
    if reader.is_lowered() {
        return true;
    }
    let mut lines = Lines::default();
    // The result of reading does not matter: only the beginning is there.
    let _ = reader.each(|_, line| {
        lines.add(&line.record);
        if lines.is_log() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    lines.is_log() || lines.most_are_known() || lines.run >= 2 && lines.has_instruction
}

/// Lines of text that may be a log.
#[derive(Default)]
struct Lines {
    count: usize,
    known: usize,
    unknown: usize,
    /// Known lines since the last unknown one, and whether they have an instruction.
    run: usize,
    has_instruction: bool,
}

impl Lines {
    fn add(&mut self, record: &tarmac::Record<'_>) {
        self.count += 1;
        match record {
            tarmac::Record::Blank | tarmac::Record::Comment(_) | tarmac::Record::Opaque(_) => {}
            tarmac::Record::Header(_) => self.known += LINES,
            tarmac::Record::Unknown(_) => {
                self.unknown += 1;
                (self.run, self.has_instruction) = (0, false);
            }
            record => {
                self.known += 1;
                self.run += 1;
                self.has_instruction |= matches!(record, tarmac::Record::Instruction(_));
            }
        }
    }

    fn most_are_known(&self) -> bool {
        self.known > 0 && self.known >= self.unknown
    }

    /// Whether the lines so far are enough.
    fn is_log(&self) -> bool {
        self.count >= LINES && self.most_are_known() || self.run >= LINES_AFTER_BANNER && self.has_instruction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_peek(bytes: &[u8], expected: FileKind) {
        let (kind, mut input) = FileKind::peek(bytes).unwrap();
        let mut all = Vec::new();
        input.read_to_end(&mut all).unwrap();
        assert_eq!(kind, expected);
        assert!(all == bytes);
    }

    #[test]
    fn kind_by_first_bytes() {
        let rows: &[(&[u8], FileKind)] = &[
            (b"ASTF", FileKind::Astf),
            (b"ASTF\0\x0b and more", FileKind::Astf),
            (b"AST", FileKind::Capture),
            (b"", FileKind::Capture),
            (b"PK\x03\x04", FileKind::Capture),
            (b"\x01STF\x02", FileKind::Stf),
            (b"\x01ST", FileKind::Stf),
            (b"\x01", FileKind::Capture),
            (b"ZST", FileKind::Stf),
            (b"ZS", FileKind::Capture),
            (b"ZSTF and so on", FileKind::Stf),
            (b"Tarmac Text Rev 3t\n", FileKind::Tarmac),
            (b"# notes\n\n1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n", FileKind::Tarmac),
            (b"# unspool covers times=cycles opcodes\n# unspool note text=and no more\n", FileKind::Tarmac),
            (b"# unspool sliced this\n", FileKind::Capture),
            (b"[snapshot]\nversion=1.0\n", FileKind::Capture),
            (b"Read me first.\nThis is a text.\n", FileKind::Capture),
            (b"\xef\xbb\xbf1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n", FileKind::Tarmac),
            (b"\x1f\x8b", FileKind::Capture),
            (b"\x1f\x8b\x08\0\0\0\0\0\0\x03 and no more", FileKind::Capture),
        ];
        for (bytes, expected) in rows {
            assert_eq!(FileKind::of(bytes), *expected);
            assert_peek(bytes, *expected);
        }
    }

    #[test]
    fn kind_of_compressed_files() {
        let packed = |bytes: &[u8]| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut packed, bytes).unwrap();
            packed.finish().unwrap()
        };
        let mut trace = b"\x01STF\x02\x01\0\0\0\x06\0\0\0".to_vec();
        // Bytes that do not compress well, so that only a part of them is examined.
        let mut number = 1_u32;
        trace.extend(
            std::iter::repeat_with(|| {
                number = number.wrapping_mul(0x9e37_79b9).wrapping_add(1) ^ number >> 15;
                number as u8
            })
            .take(1 << 20),
        );
        let rows = [
            (trace.clone(), FileKind::Stf),
            (trace[..13].to_vec(), FileKind::Stf),
            (b"notes".to_vec(), FileKind::Capture),
            (b"2 clk R X0 00000000_00000000\n".to_vec(), FileKind::Tarmac),
        ];
        for (bytes, expected) in rows {
            assert_peek(&packed(&bytes), expected);
        }
    }

    #[test]
    fn a_log_after_a_banner() {
        let banner = |lines: usize| "Fast Models [11.20] starting, terminal on port 5000, no license\n".repeat(lines);
        let line = "1 clk IT (1) 00008000 d503201f O EL1h_n : NOP\n";
        let rows = [
            (banner(2000) + &line.repeat(20), FileKind::Tarmac),
            (banner(2000) + &line.repeat(2), FileKind::Tarmac),
            (banner(10) + &line.repeat(5), FileKind::Tarmac),
            (banner(2000) + line, FileKind::Capture),
            (banner(2000), FileKind::Capture),
            // Farther down than text is searched.
            (banner(20_000) + &line.repeat(20), FileKind::Capture),
            // Registers and memory alone are too little after lines of another kind.
            (banner(2000) + &"2 clk R X0 00000000_00000000\n".repeat(20), FileKind::Capture),
        ];
        for (text, expected) in rows {
            assert_peek(text.as_bytes(), expected);
        }
    }

    #[test]
    fn kind_at_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.bin");
        std::fs::write(&file, b"ASTF\0\0").unwrap();
        assert_eq!(FileKind::at(dir.path()).unwrap(), FileKind::Capture);
        assert_eq!(FileKind::at(&file).unwrap(), FileKind::Astf);
        assert!(FileKind::at(&dir.path().join("absent")).is_err());
    }
}
