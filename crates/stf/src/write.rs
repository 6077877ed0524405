//! Writing a file: records as they are given, in any container.
//!
//! records ─▶ **container** (plain, .zstf, .gz, .xz, .zst) ─▶ output
//!
//! No record is judged here, but for a .zstf file they are counted: that is what its chunks are measured by. What is
//! written is the same for any number of threads.

mod zstf;

use std::io::{self, Seek, SeekFrom, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use liblzma::stream::{Check, MtStreamBuilder};
use liblzma::write::XzEncoder;

use self::zstf::Zstf;
pub use super::container::Container;
use super::record::Record;

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteOptions {
    /// How many threads compress, where the container is one of blocks: .zstf and .xz.
    pub threads: usize,
    /// How hard to compress, as gzip (0 to 9, 6 if not said), xz (0 to 9, 3) or zstd (1 to 19, 3) mean it.
    pub level: Option<u32>,
    /// How many instructions, or transactions, a chunk of a .zstf file has.
    pub chunk_markers: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            level: None,
            chunk_markers: 100_000,
        }
    }
}

/// Writes the records of a trace. Without [`finish`](Self::finish) the file is cut short.
pub struct Writer<W> {
    output: W,
    container: Container,
    pack: Pack,
    /// Has a .zstf file say where its index is.
    patch: Option<Patch<W>>,
    /// Bytes that wait until there are enough of them.
    waiting: Vec<u8>,
    scratch: Vec<u8>,
}

/// Writes eight bytes at a place, and goes back to the end, which is at another.
type Patch<W> = fn(&mut W, [u64; 2], [u8; 8]) -> io::Result<()>;

/// Fewer bytes than this are not worth the way to the output.
const WAITING: usize = 64 << 10;

impl<W: Write> Writer<W> {
    /// Writes to anything. The one container that this is not enough for is [`Container::Zstf`]: its first bytes say
    /// where its last are, so it needs [`seekable`](Self::seekable).
    pub fn new(output: W, container: Container, options: WriteOptions) -> io::Result<Self> {
        if container == Container::Zstf {
            let why = "a .zstf file says at its start where it ends, so it cannot be written to a pipe; \
                write it to a file, or choose another container such as .stf.zst";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Self::with(output, container, options, None)
    }

    fn with(output: W, container: Container, options: WriteOptions, patch: Option<Patch<W>>) -> io::Result<Self> {
        let pack = Pack::new(container, options)?;
        Ok(Self { output, container, pack, patch, waiting: Vec::with_capacity(WAITING), scratch: Vec::new() })
    }

    /// What is written.
    pub fn container(&self) -> Container {
        self.container
    }

    /// Writes the bytes of records, of which none may be cut.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        if self.waiting.len() + records.len() > WAITING {
            self.pack.write(&mut self.output, &self.waiting)?;
            self.waiting.clear();
        }
        if records.len() >= WAITING {
            return self.pack.write(&mut self.output, records);
        }
        self.waiting.extend_from_slice(records);
        Ok(())
    }

    /// Writes one record.
    pub fn record(&mut self, record: &Record<'_>) -> io::Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        record.encode(&mut scratch);
        let result = self.write(&scratch);
        self.scratch = scratch;
        result
    }

    /// Writes what is left, and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.pack.write(&mut self.output, &self.waiting)?;
        match self.pack {
            Pack::Plain => {}
            Pack::Gzip(gzip) => self.output.write_all(&gzip.finish()?)?,
            Pack::Xz(xz) => self.output.write_all(&xz.finish()?)?,
            Pack::Zstd(zstd) => self.output.write_all(&zstd.finish()?)?,
            Pack::Zstf(zstf) => {
                let [end, length] = zstf.finish(&mut self.output)?;
                if let Some(patch) = self.patch {
                    patch(&mut self.output, [12, length], end.to_le_bytes())?;
                }
            }
        }
        self.output.flush()?;
        Ok(self.output)
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Writes any container to a file, from where that is.
    pub fn seekable(output: W, container: Container, options: WriteOptions) -> io::Result<Self> {
        Self::with(output, container, options, Some(patch))
    }
}

fn patch<W: Write + Seek>(output: &mut W, [place, length]: [u64; 2], bytes: [u8; 8]) -> io::Result<()> {
    let back = |from: u64| -(from as i64);
    output.seek(SeekFrom::Current(back(length) + place as i64))?;
    output.write_all(&bytes)?;
    output.seek(SeekFrom::Current((length - place - 8) as i64)).map(drop)
}

/// The compressors, which write to memory.
enum Pack {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Xz(XzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Zstf(Box<Zstf>),
}

impl Pack {
    fn new(container: Container, options: WriteOptions) -> io::Result<Self> {
        let level = |usual: u32, most: u32| options.level.unwrap_or(usual).min(most);
        Ok(match container {
            Container::Plain => Self::Plain,
            Container::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::new(level(6, 9)))),
            Container::Xz => Self::Xz(xz(level(3, 9), options.threads)?),
            Container::Zstd => Self::Zstd(zstd(level(3, 19) as i32)?),
            Container::Zstf => Self::Zstf(Box::new(Zstf::new(level(3, 19) as i32, options)?)),
        })
    }

    fn write(&mut self, output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let packed = match self {
            Self::Plain => return output.write_all(bytes),
            Self::Zstf(zstf) => return zstf.write(output, bytes),
            Self::Gzip(gzip) => {
                gzip.write_all(bytes)?;
                gzip.get_mut()
            }
            Self::Xz(xz) => {
                xz.write_all(bytes)?;
                xz.get_mut()
            }
            Self::Zstd(zstd) => {
                zstd.write_all(bytes)?;
                zstd.get_mut()
            }
        };
        output.write_all(packed)?;
        packed.clear();
        Ok(())
    }
}

/// With a check value, as the zstd command has it.
fn zstd(level: i32) -> io::Result<zstd::stream::write::Encoder<'static, Vec<u8>>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// Bytes of an .xz block, of which each is decompressed by one thread.
const XZ_BLOCK: u64 = 4 << 20;

/// Threads are left out rather than using more memory than this.
const XZ_MEMORY: u64 = 2 << 30;

/// The threaded encoder writes the size of every block into its header, where a reader finds the next one without
/// decompressing, so it is used for one thread too.
fn xz(level: u32, threads: usize) -> io::Result<XzEncoder<Vec<u8>>> {
    let mut builder = MtStreamBuilder::new();
    builder.preset(level).check(Check::Crc64).block_size(XZ_BLOCK);
    let fits = |threads: &u32| builder.threads(*threads).memusage() <= XZ_MEMORY;
    let threads = (1..=threads.clamp(1, 256) as u32).rev().find(fits).unwrap_or(1);
    Ok(XzEncoder::new_stream(Vec::new(), builder.threads(threads).encoder()?))
}
