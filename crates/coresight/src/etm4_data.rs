//! The data trace stream of ETMv4, as far as its layout is known in public: synchronization, markers, timestamps, and where
//! packets without a known layout start.
//!
//! bytes ─▶ [`Packet`]s ─▶ elements
//!
//! A data stream accompanies an instruction stream, with the next trace id. The headers of its packets are known; the payloads of trace
//! info, event, P1 (addresses) and P2 (values) packets are not, so that nothing can be read after one up to the next
//! alignment synchronization. These bytes are reported as undecoded. Specification: Arm IHI 0064, data trace stream.

mod config;
mod decoders;
mod encode;
mod fields;
mod interpret;
pub mod packet;
mod parse;
mod read;
mod text;

pub use config::Config;
pub use encode::Unencodable;
pub use interpret::ElementDecoder;
pub use packet::{Packet, PacketKind};
pub use read::{PacketDecoder, PacketItem};

#[cfg(test)]
mod tests;
