//! The decoders of ETMv3, and the decoder of committed elements.
//!
//! packets ─▶ [`ElementDecoder`] ─▶ [`Cancellation`] ─▶ committed elements

use alloc::format;

use super::{Cancellation, Config, ElementDecoder, Packet, PacketDecoder, next_start};
use crate::decode::{DecodeElements, Decoders, FlowRules, InstructionDecoders, Plain};
use crate::{ElementItem, Extent, Features, Located, PacketItem, Sink, Transactions};

impl Decoders for Config {
    type Packet = Packet;
    type Packets = PacketDecoder;
    type Elements = ElementDecoder;
    type Committed = CommittedDecoder;

    fn packets(&self) -> PacketDecoder {
        PacketDecoder::new(self)
    }

    fn elements(&self) -> ElementDecoder {
        ElementDecoder::new(self)
    }

    fn committed(&self, _transactions: Transactions) -> CommittedDecoder {
        CommittedDecoder { elements: ElementDecoder::new(self), cancellation: Cancellation::new(self) }
    }

    fn features(&self) -> Features {
        Features {
            version: format!("ETMv3.{}", self.minor),
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
            atom_per_instruction: true,
            two_atoms_per_t32_call: self.two_atoms_per_thumb_call,
            ..FlowRules::default()
        }
    }
}

/// Makes committed elements from packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedDecoder {
    elements: ElementDecoder,
    cancellation: Cancellation,
}

impl DecodeElements for CommittedDecoder {
    type Packet = Packet;

    #[inline]
    fn push(&mut self, item: PacketItem<Packet>, sink: &mut impl Sink<ElementItem>) {
        self.elements.push(item, &mut Settling { cancellation: &mut self.cancellation, sink });
    }

    fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64 {
        let outstanding = self.elements.finish(&mut Settling { cancellation: &mut self.cancellation, sink });
        self.cancellation.finish(sink);
        outstanding
    }

    #[inline(always)]
    fn is_plain(&self) -> bool {
        true
    }

    fn is_settled(&self) -> bool {
        self.cancellation.is_settled()
    }

    /// A synchronization leaves some state to what came before: the time, data addresses, and the atoms that may still be
    /// canceled.
    fn is_self_contained(&self) -> bool {
        self.elements.is_self_contained() && !self.cancellation.is_settled()
    }

    #[inline(always)]
    fn plain(&mut self, extent: Extent, packet: &Packet, sink: &mut impl Sink<Located<Plain>>) -> bool {
        let Packet::PHeader(header) = *packet else { return false };
        if !self.elements.is_known() || !self.cancellation.is_plain() {
            return false;
        }
        for (cycles, atoms) in self.elements.p_header(header) {
            self.cancellation.plain(extent, cycles, atoms, sink);
        }
        true
    }
}

/// Passes elements through the cancellation stage.
struct Settling<'r, S> {
    cancellation: &'r mut Cancellation,
    sink: &'r mut S,
}

impl<S: Sink<ElementItem>> Sink<ElementItem> for Settling<'_, S> {
    #[inline]
    fn item(&mut self, item: ElementItem) {
        self.cancellation.push(item, self.sink);
    }
}
