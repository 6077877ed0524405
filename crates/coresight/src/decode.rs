//! The decoders of a protocol, as the pipeline uses them.
//!
//! bytes ─▶ [`DecodePackets`] ─▶ packets ─▶ [`DecodeElements`] ─▶ elements or committed elements
//!
//! A protocol implements [`Decoders`] for its configuration, and [`InstructionDecoders`] if it traces instructions. Everything here is dispatched statically, so that a
//! pipeline is compiled for each protocol and inlined as a whole; [`TraceConfig`](crate::TraceConfig) chooses the
//! protocol once per stream.

use alloc::collections::VecDeque;
use core::fmt;

use crate::{Atoms, ElementItem, Extent, Features, Located, Packet, PacketItem, Sink, Target, Transactions};

/// The decoders of one protocol, made from the configuration of a trace unit.
pub trait Decoders: Copy + fmt::Debug {
    /// The packets of the protocol.
    type Packet: Copy + Into<Packet>;
    /// Finds packets in bytes.
    type Packets: DecodePackets<Packet = Self::Packet>;
    /// Makes elements from packets, speculative ones too.
    type Elements: DecodeElements<Packet = Self::Packet>;
    /// Makes committed elements.
    type Committed: DecodeElements<Packet = Self::Packet>;

    /// A packet decoder at the start of a stream.
    fn packets(&self) -> Self::Packets;

    /// An element decoder at the start of a stream.
    fn elements(&self) -> Self::Elements;

    /// A decoder of committed elements at the start of a stream.
    fn committed(&self, transactions: Transactions) -> Self::Committed;

    /// The contents of the trace.
    fn features(&self) -> Features;
}

/// The decoders of a protocol of instruction trace.
pub trait InstructionDecoders: Decoders {
    /// The first index from `start` on where decoding can start without anything that came before, or soon after which it can.
    fn next_start(bytes: &[u8], start: usize) -> Option<usize>;

    /// Rules for following the trace through a program.
    fn flow_rules(&self) -> FlowRules;
}

/// Finds the packets of a stream that arrives in chunks.
pub trait DecodePackets: Clone + fmt::Debug {
    /// The packets of the protocol.
    type Packet;

    /// The stream position of the next byte to be read.
    fn offset(&self) -> u64;

    /// The stream position of the first byte that no item covers yet: before [`offset`](Self::offset) while bytes are
    /// being skipped.
    fn unreported_from(&self) -> u64;

    /// Is this a position between two packets? The next packet then does not depend on earlier bytes.
    fn is_between_packets(&self) -> bool;

    /// Continues at a stream position with bytes that do not continue those before: waits for the next alignment
    /// synchronization. End the bytes before with `last`.
    fn resync_at(&mut self, offset: u64);

    /// Reads packets from `bytes`, which start at [`offset`](Self::offset). Returns the number of bytes read; the others
    /// start an incomplete packet: pass them again together with the following bytes. With `last` all bytes are read.
    fn decode(&mut self, bytes: &[u8], last: bool, sink: impl Sink<PacketItem<Self::Packet>>) -> usize;
}

/// Makes elements from packets. Equal decoders make the same elements from the same packets.
pub trait DecodeElements: Clone + PartialEq + fmt::Debug {
    /// The packets of the protocol.
    type Packet;

    /// Decodes the next packet, or passes on the error in its place.
    fn push(&mut self, item: PacketItem<Self::Packet>, sink: &mut impl Sink<ElementItem>);

    /// Ends the stream. Returns the number of P0 elements that were still speculative.
    fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64;

    /// A sink of packets that decodes them for `sink`.
    #[inline(always)]
    fn decoding<'d, S>(&'d mut self, sink: &'d mut S) -> DecodingElements<'d, Self, S> {
        DecodingElements { decoder: self, sink }
    }

    /// May [`plain`](Self::plain) be asked?
    #[inline(always)]
    fn is_plain(&self) -> bool {
        false
    }

    /// Has the meaning of all packets been emitted, so that nothing waits?
    #[inline(always)]
    fn is_settled(&self) -> bool {
        self.is_plain()
    }

    /// Does the state depend on nothing but the packets so far, so that a decoder which had other packets before them would be
    /// in the same state? Only then can a shard start here.
    fn is_self_contained(&self) -> bool {
        true
    }

    /// Passes on the whole meaning of a packet of atoms, an address or cycles, while the decoder
    /// [is plain](Self::is_plain). False: another packet, which has to be pushed.
    #[inline(always)]
    fn plain(&mut self, _extent: Extent, _packet: &Self::Packet, _sink: &mut impl Sink<Located<Plain>>) -> bool {
        false
    }
}

