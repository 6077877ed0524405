//! The decoders of an STM.

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
        ElementDecoder::new(self)
    }

    fn committed(&self, _transactions: Transactions) -> ElementDecoder {
        ElementDecoder::new(self)
    }

    fn features(&self) -> Features {
        Features { version: "STM".to_string(), timestamps: self.timestamps == Some(true), ..Features::default() }
    }
}
