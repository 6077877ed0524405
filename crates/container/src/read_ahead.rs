//! Reading in a thread of its own, a few buffers ahead of the caller.
//!
//! thread ─▶ full buffers ─▶ **caller** ─▶ used buffers ─▶ thread
//!
//! The buffers circulate, so there are never more of them. The thread ends with its input, or when the caller is gone and
//! its read returns.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Number of buffers that circulate besides the one that the caller has.
const BUFFERS: usize = 4;

const BUFFER: usize = 256 << 10;

/// A thread that fills buffers of any kind.
pub struct ReadAhead<B> {
    full: Receiver<B>,
    used: SyncSender<B>,
    thread: Option<JoinHandle<()>>,
}

impl<B: Send + 'static> ReadAhead<B> {
    /// Starts the thread. `fill` fills a buffer and breaks with the last one.
    pub fn new(
        name: &str,
        new_buffer: impl Fn() -> B + Send + 'static,
        mut fill: impl FnMut(&mut B) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (to_caller, full) = sync_channel(BUFFERS + 1);
        let (used, from_caller) = sync_channel(BUFFERS + 1);
        let run = move || {
            let new = (0..BUFFERS).map(|_| new_buffer());
            for mut buffer in new.chain(from_caller) {
                let is_last = fill(&mut buffer).is_break();
                if to_caller.send(buffer).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { full, used, thread: Some(thread) })
    }

    /// Exchanges a used buffer for the next full one. Fails if the thread has ended.
    pub fn swap(&mut self, buffer: &mut B) -> io::Result<()> {
        let full = self.full.recv().map_err(|_| io::Error::other("the thread that reads has failed"))?;
        // After the last buffer, the thread is gone.
        drop(self.used.send(std::mem::replace(buffer, full)));
        Ok(())
    }

    /// Waits for the thread, after its last buffer.
    pub fn join(&mut self) {
        // After a panic, the buffer is missing, which was reported.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Any input, read ahead.
pub struct ReadAheadBytes {
    ahead: ReadAhead<Chunk>,
    chunk: Chunk,
    taken: usize,
}

#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    filled: usize,
    /// The end of the input, or an error, after these bytes.
    end: Option<io::Result<()>>,
}

impl ReadAheadBytes {
    /// Starts the thread.
    pub fn new(name: &str, mut input: impl Read + Send + 'static) -> io::Result<Self> {
        let ahead = ReadAhead::new(name, Chunk::default, move |chunk| chunk.fill(&mut input))?;
        Ok(Self { ahead, chunk: Chunk::default(), taken: 0 })
    }
}

impl Read for ReadAheadBytes {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.chunk.filled {
            if let Some(end) = &mut self.chunk.end {
                return std::mem::replace(end, Ok(())).map(|()| 0);
            }
            self.ahead.swap(&mut self.chunk)?;
            self.taken = 0;
        }
        let bytes = (&self.chunk.bytes[self.taken..self.chunk.filled]).read(output)?;
        self.taken += bytes;
        if bytes == 0 && !output.is_empty() { self.read(output) } else { Ok(bytes) }
    }
}

impl Chunk {
    fn fill(&mut self, input: &mut impl Read) -> ControlFlow<()> {
        self.bytes.resize(BUFFER, 0);
        (self.filled, self.end) = (0, None);
        while self.filled < BUFFER && self.end.is_none() {
            match input.read(&mut self.bytes[self.filled..]) {
                Ok(0) => self.end = Some(Ok(())),
                Ok(bytes) => self.filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.end = Some(Err(error)),
            }
        }
        if self.end.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes, and then an error.
    struct Fails(usize);

    impl Read for Fails {
        fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
            let bytes = output.len().min(self.0).min(1000);
            output[..bytes].fill(7);
            self.0 -= bytes;
            if bytes == 0 { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(bytes) }
        }
    }

    #[test]
    fn an_error_comes_after_all_bytes_and_once() {
        for length in [0, 1, BUFFER, 10 * BUFFER, 10 * BUFFER + 3] {
            let mut ahead = ReadAheadBytes::new("test", Fails(length)).expect("a thread");
            let mut bytes = Vec::new();
            let error = ahead.read_to_end(&mut bytes).expect_err("the error");
            assert_eq!((bytes.len(), error.kind()), (length, io::ErrorKind::PermissionDenied));
            assert_eq!(ahead.read(&mut [0]).expect("the end"), 0);
        }
    }
}
