//! The program flow: ranges in [`Run`]s, one range per P0 element; everything else is an [`Item`].

use core::fmt;

use unspool_coresight::exception::ExceptionNumber;
use unspool_coresight::{Context, ElementError, Located, OtherIsa, etm3};
use unspool_isa::{Decoded, Isa};

use crate::graph::{Block, BlockId, Graph, SCRATCH};
use crate::memory::{MapId, Space};

/// Consumer of a program flow.
pub trait FlowSink {
    /// Executed ranges in order, one per P0 element.
    fn run(&mut self, run: Run<'_>);

    /// An item other than ranges, or an error.
    fn item(&mut self, item: FlowItem);
}

impl<S: FlowSink + ?Sized> FlowSink for &mut S {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        (**self).run(run);
    }

    fn item(&mut self, item: FlowItem) {
        (**self).item(item);
    }
}

/// An item with its offset in the trace, or an error of an earlier stage instead.
pub type FlowItem = Result<Located<Item>, ElementError>;

/// Part of a program flow besides instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// Execution is in this context from here on.
    Context(Context),
    /// Addresses are those of this map from here on.
    Map(MapId),
    /// Instructions were executed whose branches were not traced.
    Q {
        /// Their start, if known.
        start: Option<u64>,
        /// The address after them, if the trace contains it.
        next: Option<u64>,
        /// Their number, if counted.
        instructions: Option<u32>,
    },
    /// An exception was taken.
    Exception {
        /// Its type.
        number: ExceptionNumber,
        /// The preferred return address. On the M profile, [it may stand for none](ExceptionNumber::is_tail_chained).
        return_address: Option<u64>,
    },
    /// An exception return.
    ExceptionReturn,
    /// An M-profile function return.
    FunctionReturn,
    /// Tracing starts here; the preceding instructions are unknown.
    TraceOn,
    /// The trace unit lost trace.
    Overflow,
    /// Tracing stopped.
    Discard {
        /// The branch before, if its outcome or target may be wrong: the trace unit had no chance to correct it.
        uncertain_branch: Option<u64>,
    },
    /// Execution continued at an address whose code is unknown, or cannot be decoded.
    NoCode {
        /// The address.
        address: u64,
        /// The space it was executed in.
        space: Space,
        /// The instruction set, if it is one that cannot be decoded.
        isa: Option<OtherIsa>,
    },
    /// P0 elements that could not be followed, since their position is unknown.
    Lost {
        /// Their number.
        elements: u64,
        /// The cause.
        cause: Cause,
    },
    /// Trace and code cannot both be right.
    Finding(Finding),
    /// The time.
    Timestamp {
        /// The timestamp.
        value: u64,
        /// Cycles since the last cycle count.
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
    Marker,
    /// The trigger condition of the trace unit occurred.
    Trigger,
    /// A value that software wrote.
    Instrumentation {
        /// The Exception level that wrote it.
        el: u8,
        /// The value.
        value: u64,
    },
    /// A transaction starts, succeeds or fails.
    Transaction(Transaction),
    /// The result of a conditional instruction other than a branch, of this block or of an earlier one.
    Condition {
        /// The address of the instruction.
        address: u64,
        /// Its condition held. Otherwise it was not executed.
        passed: bool,
    },
    /// A data transfer or a state that only ETMv3 has.
    Etm3(etm3::OwnElement),
    /// The trace ends here.
    End,
}

/// State of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// It starts.
    Start,
    /// It succeeded.
    Commit,
    /// It failed: what it did did not happen.
    Failure,
}

/// Cause of an unknown position of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The code at this address is unknown.
    NoCode {
        /// The address.
        address: u64,
        /// The space it was executed in.
        space: Space,
    },
    /// Several processes have code at this address, and which one executes is unknown.
    Ambiguous {
        /// The address.
        address: u64,
    },
    /// The trace has not contained an address, or not its context.
    NoAddress,
    /// Trace and code contradicted each other before.
    Disagreement,
}

