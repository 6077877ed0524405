//! ETE and ETMv4 packets and their content.
//!
//! bytes ─▶ **packets** ─▶ elements ─▶ committed ─▶ steps
//!
//! The enum is the specification's table. A packet holds the content of its own bytes and no more: a short address is a
//! few low bits, a timestamp the bits that changed. `read.rs` finds packets in bytes, `encode.rs` writes them.
//! The address of an exception is a packet of its own that follows the exception's.
//! Specification: Arm IHI 0064 (ETMv4) and DDI 0487 (ETE).

use super::atoms;
use crate::{Atoms, Context, SubIsa};

/// One packet, named as in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet {
    /// Marks a packet boundary that can be found without knowing any other.
    AlignmentSync,
    /// Tracing stopped; elements that were still speculative are lost.
    Discard,
    /// The trace unit overflowed: trace is missing here.
    Overflow,
    /// The state of the compression and of the speculation at this point.
    TraceInfo(TraceInfo),
    /// The time. Only the low `bits` bits of `value` are new.
    Timestamp {
        /// The new low bits.
        value: u64,
        /// Number of new bits: a multiple of 7, or 64.
        bits: u8,
        /// Cycles since the last cycle count.
        cycles: Option<u32>,
    },
    /// Tracing starts here; nothing known of the program flow before this point still holds.
    TraceOn,
    /// An M-profile function return that pops its stack frame (ETMv4).
    FunctionReturn,
    /// An exception. Its address follows as a packet: an address, an address with context, or
    /// [`Ignore`](Packet::Ignore) when it is not known.
    Exception {
        /// The exception type.
        number: u16,
        /// The meaning of the address that follows.
        address: ExceptionAddress,
        /// Whether a fault is pending, if the second information byte is present (M-profile).
        fault_pending: Option<bool>,
    },
    /// Return from an exception (ETMv4).
    ExceptionReturn,
    /// A value that software wrote (ETE, FEAT_ITE).
    Instrumentation {
        /// The Exception level that wrote it.
        el: u8,
        /// The value.
        value: u64,
    },
    /// A transaction starts (ETE).
    TransactionStart,
    /// The transaction succeeded (ETE).
    TransactionCommit,
    /// Cycles since the last cycle count, and the number of commits with them.
    CycleCount(CycleCount),
    /// A data synchronization marker with a number, 0 to 7 (ETMv4).
    NumberedDataSync(u8),
    /// A data synchronization marker without a number; the value is 0 to 4 (ETMv4).
    UnnumberedDataSync(u8),
    /// The oldest `count` speculative P0 elements became architectural.
    Commit {
        /// Number of P0 elements.
        count: u32,
    },
    /// The youngest `count` speculative P0 elements did not happen.
    CancelFormat1 {
        /// Number of P0 elements.
        count: u32,
        /// A mispredict follows.
        mispredict: bool,
    },
    /// Up to two atoms, then one P0 element is canceled, then a mispredict.
    CancelFormat2(FewAtoms),
    /// Perhaps an E atom, then `count` P0 elements are canceled, then a mispredict.
    CancelFormat3 {
        /// Number of P0 elements: 2 to 5.
        count: u8,
        /// An E atom comes first.
        atom: bool,
    },
    /// Up to two atoms, then: the last atom went the other way.
    Mispredict(FewAtoms),
    /// A conditional instruction other than a branch (ETMv4).
    ConditionalInstruction(ConditionalInstruction),
    /// Results of conditional instructions before this point do not follow (ETMv4).
    ConditionalFlush,
    /// Whether conditional instructions passed (ETMv4).
    ConditionalResult(ConditionalResult),
    /// No meaning, or, after an exception, that its address is not known.
    Ignore,
    /// Events, one bit each.
    Event {
        /// Events 0 to 3 in bits 0 to 3; at least one is set.
        mask: u8,
    },
    /// The context; `None`: as before.
    Context(Option<Context>),
    /// The target of the last P0 element, with its context.
    AddressContext {
        /// A long address.
        address: Address,
        /// The context there.
        context: Context,
    },
    /// Marks the point in the program flow that the next timestamp is for (ETE, and ETMv4 from version 4.6).
    TimestampMarker,
    /// The target of the last P0 element.
    Address(Address),
    /// Execution without its branches.
    Q {
        /// Number of instructions, if counted.
        count: Option<u32>,
        /// The address where execution continued, if traced.
        address: Option<Address>,
    },
    /// Instructions up to the taken branch at this address were executed (ETE).
    SourceAddress(Address),
    /// Outcomes of the next P0 instructions, oldest first.
    Atoms(Atoms),
}

