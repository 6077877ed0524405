//! Reading in a thread of its own, a few buffers ahead of the caller.
//!
//! The thread ends when the file does, or when nobody waits for buffers any more and its read returns.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes of a buffer.
const BUFFER: usize = 256 << 10;

/// How many buffers wait for the caller.
const WAITING: usize = 4;

/// The caller's end.
pub(crate) struct Ahead {
    full: Receiver<io::Result<Vec<u8>>>,
    buffer: Vec<u8>,
    taken: usize,
}

impl Ahead {
    /// Starts the thread.
    pub(crate) fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        let (to_caller, full) = sync_channel(WAITING);
        thread::Builder::new().name("stf read".into()).spawn(move || run(input, &to_caller))?;
        Ok(Self { full, buffer: Vec::new(), taken: 0 })
    }
}

impl Read for Ahead {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.buffer.len() {
            match self.full.recv() {
                // An empty one is the end.
                Ok(full) => (self.buffer, self.taken) = (full?, 0),
                Err(_) => return Err(io::Error::other("the thread that reads has failed")),
            }
        }
        let bytes = (&self.buffer[self.taken..]).read(output)?;
        self.taken += bytes;
        Ok(bytes)
    }
}

fn run(mut input: impl Read, to_caller: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut buffer = vec![0; BUFFER];
        let (filled, end) = fill(&mut input, &mut buffer);
        buffer.truncate(filled);
        if filled > 0 && to_caller.send(Ok(buffer)).is_err() {
            return;
        }
        if let Some(end) = end {
            // If nobody waits for it, nobody misses it.
            drop(to_caller.send(end.map(|()| Vec::new())));
            return;
        }
    }
}

/// Fills the buffer: with how much, and whether anything follows.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> (usize, Option<io::Result<()>>) {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => return (filled, Some(Ok(()))),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(Err(error))),
        }
    }
    (filled, None)
}
