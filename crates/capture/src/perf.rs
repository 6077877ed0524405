//! perf.data files with CoreSight trace, as perf and simpleperf record them.
//!
//! file, stream or directory ─▶ **perf** ─▶ [`PerfData`]: trace units, sessions, system events
//!
//! | module | takes → produces |
//! |---|---|
//! | `input` | offsets → bytes, through a small window |
//! | `file`, `attr`, `feature`, `bpf` | header and sections → attributes with their trailers, facts about the machine |
//! | `scan`, `record`, `compressed` | the data → records, once each |
//! | `info`, `sessions` | AUXTRACE_INFO, AUX and AUXTRACE records → trace units, and where their trace is |
//! | `events`, `order` | other records → system events by time |
//! | `collect` | all records → [`PerfData`] |
//! | `kernel` | `kcore_dir` of a directory → memory and symbols of the kernel |
//! | `package` | [`PerfData`] → [`Capture`](crate::Capture) |
//!
//! Trace bytes are never read here: a file of tens of gigabytes opens in the time that its other records take. Damage
//! becomes a [`Problem`] at an offset.

mod attr;
mod bpf;
mod bytes;
mod collect;
mod compressed;
mod events;
mod feature;
mod file;
mod info;
mod input;
mod kernel;
mod order;
mod package;
mod problem;
mod record;
mod scan;
mod sessions;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use crate::clock::TimeConversion;
use crate::error::Error;
use crate::event::SystemEvent;

pub use attr::Attr;
pub use bpf::BpfFunction;
pub use bytes::ByteOrder;
pub use feature::{BuildId, Features, FileInfo, FileSymbol};
pub use info::Unit;
pub use kernel::KernelMemory;
pub use problem::Problem;
pub use sessions::{Absent, Part, Session};

use collect::Collector;
use file::Beginning;
use input::Input;
use problem::Problems;
use scan::Scan;

pub(crate) use package::{open, open_directory, open_stream};

/// The main file of a directory.
const MAIN: &str = "data";

/// Maximum number of further files in a directory.
const FILE_LIMIT: usize = 16 << 10;

/// Everything in a recording but its trace bytes.
#[derive(Debug, Clone)]
pub struct PerfData {
    /// Byte order of the machine that recorded.
    pub order: ByteOrder,
    /// Whether the file was written to a pipe, and has records only.
    pub is_pipe: bool,
    /// Names of the files in the directory of the recording; empty for a single file.
    pub files: Vec<String>,
    /// Attributes of the events.
    pub attrs: Vec<Attr>,
    /// Facts about machine and recording.
    pub features: Features,
    /// The kind of trace: 1 Intel PT, 2 Intel BTS, 3 CoreSight, 4 Arm SPE; `None` if nothing describes it.
    pub trace_kind: Option<u32>,
    /// The trace units.
    pub units: Vec<Unit>,
    /// The trace, in the order in which it was recorded.
    pub sessions: Vec<Session>,
    /// What the operating system did, in the order in which it happened.
    pub events: Vec<SystemEvent>,
    /// Records that the kernel could not write.
    pub losses: Vec<Loss>,
    /// Conversion of time stamps of the trace to the clock of the records.
    pub time_conversion: Option<TimeConversion>,
    /// Damage.
    pub problems: Vec<Problem>,
    /// Number of records by their type.
    pub counts: BTreeMap<u32, u64>,
}

/// Records that the kernel could not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The file of the record that reports it.
    pub file: usize,
    /// Byte offset of that record.
    pub offset: u64,
    /// Number of lost records.
    pub count: u64,
    /// Time of the report.
    pub time: Option<u64>,
}

/// Whether a file starts like a recording that can be read.
pub fn is_perf(start: &[u8]) -> bool {
    file::byte_order(start).is_some()
}

impl PerfData {
    /// Opens a file, or a directory with the file `data`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not a recording.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let is_directory = path.is_dir();
        let main = if is_directory { path.join(MAIN) } else { path.to_path_buf() };
        let file = File::open(&main).map_err(Error::io(&main))?;
        let mut more = |name: &str| File::open(path.join(name)).ok().filter(|_| is_directory);
        match Self::read_all(file, &mut more).map_err(Error::io(&main))? {
            Some(mut found) => {
                if is_directory {
                    found.files.insert(0, MAIN.to_string());
                }
                Ok(found)
            }
            None => {
                let found = "not a perf.data file".to_string();
                Err(Error::NotACapture { path: path.to_path_buf(), found })
            }
        }
    }

    /// Reads a single file. `None`: it is not a recording.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn read(file: impl Read + Seek) -> io::Result<Option<Self>> {
        Self::read_all(file, &mut |_| None)
    }

    /// Reads a file, and the ones that `more` opens by name if it has several.
    fn read_all<R: Read + Seek>(file: R, more: &mut dyn FnMut(&str) -> Option<R>) -> io::Result<Option<Self>> {
        let mut problems = Problems::default();
        let mut input = Input::new(file)?;
        let Some(beginning) = Beginning::read(&mut input, &mut problems)? else { return Ok(None) };
        let Beginning { order, is_pipe, attrs, features, data } = beginning;
        let index = features.auxtrace.clone();
        let mut collector = Collector::new(order, is_pipe, attrs, features, problems);
        Scan { input: &mut input, file: 0, order, index: &index }.run(data, &mut collector)?;
        let mut files = Vec::new();
        while collector.features.is_directory && files.len() < FILE_LIMIT {
            let name = format!("{MAIN}.{}", files.len());
            let Some(file) = more(&name) else { break };
            files.push(name);
            let mut input = Input::new(file)?;
            let data = 0..input.size();
            Scan { input: &mut input, file: files.len(), order, index: &[] }.run(data, &mut collector)?;
        }
        Ok(Some(Self { files, ..collector.finish() }))
    }
}
