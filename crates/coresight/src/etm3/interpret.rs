//! Packets to elements, which are complete without earlier packets.
//!
//! packets ─▶ **elements** ─▶ committed
//!
//! Keeps the state that packets are relative to: the branch address and instruction set, the data address, the context and
//! the timestamp. Does not know whether an atom will be canceled; `cancellation.rs` does. Errors of the packet decoder pass
//! through, and after one only timestamps and cycles are understood until the next instruction synchronization.
//! Specification: Arm IHI 0014.

use super::element::{DataValue, OwnElement, Transfer};
use super::packet::{
    Branch, BranchException, DataAddress, ExceptionInformation, InstructionSet, InstructionSync, PHeader, Packet,
    SyncReason,
};
use super::{Config, PacketItem};
use crate::decode::DecodeElements;
use crate::exception::ExceptionNumber;
use crate::{
    Atoms, Broken, Context, Element, ElementError, ElementItem, Extent, Located, OtherIsa, PacketError, Security, Sink,
    SubIsa, Target,
};

/// Length of an alignment synchronization that no packet before has swallowed a part of.
const WHOLE_SYNC: u64 = 6;

/// Turns packets into elements. Feed it with [`push`](DecodeElements::push), end with [`finish`](DecodeElements::finish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementDecoder {
    config: Config,
    /// An instruction synchronization has been seen since the start or the last damage.
    known: bool,
    /// Packets without one that are not yet reported: their first offset and their length.
    unknown: Option<(u64, u64)>,
    address: u32,
    isa: InstructionSet,
    /// A branch packet has come since the last atom.
    has_branched: bool,
    /// The last data address, if known.
    data_address: Option<u32>,
    big_endian: bool,
    context: Context,
    /// The bits of the last timestamp as packets have them, if all of them are known.
    timestamp: Option<u64>,
    /// A packet had all of them.
    has_whole_timestamp: bool,
}

