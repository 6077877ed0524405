//! Where to find what in a log: jumps, and the state at any point, without reading it again.
//!
//! ```text
//! log ─▶ pieces ─▶ summary of each ─▶ in order: checkpoints, tree of tables ─▶ file
//! file, log ─▶ a line, an instruction, an address, registers and memory at a line
//! ```
//!
//! A log is cut into pieces at instructions. What a piece tells is found out without what came before, on all cores, and
//! put together in order. At the start of each piece all registers are kept. Of memory, each piece has what was read in
//! it first and what was written last; pieces are put together by sixteens, and those again. A question reads one piece
//! of the log at most twice and a few blocks of the index. An index knows which log it is of; every block has a checksum.
//! Knows streams, and opens no file.

mod builder;
mod bytes;
mod calls;
mod checkpoint;
mod directory;
mod fingerprint;
mod jumps;
mod query;
mod scan;
mod segment;
mod store;
mod table;
mod time;
mod tree;
mod view;

use std::io;

use super::dialect::Dialect;
use super::parse::ParseOptions;
use super::record::Time;

pub use builder::build;
pub use directory::Index;
pub use fingerprint::Fingerprint;
pub use query::{Answer, CoreState, Found, Indexed, State};
pub use scan::Scanner;
pub use time::compare;
pub use view::{MemoryQuery, RegisterValue, StateView, WriteQuery, WrittenRange, register, time_text};

/// How lines are understood, and how an index is made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexOptions {
    /// What lines do not say.
    pub parse: ParseOptions,
    /// Who wrote the log.
    pub dialect: Dialect,
    /// Numbers lie in memory with the highest byte first.
    pub big_endian: bool,
    /// How many threads find out what pieces tell.
    pub threads: usize,
    /// How many bytes a piece has, about.
    pub piece: usize,
}

impl IndexOptions {
    /// The usual ones, for a log of this dialect.
    pub fn of(dialect: Dialect) -> Self {
        let parse = ParseOptions { implicit_thumb: dialect.has_implicit_thumb() };
        Self { parse, dialect, big_endian: false, threads: 1, piece: 2 << 20 }
    }
}

/// A place in a log. What is known there is what all lines up to it tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Behind a line; the first is 1.
    Line(u64),
    /// Before the first line that is later.
    Time(Time),
    /// Behind all that an instruction did; the first is 1.
    Instruction(u64),
}

/// What a log comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Lines.
    pub lines: u64,
    /// Instructions of all cores.
    pub instructions: u64,
    /// Exceptions that were taken.
    pub exceptions: u64,
    /// Lines that cannot be understood.
    pub problems: u64,
}

/// Why an index cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The log cannot be read.
    #[error("the log cannot be read: {0}")]
    Log(#[source] io::Error),
    /// The index cannot be written.
    #[error("the index cannot be written: {0}")]
    Write(#[source] io::Error),
    /// The index cannot be read.
    #[error("the index cannot be read: {0}")]
    Read(#[source] io::Error),
    /// This is no index.
    #[error("this is no index of a Tarmac log")]
    Foreign,
    /// The index is of another version.
    #[error("the index is of version {0}, and only version {current} can be read", current = directory::VERSION)]
    Version(u32),
    /// The index ends too early.
    #[error("the index is cut short")]
    Truncated,
    /// A checksum is wrong, or what it covers means nothing.
    #[error("the index is damaged at offset {offset:#x}")]
    Damaged {
        /// Where in the index.
        offset: u64,
    },
    /// The log is not the one that the index was made of.
    #[error("the log has changed since its index was made")]
    Changed,
}

impl IndexError {
    fn of_read(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Read(error) }
    }

    /// Would a new index help?
    pub fn is_of_index(&self) -> bool {
        matches!(self, Self::Foreign | Self::Version(_) | Self::Truncated | Self::Damaged { .. } | Self::Changed)
    }
}
