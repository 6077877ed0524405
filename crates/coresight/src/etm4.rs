//! ETE and ETMv4 instruction trace. ETE is ETMv4 with differences, so they share this folder.
//!
//! bytes ─▶ [`Packet`]s ─▶ elements ─▶ committed elements
//!
//! Each stage is public: [`PacketDecoder`], [`ElementDecoder`] after it, [`Speculation`] after that. [`Config`] is the
//! configuration of the trace unit. [`mod@unit`] is the other direction: execution to bytes.

mod address;
mod atoms;
mod conditional;
mod config;
mod decoders;
pub mod element;
mod encode;
mod explain;
mod fields;
mod interpret;
mod p0;
pub mod packet;
mod parse;
pub mod program;
mod read;
mod speculation;
mod text;
pub mod unit;
mod waiting;

pub(crate) use config::field;
pub use config::{Config, Registers, Version};
pub use decoders::CommittedDecoder;
pub use element::{ConditionOutcome, OwnElement};
pub use encode::Unencodable;
pub use explain::{ExplainedField, Explanation, explain};
pub use interpret::ElementDecoder;
pub use p0::{p0_count, survives_cancel};
pub use packet::{Packet, PacketKind};
pub use read::{PacketDecoder, PacketItem, next_start};
pub use speculation::Speculation;

#[cfg(test)]
mod tests;
