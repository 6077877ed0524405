//! Executed blocks: straight-line code with one exit, from the ranges or blocks of a capture, or the steps of a trace file.

use std::ops::ControlFlow;

use unspool_coresight::frame::FrameError;
use unspool_flow::{FlowItem, FlowSink, Item, Run};
use unspool_isa::{Isa, decode};
use unspool_model::{BlockSink, BlockTrace, Event, Instruction, Step};

use super::items::Feed;
use crate::Watch;

/// One execution of straight-line code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutedBlock {
    /// Core; of a capture, index of the source in [`Opened::sources`](super::Opened::sources).
    pub core: u32,
    /// Byte offset, record or line of its first instruction; of a capture, offset of its packet.
    pub position: u64,
    /// Part of the execution before it is missing, or it is the first.
    pub follows_gap: bool,
    /// Address of the first instruction.
    pub start: u64,
    /// Address after the last instruction.
    pub end: u64,
    /// Number of instructions.
    pub instructions: u32,
    /// Instruction set.
    pub isa: Isa,
    /// Whether the branch at its end was taken; false if there is no branch.
    pub taken: bool,
}

/// Sink of the ranges of one source of a capture.
pub(super) struct RangeFeed<'f> {
    feed: &'f mut Feed<ExecutedBlock>,
    core: u32,
    buffer: usize,
    follows_gap: bool,
}

impl<'f> RangeFeed<'f> {
    pub(super) fn new(feed: &'f mut Feed<ExecutedBlock>, core: u32, buffer: usize) -> Self {
        Self { feed, core, buffer, follows_gap: true }
    }
}

impl FlowSink for RangeFeed<'_> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        for range in run.ranges() {
            let block = ExecutedBlock {
                core: self.core,
                position: run.offset(),
                follows_gap: std::mem::take(&mut self.follows_gap),
                start: range.start(),
                end: range.end(),
                instructions: range.instructions(),
                isa: range.isa(),
                taken: range.taken() && range.last().flow.is_branch(),
            };
            // A closed feed ends reading through the watch.
            let _ = self.feed.push(block);
        }
    }

    fn item(&mut self, item: FlowItem) {
        let is_gap = match item {
            Ok(item) => matches!(
                item.value,
                Item::TraceOn
                    | Item::Overflow
                    | Item::Discard { .. }
                    | Item::NoCode { .. }
                    | Item::Lost { .. }
                    | Item::Finding(_)
                    | Item::Q { .. }
            ),
            Err(error) => error.kind.breaks_flow(),
        };
        self.follows_gap |= is_gap;
    }
}

impl Watch for RangeFeed<'_> {
    fn lost(&mut self, error: FrameError) {
        self.follows_gap = true;
        self.feed.lost(self.buffer, self.core as usize, error);
    }

    fn wants_more(&mut self) -> bool {
        !self.feed.is_closed()
    }
}

/// Sink of the selected blocks of one source of a capture, of which some are selected in part and come as steps.
pub(super) struct BlockFeed<'f> {
    feed: &'f mut Feed<ExecutedBlock>,
    joiner: BlockJoiner,
}

impl<'f> BlockFeed<'f> {
    pub(super) fn new(feed: &'f mut Feed<ExecutedBlock>) -> Self {
        Self { feed, joiner: BlockJoiner::default() }
    }

    /// Feeds the blocks that the end of the trace ends.
    pub(super) fn finish(mut self) {
        self.joiner.finish(self.feed);
    }
}

impl BlockSink for BlockFeed<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.joiner.step(step, self.feed)
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let core = self.joiner.core(trace.core);
        core.end(self.feed)?;
        let mut follows_gap = std::mem::take(&mut core.follows_gap);
        trace.each_execution(|index, position| {
            let execution = trace.executions[index];
            let block = &trace.blocks[execution.number()];
            self.feed.push(ExecutedBlock {
                core: trace.core,
                position,
                follows_gap: std::mem::take(&mut follows_gap),
                start: block.start,
                end: block.end(),
                instructions: block.opcodes.len() as u32,
                isa: block.isa,
                taken: block.ends_in_branch && execution.is_taken(),
            })
        })
    }
}

/// Joins the instructions of each core to blocks.
#[derive(Default)]
pub(super) struct BlockJoiner {
    cores: Vec<Core>,
}

struct Core {
    number: u32,
    block: Option<ExecutedBlock>,
    follows_gap: bool,
}

impl BlockJoiner {
    pub(super) fn step(&mut self, step: &Step, feed: &mut Feed<ExecutedBlock>) -> ControlFlow<()> {
        let core = self.core(step.core);
        match &step.event {
            Event::Instruction(instruction) => core.instruction(step.position, instruction, feed),
            Event::Exception(_) | Event::ExceptionReturn { .. } => core.end(feed),
            Event::Gap(_) => {
                core.follows_gap = true;
                core.end(feed)
            }
            Event::State | Event::Context(_) | Event::Note => ControlFlow::Continue(()),
        }
    }

    fn core(&mut self, number: u32) -> &mut Core {
        let known = self.cores.iter().position(|core| core.number == number);
        let index = known.unwrap_or(self.cores.len());
        if known.is_none() {
            self.cores.push(Core { number, block: None, follows_gap: true });
        }
        &mut self.cores[index]
    }

    /// Feeds the blocks that the end of the trace ends.
    pub(super) fn finish(&mut self, feed: &mut Feed<ExecutedBlock>) {
        // A closed feed drops the rest.
        let _ = self.cores.iter_mut().try_for_each(|core| core.end(feed));
    }
}

impl Core {
    fn instruction(
        &mut self,
        position: u64,
        instruction: &Instruction,
        feed: &mut Feed<ExecutedBlock>,
    ) -> ControlFlow<()> {
        let continues = |block: &ExecutedBlock| block.end == instruction.address && block.isa == instruction.isa;
        if !self.block.as_ref().is_some_and(continues) {
            self.end(feed)?;
        }
        let follows_gap = &mut self.follows_gap;
        let block = self.block.get_or_insert_with(|| ExecutedBlock {
            core: self.number,
            position,
            follows_gap: std::mem::take(follows_gap),
            start: instruction.address,
            end: instruction.address,
            instructions: 0,
            isa: instruction.isa,
            taken: false,
        });
        block.end = instruction.address.wrapping_add(instruction.length.into());
        block.instructions += 1;
        block.taken = instruction.branch.is_some_and(|branch| branch.taken);
        if is_branch(instruction) { self.end(feed) } else { ControlFlow::Continue(()) }
    }

    fn end(&mut self, feed: &mut Feed<ExecutedBlock>) -> ControlFlow<()> {
        self.block.take().map_or(ControlFlow::Continue(()), |block| feed.push(block))
    }
}

/// Whether an instruction ends a block.
fn is_branch(instruction: &Instruction) -> bool {
    let of_opcode = |opcode| decode(instruction.isa, instruction.address, opcode).flow.is_branch();
    instruction.branch.is_some() || instruction.opcode.is_some_and(of_opcode)
}
