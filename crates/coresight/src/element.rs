//! Elements: the meaning of packets, each complete in itself, shared by all protocols.
//!
//! packets ─▶ **elements** ─▶ committed ─▶ flow
//!
//! The decoders of a protocol make elements from its packets and resolve which of them are committed.
//! Elements that only one protocol has are in a variant of their own.
//! Specification: Arm DDI 0487, trace analyzer, stage 1.

mod fields;
mod software;
mod text;

pub use software::{Software, Time, TimeQuality};
pub(crate) use text::Events;

use crate::exception::ExceptionNumber;
use crate::{Atoms, Context, ElementError, Located, OtherIsa, Target};
use crate::{etm3, etm4, itm, stm};

/// An element, or the error in its place.
pub type ElementItem = Result<Located<Element>, ElementError>;

/// The treatment of elements inside a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transactions {
    /// Hold them back, and drop them if the transaction fails.
    #[default]
    Resolve,
    /// Release them at once, between the start and the commit or failure.
    Show,
}

/// One element, complete in itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Element {
    /// A point where analysis may start.
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
    /// A discontinuity: the following elements do not continue the preceding ones.
    TraceOn,
    /// Tracing stopped; what was still speculative never happened as far as the trace shows.
    Discard,
    /// The trace unit lost trace.
    Overflow,
    /// The oldest speculative P0 elements became architectural. Consumed by the next stage.
    Commit(u32),
    /// The youngest speculative P0 elements did not happen. Consumed by the next stage.
    Cancel(u32),
    /// The last atom went the other way.
    Mispredict,
    /// Outcomes of P0 instructions.
    Atoms(Atoms),
    /// Instructions were executed whose branches were not traced.
    Q {
        /// Number of instructions.
        count: Option<u32>,
    },
    /// An exception was taken.
    Exception {
        /// Its type.
        number: ExceptionNumber,
        /// The preferred return address: execution ran up to it. `None`: not known. On the M profile,
        /// [it may stand for none](ExceptionNumber::is_tail_chained).
        address: Option<u64>,
    },
    /// Return from an exception (ETMv4).
    ExceptionReturn,
    /// An M-profile function return (ETMv4).
    FunctionReturn,
    /// Execution up to and with the taken branch at this address.
    SourceAddress(Target),
    /// The address where execution continues.
    TargetAddress(Target),
    /// All instructions up to and including the one at this address were executed (PTM).
    WaypointUpdate(Target),
    /// Execution continues in an instruction set whose code cannot be followed.
    OtherCode {
        /// The address.
        address: u64,
        /// The instruction set.
        isa: OtherIsa,
    },
    /// The context of execution from here on.
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
    /// A value that software wrote to a channel.
    Software(Software),
    /// The trigger condition of the trace unit occurred (PTM and ETMv3).
    Trigger,
    /// An element that only ETMv4 has.
    Etm4(etm4::OwnElement),
    /// An element that only ETMv3 has.
    Etm3(etm3::OwnElement),
    /// An element that only an ITM has.
    Itm(itm::OwnElement),
    /// An element that only an STM has.
    Stm(stm::OwnElement),
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
            Element::WaypointUpdate(_) => "waypoint_update",
            Element::OtherCode { .. } => "other_code",
            Element::Context(_) => "context",
            Element::TransactionStart | Element::TransactionCommit | Element::TransactionFailure => "transaction",
            Element::Timestamp { .. } => "timestamp",
            Element::CycleCount(_) => "cycle_count",
            Element::Event { .. } => "event",
            Element::TimestampMarker => "marker",
            Element::Trigger => "trigger",
            Element::Instrumentation { .. } => "instrumentation",
            Element::Software(_) => "software",
            Element::Etm4(own) => own.name(),
            Element::Etm3(own) => own.name(),
            Element::Itm(own) => own.name(),
            Element::Stm(own) => own.name(),
        }
    }

    /// The address that the element reports, if it does.
    pub fn address(&self) -> Option<u64> {
        match self {
            Element::TargetAddress(target) | Element::SourceAddress(target) | Element::WaypointUpdate(target) => {
                Some(target.address)
            }
            Element::OtherCode { address, .. } => Some(*address),
            Element::Exception { address, .. } => *address,
            _ => None,
        }
    }
}
