//! CoreSight trace.
#![no_std]
extern crate alloc;

mod cursor;
pub mod etm4;
pub mod frame;
mod protocol;
pub use protocol::Protocol;
