//! Taken branches, and the code between them: the counts that tools for the layout of code take.
//!
//! blocks and steps of one source ─▶ **branches** by process, source and target; **ranges** by process, start and last instruction
//!
//! A range is executed from the target of a taken branch up to the next taken branch, without an interruption: it ends where part of
//! the execution is missing, and where an exception is taken and its handler is traced. A branch whose target is unknown leads
//! to the instruction that follows, unless something came between. Memory use depends on the amount of code, and is limited.

use std::collections::HashMap;
use std::ops::ControlFlow;

use unspool_model::{BlockSink, BlockTrace, Event, Step};

/// Maximum number of different branches, and of different ranges.
const LIMIT: usize = 4 << 20;

/// A taken branch, or a range of executed instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The process, if the trace shows it.
    pub process: Option<u64>,
    /// The address of the branch, or of the first instruction of a range.
    pub from: u64,
    /// The target of the branch, or the address of the last instruction of a range.
    pub to: u64,
}

/// Branches and ranges with their numbers of executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchFlow {
    /// Taken branches.
    pub branches: HashMap<Pair, u64>,
    /// What was executed between them.
    pub ranges: HashMap<Pair, u64>,
    /// Branches and ranges that are not listed, because there are too many different ones.
    pub not_listed: u64,
    /// Taken branches with an unknown target.
    pub unknown: u64,
    /// How often part of the execution is missing.
    pub gaps: u64,
}

/// Counts the branches of a source.
#[derive(Debug, Default)]
pub struct BranchCounter {
    counts: BranchFlow,
    cores: HashMap<u32, Core>,
}

#[derive(Debug, Default)]
struct Core {
    process: Option<u64>,
    has_started: bool,
    /// First and last instruction of the current range.
    range: Option<(u64, u64)>,
    /// Where execution continues.
    next: Option<Next>,
}

#[derive(Debug, Clone, Copy)]
enum Next {
    /// At this address.
    At(u64),
    /// At the unknown target of the branch at this address.
    TargetOf(u64),
}

/// Consecutive instructions.
struct Run {
    first: u64,
    last: u64,
    /// The address after the last.
    end: u64,
    /// The outcome of the branch at the end, and its target.
    branch: Option<(bool, Option<u64>)>,
}

impl BranchCounter {
    /// The counts.
    pub fn finish(mut self) -> BranchFlow {
        let Self { counts, cores } = &mut self;
        cores.values_mut().for_each(|core| core.close(counts));
        self.counts
    }
}

impl BranchFlow {
    fn add(&mut self, is_branch: bool, pair: Pair) {
        let table = if is_branch { &mut self.branches } else { &mut self.ranges };
        let is_full = table.len() >= LIMIT;
        match table.get_mut(&pair) {
            Some(count) => *count += 1,
            None if is_full => self.not_listed += 1,
            None => drop(table.insert(pair, 1)),
        }
    }
}

impl Core {
    #[inline]
    fn run(&mut self, run: &Run, counts: &mut BranchFlow) {
        self.has_started = true;
        match self.next.take() {
            Some(Next::At(next)) if next == run.first => {}
            Some(Next::TargetOf(from)) => {
                counts.add(true, Pair { process: self.process, from, to: run.first });
            }
            _ => self.close(counts),
        }
        let (first, _) = self.range.unwrap_or((run.first, run.last));
        self.range = Some((first, run.last));
        self.next = match run.branch {
            Some((true, target)) => {
                self.close(counts);
                if let Some(to) = target {
                    counts.add(true, Pair { process: self.process, from: run.last, to });
                }
                Some(target.map_or(Next::TargetOf(run.last), Next::At))
            }
            _ => Some(Next::At(run.end)),
        };
    }

    /// Ends the current range.
    fn close(&mut self, counts: &mut BranchFlow) {
        if let Some((from, to)) = self.range.take() {
            counts.add(false, Pair { process: self.process, from, to });
        }
        if let Some(Next::TargetOf(_)) = self.next.take() {
            counts.unknown += 1;
        }
    }
}

