//! ETMv3 trace (3.0 to 3.5): instructions with one atom each, and their data accesses in the same stream.
//!
//! bytes ─▶ [`Packet`]s ─▶ elements ─▶ committed elements
//!
//! Each stage is public: [`PacketDecoder`], [`ElementDecoder`] after it, [`Cancellation`] after that. [`Config`] is the
//! configuration of the trace unit.

mod cancellation;
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
pub mod unit;

pub use cancellation::Cancellation;
pub use config::{Config, Registers};
pub use decoders::CommittedDecoder;
pub use element::OwnElement;
pub use encode::Unencodable;
pub use interpret::ElementDecoder;
pub use packet::{Packet, PacketKind};
pub use read::{PacketDecoder, PacketItem, next_start};

#[cfg(test)]
mod tests;
