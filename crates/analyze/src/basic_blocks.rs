//! Basic-block vectors: how often each basic block was executed, interval by interval, for SimPoint.
//!
//! blocks, steps of one source ─▶ **vectors** ─▶ one line per interval
//!
//! A basic block starts where a taken branch, an exception or a gap leads, and ends with the next of them; a branch that is not taken
//! does not end it. It is known by its first and last address in its process. This is the definition of stf_bbv. An interval
//! ends with the first block that reaches its length. Each count is the number of instructions that the block contributed to the
//! interval, as SimPoint expects it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use unspool_model::{BlockSink, BlockTrace, Context, Event, Step};

/// The number of a basic block, from 1 in order of first execution.
type Id = u32;

/// A basic block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BasicBlock {
    /// The process, if the trace shows it.
    pub process: Option<u64>,
    /// The address of the first instruction.
    pub start: u64,
    /// The address after the last instruction.
    pub end: u64,
}

/// Collects vectors and writes them.
pub struct BasicBlockVectors<W> {
    out: W,
    interval: u64,
    ids: HashMap<BasicBlock, Id>,
    blocks: Vec<BasicBlock>,
    /// Instructions of each block in this interval, by id minus one.
    counts: Vec<u64>,
    /// Blocks of this interval.
    touched: Vec<Id>,
    /// Instructions in this interval.
    length: u64,
    intervals: u64,
    total: u64,
    /// State of the other cores.
    cores: HashMap<u32, Core>,
    /// The core of the last step, and its state.
    number: u32,
    core: Core,
    /// By the number of a block of the source: its number as a basic block in the current process; 0: not known yet.
    known: Vec<Id>,
    failed: Option<io::Error>,
}

/// State of a core.
#[derive(Debug, Clone, Copy, Default)]
struct Core {
    context: Context,
    /// The basic block that is being executed: its start, and its instructions so far.
    open: Option<(u64, u64)>,
    /// The address after its last instruction.
    next: u64,
}

/// Totals of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorTotals {
    /// Intervals.
    pub intervals: u64,
    /// Instructions.
    pub instructions: u64,
    /// Basic blocks.
    pub blocks: usize,
}

impl<W: Write> BasicBlockVectors<W> {
    /// Writes vectors of intervals of about this many instructions, at least one.
    pub fn new(interval: u64, out: W) -> Self {
        Self {
            out,
            interval: interval.max(1),
            ids: HashMap::new(),
            blocks: Vec::new(),
            counts: Vec::new(),
            touched: Vec::new(),
            length: 0,
            intervals: 0,
            total: 0,
            cores: HashMap::new(),
            number: 0,
            core: Core::default(),
            known: Vec::new(),
            failed: None,
        }
    }

    /// Ends the last interval.
    ///
    /// # Errors
    ///
    /// If writing failed.
    pub fn finish(mut self) -> io::Result<(VectorTotals, Vec<BasicBlock>)> {
        self.cores.insert(self.number, self.core);
        let mut cores: Vec<u32> = self.cores.keys().copied().collect();
        cores.sort_unstable();
        for core in cores {
            self.change_core(core);
            self.end_block();
        }
        self.end_interval();
        match self.failed {
            Some(error) => Err(error),
            None => {
                self.out.flush()?;
                let (intervals, instructions) = (self.intervals, self.total);
                Ok((VectorTotals { intervals, instructions, blocks: self.blocks.len() }, self.blocks))
            }
        }
    }

    fn change_core(&mut self, core: u32) {
        if core != self.number {
            self.cores.insert(self.number, self.core);
            (self.number, self.core) = (core, self.cores.get(&core).copied().unwrap_or_default());
            self.known.fill(0);
        }
    }

    fn change_context(&mut self, context: Context) {
        if context.process != self.core.context.process {
            self.end_block();
            self.known.fill(0);
        }
        self.core.context = context;
    }

