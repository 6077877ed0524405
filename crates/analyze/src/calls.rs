//! Calls and returns, told by where execution goes, what the opcodes are, and the stack pointer.
//!
//! instructions of one core ─▶ **calls**, each when it ends
//!
//! Nothing in a trace says "call". A branch with link begins one; so does another branch if the link register was given
//! an address close by just before. A branch back to the return address, with the stack pointer of the call, ends it.
//! Where the stack pointer is not known, the return address alone decides, from the innermost call outwards. What was
//! taken for a call and never comes back (a branch with link that only loads an address, say) is no call: what happened
//! in it belongs to the one around it.
//!
//! Only calls in progress are held. Each core needs a [`Follower`] of its own.

mod flow;
mod follow;
mod frame;
mod json;

use unspool_isa::Isa;

pub use follow::Follower;

/// An instruction's place in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Site {
    /// The line or record.
    pub line: u64,
    /// When, in the unit of the trace.
    pub time: u64,
    /// Its number, counted for its core; without gaps.
    pub number: u64,
    /// Its address.
    pub pc: u64,
}

/// An opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// The instruction set.
    pub isa: Isa,
    /// The opcode, as [`unspool_isa::decode`] wants it.
    pub opcode: u32,
}

/// What a follower is told of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is.
    pub site: Site,
    /// The address behind it.
    pub next: u64,
    /// Its opcode; `None`: nobody knows.
    pub code: Option<Code>,
    /// It was executed; its condition held.
    pub is_executed: bool,
    /// The stack pointer before it.
    pub sp: Option<u64>,
    /// Which stack pointer that is: any number that differs where another register is meant (another mode).
    pub stack: u32,
    /// The link register before it.
    pub lr: Option<u64>,
    /// The link register was written since the instruction before was told.
    pub is_lr_written: bool,
    /// An exception was taken since the instruction before was told.
    pub is_interrupted: bool,
}

impl Instruction {
    /// An instruction that was executed, and no more is known of it.
    pub fn new(site: Site, length: u8, code: Option<Code>) -> Self {
        let next = site.pc.wrapping_add(u64::from(length));
        let (sp, lr, stack) = (None, None, 0);
        Self { site, next, code, is_executed: true, sp, stack, lr, is_lr_written: false, is_interrupted: false }
    }
}

/// How a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Began {
    /// It is what the core was in at the start of the trace, and never returned from. Each core has one.
    Start,
    /// It began before the trace.
    Before,
    /// It was called.
    Called,
    /// It is the handler of an exception.
    Exception,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It returned.
    Returned,
    /// It was left without a return: the stack was cut back over it (`longjmp`, an exception of C++).
    Left,
    /// The trace ended first.
    AtEnd,
}

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which one, in the order in which they began. What began with the trace or before it is 0.
    pub ordinal: u64,
    /// The last one that began within it; itself, if none did.
    pub last: u64,
    /// Where it begins; of what began before the trace, the first address seen in it.
    pub function: u64,
    /// How it began.
    pub began: Began,
    /// How it ended.
    pub ended: Ended,
    /// The instruction that called.
    pub site: Option<Site>,
    /// The first instruction within.
    pub entry: Site,
    /// The last instruction within.
    pub exit: Site,
    /// The instruction that it returned to.
    pub back: Option<Site>,
    /// Time and instructions within it that are not within a call that it made.
    pub own: Sums,
}

/// Time and instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// The time from the first instruction to the last.
    pub time: u64,
    /// How many instructions.
    pub instructions: u64,
}

impl Call {
    /// All of it, with the calls that it made.
    pub fn whole(&self) -> Sums {
        Sums::between(&self.entry, &self.exit)
    }

    /// Both its beginning and its end are in the trace.
    pub fn is_complete(&self) -> bool {
        self.began == Began::Called && self.ended == Ended::Returned
    }

    /// It is what the core was in from the start of the trace to its end.
    pub fn is_root(&self) -> bool {
        self.began == Began::Start
    }
}

impl Sums {
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