/// A decoder of elements and the sink that follows it, as a sink of packets. A closure would not always be inlined.
#[derive(Debug)]
pub struct DecodingElements<'d, D, S> {
    decoder: &'d mut D,
    sink: &'d mut S,
}

impl<D: DecodeElements, S: Sink<ElementItem>> Sink<PacketItem<D::Packet>> for DecodingElements<'_, D, S> {
    #[inline(always)]
    fn item(&mut self, item: PacketItem<D::Packet>) {
        self.decoder.push(item, self.sink);
    }
}

/// Meaning of nearly all packets: atoms, addresses and cycles.
#[derive(Debug, Clone, Copy)]
pub enum Plain {
    /// Outcomes of P0 instructions.
    Atoms(Atoms),
    /// The address where execution continues.
    Target(Target),
    /// A P0 instruction was taken, and this is where execution continues.
    Branch(Target),
    /// Cycles since the last cycle count; `None` when not known.
    Cycles(Option<u32>),
}

/// Rules for following a trace through a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowRules {
    /// WFI and WFE have an atom.
    pub wfx_is_p0: bool,
    /// Targets may be left out when a return stack predicts them.
    pub return_stack: bool,
    /// Exception returns have no element of their own: the instruction is the only evidence.
    pub silent_exception_returns: bool,
    /// The outcome of the last P0 element may still change.
    pub may_mispredict: bool,
    /// P0 instructions are the waypoints of PTM: a range without one is short, exceptions are at the current position, and
    /// a call is compared with the return stack before it is pushed.
    pub waypoints: bool,
    /// DMB and DSB have an atom.
    pub barrier_waypoints: bool,
    /// Every instruction has an atom: E if it was executed, N if its condition failed.
    pub atom_per_instruction: bool,
    /// T32 BL and BLX have two atoms, one for each halfword.
    pub two_atoms_per_t32_call: bool,
    /// Loads have an atom.
    pub p0_loads: bool,
    /// Stores have an atom.
    pub p0_stores: bool,
    /// Conditional instructions that have elements.
    pub conditions: ConditionScope,
}

/// Conditional instructions other than branches that trace has elements for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConditionScope {
    /// None.
    #[default]
    None,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
    /// Loads and stores.
    LoadsAndStores,
    /// All of them.
    All,
}

/// The packets of bytes that are all present, one at a time.
///
/// ```
/// use unspool_coresight::{Packets, Profile, Protocol};
/// use unspool_coresight::etm4::{Config, Registers};
/// let (config, _) = Config::new(Protocol::Ete, Profile::Unknown, &Registers::default());
/// let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00, 0x04, 0xf7];
/// let packets: Vec<String> = Packets::new(&config, &bytes).flatten().map(|packet| packet.value.to_string()).collect();
/// assert_eq!(packets, ["alignment sync", "trace info", "trace on", "atoms E"]);
/// ```
#[derive(Debug, Clone)]
pub struct Packets<'a, D: DecodePackets> {
    decoder: D,
    bytes: &'a [u8],
    /// Found but not returned yet.
    found: VecDeque<PacketItem<D::Packet>>,
    /// Start of the next item.
    offset: u64,
    /// Number of bytes to read ahead: more while a decoder needs more to decide.
    ahead: usize,
}

/// Number of bytes read ahead at first.
const AHEAD: usize = 256;

impl<'a, D: DecodePackets> Packets<'a, D> {
    /// Starts at the first byte.
    pub fn new(config: &impl Decoders<Packets = D>, bytes: &'a [u8]) -> Self {
        Self { decoder: config.packets(), bytes, found: VecDeque::new(), offset: 0, ahead: AHEAD }
    }

    /// The offset of the next packet or skipped bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Continues at the next alignment synchronization.
    pub fn resync(&mut self) {
        self.found.clear();
        self.decoder.resync_at(self.offset);
    }
}

impl<D: DecodePackets> Iterator for Packets<'_, D> {
    type Item = PacketItem<D::Packet>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            let rest = &self.bytes[self.decoder.offset() as usize..];
            let ahead = rest.len().min(self.ahead);
            let last = ahead == rest.len();
            let read = self.decoder.decode(&rest[..ahead], last, |item| self.found.push_back(item));
            self.ahead = if read == 0 { 2 * self.ahead } else { AHEAD };
            if last {
                break;
            }
        }
        let item = self.found.pop_front()?;
        self.offset = match &item {
            Ok(packet) => packet.offset + packet.length,
            Err(error) => error.offset + error.skipped,
        };
        Some(item)
    }
}
