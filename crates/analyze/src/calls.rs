//! Calls and returns, inferred from control flow, opcodes and the stack pointer.
//!
//! ```text
//! steps, blocks of any source ─▶ Tracker ─▶ a Follower per thread ─▶ **calls**, each when it ends
//! ```
//!
//! Traces do not mark calls. A branch with link begins one; so does another branch if a nearby address was written to
//! the link register just before. A branch back to the return address, with the stack pointer of the call, ends it.
//! If the stack pointer is unknown, the return address alone decides, from the innermost call outwards. A candidate
//! that never returns (for example, a branch with link that only loads an address) is not a call: its instructions
//! belong to the enclosing call. Without a stack pointer, it is one if it branched far.
//!
//! After a gap the stack is uncertain: what follows is an entry of its own ([`Began::Gap`]) until a return leads to
//! a call from before the gap. Calls within that one ended in the gap.
//!
//! Only calls in progress are held in memory. Each thread needs its own [`Follower`].

mod blocks;
mod flow;
mod follow;
mod frame;
mod json;
mod pointers;
mod returns;
mod track;
mod window;

use std::ops::Range;

use unspool_isa::Isa;
use unspool_model::Event;

pub use blocks::CallPart;
pub use follow::{Follower, Gap};
pub use json::CallLine;
pub use track::{Stack, Tracker};
pub use window::{Executions, Span, Spans, Window};

/// Position of an instruction in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Site {
    /// The byte offset, line or record, as the source counts.
    pub position: u64,
    /// The time, in the unit of the trace.
    pub time: u64,
    /// Its number among the instructions of its stack, without gaps.
    pub number: u64,
    /// Its address.
    pub pc: u64,
}

/// A time of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// The number of the core.
    pub core: u32,
    /// The time, in the unit of the trace.
    pub time: u64,
    /// Number of instructions that the core has executed so far.
    pub number: u64,
}

/// An opcode and its instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode {
    /// The instruction set.
    pub isa: Isa,
    /// The opcode, in the form that [`unspool_isa::decode`] takes.
    pub opcode: u32,
}

/// An executed instruction, as input of a [`Follower`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Its position.
    pub site: Site,
    /// The address after it.
    pub next: u64,
    /// Its opcode, if known.
    pub code: Option<Opcode>,
    /// Whether it was executed: its condition held.
    pub is_executed: bool,
    /// The stack pointer before it.
    pub sp: Option<u64>,
    /// Identifies the stack pointer register: any number that differs between banked registers of different modes.
    pub stack: u32,
    /// The link register before it.
    pub lr: Option<u64>,
    /// Whether the link register was written since the previous instruction.
    pub is_lr_written: bool,
    /// Whether an exception was taken since the previous instruction.
    pub is_interrupted: bool,
    /// The address at which that exception returns, if the trace has it.
    pub return_address: Option<u64>,
    /// The address that it branches to, if it is a branch that was taken and the trace has it.
    pub target: Option<u64>,
}

impl Instruction {
    /// An executed instruction with unknown registers.
    pub fn new(site: Site, length: u8, code: Option<Opcode>) -> Self {
        let next = site.pc.wrapping_add(u64::from(length));
        Self {
            site,
            next,
            code,
            is_executed: true,
            sp: None,
            stack: 0,
            lr: None,
            is_lr_written: false,
            is_interrupted: false,
            return_address: None,
            target: None,
        }
    }
}

/// Consumer of calls. Each has a stack, which a number identifies.
pub trait CallSink {
    /// A stack begins, which has no calls yet.
    fn opened(&mut self, _stack: usize, _of: &Stack) {}

    /// A call begins within the innermost one. It may turn out not to be a call.
    #[inline]
    fn began(&mut self, _stack: usize, _function: u64, _began: Began) {}

    /// The innermost call was none: what it cost belongs to the enclosing one.
    #[inline]
    fn absorbed(&mut self, _stack: usize) {}

