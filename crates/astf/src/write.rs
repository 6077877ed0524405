//! Writing a file: the header as it is given, and records after it, stored as the header specifies.
//!
//! records ─▶ encoder (raw, .xz, zlib) ─▶ output
//!
//! Compression is spread over threads in blocks, so that a reader can do the same; the same bytes are written for any
//! number of threads. Only a few blocks are in memory at a time. No record is checked here.
//! Specification: Arm Architectural Structured Trace Format, issue 0.11.

use std::io::{self, Write};

use unspool_container::{CompressOptions, Compressor, Container};

use super::deflate::block_deflater::BlockDeflater;
use super::deflate::packer_thread::PackerThread;
pub use super::deflate::pattern::{Executions, Patterns};
use super::deflate::template_deflater::TemplateDeflater;
use super::layout::Bytes;
use super::record::{Header, RECORD_BYTES, Record, Storage};

/// Options of a [`Writer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteOptions {
    /// Number of threads that compress.
    pub threads: usize,
    /// Compression level: the preset of xz or the level of zlib, 0 to 9.
    ///
    /// Records repeat themselves, so little is gained by a higher level. A synthetic trace of loops became, with the
    /// default of 1, 45 times smaller with xz and 18 times with zlib; with 2, 46 and 22 times; with 3, no smaller. xz
    /// took two thirds more time for 2 than for 0, and from 4 on five times as much.
    pub level: u32,
    /// Bytes of records of an .xz block; see [`CompressOptions::block_bytes`].
    pub block_bytes: usize,
    /// Records come in patterns ([`Writer::patterns`]), so that zlib need not search for matches: much faster, and a
    /// little larger. The level has no effect then, and one thread is as good as many.
    pub in_patterns: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads, level: 1, block_bytes: 4 << 20, in_patterns: false }
    }
}

/// Writes the records of a file. Without [`finish`](Self::finish) the file is cut short.
pub struct Writer<W> {
    output: W,
    encoder: Encoder,
}

impl<W: Write> Writer<W> {
    /// Writes the header as it is; it specifies how the records are stored.
    pub fn new(mut output: W, header: &Header, options: WriteOptions) -> io::Result<Self> {
        let encoder = match header.storage() {
            Storage::Raw => Encoder::stream(Container::Plain, options)?,
            Storage::Lzma => Encoder::stream(Container::Xz, options)?,
            Storage::Zlib if options.in_patterns && options.threads > 1 => {
                Encoder::Thread(Box::new(PackerThread::new()?))
            }
            Storage::Zlib if options.in_patterns => Encoder::Templates(Box::new(TemplateDeflater::new())),
            Storage::Zlib => Encoder::Blocks(BlockDeflater::new(options.level, options.threads)),
        };
        output.write_all(&header.to_bytes())?;
        Ok(Self { output, encoder })
    }

    /// Writes records that are bytes already.
    pub fn write(&mut self, records: &[Bytes]) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Stream(compressor) => compressor.write(&mut self.output, records.as_flattened()),
            Encoder::Blocks(blocks) => blocks.write(&mut self.output, records.as_flattened()),
            Encoder::Templates(templates) => templates.write(&mut self.output, records),
            Encoder::Thread(thread) => thread.write(&mut self.output, records),
        }
    }

    /// Writes the records of block executions, in order.
    pub fn patterns(&mut self, patterns: &mut Patterns, executions: Executions<'_>) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Templates(templates) => templates.patterns(&mut self.output, patterns, executions),
            Encoder::Thread(thread) => thread.patterns(&mut self.output, patterns, executions),
            Encoder::Stream(_) | Encoder::Blocks(_) => patterns.each(executions, |records| self.write(records)),
        }
    }

    /// Writes one record.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        self.write(&[record.to_bytes()])
    }

    /// Writes what is left, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        match self.encoder {
            Encoder::Stream(compressor) => compressor.finish(&mut self.output)?,
            Encoder::Blocks(blocks) => blocks.finish(&mut self.output)?,
            Encoder::Templates(templates) => templates.finish(&mut self.output)?,
            Encoder::Thread(thread) => thread.finish(&mut self.output)?,
        }
        self.output.flush()?;
        Ok(self.output)
    }
}

enum Encoder {
    /// Raw records and .xz.
    Stream(Compressor),
    Blocks(BlockDeflater),
    Templates(Box<TemplateDeflater>),
    Thread(Box<PackerThread>),
}

impl Encoder {
    fn stream(container: Container, options: WriteOptions) -> io::Result<Self> {
        let block_bytes = options.block_bytes.max(RECORD_BYTES).next_multiple_of(RECORD_BYTES) as u64;
        let options = CompressOptions { threads: options.threads, level: Some(options.level), block_bytes };
        Ok(Self::Stream(Compressor::new(container, options)?))
    }
}
