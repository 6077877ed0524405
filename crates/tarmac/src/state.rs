//! What registers and memory hold, byte by byte, and what of it is known.
//!
//! records ─▶ **registers**, **memory**
//!
//! A log tells changes, so at its start nothing is known. What is read from memory before anything was written there was
//! there from the start. A read that contradicts what is known tells that somebody else wrote.

mod cells;
mod data;
mod machine;
mod memory;
mod registers;
mod semihosting;
mod unknown_writes;

pub use cells::Contents;
pub use machine::{Core, Machine};
pub use memory::{Known, LastWrite, Memory};
pub(crate) use registers::Pointer;
pub use registers::{Registers, Touched};

use cells::Cells;
pub(crate) use data::{Bytes, is_low_first};
pub(crate) use machine::{EarlierState, MAX_CORES};
pub(crate) use memory::{GRANULE, Granule};
pub(crate) use unknown_writes::{UnknownWrites, bytes_of};
