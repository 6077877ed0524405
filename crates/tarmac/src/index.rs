//! Index of a log: finds lines, and the state at any point, without reading the whole log.
//!
//! ```text
//! log ─▶ segments ─▶ summary of each ─▶ in order: checkpoints, tree of tables ─▶ file
//! file, log ─▶ a line, an instruction, an address, registers and memory at a line
//! ```
//!
//! A log is divided into segments at instructions. Segments are summarized in parallel, each without the earlier ones,
//! and the summaries are merged in order. A checkpoint at the start of each segment holds all registers. Of memory,
//! each segment has the first reads and the last writes; sixteen segments are merged into one node of a tree, and
//! sixteen nodes again. A query reads one segment of the log at most twice, and a few blocks of the index. An index
//! identifies its log by a fingerprint, and every block has a checksum. Works on streams, and opens no file.

mod builder;
mod bytes;
mod calls;
mod checkpoint;
mod contexts;
mod directory;
mod fingerprint;
mod query;
mod scan;
mod scan_steps;
mod seek;
mod segment;
mod step_index;
mod store;
mod table;
mod time;
mod tree;
mod view;

use std::io;

use unspool_model::Lost;

use super::dialect::Dialect;
use super::parse::ParseOptions;
use super::record::Time;

pub use builder::build;
pub use directory::Index;
pub use fingerprint::Fingerprint;
pub use query::{CoreState, Found, Indexed, SegmentAt, Segments, State};
pub use scan::Scanner;
pub use scan_steps::StepScanner;
pub use seek::SegmentStart;
pub use step_index::{ResumeSteps, StepIndexer, StepSegments};
pub use time::compare;
pub use view::{MemoryQuery, RegisterValue, StateView, WriteQuery, WrittenRange, register};

/// Options for reading the log and building the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexOptions {
    /// Properties of the log that its lines do not contain.
    pub parse: ParseOptions,
    /// The dialect of the log.
    pub dialect: Dialect,
    /// Whether data is big-endian.
    pub big_endian: bool,
    /// Number of threads that summarize segments.
    pub threads: usize,
    /// Approximate number of bytes in a segment.
    pub segment_size: usize,
}

impl IndexOptions {
    /// Default options for a log in this dialect.
    pub fn of(dialect: Dialect) -> Self {
        let parse = ParseOptions { implicit_thumb: dialect.has_implicit_thumb() };
        Self { parse, dialect, big_endian: false, threads: 1, segment_size: 2 << 20 }
    }
}

/// A position in a log. The state there includes all lines up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// After a line, counted from 1.
    Line(u64),
    /// Before the first line with a later time.
    Time(Time),
    /// After all effects of an instruction, counted from 1.
    Instruction(u64),
    /// After all effects of the first instruction at an address.
    Address(u64),
}

/// Totals of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of lines.
    pub lines: u64,
    /// Number of instructions of all cores.
    pub instructions: u64,
    /// Number of exceptions.
    pub exceptions: u64,
    /// Number of lines that could not be parsed.
    pub problems: u64,
    /// Loads that the log calls writes, and that are taken as reads, with the line of the first.
    pub corrected_loads: Lost,
}

/// Result of building or reading an index.
pub type IndexResult<T> = Result<T, IndexError>;

/// Error in building or reading an index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The log cannot be read.
    #[error("cannot read the log: {0}")]
    Log(#[source] io::Error),
    /// The index cannot be written.
    #[error("cannot write the index: {0}")]
    Write(#[source] io::Error),
    /// The index cannot be read.
    #[error("cannot read the index: {0}")]
    Read(#[source] io::Error),
    /// The file is not an index.
    #[error("this is not an index of a trace")]
    Foreign,
    /// The index is of another version.
    #[error("the index has version {0}; only version {current} is supported", current = directory::VERSION)]
    Version(u32),
    /// The index ends too early.
    #[error("the index is truncated")]
    Truncated,
    /// A checksum is wrong, or a checked block is invalid.
    #[error("the index is damaged at offset {offset:#x}")]
    Damaged {
        /// Offset in the index.
        offset: u64,
    },
    /// The fingerprint of the log does not match.
    #[error("the log has changed since its index was built")]
    Changed,
}

impl IndexError {
    fn of_read(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Read(error) }
    }

    /// Whether rebuilding the index would help.
    pub fn is_of_index(&self) -> bool {
        matches!(self, Self::Foreign | Self::Version(_) | Self::Truncated | Self::Damaged { .. } | Self::Changed)
    }
}
