//! The chunks of a stream, from a file or from a running plugin.
//!
//! bytes, shared memory ─▶ **chunks**, each of one thread
//!
//! Bytes that the format does not define are damage, and end the stream. An emulator that was killed has sent neither its last
//! records nor the ends of its threads: those records are read from shared memory, and are followed by `Stopped`.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use tempfile::NamedTempFile;
use unspool_wire::{
    BUFFER_BYTES, BufferState, CODE, ChunkHead, Header, MAX_BUFFERS, Record, Word, complete_records, damage, words_of,
};

/// Maximum number of bytes of a chunk.
const MAX_LENGTH: u32 = 1 << 28;

/// Buffers in shared memory at the start: the number of chunks that the emulator may be ahead of the recorder.
const BUFFERS: usize = 32;

/// A folder whose files are in memory. Without it, the file is in a folder for temporary files.
const IN_MEMORY: &str = "/dev/shm";

pub(crate) trait Chunks {
    /// Reads the next chunk into `bytes` and returns its thread; `None`: there are no more.
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>>;

    /// Reads the next chunk that was not sent, after the emulator has ended; `None`: there are no more.
    fn next_after_end(&mut self, _bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        Ok(None)
    }
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
    /// After the end of the stream, the next buffer that may have records which were not sent.
    unsent: Option<u64>,
    /// Threads whose records are not in shared memory and that have not ended.
    unshared: HashSet<u32>,
    /// The number of threads whose records were dropped by the plugin.
    dropped: usize,
    zeros: Vec<u8>,
}

impl LiveChunks {
    pub(crate) fn new(input: UnixStream, memory: Option<SharedMemory>) -> Self {
        Self {
            input,
            memory: memory.map(SharedMemory::into_file),
            unsent: None,
            unshared: HashSet::new(),
            dropped: 0,
            zeros: vec![0; BUFFER_BYTES],
        }
    }

    /// The number of threads whose last records are lost, after the end of the stream.
    pub(crate) fn lost_threads(&self) -> usize {
        self.unshared.len() + self.dropped
    }

    /// The next chunk that the plugin sent. `None`: the emulator has ended, maybe while it was sending.
    fn next_sent(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        let Some(head) = ChunkHead::read(&mut self.input)? else { return Ok(None) };
        match &self.memory {
            Some(memory) if head.is_shared => {
                let mut number = [0; 4];
                self.input.read_exact(&mut number)?;
                read_buffer(memory, number, head.length, bytes)?;
                self.free(number, head.length)?;
            }
            _ => {
                read_bytes(&mut self.input, head, bytes)?;
                self.note_unshared(head.thread, bytes);
            }
        }
        Ok(Some(head.thread))
    }

    /// Returns a buffer to the plugin, filled with zeros: the end of its records is the first word without any.
    fn free(&mut self, number: [u8; 4], length: u32) -> io::Result<()> {
        let used = size_of::<Word>() + length as usize;
        if let (Some(memory), Some(zeros)) = (&self.memory, self.zeros.get(..used)) {
            memory.write_all_at(zeros, offset_of(u32::from_le_bytes(number).into()))?;
        }
        // The emulator may have ended since.
        let _ = self.input.write_all(&number);
        Ok(())
    }

    fn note_unshared(&mut self, thread: u32, bytes: &[u8]) {
        let is_end =
            || bytes.last_chunk().is_some_and(|word| Record::decode(&mut &[*word][..]) == Some(Record::ThreadEnd {}));
        if thread != CODE && is_end() {
            self.unshared.remove(&thread);
        } else if thread != CODE {
            self.unshared.insert(thread);
        }
    }

    /// The next chunk that was not sent: complete records, and the state of their thread.
    fn next_unsent(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let count = (memory.metadata()?.len() / BUFFER_BYTES as u64).min(MAX_BUFFERS as u64);
        while let Some(number) = self.unsent.filter(|number| *number < count) {
            self.unsent = Some(number + 1);
            bytes.resize(BUFFER_BYTES, 0);
            memory.read_exact_at(bytes, offset_of(number))?;
            match state_of(bytes) {
                Some(BufferState { thread: BufferState::LOST, .. }) => self.dropped += 1,
                Some(BufferState { thread, mark, last_mark }) => {
                    keep_complete_records(bytes)?;
                    let mut push = |word: u64| bytes.extend_from_slice(&word.to_le_bytes());
                    Record::Stopped { mark, last_mark }.encode(&mut push);
                    return Ok(Some(thread));
                }
                None => {}
            }
        }
        Ok(None)
    }
}

fn state_of(buffer: &[u8]) -> Option<BufferState> {
    BufferState::from_word(*buffer.first_chunk()?)
}

/// Reduces the bytes of a buffer to its complete records.
fn keep_complete_records(bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.drain(..size_of::<Word>());
    let length = size_of_val(complete_records(words_of(bytes)?));
    bytes.truncate(length);
    Ok(())
}

