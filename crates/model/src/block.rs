//! Blocks of code and the order in which they were executed, handed over many at a time.
//!
//! ```text
//! ASTF file ─▶ BlockTrace:    blocks, executions, where execution continues ──────────┐
//! recorder ──▶ TemplateTrace: blocks with accesses, executions, access addresses ─────┴─▶ BlockSink
//! any source ─▶ steps ────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A [`BlockTrace`] contains where execution went, a [`TemplateTrace`] also what was accessed. They are two structs because
//! neither lane may pay for the other: the encoder looks at the start of each [`Block`], which has to be small to stay in the
//! cache, and an ASTF file does not contain the kind of branch that a block ends with; the addresses of a `TemplateTrace` go to the
//! ASTF writer as they are, with the targets of indirect branches among them.

use std::ops::ControlFlow;

use unspool_isa::Decoded;

use crate::{Branch, Direction, Event, Instruction, Isa, Step};

/// Consumer of executed code: one step at a time, or many blocks at once.
pub trait BlockSink {
    /// Receives a step. Accesses and registers may be missing.
    fn step(&mut self, step: &Step) -> ControlFlow<()>;

    /// Receives the instructions of many blocks at once; by default, as steps.
    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        trace.each_execution(|index, position| trace.steps(index, position).try_for_each(|step| self.step(&step)))
    }

    /// Whether the sink wants [`templates`](Self::templates). If not, it gets steps.
    fn takes_templates(&self) -> bool {
        false
    }

    /// Receives executions of templates at once, or stops: the steps of the execution where it stopped follow, then the rest.
    fn templates(&mut self, _trace: &TemplateTrace<'_>) -> ControlFlow<(), Option<StoppedAt>> {
        ControlFlow::Continue(Some(StoppedAt { executions: 0, addresses: 0, is_final: true }))
    }
}

/// A closure receives steps only.
impl<F: FnMut(&Step) -> ControlFlow<()>> BlockSink for F {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self(step)
    }
}

/// One execution of a [`Block`] or [`Template`]: its number, and whether the branch at its end was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockExecution(u32);

impl BlockExecution {
    /// The highest number of a block.
    pub const MAX_NUMBER: u32 = u32::MAX >> 1;

    /// An execution of the block with this number.
    #[inline]
    pub fn new(number: u32, is_taken: bool) -> Self {
        Self(number << 1 | u32::from(is_taken))
    }

    /// The number of the block.
    #[inline]
    pub fn number(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Whether the branch at its end was taken.
    #[inline]
    pub fn is_taken(self) -> bool {
        self.0 & 1 == 1
    }

    /// Number and outcome as one index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Instructions of four bytes at consecutive addresses, of which only the last may be a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The address of the first instruction.
    pub start: u64,
    /// The instruction set.
    pub isa: Isa,
    /// The opcodes, at least one.
    pub opcodes: Vec<u32>,
    /// The last instruction is a branch.
    pub ends_in_branch: bool,
}

impl Block {
    /// The address after the last instruction.
    pub fn end(&self) -> u64 {
        self.start.wrapping_add(4 * self.opcodes.len() as u64)
    }
}

/// Whole executions of blocks in order, without interruption; the next instruction is the one at `next`.
///
/// Equivalent to the steps of all its instructions.
#[derive(Debug, Clone, Copy)]
pub struct BlockTrace<'t> {
    /// The core, as in [`Step`].
    pub core: u32,
    /// All known blocks, by number. A number keeps its block for good.
    pub blocks: &'t [Block],
    /// The executions: each continues where the next one starts.
    pub executions: &'t [BlockExecution],
    /// The address at which execution continues after the last.
    pub next: u64,
    /// The position of the first instruction. Positions are consecutive.
    pub position: u64,
    /// The time of all of them.
    pub time: Option<u64>,
}

impl BlockTrace<'_> {
    /// The address at which execution continues after the execution at this index.
    #[inline]
    pub fn continues_at(&self, index: usize) -> u64 {
        self.executions.get(index + 1).map_or(self.next, |next| self.blocks[next.number()].start)
    }

    /// The number of instructions.
    pub fn instructions(&self) -> usize {
        self.executions.iter().map(|execution| self.blocks[execution.number()].opcodes.len()).sum()
    }

    /// Passes on the index of each execution, with the position of its first instruction.
    pub fn each_execution(&self, mut take: impl FnMut(usize, u64) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut position = self.position;
        (0..self.executions.len()).try_for_each(|index| {
            let length = self.blocks[self.executions[index].number()].opcodes.len() as u64;
            let first = position;
            position += length;
            take(index, first)
        })
    }

    /// The instructions of the execution at this index as steps; `position` is that of the first.
    pub fn steps(&self, index: usize, position: u64) -> impl Iterator<Item = Step> {
        let (block, is_taken) = (&self.blocks[self.executions[index].number()], self.executions[index].is_taken());
        let (last, next, core, time) = (block.opcodes.len() - 1, self.continues_at(index), self.core, self.time);
        (0..).zip(&block.opcodes).map(move |(index, opcode)| {
            let branch = Branch { taken: is_taken, target: is_taken.then_some(next) };
            let instruction = Instruction {
                address: block.start.wrapping_add(4 * index as u64),
                opcode: Some(*opcode),
                length: 4,
                isa: block.isa,
                branch: (block.ends_in_branch && index == last).then_some(branch),
                ..Instruction::default()
            };
            let (position, event) = (position + index as u64, Event::Instruction(instruction));
            Step { core, position, time, event, ..Step::default() }
        })
    }
}

/// A block whose complete executions differ only in the addresses of accesses and in the target of the branch at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Instructions at consecutive addresses.
    pub instructions: Vec<Instruction>,
    /// Their accesses in order, at most one per instruction.
    pub accesses: Vec<TemplateAccess>,
    /// The control flow of the last instruction: none, or a direct or indirect branch.
    pub end: Decoded,
}

/// An access of an instruction in a [`Template`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateAccess {
    /// Index of the instruction.
    pub index: u16,
    /// Bytes. If an emulator reports them in several accesses, those are adjacent and in one page of 4 KiB.
    pub size: u16,
    /// Its direction.
    pub direction: Direction,
}

/// Whole executions of templates in order, accesses included: each continues where the next one starts.
///
/// Equivalent to the steps of all its instructions. Nothing comes between the last of them and what follows.
#[derive(Debug, Clone, Copy)]
pub struct TemplateTrace<'t> {
    /// The core, as in [`Step`].
    pub core: u32,
    /// All known templates, by number. A number keeps its template for good.
    pub templates: &'t [Template],
    /// The executions.
    pub executions: &'t [BlockExecution],
    /// Of each execution in order, the addresses of its accesses, then the target of an indirect branch at its end.
    pub addresses: &'t [u64],
    /// The number of instructions.
    pub instructions: u64,
}

impl TemplateTrace<'_> {
    /// The number of instructions of the first `executions`.
    pub fn instructions_of(&self, executions: usize) -> u64 {
        let executed = self.executions.iter().take(executions);
        let templates = executed.filter_map(|execution| self.templates.get(execution.number()));
        templates.map(|template| template.instructions.len() as u64).sum()
    }
}

/// Where a sink stopped in a [`TemplateTrace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedAt {
    /// Executions that were taken.
    pub executions: usize,
    /// Addresses of those executions.
    pub addresses: usize,
    /// Whether the sink never takes the template of the next execution: it has to be passed as steps each time.
    pub is_final: bool,
}
