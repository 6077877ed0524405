//! Refusals of the builder: what would make a wrong trace is not written.

use std::io;

use super::super::check::Rule;

/// Reason why something was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The trace has no timestamps: its header says so.
    #[error("the trace was begun without timestamps")]
    NoTimestamps,
    /// The first timestamp is due.
    #[error("a trace with timestamps has one before its first context")]
    TimestampMissing,
    /// Time does not advance.
    #[error("the timestamp {value} does not come after {last}")]
    TimestampOrder {
        /// The one that was refused.
        value: u64,
        /// The one before.
        last: u64,
    },
    /// The largest number is not a time.
    #[error("the largest timestamp is reserved: begin with a smaller one")]
    TimestampReserved,
    /// The string is too long.
    #[error("a string has at most 65535 bytes, but this one has {0}")]
    StringTooLong(usize),
    /// A context is missing.
    #[error("a context is missing before the first instruction, or after an exception at EL0")]
    ContextMissing,
    /// The value does not fit.
    #[error("the {field} {value} does not fit into its field")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A second Exception level in a Basic trace.
    #[error("a Basic trace has one Exception level: this is EL{found} after EL{first}")]
    OtherLevel {
        /// The level of the trace.
        first: u8,
        /// The one that was refused.
        found: u8,
    },
    /// An exception does not lead to this level.
    #[error("an exception at EL{from} does not lead to EL{to}")]
    Down {
        /// Level before.
        from: u8,
        /// Level after.
        to: u8,
    },
    /// The return from an exception does not lead to this level.
    #[error("the return from an exception at EL{from} does not lead to EL{to}")]
    Up {
        /// Level before.
        from: u8,
        /// Level after.
        to: u8,
    },
    /// Something that only a BasicPlus trace has.
    #[error("only a BasicPlus trace can record {0}")]
    NotInBasic(&'static str),
    /// Something happened in a mode that the format does not support.
    #[error("the PE is in an unsupported mode: a context has to end it first")]
    Unsupported,
    /// The instruction does not follow the one before.
    #[error("execution continues at {expected:#x}, not at {found:#x}")]
    Discontinuity {
        /// Address where it continues.
        expected: u64,
        /// Address of the instruction.
        found: u64,
    },
    /// The opcode cannot have this effect.
    #[error("the opcode {opcode:#010x} at {pc:#x} {what}")]
    Effect {
        /// The opcode.
        opcode: u32,
        /// Its address.
        pc: u64,
        /// The contradiction.
        what: &'static str,
    },
    /// A rule of the format would be broken.
    #[error("{}: {detail}", .rule.name)]
    Rule {
        /// The rule.
        rule: &'static Rule,
        /// Details of the finding.
        detail: String,
    },
    /// The state is incomplete.
    #[error("{0}")]
    State(&'static str),
    /// The access is impossible.
    #[error("an access {0}")]
    Access(&'static str),
}
