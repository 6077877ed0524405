//! Trace buffers: their files, and their bytes in the order in which they were recorded.
//!
//! files ─▶ joined ─▶ rotated to the oldest byte ─▶ without probe trailers ─▶ **bytes for the frame reader**
//!
//! The output is preconditioned as defined by Arm's "CoreSight trace decode metadata requirements", heading "Trace
//! preconditioning". [`Buffer::file_offset`] maps an offset in it back to a file. The bytes are not interpreted here.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::store::{FileReader, Store};

/// Size of the blocks that a DSTREAM probe stores.
pub(crate) const BLOCK: u64 = 512;
/// Number of trace bytes at the start of a block; the rest is the trailer of the probe.
const BLOCK_TRACE: u64 = 504;

/// Storage format of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BufferFormat {
    /// 16-byte frames that carry the streams of several sources (`coresight`).
    Formatted,
    /// The stream of a single source (`source_data`).
    Raw,
    /// Formatted, in the blocks of a DSTREAM probe (`dstream_coresight`).
    DstreamFormatted,
}

impl BufferFormat {
    /// Parses the name of a format in a package.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "coresight" => Some(Self::Formatted),
            "source_data" | "raw" | "unformatted" => Some(Self::Raw),
            "dstream_coresight" => Some(Self::DstreamFormatted),
            _ => None,
        }
    }

    /// The name of the format in a package.
    pub fn name(self) -> &'static str {
        match self {
            Self::Formatted => "coresight",
            Self::Raw => "source_data",
            Self::DstreamFormatted => "dstream_coresight",
        }
    }

    /// Whether the bytes of a [`BufferReader`] are frames.
    pub fn is_formatted(self) -> bool {
        self != Self::Raw
    }
}

impl fmt::Display for BufferFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A trace buffer of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// Its name in the package.
    pub name: String,
    /// Its files, to be joined in this order.
    pub files: Vec<BufferFile>,
    /// Its storage format.
    pub format: BufferFormat,
    /// Offset in the joined files at which the next byte would have been written.
    pub write_pointer: Option<u64>,
    /// Whether writing wrapped to the start after reaching the end; `None` if not given.
    pub wrapped: Option<bool>,
    /// The vendor of the component, if given.
    pub vendor: Option<String>,
    /// The component that captured the trace (`ETB`), if given.
    pub component: Option<String>,
    /// When it was recorded, on the clock of the system events, and of whom; `None` if not known.
    pub recorded: Option<Recorded>,
}

/// The session of a recording that a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Recorded {
    /// The time of the session before it on the same processor or thread, after which it was recorded.
    pub after: Option<u64>,
    /// The time at which it had been recorded.
    pub until: Option<u64>,
    /// The thread, if only one was traced.
    pub thread: Option<u32>,
}

/// One file of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferFile {
    /// The name inside the package.
    pub name: String,
    /// Offset of the buffer's first byte in the file.
    pub offset: u64,
    /// Number of the buffer's bytes in the file, `None` if the file is missing.
    pub size: Option<u64>,
}

/// Position of a byte in the files of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileOffset {
    /// The file, as an index into [`Buffer::files`].
    pub file: usize,
    /// The offset in that file, or in the uncompressed member of a zip archive.
    pub offset: u64,
}

impl Buffer {
    /// Number of trace bytes, without probe trailers.
    pub fn len(&self) -> u64 {
        let stored = self.spans().iter().map(|span| span.end - span.start).fold(0, u64::saturating_add);
        match self.format {
            BufferFormat::DstreamFormatted => stored / BLOCK * BLOCK_TRACE + (stored % BLOCK).min(BLOCK_TRACE),
            _ => stored,
        }
    }

    /// Whether the buffer contains no trace.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every file exists.
    pub fn is_complete(&self) -> bool {
        self.files.iter().all(|file| file.size.is_some())
    }

