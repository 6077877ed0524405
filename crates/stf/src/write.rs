//! Writing a file: records, in any storage.
//!
//! records ─▶ **storage** (plain, .zstf, .gz, .xz, .zst) ─▶ output
//!
//! Records are not checked. For a .zstf file they are counted, because chunks are measured by instructions. The output
//! does not depend on the number of threads.

pub(super) mod options;

use std::io::{self, Seek, SeekFrom, Write};

use unspool_container::{CompressOptions, Compressor};

pub use self::options::WriteOptions;
use super::record::Record;
pub use super::storage::Storage;
use super::zstf::writer::ZstfWriter;

/// Writes the records of a trace. Without [`finish`](Self::finish) the file is truncated.
pub struct Writer<W> {
    output: W,
    storage: Storage,
    encoder: Encoder,
    /// Writes the offset of its index into a .zstf file.
    patch: Option<Patch<W>>,
    scratch: Vec<u8>,
}

/// Writes eight bytes at the first offset, and returns to the end, which is at the second.
type Patch<W> = fn(&mut W, [u64; 2], [u8; 8]) -> io::Result<()>;

impl<W: Write> Writer<W> {
    /// A writer to any output. Only [`Storage::Zstf`] needs [`seekable`](Self::seekable): its header has the offset of
    /// its index.
    pub fn new(output: W, storage: impl Into<Storage>, options: WriteOptions) -> io::Result<Self> {
        let storage = storage.into();
        if storage == Storage::Zstf {
            let why = "the header of a .zstf file has the offset of its index, so it cannot be written to a pipe; \
                write it to a file, or choose another container such as .stf.zst";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Self::with(output, storage, options, None)
    }

    fn with(output: W, storage: Storage, options: WriteOptions, patch: Option<Patch<W>>) -> io::Result<Self> {
        let encoder = match storage {
            Storage::Zstf => Encoder::Zstf(Box::new(ZstfWriter::new(options)?)),
            Storage::Stream(container) => {
                let WriteOptions { threads, level, .. } = options;
                let options = CompressOptions { threads, level, ..CompressOptions::default() };
                Encoder::Stream(Box::new(Compressor::new(container, options)?))
            }
        };
        Ok(Self { output, storage, encoder, patch, scratch: Vec::new() })
    }

    /// The storage of the trace.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Writes the bytes of whole records.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Stream(compressor) => compressor.write(&mut self.output, records),
            Encoder::Zstf(zstf) => zstf.write(&mut self.output, records),
        }
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

    /// Writes the rest and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        match self.encoder {
            Encoder::Stream(compressor) => compressor.finish(&mut self.output)?,
            Encoder::Zstf(zstf) => {
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
    /// A writer to a file in any storage, starting at its current position.
    pub fn seekable(output: W, storage: impl Into<Storage>, options: WriteOptions) -> io::Result<Self> {
        Self::with(output, storage.into(), options, Some(patch))
    }
}

fn patch<W: Write + Seek>(output: &mut W, [offset, length]: [u64; 2], bytes: [u8; 8]) -> io::Result<()> {
    let back = |from: u64| -(from as i64);
    output.seek(SeekFrom::Current(back(length) + offset as i64))?;
    output.write_all(&bytes)?;
    output.seek(SeekFrom::Current((length - offset - 8) as i64)).map(drop)
}

enum Encoder {
    Stream(Box<Compressor>),
    Zstf(Box<ZstfWriter>),
}
