//! Packets to elements: what the trace unit meant, with nothing left to look up in earlier packets.
//!
//! packets ─▶ **elements** ─▶ committed
//!
//! Keeps what packets are relative to: the last three addresses, the context, the timestamp, the cycle threshold and
//! the speculation depth. It does not know whether an element will be cancelled; `speculation.rs` does. Errors of the
//! packet room pass through, and nothing is believed after one until the next trace info.
//! Specification: Arm DDI 0487, trace analyzer, stage 1.

use super::packet::{
    Address, ConditionalInstruction, ConditionalResult, CycleCount, ExceptionAddress, Packet, Security, SubIsa,
};
use super::{Atoms, Config, Located, Malformed, PacketError, PacketItem, packet};

/// One element, complete in itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Element {
    /// Where analysis may start.
    TraceInfo {
        /// Cycles are counted.
        cycle_counting: bool,
        /// The cycle count threshold.
        cycle_threshold: u32,
        /// P0 elements before this one that are still speculative.
        speculation: u32,
        /// Tracing is inside a transaction.
        in_transaction: bool,
    },
    /// A discontinuity: what follows does not continue what went before.
    TraceOn,
    /// Tracing stopped; what was still speculative never happened as far as the trace tells.
    Discard,
    /// The trace unit lost trace.
    Overflow,
    /// The oldest speculative P0 elements became architectural. Consumed by the next room.
    Commit(u32),
    /// The youngest speculative P0 elements did not happen. Consumed by the next room.
    Cancel(u32),
    /// The last atom went the other way.
    Mispredict,
    /// Outcomes of P0 instructions.
    Atoms(Atoms),
    /// Instructions were executed, how many if counted, without their branches.
    Q {
        /// How many.
        count: Option<u32>,
    },
    /// An exception was taken.
    Exception {
        /// Its type.
        number: u16,
        /// The preferred return address: execution ran up to it. `None`: not known.
        address: Option<u64>,
    },
    /// Return from an exception (ETMv4).
    ExceptionReturn,
    /// An M-profile function return (ETMv4).
    FunctionReturn,
    /// Execution up to and with the taken branch at this address.
    SourceAddress(Target),
    /// Where execution goes on.
    TargetAddress(Target),
    /// Which context execution is in from here on.
    Context(Context),
    /// A transaction starts.
    TransactionStart,
    /// The transaction succeeded.
    TransactionCommit,
    /// The transaction failed: what it did did not happen.
    TransactionFailure,
    /// The time.
    Timestamp {
        /// The timestamp.
        value: u64,
        /// Cycles since the last cycle count. Not to be added to a total.
        cycles: Option<u32>,
    },
    /// Cycles since the last cycle count; `None` when not known.
    CycleCount(Option<u32>),
    /// Events 0 to 3 in bits 0 to 3.
    Event {
        /// At least one bit is set.
        mask: u8,
    },
    /// The point in the program flow that the next timestamp is for.
    TimestampMarker,
    /// A value that software wrote.
    Instrumentation {
        /// The Exception level that wrote it.
        el: u8,
        /// The value.
        value: u64,
    },
    /// A data synchronisation marker with a number (ETMv4).
    NumberedDataSync(u8),
    /// A data synchronisation marker without a number (ETMv4).
    UnnumberedDataSync(u8),
    /// A conditional instruction (ETMv4).
    ConditionalInstruction(ConditionalInstruction),
    /// Results of conditional instructions before this point do not follow (ETMv4).
    ConditionalFlush,
    /// Results of conditional instructions (ETMv4).
    ConditionalResult(ConditionalResult),
}

/// A whole address and the instruction set there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Target {
    /// The address.
    pub address: u64,
    /// The instruction set.
    pub isa: SubIsa,
}

/// The whole context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Context {
    /// The Exception level, 0 to 3.
    pub el: u8,
    /// AArch64 rather than AArch32.
    pub aarch64: bool,
    /// The Security state.
    pub security: Security,
    /// The virtual context identifier, when traced.
    pub vmid: Option<u32>,
    /// The context identifier, when traced.
    pub context_id: Option<u32>,
}

