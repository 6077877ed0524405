//! Blocks of code and the order in which they were executed, handed over many at a time.
//!
//! ```text
//! ASTF file, capture ─▶ BlockTrace: blocks, executions, where execution continues ───────────┐
//! recorder ───────────▶ TemplateTrace: blocks with accesses, executions, access addresses ───┼─▶ BlockSink
//! any source ─────────▶ steps ───────────────────────────────────────────────────────────────┘
//! ```
//!
//! A [`BlockTrace`] contains where execution went, and what was accessed if its sink asks for it; a [`TemplateTrace`] always has both. They are two structs because
//! neither lane may pay for the other: the encoder looks at the start of each [`Block`], which has to be small to stay in the
//! cache, and an ASTF file does not contain the kind of branch that a block ends with; the addresses of a `TemplateTrace` go to the
//! ASTF writer as they are, with the targets of indirect branches among them.

use std::ops::ControlFlow;

use unspool_isa::Decoded;

use crate::{Branch, Direction, Event, Instruction, Isa, Step};

/// Consumer of executed code: one step at a time, or many blocks at once.
pub trait BlockSink {
    /// Receives a step. Registers may be missing, and accesses unless they are [wanted](Self::wants_accesses).
    fn step(&mut self, step: &Step) -> ControlFlow<()>;

    /// Receives the instructions of many blocks at once; by default, as steps.
    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        trace.each_step(|step| self.step(step))
    }

    /// Whether the sink wants the accesses of blocks. If not, they may be missing.
    fn wants_accesses(&self) -> bool {
        false
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

/// Instructions at consecutive addresses, of which only the last may be a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The address of the first instruction.
    pub start: u64,
    end: u64,
    /// The opcodes, at least one.
    pub opcodes: Vec<u32>,
    /// The instruction set.
    pub isa: Isa,
    /// The last instruction is a branch.
    pub ends_in_branch: bool,
}

impl Block {
    /// A block of these instructions.
    pub fn new(start: u64, isa: Isa, opcodes: Vec<u32>, ends_in_branch: bool) -> Self {
        let bytes: u64 = opcodes.iter().map(|opcode| u64::from(isa.opcode_length(*opcode))).sum();
        let end = start.wrapping_add(bytes) & isa.address_mask();
        Self { start, end, opcodes, isa, ends_in_branch }
    }

    /// The address after the last instruction.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Address, opcode and length in bytes of each instruction.
    pub fn instructions(&self) -> impl Iterator<Item = (u64, u32, u8)> {
        let mut address = self.start;
        self.opcodes.iter().map(move |&opcode| {
            let (at, length) = (address, self.isa.opcode_length(opcode));
            address = address.wrapping_add(length.into()) & self.isa.address_mask();
            (at, opcode, length)
        })
    }
}

/// Positions of the executions of a [`BlockTrace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions<'t> {
    /// Positions of all instructions are consecutive, and this is the first.
    From(u64),
    /// One for each execution: all its instructions have it.
    Each(&'t [u64]),
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
    /// The address at which execution continues after the last, if known.
    pub next: Option<u64>,
    /// The positions of the instructions.
    pub positions: Positions<'t>,
    /// The time of all of them.
    pub time: Option<u64>,
    /// Their accesses, if the sink wants them and the source has them.
    pub accesses: Option<BlockAccesses<'t>>,
}

/// Accesses of the executions of a [`BlockTrace`].
#[derive(Debug, Clone, Copy)]
pub struct BlockAccesses<'t> {
    /// By the number of a block: the accesses of each of its executions.
    pub of_blocks: &'t [Vec<TemplateAccess>],
    /// Of each execution in order, the addresses of its accesses.
    pub addresses: &'t [u64],
}

impl<'t> BlockAccesses<'t> {
    /// Splits the accesses of the next execution off, which is one of the block with this number.
    #[inline]
    pub fn split_off(&mut self, number: usize) -> impl Iterator<Item = (&'t TemplateAccess, u64)> + use<'t> {
        let accesses = self.of_blocks.get(number).map_or(&[][..], Vec::as_slice);
        let (addresses, rest) = self.addresses.split_at(accesses.len().min(self.addresses.len()));
        self.addresses = rest;
        accesses.iter().zip(addresses.iter().copied())
    }
}

impl BlockTrace<'_> {
    /// The address at which execution continues after the execution at this index, if known.
    #[inline]
    pub fn continues_at(&self, index: usize) -> Option<u64> {
        self.executions.get(index + 1).map_or(self.next, |next| Some(self.blocks[next.number()].start))
    }

    /// The position of the first instruction.
    pub fn first_position(&self) -> u64 {
        match self.positions {
            Positions::From(first) => first,
            Positions::Each(all) => all.first().copied().unwrap_or_default(),
        }
    }

    /// The number of instructions.
    pub fn instructions(&self) -> usize {
        self.executions.iter().map(|execution| self.blocks[execution.number()].opcodes.len()).sum()
    }

    /// The position of the execution at this index, if each execution has one.
    pub fn position_of(&self, index: usize) -> Option<u64> {
        match self.positions {
            Positions::From(_) => None,
            Positions::Each(all) => all.get(index).copied(),
        }
    }

    /// Passes on the index of each execution, with the position of its first instruction.
    pub fn each_execution(&self, mut take: impl FnMut(usize, u64) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut position = self.first_position();
        (0..self.executions.len()).try_for_each(|index| {
            let first = self.position_of(index).unwrap_or(position);
            position = first + self.blocks[self.executions[index].number()].opcodes.len() as u64;
            take(index, first)
        })
    }

    /// Passes on all instructions as steps, with their accesses.
    pub fn each_step(&self, mut take: impl FnMut(&Step) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut rest = self.accesses;
        self.each_execution(|index, position| {
            let number = self.executions[index].number();
            let accesses = rest.iter_mut().flat_map(|rest| rest.split_off(number));
            self.steps_with(index, position, accesses).try_for_each(|step| take(&step))?;
            ControlFlow::Continue(())
        })
    }

    /// The instructions of the execution at this index as steps, with these accesses; `position` is that of the first.
    pub fn steps_with<'t>(
        &self,
        index: usize,
        position: u64,
        accesses: impl Iterator<Item = (&'t TemplateAccess, u64)>,
    ) -> impl Iterator<Item = Step> {
        let mut accesses = accesses.peekable();
        (0..).zip(self.steps(index, position)).map(move |(at, mut step)| {
            while let Some((access, address)) = accesses.next_if(|(access, _)| access.index == at) {
                step.access(access.direction, address, access.size.into());
            }
            step
        })
    }

    /// The instructions of the execution at this index as steps, without accesses; `position` is that of the first.
    pub fn steps(&self, index: usize, position: u64) -> impl Iterator<Item = Step> {
        let (block, is_taken) = (&self.blocks[self.executions[index].number()], self.executions[index].is_taken());
        let (last, next, core, time) = (block.opcodes.len() - 1, self.continues_at(index), self.core, self.time);
        let stride = u64::from(matches!(self.positions, Positions::From(_)));
        (0..).zip(block.instructions()).map(move |(index, (address, opcode, length))| {
            let branch = Branch { taken: is_taken, target: next.filter(|_| is_taken) };
            let instruction = Instruction {
                address,
                opcode: Some(opcode),
                length,
                isa: block.isa,
                branch: (block.ends_in_branch && index == last).then_some(branch),
                ..Instruction::default()
            };
            let (position, event) = (position + stride * index as u64, Event::Instruction(instruction));
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

/// An access of an instruction in a [`Template`] or [`Block`].
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
