//! STF, the Simple Trace Format: the instructions of a RISC-V hart, with registers, accesses and their data.
//!
//! A file is a sequence of records: a header, and groups that each end with the opcode of an instruction.

pub mod builder;
mod bytes;
pub mod check;
pub mod edit;
pub mod header;
mod isa;
#[cfg(feature = "text")]
pub mod json;
pub mod layout;
mod length;
pub mod lift;
pub mod lower;
pub mod merge;
pub mod names;
mod position;
pub mod read;
pub mod record;
mod sign;
pub mod slice;
pub mod stats;
pub mod steps;
mod storage;
#[cfg(feature = "text")]
pub mod text;
pub mod version;
pub mod write;
mod zstf;

pub use layout::{Layout, Malformed};
pub use record::Record;
pub use storage::Storage;
