//! Blocks of code that a source executes, handed over many at a time.
//!
//! ```text
//! runs of ranges ─▶ BlockTable: numbers of blocks ─▶ **batch of executions** ─▶ BlockSink::blocks
//! items ──────────▶ StepEmitter ───────────────────────────────────────────────▶ BlockSink::step
//! ```
//!
//! Equivalent to the steps of all instructions. An item ends the batch, since everything in a batch has the same time. A
//! cached run is translated once: after that, it is a copy of a few numbers.

use std::collections::HashMap;

use unspool_coresight::frame::FrameError;
use unspool_flow::{Around, Between, FlowItem, FlowSink, InstructionSink as _, Range, Run};
use unspool_isa::Isa;
use unspool_model::{Block, BlockExecution, BlockSink, BlockTrace, Positions};

use super::StepEmitter;
use crate::Watch;
use crate::order::{Owner, OwnerSink};

/// Executions in a batch.
const BATCH: usize = 1 << 12;

/// Greatest number of instructions in all blocks; of further blocks, each execution is passed on as steps.
const MAX_INSTRUCTIONS: usize = 1 << 23;

/// Blocks that were executed, with their numbers.
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    blocks: Vec<Block>,
    exits: Vec<Exit>,
    /// Numbers of the blocks that start at an address.
    numbers: HashMap<(u64, Isa), Vec<u32>>,
    instructions: usize,
    /// The generation of the cached runs.
    generation: u64,
    /// By the index of a cached run: that of its first execution, plus one.
    starts: Vec<u32>,
    cached: Vec<BlockExecution>,
}

/// Where a block leads if the branch at its end is taken.
#[derive(Debug, Clone, Copy)]
struct Exit {
    is_indirect: bool,
    target: Option<u64>,
}

/// Executions that have not been passed on, and items that wait for the target of the last one.
#[derive(Debug, Default)]
pub(crate) struct BlockBatch {
    table: BlockTable,
    executions: Vec<BlockExecution>,
    positions: Vec<u64>,
    /// Items after a taken indirect branch.
    between: Between,
    held: usize,
    /// Owners that changed before the held item with this number.
    owners: Vec<(usize, Owner)>,
    pub(super) around: Around,
}

impl BlockTable {
    /// Appends the executions of a run. False: one of its blocks has no number.
    #[inline]
    fn translate(&mut self, run: &Run<'_>, executions: &mut Vec<BlockExecution>) -> bool {
        if let Some(key) = run.key() {
            if key.generation != self.generation {
                self.generation = key.generation;
                self.starts.clear();
                self.cached.clear();
            }
            if let Some(start) = self.starts.get(key.index as usize).and_then(|start| start.checked_sub(1)) {
                executions.extend_from_slice(&self.cached[start as usize..][..run.len()]);
                return true;
            }
        }
        self.translate_new(run, executions)
    }

    #[inline(never)]
    fn translate_new(&mut self, run: &Run<'_>, executions: &mut Vec<BlockExecution>) -> bool {
        let first = executions.len();
        for range in run.ranges().filter(|range| range.instructions() > 0) {
            let Some(number) = self.number_of(&range) else {
                executions.truncate(first);
                return false;
            };
            executions.push(BlockExecution::new(number, range.taken() && self.blocks[number as usize].ends_in_branch));
        }
        let is_whole = executions.len() - first == run.len();
        if let Some(key) = run.key().filter(|_| is_whole) {
            let index = key.index as usize;
            self.starts.resize(self.starts.len().max(index + 1), 0);
            self.starts[index] = self.cached.len() as u32 + 1;
            self.cached.extend_from_slice(&executions[first..]);
        }
        true
    }

    fn number_of(&mut self, range: &Range<'_>) -> Option<u32> {
        let ends_in_branch = range.has_outcome() && range.last().flow.is_branch();
        let is_same = |block: &Block| block.opcodes == range.opcodes() && block.ends_in_branch == ends_in_branch;
        let known = self.numbers.entry((range.start(), range.isa())).or_default();
        if let Some(number) = known.iter().find(|number| is_same(&self.blocks[**number as usize])) {
            return Some(*number);
        }
        self.instructions += range.opcodes().len();
        if self.instructions > MAX_INSTRUCTIONS {
            return None;
        }
        let number = self.blocks.len() as u32;
        known.push(number);
        self.blocks.push(Block::new(range.start(), range.isa(), range.opcodes().to_vec(), ends_in_branch));
        let last = range.last();
        self.exits
            .push(Exit { is_indirect: last.flow.is_indirect(), target: last.target.map(|target| target.address) });
        Some(number)
    }

    /// Whether only what follows shows where an execution leads.
    fn is_open(&self, execution: BlockExecution) -> bool {
        execution.is_taken() && self.exits[execution.number()].is_indirect
    }

