//! What a trace contains and what was assumed about it, in the words that all protocols share.

use alloc::string::String;
use core::fmt;

/// What a trace contains, as far as its configuration decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// The architecture and its version.
    pub version: String,
    /// The greatest number of P0 elements that are speculative at once.
    pub max_speculation: u32,
    /// Timestamps are generated.
    pub timestamps: bool,
    /// Cycles are counted.
    pub cycle_counting: bool,
    /// Context identifiers are traced.
    pub context_ids: bool,
    /// Virtual context identifiers are traced.
    pub vmids: bool,
}

/// A register that a capture does not have, and the value that was assumed for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assumption {
    /// The register.
    pub register: &'static str,
    /// The value assumed.
    pub value: u32,
    /// What that value means for decoding.
    pub meaning: &'static str,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:#010x} ({})", self.register, self.value, self.meaning)
    }
}

/// The architecture profile of a traced PE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Not known: packets of every profile are accepted.
    #[default]
    Unknown,
    /// A or R profile.
    Application,
    /// M profile.
    Microcontroller,
}
