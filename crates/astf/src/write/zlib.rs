//! One zlib stream, compressed by several threads in pieces.
//!
//! bytes ─▶ pieces ─▶ threads, in turn ─▶ deflated pieces, in the same order ─▶ output
//!
//! A piece refers to nothing before it and ends on a byte, so that deflated pieces can stand behind each other: what
//! `pigz -i` does. Specification: RFC 1950, RFC 1951.

use std::io::{self, Write};

use flate2::{Compress, Compression, FlushCompress};
use zlib_rs::adler32::{adler32, adler32_combine};

use super::super::pieces::{MARK, PIECE, START};
use super::super::turns::Turns;
use super::WriteOptions;

/// More threads than this are of no use, and would want more memory than they should.
const MOST_THREADS: usize = 32;

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
    turns: Turns<Piece>,
}

impl Zlib {
    pub(super) fn new(options: WriteOptions) -> Self {
        let level = options.level.min(9);
        let new_work = move || {
            let mut compress = Compress::new(Compression::new(level), false);
            move |piece: &mut Piece| piece.failed = piece.pack(&mut compress).err()
        };
        let turns = Turns::new(options.threads.min(MOST_THREADS), "astf pack", new_work);
        Self { level, has_started: false, check: 1, piece: Piece::default(), spare: Vec::new(), turns }
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
        while let Some(piece) = self.turns.take()? {
            self.taken(piece, output)?;
        }
        self.start(output)?;
        output.write_all(&LAST_BLOCK)?;
        output.write_all(&self.check.to_be_bytes())
    }

    fn give(&mut self, output: &mut impl Write) -> io::Result<()> {
        if !self.turns.has_room()
            && let Some(piece) = self.turns.take()?
        {
            self.taken(piece, output)?;
        }
        let next = self.spare.pop().unwrap_or_default();
        self.turns.give(std::mem::replace(&mut self.piece, next))
    }

    /// Writes a piece that came back.
    fn taken(&mut self, mut piece: Piece, output: &mut impl Write) -> io::Result<()> {
        if let Some(error) = piece.failed.take() {
            return Err(error);
        }
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
        output.write_all(&stream_header(self.level))?;
        output.write_all(&START)
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
    failed: Option<io::Error>,
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
                // The first of the blocks that end it is there.
                self.packed.extend_from_slice(&MARK[4..]);
                return Ok(());
            }
            self.packed.reserve(PIECE);
        }
    }
}