impl Element {
    /// The name of the element's kind that the command line and JSON use.
    pub fn name(&self) -> &'static str {
        match self {
            Element::TraceInfo { .. } => "trace_info",
            Element::TraceOn => "trace_on",
            Element::Discard => "discard",
            Element::Overflow => "overflow",
            Element::Commit(_) => "commit",
            Element::Cancel(_) => "cancel",
            Element::Mispredict => "mispredict",
            Element::Atoms(_) => "atoms",
            Element::Q { .. } => "q",
            Element::Exception { .. } => "exception",
            Element::ExceptionReturn => "exception_return",
            Element::FunctionReturn => "function_return",
            Element::SourceAddress(_) => "source_address",
            Element::TargetAddress(_) => "target_address",
            Element::Context(_) => "context",
            Element::TransactionStart | Element::TransactionCommit | Element::TransactionFailure => "transaction",
            Element::Timestamp { .. } => "timestamp",
            Element::CycleCount(_) => "cycle_count",
            Element::Event { .. } => "event",
            Element::TimestampMarker => "marker",
            Element::Instrumentation { .. } => "instrumentation",
            Element::NumberedDataSync(_) => "numbered_data_sync",
            Element::UnnumberedDataSync(_) => "unnumbered_data_sync",
            Element::ConditionalInstruction(_) => "conditional_instruction",
            Element::ConditionalFlush => "conditional_flush",
            Element::ConditionalResult(_) => "conditional_result",
        }
    }

    /// How many P0 elements this is: those are what commits and cancels count.
    #[inline]
    pub fn p0_count(&self, config: &Config) -> u32 {
        match self {
            Element::Atoms(atoms) => atoms.count(),
            Element::Q { .. } | Element::Exception { .. } | Element::SourceAddress(_) => 1,
            Element::TransactionStart => u32::from(!config.transaction_start_not_p0),
            _ => 0,
        }
    }

    /// Does the element stay when the P0 elements before it are cancelled, discarded or rolled back? Time passed and
    /// events happened even if the instructions around them did not.
    pub fn survives_cancel(&self) -> bool {
        matches!(
            self,
            Element::CycleCount(_)
                | Element::Timestamp { .. }
                | Element::TimestampMarker
                | Element::Event { .. }
                | Element::TraceInfo { .. }
                | Element::Instrumentation { .. }
                | Element::NumberedDataSync(_)
                | Element::UnnumberedDataSync(_)
        )
    }
}

/// Why the elements at `offset` are missing or cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{offset:#x}: {kind}")]
pub struct ElementError {
    /// The first byte of the packet that shows it, or the first byte passed over.
    pub offset: u64,
    /// How many bytes were passed over.
    pub skipped: u64,
    /// What is wrong.
    pub kind: Broken,
}

/// What is wrong with a sequence of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// Bytes that are no packet.
    #[error("{0}")]
    Packet(Malformed),
    /// Packets that mean nothing without a trace info before them.
    #[error("packets before the first trace info")]
    NoTraceInfo,
    /// An exception packet whose address packet did not follow.
    #[error("exception without its address")]
    ExceptionWithoutAddress,
    /// More P0 elements were committed than there were. TRCIDR8 or TRCIDR0 may not be those of this trace unit.
    #[error("commit of {0} P0 elements that were never traced")]
    CommitOfNothing(u32),
    /// More P0 elements were cancelled than there were. TRCIDR8 may not be that of this trace unit.
    #[error("cancel of {0} P0 elements that were never traced or are committed")]
    CancelOfNothing(u32),
    /// A transaction that never ends: its elements are handed out unresolved.
    #[error("transaction too long to resolve")]
    EndlessTransaction,
    /// Speculation that is never resolved: its oldest elements are handed out as if committed.
    #[error("too many unresolved elements")]
    EndlessSpeculation,
}

impl Broken {
    /// Does this belong to trace that is whole?
    pub fn is_ordinary(self) -> bool {
        matches!(self, Broken::Packet(kind) if kind.is_ordinary())
    }

