//! Instrumentation trace: software stimulus of an ITM, and the packets of a DWT that travel with it.
//!
//! bytes ─▶ [`Packet`]s ─▶ elements
//!
//! Each stage is public: [`PacketDecoder`], and [`ElementDecoder`] after it, which numbers ports across pages and dates
//! packets by the timestamps that follow them. There are no instructions here. [`Packet::encode`] is the other direction.

mod config;
mod decoders;
pub mod element;
mod encode;
mod fields;
mod interpret;
pub mod packet;
mod parse;
mod read;
mod text;

pub use config::Config;
pub use element::{Event, ExceptionAction, OwnElement, PcSample};
pub use encode::Unencodable;
pub use interpret::ElementDecoder;
pub use packet::{Extension, Hardware, Packet, PacketKind, Relation};
pub use read::{PacketDecoder, PacketItem};

#[cfg(test)]
mod tests;
