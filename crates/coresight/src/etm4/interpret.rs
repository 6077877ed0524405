//! Packets to elements, which are complete without earlier packets.
//!
//! packets ─▶ **elements** ─▶ committed
//!
//! Keeps the state that packets are relative to: the last three addresses, the context, the timestamp, the cycle threshold
//! and the speculation depth. Does not know whether an element will be canceled; `speculation.rs` does. Errors of the
//! packet decoder pass through, and nothing is trusted after one until the next trace info.
//! Specification: Arm DDI 0487, trace analyzer, stage 1.

use super::conditional::ConditionKeys;
use super::element::OwnElement;
use super::p0::p0_count;
use super::packet::{self, Address, CycleCount, ExceptionAddress, Packet};
use super::{Config, PacketItem, Version};
use crate::decode::{ConditionScope, DecodeElements, Plain};
use crate::exception::{ExceptionNumber, PE_RESET, TRANSACTION_FAILURE};
use crate::{
    Atoms, Broken, Context, Element, ElementError, ElementItem, Extent, Located, PacketError, Security, Sink, Target,
};

/// Another exception type whose preferred return address is not known (ETE).
const UNKNOWN_RETURN: u16 = 0x19;

/// Turns packets into elements. Feed it with [`push`](DecodeElements::push), end with [`finish`](DecodeElements::finish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementDecoder {
    config: Config,
    /// A trace info has been seen since the start or the last damage.
    known: bool,
    /// Packets without a trace info that are not yet reported: their first offset and their length.
    unknown: Option<(u64, u64)>,
    history: [Target; 3],
    context: Context,
    timestamp: u64,
    cycle_threshold: u32,
    speculation: u32,
    in_transaction: bool,
    exception: Option<Located<Exception>>,
    conditions: ConditionKeys,
    /// Nothing is speculative, and P0 elements count for nothing else: atoms and addresses are all there is to them.
    is_simple: bool,
}

/// An exception packet that waits for its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Exception {
    number: u16,
    address: ExceptionAddress,
}

