//! The independent blocks of a zlib stream, each decompressed at once, by several threads.
//!
//! input ─▶ split after each mark ─▶ threads ─▶ batches, in the same order ─▶ **fill**
//!
//! An ordinary decoder takes over where no sound block follows: for the end of the stream, or for damage, whose offset
//! it finds. The decoder of blocks accepts a few codes that others refuse; if damage causes them, the check value at
//! the end of the stream reveals it.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::ops::Range;

use libdeflater::Decompressor;
use memchr::memmem::Finder;
use unspool_container::{Input, OrderedWorkers};
use zlib_rs::adler32::{adler32, adler32_combine};

use super::{LONGEST_BLOCK, MARK, START};
use crate::read::batch::Batch;
use crate::record::RECORD_BYTES;

/// Maximum number of threads; more are of no use, and would need too much memory.
const MAX_THREADS: usize = 16;

/// Maximum bytes of a compressed block, however badly it compresses.
const LONGEST_COMPRESSED: usize = 2 * LONGEST_BLOCK;

/// Minimum compressed bytes of a job, which may be several blocks.
const SHORTEST_COMPRESSED: usize = 4 << 10;

/// Maximum distance of a reference.
const WINDOW: usize = 32 << 10;

/// Bytes of the zlib header.
const HEADER: usize = 2;

/// Bytes of an [`EndSentinel`].
const SENTINEL: usize = 2 * RECORD_BYTES;

/// Decompresses independent blocks.
pub(crate) struct BlockInflater {
    workers: OrderedWorkers<Block>,
    mark: Finder<'static>,
    /// Blocks to be used again, for their memory.
    spare: Vec<Block>,
    /// No independent block follows.
    is_over: bool,
    pub(crate) resume: Resume,
}

/// State that an ordinary decoder needs to take over.
#[derive(Debug)]
pub(crate) struct Resume {
    /// Adler-32 of everything so far.
    pub(crate) check: u32,
    /// The end of it, as far as references reach.
    pub(crate) window: Vec<u8>,
}

/// A compressed block, and its records.
struct Block {
    compressed: Vec<u8>,
    batch: Batch,
    check: u32,
    is_sound: bool,
}

impl BlockInflater {
    /// Whether these bytes start a stream of independent blocks.
    pub(crate) fn is_start(bytes: &[u8]) -> bool {
        bytes.split_at_checked(HEADER).is_some_and(|(header, rest)| {
            let wants_dictionary = header[1] & 0x20 != 0;
            !wants_dictionary && rest.starts_with(&START)
        })
    }

    /// Consumes the start of the stream.
    pub(crate) fn new<R: Read>(input: &mut Input<R>, threads: usize) -> Self {
        let sentinel = EndSentinel::new();
        let new_work = move || {
            let mut decompressor = Decompressor::new();
            move |block: &mut Block| block.decompress(&mut decompressor, &sentinel)
        };
        let workers = OrderedWorkers::new(threads.min(MAX_THREADS), "astf block", new_work);
        input.consume(HEADER + START.len());
        let resume = Resume { check: 1, window: Vec::new() };
        Self { workers, mark: Finder::new(&MARK), spare: Vec::new(), is_over: false, resume }
    }

    /// Fills the batch with the records of a block. False: the rest is for an ordinary decoder.
    pub(crate) fn fill<R: Read>(&mut self, input: &mut Input<R>, batch: &mut Batch) -> io::Result<bool> {
        loop {
            self.submit(input);
            let Some(mut block) = self.workers.pop()? else { return Ok(false) };
            if !block.is_sound {
                self.unread(input, block)?;
                return Ok(false);
            }
            std::mem::swap(batch, &mut block.batch);
            self.resume.add(block.check, batch.records[..batch.whole].as_flattened());
            self.spare.push(block);
            if batch.whole > 0 {
                return Ok(true);
            }
        }
    }

    /// Submits as many blocks as there is room for. While blocks are in flight, it does not wait for an input that has
    /// nothing ready.
    fn submit<R: Read>(&mut self, input: &mut Input<R>) {
        while !self.is_over && self.workers.has_room() {
            let mut block = self.spare.pop().unwrap_or_else(Block::new);
            block.compressed.clear();
            block.batch.offset = Some(input.offset());
            let length = SHORTEST_COMPRESSED..LONGEST_COMPRESSED;
            match split(input, &self.mark, length, self.workers.is_idle(), &mut block.compressed) {
                Split::AfterMark => self.workers.push(block),
                Split::NoMark => self.is_over = true,
                Split::WouldWait => return,
            }
        }
    }

