//! The pieces of a zlib stream, each unpacked at once, by several threads.
//!
//! input ─▶ cut behind each mark ─▶ threads, in turn ─▶ batches, in the same order ─▶ **fill**
//!
//! Where there is no sound piece, a decoder that takes byte by byte goes on: with the end of the stream, or with what is
//! damaged, whose place it finds. What inflates pieces takes a few codes that others refuse; if they come of damage, the
//! check at the end of the stream tells.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};

use libdeflater::Decompressor;
use memchr::memmem::Finder;
use zlib_rs::adler32::{adler32, adler32_combine};

use super::super::pieces::{LONGEST_PIECE, MARK, START};
use super::super::turns::Turns;
use super::Batch;
use super::input::{Cut, Input};
use crate::record::RECORD_BYTES;

/// More threads than this are of no use, and would want more memory than they should.
const MOST_THREADS: usize = 16;

/// A piece has no more bytes than this, however badly it packs.
const LONGEST_PACKED: usize = 2 * LONGEST_PIECE;

/// What is shorter than this is not worth a job: it may be several pieces.
const SHORTEST_PACKED: usize = 4 << 10;

/// How far back references reach.
const WINDOW: usize = 32 << 10;

/// The bytes of the header of a zlib stream.
const HEADER: usize = 2;

/// The bytes of a [`Seal`].
const SEAL: usize = 2 * RECORD_BYTES;

/// Unpacks pieces.
pub(super) struct Pieces {
    turns: Turns<Piece>,
    mark: Finder<'static>,
    /// Pieces that came back, for their memory.
    spare: Vec<Piece>,
    /// What comes next is no piece.
    is_over: bool,
    so_far: SoFar,
}

/// What a decoder has to know to go on.
#[derive(Debug)]
pub(super) struct SoFar {
    /// The Adler-32 of what was unpacked.
    pub(super) check: u32,
    /// The last bytes of it, as many as references reach.
    pub(super) window: Vec<u8>,
}

/// A piece, and what becomes of it.
struct Piece {
    packed: Vec<u8>,
    batch: Batch,
    check: u32,
    is_sound: bool,
}

impl Pieces {
    /// Is this a stream in pieces?
    pub(super) fn is_start(bytes: &[u8]) -> bool {
        bytes.split_at_checked(HEADER).is_some_and(|(header, rest)| {
            let wants_dictionary = header[1] & 0x20 != 0;
            !wants_dictionary && rest.starts_with(&START)
        })
    }

    /// Takes the start of the stream.
    pub(super) fn new<R: Read>(input: &mut Input<R>, threads: usize) -> Self {
        let seal = Seal::new();
        let new_work = move || {
            let mut decompressor = Decompressor::new();
            move |piece: &mut Piece| piece.unpack(&mut decompressor, &seal)
        };
        let turns = Turns::new(threads.min(MOST_THREADS), "astf piece", new_work);
        input.consume(HEADER + START.len());
        let so_far = SoFar { check: 1, window: Vec::new() };
        Self { turns, mark: Finder::new(&MARK), spare: Vec::new(), is_over: false, so_far }
    }

    /// Fills the batch with those of a piece. Nothing: what is left is for a decoder.
    pub(super) fn fill<R: Read>(&mut self, input: &mut Input<R>, batch: &mut Batch) -> io::Result<bool> {
        loop {
            self.give(input)?;
            let Some(mut piece) = self.turns.take()? else { return Ok(false) };
            if !piece.is_sound {
                self.put_back(input, piece)?;
                return Ok(false);
            }
            std::mem::swap(batch, &mut piece.batch);
            self.so_far.add(piece.check, batch.records[..batch.whole].as_flattened());
            self.spare.push(piece);
            if batch.whole > 0 {
                return Ok(true);
            }
        }
    }

    /// What a decoder has to know to go on from here.
    pub(super) fn so_far(self) -> SoFar {
        self.so_far
    }

    /// Gives out as many pieces as there is room for. Who has something to take does not wait for an input that has nothing
    /// at hand.
    fn give<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        while !self.is_over && self.turns.has_room() {
            let mut piece = self.spare.pop().unwrap_or_else(Piece::new);
            piece.packed.clear();
            match input.cut(&self.mark, SHORTEST_PACKED..LONGEST_PACKED, self.turns.is_idle(), &mut piece.packed) {
                Cut::Here => self.turns.give(piece)?,
                Cut::Nowhere => self.is_over = true,
                Cut::Unknown => return Ok(()),
            }
        }
        Ok(())
    }

    /// Puts this piece and all behind it back.
    fn put_back<R: Read>(&mut self, input: &mut Input<R>, first: Piece) -> io::Result<()> {
        let mut packed = first.packed;
        while let Some(piece) = self.turns.take()? {
            packed.extend_from_slice(&piece.packed);
        }
        input.put_back(packed);
        self.is_over = true;
        Ok(())
    }
}

impl SoFar {
    /// These bytes come next, with this Adler-32.
    fn add(&mut self, check: u32, bytes: &[u8]) {
        self.check = adler32_combine(self.check, check, bytes.len() as u64);
        let last = &bytes[bytes.len().saturating_sub(WINDOW)..];
        let stays = self.window.len().min(WINDOW - last.len());
        self.window.drain(..self.window.len() - stays);
        self.window.extend_from_slice(last);
    }
}

impl Piece {
    fn new() -> Self {
        let batch = Batch { records: Vec::new(), whole: 0, end: None };
        Self { packed: Vec::new(), batch, check: 0, is_sound: false }
    }

