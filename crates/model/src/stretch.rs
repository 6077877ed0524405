//! Instructions that are executed again and again, one behind the other.

use unspool_isa::Decoded;

use crate::{Direction, Instruction};

/// A stretch of code that does the same whenever it is executed from its first instruction to its last: only the
/// addresses of its accesses differ, and where it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// They follow each other in memory.
    pub instructions: Vec<Instruction>,
    /// All that they access, in order: at most one access of an instruction.
    pub accesses: Vec<StretchAccess>,
    /// The control flow of the last of them: none, or a direct or indirect branch.
    pub end: Decoded,
}

/// An access of an instruction in a [`Stretch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StretchAccess {
    /// Which of its instructions makes it.
    pub index: u16,
    /// Bytes. If an emulator tells them in pieces, those are side by side in one page of 4 KiB.
    pub size: u16,
    /// Read or written.
    pub direction: Direction,
}

/// One execution of a [`Stretch`], or of a [`Block`](crate::Block): which one, and whether the branch at its end was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass(u32);

impl Pass {
    /// The highest number of a stretch.
    pub const MOST: u32 = u32::MAX >> 1;

    /// An execution of the stretch with this number.
    #[inline]
    pub fn new(number: u32, is_taken: bool) -> Self {
        Self(number << 1 | u32::from(is_taken))
    }

    /// The number of the stretch.
    #[inline]
    pub fn number(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Was the branch at its end taken?
    #[inline]
    pub fn is_taken(self) -> bool {
        self.0 & 1 == 1
    }

    /// One number for both.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Stretches that were executed one behind the other: each goes on where the next one starts.
///
/// Says what as many steps would say, at once, so that a sink need not look at each instruction every time. Nothing
/// interrupted them, and nothing comes between the last of them and what follows.
#[derive(Debug, Clone, Copy)]
pub struct Run<'r> {
    /// All that there are, by their numbers. A number keeps its stretch for good.
    pub stretches: &'r [Stretch],
    /// What was executed.
    pub passes: &'r [Pass],
    /// The addresses of their accesses, in order; behind those of each pass, where an indirect branch at its end went.
    pub addresses: &'r [u64],
    /// How many instructions the passes have.
    pub instructions: u64,
}

impl Run<'_> {
    /// How many instructions the first so many passes have.
    pub fn instructions_of(&self, passes: usize) -> u64 {
        let stretches = self.passes.iter().take(passes).filter_map(|pass| self.stretches.get(pass.number()));
        stretches.map(|stretch| stretch.instructions.len() as u64).sum()
    }
}

/// Where a sink stopped taking a [`Run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// So many passes were taken, and so many of their addresses.
    pub passes: usize,
    /// Addresses of them.
    pub addresses: usize,
    /// The next one will never be taken: its steps have to come each time.
    pub is_final: bool,
}
