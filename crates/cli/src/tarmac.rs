//! Tarmac logs as the verbs meet them: opened by name or from a pipe, with what the user knows of them, and a progress
//! bar.
//!
//! Comes in: a path. Goes out: lines. Lines that cannot be understood are handed out like others, and counted.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use unspool::OpenedSteps;
use unspool::container::Container;
use unspool::model::selection::{PieceSink, Select};
use unspool::tarmac::dialect::Dialect;
use unspool::tarmac::parse::ParseOptions;
use unspool::tarmac::read::{Place, ReadError, ReadErrorKind, ReadOptions, Reader};
use unspool::tarmac::record::{Line, Record, Stamp, Time};
use unspool::tarmac::slice::{SliceError, SliceOptions, Sliced, slice};
use unspool::tarmac::steps::Steps;

use crate::Verdict;
use crate::args::tell;
use crate::astf::{End, is_standard};
use crate::cmd::many;
use crate::progress::{Meter, Progress};

/// How many lines go by between two looks at the progress bar.
const STRIDE: u64 = 1 << 14;

/// Lines that cannot be understood are told one by one up to this many.
const TOLD: u64 = 5;

/// What lines do not say.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TarmacArgs {
    /// Who wrote the log (found out, if not said): rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 or other
    #[arg(long, value_name = "NAME", value_parser = dialect, help_heading = "Tarmac")]
    pub(crate) dialect: Option<Dialect>,

    /// Instructions whose line does not name an instruction set are Thumb
    #[arg(long, help_heading = "Tarmac")]
    pub(crate) implicit_thumb: bool,

    /// The option of the verb that makes a log of any file.
    #[arg(skip = "--dialect")]
    pub(crate) hint: &'static str,
}

/// Who wrote a log, by the name of the dialect.
pub(crate) fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::from_name(name).ok_or_else(|| {
        format!("'{name}' is none of rev3, fast-models, gem5, cortex-m0, cortex-m3, cortex-r5 and other")
    })
}

impl TarmacArgs {
    /// Did the user say anything about a log?
    pub(crate) fn is_said(&self) -> bool {
        self.dialect.is_some() || self.implicit_thumb
    }

    fn options(&self) -> ReadOptions {
        let is_thumb = self.implicit_thumb || self.dialect.is_some_and(Dialect::has_implicit_thumb);
        ReadOptions { parse: ParseOptions { implicit_thumb: is_thumb } }
    }
}

/// A log that is read.
pub(crate) struct Tarmac {
    name: String,
    reader: Reader<Box<dyn Read + Send>>,
    read: Arc<AtomicU64>,
    /// How many bytes the file has; of a pipe nobody knows.
    size: Option<u64>,
    said: Option<Dialect>,
    unknown: u64,
}

