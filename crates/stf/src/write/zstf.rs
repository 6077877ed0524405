//! .zstf: chunks that are measured by instructions, compressed by several threads, and their index.
//!
//! records ─▶ chunks of M instructions ─▶ threads, in turn ─▶ frames, in the same order ─▶ output
//!
//! The reference library goes to the next chunk when it has seen M instructions, not where the chunk ends, so a chunk
//! ends right behind its last instruction. Records behind the last instruction of all stay in the last chunk: a chunk
//! of them alone would be one that no instruction leads to. A trace without any instruction is one chunk.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::{Container, WriteOptions};
use crate::container::zstf::{Entry, HEADER};
use crate::layout::Layout;
use crate::record::{Record, descriptor};

/// More threads than this are of no use, and would want more memory than they should.
const MOST_THREADS: usize = 64;

/// The window of every frame is 2 MiB, as the reference library has it, also where a level would like more.
const WINDOW_LOG: u32 = 21;

/// Writes chunks.
pub(super) struct Zstf {
    layout: Layout,
    /// How many markers a chunk has.
    markers: u64,
    /// How many bytes were written.
    written: u64,
    index: Vec<Entry>,
    /// A chunk that has all its markers, but may become the last.
    full: Option<Chunk>,
    chunk: Chunk,
    /// Where execution goes on.
    next_pc: u64,
    target: Option<u64>,
    workers: Vec<Worker>,
    /// How many chunks were given out, and how many came back.
    given: usize,
    taken: usize,
    /// Memory of chunks that came back.
    spare: Vec<Chunk>,
}

/// Records, and what becomes of them.
#[derive(Default)]
struct Chunk {
    plain: Vec<u8>,
    packed: Vec<u8>,
    markers: u64,
    pc: u64,
}

impl Zstf {
    pub(super) fn new(level: i32, options: WriteOptions) -> io::Result<Self> {
        let markers = options.chunk_markers;
        if markers == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a chunk must have an instruction"));
        }
        let workers = match options.threads.min(MOST_THREADS) {
            0 | 1 => vec![Worker::Caller(Box::new(Compressor::new(level)?), None)],
            threads => (0..threads).map(|_| Worker::thread(level)).collect::<io::Result<_>>()?,
        };
        Ok(Self {
            layout: Layout::default(),
            markers,
            written: 0,
            index: Vec::new(),
            full: None,
            chunk: Chunk::default(),
            next_pc: 0,
            target: None,
            workers,
            given: 0,
            taken: 0,
            spare: Vec::new(),
        })
    }

    pub(super) fn write(&mut self, output: &mut impl Write, records: &[u8]) -> io::Result<()> {
        let (mut start, mut at) = (0, 0);
        while at < records.len() {
            let record = &records[at..];
            let length =
                self.layout.length(record).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            at += length;
            if self.follow(&record[..length]) {
                // Now the chunk before is not the last.
                if let Some(full) = self.full.take() {
                    self.give(output, full)?;
                }
                self.chunk.markers += 1;
                if self.chunk.markers == self.markers {
                    self.chunk.plain.extend_from_slice(&records[start..at]);
                    start = at;
                    self.close();
                }
            }
        }
        self.chunk.plain.extend_from_slice(&records[start..]);
        Ok(())
    }

    /// Writes what is left: where the index starts, and how long the file is.
    pub(super) fn finish(mut self, output: &mut impl Write) -> io::Result<[u64; 2]> {
        let mut last = std::mem::take(&mut self.chunk);
        if let Some(mut full) = self.full.take() {
            if last.markers == 0 {
                full.plain.append(&mut last.plain);
            }
            self.give(output, full)?;
        }
        if !last.plain.is_empty() {
            self.give(output, last)?;
        }
        while self.taken < self.given {
            self.take(output)?;
        }
        self.start(output)?;
        let end = self.written;
        output.write_all(&(self.index.len() as u64).to_le_bytes())?;
        for entry in &self.index {
            output.write_all(&entry.to_bytes())?;
        }
        Ok([end, end + 8 + 24 * self.index.len() as u64])
    }

    /// Follows execution. True: it is a marker.
    fn follow(&mut self, record: &[u8]) -> bool {
        let word = || record[1..].first_chunk().map(|word| u64::from_le_bytes(*word));
        match record[0] {
            descriptor::INST_OPCODE32 => self.execute(4),
            descriptor::INST_OPCODE16 => self.execute(2),
            descriptor::TRANSACTION => return true,
            descriptor::INST_PC_TARGET | descriptor::EVENT_PC_TARGET => {
                self.target = word();
                return false;
            }
            descriptor::FORCE_PC => {
                self.next_pc = word().unwrap_or(self.next_pc);
                return false;
            }
            0..=descriptor::END_HEADER => {
                if let Ok((record, _)) = Record::parse(record, &self.layout) {
                    self.layout.follow(&record);
                }
                return false;
            }
            _ => return false,
        }
        true
    }

    fn execute(&mut self, length: u64) {
        self.next_pc = self.target.take().unwrap_or(self.next_pc.wrapping_add(length));
    }

    /// The chunk has all its markers.
    fn close(&mut self) {
        let next = Chunk { markers: 0, pc: self.next_pc, ..self.spare.pop().unwrap_or_default() };
        self.full = Some(std::mem::replace(&mut self.chunk, next));
    }

    /// Gives a chunk to the thread whose turn it is.
    fn give(&mut self, output: &mut impl Write, chunk: Chunk) -> io::Result<()> {
        if self.given - self.taken == self.in_flight() {
            self.take(output)?;
        }
        let turn = self.given % self.workers.len();
        self.given += 1;
        self.workers[turn].give(chunk)
    }

    /// How many chunks may be on their way.
    fn in_flight(&self) -> usize {
        match &self.workers[..] {
            [Worker::Caller(..)] => 1,
            threads => threads.len() + 1,
        }
    }

    /// Takes the oldest chunk back and writes it.
    fn take(&mut self, output: &mut impl Write) -> io::Result<()> {
        let turn = self.taken % self.workers.len();
        self.taken += 1;
        let mut chunk = self.workers[turn].take()?;
        self.start(output)?;
        output.write_all(&chunk.packed)?;
        self.index.push(Entry { offset: self.written, pc: chunk.pc, size: chunk.plain.len() as u64 });
        self.written += chunk.packed.len() as u64;
        chunk.plain.clear();
        self.spare.push(chunk);
        Ok(())
    }

    /// Where the index will be is not known yet.
    fn start(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.written > 0 {
            return Ok(());
        }
        self.written = HEADER;
        output.write_all(Container::Zstf.magic())?;
        output.write_all(&self.markers.to_le_bytes())?;
        output.write_all(&[0; 8])
    }
}