    /// Puts this block and all that follow back.
    fn unread<R: Read>(&mut self, input: &mut Input<R>, first: Block) -> io::Result<()> {
        let mut compressed = first.compressed;
        while let Some(block) = self.workers.pop()? {
            compressed.extend_from_slice(&block.compressed);
        }
        input.unread(compressed);
        self.is_over = true;
        Ok(())
    }
}

/// Result of [`split`].
enum Split {
    /// Everything up to the mark was consumed.
    AfterMark,
    NoMark,
    /// The mark is not in what is held.
    WouldWait,
}

/// Consumes everything up to the first mark from `length.start` on, including it, if it ends before `length.end`.
/// Unless it may wait, only what is held is searched.
fn split<R: Read>(
    input: &mut Input<R>,
    mark: &Finder<'_>,
    length: Range<usize>,
    may_wait: bool,
    output: &mut Vec<u8>,
) -> Split {
    let mut known = length.start;
    loop {
        let held = input.held();
        let held = &held[..held.len().min(length.end)];
        if let Some(found) = held.get(known..).and_then(|held| mark.find(held)) {
            let taken = known + found + mark.needle().len();
            output.extend_from_slice(&held[..taken]);
            input.consume(taken);
            return Split::AfterMark;
        }
        if held.len() == length.end || input.is_at_end() {
            return Split::NoMark;
        }
        if !may_wait && !input.is_flowing() {
            return Split::WouldWait;
        }
        known = known.max((held.len() + 1).saturating_sub(mark.needle().len()));
        input.hold_more();
    }
}

impl Resume {
    /// Appends bytes with this Adler-32.
    fn add(&mut self, check: u32, bytes: &[u8]) {
        self.check = adler32_combine(self.check, check, bytes.len() as u64);
        let last = &bytes[bytes.len().saturating_sub(WINDOW)..];
        let stays = self.window.len().min(WINDOW - last.len());
        self.window.drain(..self.window.len() - stays);
        self.window.extend_from_slice(last);
    }
}

impl Block {
    fn new() -> Self {
        let batch = Batch { records: Vec::new(), whole: 0, end: None, offset: None };
        Self { compressed: Vec::new(), batch, check: 0, is_sound: false }
    }

    fn decompress(&mut self, decompressor: &mut Decompressor, sentinel: &EndSentinel) {
        // A batch of the caller may be smaller.
        self.batch.records.resize((LONGEST_BLOCK + SENTINEL) / RECORD_BYTES, [0; RECORD_BYTES]);
        let length = self.compressed.len();
        sentinel.append(&mut self.compressed);
        let bytes = self.batch.records.as_flattened_mut();
        let made = decompressor.deflate_decompress(&self.compressed, bytes);
        self.compressed.truncate(length);
        let plain = made.ok().and_then(|made| sentinel.strip(&bytes[..made]));
        self.is_sound = plain.is_some_and(|plain| plain.len().is_multiple_of(RECORD_BYTES));
        let plain = plain.unwrap_or_default();
        self.batch.whole = plain.len() / RECORD_BYTES;
        self.check = adler32(1, plain);
    }
}

/// Random bytes in a last DEFLATE block that is appended to an independent block. If they come out at the end, all
/// before them was whole DEFLATE blocks, none of which was the last: unless a last block that is not compressed
/// includes them.
#[derive(Clone, Copy)]
struct EndSentinel([u8; SENTINEL]);

impl EndSentinel {
    /// Header of a last DEFLATE block that is not compressed, with its length.
    const HEAD: [u8; 5] = [1, SENTINEL as u8, 0, !(SENTINEL as u8), 0xff];

    fn new() -> Self {
        let random = RandomState::new();
        Self(std::array::from_fn(|at| random.hash_one(at) as u8))
    }

    fn append(&self, compressed: &mut Vec<u8>) {
        compressed.extend_from_slice(&Self::HEAD);
        compressed.extend_from_slice(&self.0);
    }

