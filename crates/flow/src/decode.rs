//! All rooms from packets to the flow of the program, one behind the other.
//!
//! packets ─▶ elements ─▶ committed ─▶ **flow**
//!
//! Each room can be had on its own; joined like this the compiler sees through all of them, so that an atom costs one
//! look at the graph.

use unspool_coresight::Take;
use unspool_coresight::etm4::element::Context;
use unspool_coresight::etm4::packet::{Address, SubIsa};
use unspool_coresight::etm4::{
    Atoms, Config, ElementDecoder, ElementItem, Located, Packet, PacketItem, Speculation, Transactions,
};

use crate::item::FlowSink;
use crate::memory::CodeMemory;
use crate::walk::{self, Place, Walker};

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

/// All that decoding carries across a place between two packets, without the code that it knows.
#[derive(Debug, Clone)]
pub struct Seam {
    elements: ElementDecoder,
    speculation: Speculation,
    walk: walk::Seam,
}

/// What a stretch of trace relies on at its start. Two stretches with the same entry go on the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    elements: ElementDecoder,
    context: Context,
    address: u64,
    isa: SubIsa,
}

/// Can trace of this configuration be decoded in stretches? Not if what happened is found out only later.
pub fn can_be_split(config: &Config, transactions: Transactions) -> bool {
    config.max_speculation == 0 && transactions == Transactions::Show
}

/// Trace may be decoded in stretches, one beside the other: start each at a trace info with [`restart`](Self::restart),
/// and check at the seam that it relies on nothing but what the stretch before led to.
impl<M: CodeMemory> FlowDecoder<M> {
    /// Forgets all but the code that it knows.
    pub fn restart(&mut self, config: &Config) {
        self.elements = ElementDecoder::new(config);
        self.walker.restart();
        self.is_plain = false;
    }

    /// Where decoding is.
    pub fn seam(&self) -> Seam {
        let (elements, speculation) = (self.elements.clone(), self.speculation.clone());
        Seam { elements, speculation, walk: self.walker.seam() }
    }

    /// Goes on where another decoder of the same trace was.
    pub fn resume(&mut self, seam: &Seam) {
        (self.elements, self.speculation) = (seam.elements.clone(), seam.speculation.clone());
        self.walker.resume(&seam.walk);
        self.is_plain = false;
    }

    /// What the trace from here on relies on, if it relies on no more than context, address and what packets are relative
    /// to.
    pub fn entry(&self) -> Option<Entry> {
        let (context, address, isa) = self.walker.entry()?;
        Some(Entry { elements: self.elements.clone(), context, address, isa })
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