impl ElementDecoder {
    /// A decoder that waits for the first trace info.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            known: false,
            unknown: None,
            history: [Target::default(); 3],
            context: no_context(config),
            timestamp: 0,
            cycle_threshold: 0,
            speculation: 0,
            in_transaction: false,
            exception: None,
            conditions: ConditionKeys::new(config),
            is_simple: config.max_speculation == 0 && config.conditions == ConditionScope::None,
        }
    }

    #[inline(never)]
    fn uncommon(&mut self, item: PacketItem, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(packet) => self.packet(packet, sink),
            Err(note) if note.kind.is_note() => sink.item(Err(note.into())),
            Err(error) => self.lose(error, sink),
        }
    }

    fn lose(&mut self, error: PacketError, sink: &mut impl Sink<ElementItem>) {
        self.abandon_exception(sink);
        self.report_unknown(sink);
        self.known = false;
        self.in_transaction = false;
        sink.item(Err(error.into()));
    }

    fn packet(&mut self, packet: Located<Packet>, sink: &mut impl Sink<ElementItem>) {
        let extent = Extent::of(&packet);
        if let Some(exception) = self.exception.take() {
            if self.exception_address(exception, extent, &packet.value, sink) {
                return;
            }
            self.known = false;
            sink.item(Err(exception_without_address(exception.offset)));
        }
        if !self.known && needs_trace_info(&packet.value) {
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
            Packet::TraceInfo(info) => self.trace_info(extent, info, sink),
            Packet::Discard | Packet::Overflow => {
                emit(extent, Element::Discard, sink);
                if packet == Packet::Overflow {
                    emit(extent, Element::Overflow, sink);
                }
                self.end_discarded(extent, sink);
            }
            Packet::TraceOn => {
                self.conditions.start_block(false);
                emit(extent, Element::TraceOn, sink);
            }
            Packet::Timestamp { value, bits, cycles } => self.timestamp(extent, value, bits, cycles, sink),
            Packet::TimestampMarker => emit(extent, Element::TimestampMarker, sink),
            Packet::CycleCount(count) => self.cycle_count(extent, count, sink),
            Packet::Event { mask } => emit(extent, Element::Event { mask }, sink),
            Packet::Commit { count } => self.commit(extent, count, sink),
            Packet::CancelFormat1 { count, mispredict } => self.cancel(extent, count, mispredict, sink),
            Packet::CancelFormat2(few) => {
                self.atoms(extent, few.atoms(), sink);
                self.cancel(extent, 1, true, sink);
            }
            Packet::CancelFormat3 { count, atom } => {
                self.atoms(extent, Atoms::new(1, u8::from(atom)), sink);
                self.cancel(extent, u32::from(count), true, sink);
            }
            Packet::Mispredict(few) => {
                self.atoms(extent, few.atoms(), sink);
                emit(extent, Element::Mispredict, sink);
                self.restart_conditions(extent, sink);
            }
            Packet::Atoms(atoms) => self.atoms(extent, atoms, sink),
            Packet::Q { count, address } => {
                emit(extent, Element::Q { count }, sink);
                self.deepen(extent, 1, sink);
                if let Some(address) = address {
                    emit(extent, Element::TargetAddress(self.complete(address)), sink);
                }
            }
            Packet::SourceAddress(address) => {
                emit(extent, Element::SourceAddress(self.complete(address)), sink);
                self.deepen(extent, 1, sink);
            }
            Packet::Address(address) => emit(extent, Element::TargetAddress(self.complete(address)), sink),
            Packet::Context(context) => {
                self.update_context(context);
                emit(extent, Element::Context(self.context), sink);
            }
            Packet::AddressContext { address, context } => {
                let target = self.complete(address);
                self.update_context(Some(context));
                emit(extent, Element::Context(self.context), sink);
                emit(extent, Element::TargetAddress(target), sink);
            }
            Packet::Exception { number, address, .. } => {
                self.exception = Some(extent.locate(Exception { number, address }));
            }
            Packet::ExceptionReturn => {
                self.perhaps_p0(extent, Element::ExceptionReturn, sink);
                // Execution may resume inside an IT block.
                self.conditions.start_block(false);
            }
            Packet::FunctionReturn => self.perhaps_p0(extent, Element::FunctionReturn, sink),
            Packet::TransactionStart => {
                self.in_transaction = true;
                self.perhaps_p0(extent, Element::TransactionStart, sink);
            }
            Packet::TransactionCommit => {
                self.in_transaction = false;
                emit(extent, Element::TransactionCommit, sink);
            }
            Packet::Instrumentation { el, value } => emit(extent, Element::Instrumentation { el, value }, sink),
            Packet::NumberedDataSync(number) => emit_own(extent, OwnElement::NumberedDataSync(number), sink),
            Packet::UnnumberedDataSync(value) => emit_own(extent, OwnElement::UnnumberedDataSync(Some(value)), sink),
            Packet::ConditionalInstruction(it) => {
                self.conditions.instruction(it, &mut |element| emit_own(extent, element, sink));
            }
            Packet::ConditionalFlush => emit_own(extent, OwnElement::ConditionalFlush, sink),
            Packet::ConditionalResult(it) => {
                self.conditions.result(it, &mut |element| emit_own(extent, element, sink));
            }
        }
    }

    /// Resets to the state that the architecture defines for this point.
    fn trace_info(&mut self, extent: Extent, info: packet::TraceInfo, sink: &mut impl Sink<ElementItem>) {
        self.known = true;
        self.history = [Target::default(); 3];
        self.context = no_context(&self.config);
        self.timestamp = 0;
        self.cycle_threshold = if info.cycle_counting() { info.cycle_threshold.unwrap_or(0) } else { 0 };
        self.speculation = info.speculation.unwrap_or(0);
        self.in_transaction = info.in_transaction();
        self.conditions.forget();
        let element = Element::TraceInfo {
            cycle_counting: info.cycle_counting(),
            cycle_threshold: self.cycle_threshold,
            speculation: self.speculation,
            in_transaction: self.in_transaction,
        };
        emit(extent, element, sink);
    }

    fn end_discarded(&mut self, extent: Extent, sink: &mut impl Sink<ElementItem>) {
        if self.in_transaction {
            emit(extent, Element::TransactionFailure, sink);
        }
        self.in_transaction = false;
        self.speculation = 0;
    }

    #[inline(always)]
    fn atoms(&mut self, extent: Extent, atoms: Atoms, sink: &mut impl Sink<ElementItem>) {
        if !atoms.is_empty() {
            emit(extent, Element::Atoms(atoms), sink);
            self.deepen(extent, atoms.count(), sink);
        }
    }

    /// Emits an element that is a P0 element in some configurations.
    fn perhaps_p0(&mut self, extent: Extent, element: Element, sink: &mut impl Sink<ElementItem>) {
        emit(extent, element, sink);
        self.deepen(extent, p0_count(&element, &self.config), sink);
    }

    /// Counts speculative P0 elements. Those above the maximum are committed by that.
    #[inline(always)]
    fn deepen(&mut self, extent: Extent, count: u32, sink: &mut impl Sink<ElementItem>) {
        let maximum = self.config.max_speculation;
        self.conditions.start_block(true);
        if maximum == 0 {
            return;
        }
        self.speculation = self.speculation.saturating_add(count);
        if self.speculation > maximum {
            emit(extent, Element::Commit(self.speculation - maximum), sink);
            self.speculation = maximum;
        }
    }

    fn commit(&mut self, extent: Extent, count: u32, sink: &mut impl Sink<ElementItem>) {
        if count > 0 {
            emit(extent, Element::Commit(count), sink);
            self.speculation = self.speculation.saturating_sub(count);
        }
    }

    fn cancel(&mut self, extent: Extent, count: u32, mispredict: bool, sink: &mut impl Sink<ElementItem>) {
        if count > 0 {
            emit(extent, Element::Cancel(count), sink);
            self.speculation = self.speculation.saturating_sub(count);
        }
        if mispredict {
            emit(extent, Element::Mispredict, sink);
        }
        self.restart_conditions(extent, sink);
    }

    /// After a cancel or a mispredict the block starts again. A result may have been canceled with the elements around it, so
    /// that no later one can be trusted with the key of an instruction before.
    fn restart_conditions(&mut self, extent: Extent, sink: &mut impl Sink<ElementItem>) {
        self.conditions.start_block(false);
        if self.config.conditions != ConditionScope::None {
            emit_own(extent, OwnElement::ConditionalFlush, sink);
        }
    }

    fn timestamp(
        &mut self,
        extent: Extent,
        value: u64,
        bits: u8,
        cycles: Option<u32>,
        sink: &mut impl Sink<ElementItem>,
    ) {
        self.timestamp = replace_low(self.timestamp, bits, value);
        emit(extent, Element::Timestamp { value: self.timestamp, cycles }, sink);
    }

    fn cycle_count(&mut self, extent: Extent, count: CycleCount, sink: &mut impl Sink<ElementItem>) {
        let (commit, cycles) = match count {
            CycleCount::Format1 { commit, cycles } => (commit.unwrap_or(0), cycles),
            CycleCount::Format2 { near_maximum, commit, cycles } => {
                (self.format_2_commit(near_maximum, commit), Some(u32::from(cycles)))
            }
            CycleCount::Format3 { commit, cycles } => {
                let commit = if self.config.commit_mode_1 { 0 } else { u32::from(commit) + 1 };
                (commit, Some(u32::from(cycles)))
            }
        };
        self.commit(extent, commit, sink);
        let cycles = cycles.map(|cycles| cycles.saturating_add(self.cycle_threshold));
        emit(extent, Element::CycleCount(cycles), sink);
    }

    fn format_2_commit(&self, near_maximum: bool, field: u8) -> u32 {
        let maximum = self.config.max_speculation;
        match (self.config.commit_mode_1, near_maximum) {
            // The specification's text names the maximum; no more than the current depth can be meant.
            (true, _) => maximum.min(self.speculation),
            (false, true) => maximum.saturating_add(u32::from(field)).saturating_sub(15),
            (false, false) => u32::from(field) + 1,
        }
    }

    /// The complete address, added to the history.
    #[inline(always)]
    fn complete(&mut self, address: Address) -> Target {
        let old = self.history[usize::from(address.entry.min(2))];
        let isa = if address.bits == 0 { old.isa } else { address.isa };
        let target = Target { address: replace_low(old.address, address.bits, address.value), isa };
        self.history = [target, self.history[0], self.history[1]];
        target
    }

    fn update_context(&mut self, context: Option<Context>) {
        let Some(Context { el, aarch64, security, vmid, context_id }) = context else { return };
        let vmid = vmid.or(self.context.vmid);
        let context_id = context_id.or(self.context.context_id);
        self.context = Context { el, aarch64, security, vmid, context_id };
    }

    /// The packet after an exception packet. False: it is not the exception's address.
    fn exception_address(
        &mut self,
        exception: Located<Exception>,
        extent: Extent,
        packet: &Packet,
        sink: &mut impl Sink<ElementItem>,
    ) -> bool {
        let target = match *packet {
            Packet::Ignore => {
                self.history = [Target::default(), self.history[0], self.history[1]];
                None
            }
            Packet::Address(address) => Some(self.complete(address)),
            Packet::AddressContext { address, context } => {
                self.update_context(Some(context));
                Some(self.complete(address))
            }
            _ => return false,
        };
        let whole = Extent { offset: exception.offset, length: exception.length + extent.length };
        // The text emits no context for a mere return address, but the packet has one.
        if matches!(packet, Packet::AddressContext { .. }) {
            emit(whole, Element::Context(self.context), sink);
        }
        if let (ExceptionAddress::TargetAndReturn, Some(target)) = (exception.value.address, target) {
            emit(whole, Element::TargetAddress(target), sink);
        }
        self.take_exception(whole, exception.value.number, target, sink);
        true
    }

    fn take_exception(
        &mut self,
        extent: Extent,
        number: u16,
        target: Option<Target>,
        sink: &mut impl Sink<ElementItem>,
    ) {
        let fails = number == TRANSACTION_FAILURE && self.is_ete();
        if fails || number == PE_RESET && self.in_transaction {
            self.in_transaction = false;
            emit(extent, Element::TransactionFailure, sink);
        }
        if fails {
            return;
        }
        let address = target.filter(|_| !self.return_address_unknown(number)).map(|target| target.address);
        let number = match self.config.is_m_profile {
            true => ExceptionNumber::etm4_m(number),
            false => ExceptionNumber::etm4(number),
        };
        emit(extent, Element::Exception { number, address }, sink);
        self.deepen(extent, 1, sink);
    }

    fn is_ete(&self) -> bool {
        matches!(self.config.version, Version::Ete(_))
    }

    fn return_address_unknown(&self, number: u16) -> bool {
        self.is_ete() && matches!(number, PE_RESET | UNKNOWN_RETURN)
    }

    fn abandon_exception(&mut self, sink: &mut impl Sink<ElementItem>) {
        if let Some(exception) = self.exception.take() {
            sink.item(Err(exception_without_address(exception.offset)));
        }
    }

    fn report_unknown(&mut self, sink: &mut impl Sink<ElementItem>) {
        if let Some((offset, skipped)) = self.unknown.take() {
            sink.item(Err(ElementError { offset, skipped, kind: Broken::NoTraceInfo }));
        }
    }
}

