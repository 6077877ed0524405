//! Tables of one trace, or of thousands, that many processes write.
//!
//! ```text
//! split    trace ─▶ shards
//! count    shard ─▶ Counted: instructions, where it ends, gaps; and the code that it executes
//! assemble all of Counted, in order ─▶ Assembled: the state that each shard starts in, and the sources
//! write    shard, Start ─▶ files in a folder of tables
//! finish   folder, sources ─▶ tables, as one process writes them
//! ```
//!
//! Every shard is read twice: what numbers its rows have is only known when those before it were counted. Then they are
//! written once, with the numbers that one process gives them. `calls` need the whole execution, and are a shard of their own.
//! Everything that goes from one process to another is text or bytes. Knows no scheduler.

mod text;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use unspool::model::TimeUnit;
use unspool::software_marks::SoftwareSource;
use unspool::{CaptureShard, CaptureSteps, Carried, Meter, NamedSteps, Opened, Program, ShardEnd};

use crate::code::Code;
use crate::code_record::{CodeRecord, add_to};
use crate::extract::{CoreState, Extraction, Gaps, Source, source_columns};
use crate::folder::{FileNames, MadeOf, TableThread, complete, require_free};
use crate::shard_files::{Nothing, RowCounts, ShardFiles};
use crate::{Error, Table};

pub use self::text::Text;

/// Part of a trace that a process reads by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Number of the source of a capture. A file is one source.
    source: usize,
    /// `None`: the whole source.
    part: Option<CaptureShard>,
}

/// What is known of a shard when it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of the source.
    source: usize,
    end: ShardEnd,
    state: CoreState,
    sources: Vec<Source>,
    gaps: Gaps,
}

/// What a shard starts with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Start {
    /// Its number among the shards of the trace.
    shard: u32,
    /// Number of its first source in the trace.
    source: u32,
    is_first: bool,
    state: CoreState,
    carried: Carried,
}

/// All shards of a trace, put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The shards that have rows, with what they start with. Those that are left out belong to the one before.
    starts: Vec<Start>,
    sources: Vec<Source>,
}

/// Where the rows of a trace are among those of all traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct First {
    /// Number of its first source.
    pub source: u32,
    /// Number of its first version of the code.
    pub code: u32,
    /// Number of its first row in `instructions`.
    pub instruction: u32,
}

/// Where files are written.
#[derive(Debug, Clone, Copy)]
pub struct Output<'o> {
    /// The folder of tables, which has no name yet.
    pub folder: &'o Path,
    /// Text that no other attempt to write the same has.
    pub attempt: &'o str,
}

/// A source of a trace.
enum Part {
    Steps(Box<NamedSteps>),
    Capture(Box<CaptureSteps>),
    Software(Box<SoftwareSource>),
    /// It cannot be opened.
    Problem {
        name: String,
        text: String,
    },
}

impl Part {
    fn open(trace: &Opened, source: usize) -> Result<Self, Error> {
        let Some(capture) = trace.capture() else {
            let steps = trace.step_sources()?.into_iter().nth(source).ok_or(Error::NoShard)?;
            return Ok(Self::Steps(Box::new(steps)));
        };
        let name = *trace.sources().get(source).ok_or(Error::NoShard)?;
        if let Some(software) = SoftwareSource::new(capture, name) {
            return Ok(Self::Software(Box::new(software)));
        }
        match trace.capture_steps(name) {
            Ok(steps) => Ok(Self::Capture(Box::new(steps))),
            // It has neither instructions nor software trace.
            Err(error) if error.is_other_kind() => Err(error.into()),
            Err(error) => Ok(Self::Problem { name: name.to_string(), text: error.to_string() }),
        }
    }
}

impl Part {
    /// The code and symbols of the source.
    fn program(&self) -> Arc<Program> {
        match self {
            Self::Steps(named) => Arc::clone(&named.program),
            Self::Capture(steps) => Arc::clone(steps.program()),
            Self::Software(_) | Self::Problem { .. } => Arc::default(),
        }
    }
}

/// Splits a trace into shards of about this many bytes of a source, in order. What can only be read from its beginning is one
/// shard: a file, or a source of a capture with system events, cycle counts without timestamps, speculation or data trace.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn split(trace: &Opened, bytes: u64) -> Result<Vec<Shard>, Error> {
    let sources = if trace.capture().is_some() { trace.sources().len() } else { 1 };
    let mut shards = Vec::new();
    for source in 0..sources {
        let parts = match Part::open(trace, source) {
            Ok(Part::Capture(steps)) => steps.shards(bytes)?,
            Ok(_) => None,
            Err(Error::Trace(error)) if error.is_other_kind() => continue,
            Err(error) => return Err(error),
        };
        match parts {
            Some(parts) => shards.extend(parts.into_iter().map(|part| Shard { source, part: Some(part) })),
            None => shards.push(Shard { source, part: None }),
        }
    }
    Ok(shards)
}

