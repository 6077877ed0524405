//! Where execution went, without what was accessed on the way.
//!
//! a source that knows its blocks ─▶ **flow**: this block, that block, this block again ─▶ who follows

use std::ops::ControlFlow;

use crate::{Branch, Event, Instruction, Isa, Pass, Step};

/// Instructions of four bytes that follow each other in memory. None but the last is a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Where the first one is.
    pub start: u64,
    /// Their instruction set.
    pub isa: Isa,
    /// Their opcodes, at least one.
    pub opcodes: Vec<u32>,
    /// The last one is a branch.
    pub ends_in_branch: bool,
}

impl Block {
    /// Where execution goes on if no branch is taken.
    pub fn behind(&self) -> u64 {
        self.start.wrapping_add(4 * self.opcodes.len() as u64)
    }
}

/// Blocks that were executed one behind the other, from their first instruction to their last.
///
/// Says what as many steps would say of instructions, at once. Nothing interrupted them, and the next that comes is the
/// instruction at `next`.
#[derive(Debug, Clone, Copy)]
pub struct Flow<'f> {
    /// Which core, as in [`Step`].
    pub core: u32,
    /// All that there are, by their numbers. A number keeps its block for good.
    pub blocks: &'f [Block],
    /// What was executed: each goes on where the next one starts.
    pub passes: &'f [Pass],
    /// Where execution goes on behind the last.
    pub next: u64,
    /// The place of the first instruction; that of each further one is one more.
    pub place: u64,
    /// The time of all of them.
    pub time: Option<u64>,
}

impl Flow<'_> {
    /// Where execution goes on behind this pass.
    #[inline]
    pub fn behind(&self, pass: usize) -> u64 {
        self.passes.get(pass + 1).map_or(self.next, |next| self.blocks[next.number()].start)
    }

    /// How many instructions there are.
    pub fn instructions(&self) -> usize {
        self.passes.iter().map(|pass| self.blocks[pass.number()].opcodes.len()).sum()
    }

    /// Hands out the passes, each with the place of its first instruction.
    pub fn each_pass(&self, mut take: impl FnMut(usize, u64) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut place = self.place;
        (0..self.passes.len()).try_for_each(|pass| {
            let length = self.blocks[self.passes[pass].number()].opcodes.len() as u64;
            let first = place;
            place += length;
            take(pass, first)
        })
    }

    /// The instructions of a pass as steps; `place` is that of the first.
    pub fn steps(&self, pass: usize, place: u64) -> impl Iterator<Item = Step> {
        let (block, is_taken) = (&self.blocks[self.passes[pass].number()], self.passes[pass].is_taken());
        let (last, behind, core, time) = (block.opcodes.len() - 1, self.behind(pass), self.core, self.time);
        (0..).zip(&block.opcodes).map(move |(index, opcode)| {
            let branch = Branch { taken: is_taken, target: is_taken.then_some(behind) };
            let instruction = Instruction {
                address: block.start.wrapping_add(4 * index as u64),
                opcode: Some(*opcode),
                length: 4,
                isa: block.isa,
                branch: (block.ends_in_branch && index == last).then_some(branch),
                ..Instruction::default()
            };
            let (place, event) = (place + index as u64, Event::Instruction(instruction));
            Step { core, place, time, event, ..Step::default() }
        })
    }
}

/// Who asks where execution went, and not what was accessed.
pub trait Follow {
    /// Takes a step. Accesses and registers may be missing.
    fn step(&mut self, step: &Step) -> ControlFlow<()>;

    /// Takes the steps of many instructions at once; one by one, if nothing else is done here.
    fn flow(&mut self, flow: &Flow<'_>) -> ControlFlow<()> {
        flow.each_pass(|pass, place| flow.steps(pass, place).try_for_each(|step| self.step(&step)))
    }
}
