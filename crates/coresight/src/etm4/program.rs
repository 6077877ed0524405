//! How to program a trace unit, and what a programmed one traces.
//!
//! ```text
//! what is wanted ─▶ plan ─▶ register values ─▶ outlook: what they trace, what not, what is wrong
//!                                           └─▶ listing: the instructions that write, save and restore them
//! ```
//!
//! Specification: the programming section of ETE, and the registers in DDI 0487.

mod listing;
mod outlook;
mod plan;

pub use listing::{Listing, SAVED, listing};
pub use outlook::{Remark, Verdict, outlook};
pub use plan::{Buffer, Levels, Plan, Unprogrammable};

use alloc::borrow::Cow;
use alloc::string::String;

/// A register and the value it is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The architectural name.
    pub register: Cow<'static, str>,
    /// The value.
    pub value: u64,
    /// What that does.
    pub why: String,
}

#[cfg(test)]
mod tests;