    /// File and offset of the trace byte at `offset`; `None` at and after the end.
    pub fn file_offset(&self, offset: u64) -> Option<FileOffset> {
        let mut left = match self.format {
            _ if offset >= self.len() => return None,
            BufferFormat::DstreamFormatted => offset / BLOCK_TRACE * BLOCK + offset % BLOCK_TRACE,
            _ => offset,
        };
        for range in self.file_ranges() {
            if left < range.length {
                return Some(FileOffset { file: range.file, offset: range.start + left });
            }
            left -= range.length;
        }
        None
    }

    /// The size of the joined files.
    pub(crate) fn stored_size(&self) -> u64 {
        self.files.iter().filter_map(|file| file.size).fold(0, u64::saturating_add)
    }

    /// The recorded ranges of the joined files, oldest first.
    fn spans(&self) -> [Range<u64>; 2] {
        let size = self.stored_size();
        let pointer = self.write_pointer.map(|at| at.min(size));
        match (pointer, self.wrapped) {
            // The bytes from the pointer on were never written.
            (Some(at), Some(false)) => [0..at, at..at],
            (Some(at), _) => [at..size, 0..at],
            (None, _) => [0..size, size..size],
        }
    }

    /// The spans, split at file boundaries.
    fn file_ranges(&self) -> impl Iterator<Item = FileRange> {
        self.spans().into_iter().flat_map(|span| {
            let mut end = 0_u64;
            self.files.iter().enumerate().filter_map(move |(file, found)| {
                let start = end;
                end = start.saturating_add(found.size.unwrap_or(0));
                let (from, to) = (span.start.max(start), span.end.min(end));
                let skipped = found.offset.saturating_add(from - start);
                (from < to).then(|| FileRange { file, start: skipped, length: to - from })
            })
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct FileRange {
    file: usize,
    start: u64,
    length: u64,
}

/// File ranges without their first bytes.
fn after(ranges: impl Iterator<Item = FileRange>, mut skip: u64) -> Vec<FileRange> {
    let rest = ranges.map(|range| {
        let skipped = skip.min(range.length);
        skip -= skipped;
        FileRange { start: range.start.saturating_add(skipped), length: range.length - skipped, ..range }
    });
    rest.filter(|range| range.length > 0).collect()
}

/// Reader of the trace bytes of a buffer, oldest first. Uses constant memory.
#[derive(Debug)]
pub struct BufferReader {
    store: Arc<Store>,
    names: Vec<String>,
    file_ranges: std::vec::IntoIter<FileRange>,
    current: Option<Current>,
    /// Position in the block of a probe; `None` if there are no blocks.
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
    /// A reader of the trace from byte `start` on.
    pub(crate) fn new(store: Arc<Store>, buffer: &Buffer, start: u64) -> Result<Self, Error> {
        if let Some(missing) = buffer.files.first().filter(|_| buffer.files.iter().all(|file| file.size.is_none())) {
            return Err(Error::MissingFile { name: missing.name.clone() });
        }
        let has_blocks = buffer.format == BufferFormat::DstreamFormatted;
        let stored = if has_blocks { start / BLOCK_TRACE * BLOCK + start % BLOCK_TRACE } else { start };
        let mut reader = Self {
            store,
            names: buffer.files.iter().map(|file| file.name.clone()).collect(),
            file_ranges: after(buffer.file_ranges(), stored).into_iter(),
            current: None,
            block: has_blocks.then_some(start % BLOCK_TRACE),
            length: buffer.len(),
        };
        reader.current = reader.next_file()?;
        Ok(reader)
    }

    /// Total number of bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn next_file(&mut self) -> Result<Option<Current>, Error> {
        const CAPACITY: usize = 64 << 10;
        let Some(range) = self.file_ranges.next() else { return Ok(None) };
        let name = self.names.get(range.file).map_or("", String::as_str);
        let mut file = self.store.open(name)?;
        file.start_at(range.start).map_err(Error::io(name))?;
        Ok(Some(Current { file: BufReader::with_capacity(CAPACITY, file), left: range.length }))
    }

    /// Reads stored bytes, including trailers, across file boundaries.
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
            let text = format!("the file is {} bytes shorter than when it was opened", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        self.left -= read as u64;
        Ok(read)
    }
}