    /// Is the thread lost: do elements behind this not continue those before it?
    pub fn breaks_flow(self) -> bool {
        matches!(self, Broken::Packet(_) | Broken::NoTraceInfo)
    }
}

impl From<PacketError> for ElementError {
    fn from(error: PacketError) -> Self {
        Self { offset: error.offset, skipped: error.skipped, kind: Broken::Packet(error.kind) }
    }
}

/// An element, or where there is none.
pub type ElementItem = Result<Located<Element>, ElementError>;

/// Turns packets into elements. Feed it with [`push`](Self::push), end with [`finish`](Self::finish).
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone, Copy)]
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

    /// Takes the next packet, or the error in its place.
    #[inline(always)]
    pub fn push(&mut self, item: PacketItem, sink: &mut impl FnMut(ElementItem)) {
        match item {
            Ok(Located { offset, length, value: Packet::Atoms(atoms) }) if self.is_plain() => {
                self.atoms(Place { offset, length }, atoms, sink);
            }
            Ok(Located { offset, length, value: Packet::Address(address) }) if self.is_plain() => {
                let target = self.complete(address);
                Place { offset, length }.emit(Element::TargetAddress(target), sink);
            }
            other => self.uncommon(other, sink),
        }
    }

    #[inline(never)]
    fn uncommon(&mut self, item: PacketItem, sink: &mut impl FnMut(ElementItem)) {
        match item {
            Ok(packet) => self.packet(packet, sink),
            Err(error) => self.lose(error, sink),
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self, sink: &mut impl FnMut(ElementItem)) {
        self.abandon_exception(sink);
        self.tell_unknown(sink);
    }

    /// Nothing special is going on: no exception waits, and a trace info was there.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.known && self.exception.is_none()
    }

    fn lose(&mut self, error: PacketError, sink: &mut impl FnMut(ElementItem)) {
        self.abandon_exception(sink);
        self.tell_unknown(sink);
        self.known = false;
        self.in_transaction = false;
        sink(Err(error.into()));
    }

    fn packet(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(ElementItem)) {
        let place = Place { offset: packet.offset, length: packet.length };
        if let Some(exception) = self.exception.take() {
            if self.exception_address(exception, place, &packet.value, sink) {
                return;
            }
            sink(Err(exception_without_address(exception.offset)));
        }
        if !self.known && needs_trace_info(&packet.value) {
            let (start, skipped) = self.unknown.unwrap_or((place.offset, 0));
            self.unknown = Some((start, skipped + place.length));
            return;
        }
        self.tell_unknown(sink);
        self.understood(place, packet.value, sink);
    }

    fn understood(&mut self, place: Place, packet: Packet, sink: &mut impl FnMut(ElementItem)) {
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
                self.deepen(place, Element::TransactionStart.p0_count(&self.config), sink);
            }
            Packet::TransactionCommit => {
                self.in_transaction = false;
                place.emit(Element::TransactionCommit, sink);
            }
            Packet::Instrumentation { el, value } => place.emit(Element::Instrumentation { el, value }, sink),
            Packet::NumberedDataSync(number) => place.emit(Element::NumberedDataSync(number), sink),
            Packet::UnnumberedDataSync(value) => place.emit(Element::UnnumberedDataSync(value), sink),
            Packet::ConditionalInstruction(it) => place.emit(Element::ConditionalInstruction(it), sink),
            Packet::ConditionalFlush => place.emit(Element::ConditionalFlush, sink),
            Packet::ConditionalResult(it) => place.emit(Element::ConditionalResult(it), sink),
        }
    }

    /// Back to the state that the architecture defines for this point.
    fn trace_info(&mut self, place: Place, info: packet::TraceInfo, sink: &mut impl FnMut(ElementItem)) {
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

    fn discard(&mut self, place: Place, sink: &mut impl FnMut(ElementItem)) {
        place.emit(Element::Discard, sink);
        self.end_discarded(place, sink);
    }

    fn end_discarded(&mut self, place: Place, sink: &mut impl FnMut(ElementItem)) {
        if self.in_transaction {
            place.emit(Element::TransactionFailure, sink);
        }
        self.in_transaction = false;
        self.speculation = 0;
    }

    #[inline(always)]
    fn atoms(&mut self, place: Place, atoms: Atoms, sink: &mut impl FnMut(ElementItem)) {
        if !atoms.is_empty() {
            place.emit(Element::Atoms(atoms), sink);
            self.deepen(place, atoms.count(), sink);
        }
    }

    /// More P0 elements are speculative. Those above the maximum are committed by that.
    #[inline(always)]
    fn deepen(&mut self, place: Place, count: u32, sink: &mut impl FnMut(ElementItem)) {
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

    fn commit(&mut self, place: Place, count: u32, sink: &mut impl FnMut(ElementItem)) {
        if count > 0 {
            place.emit(Element::Commit(count), sink);
            self.speculation = self.speculation.saturating_sub(count);
        }
    }

    fn cancel(&mut self, place: Place, count: u32, mispredict: bool, sink: &mut impl FnMut(ElementItem)) {
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
        sink: &mut impl FnMut(ElementItem),
    ) {
        self.timestamp = replace_low(self.timestamp, bits, value);
        place.emit(Element::Timestamp { value: self.timestamp, cycles }, sink);
    }

    fn cycle_count(&mut self, place: Place, count: CycleCount, sink: &mut impl FnMut(ElementItem)) {
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
            (true, _) => maximum,
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

    fn update_context(&mut self, context: Option<packet::Context>) {
        let Some(packet::Context { el, aarch64, security, vmid, context_id }) = context else { return };
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
        sink: &mut impl FnMut(ElementItem),
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
        if matches!(packet, Packet::AddressContext { .. }) {
            whole.emit(Element::Context(self.context), sink);
        }
        if let (ExceptionAddress::TargetAndReturn, Some(target)) = (exception.value.address, target) {
            whole.emit(Element::TargetAddress(target), sink);
        }
        self.take_exception(whole, exception.value.number, target, sink);
        true
    }

    fn take_exception(
        &mut self,
        place: Place,
        number: u16,
        target: Option<Target>,
        sink: &mut impl FnMut(ElementItem),
    ) {
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
        matches!(self.config.version, super::Version::Ete(_))
    }

    fn return_address_unknown(&self, number: u16) -> bool {
        self.is_ete() && matches!(number, PE_RESET | UNKNOWN_RETURN)
    }

    fn abandon_exception(&mut self, sink: &mut impl FnMut(ElementItem)) {
        if let Some(exception) = self.exception.take() {
            sink(Err(exception_without_address(exception.offset)));
        }
    }

    fn tell_unknown(&mut self, sink: &mut impl FnMut(ElementItem)) {
        if let Some((offset, skipped)) = self.unknown.take() {
            sink(Err(ElementError { offset, skipped, kind: Broken::NoTraceInfo }));
        }
    }
}

/// The exception type of a PE reset.
pub const PE_RESET: u16 = 0;
/// The exception type that reports a failed transaction (ETE).
pub const TRANSACTION_FAILURE: u16 = 0x18;
/// Another exception type whose preferred return address is not known (ETE).
const UNKNOWN_RETURN: u16 = 0x19;

/// What an A-profile exception type is called.
pub fn exception_name(number: u16) -> Option<&'static str> {
    Some(match number {
        PE_RESET => "PE reset",
        1 => "debug halt",
        2 => "call",
        3 => "trap",
        4 => "system error",
        6 => "instruction debug",
        7 => "data debug",
        10 => "alignment",
        11 => "instruction fault",
        12 => "data fault",
        14 => "IRQ",
        15 => "FIQ",
        16..=23 => "implementation defined",
        TRANSACTION_FAILURE => "transaction failure",
        _ => return None,
    })
}

/// Which bytes an element comes from.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    length: u64,
}

impl Place {
    #[inline(always)]
    fn emit(self, value: Element, sink: &mut impl FnMut(ElementItem)) {
        sink(Ok(Located { offset: self.offset, length: self.length, value }));
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
