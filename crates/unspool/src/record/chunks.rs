//! The chunks of the plugin's stream, as they are wanted or ahead of that.
//!
//! bytes ─▶ **chunks**, each of one thread
//!
//! `crates/plugin/src/stream.rs` says what the bytes are. What does not fit is damage, and ends the stream.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::stream::damage;

/// How a stream starts.
const MAGIC: &[u8] = b"unspool record 2\n";

/// No more is kept of its first line.
const MOST_HEAD: usize = 256;

/// No chunk has more bytes.
const MOST: u32 = 1 << 28;

/// So many chunks are read ahead, so that the emulator need not wait for who takes them.
const AHEAD: usize = 128;

/// Where chunks come from.
pub(super) trait Chunks {
    /// Reads the next one into `bytes`: whose it is; `None`: there are no more.
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>>;
}

/// Chunks that are read when they are wanted.
pub(super) struct Here<R> {
    input: R,
    has_started: bool,
}

impl<R: Read> Here<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, has_started: false }
    }
}

impl<R: Read> Chunks for Here<R> {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        if !std::mem::replace(&mut self.has_started, true) {
            read_head(&mut self.input)?;
        }
        read_chunk(&mut self.input, bytes)
    }
}

/// Chunks that a thread reads ahead.
pub(super) struct Ahead {
    chunks: Receiver<Chunk>,
    /// What was taken, for its memory.
    spare: Sender<Vec<u8>>,
}

type Chunk = io::Result<Option<(u32, Vec<u8>)>>;

impl Ahead {
    /// What follows the [head](read_head) of a stream.
    pub(super) fn behind_head(input: impl Read + Send + 'static) -> io::Result<Self> {
        Self::of(Here { input, has_started: true })
    }

    fn of(here: Here<impl Read + Send + 'static>) -> io::Result<Self> {
        let (give, chunks) = sync_channel(AHEAD);
        let (spare, used) = channel();
        thread::Builder::new().name("read".into()).spawn(move || read_ahead(here, &give, &used))?;
        Ok(Self { chunks, spare })
    }
}

fn read_ahead(mut here: Here<impl Read>, give: &SyncSender<Chunk>, used: &Receiver<Vec<u8>>) {
    loop {
        let mut bytes = used.try_recv().unwrap_or_default();
        let chunk = here.next(&mut bytes).map(|number| number.map(|number| (number, bytes)));
        let is_last = !matches!(chunk, Ok(Some(_)));
        if give.send(chunk).is_err() || is_last {
            return;
        }
    }
}

impl Chunks for Ahead {
    fn next(&mut self, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
        // Behind the last there is nothing.
        let Some((number, chunk)) = self.chunks.recv().unwrap_or(Ok(None))? else { return Ok(None) };
        // The thread may have read all there is.
        let _ = self.spare.send(std::mem::replace(bytes, chunk));
        Ok(Some(number))
    }
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

/// Reads the next chunk into `bytes`: whose it is; `None`: there are no more.
fn read_chunk(input: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<Option<u32>> {
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
    let length = u32::from_le_bytes([e, f, g, h]);
    if length > MOST {
        return Err(damage("a chunk is too long"));
    }
    // It takes no more memory than there are bytes.
    bytes.clear();
    if input.take(u64::from(length)).read_to_end(bytes)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(u32::from_le_bytes([a, b, c, d])))
}