    /// The bytes before it, if they are an independent block.
    fn strip<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        bytes.strip_suffix(&self.0).filter(|plain| !plain.ends_with(&Self::HEAD))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::layout::Bytes;
    use super::super::super::record::{Header, Level, Storage};
    use super::super::super::write::{Executions, Patterns, WriteOptions, Writer};
    use super::*;
    use unspool_model::BlockExecution;

    fn record(seed: u64) -> Bytes {
        let words = [seed % 97, seed, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 7];
        std::array::from_fn(|at| words[at / 8].to_le_bytes()[at % 8])
    }

    /// Writes records, or the same by executions of patterns of several lengths.
    fn written(records: &[Bytes], options: WriteOptions, by_executions: bool) -> Vec<u8> {
        let header = Header::new(Level::Basic, false, Storage::Zlib);
        let mut writer = Writer::new(Vec::new(), &header, options).expect("a thread");
        if !by_executions {
            writer.write(records).expect("memory");
            return writer.finish().expect("memory");
        }
        let (mut patterns, mut executions, mut rest) = (Patterns::default(), Vec::new(), records);
        while !rest.is_empty() {
            // Each comes twice, so that it is referred to.
            let length = (1 + executions.len() * 13 % 900).min(rest.len() / 2).max(1);
            let number = executions.len() as u32 / 2;
            patterns.set(BlockExecution::new(number, false).index(), &rest[..length], &[]);
            executions.extend([BlockExecution::new(number, false); 2]);
            rest = rest.get(2 * length..).unwrap_or_default();
        }
        let all = Executions { executions: &executions, addresses: &[], record_count: records.len() as u64 };
        writer.patterns(&mut patterns, all).expect("memory");
        writer.finish().expect("memory")
    }

    #[test]
    fn everything_written_is_sound_blocks() {
        let records: Vec<Bytes> = (0..200_000).map(record).collect();
        for (writers, in_patterns, by_executions) in
            [(1, false, false), (2, false, false), (1, true, false), (2, true, false), (1, true, true), (2, true, true)]
        {
            let options = WriteOptions { threads: writers, in_patterns, ..WriteOptions::default() };
            let file = written(&records, options, by_executions);
            let mut plain = Vec::new();
            let inflated = flate2::read::ZlibDecoder::new(&file[RECORD_BYTES..]).read_to_end(&mut plain);
            inflated.expect("a zlib stream");
            let (expected, _) = plain.as_chunks::<RECORD_BYTES>();
            assert!(by_executions || expected == records);
            for readers in [1, 3] {
                let name = format!("{writers} {in_patterns} {by_executions} {readers}");
                let mut input = Input::new(&file[RECORD_BYTES..]);
                assert!(BlockInflater::is_start(input.peek(HEADER + START.len())), "{name}");
                let mut blocks = BlockInflater::new(&mut input, readers);
                let (mut batch, mut found, mut count) = (Batch::new(), Vec::new(), 0);
                while blocks.fill(&mut input, &mut batch).expect("threads") {
                    found.extend_from_slice(&batch.records[..batch.whole]);
                    count += 1;
                }
                let left = expected.len() - found.len();
                assert!(found == expected[..found.len()] && left <= LONGEST_BLOCK / RECORD_BYTES, "{name}: {left}");
                assert!(count >= 3, "{name}: {count}");
                let resume = blocks.resume;
                let bytes = found.as_flattened();
                assert_eq!(resume.check, adler32(1, bytes), "{name}");
                assert!(resume.window == bytes[bytes.len() - WINDOW..], "{name}");
            }
        }
    }

    #[test]
    fn the_window_is_kept_for_references() {
        let mut resume = Resume { check: 1, window: Vec::new() };
        let mut all: Vec<u8> = Vec::new();
        for (seed, length) in [0, 100, 7, 20_000, 20_000, 0, 32_767, 1, 32_768, 100_000, 3].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251 + seed) as u8).collect();
            resume.add(adler32(1, &bytes), &bytes);
            all.extend(bytes);
            assert_eq!(resume.check, adler32(1, &all), "{length}");
            assert!(resume.window == all[all.len().saturating_sub(WINDOW)..], "{length}");
        }
    }
}