impl Shard {
    /// The whole source that it is a part of, for tables that need the whole execution. `None`: it is the whole.
    #[must_use]
    pub fn whole(&self) -> Option<Self> {
        self.part.as_ref().map(|_| Self { source: self.source, part: None })
    }

    /// Whether it makes rows of a table. Calls need the whole execution.
    fn has_rows_of(&self, table: Table) -> bool {
        match table {
            Table::Instructions | Table::Sources => false,
            Table::Calls => self.part.is_none(),
            _ => true,
        }
    }
}

/// Reads a shard without writing rows: counts its instructions, and records the code that it executes.
///
/// # Errors
///
/// If the trace cannot be opened. A trace that cannot be read to its end is a problem of its sources.
pub fn count(trace: &Opened, shard: &Shard, tables: &[Table]) -> Result<(Counted, Vec<u8>), Error> {
    let mut nothing = Nothing;
    let source = u16::try_from(shard.source).map_err(|_| Error::NoShard)?;
    let mut extraction = Extraction::counting(tables.iter().copied(), &mut nothing, source);
    let (end, state) = read(trace, shard, &Start::default(), &mut extraction)?;
    let (code, sources, gaps) = extraction.into_parts();
    Ok((Counted { source: shard.source, end, state, sources, gaps }, code.into_record().into_bytes()?))
}

/// Merges the code of consecutive shards.
///
/// # Errors
///
/// If one of them is not the code of a shard, or there is too much of it.
pub fn merge_code<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> Result<Vec<u8>, Error> {
    let mut merged = CodeRecord::default();
    parts.into_iter().try_for_each(|part| merged.append(part))?;
    merged.into_bytes()
}

/// The number of versions of the code of a trace, and of its instructions.
///
/// # Errors
///
/// If it is not the code of a trace.
pub fn count_code(trace: &Opened, code: &[u8]) -> Result<(u32, u32), Error> {
    let code = code_of(trace, code, 0)?;
    Ok((code.versions() as u32, code.instructions() as u32))
}

/// Writes the rows of a shard. `code`: the code of the trace, unless it has one version only.
///
/// # Errors
///
/// If the trace cannot be opened, or the files cannot be written.
pub fn write(
    trace: &Opened,
    (shard, start): (&Shard, &Start),
    (tables, code): (&[Table], Option<&[u8]>),
    first: &First,
    output: &Output<'_>,
) -> Result<RowCounts, Error> {
    let tables: Vec<Table> = tables.iter().copied().filter(|table| shard.has_rows_of(*table)).collect();
    let source = first.source + start.source;
    let mut files = ShardFiles::create(output.folder, (source, start.shard), output.attempt, &tables)?;
    let code = code_of(trace, code.unwrap_or_default(), first.code)?;
    let mut extraction = Extraction::with_code(tables, &mut files, code, source);
    read(trace, shard, start, &mut extraction)?;
    files.publish()
}

/// Writes the table `instructions` of a trace.
///
/// # Errors
///
/// If it is not the code of this trace, or the files cannot be written.
pub fn write_code(trace: &Opened, code: &[u8], first: &First, output: &Output<'_>) -> Result<RowCounts, Error> {
    let mut files = ShardFiles::create(output.folder, (first.source, 0), output.attempt, &[Table::Instructions])?;
    let code = code_of(trace, code, first.code)?;
    Extraction::of_code(&mut files, code, first.instruction).finish()?;
    files.publish()
}

/// Writes the table `sources`, and gives the folder its name.
///
/// # Errors
///
/// If a file cannot be written, or there is something else than tables at the name.
pub fn finish(folder: &Path, target: &Path, tables: &[Table], all: &[Assembled]) -> Result<(), Error> {
    require_free(target)?;
    let sources: Vec<Source> = all.iter().flat_map(|assembled| assembled.sources.iter().cloned()).collect();
    remove_unfinished(folder)?;
    for table in tables {
        let own = folder.join(table.name());
        let is_empty = fs::read_dir(&own).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty && *table != Table::Sources {
            continue;
        }
        fs::create_dir_all(&own).map_err(|error| Error::of_file(&own, error))?;
        let thread = TableThread::start(*table, FileNames { folder: own, shard: None });
        if *table == Table::Sources && !sources.is_empty() {
            thread.send(0, RecordBatch::try_new(table.schema(), source_columns(0, &sources))?.into());
        }
        thread.finish()?;
    }
    let has_problems = sources.iter().any(|source| source.problem.is_some());
    complete(folder, target, tables, &MadeOf { identity: String::new(), has_problems })
}

