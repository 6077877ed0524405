//! All rooms from packets to the flow of the program, one behind the other.
//!
//! packets ─▶ elements ─▶ committed ─▶ **flow**
//!
//! Each room can be had on its own; joined like this the compiler sees through all of them, so that an atom costs one
//! look at the graph.

use unspool_coresight::Take;
use unspool_coresight::etm4::packet::Address;
use unspool_coresight::etm4::{
    Atoms, Config, ElementDecoder, ElementItem, Located, Packet, PacketItem, Speculation, Transactions,
};

use crate::item::FlowSink;
use crate::memory::CodeMemory;
use crate::walk::{Place, Walker};

/// Turns packets into what was executed. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
#[derive(Debug)]
pub struct FlowDecoder<M> {
    elements: ElementDecoder,
    speculation: Speculation,
    walker: Walker<M>,
    /// Nothing but the walk is left to do for atoms and addresses, and known runs say all.
    is_plain: bool,
}

impl<M: CodeMemory> FlowDecoder<M> {
    /// A decoder at the start of a stream.
    pub fn new(config: &Config, transactions: Transactions, memory: M) -> Self {
        Self {
            elements: ElementDecoder::new(config),
            speculation: Speculation::new(config, transactions),
            walker: Walker::new(config, memory),
            is_plain: false,
        }
    }

    /// Takes the next packet, or the error in its place.
    #[inline(always)]
    pub fn push(&mut self, item: PacketItem, sink: &mut impl FlowSink) {
        match item {
            Ok(Located { offset, length, value: Packet::Atoms(atoms) }) => {
                if self.is_plain {
                    self.walker.quick_atoms(Place { offset, length }, atoms, sink);
                } else {
                    self.atoms(offset, length, atoms, sink);
                }
            }
            Ok(Located { offset, length, value: Packet::Address(address) }) => {
                if self.is_plain {
                    let target = self.elements.complete(address);
                    self.walker.target(Place { offset, length }, target, sink);
                } else {
                    self.address(offset, length, address, sink);
                }
            }
            other => self.uncommon(other, sink),
        }
    }

    #[inline(never)]
    fn atoms(&mut self, offset: u64, length: u64, atoms: Atoms, sink: &mut impl FlowSink) {
        self.uncommon(Ok(Located { offset, length, value: Packet::Atoms(atoms) }), sink);
    }

    #[inline(never)]
    fn address(&mut self, offset: u64, length: u64, address: Address, sink: &mut impl FlowSink) {
        self.uncommon(Ok(Located { offset, length, value: Packet::Address(address) }), sink);
    }

    /// Through all rooms, one by one.
    #[inline(never)]
    fn uncommon(&mut self, item: PacketItem, sink: &mut impl FlowSink) {
        let Self { elements, speculation, walker, .. } = self;
        elements.push(item, &mut Resolving { speculation, next: Walking { walker, sink } });
        self.is_plain = self.elements.is_plain() && self.speculation.is_plain() && self.walker.is_quick();
    }

    /// Ends the stream at this place in the buffer. Returns how many P0 elements were still speculative.
    pub fn finish(&mut self, offset: u64, sink: &mut impl FlowSink) -> u64 {
        let Self { elements, speculation, walker, .. } = self;
        elements.finish(&mut Resolving { speculation, next: Walking { walker, sink } });
        let outstanding = speculation.finish(&mut Walking { walker, sink });
        walker.finish(offset, sink);
        outstanding
    }
}

struct Resolving<'r, N> {
    speculation: &'r mut Speculation,
    next: N,
}

impl<N: Take<ElementItem>> Take<ElementItem> for Resolving<'_, N> {
    #[inline(always)]
    fn take(&mut self, item: ElementItem) {
        self.speculation.push(item, &mut self.next);
    }
}

struct Walking<'r, M, S> {
    walker: &'r mut Walker<M>,
    sink: &'r mut S,
}

impl<M: CodeMemory, S: FlowSink> Take<ElementItem> for Walking<'_, M, S> {
    #[inline(always)]
    fn take(&mut self, item: ElementItem) {
        self.walker.push(item, self.sink);
    }
}
