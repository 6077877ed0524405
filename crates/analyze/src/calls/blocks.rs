//! Executions of blocks, reduced to what calls need: how many instructions, and where control left a block by a call or an
//! indirect branch.
//!
//! ```text
//! blocks ─────▶ KnownBlock, once for each
//! executions ─▶ **Run**: number of instructions; a Jump for each call and each indirect branch
//! ```
//!
//! Most blocks end otherwise, and cost one addition. This does not depend on what came before, so parts of a trace can be
//! reduced at the same time.

use std::ops::ControlFlow;

use unspool_isa::decode;
use unspool_model::{Block, BlockSink, BlockTrace, Event, Positions, Step};

use super::Opcode;
use super::flow::Exit;

/// A block, as far as calls need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownBlock {
    /// The number of instructions.
    count: u32,
    /// How control leaves it. Branches to fixed addresses without link do not matter.
    pub(super) exit: Exit,
    pub(super) start: u64,
    /// The address of the last instruction, and the address after it.
    pub(super) last: u64,
    pub(super) end: u64,
    pub(super) code: Opcode,
}

impl KnownBlock {
    fn of(block: &Block) -> Self {
        let (isa, end) = (block.isa, block.end());
        let opcode = block.opcodes.last().copied().unwrap_or_default();
        let last = end.wrapping_sub(isa.opcode_length(opcode).into()) & isa.address_mask();
        let exit = if block.ends_in_branch { Exit::of(&decode(isa, last, opcode)) } else { Exit::Other };
        Self { count: block.opcodes.len() as u32, exit, start: block.start, last, end, code: Opcode { isa, opcode } }
    }

    /// Whether execution stays within the function, however it continues.
    #[inline]
    fn is_plain(&self) -> bool {
        matches!(self.exit, Exit::Other | Exit::Direct)
    }
}

/// Adds the blocks that are new.
pub(super) fn learn(known: &mut Vec<KnownBlock>, blocks: &[Block]) {
    known.extend(blocks.get(known.len()..).unwrap_or_default().iter().map(KnownBlock::of));
}

/// A call or an indirect branch between two blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    /// Number of instructions since the jump before it, or since the start.
    pub(super) count: u64,
    /// Numbers of the block that it leaves, and of the one where execution continues.
    pub(super) from: u32,
    pub(super) to: u32,
    /// Positions of the last instruction before it and of the first one after it.
    pub(super) position: u64,
    pub(super) to_position: u64,
}

/// Whole executions of blocks, reduced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) core: u32,
    pub(super) time: Option<u64>,
    /// The first block, and the position of its first instruction.
    pub(super) first: u32,
    pub(super) position: u64,
    /// Number of jumps within.
    pub(super) jumps: usize,
    /// Number of instructions after the last jump.
    pub(super) rest: u64,
    /// The last block, and the position of its last instruction.
    pub(super) last: u32,
    pub(super) last_position: u64,
    /// Where the last block branched to, if it did and that is known.
    pub(super) target: Option<u64>,
}

impl Run {
    /// Reduces executions; their jumps are appended. `None`: there are no executions.
    pub(super) fn of(trace: &BlockTrace<'_>, known: &[KnownBlock], jumps: &mut Vec<Jump>) -> Option<Self> {
        let first_jump = jumps.len();
        let (first, last) = (trace.executions.first()?, trace.executions.last()?);
        let (mut count, mut before) = (0, 0);
        // Positions of the last instruction of an execution, and of the first one after it.
        let positions = |index: usize, count: u64| match trace.positions {
            Positions::From(first) => (first + count - 1, first + count),
            Positions::Each(all) => {
                let at = all.get(index).copied().unwrap_or_default();
                (at, all.get(index + 1).copied().unwrap_or(at))
            }
        };
        for (index, execution) in trace.executions.iter().enumerate() {
            let block = known.get(execution.number())?;
            count += u64::from(block.count);
            if block.is_plain() {
                continue;
            }
            let Some(next) = trace.executions.get(index + 1) else { break };
            if known.get(next.number())?.start == block.end {
                continue;
            }
            let (position, to_position) = positions(index, count);
            let (from, to) = (execution.number() as u32, next.number() as u32);
            jumps.push(Jump { count: count - before, from, to, position, to_position });
            before = count;
        }
        Some(Self {
            core: trace.core,
            time: trace.time,
            first: first.number() as u32,
            position: trace.first_position(),
            jumps: jumps.len() - first_jump,
            rest: count - before,
            last: last.number() as u32,
            last_position: positions(trace.executions.len() - 1, count).0,
            target: trace.next.filter(|_| last.is_taken()),
        })
    }
}

/// A part of a trace, reduced to what calls need.
#[derive(Debug, Default)]
pub struct CallPart {
    /// Whether notes are kept.
    has_notes: bool,
    pub(super) blocks: Vec<KnownBlock>,
    pub(super) items: Vec<PartItem>,
    pub(super) jumps: Vec<Jump>,
}

/// Something that happened in a part.
#[derive(Debug)]
pub(super) enum PartItem {
    Run(Run),
    Step(Box<Step>),
}

impl CallPart {
    /// An empty part. Notes matter only for sinks that [want them](super::CallSink::wants_notes).
    pub fn new(has_notes: bool) -> Self {
        Self { has_notes, ..Self::default() }
    }
}

impl BlockSink for CallPart {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let is_needed = match step.event {
            Event::Note => self.has_notes,
            Event::State => step.registers().len() > 0,
            _ => true,
        };
        if is_needed {
            self.items.push(PartItem::Step(Box::new(step.clone())));
        }
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        learn(&mut self.blocks, trace.blocks);
        let run = Run::of(trace, &self.blocks, &mut self.jumps);
        self.items.extend(run.map(PartItem::Run));
        ControlFlow::Continue(())
    }
}