impl ElementDecoder {
    /// A decoder that waits for the first instruction synchronization.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            known: false,
            unknown: None,
            address: 0,
            isa: InstructionSet::Arm,
            has_branched: false,
            data_address: None,
            big_endian: false,
            context: Context {
                el: Context::UNKNOWN_EL,
                aarch64: false,
                security: Security::Secure,
                vmid: None,
                context_id: None,
            },
            timestamp: Some(0),
            has_whole_timestamp: false,
        }
    }

    fn lose(&mut self, error: PacketError, sink: &mut impl Sink<ElementItem>) {
        self.report_unknown(sink);
        self.forget();
        sink.item(Err(error.into()));
    }

    /// The state before damage does not hold any more.
    fn forget(&mut self) {
        self.known = false;
        self.data_address = None;
        (self.timestamp, self.has_whole_timestamp) = (None, false);
        self.context.vmid = None;
    }

    fn packet(&mut self, packet: Located<Packet>, sink: &mut impl Sink<ElementItem>) {
        let extent = Extent::of(&packet);
        if !self.known && needs_instruction_sync(&packet.value) {
            if let Packet::PHeader(header) = packet.value {
                self.cycles(extent, header, sink);
            }
            let (start, skipped) = self.unknown.unwrap_or((extent.offset, 0));
            self.unknown = Some((start, skipped + extent.length));
            return;
        }
        self.understood(extent, packet.value, sink);
    }

    fn understood(&mut self, extent: Extent, packet: Packet, sink: &mut impl Sink<ElementItem>) {
        match packet {
            // A part of it was swallowed by the packet before, which is not what the trace unit sent.
            Packet::AlignmentSync if extent.length < WHOLE_SYNC => self.forget(),
            Packet::AlignmentSync | Packet::Ignore => {}
            Packet::PHeader(header) => {
                for (cycles, atoms) in self.p_header(header) {
                    if cycles.is_some() {
                        emit(extent, Element::CycleCount(cycles), sink);
                    }
                    if !atoms.is_empty() {
                        emit(extent, Element::Atoms(atoms), sink);
                    }
                }
            }
            Packet::Branch(branch) => self.branch(extent, &branch, sink),
            Packet::InstructionSync(sync) => self.instruction_sync(extent, &sync, sink),
            Packet::CycleCount { cycles } => emit_own(extent, OwnElement::GapCycles(counted(cycles)), sink),
            Packet::Timestamp { value, bits, frequency_changed } => {
                if frequency_changed {
                    emit_own(extent, OwnElement::ClockChange, sink);
                }
                self.timestamp(extent, value, bits, sink);
            }
            Packet::ContextId(id) => {
                self.context.context_id = Some(id);
                emit(extent, Element::Context(self.context), sink);
            }
            Packet::Vmid(vmid) => {
                self.context.vmid = Some(vmid.into());
                emit(extent, Element::Context(self.context), sink);
            }
            Packet::Trigger => emit(extent, Element::Trigger, sink),
            Packet::ExceptionExit => emit(extent, Element::ExceptionReturn, sink),
            Packet::ExceptionEntry => emit_own(extent, OwnElement::ExceptionEntry, sink),
            Packet::StoreFailed => emit_own(extent, OwnElement::StoreFailed, sink),
            Packet::DataSuppressed => {
                if self.config.minor <= 2 {
                    self.data_address = None;
                }
                emit_own(extent, OwnElement::DataSuppressed, sink);
            }
            Packet::Data { first, address, value } => {
                let value = value.map_or(DataValue::NotTraced, DataValue::Traced);
                self.transfer(extent, first, address, value, sink);
            }
            Packet::Placeholder { tag, first, address } => {
                self.transfer(extent, first, address, DataValue::Late { tag }, sink);
            }
            Packet::ValueNotTraced { first, address } => {
                self.transfer(extent, first, address, DataValue::NotTraced, sink);
            }
            Packet::OutOfOrderData { tag, value } => emit_own(extent, OwnElement::LateValue { tag, value }, sink),
        }
    }

    /// The cycles of a P-header, whose atoms are not understood.
    fn cycles(&self, extent: Extent, header: PHeader, sink: &mut impl Sink<ElementItem>) {
        let cycles = match header {
            _ if !self.config.cycle_accurate => 0,
            PHeader::Format1 { .. } => header.atoms().count(),
            PHeader::Format2 { .. } => 1,
            PHeader::Format3 { cycles, .. } => cycles.into(),
            PHeader::Format4 { .. } => 0,
        };
        if cycles > 0 {
            emit(extent, Element::CycleCount(Some(cycles)), sink);
        }
    }

    /// The parts of a P-header: cycles and the atoms after them. There may be none of either.
    #[inline(always)]
    pub(super) fn p_header(&mut self, header: PHeader) -> impl Iterator<Item = (Option<u32>, Atoms)> + use<> {
        let (all, is_counted) = (header.atoms(), self.config.cycle_accurate);
        self.has_branched &= all.is_empty();
        let (cycles, is_one_each) = match header {
            // Each atom has a cycle of its own.
            PHeader::Format1 { .. } if is_counted => (Some(1), true),
            PHeader::Format1 { .. } | PHeader::Format4 { .. } => (None, false),
            PHeader::Format2 { .. } => (is_counted.then_some(1), false),
            PHeader::Format3 { cycles, .. } => (Some(cycles.into()), false),
        };
        let parts = if is_one_each { all.count() } else { 1 };
        (0..parts).map(move |index| (cycles, if is_one_each { Atoms::new(all.bits() >> index, 1) } else { all }))
    }

    /// Has an instruction synchronization been seen since the start or the last damage?
    #[inline(always)]
    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    /// Has all state come from packets, and nothing from what was before the first of them?
    pub(super) fn is_self_contained(&self) -> bool {
        let Config { timestamps, data_addresses, vmids, .. } = self.config;
        self.known
            && (!timestamps || self.has_whole_timestamp)
            && (!data_addresses || self.data_address.is_some())
            && (!vmids || self.context.vmid.is_some())
    }

    fn branch(&mut self, extent: Extent, branch: &Branch, sink: &mut impl Sink<ElementItem>) {
        let (number, canceled) = self.exception_of(branch);
        if canceled {
            emit(extent, Element::Cancel(1), sink);
        }
        if let Some(number) = number {
            emit(extent, Element::Exception { number, address: None }, sink);
        } else if self.has_branched {
            emit_own(extent, OwnElement::NewAddress, sink);
        }
        self.has_branched = true;
        let before = self.context;
        self.complete(branch);
        if self.context != before {
            emit(extent, Element::Context(self.context), sink);
        }
        self.target(extent, sink);
    }

    /// The exception of a branch packet, if it has one, and whether the atom before was canceled.
    fn exception_of(&self, branch: &Branch) -> (Option<ExceptionNumber>, bool) {
        match branch.exception {
            None => (None, false),
            Some(BranchException::Deprecated { code, canceled }) => {
                // ETMv3.0 has one code for all exceptions that it does not name.
                let number = match code {
                    1 => 14,
                    4 => 5,
                    5 => 15,
                    6 => 4,
                    7 => 1,
                    _ => 13,
                };
                (Some(ExceptionNumber::armv7(number)), canceled)
            }
            Some(BranchException::Information(ExceptionInformation { number, canceled, .. })) => {
                let numbered = match self.config.is_m_profile {
                    true => ExceptionNumber::armv7_m(number),
                    false => ExceptionNumber::armv7(number),
                };
                (Some(numbered).filter(|_| number != 0), canceled)
            }
        }
    }

    /// Updates address, instruction set and context.
    fn complete(&mut self, branch: &Branch) {
        let mut is_alternative = self.isa == InstructionSet::ThumbEe;
        if let Some(BranchException::Information(information)) = branch.exception {
            is_alternative = information.alternative_isa;
            self.set_state(information.non_secure, information.hyp.unwrap_or(self.context.el == 2));
        }
        self.isa = match branch.isa.unwrap_or(self.isa) {
            InstructionSet::Thumb | InstructionSet::ThumbEe if is_alternative => InstructionSet::ThumbEe,
            InstructionSet::Thumb | InstructionSet::ThumbEe => InstructionSet::Thumb,
            other => other,
        };
        let shift = self.isa.shift();
        let kept = u32::MAX.checked_shl(u32::from(branch.bits + shift)).unwrap_or(0);
        self.address = self.address & kept | branch.value << shift;
    }

    fn set_state(&mut self, non_secure: bool, hyp: bool) {
        self.context.security = if non_secure { Security::NonSecure } else { Security::Secure };
        // The Exception level is not traced, except for Hyp mode.
        self.context.el = if hyp { 2 } else { Context::UNKNOWN_EL };
    }

    /// The address where execution continues.
    fn target(&self, extent: Extent, sink: &mut impl Sink<ElementItem>) {
        let address = self.address.into();
        let element = match self.isa {
            InstructionSet::Arm => Element::TargetAddress(Target { address, isa: SubIsa::Is0 }),
            InstructionSet::Thumb => Element::TargetAddress(Target { address, isa: SubIsa::Is1 }),
            InstructionSet::ThumbEe => Element::OtherCode { address, isa: OtherIsa::ThumbEe },
            InstructionSet::Jazelle => Element::OtherCode { address, isa: OtherIsa::Jazelle },
        };
        emit(extent, element, sink);
    }

    fn instruction_sync(&mut self, extent: Extent, sync: &InstructionSync, sink: &mut impl Sink<ElementItem>) {
        self.report_unknown(sink);
        let is_periodic = sync.reason == SyncReason::Periodic;
        if !is_periodic || !self.known {
            self.break_trace(extent, sync, sink);
        }
        self.known = true;
        self.set_state(sync.non_secure, sync.hyp);
        self.context.context_id = sync.context_id;
        emit(extent, Element::Context(self.context), sink);
        let Some(target) = sync.target else { return };
        (self.address, self.isa, self.has_branched) = (target.address, target.isa, false);
        let Some(next) = sync.next else { return self.target(extent, sink) };
        // At an interval, the instruction in progress has had its atom already.
        if !is_periodic {
            self.target(extent, sink);
            emit(extent, Element::Atoms(Atoms::new(1, 1)), sink);
        }
        self.complete(&next);
        emit_own(extent, OwnElement::NewAddress, sink);
        self.target(extent, sink);
    }

    /// Trace does not continue here.
    fn break_trace(&mut self, extent: Extent, sync: &InstructionSync, sink: &mut impl Sink<ElementItem>) {
        let is_void = match sync.reason {
            SyncReason::Periodic | SyncReason::Enabled => false,
            SyncReason::Overflow => true,
            SyncReason::DebugExit => self.config.minor == 0,
        };
        if let Some(cycles) = sync.cycles {
            emit(extent, Element::CycleCount(counted(cycles).filter(|_| !is_void)), sink);
        }
        self.data_address = None;
        match sync.reason {
            SyncReason::Overflow => emit(extent, Element::Overflow, sink),
            SyncReason::DebugExit => {
                emit_own(extent, OwnElement::DebugExit, sink);
                emit(extent, Element::TraceOn, sink);
            }
            SyncReason::Enabled | SyncReason::Periodic => emit(extent, Element::TraceOn, sink),
        }
    }

    fn timestamp(&mut self, extent: Extent, value: u64, bits: u8, sink: &mut impl Sink<ElementItem>) {
        let kept = u64::MAX.checked_shl(bits.into()).unwrap_or(0);
        self.has_whole_timestamp |= bits == self.config.timestamp_bits;
        self.timestamp = match self.timestamp {
            _ if bits == self.config.timestamp_bits => Some(value),
            old => old.map(|old| old & kept | value),
        };
        let Some(raw) = self.timestamp else { return };
        let value = if self.config.timestamp_gray { from_gray(raw) } else { raw };
        // Zero: the time is not known.
        if value != 0 {
            emit(extent, Element::Timestamp { value, cycles: None }, sink);
        }
    }

    fn transfer(
        &mut self,
        extent: Extent,
        first: bool,
        address: Option<DataAddress>,
        value: DataValue,
        sink: &mut impl Sink<ElementItem>,
    ) {
        if let Some(DataAddress { value, bits, big_endian }) = address {
            self.big_endian = big_endian.unwrap_or(self.big_endian);
            let kept = u32::MAX.checked_shl(bits.into()).unwrap_or(0);
            self.data_address = match self.data_address {
                _ if bits == 32 => Some(value),
                old => old.map(|old| old & kept | value),
            };
        }
        let address = self.data_address.filter(|_| address.is_some());
        let transfer = Transfer { first, address, big_endian: self.big_endian, value };
        emit_own(extent, OwnElement::Transfer(transfer), sink);
    }

    fn report_unknown(&mut self, sink: &mut impl Sink<ElementItem>) {
        if let Some((offset, skipped)) = self.unknown.take() {
            sink.item(Err(ElementError { offset, skipped, kind: Broken::NoInstructionSync }));
        }
    }
}

