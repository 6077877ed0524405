//! STF, the Simple Trace Format: what a RISC-V hart executed, with registers, accesses and their data.
//!
//! A file is a row of records: a header, and groups that each end with the opcode of an instruction.

mod bytes;
pub mod layout;
pub mod lift;
pub mod read;
pub mod record;

pub use layout::{Layout, Malformed};
pub use record::Record;
