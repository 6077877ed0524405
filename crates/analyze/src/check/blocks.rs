//! Executions of blocks that were checked before, and need no check again.
//!
//! block trace ─▶ known to be clean? ─▶ **skipped**; otherwise its steps ─▶ findings
//!
//! What an execution violates depends on its instructions, on the block that follows it, and on the state of its core:
//! addresses of accesses make no difference. The state does not change within a block trace. So an execution that gave no
//! finding gives none again, if the same block follows it in the same state. The first and the last execution of a block
//! trace are always checked, since they see and leave the state around it.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use unspool_model::{BlockExecution, Context, Isa};

use super::report::Source;
use crate::number_hash::Fibonacci;

/// Maximum number of clean executions with their successors that are remembered.
const MAX_CLEAN: usize = 1 << 20;

/// State that the findings of a block depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) core: u32,
    pub(super) context: Context,
    pub(super) isa: Option<Isa>,
    /// Whether reads and writes were reported, and whether sizes are in bits.
    accesses: [bool; 3],
}

impl State {
    pub(super) fn new(core: u32, context: Context, isa: Option<Isa>, source: &Source) -> Self {
        Self { core, context, isa, accesses: [source.has_reads, source.has_writes, source.is_in_bits] }
    }
}

/// Executions that gave no finding, with the block that followed.
#[derive(Debug, Clone, Default)]
pub(super) struct CleanBlocks {
    /// The state in which they were checked.
    state: Option<State>,
    /// The block that followed last, by number and outcome; 0: none.
    latest: Vec<u32>,
    all: HashSet<u64, BuildHasherDefault<Fibonacci>>,
}

impl CleanBlocks {
    /// Forgets everything, if the state is another one; returns whether it is the same. Without a state, nothing is known
    /// to be clean.
    pub(super) fn enter(&mut self, state: Option<State>) -> bool {
        let is_same = self.state == state;
        if !is_same {
            self.state = state;
            self.latest.clear();
            self.all.clear();
        }
        is_same
    }

    /// Whether the execution, followed by this block, gives no finding.
    #[inline]
    pub(super) fn contains(&mut self, execution: BlockExecution, next: usize) -> bool {
        let next = next as u32 + 1;
        match self.latest.get_mut(execution.index()) {
            Some(latest) if *latest == next => true,
            Some(latest) if *latest != 0 && self.all.contains(&pair(execution, next)) => {
                *latest = next;
                true
            }
            _ => false,
        }
    }

    /// Adds an execution that gave no finding, and the block that followed.
    pub(super) fn add(&mut self, execution: BlockExecution, next: usize) {
        if self.state.is_none() || self.all.len() >= MAX_CLEAN {
            return;
        }
        let (index, next) = (execution.index(), next as u32 + 1);
        if index >= self.latest.len() {
            self.latest.resize(index + 1, 0);
        }
        self.latest[index] = next;
        self.all.insert(pair(execution, next));
    }
}

fn pair(execution: BlockExecution, next: u32) -> u64 {
    (execution.index() as u64) << 32 | u64::from(next)
}
