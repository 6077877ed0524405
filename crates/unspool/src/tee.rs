//! One stream for two readers.
//!
//! pipe ─▶ chunks ─┬─▶ one reader
//!                 └─▶ another reader
//!
//! A reader that stops gets no more chunks, and does not keep the other one waiting.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes of a chunk, and chunks that may wait for each reader.
const CHUNK: usize = 64 << 10;
const WAITING: usize = 16;

/// Splits a stream into two, each with all bytes.
pub(crate) fn tee(mut input: Box<dyn Read + Send>) -> io::Result<[impl Read + Send; 2]> {
    let [(to_one, one), (to_other, other)] = [sync_channel(WAITING), sync_channel(WAITING)];
    let work = move || {
        let mut senders: Vec<SyncSender<Chunk>> = vec![to_one, to_other];
        while !senders.is_empty() {
            let chunk = read(&mut input);
            let is_last = !matches!(&chunk, Ok(bytes) if !bytes.is_empty());
            senders.retain(|sender| sender.send(chunk.clone()).is_ok());
            if is_last {
                break;
            }
        }
    };
    thread::Builder::new().name("tee".into()).spawn(work)?;
    Ok([one, other].map(|chunks| Half { chunks, chunk: Arc::new(Vec::new()), at: 0 }))
}

/// Bytes, none at the end, or the error of reading.
type Chunk = Result<Arc<Vec<u8>>, (io::ErrorKind, String)>;

fn read(input: &mut impl Read) -> Chunk {
    let mut bytes = Vec::new();
    match input.take(CHUNK as u64).read_to_end(&mut bytes) {
        Ok(_) => Ok(Arc::new(bytes)),
        Err(error) => Err((error.kind(), error.to_string())),
    }
}

/// One of two streams with the same bytes.
struct Half {
    chunks: Receiver<Chunk>,
    chunk: Arc<Vec<u8>>,
    at: usize,
}

impl Read for Half {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            // After the last chunk there are no more.
            match self.chunks.recv() {
                Ok(Ok(chunk)) => (self.chunk, self.at) = (chunk, 0),
                Ok(Err((kind, text))) => return Err(io::Error::new(kind, text)),
                Err(_) => return Ok(0),
            }
        }
        let read = (&self.chunk[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}
