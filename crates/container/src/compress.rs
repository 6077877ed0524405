//! Compression into any container.
//!
//! bytes ─▶ encoder, which writes to memory ─▶ output
//!
//! The same bytes are written for any number of threads.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use liblzma::stream::{Check, LzmaOptions, MtStreamBuilder, Stream};
use liblzma::write::XzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::Container;

/// Options of the compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompressOptions {
    /// Number of threads that compress blocks of .xz; all others are compressed by the thread of the caller.
    pub threads: usize,
    /// Compression level: 0 to 9 for gzip and zlib (default 6), xz and lzma (default 3), 1 to 19 for zstd (default 3).
    pub level: Option<u32>,
    /// Bytes of an .xz block, each of which is decompressed by one thread. The default of 4 MiB costs less than 1 % in size
    /// compared to 16 MiB.
    pub block_bytes: u64,
}

impl Default for CompressOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads, level: None, block_bytes: 4 << 20 }
    }
}

/// Number of bytes up to which small writes are collected.
const PENDING: usize = 64 << 10;

/// Maximum memory of an .xz encoder, which limits its threads.
const XZ_MEMORY: u64 = 2 << 30;

/// Compresses; the output is an argument of each call.
pub struct Compressor {
    encoder: Encoder,
    /// Bytes that wait until there are enough of them.
    pending: Vec<u8>,
}

/// The encoders, which write to memory.
enum Encoder {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Zlib(ZlibEncoder<Vec<u8>>),
    /// .xz and .lzma.
    Lzma(XzEncoder<Vec<u8>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Compressor {
    /// Starts a stream; nothing is written yet.
    pub fn new(container: Container, options: CompressOptions) -> io::Result<Self> {
        Ok(Self { encoder: Encoder::new(container, options)?, pending: Vec::with_capacity(PENDING) })
    }

    /// Compresses bytes.
    pub fn write(&mut self, output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        if self.pending.len() + bytes.len() > PENDING {
            self.encoder.write(output, &self.pending)?;
            self.pending.clear();
        }
        if bytes.len() >= PENDING {
            return self.encoder.write(output, bytes);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the stream.
    pub fn finish(mut self, output: &mut impl Write) -> io::Result<()> {
        self.encoder.write(output, &self.pending)?;
        output.write_all(&match self.encoder {
            Encoder::Plain => return Ok(()),
            Encoder::Gzip(gzip) => gzip.finish()?,
            Encoder::Zlib(zlib) => zlib.finish()?,
            Encoder::Lzma(lzma) => lzma.finish()?,
            Encoder::Zstd(zstd) => zstd.finish()?,
        })
    }
}

impl Encoder {
    fn new(container: Container, options: CompressOptions) -> io::Result<Self> {
        let level = |default: u32, max: u32| options.level.unwrap_or(default).min(max);
        let deflate = || Compression::new(level(6, 9));
        Ok(match container {
            Container::Plain => Self::Plain,
            Container::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), deflate())),
            Container::Zlib => Self::Zlib(ZlibEncoder::new(Vec::new(), deflate())),
            Container::Xz => Self::Lzma(XzEncoder::new_stream(Vec::new(), xz(level(3, 9), options)?)),
            Container::Lzma => {
                let stream = Stream::new_lzma_encoder(&LzmaOptions::new_preset(level(3, 9))?)?;
                Self::Lzma(XzEncoder::new_stream(Vec::new(), stream))
            }
            Container::Zstd => {
                let mut encoder = ZstdEncoder::new(Vec::new(), level(3, 19) as i32)?;
                // As the zstd command does.
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    fn write(&mut self, output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let compressed = match self {
            Self::Plain => return output.write_all(bytes),
            Self::Gzip(gzip) => {
                gzip.write_all(bytes)?;
                gzip.get_mut()
            }
            Self::Zlib(zlib) => {
                zlib.write_all(bytes)?;
                zlib.get_mut()
            }
            Self::Lzma(lzma) => {
                lzma.write_all(bytes)?;
                lzma.get_mut()
            }
            Self::Zstd(zstd) => {
                zstd.write_all(bytes)?;
                zstd.get_mut()
            }
        };
        output.write_all(compressed)?;
        compressed.clear();
        Ok(())
    }
}

/// The threaded encoder writes the size of every block into its header, where a reader finds the next one without
/// decompressing, so it is used for one thread too.
fn xz(level: u32, options: CompressOptions) -> io::Result<Stream> {
    let mut builder = MtStreamBuilder::new();
    builder.preset(level).check(Check::Crc64).block_size(options.block_bytes);
    let fits = |threads: &u32| builder.threads(*threads).memusage() <= XZ_MEMORY;
    let threads = (1..=options.threads.clamp(1, 256) as u32).rev().find(fits).unwrap_or(1);
    Ok(builder.threads(threads).encoder()?)
}

/// Compresses everything that is written to it. Without [`finish`](Self::finish) the stream is cut short.
pub struct CompressedWriter<W> {
    output: W,
    compressor: Compressor,
}

impl<W: Write> CompressedWriter<W> {
    /// Starts a stream; nothing is written yet.
    pub fn new(output: W, container: Container, options: CompressOptions) -> io::Result<Self> {
        Ok(Self { output, compressor: Compressor::new(container, options)? })
    }

    /// Ends the stream, flushes the output and returns it.
    pub fn finish(mut self) -> io::Result<W> {
        self.compressor.finish(&mut self.output)?;
        self.output.flush()?;
        Ok(self.output)
    }
}

impl<W: Write> Write for CompressedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.compressor.write(&mut self.output, bytes)?;
        Ok(bytes.len())
    }

    /// Flushes the output only: flushing the compressor would cost compression.
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