/// Removes what attempts that ended early have left.
fn remove_unfinished(folder: &Path) -> Result<(), Error> {
    let failed = |error| Error::of_file(folder, error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_table = entry.file_name().to_str().is_some_and(|name| Table::named(name).is_some());
        if !is_table && entry.path().is_dir() {
            // Another attempt may still be at it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// The code of a trace, with its names.
fn code_of(trace: &Opened, record: &[u8], first: u32) -> Result<Code, Error> {
    let mut code = Code::held(first);
    if !record.is_empty() {
        add_to(&mut code, record, |source| Ok(Part::open(trace, source.into())?.program()))?;
    }
    Ok(code)
}

/// Reads a shard. Returns where it ended.
fn read(
    trace: &Opened,
    shard: &Shard,
    start: &Start,
    extraction: &mut Extraction<'_>,
) -> Result<(ShardEnd, CoreState), Error> {
    match (Part::open(trace, shard.source)?, &shard.part) {
        (Part::Capture(mut steps), Some(part)) => {
            let name = steps.source_name().to_string();
            let (end, state) = extraction.shard(&name, &mut steps, (part, &start.carried), start.state)?;
            Ok((end.unwrap_or_default(), state))
        }
        (Part::Capture(mut steps), None) => {
            let (name, program) = (steps.source_name().to_string(), steps.program().clone());
            // The row of the source has the problem.
            let _ = extraction.trace(&name, &mut *steps, &program)?;
            Ok(Default::default())
        }
        (Part::Steps(mut named), None) => {
            let _ = extraction.trace(&named.name, &mut *named.steps, &named.program)?;
            Ok(Default::default())
        }
        (Part::Software(source), None) => {
            extraction.software(&source, &Meter::default())?;
            Ok(Default::default())
        }
        (Part::Problem { name, text }, None) => {
            extraction.unreadable(&name, &text);
            Ok(Default::default())
        }
        (_, Some(_)) => Err(Error::NoShard),
    }
}

impl Start {
    /// Index of the shard among those of the trace.
    pub fn shard(&self) -> usize {
        self.shard as usize
    }

    /// Whether it is the first shard of its source.
    pub fn is_first(&self) -> bool {
        self.is_first
    }
}

impl Assembled {
    /// What the shards that have rows start with.
    pub fn starts(&self) -> &[Start] {
        &self.starts
    }

    /// The number of sources.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Puts the shards of a trace together, in order.
    pub fn of(all: &[Counted]) -> Self {
        let (mut assembled, mut at) = (Self::default(), 0);
        let (mut source, mut first) = (None, 0);
        let (mut state, mut carried) = (CoreState::default(), Carried::default());
        while let Some(counted) = all.get(at) {
            let is_first = source.replace(counted.source) != Some(counted.source);
            if is_first {
                (first, state, carried) = (assembled.sources.len(), CoreState::default(), Carried::default());
            }
            assembled.starts.push(Start { shard: at as u32, source: first as u32, is_first, state, carried });
            assembled.add_sources(first, &counted.sources);
            state = counted.state.after(&state);
            carried = counted.end.carry(&carried);
            let rest = all.iter().skip(at).take_while(|other| other.source == counted.source).count();
            at += counted.end.shards.unwrap_or(rest).clamp(1, rest.max(1));
        }
        assembled
    }

    /// Adds the sources of a shard to those of the shards before, from an index on.
    fn add_sources(&mut self, first: usize, sources: &[Source]) {
        for source in sources {
            match self.sources[first..].iter_mut().find(|known| known.core == source.core) {
                Some(known) => {
                    known.instructions += source.instructions;
                    known.problem = known.problem.take().or_else(|| source.problem.clone());
                }
                None => self.sources.push(source.clone()),
            }
        }
    }

    /// A trace that cannot be opened: one source with a problem.
    pub fn of_problem(name: &str, text: &str) -> Self {
        let source = Source { problem: Some(text.to_string()), ..Source::new(name, 0, TimeUnit::Unknown) };
        Self { starts: Vec::new(), sources: vec![source] }
    }
}

impl CoreState {
    /// The state at the end of a shard that started in `before`, if this is the one after a start with nothing known.
    fn after(&self, before: &Self) -> Self {
        Self {
            count: before.count + self.count,
            process: self.process.or(before.process),
            thread: self.thread.or(before.thread),
        }
    }
}
