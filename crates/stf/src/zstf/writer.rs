//! Writing .zstf: chunks that are measured by instructions, compressed by several threads, and their index.
//!
//! records ─▶ chunks of M instructions ─▶ threads ─▶ frames, in the same order ─▶ output
//!
//! The reference library moves to the next chunk when it has seen M instructions, not where the chunk ends, so a chunk
//! ends right after its last instruction. Records after the last instruction of all stay in the last chunk: a chunk
//! of them alone would be one that no instruction leads to. A trace without any instruction is one chunk.

use std::io::{self, Write};

use unspool_container::OrderedWorkers;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

use super::{Entry, HEADER, MAGIC, MAX_THREADS};
use crate::layout::Layout;
use crate::record::{Record, descriptor};
use crate::write::options::WriteOptions;

/// The window of every frame is 2 MiB, as in files of the reference library, also where a level would use more.
const WINDOW_LOG: u32 = 21;

/// Writes chunks.
pub(crate) struct ZstfWriter {
    layout: Layout,
    /// Number of markers of a chunk.
    markers: u64,
    /// Number of bytes that were written.
    written: u64,
    index: Vec<Entry>,
    /// A chunk that has all its markers, but may become the last.
    full: Option<Chunk>,
    chunk: Chunk,
    /// Address of the next instruction.
    next_pc: u64,
    target: Option<u64>,
    workers: OrderedWorkers<Chunk>,
    /// Chunks to be used again, for their memory.
    spare: Vec<Chunk>,
}

/// Records, and the frame that becomes of them.
#[derive(Default)]
struct Chunk {
    plain: Vec<u8>,
    compressed: Vec<u8>,
    markers: u64,
    pc: u64,
    failed: Option<io::Error>,
}

impl ZstfWriter {
    pub(crate) fn new(options: WriteOptions) -> io::Result<Self> {
        let markers = options.chunk_markers;
        if markers == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a chunk must have an instruction"));
        }
        let level = options.level.unwrap_or(3).min(19) as i32;
        let workers = OrderedWorkers::new(options.threads.min(MAX_THREADS), "stf pack", move || {
            let mut context = CCtx::try_create();
            move |chunk: &mut Chunk| {
                let out_of_memory = || io::ErrorKind::OutOfMemory.into();
                let result =
                    context.as_mut().ok_or_else(out_of_memory).and_then(|context| chunk.compress(context, level));
                chunk.failed = result.err();
            }
        });
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
            spare: Vec::new(),
        })
    }

    pub(crate) fn write(&mut self, output: &mut impl Write, records: &[u8]) -> io::Result<()> {
        let (mut start, mut at) = (0, 0);
        while at < records.len() {
            let record = &records[at..];
            let length =
                self.layout.length(record).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            at += length;
            if self.follow(&record[..length]) {
                // Now the previous chunk is not the last.
                if let Some(full) = self.full.take() {
                    self.send(output, full)?;
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

    /// Writes what is left. Returns the offset of the index and the length of the file.
    pub(crate) fn finish(mut self, output: &mut impl Write) -> io::Result<[u64; 2]> {
        let mut last = std::mem::take(&mut self.chunk);
        if let Some(mut full) = self.full.take() {
            if last.markers == 0 {
                full.plain.append(&mut last.plain);
            }
            self.send(output, full)?;
        }
        if !last.plain.is_empty() {
            self.send(output, last)?;
        }
        while let Some(chunk) = self.workers.pop()? {
            self.write_chunk(output, chunk)?;
        }
        self.start(output)?;
        let end = self.written;
        output.write_all(&(self.index.len() as u64).to_le_bytes())?;
        for entry in &self.index {
            output.write_all(&entry.to_bytes())?;
        }
        Ok([end, end + 8 + 24 * self.index.len() as u64])
    }

    /// Follows execution. True: the record is a marker.
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

    /// Closes the chunk, which has all its markers.
    fn close(&mut self) {
        let next = Chunk { markers: 0, pc: self.next_pc, ..self.spare.pop().unwrap_or_default() };
        self.full = Some(std::mem::replace(&mut self.chunk, next));
    }

    /// Sends a chunk to the threads.
    fn send(&mut self, output: &mut impl Write, chunk: Chunk) -> io::Result<()> {
        if !self.workers.has_room()
            && let Some(chunk) = self.workers.pop()?
        {
            self.write_chunk(output, chunk)?;
        }
        self.workers.push(chunk);
        Ok(())
    }

    fn write_chunk(&mut self, output: &mut impl Write, mut chunk: Chunk) -> io::Result<()> {
        if let Some(error) = chunk.failed.take() {
            return Err(error);
        }
        self.start(output)?;
        output.write_all(&chunk.compressed)?;
        self.index.push(Entry { offset: self.written, pc: chunk.pc, size: chunk.plain.len() as u64 });
        self.written += chunk.compressed.len() as u64;
        chunk.plain.clear();
        self.spare.push(chunk);
        Ok(())
    }

    /// Writes the header, without the offset of the index, which is not known yet.
    fn start(&mut self, output: &mut impl Write) -> io::Result<()> {
        if self.written > 0 {
            return Ok(());
        }
        self.written = HEADER;
        output.write_all(&MAGIC)?;
        output.write_all(&self.markers.to_le_bytes())?;
        output.write_all(&[0; 8])
    }
}

impl Chunk {
    /// Compresses as a stream, which does not know how long it will be: so the frame does not record it either, as in
    /// files of the reference library.
    fn compress(&mut self, context: &mut CCtx<'_>, level: i32) -> io::Result<()> {
        let failed = |code| io::Error::other(get_error_name(code));
        context.reset(ResetDirective::SessionAndParameters).map_err(failed)?;
        context.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
        context.set_parameter(CParameter::WindowLog(WINDOW_LOG)).map_err(failed)?;
        self.compressed.clear();
        let mut input = InBuffer::around(&self.plain);
        while input.pos() < self.plain.len() {
            self.compressed.reserve(CCtx::out_size());
            let filled = self.compressed.len();
            let mut output = OutBuffer::around_pos(&mut self.compressed, filled);
            context.compress_stream(&mut output, &mut input).map_err(failed)?;
        }
        loop {
            self.compressed.reserve(CCtx::out_size());
            let filled = self.compressed.len();
            let mut output = OutBuffer::around_pos(&mut self.compressed, filled);
            if context.end_stream(&mut output).map_err(failed)? == 0 {
                return Ok(());
            }
        }
    }
}