/// Makes a frame of a chunk.
struct Compressor {
    context: CCtx<'static>,
    level: i32,
}

impl Compressor {
    fn new(level: i32) -> io::Result<Self> {
        let context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { context, level })
    }

    /// As a stream, which does not know how long it will be: so the frame does not say either, as the reference
    /// library has it.
    fn pack(&mut self, chunk: &mut Chunk) -> io::Result<()> {
        let failed = |code| io::Error::other(get_error_name(code));
        self.context.reset(ResetDirective::SessionAndParameters).map_err(failed)?;
        self.context.set_parameter(CParameter::CompressionLevel(self.level)).map_err(failed)?;
        self.context.set_parameter(CParameter::WindowLog(WINDOW_LOG)).map_err(failed)?;
        chunk.packed.clear();
        let mut input = InBuffer::around(&chunk.plain);
        while input.pos() < chunk.plain.len() {
            chunk.packed.reserve(CCtx::out_size());
            let filled = chunk.packed.len();
            let mut output = OutBuffer::around_pos(&mut chunk.packed, filled);
            self.context.compress_stream(&mut output, &mut input).map_err(failed)?;
        }
        loop {
            chunk.packed.reserve(CCtx::out_size());
            let filled = chunk.packed.len();
            let mut output = OutBuffer::around_pos(&mut chunk.packed, filled);
            if self.context.end_stream(&mut output).map_err(failed)? == 0 {
                return Ok(());
            }
        }
    }
}

/// The caller itself, or a thread that takes chunks and gives them back in the same order.
enum Worker {
    Caller(Box<Compressor>, Option<Chunk>),
    Thread(SyncSender<Chunk>, Receiver<io::Result<Chunk>>),
}

impl Worker {
    fn thread(level: i32) -> io::Result<Self> {
        let (give, given) = sync_channel::<Chunk>(2);
        let (done, take) = sync_channel(2);
        let mut compressor = Compressor::new(level)?;
        let run = move || {
            for mut chunk in given {
                let result = compressor.pack(&mut chunk).map(|()| chunk);
                if done.send(result).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("stf pack".into()).spawn(run)?;
        Ok(Self::Thread(give, take))
    }

    fn give(&mut self, mut chunk: Chunk) -> io::Result<()> {
        match self {
            Self::Caller(compressor, done) => {
                compressor.pack(&mut chunk)?;
                *done = Some(chunk);
                Ok(())
            }
            Self::Thread(give, _) => give.send(chunk).map_err(|_| failed()),
        }
    }

    fn take(&mut self) -> io::Result<Chunk> {
        match self {
            Self::Caller(_, done) => done.take().ok_or_else(failed),
            Self::Thread(_, take) => take.recv().map_err(|_| failed())?,
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("a thread that compresses has failed")
}
