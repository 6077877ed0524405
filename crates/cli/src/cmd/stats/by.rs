//! Tables of `stats`.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    /// Class; an instruction may be in several classes
    Class,
    /// Mnemonic; of STF and Tarmac, as encoded or written
    Mnemonic,
    /// Instruction set
    Isa,
    /// Exception level or privilege mode
    Level,
    /// Security state
    Security,
    /// Process
    Process,
    /// Core
    Core,
    /// Branch outcome
    Branch,
    /// Kind of exception
    Exception,
}

impl By {
    /// The table with this name in JSON.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}
