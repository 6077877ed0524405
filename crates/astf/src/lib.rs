//! ASTF, the Architectural Structured Trace Format of Arm: what one AArch64 PE executed, with the addresses it
//! accessed.
//!
//! file ─▶ [`read`] ─▶ [`record`]s ─▶ [`lift`] (instructions), [`check`] (findings), `text` (lines)
//! steps ─▶ [`lower`] ─▶ instructions ─▶ [`builder`] ─▶ records ─▶ [`mod@write`] ─▶ file
//!
//! A file is a header and records of 32 bytes, which may be compressed.

mod access;
mod blocks;
pub mod builder;
pub mod check;
mod deflate;
pub mod example;
#[cfg(feature = "text")]
pub mod json;
mod layout;
pub mod lift;
pub mod lower;
pub mod read;
pub mod record;
pub mod sanitize;
pub mod slice;
pub mod stats;
pub mod steps;
#[cfg(feature = "text")]
pub mod text;
pub mod write;

pub use access::{Access, Extent};
pub use layout::{Bytes, Value};
