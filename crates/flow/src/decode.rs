//! All stages from packets to the flow of the program, one after the other.
//!
//! packets ─▶ elements ─▶ committed ─▶ **flow**
//!
//! Each stage can be used by itself; joined like this and compiled for one protocol, they are inlined as a whole, so that
//! an atom costs one lookup in the graph. Only what nearly all packets need is compiled for each sink: everything else calls
//! the sink through a pointer, and is compiled once.

use std::collections::VecDeque;

use unspool_coresight::{
    Atoms, Context, DecodeElements, ElementItem, Extent, InstructionDecoders, Located, PacketItem, Plain, Sink, SubIsa,
    Transactions,
};

use crate::item::{FlowSink, Item};
use crate::memory::CodeMemory;
use crate::walk::{self, KnownCode, Walker};

/// Turns packets into the program flow. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
#[derive(Debug)]
pub struct FlowDecoder<D, M> {
    committed: D,
    /// The decoder of committed elements as it was at the start of the stream.
    fresh: D,
    walker: Walker<M>,
    /// Changes of the map, which wait until the elements before their offsets are committed.
    changes: VecDeque<(u64, M)>,
    /// Atoms and addresses need only the walk, and cached runs suffice for it.
    is_plain: bool,
}

impl<D: DecodeElements, M: CodeMemory> FlowDecoder<D, M> {
    /// A decoder at the start of a stream.
    pub fn new(config: &impl InstructionDecoders<Committed = D>, transactions: Transactions, memory: M) -> Self {
        Self::with_code(config, transactions, memory, KnownCode::new(config.flow_rules()))
    }

    /// A decoder at the start of a stream, with code of the same memory that is already known, and the same rules.
    pub fn with_code(
        config: &impl InstructionDecoders<Committed = D>,
        transactions: Transactions,
        memory: M,
        code: KnownCode,
    ) -> Self {
        let fresh = config.committed(transactions);
        let walker = Walker::with_code(code, memory);
        Self { committed: fresh.clone(), fresh, walker, changes: VecDeque::new(), is_plain: false }
    }

    /// The code that was decoded, for another stream.
    pub fn into_code(self) -> KnownCode {
        self.walker.into_code()
    }

    /// Decodes the next packet, or passes on the error in its place.
    #[inline(always)]
    pub fn push(&mut self, item: PacketItem<D::Packet>, sink: &mut impl FlowSink) {
        let mut walking = PlainWalking { walker: &mut self.walker, sink };
        let is_done = match &item {
            Ok(packet) if self.is_plain => self.committed.plain(Extent::of(packet), &packet.value, &mut walking),
            _ => false,
        };
        if !is_done {
            self.uncommon(item, sink);
        }
    }

    /// Passes a packet through all stages, one by one.
    #[inline(never)]
    fn uncommon(&mut self, item: PacketItem<D::Packet>, sink: &mut dyn FlowSink) {
        self.committed.push(item, &mut Walking { walker: &mut self.walker, changes: &mut self.changes, sink });
        self.is_plain = self.committed.is_plain() && self.walker.cached_runs_suffice() && self.changes.is_empty();
    }

    /// Ends the stream at this offset in the buffer. Returns the number of P0 elements that were still speculative.
    pub fn finish(&mut self, offset: u64, sink: &mut dyn FlowSink) -> u64 {
        let walking = &mut Walking { walker: &mut self.walker, changes: &mut self.changes, sink };
        let outstanding = self.committed.finish(walking);
        self.walker.finish(offset, sink);
        outstanding
    }

    /// The map changes at this offset: code of the elements from there on comes from this memory. Elements before it may
    /// still be speculative.
    pub fn change_map(&mut self, offset: u64, memory: M, sink: &mut dyn FlowSink) {
        if self.committed.is_settled() && self.changes.is_empty() {
            self.walker.change_map(offset, memory, sink);
        } else {
            self.changes.push_back((offset, memory));
            self.is_plain = false;
        }
    }

    /// A sink of packets that decodes them for `sink`.
    #[inline(always)]
    pub fn decoding<'d, S>(&'d mut self, sink: &'d mut S) -> Decoding<'d, D, M, S> {
        Decoding { decoder: self, sink }
    }
}

