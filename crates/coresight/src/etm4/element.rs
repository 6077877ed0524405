//! Elements: what the trace unit meant, each complete in itself.
//!
//! packets ─▶ **elements** ─▶ committed
//!
//! The words only. `interpret.rs` makes elements from packets, `speculation.rs` finds out which of them happened.
//! Specification: Arm DDI 0487, trace analyzer, stage 1.

use super::packet::{ConditionalInstruction, ConditionalResult, Security, SubIsa};
use super::{Atoms, Config, Located, Malformed, PacketError};

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
        matches!(self, Broken::Packet(_) | Broken::NoTraceInfo | Broken::ExceptionWithoutAddress)
    }
}

impl From<PacketError> for ElementError {
    fn from(error: PacketError) -> Self {
        Self { offset: error.offset, skipped: error.skipped, kind: Broken::Packet(error.kind) }
    }
}

/// An element, or where there is none.
pub type ElementItem = Result<Located<Element>, ElementError>;

/// The exception type of a PE reset.
pub const PE_RESET: u16 = 0;
/// The exception type that reports a failed transaction (ETE).
pub const TRANSACTION_FAILURE: u16 = 0x18;
/// Another exception type whose preferred return address is not known (ETE).
pub(super) const UNKNOWN_RETURN: u16 = 0x19;

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
