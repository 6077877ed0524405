//! One zlib stream, compressed by several threads in independent blocks.
//!
//! bytes ─▶ blocks ─▶ threads ─▶ compressed blocks, in the same order ─▶ output
//!
//! A block refers to nothing before it and ends on a byte boundary, so that compressed blocks can be concatenated, as
//! with `pigz -i`. Specification: RFC 1950, RFC 1951.

use std::io::{self, Write};

use flate2::{Compress, Compression, FlushCompress};
use unspool_container::OrderedWorkers;
use zlib_rs::adler32::{adler32, adler32_combine};

use super::{BLOCK, MARK, START};

/// Maximum number of threads; more are of no use, and would need too much memory.
const MAX_THREADS: usize = 32;

/// The last DEFLATE block, which is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// Compresses into a zlib stream.
pub(crate) struct BlockDeflater {
    level: u32,
    has_started: bool,
    check: u32,
    /// A block that is not full yet.
    block: Block,
    /// Blocks to be used again, for their memory.
    spare: Vec<Block>,
    workers: OrderedWorkers<Block>,
}

impl BlockDeflater {
    /// The level is that of zlib, 0 to 9.
    pub(crate) fn new(level: u32, threads: usize) -> Self {
        let level = level.min(9);
        let new_work = move || {
            let mut compress = Compress::new(Compression::new(level), false);
            move |block: &mut Block| block.failed = block.compress(&mut compress).err()
        };
        let workers = OrderedWorkers::new(threads.min(MAX_THREADS), "astf pack", new_work);
        Self { level, has_started: false, check: 1, block: Block::default(), spare: Vec::new(), workers }
    }

    pub(crate) fn write(&mut self, output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = BLOCK - self.block.plain.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.plain.extend_from_slice(now);
            bytes = later;
            if self.block.plain.len() == BLOCK {
                self.submit(output)?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        if !self.block.plain.is_empty() {
            self.submit(output)?;
        }
        while let Some(block) = self.workers.pop()? {
            self.write_block(block, output)?;
        }
        self.start(output)?;
        output.write_all(&LAST_BLOCK)?;
        output.write_all(&self.check.to_be_bytes())
    }

    fn submit(&mut self, output: &mut impl Write) -> io::Result<()> {
        if !self.workers.has_room()
            && let Some(block) = self.workers.pop()?
        {
            self.write_block(block, output)?;
        }
        let next = self.spare.pop().unwrap_or_default();
        self.workers.push(std::mem::replace(&mut self.block, next));
        Ok(())
    }

    fn write_block(&mut self, mut block: Block, output: &mut impl Write) -> io::Result<()> {
        if let Some(error) = block.failed.take() {
            return Err(error);
        }
        self.start(output)?;
        output.write_all(&block.compressed)?;
        self.check = adler32_combine(self.check, block.check, block.plain.len() as u64);
        block.plain.clear();
        self.spare.push(block);
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

/// Window of 32 KiB, compression level, and the check that makes it a multiple of 31.
fn stream_header(level: u32) -> [u8; 2] {
    match level {
        0..=1 => [0x78, 0x01],
        2..=5 => [0x78, 0x5e],
        6 => [0x78, 0x9c],
        _ => [0x78, 0xda],
    }
}

/// Plain bytes and their compressed form.
#[derive(Default)]
struct Block {
    plain: Vec<u8>,
    compressed: Vec<u8>,
    check: u32,
    failed: Option<io::Error>,
}

impl Block {
    fn compress(&mut self, compress: &mut Compress) -> io::Result<()> {
        compress.reset();
        self.check = adler32(1, &self.plain);
        self.compressed.clear();
        // Incompressible data becomes a little longer.
        self.compressed.reserve(self.plain.len() + self.plain.len() / 8 + 1024);
        loop {
            let left = &self.plain[compress.total_in() as usize..];
            compress.compress_vec(left, &mut self.compressed, FlushCompress::Sync)?;
            if compress.total_in() == self.plain.len() as u64 && self.compressed.len() < self.compressed.capacity() {
                // The flush has written the first of the two empty blocks.
                self.compressed.extend_from_slice(&MARK[4..]);
                return Ok(());
            }
            self.compressed.reserve(BLOCK);
        }
    }
}
