//! CoreSight trace.
#![no_std]
extern crate alloc;

mod protocol;
pub use protocol::Protocol;