/// Contradiction between trace and code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// An N atom at a branch that is always taken.
    #[error("the branch at {at:#x} is always taken, but the trace says it was not")]
    NotTaken {
        /// The branch.
        at: u64,
    },
    /// An address that the instruction before cannot lead to.
    #[error("execution continues at {expected:#x}, but the trace has the address {found:#x}")]
    Unreachable {
        /// The address according to the code.
        expected: u64,
        /// The address in the trace.
        found: u64,
    },
    /// A range that does not end.
    #[error("too many instructions without a branch from {start:#x} on")]
    Runaway {
        /// Its start.
        start: u64,
    },
    /// An exception whose preferred return address does not follow from the position of execution.
    #[error("execution was at {at:#x}, which does not lead to the return address {return_address:#x}")]
    ReturnAddress {
        /// The position of execution.
        at: u64,
        /// The preferred return address.
        return_address: u64,
    },
    /// A source address that does not follow from the position of execution, or that has no branch.
    #[error("execution was at {at:#x}, which does not lead to a branch at {source_address:#x}")]
    SourceAddress {
        /// The position of execution.
        at: u64,
        /// The source address.
        source_address: u64,
    },
    /// A waypoint update that does not follow from the position of execution without a waypoint.
    #[error("execution was at {at:#x}, which does not lead to the instruction at {waypoint:#x} without a branch")]
    WaypointUpdate {
        /// The position of execution.
        at: u64,
        /// The address of the update.
        waypoint: u64,
    },
    /// Code that differs between processes, where the trace does not say which of them executes.
    #[error("several processes have code at {address:#x}, and the trace does not say which one executes")]
    AmbiguousImage {
        /// The address.
        address: u64,
    },
    /// An indirect branch without an address after it, which no return stack can have predicted.
    #[error("the trace has no address after an indirect branch")]
    NoTarget,
    /// A conditional instruction that the code does not have.
    #[error("the block at {at:#x} has no more than {number} conditional instructions, but the trace has another one")]
    Conditional {
        /// The start of the block.
        at: u64,
        /// Number of such instructions in it.
        number: u32,
    },
    /// A mispredict without a P0 element before it.
    #[error("a mispredict without a branch before it")]
    Mispredict,
}

/// One executed range: a block of the graph, and in the lowest bit whether its last instruction was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkStep(u32);

impl WalkStep {
    pub(crate) fn new(block: BlockId, taken: bool) -> Self {
        Self(block << 1 | u32::from(taken))
    }

    pub(crate) fn block(self) -> BlockId {
        self.0 >> 1
    }

    pub(crate) fn taken(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Identifies a cached run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunKey {
    /// Changes when the runs of the cache do. Never zero.
    pub generation: u64,
    /// Distinguishes the runs of one generation. Small enough to be the index of a table.
    pub index: u32,
}

/// Ranges that were executed one after the other.
#[derive(Clone, Copy)]
pub struct Run<'g> {
    pub(crate) graph: &'g Graph,
    /// The steps are among these.
    pub(crate) among: &'g [WalkStep],
    pub(crate) start: u32,
    pub(crate) length: u32,
    pub(crate) instructions: u64,
    pub(crate) offset: u64,
    /// The generation of the cached runs that it is one of; zero: it is not cached.
    pub(crate) generation: u64,
}

impl<'g> Run<'g> {
    /// Number of ranges.
    #[inline]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Are there no ranges?
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Number of instructions of all ranges.
    #[inline]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The offset of the packet in the trace.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What identifies the run, if it is cached: equal keys have equal ranges.
    #[inline]
    pub fn key(&self) -> Option<RunKey> {
        (self.generation != 0).then_some(RunKey { generation: self.generation, index: self.start })
    }

    /// Each range, in the order of execution.
    #[inline]
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<'g>> + use<'g> {
        let graph = self.graph;
        self.among[self.start as usize..][..self.length as usize].iter().map(move |&step| Range {
            graph,
            block: graph.block(step.block()),
            step,
        })
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}

/// Consecutive instructions; only the last of them may branch.
#[derive(Clone, Copy)]
pub struct Range<'g> {
    graph: &'g Graph,
    block: &'g Block,
    step: WalkStep,
}

impl<'g> Range<'g> {
    /// The address of the first instruction.
    #[inline]
    pub fn start(&self) -> u64 {
        self.block.start
    }

    /// The address after the last instruction.
    #[inline]
    pub fn end(&self) -> u64 {
        self.block.end
    }

    /// Number of instructions.
    #[inline]
    pub fn instructions(&self) -> u32 {
        self.block.instructions
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.block.isa
    }

    /// Was the last instruction taken, or executed if it is not a branch (an E atom)?
    #[inline]
    pub fn taken(&self) -> bool {
        self.step.taken()
    }

    /// Does trace show an outcome of the last instruction: is it of a kind whose outcome trace has, or did its condition
    /// fail?
    #[inline]
    pub fn has_outcome(&self) -> bool {
        !self.taken() || self.graph.has_outcome(self.block)
    }

    /// The last instruction.
    pub fn last(&self) -> &'g Decoded {
        &self.block.last
    }

    /// The opcodes, in the order of execution. A T32 opcode of four bytes has its first halfword in the high half, one
    /// of two bytes is smaller than 0x10000.
    #[inline]
    pub fn opcodes(&self) -> &'g [u32] {
        self.graph.opcodes_of(self.block, self.step.block() == SCRATCH)
    }

    /// The address where execution continues, if the last instruction determines it.
    pub fn next(&self) -> Option<u64> {
        self.block.leads_to(self.taken()).map(|target| target.address)
    }
}

impl fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = if self.taken() { "E" } else { "N" };
        write!(f, "{:#x}..{:#x} {outcome}", self.start(), self.end())
    }
}
