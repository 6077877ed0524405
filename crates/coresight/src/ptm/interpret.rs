//! Packets to elements, which are complete without earlier packets.
//!
//! packets ─▶ **elements**
//!
//! Keeps the state that packets are relative to: the last address sent and its instruction set, the context, the raw
//! timestamp. Errors of the packet decoder pass through, and nothing is trusted after one until the next instruction
//! synchronization. Knows no code: which instruction an outcome belongs to is found by the flow.
//! Specification: Arm IHI 0035.

use super::packet::{Address, AddressIsa, Branch, BranchInfo, InstructionSync, Packet, SyncReason};
use super::{Config, PacketItem};
use crate::decode::{DecodeElements, Plain};
use crate::exception::{ExceptionNumber, armv7};
use crate::{
    Atoms, Broken, Context, Element, ElementError, ElementItem, Extent, Located, OtherIsa, PacketError, Security, Sink,
    Target,
};

/// One E atom.
const TAKEN: Atoms = Atoms::new(1, 1);

/// Turns packets into elements. Feed it with [`push`](DecodeElements::push), end with [`finish`](DecodeElements::finish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementDecoder {
    config: Config,
    /// An instruction synchronization has been seen since the start or the last damage.
    known: bool,
    /// Packets without one that are not yet reported: their first offset and their length.
    unknown: Option<(u64, u64)>,
    /// The last address sent, and its instruction set.
    base: u32,
    isa: AddressIsa,
    /// The AltIS bit of the last packet that had one.
    alternative: bool,
    nonsecure: bool,
    hyp: bool,
    context_id: Option<u32>,
    vmid: Option<u32>,
    /// The timestamp as sent; `None`: its high bits are not known yet.
    timestamp: Option<u64>,
    /// The address of a waypoint update, until the next waypoint.
    waypoint: Option<u32>,
}

