//! What makes a wrong trace, and so is not written.

use std::io;

use super::super::check::Rule;

/// Why something was not written.
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
    /// The largest number is no time.
    #[error("the largest timestamp is reserved: begin with a smaller one")]
    TimestampReserved,
    /// More bytes than a string may have.
    #[error("a string has at most 65535 bytes, and this one has {0}")]
    StringTooLong(usize),
    /// No context yet.
    #[error("a context comes before the first instruction, and behind what leads out of EL0")]
    ContextMissing,
    /// A field has too few bits for this.
    #[error("the {field} {value} does not fit into its field")]
    TooLarge {
        /// Which.
        field: &'static str,
        /// What it should be.
        value: u64,
    },
    /// Another Exception level in a trace of one.
    #[error("a Basic trace has one Exception level: this is EL{found} after EL{first}")]
    OtherLevel {
        /// The level of the trace.
        first: u8,
        /// The one that was refused.
        found: u8,
    },
    /// An exception does not lead there.
    #[error("an exception at EL{from} does not lead to EL{to}")]
    Down {
        /// Where it was.
        from: u8,
        /// Where it should lead.
        to: u8,
    },
    /// The return from an exception does not lead there.
    #[error("the return from an exception at EL{from} does not lead to EL{to}")]
    Up {
        /// Where it was.
        from: u8,
        /// Where it should lead.
        to: u8,
    },
    /// Something that only a BasicPlus trace has.
    #[error("{0} can only be told by a BasicPlus trace")]
    NotInBasic(&'static str),
    /// Something happened in a mode that the format does not support.
    #[error("the PE is in an unsupported mode: a context has to end it first")]
    Unsupported,
    /// The instruction does not follow the one before.
    #[error("execution goes on at {expected:#x}, and not at {found:#x}")]
    Discontinuity {
        /// Where it goes on.
        expected: u64,
        /// Where the instruction is.
        found: u64,
    },
    /// The opcode cannot have this effect.
    #[error("the opcode {opcode:#010x} at {pc:#x} {what}")]
    Effect {
        /// The opcode.
        opcode: u32,
        /// Where it is.
        pc: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A rule of the format would be broken.
    #[error("{}: {detail}", .rule.name)]
    Rule {
        /// Which one.
        rule: &'static Rule,
        /// What was found.
        detail: String,
    },
    /// The state cannot be told.
    #[error("{0}")]
    State(&'static str),
    /// The access cannot be.
    #[error("an access {0}")]
    Access(&'static str),
}