/// The content of a trace info packet. A section that the packet leaves out is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceInfo {
    /// The static trace programming: bit 0 cycles are counted, bits 3:1 TRCCONFIGR.COND, bit 4 loads are P0, bit 5 stores
    /// are P0, bit 6 tracing starts inside a transaction.
    pub info: Option<u32>,
    /// The next P0 key (ETMv4 with data trace).
    pub key: Option<u32>,
    /// Number of P0 elements before this point that are still speculative.
    pub speculation: Option<u32>,
    /// The cycle count threshold.
    pub cycle_threshold: Option<u32>,
}

impl TraceInfo {
    /// Are cycles counted?
    pub fn cycle_counting(self) -> bool {
        self.info.unwrap_or(0) & 1 != 0
    }

    /// Does tracing start inside a transaction?
    pub fn in_transaction(self) -> bool {
        self.info.unwrap_or(0) & 1 << 6 != 0
    }
}

/// The meaning of the address after an exception packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceptionAddress {
    /// The preferred return address: execution ran up to it.
    Return,
    /// The target of the last P0 element and, since nothing ran there, the preferred return address too.
    TargetAndReturn,
}

/// An address as a packet gives it: one of the last three addresses with its low bits replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The new low bits; the others are zero.
    pub value: u64,
    /// Number of new low bits: none when the address is the same as an older one, 8 to 17 in a short packet, 32
    /// or all 64 in a long one.
    pub bits: u8,
    /// The index of the address with the other bits among the last three, 0 being the youngest.
    pub entry: u8,
    /// The instruction set there. Without new bits it is that of the older address, and this is [`SubIsa::Is0`].
    pub isa: SubIsa,
}

impl Address {
    /// The same as address `entry` of the history (0, 1 or 2).
    pub const fn same_as(entry: u8) -> Self {
        Self { value: 0, bits: 0, entry, isa: SubIsa::Is0 }
    }

    /// The youngest address with new low bits.
    pub const fn low(isa: SubIsa, bits: u8, value: u64) -> Self {
        Self { value, bits, entry: 0, isa }
    }

    /// All 64 bits.
    pub const fn full(isa: SubIsa, value: u64) -> Self {
        Self::low(isa, 64, value)
    }
}

/// A cycle count packet. Counts are above the threshold that the trace info gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleCount {
    /// Any values.
    Format1 {
        /// P0 elements committed; absent in commit mode 1.
        commit: Option<u32>,
        /// Cycles; `None` when not known.
        cycles: Option<u32>,
    },
    /// Small values in one byte.
    Format2 {
        /// The commit count is near the greatest speculation depth rather than near zero.
        near_maximum: bool,
        /// The commit field, 0 to 15.
        commit: u8,
        /// Cycles, 0 to 15.
        cycles: u8,
    },
    /// Very small values in the header.
    Format3 {
        /// P0 elements committed less one, 0 to 3; without meaning in commit mode 1.
        commit: u8,
        /// Cycles, 0 to 3.
        cycles: u8,
    },
}

/// The atoms that a mispredict or cancel packet may bring along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FewAtoms {
    /// No atom.
    None,
    /// E.
    E,
    /// E, E.
    EE,
    /// N.
    N,
}

impl FewAtoms {
    /// The same as packed atoms.
    pub const fn atoms(self) -> Atoms {
        match self {
            FewAtoms::None => Atoms::new(0, 0),
            FewAtoms::E => Atoms::new(1, 1),
            FewAtoms::EE => Atoms::new(3, 2),
            FewAtoms::N => Atoms::new(0, 1),
        }
    }
}

/// A conditional instruction packet (ETMv4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalInstruction {
    /// A new condition key.
    Format1 {
        /// The key.
        key: u32,
    },
    /// The key follows from the last one.
    Format2 {
        /// The step: 0, 1 or 2.
        step: u8,
    },
    /// Several elements.
    Format3 {
        /// Number of elements, 0 to 63.
        count: u8,
        /// One more, whose key is as before.
        last: bool,
    },
}