impl Chunks for LiveChunks {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        if self.unsent.is_none() {
            match self.next_sent(bytes) {
                Ok(Some(thread)) => return Ok(Some(thread)),
                Ok(None) => {}
                // The emulator has ended without reading the numbers of free buffers, or while it was sending a chunk: that
                // of code was not executed, and that of records is in its buffer.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn next_after_end(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        self.unsent.get_or_insert(0);
        self.next_unsent(bytes)
    }
}

/// Memory that a plugin may put chunks into: a file with a name, until the plugin has opened it.
pub(crate) struct SharedMemory(NamedTempFile);

impl SharedMemory {
    /// `None`: it is not available, and chunks are sent through the socket.
    pub(crate) fn new() -> Option<Self> {
        Self::allocate(NamedTempFile::with_prefix_in("unspool", IN_MEMORY))
            .or_else(|| Self::allocate(NamedTempFile::with_prefix("unspool")))
    }

    fn allocate(file: io::Result<NamedTempFile>) -> Option<Self> {
        let mut file = file.ok()?;
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
    if length + size_of::<Word>() > BUFFER_BYTES || number >= MAX_BUFFERS as u64 {
        return Err(damage("a chunk refers to a buffer that does not exist"));
    }
    bytes.resize(length, 0);
    memory.read_exact_at(bytes, offset_of(number) + size_of::<Word>() as u64)
}

/// The offset of a buffer in shared memory.
fn offset_of(number: u64) -> u64 {
    number * BUFFER_BYTES as u64
}

/// Reads the bytes of a chunk. Allocates no more than the input has.
fn read_bytes(input: &mut impl Read, head: ChunkHead, bytes: &mut Vec<u8>) -> io::Result<()> {
    if head.is_shared || head.length > MAX_LENGTH {
        return Err(damage("a chunk is too long"));
    }
    bytes.clear();
    if input.take(u64::from(head.length)).read_to_end(bytes)? < head.length as usize {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use unspool_wire::{BUFFER_WORDS, RecordBuffer};

    use super::*;

    const STATE: BufferState = BufferState { thread: 3, mark: 0, last_mark: 0 };

    /// The words of a buffer of thread 3: one block, of which instructions before 2 are complete.
    fn buffer() -> Vec<Word> {
        let mut words = vec![Word::default(); BUFFER_WORDS];
        let mut buffer = RecordBuffer::new(&mut words, STATE);
        buffer.push(Record::ThreadStart {});
        buffer.reset_marks(7);
        buffer.block(5);
        buffer.set_mark(2);
        words
    }

    fn records(bytes: &[u8]) -> Vec<Record> {
        let mut words = words_of(bytes).unwrap();
        std::iter::from_fn(|| Record::decode(&mut words)).collect()
    }

    fn live() -> (LiveChunks, UnixStream) {
        let (input, plugin) = UnixStream::pair().unwrap();
        (LiveChunks::new(input, SharedMemory::new()), plugin)
    }

    #[test]
    fn records_that_a_killed_emulator_did_not_send_are_read_from_shared_memory() {
        let (mut chunks, plugin) = live();
        chunks.memory.as_ref().unwrap().write_all_at(buffer().as_flattened(), offset_of(31)).unwrap();
        // The head of a chunk is incomplete.
        (&plugin).write_all(&[0; 5]).unwrap();
        drop(plugin);
        let mut bytes = Vec::new();
        assert_eq!(chunks.next(&mut bytes).unwrap(), None);
        assert_eq!(chunks.next_after_end(&mut bytes).unwrap(), Some(3));
        let expected = [Record::ThreadStart {}, Record::Block { id: 5 }, Record::Stopped { mark: 2, last_mark: 7 }];
        assert_eq!(records(&bytes), expected);
        assert_eq!(chunks.next_after_end(&mut bytes).unwrap(), None);
        assert_eq!(chunks.lost_threads(), 0);
    }

    #[test]
    fn a_buffer_that_was_sent_is_not_read_again() {
        let (mut chunks, mut plugin) = live();
        chunks.memory.as_ref().unwrap().write_all_at(buffer().as_flattened(), offset_of(1)).unwrap();
        plugin.write_all(&ChunkHead::to_shared_bytes(3, 16, 1)).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(chunks.next(&mut bytes).unwrap(), Some(3));
        assert_eq!(records(&bytes), [Record::ThreadStart {}, Record::Block { id: 5 }]);
        let mut number = [0; 4];
        plugin.read_exact(&mut number).unwrap();
        assert_eq!(number, [1, 0, 0, 0]);
        drop(plugin);
        assert_eq!(chunks.next(&mut bytes).unwrap(), None);
        assert_eq!(chunks.next_after_end(&mut bytes).unwrap(), None);
    }

    #[test]
    fn threads_whose_records_are_lost_are_counted() {
        let (mut chunks, mut plugin) = live();
        let mut words = buffer();
        RecordBuffer::new(&mut words, STATE).lose();
        chunks.memory.as_ref().unwrap().write_all_at(words.as_flattened(), 0).unwrap();
        // Threads 8 and 9 use no shared memory, and 9 ends.
        for (thread, record) in [(8, Record::ThreadStart {}), (9, Record::ThreadStart {}), (9, Record::ThreadEnd {})] {
            plugin.write_all(&ChunkHead::to_bytes(thread, 8)).unwrap();
            record.encode(&mut |word| plugin.write_all(&word.to_le_bytes()).unwrap());
        }
        drop(plugin);
        let mut bytes = Vec::new();
        while chunks.next(&mut bytes).unwrap().is_some() {}
        assert_eq!(chunks.next_after_end(&mut bytes).unwrap(), None);
        assert_eq!(chunks.lost_threads(), 2);
    }
}
