//! Programming of a trace unit, and the effect of its registers.
//!
//! ```text
//! plan ─▶ register values ─▶ audit: what they trace, what they do not, what is wrong
//!                         ├─▶ condition: what the events of a trace mean
//!                         └─▶ listing: the instructions that write, save, restore and switch them
//! ```
//!
//! Specification: the programming section of ETE, and the registers in DDI 0487.

mod audit;
mod condition;
mod listing;
mod plan;

pub use audit::{Remark, Verdict, audit};
pub use condition::{AddressName, event_meanings};
pub use listing::{Listing, SAVED, listing};
pub use plan::{At, Buffer, Event, Levels, Plan, Unprogrammable};

use alloc::borrow::Cow;
use alloc::string::String;

/// A register and the value to write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The architectural name.
    pub register: Cow<'static, str>,
    /// The value.
    pub value: u64,
    /// The effect of the value.
    pub why: String,
}

#[cfg(test)]
mod tests;
