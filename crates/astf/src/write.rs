//! Writing a file: the header as it is given, and records behind it, stored as the header says.
//!
//! records ─▶ pack (raw, .xz, zlib) ─▶ output
//!
//! Compression is spread over threads in blocks, so that a reader can do the same; what is written is the same for any
//! number of threads. Only a few blocks are in memory at a time. No record is judged here.
//! Specification: Arm Architectural Structured Trace Format, issue 0.11, "Header and file format".

mod apart;
mod codes;
mod pattern;
mod repeats;
mod spelling;
mod zlib;

use std::io::{self, Write};

use liblzma::stream::{Action, Check, MtStreamBuilder, Status, Stream};

use self::apart::Apart;
pub use self::pattern::{Passes, Patterns};
use self::repeats::Repeats;
use self::zlib::Zlib;
use super::layout::Bytes;
use super::record::{Header, RECORD_BYTES, Record, Storage};

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WriteOptions {
    /// How many threads compress.
    pub threads: usize,
    /// How hard to compress: the preset of xz or the level of zlib, 0 to 9.
    ///
    /// Records repeat themselves, so little is gained by trying harder. A made-up trace of loops became, by the default
    /// of 1, 45 times smaller with xz and 18 times with zlib; by 2, 46 and 22 times; by 3, no smaller. xz took two
    /// thirds more time for 2 than for 0, and from 4 on five times as much.
    pub level: u32,
    /// How many bytes of records an .xz block has, of which each is decompressed by one thread. The default of 4 MiB
    /// costs less than one part in a hundred against one of 16 MiB.
    pub block_bytes: usize,
    /// Records come in patterns ([`Writer::patterns`]), so that zlib need not look for what repeats: faster by far, and a
    /// little larger. The level is of no interest then, and one thread is as good as many.
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
    pack: Pack,
    /// Records that wait until there are enough of them.
    waiting: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header as it is; it says how the records are stored.
    pub fn new(mut output: W, header: &Header, options: WriteOptions) -> io::Result<Self> {
        let pack = match header.storage() {
            Storage::Raw => Pack::Raw,
            Storage::Lzma => Pack::Xz(Xz::new(options)?),
            Storage::Zlib if options.in_patterns && options.threads > 1 => Pack::Apart(Box::new(Apart::new()?)),
            Storage::Zlib if options.in_patterns => Pack::Repeats(Box::new(Repeats::new())),
            Storage::Zlib => Pack::Zlib(Zlib::new(options)),
        };
        output.write_all(&header.to_bytes())?;
        Ok(Self { output, pack, waiting: Vec::with_capacity(WAITING) })
    }

    /// Writes records that are bytes already.
    pub fn write(&mut self, records: &[Bytes]) -> io::Result<()> {
        match &mut self.pack {
            Pack::Repeats(repeats) => return repeats.write(&mut self.output, records),
            Pack::Apart(apart) => return apart.write(&mut self.output, records),
            Pack::Raw | Pack::Xz(_) | Pack::Zlib(_) => {}
        }
        let bytes = records.as_flattened();
        if self.waiting.len() + bytes.len() > WAITING {
            self.pack.write(&mut self.output, &self.waiting)?;
            self.waiting.clear();
        }
        if bytes.len() >= WAITING {
            return self.pack.write(&mut self.output, bytes);
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the records of passes, one behind the other.
    pub fn patterns(&mut self, patterns: &mut Patterns, passes: Passes<'_>) -> io::Result<()> {
        match &mut self.pack {
            Pack::Repeats(repeats) => repeats.patterns(&mut self.output, patterns, passes),
            Pack::Apart(apart) => apart.patterns(&mut self.output, patterns, passes),
            Pack::Raw | Pack::Xz(_) | Pack::Zlib(_) => patterns.each(passes, |records| self.write(records)),
        }
    }

    /// Writes one record.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        self.write(&[record.to_bytes()])
    }

    /// Writes what is left, and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.pack.write(&mut self.output, &self.waiting)?;
        match self.pack {
            Pack::Raw => {}
            Pack::Xz(mut xz) => xz.finish(&mut self.output)?,
            Pack::Zlib(zlib) => zlib.finish(&mut self.output)?,
            Pack::Repeats(repeats) => repeats.finish(&mut self.output)?,
            Pack::Apart(apart) => apart.finish(&mut self.output)?,
        }
        self.output.flush()?;
        Ok(self.output)
    }
}

/// Fewer bytes than this are not worth the way to the output.
const WAITING: usize = 64 << 10;

enum Pack {
    Raw,
    Xz(Xz),
    Zlib(Zlib),
    /// They keep back what they have to.
    Repeats(Box<Repeats>),
    Apart(Box<Apart>),
}

impl Pack {
    fn write(&mut self, output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Raw => output.write_all(bytes),
            Self::Xz(xz) => xz.write(output, bytes),
            Self::Zlib(zlib) => zlib.write(output, bytes),
            Self::Repeats(_) | Self::Apart(_) => Ok(()),
        }
    }
}

/// The .xz container. The threaded encoder writes the size of every block into its header, where a reader finds the
/// next one without decompressing, so it is used for one thread too.
struct Xz {
    stream: Stream,
    packed: Vec<u8>,
}

/// Threads are left out rather than using more memory than this.
const XZ_MEMORY: u64 = 2 << 30;

impl Xz {
    fn new(options: WriteOptions) -> io::Result<Self> {
        let block = options.block_bytes.max(RECORD_BYTES).next_multiple_of(RECORD_BYTES);
        let mut builder = MtStreamBuilder::new();
        builder.preset(options.level.min(9)).check(Check::Crc64).block_size(block as u64);
        let fits = |threads: &u32| builder.threads(*threads).memusage() <= XZ_MEMORY;
        let most = options.threads.clamp(1, 256) as u32;
        let threads = (1..=most).rev().find(fits).unwrap_or(1);
        Ok(Self { stream: builder.threads(threads).encoder()?, packed: Vec::with_capacity(WAITING) })
    }

    fn write(&mut self, output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let before = self.stream.total_in();
            self.step(output, bytes, Action::Run)?;
            bytes = &bytes[(self.stream.total_in() - before) as usize..];
        }
        Ok(())
    }

    fn finish(&mut self, output: &mut impl Write) -> io::Result<()> {
        while self.step(output, &[], Action::Finish)? != Status::StreamEnd {}
        Ok(())
    }

    fn step(&mut self, output: &mut impl Write, bytes: &[u8], action: Action) -> io::Result<Status> {
        self.packed.clear();
        let status = self.stream.process_vec(bytes, &mut self.packed, action)?;
        output.write_all(&self.packed)?;
        Ok(status)
    }
}
