//! Reasons why the builder refuses input.

use std::io;

use super::input::Features;

/// Reason why input was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The version of the format has no such record.
    #[error("version 1.{minor} has no {what}")]
    Version {
        /// The minor version.
        minor: u32,
        /// The missing item.
        what: &'static str,
    },
    /// The header does not declare the feature.
    #[error("{what} in a trace whose header does not declare the features {:#x}", features.0)]
    NotDeclared {
        /// The item.
        what: &'static str,
        /// The feature to declare.
        features: Features,
    },
    /// Invalid length of vector registers.
    #[error("a vector register has 128 bits or a larger power of two, up to 65536, not {0}")]
    Vlen(u32),
    /// The extensions contradict the encoding mode.
    #[error("the extensions {0:?} contradict the encoding mode")]
    Extensions(String),
    /// The text exceeds the length field.
    #[error("a text of {0} bytes is too long")]
    TooLong(usize),
    /// Instructions have even addresses.
    #[error("{what} is the odd address {address:#x}")]
    Odd {
        /// The item.
        what: &'static str,
        /// The address.
        address: u64,
    },
    /// The opcode contradicts the outcome.
    #[error("the opcode {opcode:#x} at {pc:#x} {what}")]
    Effect {
        /// The opcode.
        opcode: u32,
        /// Its address.
        pc: u64,
        /// The contradiction.
        what: &'static str,
    },
    /// Invalid register.
    #[error("a register {0}")]
    Register(&'static str),
    /// Invalid access.
    #[error("an access {0}")]
    Access(&'static str),
    /// Invalid page table walk.
    #[error("a page table walk {0}")]
    Walk(&'static str),
    /// Invalid event.
    #[error("an event {0}")]
    Event(&'static str),
    /// Invalid micro-operation.
    #[error("a micro-operation has 2 or 4 bytes, not {0}")]
    MicroOp(u8),
}