impl BlockSink for BranchCounter {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        let Self { counts, cores } = self;
        let core = cores.entry(step.core).or_default();
        match &step.event {
            Event::Instruction(instruction) => {
                let end =
                    instruction.address.wrapping_add(u64::from(instruction.length)) & instruction.isa.address_mask();
                let branch = instruction.branch.map(|branch| (branch.taken, branch.target));
                core.run(&Run { first: instruction.address, last: instruction.address, end, branch }, counts);
            }
            Event::Gap(_) => {
                counts.gaps += u64::from(core.has_started);
                core.close(counts);
            }
            Event::Context(context) if context.process.is_some_and(|process| Some(process) != core.process) => {
                core.close(counts);
                core.process = context.process;
            }
            Event::Exception(_) if matches!(core.next, Some(Next::TargetOf(_))) => core.close(counts),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let Self { counts, cores } = self;
        let core = cores.entry(trace.core).or_default();
        for (index, execution) in trace.executions.iter().enumerate() {
            let Some(block) = trace.blocks.get(execution.number()) else { continue };
            let length = block.opcodes.last().map_or(0, |opcode| block.isa.opcode_length(*opcode));
            let last = block.end().wrapping_sub(u64::from(length)) & block.isa.address_mask();
            let target = trace.continues_at(index).filter(|_| execution.is_taken());
            let branch = block.ends_in_branch.then_some((execution.is_taken(), target));
            core.run(&Run { first: block.start, last, end: block.end(), branch }, counts);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::{Block, BlockExecution, Branch, Exception, Gap, Instruction, Isa, Positions};

    use super::*;

    fn step(counter: &mut BranchCounter, event: Event) {
        let mut step = Step::default();
        step.event = event;
        let _ = counter.step(&step);
    }

    fn instruction(address: u64, branch: Option<(bool, Option<u64>)>) -> Event {
        let branch = branch.map(|(taken, target)| Branch { taken, target });
        Event::Instruction(Instruction { address, opcode: None, length: 4, branch, ..Instruction::default() })
    }

    fn sorted(counts: &HashMap<Pair, u64>) -> Vec<(u64, u64, u64)> {
        let mut rows: Vec<_> = counts.iter().map(|(pair, count)| (pair.from, pair.to, *count)).collect();
        rows.sort_unstable();
        rows
    }

    /// By hand, from the order of the instructions.
    #[test]
    fn ranges_are_between_taken_branches() {
        let mut counter = BranchCounter::default();
        for _ in 0..2 {
            step(&mut counter, instruction(0x1000, None));
            step(&mut counter, instruction(0x1004, Some((false, None))));
            step(&mut counter, instruction(0x1008, Some((true, Some(0x1000)))));
        }
        // The target is that of the next instruction.
        step(&mut counter, instruction(0x1000, Some((true, None))));
        step(&mut counter, instruction(0x2000, None));
        // The handler of an exception is elsewhere, and so is what follows a gap.
        step(&mut counter, Event::Exception(Exception::default()));
        step(&mut counter, instruction(0x3000, None));
        step(&mut counter, Event::Gap(Gap::Overflow));
        step(&mut counter, instruction(0x3004, Some((true, None))));
        let counts = counter.finish();
        assert_eq!(sorted(&counts.branches), [(0x1000, 0x2000, 1), (0x1008, 0x1000, 2)]);
        let ranges =
            [(0x1000, 0x1000, 1), (0x1000, 0x1008, 2), (0x2000, 0x2000, 1), (0x3000, 0x3000, 1), (0x3004, 0x3004, 1)];
        assert_eq!(sorted(&counts.ranges), ranges);
        assert_eq!((counts.unknown, counts.gaps), (1, 1));
    }

    #[test]
    fn blocks_and_steps_have_the_same_counts() {
        let blocks = [
            Block::new(0x1000, Isa::A64, vec![1, 2], true),
            Block::new(0x1008, Isa::A64, vec![3], false),
            Block::new(0x2000, Isa::T32, vec![0x4770], true),
        ];
        let executions = [(0, false), (1, false), (2, true), (0, true), (2, true)];
        let executions = executions.map(|(number, is_taken)| BlockExecution::new(number, is_taken));
        let trace = BlockTrace {
            core: 0,
            blocks: &blocks,
            executions: &executions,
            next: None,
            positions: Positions::From(0),
            time: None,
            accesses: None,
        };
        let (mut by_blocks, mut by_steps) = (BranchCounter::default(), BranchCounter::default());
        let _ = by_blocks.blocks(&trace);
        let _ = trace.each_step(|step| by_steps.step(step));
        let counts = by_blocks.finish();
        assert_eq!(counts, by_steps.finish());
        assert_eq!(sorted(&counts.branches), [(0x1004, 0x2000, 1), (0x2000, 0x1000, 1)]);
    }
}
