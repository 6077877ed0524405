//! The decoders of ETE and ETMv4, and the decoder of committed elements.
//!
//! packets ─▶ [`ElementDecoder`] ─▶ [`Speculation`] ─▶ committed elements

use alloc::string::ToString as _;

use super::{Config, ElementDecoder, Packet, PacketDecoder, Speculation, Version, next_start};
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

    fn committed(&self, transactions: Transactions) -> CommittedDecoder {
        CommittedDecoder { elements: ElementDecoder::new(self), speculation: Speculation::new(self, transactions) }
    }

    fn features(&self) -> Features {
        Features {
            version: self.version.to_string(),
            max_speculation: self.max_speculation,
            timestamps: self.timestamps,
            cycle_counting: self.cycle_counting,
            context_ids: self.context_ids,
            context_id_bytes: self.context_id_bytes,
            vmids: self.vmids,
            vmid_bytes: self.vmid_bytes,
        }
    }
}

impl InstructionDecoders for Config {
    fn next_start(bytes: &[u8], start: usize) -> Option<usize> {
        next_start(bytes, start)
    }

    fn flow_rules(&self) -> FlowRules {
        FlowRules {
            wfx_is_p0: self.wfx_is_p0,
            return_stack: self.return_stack,
            silent_exception_returns: matches!(self.version, Version::Ete(_)),
            may_mispredict: self.max_speculation > 0,
            p0_loads: self.p0_loads,
            p0_stores: self.p0_stores,
            conditions: self.conditions,
            ..FlowRules::default()
        }
    }
}

/// Makes committed elements from packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedDecoder {
    elements: ElementDecoder,
    speculation: Speculation,
}

impl DecodeElements for CommittedDecoder {
    type Packet = Packet;

    #[inline(always)]
    fn push(&mut self, item: PacketItem<Packet>, sink: &mut impl Sink<ElementItem>) {
        self.elements.push(item, &mut Resolving { speculation: &mut self.speculation, sink });
    }

    fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64 {
        self.elements.finish(&mut Resolving { speculation: &mut self.speculation, sink });
        self.speculation.finish(sink)
    }

    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.elements.is_plain() && self.speculation.is_plain()
    }

    #[inline(always)]
    fn plain(&mut self, extent: Extent, packet: &Packet, sink: &mut impl Sink<Located<Plain>>) -> bool {
        self.elements.plain(extent, packet, sink)
    }
}

/// Passes elements through the speculation stage.
struct Resolving<'r, S> {
    speculation: &'r mut Speculation,
    sink: &'r mut S,
}

impl<S: Sink<ElementItem>> Sink<ElementItem> for Resolving<'_, S> {
    #[inline(always)]
    fn item(&mut self, item: ElementItem) {
        self.speculation.push(item, self.sink);
    }
}
