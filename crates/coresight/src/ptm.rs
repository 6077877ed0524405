//! PTM instruction trace: the program flow trace of Armv7-A cores, versions 1.0 and 1.1.
//!
//! bytes ─▶ [`Packet`]s ─▶ elements
//!
//! Each stage is public: [`PacketDecoder`], and [`ElementDecoder`] after it. Nothing is speculative, so its elements are
//! committed. [`Config`] is the configuration of the trace unit. The trace has an outcome for each waypoint, an
//! instruction that may change the flow of the program; `flow` knows which instructions these are.
//! Specification: Arm IHI 0035.

mod config;
mod decoders;
mod encode;
mod fields;
mod interpret;
pub mod packet;
mod parse;
mod read;
mod text;
pub mod unit;

pub use config::{Config, Registers, Version};
pub use encode::Unencodable;
pub use interpret::ElementDecoder;
pub use packet::{Packet, PacketKind};
pub use read::{PacketDecoder, PacketItem, next_start};

#[cfg(test)]
mod tests;
