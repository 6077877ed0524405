//! STF files as the verbs meet them: opened by name or from a pipe, with what the header says, and a progress bar.
//!
//! Comes in: a path. Goes out: records or instructions. Damage on the way is told with its place, when everything before
//! it has been handed out.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, anyhow};
use unspool::OpenedSteps;
use unspool::container::{Damage, Fault};
use unspool::stf::lift::{Follower, Instruction};
use unspool::stf::read::{ChunkSizes, Gather, Place, ReadError, ReadErrorKind, ReadOptions, Reader, Storage, Warning};
use unspool::stf::record::Record;
use unspool::stf::steps::Steps;

use crate::Verdict;
use crate::args::tell;
use crate::astf::End;
use crate::progress::{Meter, Progress};

/// How many records or instructions go by between two looks at the progress bar.
const STRIDE: u64 = 1 << 16;

/// A file that is read.
pub(crate) struct Stf {
    name: String,
    reader: Reader<Box<dyn Read + Send>>,
    read: Arc<AtomicU64>,
    /// How many bytes the file has; of a pipe nobody knows.
    size: Option<u64>,
    /// Warnings that were told. Who goes back in a file meets them again.
    told: Vec<Warning>,
}

impl Stf {
    /// Opens a file. `None`: it is such a file, but damaged before the first record; that was told.
    pub(crate) fn open(path: &Path, threads: Option<usize>) -> anyhow::Result<Option<Self>> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| name.clone())?;
        let size = file.metadata().with_context(|| name.clone())?.len();
        let read = Arc::new(AtomicU64::new(0));
        let input = Counted { input: file, read: Arc::clone(&read) };
        Self::with(name, Reader::seekable(input, options(threads)), read, Some(size))
    }

    /// Opens what is being read already.
    pub(crate) fn of(name: &str, input: Box<dyn Read + Send>, threads: Option<usize>) -> anyhow::Result<Option<Self>> {
        let read = Arc::new(AtomicU64::new(0));
        let input = Counted { input, read: Arc::clone(&read) };
        Self::with(name.to_string(), Reader::new(input, options(threads)), read, None)
    }

    fn with(
        name: String,
        reader: Result<Reader<Box<dyn Read + Send>>, ReadError>,
        read: Arc<AtomicU64>,
        size: Option<u64>,
    ) -> anyhow::Result<Option<Self>> {
        match reader {
            Ok(reader) => Ok(Some(Self { name, reader, read, size, told: Vec::new() })),
            Err(error) if is_failure(&error.kind) => Err(refused(&name, error)),
            Err(error) => {
                tell(damage(&name, &error));
                Ok(None)
            }
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes it has; of a pipe nobody knows.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// How many bytes of the file were read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Does the header say that the instructions are those of Arm?
    pub(crate) fn is_arm(&self) -> bool {
        self.reader.isa() == Some(2)
    }

    /// Its steps, and how far reading has come.
    pub(crate) fn into_steps(self) -> (OpenedSteps, Meter) {
        let meter = Meter { read: self.read, size: self.size };
        (Box::new(Steps::new(self.reader)), meter)
    }

    /// What it is stored in.
    pub(crate) fn storage(&self) -> Storage {
        self.reader.storage()
    }

    /// How it is cut into chunks, if it is.
    pub(crate) fn chunks(&self) -> Option<ChunkSizes> {
        self.reader.chunks()
    }

    /// What is odd about it, as far as it was read.
    pub(crate) fn warnings(&self) -> &[Warning] {
        self.reader.warnings()
    }

    /// Says what is odd about it and was not said before.
    pub(crate) fn tell_warnings(&mut self) {
        for warning in self.reader.warnings() {
            if !self.told.contains(warning) {
                tell(format_args!("{}: {warning}", self.name));
                self.told.push(*warning);
            }
        }
    }

    /// The reader, for what goes its own way through the trace.
    pub(crate) fn reader(&mut self) -> &mut Reader<Box<dyn Read + Send>> {
        &mut self.reader
    }

    /// How it ended, of what went its own way.
    pub(crate) fn ended(&mut self, read: Result<bool, ReadError>) -> anyhow::Result<End> {
        let end = match read {
            Ok(true) => End::Left,
            Ok(false) => End::Whole,
            Err(error) if is_failure(&error.kind) => return Err(refused(&self.name, error)),
            Err(error) => End::Damaged(damage(&self.name, &error)),
        };
        Ok(end)
    }

    /// Reads the header. What stands behind it comes next.
    pub(crate) fn header(&mut self) -> anyhow::Result<Result<Header, End>> {
        let mut header = Header::default();
        let mut stray = None;
        let read = self.reader.each(|place, record| {
            header.take(record);
            if header.is_complete {
                return ControlFlow::Break(());
            }
            if record.descriptor() > unspool::stf::record::descriptor::END_HEADER {
                stray = Some((place, record.descriptor()));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if let Some((Place { record, offset }, descriptor)) = stray {
            let name = unspool::stf::names::record(descriptor).unwrap_or("unknown");
            let what = format!("a record {name} before the end of the header; 'unspool dump --records' goes on");
            return Ok(Err(End::Damaged(format!("{}: record {record} at offset {offset:#x}: {what}", self.name))));
        }
        match self.ended(read)? {
            End::Left => Ok(Ok(header)),
            End::Whole => Ok(Err(End::Damaged(format!("{}: the trace ends within its header", self.name)))),
            damaged => Ok(Err(damaged)),
        }
    }

    /// Hands out records until there are no more or `take` wants no more. What keeps us from reading on is an error;
    /// damage is not, but an end.
    pub(crate) fn each(
        &mut self,
        progress: &mut Progress,
        mut take: impl FnMut(Place, &Record<'_>) -> bool,
    ) -> anyhow::Result<End> {
        let Self { reader, read, size, .. } = self;
        let mut until_look = STRIDE;
        let ended = reader.each(|place, record| {
            until_look -= 1;
            if until_look == 0 {
                until_look = STRIDE;
                look(progress, read, *size);
            }
            flow(take(place, record))
        });
        self.ended(ended)
    }

    /// The same with instructions.
    pub(crate) fn each_instruction(
        &mut self,
        follower: &mut Follower,
        progress: &mut Progress,
        mut take: impl FnMut(&Instruction<'_>) -> bool,
    ) -> anyhow::Result<End> {
        let Self { reader, read, size, .. } = self;
        let mut until_look = STRIDE;
        let ended = reader.each_instruction(follower, |instruction| {
            until_look -= 1;
            if until_look == 0 {
                until_look = STRIDE;
                look(progress, read, *size);
            }
            flow(take(instruction))
        });
        self.ended(ended)
    }

    /// The same with all that are left, by several threads where the file allows that.
    pub(crate) fn gather<G: Gather>(
        &mut self,
        follower: &mut Follower,
        progress: &mut Progress,
        into: G,
    ) -> anyhow::Result<(G, End)> {
        let Self { reader, read, size, .. } = self;
        let mut watched = Watched { into, watch: Some((STRIDE, progress, read, *size)) };
        let ended = reader.gather(follower, &mut watched);
        let into = watched.into;
        Ok((into, self.ended(ended)?))
    }

    /// The same with the bytes of many records at a time.
    pub(crate) fn each_run(
        &mut self,
        progress: &mut Progress,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> anyhow::Result<End> {
        let Self { reader, read, size, .. } = self;
        let ended = reader.each_run(|_, bytes| {
            look(progress, read, *size);
            flow(take(bytes))
        });
        self.ended(ended)
    }
}

/// Looks at the progress bar on the way. Parts do not: they are of other threads.
struct Watched<'w, G> {
    into: G,
    /// How many instructions until the next look, and what is looked at.
    watch: Option<(u64, &'w mut Progress, &'w AtomicU64, Option<u64>)>,
}

impl<G: Gather> Gather for Watched<'_, G> {
    fn take(&mut self, instruction: &Instruction<'_>) {
        self.into.take(instruction);
        if let Some((until_look, progress, read, size)) = &mut self.watch {
            *until_look -= 1;
            if *until_look == 0 {
                *until_look = STRIDE;
                look(progress, read, *size);
            }
        }
    }

    fn part(&self) -> Self {
        Self { into: self.into.part(), watch: None }
    }

    fn append(&mut self, part: Self) {
        self.into.append(part.into);
        if let Some((_, progress, read, size)) = &mut self.watch {
            look(progress, read, *size);
        }
    }
}

fn look(progress: &mut Progress, read: &AtomicU64, size: Option<u64>) {
    if let Some(size) = size {
        progress.at(read.load(Ordering::Relaxed), size);
    }
}

fn flow(wants_more: bool) -> ControlFlow<()> {
    if wants_more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn options(threads: Option<usize>) -> ReadOptions {
    threads.map_or_else(ReadOptions::default, |threads| ReadOptions { threads })
}

/// Comments, tools and clocks that are kept, and how much of each text.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 200;

/// What the header says.
#[derive(Debug, Default)]
pub(crate) struct Header {
    pub(crate) version: Option<(u32, u32)>,
    pub(crate) isa: Option<u16>,
    pub(crate) iem: Option<u16>,
    pub(crate) comments: Vec<String>,
    pub(crate) makers: Vec<Maker>,
    pub(crate) features: Option<u64>,
    pub(crate) process: Option<[u32; 3]>,
    pub(crate) pc: Option<u64>,
    pub(crate) vlen: Option<u32>,
    pub(crate) extensions: Option<String>,
    pub(crate) protocol: Option<u8>,
    pub(crate) clocks: Vec<(u8, String)>,
    pub(crate) records: u64,
    is_complete: bool,
}

/// Who made the trace, or changed it.
#[derive(Debug)]
pub(crate) struct Maker {
    pub(crate) generator: u8,
    pub(crate) version: [u8; 3],
    pub(crate) comment: String,
}

impl Header {
    /// Follows instructions from the start of the trace on.
    pub(crate) fn follower(&self) -> Follower {
        Follower {
            next_pc: self.pc.unwrap_or(0),
            iem: self.iem.unwrap_or(0),
            isa: self.isa.unwrap_or(0),
            ..Follower::default()
        }
    }

    /// Has it transactions instead of instructions?
    pub(crate) fn has_transactions(&self) -> bool {
        const TRANSACTIONS: u64 = 0x10_0000;
        self.protocol.is_some() || self.features.is_some_and(|features| features & TRANSACTIONS != 0)
    }

    /// The records that tell the instruction set.
    pub(crate) fn isa_records(&self) -> [Record<'_>; 2] {
        let extensions = self.extensions.as_deref().unwrap_or_default();
        [Record::Isa(self.isa.unwrap_or(1)), Record::IsaExtended(extensions.as_bytes())]
    }

    fn take(&mut self, record: &Record<'_>) {
        self.records += 1;
        match record {
            Record::Version { major, minor } => self.version = Some((*major, *minor)),
            Record::Isa(isa) => self.isa = Some(*isa),
            Record::InstIem(iem) => self.iem = Some(*iem),
            Record::Comment(text) if self.comments.len() < KEPT => self.comments.push(kept(text)),
            Record::TraceInfo(info) if self.makers.len() < KEPT => self.makers.push(Maker {
                generator: info.generator,
                version: info.version,
                comment: kept(info.comment),
            }),
            Record::TraceInfoFeature(features) => self.features = Some(*features),
            Record::ProcessIdExt(ids) => self.process = Some(*ids),
            Record::ForcePc(pc) => self.pc = Some(*pc),
            Record::VlenConfig(bits) => self.vlen = Some(*bits),
            Record::IsaExtended(text) => self.extensions = Some(kept(text)),
            Record::ProtocolId(id) => self.protocol = Some(*id),
            Record::ClockId { id, name } if self.clocks.len() < KEPT => self.clocks.push((*id, kept(name))),
            Record::EndHeader => self.is_complete = true,
            _ => {}
        }
    }
}

/// Text for a line: not too much of it, and what is no text spelled out.
fn kept(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(KEPT_BYTES)];
    let mut text: String = String::from_utf8_lossy(start).escape_debug().collect();
    text.push_str(if bytes.len() > KEPT_BYTES { ".." } else { "" });
    text
}

/// Is it we who cannot, rather than the trace that is broken?
fn is_failure(kind: &ReadErrorKind) -> bool {
    use ReadErrorKind::{Backward, Chunk, Compressed, Empty, Io, NotStf, Version};
    match kind {
        Empty | NotStf(_) | Version { .. } | Backward(_) | Io(_) => true,
        Chunk { fault, .. } | Compressed(Damage { fault, .. }) => matches!(fault, Fault::Unsupported | Fault::Memory),
        _ => false,
    }
}

fn damage(name: &str, error: &ReadError) -> String {
    format!("{name}: record {} at offset {:#x}: {}", error.record, error.offset, error.kind)
}

fn refused(name: &str, error: ReadError) -> anyhow::Error {
    match error.kind {
        ReadErrorKind::Io(cause) => {
            anyhow::Error::from(cause).context(format!("{name}: reading stopped at offset {:#x}", error.offset))
        }
        ReadErrorKind::Empty | ReadErrorKind::NotStf(_) | ReadErrorKind::Version { .. } => {
            anyhow!("{name}: {}", error.kind)
        }
        _ => anyhow!(damage(name, &error)),
    }
}

/// Counts what is read, for the progress bar.
struct Counted<R> {
    input: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

/// Says what was found about the end, and what is odd about the file. A container that contradicts itself is a problem,
/// also if everything could be read out of it: others will not be able to.
pub(crate) fn verdict(file: &mut Stf, end: &End) -> Verdict {
    file.tell_warnings();
    let verdict = end.verdict();
    if file.warnings().iter().any(is_damage) { Verdict::Problems } else { verdict }
}

/// Is it more than the version that is odd?
pub(crate) fn is_damage(warning: &Warning) -> bool {
    !matches!(warning, Warning::NewerMinor(_) | Warning::NoVersion)
}