/// A decoder and the sink that follows it.
#[derive(Debug)]
pub struct Decoding<'d, D, M, S> {
    decoder: &'d mut FlowDecoder<D, M>,
    sink: &'d mut S,
}

impl<D: DecodeElements, M: CodeMemory, S: FlowSink> Sink<PacketItem<D::Packet>> for Decoding<'_, D, M, S> {
    #[inline(always)]
    fn item(&mut self, item: PacketItem<D::Packet>) {
        self.decoder.push(item, self.sink);
    }
}

/// The state of decoding at a position between two packets, without the code that is known.
#[derive(Debug, Clone)]
pub struct Seam<D> {
    committed: D,
    walk: walk::Seam,
}

/// The state that a shard of trace relies on at its start. Two shards with the same entry continue the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<D> {
    committed: D,
    context: Context,
    address: u64,
    isa: SubIsa,
}

/// Trace may be decoded in shards, in parallel: start each at a trace info with [`restart`](Self::restart), and check at
/// the seam that it relies on nothing but what the shard before led to.
impl<D: DecodeElements, M: CodeMemory> FlowDecoder<D, M> {
    /// Resets everything but the code that is known.
    pub fn restart(&mut self) {
        self.committed = self.fresh.clone();
        self.walker.restart();
        self.changes.clear();
        self.is_plain = false;
    }

    /// The state of decoding.
    pub fn seam(&self) -> Seam<D> {
        Seam { committed: self.committed.clone(), walk: self.walker.seam() }
    }

    /// Continues where another decoder of the same trace was.
    pub fn resume(&mut self, seam: &Seam<D>) {
        self.committed = seam.committed.clone();
        self.walker.resume(&seam.walk);
        self.is_plain = false;
    }

    /// The state that the following trace relies on, if that is no more than context, address and the decoder's state.
    pub fn entry(&self) -> Option<Entry<D>> {
        let (context, address, isa) = self.walker.entry().filter(|_| self.committed.is_self_contained())?;
        Some(Entry { committed: self.committed.clone(), context, address, isa })
    }
}

/// Passes the meaning of plain packets to the walk.
struct PlainWalking<'r, M, S> {
    walker: &'r mut Walker<M>,
    sink: &'r mut S,
}

impl<M: CodeMemory, S: FlowSink> Sink<Located<Plain>> for PlainWalking<'_, M, S> {
    #[inline(always)]
    fn item(&mut self, plain: Located<Plain>) {
        let extent = Extent::of(&plain);
        match plain.value {
            Plain::Atoms(atoms) => self.walker.cached_atoms(extent, atoms, self.sink),
            Plain::Target(target) => self.walker.target(extent, target, self.sink),
            Plain::Branch(target) => {
                self.walker.cached_atoms(extent, Atoms::new(1, 1), self.sink);
                self.walker.target(extent, target, self.sink);
            }
            Plain::Cycles(cycles) => self.sink.item(Ok(extent.locate(Item::CycleCount(cycles)))),
        }
    }
}

/// Passes committed elements to the walk, and changes of the map before the first element that they apply to.
struct Walking<'r, M> {
    walker: &'r mut Walker<M>,
    changes: &'r mut VecDeque<(u64, M)>,
    sink: &'r mut dyn FlowSink,
}

impl<M: CodeMemory> Sink<ElementItem> for Walking<'_, M> {
    #[inline(always)]
    fn item(&mut self, item: ElementItem) {
        if !self.changes.is_empty() {
            self.change_maps(&item);
        }
        self.walker.push(item, self.sink);
    }
}

impl<M: CodeMemory> Walking<'_, M> {
    #[inline(never)]
    fn change_maps(&mut self, next: &ElementItem) {
        let reached = match next {
            Ok(element) => element.offset,
            Err(error) => error.offset,
        };
        while self.changes.front().is_some_and(|(offset, _)| *offset <= reached)
            && let Some((offset, memory)) = self.changes.pop_front()
        {
            self.walker.change_map(offset, memory, self.sink);
        }
    }
}