    /// After a gap, execution is back where it was before: calls that ended in the gap were reported, and those in progress
    /// have not ended.
    fn resolved(&mut self, _stack: usize) {}

    /// Whether [`happened`](Self::happened) is to be called for notes too.
    fn wants_notes(&self) -> bool {
        false
    }

    /// A core executes this stack from now on, which has executed `count` instructions so far. A source that does not report it
    /// has one stack per core.
    fn switched(&mut self, _stack: usize, _count: u64, _at: &Moment) {}

    /// Something other than an instruction: an exception, a return from one, a gap, a note.
    fn happened(&mut self, _event: &Event, _text: &str, _at: &Moment) {}

    /// Too many calls are in progress: these are no longer followed. The outermost has the index 0.
    fn dropped(&mut self, _stack: usize, _calls: Range<usize>) {}

    /// The innermost call ended. One that [began before the trace](Began::Before) is followed by its caller, which takes its
    /// place as the outermost one.
    fn ended(&mut self, stack: usize, call: &Call);
}

/// A closure receives calls as they end.
impl<F: FnMut(usize, &Call)> CallSink for F {
    #[inline]
    fn ended(&mut self, stack: usize, call: &Call) {
        self(stack, call);
    }
}

/// Beginning of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Began {
    /// The root: the function at the start of the trace that never returned. Each stack has one.
    Start,
    /// Before the trace.
    Before,
    /// By a call.
    Called,
    /// As the handler of an exception.
    Exception,
    /// In or before a gap. The function is the first address after the gap, or the address that was returned to.
    Gap,
}

impl Began {
    /// Its name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Before => "before",
            Self::Called => "called",
            Self::Exception => "exception",
            Self::Gap => "gap",
        }
    }
}

/// End of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// By a return.
    Returned,
    /// Without a return: the stack was unwound past it (`longjmp`, a C++ exception).
    Unwound,
    /// In a gap: it had ended when execution was traced again. Its last instruction is the last one before the gap.
    InGap,
    /// With the trace.
    AtEnd,
}

impl Ended {
    /// Its name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Unwound => "left",
            Self::InGap => "gap",
            Self::AtEnd => "at_end",
        }
    }
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number in the order in which calls began, from 1; 0 if it began with the trace or before it.
    pub ordinal: u64,
    /// Ordinal of the last call that began within it, or its own.
    pub last: u64,
    /// The address of the function; if it began before the trace or in a gap, the first address seen in it.
    pub function: u64,
    /// Its beginning.
    pub began: Began,
    /// Its end.
    pub ended: Ended,
    /// The calling instruction.
    pub site: Option<Site>,
    /// Its first instruction.
    pub entry: Site,
    /// Its last instruction.
    pub exit: Site,
    /// The instruction that it returned to.
    pub back: Option<Site>,
    /// Its own cost, without the calls that it made.
    pub own: Cost,
    /// Whether execution is missing between its beginning and its end, so that it cost more.
    pub has_gap: bool,
}

/// Time and number of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// The time from the first instruction to the last.
    pub time: u64,
    /// Number of instructions.
    pub instructions: u64,
}

impl Call {
    /// Its total cost, including the calls that it made.
    pub fn total(&self) -> Cost {
        Cost::between(&self.entry, &self.exit)
    }

    /// Whether both its beginning and its end are in the trace.
    pub fn is_complete(&self) -> bool {
        self.began == Began::Called && self.ended == Ended::Returned
    }

    /// Whether it is the root, which lasts from the start of the trace to its end.
    pub fn is_root(&self) -> bool {
        self.began == Began::Start
    }
}

impl Cost {
    pub(crate) fn between(first: &Site, last: &Site) -> Self {
        let instructions = last.number.saturating_sub(first.number).saturating_add(1);
        Self { time: last.time.saturating_sub(first.time), instructions }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.time = self.time.saturating_add(other.time);
        self.instructions = self.instructions.saturating_add(other.instructions);
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            time: self.time.saturating_sub(other.time),
            instructions: self.instructions.saturating_sub(other.instructions),
        }
    }
}
