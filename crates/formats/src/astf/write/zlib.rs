//! One zlib stream, compressed by several threads in pieces.
//!
//! bytes ─▶ pieces ─▶ threads, in turn ─▶ deflated pieces, in the same order ─▶ output
//!
//! A piece refers to nothing before it and ends on a byte, so that deflated pieces can stand behind each other: what
//! `pigz -i` does. Any zlib reads the result. Specification: RFC 1950, RFC 1951.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use flate2::{Compress, Compression, FlushCompress};
use zlib_rs::adler32::{adler32, adler32_combine};

use super::WriteOptions;

/// The bytes of a piece: the window is 32 KiB, so hardly anything is lost by starting anew.
const PIECE: usize = 1 << 20;

/// How many pieces a thread has: one at work and one that waits.
const PIECES: usize = 2;

/// More threads than this are of no use, and would want more memory than they should.
const MOST_THREADS: usize = 64;

/// The last block, which is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Compresses into a zlib stream.
pub(super) struct Zlib {
    level: u32,
    has_started: bool,
    check: u32,
    /// What is not enough for a piece yet.
    piece: Piece,
    /// Pieces that came back, for their memory.
    spare: Vec<Piece>,
    workers: Vec<Worker>,
    /// How many pieces were given out, and how many came back.
    given: usize,
    taken: usize,
}

impl Zlib {
    pub(super) fn new(options: WriteOptions) -> io::Result<Self> {
        let level = options.level.min(9);
        let workers = match options.threads.min(MOST_THREADS) {
            0..=1 => vec![Worker::caller(level)],
            threads => (0..threads).map(|_| Worker::thread(level)).collect::<io::Result<_>>()?,
        };
        let piece = Piece::default();
        Ok(Self { level, has_started: false, check: 1, piece, spare: Vec::new(), workers, given: 0, taken: 0 })
    }

    pub(super) fn write(&mut self, output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = PIECE - self.piece.plain.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.piece.plain.extend_from_slice(now);
            bytes = later;
            if self.piece.plain.len() == PIECE {
                self.give(output)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        if !self.piece.plain.is_empty() {
            self.give(output)?;
        }
        while self.taken < self.given {
            self.take(output)?;
        }
        self.workers.drain(..).for_each(Worker::leave);
        self.start(output)?;
        output.write_all(&LAST_BLOCK)?;
        output.write_all(&self.check.to_be_bytes())
    }

    /// Gives the piece to the thread whose turn it is.
    fn give(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.given - self.taken == self.in_flight() {
            self.take(output)?;
        }
        let next = self.spare.pop().unwrap_or_default();
        let piece = std::mem::replace(&mut self.piece, next);
        let turn = self.given % self.workers.len();
        self.given += 1;
        self.workers[turn].give(piece)
    }

    /// How many pieces may be on their way.
    fn in_flight(&self) -> usize {
        match &self.workers[..] {
            [Worker::Caller(..)] => 1,
            threads => threads.len() * PIECES,
        }
    }

    /// Takes the oldest piece back and writes it.
    fn take(&mut self, output: &mut impl Write) -> io::Result<()> {
        let turn = self.taken % self.workers.len();
        self.taken += 1;
        let mut piece = self.workers[turn].take()?;
        self.start(output)?;
        output.write_all(&piece.packed)?;
        self.check = adler32_combine(self.check, piece.check, piece.plain.len() as u64);
        piece.plain.clear();
        self.spare.push(piece);
        Ok(())
    }

    fn start(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.has_started {
            return Ok(());
        }
        self.has_started = true;
        output.write_all(&stream_header(self.level))
    }
}

/// A window of 32 KiB, how hard the compressor tries, and what makes it a multiple of 31.
fn stream_header(level: u32) -> [u8; 2] {
    match level {
        0..=1 => [0x78, 0x01],
        2..=5 => [0x78, 0x5e],
        6 => [0x78, 0x9c],
        _ => [0x78, 0xda],
    }
}

/// A stretch of the bytes, and what becomes of it.
#[derive(Default)]
struct Piece {
    plain: Vec<u8>,
    packed: Vec<u8>,
    check: u32,
}

impl Piece {
    fn pack(&mut self, compress: &mut Compress) -> io::Result<()> {
        compress.reset();
        self.check = adler32(1, &self.plain);
        self.packed.clear();
        // What does not compress becomes a little longer.
        self.packed.reserve(self.plain.len() + self.plain.len() / 8 + 1024);
        loop {
            let left = &self.plain[compress.total_in() as usize..];
            compress.compress_vec(left, &mut self.packed, FlushCompress::Sync)?;
            if compress.total_in() == self.plain.len() as u64 && self.packed.len() < self.packed.capacity() {
                return Ok(());
            }
            self.packed.reserve(PIECE);
        }
    }
}

/// A compressor: the caller itself, or a thread that takes pieces and gives them back in the same order.
enum Worker {
    Caller(Box<Compress>, Option<Piece>),
    Thread(SyncSender<Piece>, Receiver<io::Result<Piece>>, JoinHandle<()>),
}

impl Worker {
    fn caller(level: u32) -> Self {
        Self::Caller(Box::new(compressor(level)), None)
    }

    fn thread(level: u32) -> io::Result<Self> {
        let (give, given) = sync_channel::<Piece>(PIECES);
        let (done, take) = sync_channel(PIECES);
        let run = move || {
            let mut compress = compressor(level);
            for mut piece in given {
                let result = piece.pack(&mut compress).map(|()| piece);
                if done.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("astf pack".into()).spawn(run)?;
        Ok(Self::Thread(give, take, thread))
    }

    fn give(&mut self, mut piece: Piece) -> io::Result<()> {
        match self {
            Self::Caller(compress, done) => {
                piece.pack(compress)?;
                *done = Some(piece);
                Ok(())
            }
            Self::Thread(give, ..) => give.send(piece).map_err(|_| failed()),
        }
    }

    fn take(&mut self) -> io::Result<Piece> {
        match self {
            Self::Caller(_, done) => done.take().ok_or_else(failed),
            Self::Thread(_, take, _) => take.recv().map_err(|_| failed())?,
        }
    }

    /// Waits until the thread, which has no piece any more, is gone.
    fn leave(self) {
        if let Self::Thread(give, take, thread) = self {
            drop((give, take));
            // It has given back all that it had, so nothing is lost even if it failed now.
            drop(thread.join());
        }
    }
}

fn compressor(level: u32) -> Compress {
    Compress::new(Compression::new(level), false)
}

fn failed() -> io::Error {
    io::Error::other("a thread that compresses has failed")
}
