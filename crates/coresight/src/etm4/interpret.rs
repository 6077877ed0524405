//! Packets to elements: nothing is left to look up in earlier packets.
//!
//! packets ─▶ **elements** ─▶ committed
//!
//! Keeps what packets are relative to: the last three addresses, the context, the timestamp, the cycle threshold and
//! the speculation depth. It does not know whether an element will be cancelled; `speculation.rs` does. Errors of the
//! packet room pass through, and nothing is believed after one until the next trace info.
//! Specification: Arm DDI 0487, trace analyzer, stage 1.

use super::element::{OwnElement, p0_count};
use super::packet::{self, Address, CycleCount, ExceptionAddress, Packet};
use super::{Config, PacketItem, Version};
use crate::decode::{DecodeElements, Plain};
use crate::exception::{PE_RESET, TRANSACTION_FAILURE};
use crate::{Atoms, Broken, Context, Element, ElementError, ElementItem, Located, PacketError, Security, Sink, Target};

/// Another exception type whose preferred return address is not known (ETE).
const UNKNOWN_RETURN: u16 = 0x19;

/// Turns packets into elements. Feed it with [`push`](DecodeElements::push), end with [`finish`](DecodeElements::finish).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementDecoder {
    config: Config,
    /// A trace info has been seen since the start or the last damage.
    known: bool,
    /// The stretch without trace info that is not yet told: where it starts and how many bytes its packets have.
    unknown: Option<(u64, u64)>,
    history: [Target; 3],
    context: Context,
    timestamp: u64,
    cycle_threshold: u32,
    speculation: u32,
    in_transaction: bool,
    exception: Option<Located<Exception>>,
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
        }
    }

    #[inline(never)]
    fn uncommon(&mut self, item: PacketItem, sink: &mut impl Sink<ElementItem>) {
        match item {
            Ok(packet) => self.packet(packet, sink),
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
        let place = Place { offset: packet.offset, length: packet.length };
        if let Some(exception) = self.exception.take() {
            if self.exception_address(exception, place, &packet.value, sink) {
                return;
            }
            self.known = false;
            sink.item(Err(exception_without_address(exception.offset)));
        }
        if !self.known && needs_trace_info(&packet.value) {
            let (start, skipped) = self.unknown.unwrap_or((place.offset, 0));
            self.unknown = Some((start, skipped + place.length));
            return;
        }
        self.report_unknown(sink);
        self.understood(place, packet.value, sink);
    }

    fn understood(&mut self, place: Place, packet: Packet, sink: &mut impl Sink<ElementItem>) {
        match packet {
            Packet::AlignmentSync | Packet::Ignore => {}
            Packet::TraceInfo(info) => self.trace_info(place, info, sink),
            Packet::Discard => self.discard(place, sink),
            Packet::Overflow => {
                place.emit(Element::Discard, sink);
                place.emit(Element::Overflow, sink);
                self.end_discarded(place, sink);
            }
            Packet::TraceOn => place.emit(Element::TraceOn, sink),
            Packet::Timestamp { value, bits, cycles } => self.timestamp(place, value, bits, cycles, sink),
            Packet::TimestampMarker => place.emit(Element::TimestampMarker, sink),
            Packet::CycleCount(count) => self.cycle_count(place, count, sink),
            Packet::Event { mask } => place.emit(Element::Event { mask }, sink),
            Packet::Commit { count } => self.commit(place, count, sink),
            Packet::CancelFormat1 { count, mispredict } => self.cancel(place, count, mispredict, sink),
            Packet::CancelFormat2(few) => {
                self.atoms(place, few.atoms(), sink);
                self.cancel(place, 1, true, sink);
            }
            Packet::CancelFormat3 { count, atom } => {
                self.atoms(place, Atoms::new(1, u8::from(atom)), sink);
                self.cancel(place, u32::from(count), true, sink);
            }
            Packet::Mispredict(few) => {
                self.atoms(place, few.atoms(), sink);
                place.emit(Element::Mispredict, sink);
            }
            Packet::Atoms(atoms) => self.atoms(place, atoms, sink),
            Packet::Q { count, address } => {
                place.emit(Element::Q { count }, sink);
                self.deepen(place, 1, sink);
                if let Some(address) = address {
                    place.emit(Element::TargetAddress(self.complete(address)), sink);
                }
            }
            Packet::SourceAddress(address) => {
                place.emit(Element::SourceAddress(self.complete(address)), sink);
                self.deepen(place, 1, sink);
            }
            Packet::Address(address) => place.emit(Element::TargetAddress(self.complete(address)), sink),
            Packet::Context(context) => {
                self.update_context(context);
                place.emit(Element::Context(self.context), sink);
            }
            Packet::AddressContext { address, context } => {
                let target = self.complete(address);
                self.update_context(Some(context));
                place.emit(Element::Context(self.context), sink);
                place.emit(Element::TargetAddress(target), sink);
            }
            Packet::Exception { number, address, .. } => {
                let value = Exception { number, address };
                self.exception = Some(Located { offset: place.offset, length: place.length, value });
            }
            Packet::ExceptionReturn => place.emit(Element::ExceptionReturn, sink),
            Packet::FunctionReturn => place.emit(Element::FunctionReturn, sink),
            Packet::TransactionStart => {
                self.in_transaction = true;
                place.emit(Element::TransactionStart, sink);
                self.deepen(place, p0_count(&Element::TransactionStart, &self.config), sink);
            }
            Packet::TransactionCommit => {
                self.in_transaction = false;
                place.emit(Element::TransactionCommit, sink);
            }
            Packet::Instrumentation { el, value } => place.emit(Element::Instrumentation { el, value }, sink),
            Packet::NumberedDataSync(number) => place.emit(Element::Etm4(OwnElement::NumberedDataSync(number)), sink),
            Packet::UnnumberedDataSync(value) => place.emit(Element::Etm4(OwnElement::UnnumberedDataSync(value)), sink),
            Packet::ConditionalInstruction(it) => {
                place.emit(Element::Etm4(OwnElement::ConditionalInstruction(it)), sink)
            }
            Packet::ConditionalFlush => place.emit(Element::Etm4(OwnElement::ConditionalFlush), sink),
            Packet::ConditionalResult(it) => place.emit(Element::Etm4(OwnElement::ConditionalResult(it)), sink),
        }
    }

    /// Back to the state that the architecture defines for this point.
    fn trace_info(&mut self, place: Place, info: packet::TraceInfo, sink: &mut impl Sink<ElementItem>) {
        self.known = true;
        self.history = [Target::default(); 3];
        self.context = no_context(&self.config);
        self.timestamp = 0;
        self.cycle_threshold = if info.cycle_counting() { info.cycle_threshold.unwrap_or(0) } else { 0 };
        self.speculation = info.speculation.unwrap_or(0);
        self.in_transaction = info.in_transaction();
        let element = Element::TraceInfo {
            cycle_counting: info.cycle_counting(),
            cycle_threshold: self.cycle_threshold,
            speculation: self.speculation,
            in_transaction: self.in_transaction,
        };
        place.emit(element, sink);
    }

    fn discard(&mut self, place: Place, sink: &mut impl Sink<ElementItem>) {
        place.emit(Element::Discard, sink);
        self.end_discarded(place, sink);
    }

    fn end_discarded(&mut self, place: Place, sink: &mut impl Sink<ElementItem>) {
        if self.in_transaction {
            place.emit(Element::TransactionFailure, sink);
        }
        self.in_transaction = false;
        self.speculation = 0;
    }

    #[inline(always)]
    fn atoms(&mut self, place: Place, atoms: Atoms, sink: &mut impl Sink<ElementItem>) {
        if !atoms.is_empty() {
            place.emit(Element::Atoms(atoms), sink);
            self.deepen(place, atoms.count(), sink);
        }
    }

    /// More P0 elements are speculative. Those above the maximum are committed by that.
    #[inline(always)]
    fn deepen(&mut self, place: Place, count: u32, sink: &mut impl Sink<ElementItem>) {
        let maximum = self.config.max_speculation;
        if maximum == 0 {
            return;
        }
        self.speculation = self.speculation.saturating_add(count);
        if self.speculation > maximum {
            place.emit(Element::Commit(self.speculation - maximum), sink);
            self.speculation = maximum;
        }
    }

    fn commit(&mut self, place: Place, count: u32, sink: &mut impl Sink<ElementItem>) {
        if count > 0 {
            place.emit(Element::Commit(count), sink);
            self.speculation = self.speculation.saturating_sub(count);
        }
    }

    fn cancel(&mut self, place: Place, count: u32, mispredict: bool, sink: &mut impl Sink<ElementItem>) {
        if count > 0 {
            place.emit(Element::Cancel(count), sink);
            self.speculation = self.speculation.saturating_sub(count);
        }
        if mispredict {
            place.emit(Element::Mispredict, sink);
        }
    }

    fn timestamp(
        &mut self,
        place: Place,
        value: u64,
        bits: u8,
        cycles: Option<u32>,
        sink: &mut impl Sink<ElementItem>,
    ) {
        self.timestamp = replace_low(self.timestamp, bits, value);
        place.emit(Element::Timestamp { value: self.timestamp, cycles }, sink);
    }

    fn cycle_count(&mut self, place: Place, count: CycleCount, sink: &mut impl Sink<ElementItem>) {
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
        self.commit(place, commit, sink);
        let cycles = cycles.map(|cycles| cycles.saturating_add(self.cycle_threshold));
        place.emit(Element::CycleCount(cycles), sink);
    }

    fn format_2_commit(&self, near_maximum: bool, field: u8) -> u32 {
        let maximum = self.config.max_speculation;
        match (self.config.commit_mode_1, near_maximum) {
            // The specification's text names the maximum; no more than there are can be meant.
            (true, _) => maximum.min(self.speculation),
            (false, true) => maximum.saturating_add(u32::from(field)).saturating_sub(15),
            (false, false) => u32::from(field) + 1,
        }
    }

    /// The whole address, remembered as the youngest.
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

    /// The packet behind an exception packet. False: it is not the exception's address.
    fn exception_address(
        &mut self,
        exception: Located<Exception>,
        place: Place,
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
        let whole = Place { offset: exception.offset, length: exception.length + place.length };
        // The text emits no context for a mere return address, but the packet brought one, and nothing is lost.
        if matches!(packet, Packet::AddressContext { .. }) {
            whole.emit(Element::Context(self.context), sink);
        }
        if let (ExceptionAddress::TargetAndReturn, Some(target)) = (exception.value.address, target) {
            whole.emit(Element::TargetAddress(target), sink);
        }
        self.take_exception(whole, exception.value.number, target, sink);
        true
    }

    fn take_exception(&mut self, place: Place, number: u16, target: Option<Target>, sink: &mut impl Sink<ElementItem>) {
        let fails = number == TRANSACTION_FAILURE && self.is_ete();
        if fails || number == PE_RESET && self.in_transaction {
            self.in_transaction = false;
            place.emit(Element::TransactionFailure, sink);
        }
        if fails {
            return;
        }
        let address = target.filter(|_| !self.return_address_unknown(number)).map(|target| target.address);
        place.emit(Element::Exception { number, address }, sink);
        self.deepen(place, 1, sink);
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
                Place { offset, length }.emit(Element::Atoms(atoms), sink);
            }
            Ok(Located { offset, length, value: Packet::Address(address) }) if self.is_plain() => {
                let target = self.complete(address);
                Place { offset, length }.emit(Element::TargetAddress(target), sink);
            }
            other => self.uncommon(other, sink),
        }
    }

    fn finish(&mut self, sink: &mut impl Sink<ElementItem>) -> u64 {
        self.abandon_exception(sink);
        self.report_unknown(sink);
        0
    }

    /// No exception waits for its address, a trace info was there, and nothing is speculative.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.known && self.exception.is_none() && self.config.max_speculation == 0
    }

    #[inline(always)]
    fn plain(&mut self, packet: &Packet) -> Option<Plain> {
        match *packet {
            Packet::Atoms(atoms) => Some(Plain::Atoms(atoms)),
            Packet::Address(address) => Some(Plain::Target(self.complete(address))),
            _ => None,
        }
    }
}

/// Which bytes an element comes from.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    length: u64,
}

impl Place {
    #[inline(always)]
    fn emit(self, value: Element, sink: &mut impl Sink<ElementItem>) {
        sink.item(Ok(Located { offset: self.offset, length: self.length, value }));
    }
}

fn exception_without_address(offset: u64) -> ElementError {
    ElementError { offset, skipped: 0, kind: Broken::ExceptionWithoutAddress }
}

/// What the context is before any packet tells.
fn no_context(config: &Config) -> Context {
    Context {
        el: 0,
        aarch64: false,
        security: Security::Secure,
        vmid: config.vmids.then_some(0),
        context_id: config.context_ids.then_some(0),
    }
}

/// Events may come before the first trace info, and these packets bring their own meaning.
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
