//! Bytes of a log out of what it is stored in: gzip, xz and zstd, recognised by the first bytes.
//!
//! Members may follow each other, as `cat` of two files makes them.

use std::fmt;
use std::io::{self, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use zstd::stream::read::Decoder as ZstdDecoder;

use super::error::ReadErrorKind;

/// No more memory than this is spent on what compressed data refers back to.
const MEMORY_LIMIT: u64 = 512 << 20;

/// The same for zstd, which wants a logarithm.
const WINDOW_LIMIT: u32 = 29;

/// As many bytes as containers are recognised by.
const PEEK: u64 = 6;

/// How much of a packed file is read at a time.
const BUFFER: usize = 128 << 10;

/// What a log is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// Text as it is.
    Plain,
    /// gzip, RFC 1952.
    Gz,
    /// .xz.
    Xz,
    /// Zstandard, RFC 8878.
    Zst,
}

impl Container {
    /// What starts with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Self::Gz,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            // A frame, or one that decompressors skip.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zst,
            _ => Self::Plain,
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gz => "gzip",
            Self::Xz => "xz",
            Self::Zst => "zstd",
        })
    }
}

/// The bytes of a log.
pub(super) enum Unpack<R> {
    Plain(Source<R>),
    Gz(Box<MultiGzDecoder<BufReader<Source<R>>>>),
    Xz(Box<XzDecoder<BufReader<Source<R>>>>),
    Zst(Box<ZstdDecoder<'static, BufReader<Source<R>>>>),
}

impl<R: Read> Unpack<R> {
    pub(super) fn new(mut input: R) -> Result<Self, ReadErrorKind> {
        let mut first = Vec::new();
        if let Err(error) = input.by_ref().take(PEEK).read_to_end(&mut first)
            && first.is_empty()
        {
            return Err(error.into());
        }
        let container = Container::of(&first);
        let source = Source { input: Cursor::new(first).chain(input), taken: 0, failed: None };
        Self::of(container, source).map_err(ReadErrorKind::Io)
    }

    fn of(container: Container, source: Source<R>) -> io::Result<Self> {
        let buffered = |source| BufReader::with_capacity(BUFFER, source);
        Ok(match container {
            Container::Plain => Self::Plain(source),
            Container::Gz => Self::Gz(Box::new(MultiGzDecoder::new(buffered(source)))),
            Container::Xz => {
                let stream = Stream::new_stream_decoder(MEMORY_LIMIT, CONCATENATED)?;
                Self::Xz(Box::new(XzDecoder::new_stream(buffered(source), stream)))
            }
            Container::Zst => {
                let mut decoder = ZstdDecoder::with_buffer(buffered(source))?;
                decoder.window_log_max(WINDOW_LIMIT)?;
                Self::Zst(Box::new(decoder))
            }
        })
    }

    pub(super) fn container(&self) -> Container {
        match self {
            Self::Plain(_) => Container::Plain,
            Self::Gz(_) => Container::Gz,
            Self::Xz(_) => Container::Xz,
            Self::Zst(_) => Container::Zst,
        }
    }

    /// Some more bytes; none at the end.
    pub(super) fn read(&mut self, output: &mut [u8]) -> Result<usize, ReadErrorKind> {
        loop {
            let result = match self {
                Self::Plain(source) => source.read(output),
                Self::Gz(decoder) => decoder.read(output),
                Self::Xz(decoder) => decoder.read(output),
                Self::Zst(decoder) => decoder.read(output),
            };
            match result {
                // A reader that claims more than there is room for is not believed.
                Ok(bytes) => return Ok(bytes.min(output.len())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.judge(&error)),
            }
        }
    }

    /// The file could not be read, or what was read cannot be unpacked.
    fn judge(&mut self, error: &io::Error) -> ReadErrorKind {
        let source = match self {
            Self::Plain(source) => source,
            Self::Gz(decoder) => decoder.get_mut().get_mut(),
            Self::Xz(decoder) => decoder.get_mut().get_mut(),
            Self::Zst(decoder) => decoder.get_mut().get_mut(),
        };
        match source.failed.take() {
            Some(error) => ReadErrorKind::Io(error),
            None if error.kind() == io::ErrorKind::UnexpectedEof => ReadErrorKind::CutShort,
            None => ReadErrorKind::Damaged { at: source.taken, what: error.to_string() },
        }
    }
}

/// The file, of which the first bytes were looked at.
pub(super) struct Source<R> {
    input: io::Chain<Cursor<Vec<u8>>, R>,
    taken: u64,
    /// Why the file could not be read, which decompressors would tell as a fault of theirs.
    failed: Option<io::Error>,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        match self.input.read(output) {
            Ok(bytes) => {
                self.taken += bytes as u64;
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(error);
                Err(kind.into())
            }
        }
    }
}
