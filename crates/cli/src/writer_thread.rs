//! Writing on a thread of its own, so that lines are made while those before them are written.
//!
//! bytes ─▶ full buffers, through a channel ─▶ **thread** ─▶ output; empty buffers come back
//!
//! Does not know what is written. An error of the output is returned by the next write, or at the end.

use std::io::{self, ErrorKind, Write};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;

/// Full buffers that wait for the thread.
const WAITING: usize = 4;

/// Sends what is written to a thread. What is left is sent by [`flush`](Write::flush), which waits for the thread to end.
pub(crate) struct WriterThread {
    buffer: Vec<u8>,
    thread: Option<Running>,
}

struct Running {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    handle: JoinHandle<io::Result<()>>,
}

impl WriterThread {
    /// Starts a thread that writes to this output.
    pub(crate) fn start(mut out: Box<dyn Write + Send>) -> io::Result<Self> {
        let (full, to_write) = sync_channel::<Vec<u8>>(WAITING);
        let (used, empty) = sync_channel(WAITING + 1);
        let write = move || {
            for mut buffer in to_write {
                out.write_all(&buffer)?;
                buffer.clear();
                // No more buffers are wanted at the end.
                let _ = used.send(buffer);
            }
            out.flush()
        };
        let handle = thread::Builder::new().name("output".into()).spawn(write)?;
        Ok(Self { buffer: Vec::with_capacity(BUFFER), thread: Some(Running { full, empty, handle }) })
    }

    fn send(&mut self) -> io::Result<()> {
        let Some(Running { full, empty, .. }) = &self.thread else { return Err(ErrorKind::BrokenPipe.into()) };
        let next = empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER));
        match full.send(mem::replace(&mut self.buffer, next)) {
            Ok(()) => Ok(()),
            // The thread has ended early: it failed.
            Err(_) => self.end(),
        }
    }

    /// Waits for the thread, which writes what it was sent.
    fn end(&mut self) -> io::Result<()> {
        let Some(Running { full, handle, .. }) = self.thread.take() else { return Ok(()) };
        drop(full);
        handle.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes has failed")))
    }
}

impl Write for WriterThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER && !self.buffer.is_empty() {
            self.send()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is written, up to a number of bytes.
    struct Limited(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.0.lock().expect("no thread has failed");
            if written.len() + bytes.len() > self.1 {
                return Err(ErrorKind::StorageFull.into());
            }
            written.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_is_written_in_order() {
        let written = Arc::default();
        let mut writer = WriterThread::start(Box::new(Limited(Arc::clone(&written), usize::MAX))).expect("a thread");
        let mut expected = Vec::new();
        for length in [0, 1, BUFFER, 3 * BUFFER, 77, BUFFER - 1, 2].repeat(3) {
            let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            writer.write_all(&bytes).expect("room");
            expected.extend(bytes);
        }
        writer.flush().expect("room");
        assert!(*written.lock().expect("no thread has failed") == expected);
    }

    #[test]
    fn an_error_of_the_output_is_returned() {
        let mut writer = WriterThread::start(Box::new(Limited(Arc::default(), BUFFER))).expect("a thread");
        let mut write = || (0..100).try_for_each(|_| writer.write_all(&vec![0; BUFFER]));
        assert_eq!(write().map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
        assert_eq!(write().map_err(|error| error.kind()), Err(ErrorKind::BrokenPipe), "it has ended");
        let mut writer = WriterThread::start(Box::new(Limited(Arc::default(), 3))).expect("a thread");
        writer.write_all(b"four").expect("it is not sent yet");
        assert_eq!(writer.flush().map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
    }
}
