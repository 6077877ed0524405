//! CoreSight trace: from the bytes of a trace buffer to what the trace units said happened, and back to bytes.
//!
//! buffer bytes ─▶ [`frame`]s ─▶ packets ─▶ elements ─▶ committed elements ([`etm4`])
//!
//! This crate knows protocols. It opens no file, knows no program, allocates little and never panics on what it reads:
//! malformed bytes are values with an offset. It is `no_std`.
//!
//! ```
//! use unspool_coresight::Protocol;
//! use unspool_coresight::etm4::{Config, ElementDecoder, ElementItem, Packets, Profile, Registers};
//!
//! let (config, _assumed) = Config::new(Protocol::Ete, Profile::Unknown, &Registers::default());
//! // An alignment synchronisation, a trace info, the address 0x1000 with its context, two atoms.
//! let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00, 0x82, 0x00, 0x08, 0x00, 0x00, 0x31, 0xd9];
//! let mut elements = ElementDecoder::new(&config);
//! let mut texts = Vec::new();
//! for packet in Packets::new(&config, &bytes) {
//!     elements.push(packet, &mut |element: ElementItem| texts.extend(element.map(|element| element.value.to_string())));
//! }
//! assert_eq!(texts[1], "context EL1 nonsecure AArch64");
//! assert_eq!(texts[2], "target address 0x0000000000001000 IS0");
//! assert_eq!(texts[3], "atoms EN");
//! ```
#![no_std]
extern crate alloc;

mod cursor;
pub mod etm4;
pub mod frame;
mod protocol;
mod take;
pub mod trace_buffer;

pub use protocol::Protocol;
pub use take::Take;
