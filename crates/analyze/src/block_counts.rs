//! Counts of block executions: how often each block was executed, and with which outcome.
//!
//! block traces of one source ─▶ **counts** ─▶ blocks with both numbers
//!
//! What an instruction contributes to most tables does not depend on when it was executed. So an execution costs one
//! addition, and the instructions of a block are only looked at in the end.

use unspool_model::{Block, BlockTrace};

/// Number of executions of all blocks of a source.
#[derive(Debug, Default)]
pub struct BlockCounts {
    /// By number. A number keeps its block for good.
    blocks: Vec<Block>,
    /// Instructions of each block: apart from the blocks, since the hot loop needs nothing else of them.
    lengths: Vec<u32>,
    /// Two for each block: executions whose branch was not taken, and was taken.
    counts: Vec<u64>,
}

/// Totals of a block trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Executed {
    /// Instructions.
    pub instructions: u64,
    /// Branches that were taken.
    pub taken: u64,
}

/// Number of executions of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executions {
    /// The branch at its end was not taken, or there is none.
    pub not_taken: u64,
    /// The branch at its end was taken.
    pub taken: u64,
}

impl Executions {
    /// Total number of executions.
    pub fn total(self) -> u64 {
        self.not_taken + self.taken
    }
}

impl BlockCounts {
    /// Counts the executions of a trace. All traces have to be of the same source.
    pub fn add(&mut self, trace: &BlockTrace<'_>) -> Executed {
        if trace.blocks.len() > self.blocks.len() {
            self.learn(trace);
        }
        let mut executed = Executed::default();
        for execution in trace.executions {
            self.counts[execution.index()] += 1;
            executed.instructions += u64::from(self.lengths[execution.number()]);
            executed.taken += u64::from(execution.is_taken());
        }
        executed
    }

    #[cold]
    fn learn(&mut self, trace: &BlockTrace<'_>) {
        let new = &trace.blocks[self.blocks.len()..];
        self.lengths.extend(new.iter().map(|block| block.opcodes.len() as u32));
        self.blocks.extend_from_slice(new);
        self.counts.resize(2 * self.blocks.len(), 0);
    }

    /// Passes on each block that was executed since the last call, and forgets the numbers.
    pub fn drain(&mut self, mut take: impl FnMut(&Block, Executions)) {
        for (block, counts) in self.blocks.iter().zip(self.counts.as_chunks_mut().0) {
            let [not_taken, taken] = std::mem::take(counts);
            let executions = Executions { not_taken, taken };
            if executions.total() > 0 {
                take(block, executions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::{BlockExecution, Isa, Positions};

    use super::*;

    #[test]
    fn executions_are_counted_by_outcome() {
        let blocks = [Block::new(0x1000, Isa::A64, vec![1, 2], true), Block::new(0x2000, Isa::T32, vec![3], false)];
        let executions = [(0, true), (0, false), (0, true), (1, false)].map(|(at, is)| BlockExecution::new(at, is));
        let trace = |blocks, executions| BlockTrace {
            core: 0,
            blocks,
            executions,
            next: None,
            positions: Positions::From(0),
            time: None,
            accesses: None,
        };
        let mut counts = BlockCounts::default();
        assert_eq!(counts.add(&trace(&blocks[..1], &executions[..3])), Executed { instructions: 6, taken: 2 });
        assert_eq!(counts.add(&trace(&blocks, &executions[3..])), Executed { instructions: 1, taken: 0 });
        let mut found = Vec::new();
        counts.drain(|block, executions| found.push((block.start, executions.not_taken, executions.taken)));
        counts.drain(|block, _| panic!("{block:?}"));
        assert_eq!(found, [(0x1000, 1, 2), (0x2000, 1, 0)]);
    }
}
