//! System trace: MIPI STP version 2, as a CoreSight STM writes it.
//!
//! bytes ─▶ [`Packet`]s ─▶ elements
//!
//! The unit of the protocol is the nibble: a packet may start in the middle of a byte. Each stage is public:
//! [`PacketDecoder`], and [`ElementDecoder`] after it, which knows master, channel and time of every value. There are no
//! instructions here. [`Encoder`] is the other direction.

mod config;
mod decoders;
pub mod element;
mod encode;
mod fields;
mod frequent;
mod interpret;
mod nibbles;
pub mod packet;
mod parse;
mod read;
mod text;

pub use config::Config;
pub use element::{Kind, OwnElement};
pub use encode::{Encoder, Unencodable};
pub use interpret::ElementDecoder;
pub use packet::{Body, Packet, PacketKind, Timestamp, TimestampFormat, Version};
pub use read::{PacketDecoder, PacketItem};

#[cfg(test)]
mod tests;
