//! Loads and stores: totals of each line of memory, reuse distances, strides.
//!
//! accesses of the steps of a source ─▶ **lines, reuse, strides** ─▶ tables
//!
//! A line is an aligned piece of memory, as a cache has it; an access belongs to the line of its first byte. An access that reads and
//! writes counts as a read and as a write of its line, and once everywhere else. Prefetches count nowhere.

mod lines;
mod reuse;
mod strides;

use unspool_model::{Access, Direction};

pub use self::lines::{LineTotals, Totals};
pub use self::reuse::{Bucket, Reuse};
pub use self::strides::{Pattern, Strides};

/// Whether an access reads.
pub fn reads(access: &Access<'_>) -> bool {
    matches!(access.direction, Direction::Read | Direction::Both)
}

/// Whether an access writes.
pub fn writes(access: &Access<'_>) -> bool {
    matches!(access.direction, Direction::Write | Direction::Both)
}