    /// Executes instructions at consecutive addresses, of which only the last may end a basic block.
    fn execute(&mut self, start: u64, end: u64, instructions: u64, is_end: bool) {
        if self.core.open.is_some() && self.core.next != start {
            self.end_block();
        }
        let (_, length) = self.core.open.get_or_insert((start, 0));
        *length += instructions;
        self.core.next = end;
        if is_end {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if let Some((start, instructions)) = self.core.open.take() {
            let id = self.id_of(start, self.core.next);
            self.count(id, instructions);
        }
    }

    /// The number of a basic block of the current process.
    fn id_of(&mut self, start: u64, end: u64) -> Id {
        let block = BasicBlock { process: self.core.context.process, start, end };
        let next = self.blocks.len() as Id + 1;
        let id = *self.ids.entry(block).or_insert(next);
        if id == next {
            self.blocks.push(block);
            self.counts.push(0);
        }
        id
    }

    #[inline]
    fn count(&mut self, id: Id, instructions: u64) {
        let count = &mut self.counts[id as usize - 1];
        if *count == 0 {
            self.touched.push(id);
        }
        *count += instructions;
        (self.length, self.total) = (self.length + instructions, self.total + instructions);
        if self.length >= self.interval {
            self.end_interval();
        }
    }

    fn end_interval(&mut self) {
        if self.length == 0 {
            return;
        }
        (self.length, self.intervals) = (0, self.intervals + 1);
        self.touched.sort_unstable_by_key(|id| self.blocks[*id as usize - 1]);
        let mut line = String::from("T");
        for id in self.touched.drain(..) {
            let count = std::mem::take(&mut self.counts[id as usize - 1]);
            line.push_str(&format!(":{id}:{count} "));
        }
        line.push('\n');
        if let Err(error) = self.out.write_all(line.as_bytes()) {
            self.failed.get_or_insert(error);
        }
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl<W: Write> BlockSink for BasicBlockVectors<W> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.change_core(step.core);
        match &step.event {
            Event::Instruction(instruction) => {
                let end = instruction.address.wrapping_add(instruction.length.into());
                let is_taken = instruction.branch.is_some_and(|branch| branch.taken);
                self.execute(instruction.address, end, 1, is_taken);
            }
            Event::Context(context) => self.change_context(context.over(&self.core.context)),
            Event::Gap(_) => {
                self.end_block();
                self.change_context(Context::default());
            }
            Event::Exception(_) | Event::ExceptionReturn { .. } => self.end_block(),
            Event::State | Event::Note => {}
        }
        self.flow()
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.change_core(trace.core);
        self.known.resize(trace.blocks.len().max(self.known.len()), 0);
        for execution in trace.executions {
            let (number, block) = (execution.number(), &trace.blocks[execution.number()]);
            let instructions = block.opcodes.len() as u64;
            let is_end = block.ends_in_branch && execution.is_taken();
            if self.core.open.is_some() || !is_end {
                self.execute(block.start, block.end(), instructions, is_end);
                continue;
            }
            if self.known[number] == 0 {
                self.known[number] = self.id_of(block.start, block.end());
            }
            self.count(self.known[number], instructions);
        }
        self.flow()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]
mod tests {
    use unspool_model::{Branch, Gap, Instruction};

    use super::*;

    fn at(address: u64, opcode: u32) -> Step {
        let branch = (opcode != NOP).then_some(Branch { taken: opcode == B, target: None });
        let event = Event::Instruction(Instruction {
            address,
            opcode: Some(opcode),
            length: 4,
            branch,
            ..Instruction::default()
        });
        step(event)
    }

    fn step(event: Event) -> Step {
        let mut step = Step::default();
        step.event = event;
        step
    }

    const NOP: u32 = 0xd503_201f;
    const B: u32 = 0x1400_0000;
    const CBZ: u32 = 0xb400_0020;

    #[test]
    fn intervals_end_with_a_block() {
        // A block of two at 0x10, one of three with a branch that is not taken at 0x20, the first again, then one that a gap ends.
        let mut steps =
            vec![at(0x10, NOP), at(0x14, B), at(0x20, NOP), at(0x24, CBZ), at(0x28, B), at(0x10, NOP), at(0x14, B)];
        steps.push(at(0x40, NOP));
        steps.push(step(Event::Gap(Gap::Start)));
        steps.push(at(0x44, NOP));
        let rows: &[(u64, &str)] = &[
            (4, "T:1:2 :2:3 \nT:1:2 :3:1 :4:1 \n"),
            (2, "T:1:2 \nT:2:3 \nT:1:2 \nT:3:1 :4:1 \n"),
            (100, "T:1:4 :2:3 :3:1 :4:1 \n"),
        ];
        for (interval, expected) in rows {
            let mut text = Vec::new();
            let mut vectors = BasicBlockVectors::new(*interval, &mut text);
            assert!(steps.iter().all(|step| vectors.step(step).is_continue()));
            let (totals, blocks) = vectors.finish().unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), *expected);
            assert_eq!((totals.instructions, totals.blocks, blocks[1].start), (9, 4, 0x20));
        }
    }
}