impl ElementDecoder {
    /// A decoder that waits for the first instruction synchronization.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            known: false,
            unknown: None,
            base: 0,
            isa: AddressIsa::Arm,
            alternative: false,
            nonsecure: false,
            hyp: false,
            context_id: None,
            vmid: None,
            timestamp: None,
            waypoint: None,
        }
    }

    fn lose(&mut self, error: PacketError, sink: &mut impl Sink<ElementItem>) {
        self.report_unknown(sink);
        *self = Self::new(&self.config);
        sink.item(Err(error.into()));
    }

    fn packet(&mut self, packet: Located<Packet>, sink: &mut impl Sink<ElementItem>) {
        let extent = Extent::of(&packet);
        if !self.known && needs_sync(&packet.value) {
            let (start, skipped) = self.unknown.unwrap_or((extent.offset, 0));
            self.unknown = Some((start, skipped + extent.length));
            return;
        }
        self.report_unknown(sink);
        self.understood(extent, packet.value, sink);
    }

    fn understood(&mut self, extent: Extent, packet: Packet, sink: &mut impl Sink<ElementItem>) {
        match packet {
            Packet::AlignmentSync | Packet::Ignore => {}
            Packet::InstructionSync(sync) => self.instruction_sync(extent, sync, sink),
            Packet::Atoms { atoms, cycles } => {
                self.waypoint = None;
                emit(extent, Element::Atoms(atoms), sink);
                count(extent, cycles, sink);
            }
            Packet::Branch(branch) => self.branch(extent, branch, sink),
            Packet::WaypointUpdate { address, alternative } => {
                self.alternative = alternative.unwrap_or(self.alternative);
                match self.complete(address) {
                    Ok(target) => {
                        self.waypoint = Some(target.address as u32);
                        emit(extent, Element::WaypointUpdate(target), sink);
                    }
                    Err(isa) => self.other_code(extent, isa, sink),
                }
            }
            Packet::Trigger => emit(extent, Element::Trigger, sink),
            Packet::ContextId(id) => {
                self.context_id = Some(id);
                self.emit_context(extent, sink);
            }
            Packet::Vmid(id) => {
                self.vmid = Some(id.into());
                self.emit_context(extent, sink);
            }
            Packet::Timestamp { value, bits, cycles, .. } => {
                count(extent, cycles, sink);
                self.timestamp(extent, value, bits, sink);
            }
            Packet::ExceptionReturn => emit(extent, Element::ExceptionReturn, sink),
        }
    }

    fn instruction_sync(&mut self, extent: Extent, sync: InstructionSync, sink: &mut impl Sink<ElementItem>) {
        let continues = self.known && sync.reason == SyncReason::Periodic;
        self.known = true;
        self.base = sync.address;
        self.isa = if sync.thumb { AddressIsa::Thumb } else { AddressIsa::Arm };
        (self.alternative, self.nonsecure, self.hyp) = (sync.alternative, sync.nonsecure, sync.hyp);
        self.context_id = sync.context_id.or(self.context_id);
        // While nothing was traced, the virtual machine may have changed: its identifier follows.
        self.vmid = self.vmid.filter(|_| continues);
        self.waypoint = None;
        let (cycle_counting, cycle_threshold, speculation, in_transaction) = (self.config.cycle_accurate, 0, 0, false);
        emit(extent, Element::TraceInfo { cycle_counting, cycle_threshold, speculation, in_transaction }, sink);
        if sync.reason == SyncReason::AfterOverflow {
            emit(extent, Element::Overflow, sink);
        }
        if !continues {
            emit(extent, Element::TraceOn, sink);
        }
        // From version 1.1 on, the count has no meaning after an overflow and after Debug state.
        let is_known = self.config.version.minor == 0 || sync.reason == SyncReason::TraceEnabled;
        if let Some(cycles) = sync.cycles {
            emit(extent, Element::CycleCount(is_known.then_some(cycles)), sink);
        }
        self.emit_context(extent, sink);
        self.emit_target(extent, sink);
    }

    /// A taken branch, or an exception: then no instruction was executed.
    fn branch(&mut self, extent: Extent, branch: Branch, sink: &mut impl Sink<ElementItem>) {
        let exception = branch.info.map_or(0, |info| info.exception);
        let waypoint = self.waypoint.take();
        if exception == 0 {
            emit(extent, Element::Atoms(TAKEN), sink);
        } else {
            // An undefined instruction is itself the preferred return address; for others it follows from the flow.
            let address = waypoint.filter(|_| exception == armv7::UNDEFINED).map(u64::from);
            emit(extent, Element::Exception { number: ExceptionNumber::armv7(exception), address }, sink);
        }
        count(extent, branch.cycles, sink);
        // The PE is in Debug state: the rest of the packet has no meaning, and execution continues elsewhere.
        if exception == armv7::DEBUG_ENTRY {
            return;
        }
        if let Some(info) = branch.info {
            self.update_context(extent, info, sink);
        }
        match self.complete(branch.address) {
            Ok(target) => emit(extent, Element::TargetAddress(target), sink),
            Err(isa) => self.other_code(extent, isa, sink),
        }
    }

    fn update_context(&mut self, extent: Extent, info: BranchInfo, sink: &mut impl Sink<ElementItem>) {
        let BranchInfo { nonsecure, alternative, hyp, .. } = info;
        self.alternative = alternative;
        let hyp = hyp.unwrap_or(self.hyp);
        if (nonsecure, hyp) != (self.nonsecure, self.hyp) {
            (self.nonsecure, self.hyp) = (nonsecure, hyp);
            self.emit_context(extent, sink);
        }
    }

    /// Replaces the low bits of the last address.
    fn replace(&mut self, address: Address) {
        self.isa = address.isa.unwrap_or(self.isa);
        let shift = self.isa.shift();
        let bits = u32::from(address.bits()) + u32::from(shift);
        let kept = u32::MAX.checked_shl(bits).unwrap_or(0);
        self.base = self.base & kept | address.steps << shift;
    }

    /// The complete address, which is the last one sent from now on.
    #[inline(always)]
    fn complete(&mut self, address: Address) -> Result<Target, OtherIsa> {
        self.replace(address);
        let isa = self.isa.meaning(self.alternative)?;
        Ok(Target { address: self.base.into(), isa })
    }

    fn emit_target(&self, extent: Extent, sink: &mut impl Sink<ElementItem>) {
        match self.isa.meaning(self.alternative) {
            Ok(isa) => emit(extent, Element::TargetAddress(Target { address: self.base.into(), isa }), sink),
            Err(isa) => self.other_code(extent, isa, sink),
        }
    }

    fn other_code(&self, extent: Extent, isa: OtherIsa, sink: &mut impl Sink<ElementItem>) {
        emit(extent, Element::OtherCode { address: self.base.into(), isa }, sink);
    }

    /// Only Hyp mode implies an Exception level.
    fn emit_context(&self, extent: Extent, sink: &mut impl Sink<ElementItem>) {
        if !self.known {
            return;
        }
        let context = Context {
            el: if self.hyp { 2 } else { Context::UNKNOWN_EL },
            aarch64: false,
            security: if self.nonsecure { Security::NonSecure } else { Security::Secure },
            vmid: self.vmid,
            context_id: self.context_id,
        };
        emit(extent, Element::Context(context), sink);
    }

    /// Until all bits have been sent once, the time is not known.
    fn timestamp(&mut self, extent: Extent, value: u64, bits: u8, sink: &mut impl Sink<ElementItem>) {
        let old = if bits >= self.config.timestamp_bits { Some(0) } else { self.timestamp };
        let kept = u64::MAX.checked_shl(bits.into()).unwrap_or(0);
        self.timestamp = old.map(|old| old & kept | value);
        if let Some(raw) = self.timestamp {
            let value = if self.config.timestamp_gray { natural(raw) } else { raw };
            emit(extent, Element::Timestamp { value, cycles: None }, sink);
        }
    }

    fn report_unknown(&mut self, sink: &mut impl Sink<ElementItem>) {
        if let Some((offset, skipped)) = self.unknown.take() {
            sink.item(Err(ElementError { offset, skipped, kind: Broken::NoInstructionSync }));
        }
    }
}