    fn unpack(&mut self, decompressor: &mut Decompressor, seal: &Seal) {
        // A batch of the caller may be smaller.
        self.batch.records.resize((LONGEST_PIECE + SEAL) / RECORD_BYTES, [0; RECORD_BYTES]);
        let length = self.packed.len();
        seal.put(&mut self.packed);
        let bytes = self.batch.records.as_flattened_mut();
        let made = decompressor.deflate_decompress(&self.packed, bytes);
        self.packed.truncate(length);
        let plain = made.ok().and_then(|made| seal.strip(&bytes[..made]));
        self.is_sound = plain.is_some_and(|plain| plain.len().is_multiple_of(RECORD_BYTES));
        let plain = plain.unwrap_or_default();
        self.batch.whole = plain.len() / RECORD_BYTES;
        self.check = adler32(1, plain);
    }
}

/// Bytes that nobody foresees, as the last block behind a piece. If they come out, all that was before them was whole
/// blocks, of which none was the last: but for a last block that is not compressed and reaches over them.
#[derive(Clone, Copy)]
struct Seal([u8; SEAL]);

impl Seal {
    /// The last block, not compressed, and how long it is.
    const HEAD: [u8; 5] = [1, SEAL as u8, 0, !(SEAL as u8), 0xff];

    fn new() -> Self {
        let random = RandomState::new();
        Self(std::array::from_fn(|at| random.hash_one(at) as u8))
    }

    fn put(&self, packed: &mut Vec<u8>) {
        packed.extend_from_slice(&Self::HEAD);
        packed.extend_from_slice(&self.0);
    }

    /// What came out before it, if that is a piece.
    fn strip<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        bytes.strip_suffix(&self.0).filter(|plain| !plain.ends_with(&Self::HEAD))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::layout::Bytes;
    use super::super::super::record::{Header, Level, Storage};
    use super::super::super::write::{Passes, Patterns, WriteOptions, Writer};
    use super::*;
    use unspool_model::BlockExecution;

    fn record(seed: u64) -> Bytes {
        let words = [seed % 97, seed, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 7];
        std::array::from_fn(|at| words[at / 8].to_le_bytes()[at % 8])
    }

    /// Writes records, or the same by passes of patterns of several lengths.
    fn written(records: &[Bytes], options: WriteOptions, is_passes: bool) -> Vec<u8> {
        let header = Header::new(Level::Basic, false, Storage::Zlib);
        let mut writer = Writer::new(Vec::new(), &header, options).expect("a thread");
        if !is_passes {
            writer.write(records).expect("memory");
            return writer.finish().expect("memory");
        }
        let (mut patterns, mut passes, mut rest) = (Patterns::default(), Vec::new(), records);
        while !rest.is_empty() {
            // Each comes twice, so that it is referred to.
            let length = (1 + passes.len() * 13 % 900).min(rest.len() / 2).max(1);
            let number = passes.len() as u32 / 2;
            patterns.set(BlockExecution::new(number, false).index(), &rest[..length], &[]);
            passes.extend([BlockExecution::new(number, false); 2]);
            rest = rest.get(2 * length..).unwrap_or_default();
        }
        let all = Passes { passes: &passes, addresses: &[], records: records.len() as u64 };
        writer.patterns(&mut patterns, all).expect("memory");
        writer.finish().expect("memory")
    }

    #[test]
    fn all_that_is_written_is_sound_pieces() {
        let records: Vec<Bytes> = (0..200_000).map(record).collect();
        for (writers, in_patterns, is_passes) in
            [(1, false, false), (2, false, false), (1, true, false), (2, true, false), (1, true, true), (2, true, true)]
        {
            let options = WriteOptions { threads: writers, in_patterns, ..WriteOptions::default() };
            let file = written(&records, options, is_passes);
            let mut plain = Vec::new();
            let inflated = flate2::read::ZlibDecoder::new(&file[RECORD_BYTES..]).read_to_end(&mut plain);
            inflated.expect("a zlib stream");
            let (expected, _) = plain.as_chunks::<RECORD_BYTES>();
            assert!(is_passes || expected == records);
            for readers in [1, 3] {
                let name = format!("{writers} {in_patterns} {is_passes} {readers}");
                let mut input = Input::new(&file[RECORD_BYTES..]);
                assert!(Pieces::is_start(input.peek(HEADER + START.len())), "{name}");
                let mut pieces = Pieces::new(&mut input, readers);
                let (mut batch, mut found, mut count) = (Batch::new(), Vec::new(), 0);
                while pieces.fill(&mut input, &mut batch).expect("threads") {
                    found.extend_from_slice(&batch.records[..batch.whole]);
                    count += 1;
                }
                let left = expected.len() - found.len();
                assert!(found == expected[..found.len()] && left <= LONGEST_PIECE / RECORD_BYTES, "{name}: {left}");
                assert!(count >= 3, "{name}: {count}");
                let so_far = pieces.so_far();
                let bytes = found.as_flattened();
                assert_eq!(so_far.check, adler32(1, bytes), "{name}");
                assert!(so_far.window == bytes[bytes.len() - WINDOW..], "{name}");
            }
        }
    }

    #[test]
    fn what_references_reach_is_known() {
        let mut so_far = SoFar { check: 1, window: Vec::new() };
        let mut all: Vec<u8> = Vec::new();
        for (seed, length) in [0, 100, 7, 20_000, 20_000, 0, 32_767, 1, 32_768, 100_000, 3].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251 + seed) as u8).collect();
            so_far.add(adler32(1, &bytes), &bytes);
            all.extend(bytes);
            assert_eq!(so_far.check, adler32(1, &all), "{length}");
            assert!(so_far.window == all[all.len().saturating_sub(WINDOW)..], "{length}");
        }
    }
}
