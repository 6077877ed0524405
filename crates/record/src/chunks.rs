//! The chunks of the plugin's stream, from wherever it was kept, or from a plugin that runs.
//!
//! bytes ─▶ **chunks**, each of one thread
//!
//! `crates/plugin/src/stream.rs` says what the bytes are. What does not fit is damage, and ends the stream.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use tempfile::NamedTempFile;

use super::stream::damage;

/// How a stream starts.
const MAGIC: &[u8] = b"unspool record 2\n";

/// No more is kept of its first line.
const MOST_HEAD: usize = 256;

/// No chunk has more bytes.
const MOST: u32 = 1 << 28;

/// What is set in the length of a chunk that is in a buffer.
const IN_BUFFER: u32 = 1 << 31;

/// The bytes of a buffer.
const BUFFER: usize = 8 << 15;

/// So many chunks may be ahead of who reads them, so that the emulator need not wait.
const BUFFERS: usize = 32;

/// Where files are memory.
const IN_MEMORY: &str = "/dev/shm";

/// Where chunks come from.
pub(super) trait Chunks {
    /// Reads the next one into `bytes`: whose it is; `None`: there are no more.
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>>;
}

/// Chunks that were kept.
pub(super) struct Kept<R> {
    input: R,
    has_started: bool,
}

impl<R: Read> Kept<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, has_started: false }
    }
}

impl<R: Read> Chunks for Kept<R> {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        if !std::mem::replace(&mut self.has_started, true) {
            read_head(&mut self.input)?;
        }
        let Some((thread, length)) = read_start(&mut self.input)? else { return Ok(None) };
        read_bytes(&mut self.input, length, bytes)?;
        Ok(Some(thread))
    }
}

/// Chunks of a plugin that runs, behind the [head](read_head) of its stream.
pub(super) struct Live {
    input: UnixStream,
    /// What it was lent.
    memory: Option<File>,
}

impl Live {
    pub(super) fn new(input: UnixStream, memory: Option<Memory>) -> Self {
        Self { input, memory: memory.map(Memory::keep) }
    }
}

impl Chunks for Live {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        let start = match read_start(&mut self.input) {
            // It has ended, and left numbers of buffers unread.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            start => start?,
        };
        let Some((thread, length)) = start else { return Ok(None) };
        match &self.memory {
            Some(memory) if length & IN_BUFFER != 0 => {
                let mut number = [0; 4];
                self.input.read_exact(&mut number)?;
                read_buffer(memory, number, length & !IN_BUFFER, bytes)?;
                // It may have ended since.
                let _ = self.input.write_all(&number);
            }
            _ => read_bytes(&mut self.input, length, bytes)?,
        }
        Ok(Some(thread))
    }
}

/// Memory that a plugin may put chunks into: a file, until it is kept.
pub(super) struct Memory(NamedTempFile);

impl Memory {
    /// `None`: there is none to be had, and chunks come by the socket.
    pub(super) fn new() -> Option<Self> {
        let mut file = NamedTempFile::with_prefix_in("unspool", IN_MEMORY).ok()?;
        // All of it is taken now: who writes to memory cannot be told that there is no more.
        let zeros = vec![0; BUFFER];
        (0..BUFFERS).try_for_each(|_| file.write_all(&zeros)).ok()?;
        Some(Self(file))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The plugin has it: nobody else needs its name.
    fn keep(self) -> File {
        self.0.into_file()
    }
}

/// Reads what is in a buffer.
fn read_buffer(memory: &File, number: [u8; 4], length: u32, bytes: &mut Vec<u8>) -> io::Result<()> {
    let (number, length) = (u64::from(u32::from_le_bytes(number)), length as usize);
    if length > BUFFER || number >= BUFFERS as u64 {
        return Err(damage("there is no such buffer"));
    }
    bytes.resize(length, 0);
    memory.read_exact_at(bytes, number * BUFFER as u64)
}

/// Reads what comes before the first chunk: the target, and what else is told of it.
pub(super) fn read_head(input: &mut impl Read) -> io::Result<String> {
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(damage("this is no stream of our plugin"));
    }
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        input.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        if line.len() < MOST_HEAD {
            line.extend(byte);
        }
    }
}

/// Reads how a chunk starts: whose it is, and how long; `None`: there are no more.
fn read_start(input: &mut impl Read) -> io::Result<Option<(u32, u32)>> {
    let mut head = [0; 8];
    let first = loop {
        match input.read(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    if let Some(rest) = head.get_mut(first..) {
        input.read_exact(rest)?;
    }
    let [a, b, c, d, e, f, g, h] = head;
    Ok(Some((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))))
}

/// Reads the bytes of a chunk. It takes no more memory than there are bytes.
fn read_bytes(input: &mut impl Read, length: u32, bytes: &mut Vec<u8>) -> io::Result<()> {
    if length > MOST {
        return Err(damage("a chunk is too long"));
    }
    bytes.clear();
    if input.take(u64::from(length)).read_to_end(bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}