    /// Where an execution leads; `next` is where execution continues.
    fn successor(&self, execution: BlockExecution, next: Option<u64>) -> Option<u64> {
        match (execution.is_taken(), self.exits[execution.number()]) {
            (true, Exit { is_indirect: true, .. }) => next,
            (true, Exit { target, .. }) => target,
            (false, _) => Some(self.blocks[execution.number()].end()),
        }
    }
}

/// Sink of a flow that hands over blocks, and steps between them.
pub(crate) struct BlockEmitter<'e, S> {
    pub(crate) steps: &'e mut StepEmitter<S>,
    pub(crate) batch: &'e mut BlockBatch,
}

impl<S: BlockSink> BlockEmitter<'_, S> {
    /// Passes on all executions, and the items after them. Execution continues at `next`, if known.
    fn flush(&mut self, next: Option<u64>) {
        let BlockBatch { table, executions, positions, around, .. } = &mut *self.batch;
        let Some(last) = executions.last() else { return };
        let next = table.successor(*last, next);
        let time = if self.steps.counts_cycles { around.cycles } else { around.timestamp };
        let (core, positions) = (self.steps.core, Positions::Each(positions));
        let returned = next.filter(|_| last.is_taken());
        self.steps.blocks(
            &BlockTrace { core, blocks: &table.blocks, executions, next, positions, time, accesses: None },
            returned,
        );
        self.batch.executions.clear();
        self.batch.positions.clear();
        self.release();
    }

    /// Passes on the items that waited for the target of a branch.
    fn release(&mut self) {
        self.batch.held = 0;
        let (mut between, mut owners) =
            (std::mem::take(&mut self.batch.between), std::mem::take(&mut self.batch.owners));
        let mut changes = owners.drain(..).peekable();
        for (index, item) in between.drain().enumerate() {
            while let Some((_, owner)) = changes.next_if(|(at, _)| *at <= index) {
                self.steps.owner(owner);
            }
            self.pass(Ok(item));
        }
        changes.for_each(|(_, owner)| self.steps.owner(owner));
        (self.batch.between, self.batch.owners) = (between, owners);
    }

    fn pass(&mut self, item: FlowItem) {
        self.batch.around.update(&item);
        self.steps.item(item);
    }

    /// Passes on all that waits for the address at which execution continues.
    pub(super) fn settle(&mut self, next: u64) {
        self.flush(Some(next));
        if self.steps.is_holding() {
            self.steps.continue_at(Some(next));
        }
    }

    /// Ends a buffer.
    pub(crate) fn end(&mut self) {
        self.flush(None);
        self.batch.around = Around::default();
    }

    /// Whether the last execution is a branch whose target is not known yet.
    fn is_open(&self) -> bool {
        self.batch.executions.last().is_some_and(|last| self.batch.table.is_open(*last))
    }

    /// Passes on a run as steps.
    fn expand(&mut self, run: &Run<'_>) {
        self.flush(run.ranges().next().map(|range| range.start()));
        let around = self.batch.around;
        let ranges: Vec<Range<'_>> = run.ranges().collect();
        for (index, range) in ranges.iter().enumerate() {
            let next = ranges.get(index + 1).map(Range::start).or_else(|| range.next());
            self.steps.range(range, next, run.offset(), &around);
        }
    }
}

impl<S: BlockSink> FlowSink for BlockEmitter<'_, S> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        if self.batch.held > 0 || self.batch.executions.len() >= BATCH {
            self.flush(run.ranges().next().map(|range| range.start()));
        }
        if self.steps.is_holding() {
            self.steps.continue_at(run.ranges().next().map(|range| range.start()));
        }
        let BlockBatch { table, executions, positions, .. } = &mut *self.batch;
        if table.translate(&run, executions) {
            positions.resize(executions.len(), run.offset());
        } else {
            self.expand(&run);
        }
    }

    fn item(&mut self, item: FlowItem) {
        if self.is_open() {
            match self.batch.between.hold(&item) {
                Ok(()) => return self.batch.held += 1,
                Err(target) => self.flush(target),
            }
        } else {
            self.flush(None);
        }
        self.pass(item);
    }
}

impl<S: BlockSink> OwnerSink for BlockEmitter<'_, S> {
    fn owner(&mut self, owner: Owner) {
        if self.is_open() {
            self.batch.owners.push((self.batch.held, owner));
        } else {
            self.steps.owner(owner);
        }
    }
}

impl<S: BlockSink> Watch for BlockEmitter<'_, S> {
    fn lost(&mut self, error: FrameError) {
        self.flush(None);
        self.steps.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.steps.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.steps.progress(read, total);
    }
}
