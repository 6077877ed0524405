//! State: the values of registers and memory, as far as the log determines them.
//!
//! records ─▶ **registers**, **memory**
//!
//! A log contains changes only, so at its start nothing is known. A value that is read from memory before any write was
//! there from the start. A read that contradicts a known value shows that another agent wrote it.

mod cells;
mod data;
mod granule;
mod machine;
mod memory;
mod registers;
mod semihosting;
mod unknown_writes;

pub use cells::Contents;
pub use granule::{Known, LastWrite};
pub use machine::{Core, Machine};
pub use memory::Memory;
pub(crate) use registers::Pointer;
pub use registers::{Registers, Touched};

pub(crate) use data::{Bytes, PADDED_DIGITS, has_padding, is_low_first};
pub(crate) use granule::{GRANULE, Granule};
pub(crate) use machine::{EarlierState, LastInstruction, MAX_CORES};
pub(crate) use unknown_writes::{UnknownWrites, bytes_of};
