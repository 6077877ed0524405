//! What makes a wrong trace, and so is not written.

use std::io;

use super::Features;

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The version of the format has no such thing.
    #[error("version 1.{minor} has no {what}")]
    Version {
        /// The number behind the dot.
        minor: u32,
        /// What it lacks.
        what: &'static str,
    },
    /// The header does not say that the trace has this.
    #[error("{what} in a trace whose header does not declare the features {:#x}", features.0)]
    NotDeclared {
        /// What.
        what: &'static str,
        /// What should have been declared.
        features: Features,
    },
    /// No vector register has so many bits.
    #[error("a vector register has 128 bits or a power of two above, up to 65536, and not {0}")]
    Vlen(u32),
    /// The instruction set is another one.
    #[error("the extensions {0:?} are not those of the encoding mode")]
    Extensions(String),
    /// More bytes than the field before them can count.
    #[error("a text of {0} bytes is too long")]
    TooLong(usize),
    /// Instructions have even addresses.
    #[error("{what} is the odd address {address:#x}")]
    Odd {
        /// What is odd.
        what: &'static str,
        /// The address.
        address: u64,
    },
    /// The opcode cannot do that.
    #[error("the opcode {opcode:#x} at {pc:#x} {what}")]
    Effect {
        /// The opcode.
        opcode: u32,
        /// Where it is.
        pc: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The register cannot be.
    #[error("a register {0}")]
    Register(&'static str),
    /// The access cannot be.
    #[error("an access {0}")]
    Access(&'static str),
    /// The page table walk cannot be.
    #[error("a page table walk {0}")]
    Walk(&'static str),
    /// The event cannot be.
    #[error("an event {0}")]
    Event(&'static str),
    /// The micro-operation cannot be.
    #[error("a micro-operation has 2 or 4 bytes, and not {0}")]
    MicroOp(u8),
}