impl DecodeElements for ElementDecoder {
    type Packet = Packet;

    #[inline(always)]
    fn push(&mut self, item: PacketItem, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(Located { offset, length, value: Packet::Atoms(atoms) }) if self.is_plain() => {
                emit(Extent { offset, length }, Element::Atoms(atoms), sink);
            }
            Ok(Located { offset, length, value: Packet::Address(address) }) if self.is_plain() => {
                let target = self.complete(address);
                emit(Extent { offset, length }, Element::TargetAddress(target), sink);
            }
            other => self.uncommon(other, sink),
        }
    }

    fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64 {
        self.abandon_exception(sink);
        self.report_unknown(sink);
        0
    }

    /// No exception waits for its address, a trace info was seen, and nothing is speculative.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.known && self.exception.is_none() && self.is_simple
    }

    #[inline(always)]
    fn plain(&mut self, extent: Extent, packet: &Packet, sink: &mut impl Sink<Located<Plain>>) -> bool {
        match *packet {
            Packet::Atoms(atoms) => sink.item(extent.locate(Plain::Atoms(atoms))),
            Packet::Address(address) => sink.item(extent.locate(Plain::Target(self.complete(address)))),
            _ => return false,
        }
        true
    }
}

#[inline(always)]
fn emit(extent: Extent, value: Element, sink: &mut impl Sink<ElementItem>) {
    sink.item(Ok(extent.locate(value)));
}

fn emit_own(extent: Extent, value: OwnElement, sink: &mut impl Sink<ElementItem>) {
    emit(extent, Element::Etm4(value), sink);
}

fn exception_without_address(offset: u64) -> ElementError {
    ElementError { offset, skipped: 0, kind: Broken::ExceptionWithoutAddress }
}

/// The context before the first packet that has one.
fn no_context(config: &Config) -> Context {
    Context {
        el: config.level(0),
        aarch64: false,
        security: Security::Secure,
        vmid: config.vmids.then_some(0),
        context_id: config.context_ids.then_some(0),
    }
}

/// Events may come before the first trace info, and some packets do not depend on it.
fn needs_trace_info(packet: &Packet) -> bool {
    !matches!(
        packet,
        Packet::AlignmentSync
            | Packet::TraceInfo(_)
            | Packet::Event { .. }
            | Packet::Ignore
            | Packet::Discard
            | Packet::Overflow
    )
}

/// `old` with its low `bits` bits replaced.
#[inline(always)]
fn replace_low(old: u64, bits: u8, new: u64) -> u64 {
    let mask = u64::MAX.checked_shl(u32::from(bits)).unwrap_or(0);
    old & mask | new
}