/// A conditional result packet (ETMv4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalResult {
    /// One or two keys with their results.
    Format1 {
        /// The first result.
        first: KeyResult,
        /// The second, if there.
        second: Option<KeyResult>,
    },
    /// A result for the next key or the one after it.
    Format2 {
        /// Skip one key.
        skip: bool,
        /// The result token, 0 to 2.
        token: u8,
    },
    /// Twelve bits of tokens.
    Format3 {
        /// The tokens.
        tokens: u16,
    },
    /// A result for the last key.
    Format4 {
        /// The result token, 0 to 2.
        token: u8,
    },
}

/// A condition key and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyResult {
    /// The key.
    pub key: u32,
    /// The result, four bits.
    pub result: u8,
    /// The CI bit of the header for this result.
    pub ci: bool,
}

macro_rules! kinds {
    ($($kind:ident $name:literal)*) => {
        /// The kinds of packet, as far as headers distinguish them. For counting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names are the specification's")]
        pub enum PacketKind { $($kind),* }

        impl PacketKind {
            /// All kinds, in the order of the specification's headers.
            pub const ALL: &[PacketKind] = &[$(PacketKind::$kind),*];

            /// The name that the command line and JSON use.
            pub fn name(self) -> &'static str {
                match self { $(PacketKind::$kind => $name),* }
            }
        }
    };
}

kinds! {
    AlignmentSync "alignment_sync"
    Discard "discard"
    Overflow "overflow"
    TraceInfo "trace_info"
    Timestamp "timestamp"
    TraceOn "trace_on"
    FunctionReturn "function_return"
    Exception "exception"
    ExceptionReturn "exception_return"
    Instrumentation "instrumentation"
    TransactionStart "transaction_start"
    TransactionCommit "transaction_commit"
    CycleCountFormat1 "cycle_count_format_1"
    CycleCountFormat2 "cycle_count_format_2"
    CycleCountFormat3 "cycle_count_format_3"
    NumberedDataSync "numbered_data_sync"
    UnnumberedDataSync "unnumbered_data_sync"
    Commit "commit"
    CancelFormat1 "cancel_format_1"
    CancelFormat2 "cancel_format_2"
    CancelFormat3 "cancel_format_3"
    Mispredict "mispredict"
    ConditionalInstructionFormat1 "conditional_instruction_format_1"
    ConditionalInstructionFormat2 "conditional_instruction_format_2"
    ConditionalInstructionFormat3 "conditional_instruction_format_3"
    ConditionalFlush "conditional_flush"
    ConditionalResultFormat1 "conditional_result_format_1"
    ConditionalResultFormat2 "conditional_result_format_2"
    ConditionalResultFormat3 "conditional_result_format_3"
    ConditionalResultFormat4 "conditional_result_format_4"
    Ignore "ignore"
    Event "event"
    Context "context"
    AddressContext32Is0 "address_context_32_is0"
    AddressContext32Is1 "address_context_32_is1"
    AddressContext64Is0 "address_context_64_is0"
    AddressContext64Is1 "address_context_64_is1"
    TimestampMarker "timestamp_marker"
    AddressMatch "address_match"
    AddressShortIs0 "address_short_is0"
    AddressShortIs1 "address_short_is1"
    Address32Is0 "address_32_is0"
    Address32Is1 "address_32_is1"
    Address64Is0 "address_64_is0"
    Address64Is1 "address_64_is1"
    Q "q"
    SourceAddressMatch "source_address_match"
    SourceAddressShortIs0 "source_address_short_is0"
    SourceAddressShortIs1 "source_address_short_is1"
    SourceAddress32Is0 "source_address_32_is0"
    SourceAddress32Is1 "source_address_32_is1"
    SourceAddress64Is0 "source_address_64_is0"
    SourceAddress64Is1 "source_address_64_is1"
    AtomFormat1 "atom_format_1"
    AtomFormat2 "atom_format_2"
    AtomFormat3 "atom_format_3"
    AtomFormat4 "atom_format_4"
    AtomFormat5 "atom_format_5"
    AtomFormat6 "atom_format_6"
}

