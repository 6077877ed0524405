//! STF files: opened by path or from a pipe, read as records, instructions or runs of bytes.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use unspool_container::{Damage, Fault};
use unspool_stf::header::{Header, HeaderError};
use unspool_stf::lift::{Follower, Instruction};
use unspool_stf::read::{
    ChunkSizes, Gather, Position, ReadError, ReadErrorKind, ReadOptions, Reader, Storage, Warning,
};
use unspool_stf::record::Record;
use unspool_stf::steps::Steps;

use super::input::{End, FileError, FileOptions, Input, OpenedSteps};
use crate::meter::{Meter, OnProgress};

/// Records or instructions between two reports of progress.
const STRIDE: u64 = 1 << 16;

/// Open STF file.
pub struct StfFile {
    name: String,
    reader: Reader<Input>,
    meter: Meter,
    /// Warnings handed out by [`new_warnings`](Self::new_warnings).
    reported: Vec<Warning>,
}

impl StfFile {
    /// Opens a file.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, FileError> {
        let name = path.display().to_string();
        let of_file = |source| FileError::open(&name, source);
        let file = File::open(path).map_err(of_file)?;
        let meter = Meter::new(Some(file.metadata().map_err(of_file)?.len()));
        Self::seekable(&name, file, meter, options.threads)
    }

    /// Opens a stream.
    pub fn of(name: &str, input: Input, options: &FileOptions) -> Result<Self, FileError> {
        Self::streamed(name, input, Meter::default(), options.threads)
    }

    pub(crate) fn seekable(name: &str, file: File, meter: Meter, threads: Option<usize>) -> Result<Self, FileError> {
        Self::with(name, Reader::seekable(meter.counted(file), read_options(threads)), meter)
    }

    pub(crate) fn streamed(name: &str, input: Input, meter: Meter, threads: Option<usize>) -> Result<Self, FileError> {
        Self::with(name, Reader::new(meter.counted(input), read_options(threads)), meter)
    }

    fn with(name: &str, reader: Result<Reader<Input>, ReadError>, meter: Meter) -> Result<Self, FileError> {
        match reader {
            Ok(reader) => Ok(Self { name: name.to_string(), reader, meter, reported: Vec::new() }),
            Err(error) if is_failure(&error.kind) => Err(failure(name, error)),
            Err(error) => Err(FileError::Damaged(damage(name, &error))),
        }
    }

    /// Name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Meter of what is read.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Whether the header names an Arm instruction set.
    pub fn is_arm(&self) -> bool {
        self.reader.isa() == Some(2)
    }

    /// Steps of the file, and the meter of what is read.
    pub fn into_steps(self) -> (OpenedSteps, Meter) {
        (Box::new(Steps::new(self.reader)), self.meter)
    }

    /// Storage of the records.
    pub fn storage(&self) -> Storage {
        self.reader.storage()
    }

    /// Sizes of the chunks, if there are chunks.
    pub fn chunks(&self) -> Option<ChunkSizes> {
        self.reader.chunks()
    }

    /// Oddities of the file, as far as it was read.
    pub fn warnings(&self) -> &[Warning] {
        self.reader.warnings()
    }

    /// Warnings that were not handed out before: seeking back meets the same ones again.
    pub fn new_warnings(&mut self) -> Vec<Warning> {
        let is_new = |warning: &&Warning| !self.reported.contains(warning);
        let mut new: Vec<Warning> = self.reader.warnings().iter().filter(is_new).copied().collect();
        new.dedup();
        self.reported.extend(&new);
        new
    }

    /// Reader, for callers that drive it themselves and then call [`ended`](Self::ended).
    pub fn reader(&mut self) -> &mut Reader<Input> {
        &mut self.reader
    }

    /// How reading ended with this result of the reader.
    pub fn ended(&self, read: Result<bool, ReadError>) -> Result<End, FileError> {
        match read {
            Ok(true) => Ok(End::Stopped),
            Ok(false) => Ok(End::Whole),
            Err(error) if is_failure(&error.kind) => Err(failure(&self.name, error)),
            Err(error) => Ok(End::Damaged(damage(&self.name, &error))),
        }
    }

    /// Reads the header, and leaves the reader at the record after it. Inner error: the trace is damaged there.
    pub fn header(&mut self) -> Result<Result<Header, End>, FileError> {
        match Header::read(&mut self.reader) {
            Ok(header) => Ok(Ok(header)),
            Err(HeaderError::Read(error)) => self.ended(Err(error)).map(Err),
            Err(error) => Ok(Err(End::Damaged(format!("{}: {error}", self.name)))),
        }
    }

    /// Hands records to `take` until it returns false. After a damaged chunk, reading resumes at the next one.
    pub fn each(
        &mut self,
        progress: &mut OnProgress<'_>,
        mut take: impl FnMut(Position, &Record<'_>) -> bool,
    ) -> Result<End, FileError> {
        self.each_or_resume(progress, |item| match item {
            Resumable::Item((position, record)) => take(position, record),
            Resumable::Resumed { .. } => true,
        })
    }

    /// The same, with the places where reading resumed.
    pub fn each_or_resume(
        &mut self,
        progress: &mut OnProgress<'_>,
        mut take: impl FnMut(Resumable<(Position, &Record<'_>)>) -> bool,
    ) -> Result<End, FileError> {
        let (mut left, mut follower) = (STRIDE, Follower::default());
        loop {
            let Self { reader, meter, .. } = self;
            let ended = reader.each(|position, record| {
                meter.tick(&mut left, STRIDE, progress);
                flow(take(Resumable::Item((position, record))))
            });
            if !self.resumes(&ended, &mut follower) || !take(Resumable::at(&follower)) {
                return self.ended(ended);
            }
        }
    }

    /// Hands instructions to `take` until it returns false. After a damaged chunk, reading resumes at the next one.
    pub fn each_instruction(
        &mut self,
        follower: &mut Follower,
        progress: &mut OnProgress<'_>,
        mut take: impl FnMut(&Instruction<'_>) -> bool,
    ) -> Result<End, FileError> {
        let mut left = STRIDE;
        loop {
            let Self { reader, meter, .. } = self;
            let ended = reader.each_instruction(follower, |instruction| {
                meter.tick(&mut left, STRIDE, progress);
                flow(take(instruction))
            });
            if !self.resumes(&ended, follower) {
                return self.ended(ended);
            }
        }
    }

    /// Gathers all remaining instructions, on several threads where the file allows that, and then hands the records
    /// that belong to no instruction to `trailing`. A trace of transactions has only such records. After a damaged chunk,
    /// reading resumes at the next one.
    pub fn gather<G: Gather>(
        &mut self,
        header: &Header,
        progress: &mut OnProgress<'_>,
        into: G,
        mut trailing: impl FnMut(&mut G, &Record<'_>),
    ) -> Result<(G, End), FileError> {
        let (mut into, mut follower) = (into, header.follower());
        while !header.has_transactions() {
            let Self { reader, meter, .. } = self;
            let mut watched = Watched { into, watch: Some((STRIDE, meter, progress)) };
            let ended = reader.gather(&mut follower, &mut watched);
            into = watched.into;
            if self.resumes(&ended, &mut follower) {
                continue;
            }
            match self.ended(ended)? {
                End::Whole => break,
                end => return Ok((into, end)),
            }
        }
        let end = self.each(progress, |_, record| {
            trailing(&mut into, record);
            true
        })?;
        Ok((into, end))
    }

    /// Hands the bytes of many records at a time to `take` until it returns false. Damage is the end: the records before
    /// it may be the start of an instruction, and must not become part of another one.
    pub fn each_run(
        &mut self,
        progress: &mut OnProgress<'_>,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<End, FileError> {
        let Self { reader, meter, .. } = self;
        let ended = reader.each_run(|_, bytes| {
            meter.report(progress);
            flow(take(bytes))
        });
        self.ended(ended)
    }

    /// Whether reading resumes after this end, which is then a warning.
    fn resumes(&mut self, ended: &Result<bool, ReadError>, follower: &mut Follower) -> bool {
        ended.as_ref().is_err_and(|error| self.reader.resume(error, follower).is_some())
    }
}

/// An item, or a place where reading resumed after damage.
#[derive(Debug, Clone, Copy)]
pub enum Resumable<T> {
    /// An item.
    Item(T),
    /// Items before here are lost.
    Resumed {
        /// Number of instructions before, including lost ones.
        instructions: u64,
        /// Address of the next instruction.
        pc: u64,
    },
}

impl<T> Resumable<T> {
    fn at(follower: &Follower) -> Self {
        Self::Resumed { instructions: follower.instructions, pc: follower.next_pc }
    }
}

/// Reports progress on the way; parts made by other threads do not.
struct Watched<'w, 'p, G> {
    into: G,
    watch: Option<(u64, &'w Meter, &'w mut OnProgress<'p>)>,
}

impl<G: Gather> Gather for Watched<'_, '_, G> {
    fn push(&mut self, instruction: &Instruction<'_>) {
        self.into.push(instruction);
        if let Some((left, meter, progress)) = &mut self.watch {
            meter.tick(left, STRIDE, *progress);
        }
    }

    fn part(&self) -> Self {
        Self { into: self.into.part(), watch: None }
    }

    fn append(&mut self, part: Self) {
        self.into.append(part.into);
        if let Some((_, meter, progress)) = &mut self.watch {
            meter.report(*progress);
        }
    }
}

fn flow(wants_more: bool) -> ControlFlow<()> {
    if wants_more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn read_options(threads: Option<usize>) -> ReadOptions {
    threads.map_or_else(ReadOptions::default, |threads| ReadOptions { threads })
}

/// Whether the file cannot be read at all, rather than being damaged.
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

fn failure(name: &str, error: ReadError) -> FileError {
    match error.kind {
        ReadErrorKind::Io(source) => FileError::Read { name: name.to_string(), offset: error.offset, source },
        ReadErrorKind::Empty | ReadErrorKind::NotStf(_) | ReadErrorKind::Version { .. } => {
            FileError::Unsupported(format!("{name}: {}", error.kind))
        }
        _ => FileError::Unsupported(damage(name, &error)),
    }
}

/// Whether the container contradicts itself. Other readers may then fail, even if everything could be read here.
pub fn is_damage(warning: &Warning) -> bool {
    !matches!(warning, Warning::NewerMinor(_) | Warning::NoVersion)
}
