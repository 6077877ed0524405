//! Trace buffers: which files hold one, and its bytes in the order in which they were recorded.
//!
//! files ─▶ joined ─▶ rotated to the oldest byte ─▶ without probe trailers ─▶ **bytes for the frame reader**
//!
//! What comes out is preconditioned in the sense of Arm's "CoreSight trace decode metadata requirements", heading
//! "Trace preconditioning". [`Buffer::place`] goes the way back, from an offset in those bytes to a file. What the
//! bytes say is not known here.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::store::{FileReader, Store};

/// A DSTREAM probe stores blocks of this size ...
pub(crate) const BLOCK: u64 = 512;
/// ... whose first bytes are trace; the rest is a trailer of its own.
const BLOCK_TRACE: u64 = 504;

/// How a buffer holds its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BufferFormat {
    /// 16-byte frames that carry the streams of several sources (`coresight`).
    Formatted,
    /// The stream of one source and nothing else (`source_data`).
    Raw,
    /// Formatted, in the blocks of a DSTREAM probe (`dstream_coresight`).
    DstreamFormatted,
}

impl BufferFormat {
    /// The format that a word of a package means.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "coresight" => Some(Self::Formatted),
            "source_data" | "raw" | "unformatted" => Some(Self::Raw),
            "dstream_coresight" => Some(Self::DstreamFormatted),
            _ => None,
        }
    }

    /// The word of the package.
    pub fn name(self) -> &'static str {
        match self {
            Self::Formatted => "coresight",
            Self::Raw => "source_data",
            Self::DstreamFormatted => "dstream_coresight",
        }
    }

    /// Whether the bytes that a [`BufferReader`] gives are frames.
    pub fn is_formatted(self) -> bool {
        self != Self::Raw
    }
}

impl fmt::Display for BufferFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One trace buffer of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// The name by which the package speaks of it.
    pub name: String,
    /// The files that hold it, to be joined in this order.
    pub files: Vec<BufferFile>,
    /// How the trace is stored.
    pub format: BufferFormat,
    /// Where the next byte would have been written, as an offset in the joined files.
    pub write_pointer: Option<u64>,
    /// Whether writing went on at the start after reaching the end; `None` where the package does not say.
    pub wrapped: Option<bool>,
    /// Who made the component, if the package says.
    pub vendor: Option<String>,
    /// The component that held the trace (`ETB`), if the package says.
    pub component: Option<String>,
}

/// One file of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferFile {
    /// The name inside of the package.
    pub name: String,
    /// The size in bytes, `None` if the file is missing.
    pub size: Option<u64>,
}

/// A byte in a file of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, as an index into [`Buffer::files`].
    pub file: usize,
    /// The offset in that file. For a member of a zip archive: in the unpacked member.
    pub offset: u64,
}

impl Buffer {
    /// How many bytes of trace a [`BufferReader`] gives.
    pub fn len(&self) -> u64 {
        let stored = self.spans().iter().map(|span| span.end - span.start).fold(0, u64::saturating_add);
        match self.format {
            BufferFormat::DstreamFormatted => stored / BLOCK * BLOCK_TRACE + (stored % BLOCK).min(BLOCK_TRACE),
            _ => stored,
        }
    }

    /// Whether there is no trace in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every file is there.
    pub fn is_complete(&self) -> bool {
        self.files.iter().all(|file| file.size.is_some())
    }

    /// Which byte of which file the reader gives at `offset`; `None` at and after the end.
    pub fn place(&self, offset: u64) -> Option<Place> {
        let mut left = match self.format {
            _ if offset >= self.len() => return None,
            BufferFormat::DstreamFormatted => offset / BLOCK_TRACE * BLOCK + offset % BLOCK_TRACE,
            _ => offset,
        };
        for piece in self.pieces() {
            if left < piece.length {
                return Some(Place { file: piece.file, offset: piece.start + left });
            }
            left -= piece.length;
        }
        None
    }

    /// The size of the joined files.
    pub(crate) fn stored_size(&self) -> u64 {
        self.files.iter().filter_map(|file| file.size).fold(0, u64::saturating_add)
    }

