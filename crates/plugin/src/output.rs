//! The output of all threads: chunks of records and code, through shared memory, a socket or a file.
//!
//! records of threads ─▶ **chunks** ─▶ recorder

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use unspool_wire::{BUFFER_WORDS, BufferState, CODE, ChunkHead, Code, Header, RecordBuffer, Word};

/// Records of one thread that were not sent, and the number of their buffer if it is in shared memory.
pub(crate) struct Records {
    pub(crate) buffer: RecordBuffer<'static>,
    shared: Option<u32>,
}

impl Records {
    fn in_own_memory(state: BufferState) -> Self {
        let words = Box::leak(vec![[0; 8]; BUFFER_WORDS].into_boxed_slice());
        Self { buffer: RecordBuffer::new(words, state), shared: None }
    }

    fn in_shared_memory(number: u32, words: &'static mut [Word], state: BufferState) -> Self {
        Self { buffer: RecordBuffer::new(words, state), shared: Some(number) }
    }
}

/// Shared memory for records.
pub(crate) struct SharedBuffers {
    pub(crate) buffers: Vec<&'static mut [Word]>,
    /// Adds a buffer to those that exist.
    pub(crate) grow: fn(usize) -> Option<&'static mut [Word]>,
}

pub(crate) struct Output {
    stream: Mutex<Stream>,
    process: u32,
    /// Called when the recorder has closed the stream.
    on_closed: fn(),
}

struct Stream {
    to: File,
    has_failed: bool,
    /// Shared buffers that no thread uses.
    buffers: Vec<Option<&'static mut [Word]>>,
    /// The numbers of those that the recorder is not reading.
    free: Vec<u32>,
    /// The number of threads that use one.
    users: usize,
    grow: fn(usize) -> Option<&'static mut [Word]>,
}

impl Output {
    /// Opens the output: a socket that exists, or a new file.
    pub(crate) fn open(
        path: &str,
        header: &Header,
        memory: SharedBuffers,
        move_up: impl Fn(OwnedFd) -> OwnedFd,
        on_closed: fn(),
    ) -> io::Result<Self> {
        let is_socket = std::fs::metadata(path).is_ok_and(|about| about.file_type().is_socket());
        let descriptor = if is_socket { UnixStream::connect(path)?.into() } else { File::create(path)?.into() };
        let mut to = File::from(move_up(descriptor));
        to.write_all(&header.to_bytes())?;
        let SharedBuffers { buffers, grow } = memory;
        let free = (0..buffers.len() as u32).rev().collect();
        let buffers = buffers.into_iter().map(Some).collect();
        let stream = Stream { to, has_failed: false, buffers, free, users: 0, grow };
        Ok(Self { stream: Mutex::new(stream), process: std::process::id(), on_closed })
    }

    /// Sends translated code, before any thread executes it: an emulator that is killed has sent all that was executed.
    pub(crate) fn send_code<'a>(&self, id: u32, address: u64, instructions: impl ExactSizeIterator<Item = &'a [u8]>) {
        if !self.is_child() {
            let mut code = Vec::new();
            Code::encode(&mut code, id, address, instructions);
            self.lock().write_chunk(CODE, &code);
        }
    }

    /// Whether records are being sent.
    pub(crate) fn is_sending(&self) -> bool {
        matches!(self.stream.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Sends the records of a thread.
    #[cold]
    pub(crate) fn send(&self, thread: u32, records: &mut Records) {
        if !self.is_child() {
            let mut stream = self.lock();
            match records.shared {
                Some(number) => stream.exchange(thread, number, records),
                None => stream.write_chunk(thread, records.buffer.bytes()),
            }
            if stream.has_failed {
                records.buffer.lose();
                (self.on_closed)();
            }
        }
        records.buffer.clear();
    }

    /// A buffer for the records of a thread.
    pub(crate) fn new_records(&self, thread: u32) -> Records {
        let state = BufferState { thread, mark: 0, last_mark: 0 };
        let mut stream = self.lock();
        let shared = if self.is_child() { None } else { stream.new_buffer() };
        match shared {
            Some((number, words)) => {
                stream.users += 1;
                Records::in_shared_memory(number, words, state)
            }
            None => Records::in_own_memory(state),
        }
    }

    /// Reclaims the buffer of a thread that has ended and sent all its records.
    pub(crate) fn reclaim(&self, records: &mut Records) {
        let mut stream = self.lock();
        if let Some(number) = records.shared.take() {
            stream.put_buffer(number, records.buffer.take_words());
            stream.free.push(number);
            stream.users -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process was forked: it is not recorded, since its records would be among those of its parent.
    fn is_child(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Stream {
    /// Writes a chunk. A program continues even if the recorder has closed the stream.
    fn write_chunk(&mut self, thread: u32, bytes: &[u8]) {
        let Ok(length) = u32::try_from(bytes.len()) else { return };
        if length == 0 || self.has_failed {
            return;
        }
        let head = ChunkHead::to_bytes(thread, length);
        // Together, so that one call writes both unless they are long.
        self.has_failed = self.to.write_all(&[&head, bytes].concat()).is_err();
    }

    /// Sends the shared buffer of these records to the recorder, and replaces it.
    fn exchange(&mut self, thread: u32, number: u32, records: &mut Records) {
        let length = records.buffer.bytes().len() as u32;
        if length == 0 || self.has_failed {
            return;
        }
        let Some(state) = records.buffer.state() else { return };
        let head = ChunkHead::to_shared_bytes(thread, length, number);
        match self.to.write_all(&head).and_then(|()| self.free_buffer()) {
            Ok((next, words)) => {
                let mut sent = std::mem::replace(records, Records::in_shared_memory(next, words, state));
                self.put_buffer(number, sent.buffer.take_sent_words());
            }
            Err(_) => self.has_failed = true,
        }
    }

    /// A shared buffer for one more thread. There are two for each, one of them for the recorder to read.
    fn new_buffer(&mut self) -> Option<(u32, &'static mut [Word])> {
        while self.users >= self.buffers.len() / 2 {
            let number = self.buffers.len();
            self.buffers.push(Some((self.grow)(number)?));
            self.free.push(number as u32);
        }
        let number = self.free.pop()?;
        Some((number, self.take_buffer(number)?))
    }

    /// A free shared buffer; if there is none, waits for the recorder.
    fn free_buffer(&mut self) -> io::Result<(u32, &'static mut [Word])> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let mut number = [0; 4];
                self.to.read_exact(&mut number)?;
                u32::from_le_bytes(number)
            }
        };
        self.take_buffer(number).map(|words| (number, words)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn take_buffer(&mut self, number: u32) -> Option<&'static mut [Word]> {
        self.buffers.get_mut(number as usize)?.take()
    }

    fn put_buffer(&mut self, number: u32, words: &'static mut [Word]) {
        if let Some(slot) = self.buffers.get_mut(number as usize) {
            *slot = Some(words);
        }
    }
}
