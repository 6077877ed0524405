//! The tables of `stats`.

use clap::ValueEnum;

/// What is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    /// What instructions do; one may be in several classes
    Class,
    /// What instructions are called; of STF and Tarmac, as they were encoded or written
    Mnemonic,
    /// The instruction set
    Isa,
    /// The Exception level, or the privilege mode
    Level,
    /// The Security state
    Security,
    /// The process
    Process,
    /// The core
    Core,
    /// What became of branches
    Branch,
    /// The kind of exceptions
    Exception,
}

impl By {
    /// The table with this name in JSON.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}
