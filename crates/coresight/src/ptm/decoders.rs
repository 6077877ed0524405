//! The decoders of PTM. Nothing is speculative: elements are committed at once.

use alloc::string::ToString as _;

use super::{Config, ElementDecoder, Packet, PacketDecoder, next_start};
use crate::decode::{Decoders, FlowRules, InstructionDecoders};
use crate::{Features, Transactions};

impl Decoders for Config {
    type Packet = Packet;
    type Packets = PacketDecoder;
    type Elements = ElementDecoder;
    type Committed = ElementDecoder;

    fn packets(&self) -> PacketDecoder {
        PacketDecoder::new(self)
    }

    fn elements(&self) -> ElementDecoder {
        ElementDecoder::new(self)
    }

    fn committed(&self, _transactions: Transactions) -> ElementDecoder {
        ElementDecoder::new(self)
    }

    fn features(&self) -> Features {
        Features {
            version: self.version.to_string(),
            max_speculation: 0,
            timestamps: self.timestamps,
            cycle_counting: self.cycle_accurate,
            context_ids: self.context_id_bytes > 0,
            context_id_bytes: self.context_id_bytes,
            vmids: self.vmids,
            vmid_bytes: u8::from(self.vmids),
        }
    }
}

impl InstructionDecoders for Config {
    fn next_start(bytes: &[u8], start: usize) -> Option<usize> {
        next_start(bytes, start)
    }

    fn flow_rules(&self) -> FlowRules {
        FlowRules {
            wfx_is_p0: false,
            return_stack: self.return_stack,
            // Cores with version 1.0 do not mark them.
            silent_exception_returns: self.version.minor == 0,
            may_mispredict: false,
            waypoints: true,
            barrier_waypoints: self.barrier_waypoints,
            ..FlowRules::default()
        }
    }
}
