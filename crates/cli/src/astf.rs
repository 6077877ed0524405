//! ASTF files as the verbs meet them: opened by name or from a pipe, read in batches, with a progress bar.
//!
//! Comes in: a path. Goes out: records, header first. Damage on the way is told with its place, when everything before
//! it has been handed out.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, anyhow};
use unspool::OpenedSteps;
use unspool::astf::Bytes;
use unspool::astf::read::{ReadError, ReadErrorKind, ReadOptions, Reader, Warning};
use unspool::astf::record::{Header, RECORD_BYTES};
use unspool::astf::steps::Steps;
use unspool::container::Fault;

use crate::Verdict;
use crate::args::tell;
use crate::progress::{Meter, Progress};

/// A file that is read.
pub(crate) struct Astf {
    name: String,
    reader: Reader<Counted>,
    read: Arc<AtomicU64>,
    /// How many bytes the file has; of a pipe nobody knows.
    size: Option<u64>,
}

impl Astf {
    /// Opens a file or the standard input. `None`: it is such a file, but damaged before the first record; that was told.
    /// With a `hint` it might be any trace file, and if it is none that can be seen, this option makes it a log.
    pub(crate) fn open(path: &Path, threads: Option<usize>, hint: Option<&str>) -> anyhow::Result<Option<Self>> {
        if is_standard(path) {
            return Self::of("standard input", Box::new(io::stdin()), None, threads, hint);
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| name.clone())?;
        let about = file.metadata().with_context(|| name.clone())?;
        if about.is_dir() {
            return Err(anyhow!("{name}: a directory is no trace file; 'unspool info' tells what is in it"));
        }
        Self::of(&name, Box::new(file), about.is_file().then_some(about.len()), threads, hint)
    }

    /// Opens what is being read already.
    pub(crate) fn of(
        name: &str,
        input: Box<dyn Read + Send>,
        size: Option<u64>,
        threads: Option<usize>,
        hint: Option<&str>,
    ) -> anyhow::Result<Option<Self>> {
        let read = Arc::new(AtomicU64::new(0));
        let input = Counted { input, read: Arc::clone(&read) };
        let options = threads.map_or_else(ReadOptions::default, |threads| ReadOptions { threads, ahead: true });
        match Reader::new(input, options) {
            Ok(reader) => Ok(Some(Self { name: name.to_string(), reader, read, size })),
            Err(error) if is_failure(&error.kind) => Err(refused(name, error, hint)),
            Err(error) => {
                tell(damage(name, &error));
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

    /// Its header.
    pub(crate) fn header(&self) -> &Header {
        self.reader.header()
    }

    /// What is odd about the header.
    pub(crate) fn warnings(&self) -> &[Warning] {
        self.reader.warnings()
    }

    /// Says what is odd about the header.
    pub(crate) fn tell_warnings(&self) {
        self.warnings().iter().for_each(|warning| tell(format_args!("{}: {warning}", self.name)));
    }

    /// Its steps, and how far reading has come.
    pub(crate) fn into_steps(self) -> (OpenedSteps, Meter) {
        let meter = Meter { read: self.read, size: self.size };
        (Box::new(Steps::new(self.reader)), meter)
    }

    /// How many bytes of the file were read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The reader, for what goes its own way through the trace.
    pub(crate) fn reader(&mut self) -> &mut Reader<impl Read> {
        &mut self.reader
    }

    /// How it ended, of what went its own way.
    pub(crate) fn ended(&self, error: ReadError) -> anyhow::Result<End> {
        if is_failure(&error.kind) {
            Err(refused(&self.name, error, None))
        } else {
            Ok(End::Damaged(damage(&self.name, &error)))
        }
    }

    /// Hands out all records, header first, with the number of the first of them, until there are no more or `take` wants
    /// no more. What keeps us from reading on is an error; damage is not, but an end.
    pub(crate) fn each(
        &mut self,
        progress: &mut Progress,
        mut take: impl FnMut(u64, &[Bytes]) -> anyhow::Result<bool>,
    ) -> anyhow::Result<End> {
        let mut number = 1;
        let mut wants_more = take(number, &[self.header().to_bytes()])?;
        number += 1;
        while wants_more {
            match self.reader.next_records() {
                Ok([]) => return Ok(End::Whole),
                Ok(records) => {
                    wants_more = take(number, records)?;
                    number += records.len() as u64;
                }
                Err(error) if is_failure(&error.kind) => return Err(refused(&self.name, error, None)),
                Err(error) => return Ok(End::Damaged(damage(&self.name, &error))),
            }
            if let Some(size) = self.size {
                progress.at(self.read.load(Ordering::Relaxed), size);
            }
        }
        Ok(End::Left)
    }
}

/// How reading ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// That was all.
    Whole,
    /// No more was wanted.
    Left,
    /// The file is damaged or cut short: what and where.
    Damaged(String),
}

impl End {
    /// Tells of damage, which is a problem.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Whole | Self::Left => Verdict::Clean,
            Self::Damaged(text) => {
                tell(text);
                Verdict::Problems
            }
        }
    }
}

/// Where a record starts when nothing is compressed.
pub(crate) fn offset_of(record: u64) -> u64 {
    (record - 1) * RECORD_BYTES as u64
}

/// Is this the name of the standard input or output?
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Is it we who cannot, rather than the trace that is broken?
fn is_failure(kind: &ReadErrorKind) -> bool {
    use ReadErrorKind::{Compressed, Empty, Io, NewerMajor, NotAstf};
    matches!(
        kind,
        Empty | NotAstf { .. } | NewerMajor(_) | Compressed(Fault::Unsupported) | Compressed(Fault::Memory) | Io(_)
    )
}

fn damage(name: &str, error: &ReadError) -> String {
    format!("{name}: record {} at offset {:#x}: {}", error.record, error.offset, error.kind)
}

fn refused(name: &str, error: ReadError, hint: Option<&str>) -> anyhow::Error {
    match error.kind {
        ReadErrorKind::NotAstf { found } => {
            let mut what = error.kind.to_string();
            if let Some(option) = hint {
                let none = format!("no ASTF or STF file and no Tarmac log ({option} makes it one)");
                what = what.replace("not an ASTF file", &none);
            }
            anyhow!("{name}: {what}{}", looks_like(found))
        }
        ReadErrorKind::Io(cause) => {
            anyhow::Error::from(cause).context(format!("{name}: reading stopped at offset {:#x}", error.offset))
        }
        ReadErrorKind::Empty | ReadErrorKind::NewerMajor(_) => anyhow!("{name}: {}", error.kind),
        _ => anyhow!(damage(name, &error)),
    }
}

/// What starts like this instead.
fn looks_like(found: [u8; 4]) -> &'static str {
    match found {
        [b'P', b'K', ..] => ", like a zip archive; 'unspool info' tells if it is a capture",
        [0x1f, 0x8b, ..] => {
            ", like a gzip file, and no STF is in it; the header of ASTF is never compressed, so unpack it"
        }
        [0xfd, b'7', b'z', b'X'] => {
            ", like an .xz file, and no STF is in it; the header of ASTF is never compressed, so unpack it"
        }
        [0x28, 0xb5, 0x2f, 0xfd] => ", like a zstd file, and no STF is in it",
        [0x7f, b'E', b'L', b'F'] => ", like a program",
        _ => "",
    }
}

/// Counts what is read, for the progress bar.
struct Counted {
    input: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
