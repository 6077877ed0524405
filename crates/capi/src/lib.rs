//! The C interface: handles, plain structs and status codes around [`unspool::open`].
//!
//! ```text
//! path ─▶ UnspoolTrace ─▶ UnspoolInstructions, UnspoolBlocks, UnspoolPackets ─▶ arrays of structs
//!                      └▶ UnspoolSteps ─▶ one borrowed struct after another
//! ```
//!
//! Each function checks its pointers and catches panics; `include/unspool.h` is generated from the documentation here, so
//! that comments of public items address the programmer in C. Knows no format: what a step is, `unspool` decides.
//!
//! Unsafe code is here because C passes pointers. It is in `pointer`, and in the functions that call it with what C passed.
#![allow(unsafe_code)]

mod known;
mod pointer;
mod reader;
mod status;
mod text;

// The header has the functions in this order.

mod failure;

mod trace;

mod instructions;

mod blocks;

mod packets;

mod steps;

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_char};

pub use blocks::{UnspoolBlock, UnspoolBlocks, unspool_blocks_free, unspool_blocks_open, unspool_blocks_read};
pub use failure::unspool_error_message;
pub use instructions::{
    UnspoolExecutedInstruction, UnspoolInstruction, UnspoolInstructions, UnspoolIsa, unspool_instructions_free,
    unspool_instructions_open, unspool_instructions_read,
};
pub use known::*;
pub use packets::{
    UnspoolPacket, UnspoolPackets, unspool_packets_free, unspool_packets_open, unspool_packets_read,
    unspool_packets_text,
};
pub use status::UnspoolStatus;
pub use steps::*;
pub use text::UnspoolText;
pub use trace::*;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// Version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn unspool_version() -> *const c_char {
    VERSION.as_ptr()
}
