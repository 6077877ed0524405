//! Tarmac logs: opened by path or from a pipe, read as lines or as runs of whole lines.
//!
//! Lines that cannot be parsed are handed out like others, and counted.

use std::ops::ControlFlow;
use std::path::Path;

use unspool_container::Container;
use unspool_model::CoreSelector;
use unspool_model::selection::{Select, SliceSink};
use unspool_tarmac::dialect::Dialect;
use unspool_tarmac::parse::ParseOptions;
use unspool_tarmac::read::{Position, ReadError, ReadErrorKind, ReadOptions, Reader};
use unspool_tarmac::record::{Line, Record, Stamp, Time};
use unspool_tarmac::slice::{SliceError, SliceOptions, Sliced, slice};
use unspool_tarmac::state::Machine;
use unspool_tarmac::steps::{Steps, is_lowered};

use super::input::{End, FileError, FileOptions, Input, OpenedSteps, open_file};
use crate::meter::{Meter, OnProgress};

/// Lines between two reports of progress.
const STRIDE: u64 = 1 << 14;

/// Limit of unparsable lines that are listed.
const LISTED: u64 = 5;

/// Open Tarmac log.
pub struct TarmacFile {
    name: String,
    reader: Reader<Input>,
    meter: Meter,
    dialect: Option<Dialect>,
    unreadable: Unreadable,
}

/// Lines that cannot be parsed.
#[derive(Debug, Default)]
pub struct Unreadable {
    /// Count of all.
    pub count: u64,
    /// Line number and problem of the first ones.
    pub first: Vec<String>,
}

impl Unreadable {
    /// Whether there are more than are listed.
    pub fn has_more(&self) -> bool {
        self.count > LISTED
    }

    #[inline]
    fn add(&mut self, position: Position, line: &Line<'_>) {
        if let Record::Unknown(problem) = &line.record {
            self.count += 1;
            if self.count <= LISTED {
                self.first.push(format!("line {}, {problem}", position.line));
            }
        }
    }
}

impl TarmacFile {
    /// Opens a file or the standard input.
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, FileError> {
        let (name, input, size) = open_file(path, "this is a directory, not a Tarmac log")?;
        Self::of(&name, input, size, options)
    }

    /// Opens a stream.
    pub fn of(name: &str, input: Input, size: Option<u64>, options: &FileOptions) -> Result<Self, FileError> {
        Self::with(name, input, Meter::new(size), options)
    }

    pub(crate) fn with(name: &str, input: Input, meter: Meter, options: &FileOptions) -> Result<Self, FileError> {
        let implicit_thumb = options.implicit_thumb || options.dialect.is_some_and(Dialect::has_implicit_thumb);
        let read = ReadOptions { parse: ParseOptions { implicit_thumb } };
        let name = name.to_string();
        let input: Input = Box::new(meter.counted(input));
        match Reader::new(input, read) {
            Ok(reader) => Ok(Self { name, reader, meter, dialect: options.dialect, unreadable: Unreadable::default() }),
            Err(source) => Err(FileError::Tarmac { name, source }),
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

    /// Steps of the log, and the meter of what is read.
    pub fn into_steps(self, big_endian: bool) -> (OpenedSteps, Meter) {
        let dialect = self.dialect();
        (Box::new(Steps::new(self.reader.with_dialect(dialect), big_endian)), self.meter)
    }

    /// Whether the log was made of another trace.
    pub fn is_converted(&self) -> bool {
        is_lowered(&self.reader)
    }

    /// Container.
    pub fn container(&self) -> Container {
        self.reader.container()
    }

    /// Dialect, as given or as the first lines suggest.
    pub fn dialect(&self) -> Dialect {
        self.dialect.unwrap_or_else(|| self.reader.dialect())
    }

    /// Lines read so far that cannot be parsed.
    pub fn unreadable(&mut self) -> &mut Unreadable {
        &mut self.unreadable
    }

    /// Hands lines to `take` until it returns false.
    pub fn each(
        &mut self,
        progress: &mut OnProgress<'_>,
        mut take: impl FnMut(Position, &Line<'_>) -> bool,
    ) -> Result<End, FileError> {
        let Self { reader, meter, unreadable, .. } = self;
        let mut left = STRIDE;
        let ended = reader.each(|position, line| {
            meter.tick(&mut left, STRIDE, progress);
            unreadable.add(position, line);
            if take(position, line) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.ended(ended)
    }

    /// Number of a core in order of first appearance; `None`: the log does not have it. Reads the log until it appears.
    pub fn core_number(&mut self, wanted: &CoreSelector) -> Result<Option<u32>, FileError> {
        let (mut machine, mut found) = (Machine::new(false, 0), None);
        self.each(&mut |_, _| {}, |_, line| {
            let core = machine.select_core(line);
            found = core.filter(|core| wanted.matches(*core, &machine.cores()[*core].name));
            found.is_none()
        })?;
        Ok(found.and_then(|core| u32::try_from(core).ok()))
    }

    /// Cuts instructions out of the log.
    pub fn slice(
        &mut self,
        select: &mut impl Select,
        options: SliceOptions<'_>,
        sink: &mut impl SliceSink<u8>,
    ) -> Result<Sliced, SliceError> {
        let Self { reader, unreadable, .. } = self;
        slice(reader, select, options, sink, |position, line| unreadable.add(position, line))
    }

    /// First time among the lines that were read ahead.
    pub fn first_time(&self) -> Option<Time> {
        let mut first = None;
        self.reader.look(|line| {
            if let Stamp::At(time) = line.stamp {
                first = first.or(Some(time));
            }
        });
        first
    }

    /// Hands runs of whole lines to `take` until it returns false.
    pub fn each_run(
        &mut self,
        progress: &mut OnProgress<'_>,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<End, FileError> {
        let Self { reader, meter, .. } = self;
        let ended = reader.each_run(|_, run| {
            meter.report(progress);
            if take(run) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.ended(ended)
    }

    /// How reading ended with this result of the reader.
    pub fn ended(&self, read: Result<bool, ReadError>) -> Result<End, FileError> {
        match read {
            Ok(true) => Ok(End::Stopped),
            Ok(false) => Ok(End::Whole),
            Err(source) if matches!(source.kind, ReadErrorKind::Io(_)) => {
                Err(FileError::Tarmac { name: self.name.clone(), source })
            }
            Err(error) => Ok(End::Damaged(format!("{}: {error}", self.name))),
        }
    }
}
