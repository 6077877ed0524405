//! Instructions that are executed again and again, one behind the other.

use crate::{Branch, Direction, Instruction};

/// A stretch of code that was executed once more, from its first instruction to its last.
///
/// Says what as many steps would say, at once, so that a sink need not look at each instruction every time. Nothing
/// interrupted it, and nothing comes between it and the instruction that follows.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'s> {
    /// Which one it is: the same number has the same instructions.
    pub number: usize,
    /// They follow each other in memory.
    pub instructions: &'s [Instruction],
    /// What became of the last, if that is a branch.
    pub branch: Option<Branch>,
    /// All that they accessed, in order.
    pub accesses: &'s [StretchAccess],
}

/// An access of an instruction in a [`Stretch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StretchAccess {
    /// Which of its instructions made it.
    pub index: u16,
    /// Bytes.
    pub size: u16,
    /// Read or written.
    pub direction: Direction,
    /// Where.
    pub address: u64,
}