impl Packet {
    /// Does the packet leave bits of its address to earlier packets?
    pub fn has_partial_address(&self) -> bool {
        match self {
            Packet::Address(address)
            | Packet::SourceAddress(address)
            | Packet::AddressContext { address, .. }
            | Packet::Q { address: Some(address), .. } => address.bits < 64,
            _ => false,
        }
    }

    /// The kind of the packet.
    pub fn kind(&self) -> PacketKind {
        use PacketKind as K;
        match self {
            Packet::AlignmentSync => K::AlignmentSync,
            Packet::Discard => K::Discard,
            Packet::Overflow => K::Overflow,
            Packet::TraceInfo(_) => K::TraceInfo,
            Packet::Timestamp { .. } => K::Timestamp,
            Packet::TraceOn => K::TraceOn,
            Packet::FunctionReturn => K::FunctionReturn,
            Packet::Exception { .. } => K::Exception,
            Packet::ExceptionReturn => K::ExceptionReturn,
            Packet::Instrumentation { .. } => K::Instrumentation,
            Packet::TransactionStart => K::TransactionStart,
            Packet::TransactionCommit => K::TransactionCommit,
            Packet::CycleCount(CycleCount::Format1 { .. }) => K::CycleCountFormat1,
            Packet::CycleCount(CycleCount::Format2 { .. }) => K::CycleCountFormat2,
            Packet::CycleCount(CycleCount::Format3 { .. }) => K::CycleCountFormat3,
            Packet::NumberedDataSync(_) => K::NumberedDataSync,
            Packet::UnnumberedDataSync(_) => K::UnnumberedDataSync,
            Packet::Commit { .. } => K::Commit,
            Packet::CancelFormat1 { .. } => K::CancelFormat1,
            Packet::CancelFormat2(_) => K::CancelFormat2,
            Packet::CancelFormat3 { .. } => K::CancelFormat3,
            Packet::Mispredict(_) => K::Mispredict,
            Packet::ConditionalInstruction(ConditionalInstruction::Format1 { .. }) => K::ConditionalInstructionFormat1,
            Packet::ConditionalInstruction(ConditionalInstruction::Format2 { .. }) => K::ConditionalInstructionFormat2,
            Packet::ConditionalInstruction(ConditionalInstruction::Format3 { .. }) => K::ConditionalInstructionFormat3,
            Packet::ConditionalFlush => K::ConditionalFlush,
            Packet::ConditionalResult(ConditionalResult::Format1 { .. }) => K::ConditionalResultFormat1,
            Packet::ConditionalResult(ConditionalResult::Format2 { .. }) => K::ConditionalResultFormat2,
            Packet::ConditionalResult(ConditionalResult::Format3 { .. }) => K::ConditionalResultFormat3,
            Packet::ConditionalResult(ConditionalResult::Format4 { .. }) => K::ConditionalResultFormat4,
            Packet::Ignore => K::Ignore,
            Packet::Event { .. } => K::Event,
            Packet::Context(_) => K::Context,
            Packet::AddressContext { address, .. } => {
                K::ALL[K::AddressContext32Is0 as usize + address.form().saturating_sub(3)]
            }
            Packet::TimestampMarker => K::TimestampMarker,
            Packet::Address(address) => K::ALL[K::AddressMatch as usize + address.form()],
            Packet::Q { .. } => K::Q,
            Packet::SourceAddress(address) => K::ALL[K::SourceAddressMatch as usize + address.form()],
            Packet::Atoms(atoms) => match atoms::format(*atoms) {
                Some(1) => K::AtomFormat1,
                Some(2) => K::AtomFormat2,
                Some(3) => K::AtomFormat3,
                Some(4) => K::AtomFormat4,
                Some(5) => K::AtomFormat5,
                _ => K::AtomFormat6,
            },
        }
    }
}

impl Address {
    /// The number of its packet kind among those of addresses: match, short IS0 and IS1, 32-bit IS0 and IS1, 64-bit IS0
    /// and IS1. An address with context is always long.
    fn form(&self) -> usize {
        match self.bits {
            0 => 0,
            32 => 3 + self.isa as usize,
            64 => 5 + self.isa as usize,
            _ => 1 + self.isa as usize,
        }
    }
}