impl Tarmac {
    /// Opens a file or the standard input.
    pub(crate) fn open(path: &Path, args: &TarmacArgs) -> anyhow::Result<Self> {
        if is_standard(path) {
            return Self::of("standard input", Box::new(io::stdin()), args);
        }
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| name.clone())?;
        let about = file.metadata().with_context(|| name.clone())?;
        if about.is_dir() {
            anyhow::bail!("{name}: a directory is no Tarmac log");
        }
        let size = about.is_file().then_some(about.len());
        Self::with(&name, Box::new(file), size, args)
    }

    /// Opens what is being read already.
    pub(crate) fn of(name: &str, input: Box<dyn Read + Send>, args: &TarmacArgs) -> anyhow::Result<Self> {
        Self::with(name, input, None, args)
    }

    fn with(name: &str, input: Box<dyn Read + Send>, size: Option<u64>, args: &TarmacArgs) -> anyhow::Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let input: Box<dyn Read + Send> = Box::new(Counted { input, read: Arc::clone(&read) });
        let reader = Reader::new(input, args.options()).with_context(|| name.to_string())?;
        Ok(Self { name: name.to_string(), reader, read, size, said: args.dialect, unknown: 0 })
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes the file has; of a pipe nobody knows.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Its steps, and how far reading has come.
    pub(crate) fn into_steps(self, big_endian: bool) -> (OpenedSteps, Meter) {
        let dialect = self.dialect();
        let meter = Meter { read: self.read, size: self.size };
        (Box::new(Steps::new(self.reader.with_dialect(dialect), big_endian)), meter)
    }

    /// How many bytes of the file were read.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// What it is stored in.
    pub(crate) fn container(&self) -> Container {
        self.reader.container()
    }

    /// Who wrote it: what the user said, or what its first lines tell.
    pub(crate) fn dialect(&self) -> Dialect {
        self.said.unwrap_or_else(|| self.reader.dialect())
    }

    /// Hands out lines until there are no more or `take` wants no more. What keeps us from reading on is an error;
    /// damage of a container is not, but an end.
    pub(crate) fn each(
        &mut self,
        progress: &mut Progress,
        mut take: impl FnMut(Place, &Line<'_>) -> bool,
    ) -> anyhow::Result<End> {
        let Self { name, reader, read, size, unknown, .. } = self;
        let mut until_look = STRIDE;
        let ended = reader.each(|place, line| {
            until_look -= 1;
            if until_look == 0 {
                until_look = STRIDE;
                if let Some(size) = size {
                    progress.at(read.load(Ordering::Relaxed), *size);
                }
            }
            if let Record::Unknown(problem) = &line.record {
                *unknown += 1;
                if *unknown <= TOLD {
                    tell(format_args!("{name}: line {}, {problem}", place.line));
                }
            }
            if take(place, line) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.ended(ended)
    }

    /// Cuts instructions out of it. Lines that cannot be understood are told and counted as in [`each`](Self::each).
    pub(crate) fn slice(
        &mut self,
        select: &mut impl Select,
        options: SliceOptions<'_>,
        sink: &mut impl PieceSink<u8>,
    ) -> Result<Sliced, SliceError> {
        let Self { name, reader, unknown, .. } = self;
        slice(reader, select, options, sink, |place, line| {
            if let Record::Unknown(problem) = &line.record {
                *unknown += 1;
                if *unknown <= TOLD {
                    tell(format_args!("{name}: line {}, {problem}", place.line));
                }
            }
        })
    }

    /// The first time among the lines that were read ahead.
    pub(crate) fn first_time(&self) -> Option<Time> {
        let mut first = None;
        self.reader.look(|line| {
            if let Stamp::At(time) = line.stamp {
                first = first.or(Some(time));
            }
        });
        first
    }

    /// Hands out whole lines as they are, many at a time.
    pub(crate) fn each_run(
        &mut self,
        progress: &mut Progress,
        mut take: impl FnMut(Place, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<End> {
        let Self { reader, read, size, .. } = self;
        let mut failed = None;
        let ended = reader.each_run(|place, run| {
            if let Some(size) = size {
                progress.at(read.load(Ordering::Relaxed), *size);
            }
            match take(place, run) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        match failed {
            Some(error) => Err(error),
            None => self.ended(ended),
        }
    }

    /// How it ended, of what went its own way.
    pub(crate) fn ended(&self, read: Result<bool, ReadError>) -> anyhow::Result<End> {
        match read {
            Ok(true) => Ok(End::Left),
            Ok(false) => Ok(End::Whole),
            Err(error) if matches!(error.kind, ReadErrorKind::Io(_)) => {
                Err(anyhow::Error::from(error).context(self.name.clone()))
            }
            Err(error) => Ok(End::Damaged(format!("{}: {error}", self.name))),
        }
    }

    /// Says how many lines could not be understood; that is a problem.
    pub(crate) fn verdict(&self, end: &End) -> Verdict {
        let verdict = end.verdict();
        if self.unknown == 0 {
            return verdict;
        }
        if self.unknown > TOLD {
            tell(format_args!("{}: {} in all cannot be understood", self.name, many(self.unknown, "line")));
        }
        Verdict::Problems
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