impl DecodeElements for ElementDecoder {
    type Packet = Packet;

    #[inline]
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
}

#[inline(always)]
fn emit(extent: Extent, value: Element, sink: &mut impl Sink<ElementItem>) {
    sink.item(Ok(extent.locate(value)));
}

fn emit_own(extent: Extent, value: OwnElement, sink: &mut impl Sink<ElementItem>) {
    emit(extent, Element::Etm3(value), sink);
}

/// A count of zero means that the counter overflowed.
fn counted(cycles: u32) -> Option<u32> {
    Some(cycles).filter(|&cycles| cycles != 0)
}

/// Each bit of the result is the parity of the bits from there on.
fn from_gray(gray: u64) -> u64 {
    (0..6).fold(gray, |value, step| value ^ value >> (1 << step))
}

/// Timestamps, triggers and cycles do not depend on a synchronization.
fn needs_instruction_sync(packet: &Packet) -> bool {
    match packet {
        Packet::AlignmentSync
        | Packet::InstructionSync(_)
        | Packet::Timestamp { .. }
        | Packet::Trigger
        | Packet::Ignore
        | Packet::PHeader(PHeader::Format3 { executed: false, .. }) => false,
        Packet::PHeader(header) => !header.atoms().is_empty(),
        _ => true,
    }
}