impl DecodeElements for ElementDecoder {
    type Packet = Packet;

    fn push(&mut self, item: PacketItem, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(packet) => self.packet(packet, sink),
            Err(error) => self.lose(error, sink),
        }
    }

    fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64 {
        self.report_unknown(sink);
        0
    }

    /// An instruction synchronization was seen, and no waypoint update waits for its exception.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.known && self.waypoint.is_none()
    }

    #[inline(always)]
    fn plain(&mut self, extent: Extent, packet: &Packet, sink: &mut impl Sink<Located<Plain>>) -> bool {
        match *packet {
            Packet::Atoms { atoms, cycles: None } => sink.item(extent.locate(Plain::Atoms(atoms))),
            Packet::Branch(Branch { address, info: None, cycles: None }) => {
                // An instruction set that cannot be followed takes the long way.
                let Ok(isa) = address.isa.unwrap_or(self.isa).meaning(self.alternative) else { return false };
                self.replace(address);
                sink.item(extent.locate(Plain::Branch(Target { address: self.base.into(), isa })));
            }
            _ => return false,
        }
        true
    }
}

#[inline(always)]
fn emit(extent: Extent, value: Element, sink: &mut impl Sink<ElementItem>) {
    sink.item(Ok(extent.locate(value)));
}

/// The cycles of a packet, which all add up.
fn count(extent: Extent, cycles: Option<u32>, sink: &mut impl Sink<ElementItem>) {
    if let Some(cycles) = cycles {
        emit(extent, Element::CycleCount(Some(cycles)), sink);
    }
}

/// The number that a Gray code stands for: each bit is the sum of the bits from the highest one down to it.
fn natural(gray: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(gray, |value, shift| value ^ value >> shift)
}

/// The others do not depend on a synchronization.
fn needs_sync(packet: &Packet) -> bool {
    matches!(packet, Packet::Branch(_) | Packet::Atoms { .. } | Packet::WaypointUpdate { .. } | Packet::ExceptionReturn)
}
