//! The chunks of a stream, from a file or from a running plugin.
//!
//! bytes, shared memory ─▶ **chunks**, each of one thread
//!
//! Bytes that the format does not define are damage, and end the stream.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use tempfile::NamedTempFile;
use unspool_wire::{BUFFER_BYTES, ChunkHead, Header, damage};

/// Maximum number of bytes of a chunk.
const MAX_LENGTH: u32 = 1 << 28;

/// Buffers in shared memory: the number of chunks that the emulator may be ahead of the recorder.
const BUFFERS: usize = 32;

/// A folder whose files are in memory.
const IN_MEMORY: &str = "/dev/shm";

pub(crate) trait Chunks {
    /// Reads the next chunk into `bytes` and returns its thread; `None`: there are no more.
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>>;
}

/// Chunks of a saved stream, header included.
pub(crate) struct KeptChunks<R> {
    input: R,
    has_started: bool,
}

impl<R: Read> KeptChunks<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, has_started: false }
    }
}

impl<R: Read> Chunks for KeptChunks<R> {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        if !std::mem::replace(&mut self.has_started, true) {
            Header::read(&mut self.input)?;
        }
        let Some(head) = ChunkHead::read(&mut self.input)? else { return Ok(None) };
        read_bytes(&mut self.input, head, bytes)?;
        Ok(Some(head.thread))
    }
}

/// Chunks of a running plugin, after the header of its stream.
pub(crate) struct LiveChunks {
    input: UnixStream,
    memory: Option<File>,
}

impl LiveChunks {
    pub(crate) fn new(input: UnixStream, memory: Option<SharedMemory>) -> Self {
        Self { input, memory: memory.map(SharedMemory::into_file) }
    }
}

impl Chunks for LiveChunks {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        let head = match ChunkHead::read(&mut self.input) {
            // The emulator has ended without reading the numbers of free buffers.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            head => head?,
        };
        let Some(head) = head else { return Ok(None) };
        match &self.memory {
            Some(memory) if head.is_shared => {
                let mut number = [0; 4];
                self.input.read_exact(&mut number)?;
                read_buffer(memory, number, head.length, bytes)?;
                // The emulator may have ended since.
                let _ = self.input.write_all(&number);
            }
            _ => read_bytes(&mut self.input, head, bytes)?,
        }
        Ok(Some(head.thread))
    }
}

/// Memory that a plugin may put chunks into: a file with a name, until the plugin has opened it.
pub(crate) struct SharedMemory(NamedTempFile);

impl SharedMemory {
    /// `None`: it is not available, and chunks are sent through the socket.
    pub(crate) fn new() -> Option<Self> {
        let mut file = NamedTempFile::with_prefix_in("unspool", IN_MEMORY).ok()?;
        // All of it is allocated now: a write to memory cannot report that there is no more.
        let zeros = vec![0; BUFFER_BYTES];
        (0..BUFFERS).try_for_each(|_| file.write_all(&zeros)).ok()?;
        Some(Self(file))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn into_file(self) -> File {
        self.0.into_file()
    }
}

fn read_buffer(memory: &File, number: [u8; 4], length: u32, bytes: &mut Vec<u8>) -> io::Result<()> {
    let (number, length) = (u64::from(u32::from_le_bytes(number)), length as usize);
    if length > BUFFER_BYTES || number >= BUFFERS as u64 {
        return Err(damage("a chunk refers to a buffer that does not exist"));
    }
    bytes.resize(length, 0);
    memory.read_exact_at(bytes, number * BUFFER_BYTES as u64)
}

/// Reads the bytes of a chunk. Allocates no more than the input has.
fn read_bytes(input: &mut impl Read, head: ChunkHead, bytes: &mut Vec<u8>) -> io::Result<()> {
    if head.is_shared || head.length > MAX_LENGTH {
        return Err(damage("a chunk is too long"));
    }
    bytes.clear();
    if input.take(u64::from(head.length)).read_to_end(bytes)? < head.length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}
