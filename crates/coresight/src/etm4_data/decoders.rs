//! The decoders of a data trace stream.

use alloc::string::ToString as _;

use super::{Config, ElementDecoder, Packet, PacketDecoder};
use crate::decode::Decoders;
use crate::{Features, Transactions};

impl Decoders for Config {
    type Packet = Packet;
    type Packets = PacketDecoder;
    type Elements = ElementDecoder;
    type Committed = ElementDecoder;

    fn packets(&self) -> PacketDecoder {
        PacketDecoder::new()
    }

    fn elements(&self) -> ElementDecoder {
        ElementDecoder::new()
    }

    fn committed(&self, _transactions: Transactions) -> ElementDecoder {
        ElementDecoder::new()
    }

    fn features(&self) -> Features {
        Features { version: "ETMv4 data trace".to_string(), timestamps: self.timestamps, ..Features::default() }
    }
}