    /// The stretches of the joined files, oldest first.
    fn spans(&self) -> [Range<u64>; 2] {
        let size = self.stored_size();
        let pointer = self.write_pointer.map(|at| at.min(size));
        match (pointer, self.wrapped) {
            // What lies behind the pointer was never written.
            (Some(at), Some(false)) => [0..at, at..at],
            (Some(at), _) => [at..size, 0..at],
            (None, _) => [0..size, size..size],
        }
    }

    /// The spans, cut where one file ends and the next begins.
    fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.spans().into_iter().flat_map(|span| {
            let mut end = 0_u64;
            self.files.iter().enumerate().filter_map(move |(file, found)| {
                let start = end;
                end = start.saturating_add(found.size.unwrap_or(0));
                let (from, to) = (span.start.max(start), span.end.min(end));
                (from < to).then(|| Piece { file, start: from - start, length: to - from })
            })
        })
    }
}

/// A stretch of one file.
#[derive(Debug, Clone, Copy)]
struct Piece {
    file: usize,
    start: u64,
    length: u64,
}

/// The bytes of a buffer, oldest first, in constant memory.
#[derive(Debug)]
pub struct BufferReader {
    store: Arc<Store>,
    names: Vec<String>,
    pieces: std::vec::IntoIter<Piece>,
    current: Option<Current>,
    /// How far we are in the block of a probe; `None` where there are no blocks.
    block: Option<u64>,
    length: u64,
}

/// The file that is being read.
#[derive(Debug)]
struct Current {
    file: BufReader<FileReader>,
    left: u64,
}

impl BufferReader {
    pub(crate) fn new(store: Arc<Store>, buffer: &Buffer) -> Result<Self, Error> {
        if let Some(missing) = buffer.files.first().filter(|_| buffer.files.iter().all(|file| file.size.is_none())) {
            return Err(Error::MissingFile { name: missing.name.clone() });
        }
        let mut reader = Self {
            store,
            names: buffer.files.iter().map(|file| file.name.clone()).collect(),
            pieces: buffer.pieces().collect::<Vec<Piece>>().into_iter(),
            current: None,
            block: (buffer.format == BufferFormat::DstreamFormatted).then_some(0),
            length: buffer.len(),
        };
        reader.current = reader.next_file()?;
        Ok(reader)
    }

    /// How many bytes there are in all.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn next_file(&mut self) -> Result<Option<Current>, Error> {
        const CAPACITY: usize = 64 << 10;
        let Some(piece) = self.pieces.next() else { return Ok(None) };
        let name = self.names.get(piece.file).map_or("", String::as_str);
        let mut file = self.store.open(name)?;
        file.start_at(piece.start).map_err(Error::io(name))?;
        Ok(Some(Current { file: BufReader::with_capacity(CAPACITY, file), left: piece.length }))
    }

    /// Reads stored bytes, trailers included, across the ends of files.
    fn read_stored(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(current) = &mut self.current {
            if current.left > 0 {
                return current.read(buffer);
            }
            self.current = self.next_file().map_err(io::Error::other)?;
        }
        Ok(0)
    }

    fn read_block(&mut self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let trailer = &mut [0; (BLOCK - BLOCK_TRACE) as usize];
        let mut position = position;
        while position >= BLOCK_TRACE {
            let rest = usize::try_from(BLOCK - position).map_or(trailer.len(), |rest| rest.min(trailer.len()));
            let read = self.read_stored(&mut trailer[..rest])?;
            if read == 0 {
                return Ok(0);
            }
            position = (position + read as u64) % BLOCK;
            self.block = Some(position);
        }
        let room = usize::try_from(BLOCK_TRACE - position).map_or(buffer.len(), |room| room.min(buffer.len()));
        let read = self.read_stored(&mut buffer[..room])?;
        self.block = Some(position + read as u64);
        Ok(read)
    }
}

impl Read for BufferReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.block {
            _ if buffer.is_empty() => Ok(0),
            Some(position) => self.read_block(buffer, position),
            None => self.read_stored(buffer),
        }
    }
}

impl Current {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = self.file.read(&mut buffer[..room])?;
        if read == 0 {
            let text = format!("the file ends {} bytes before it should", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        self.left -= read as u64;
        Ok(read)
    }
}
