//! CoreSight trace: from the bytes of a trace buffer to the elements that trace units recorded, and back to bytes.
//!
//! buffer bytes ─▶ [`frame`]s ─▶ packets ─▶ [`Element`]s ─▶ committed elements
//!
//! One folder per protocol ([`etm4`], [`ptm`], [`etm3`], [`itm`], [`stm`]); types that all protocols share are outside of
//! them, and [`TraceConfig`] is the table that chooses the decoders of a protocol. This crate opens no file, knows no
//! program, allocates little and never panics on its input: malformed bytes are values with an offset. It is `no_std`.
//!
//! ```
//! use unspool_coresight::etm4::{Config, ElementDecoder, Registers};
//! use unspool_coresight::{DecodeElements, ElementItem, Packets, Profile, Protocol};
//!
//! let (config, _assumed) = Config::new(Protocol::Ete, Profile::Unknown, &Registers::default());
//! // An alignment synchronization, a trace info, the address 0x1000 with its context, two atoms.
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

mod atoms;
mod config;
mod context;
mod cursor;
mod decode;
mod element;
pub mod etm3;
pub mod etm4;
pub mod etm4_data;
pub mod exception;
mod features;
pub mod fields;
pub mod frame;
pub mod itm;
mod located;
mod packet;
mod protocol;
pub mod ptm;
mod sink;
mod sources;
pub mod stm;
pub mod trace_buffer;
pub mod unit;

pub use atoms::Atoms;
pub use config::TraceConfig;
pub use context::{Context, OtherIsa, ProcessorMode, Security, SubIsa, Target};
pub use decode::{
    ConditionScope, DecodeElements, DecodePackets, Decoders, DecodingElements, FlowRules, InstructionDecoders, Packets,
    Plain,
};
pub use element::{Element, ElementItem, Software, Time, TimeQuality, Transactions};
pub use features::{Assumption, Features, Profile};
pub use located::{Broken, ElementError, Extent, Located, Malformed, PacketError, PacketItem, TraceError};
pub use packet::{Packet, PacketKind};
pub use protocol::Protocol;
pub use sink::Sink;
pub use sources::ConfiguredSources;
