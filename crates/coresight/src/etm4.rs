//! ETE and ETMv4 instruction trace. ETE is ETMv4 with differences, so they share these rooms.
//!
//! bytes ─▶ [`Packet`]s ─▶ elements ─▶ committed elements
//!
//! Each room is public: [`Packets`] over bytes that are all there, [`PacketDecoder`] over bytes that come in pieces,
//! [`ElementDecoder`] behind it, [`Speculation`] behind that.
//! [`Config`] says what the registers of the trace unit mean for reading.

mod address;
mod atoms;
mod config;
pub mod element;
mod encode;
mod explain;
mod interpret;
pub mod packet;
mod parse;
pub mod program;
mod read;
mod speculation;
mod text;
pub mod unit;
mod waiting;

pub use atoms::Atoms;
pub use config::{Assumption, Config, Profile, Registers, Version};
pub use element::{Broken, Element, ElementError, ElementItem};
pub use encode::Unencodable;
pub use explain::{ExplainedField, Explanation, explain};
pub use interpret::ElementDecoder;
pub use packet::{Packet, PacketKind};
pub use read::{Located, Malformed, PacketDecoder, PacketError, PacketItem, Packets, next_start};
pub use speculation::{Speculation, Transactions};

#[cfg(test)]
mod tests;
