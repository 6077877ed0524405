//! Cached runs: the same atoms from the same block make the same walk.
//!
//! Takes the block where an atom packet starts and its packed atoms. Produces the ranges of the walk and the block after
//! them, in one lookup: the runs of one block are in one cache line. `graph.rs` has the drawing.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_coresight::Atoms;
use unspool_isa::ControlFlow;

use crate::graph::{FIRST, Graph, Id};
use crate::item::Step;
use crate::table::Table;

/// Runs with more atoms are not cached; no packet has more.
const MAX_ATOMS: u32 = 24;

/// Approximate limit of the memory of runs, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The number of a block where runs start. States without a block have their own numbers here too.
pub(crate) type NodeId = u32;

/// A run from a node to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    /// Its atoms; zero: a free slot.
    key: u32,
    pub(crate) next: NodeId,
    /// Index of its first step.
    pub(crate) start: u32,
    pub(crate) instructions: u16,
    pub(crate) length: u8,
    pub(crate) traits: Traits,
}

/// Other properties of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traits(u8);

impl Traits {
    const LINKS: u8 = 1;
    const ERET: u8 = 2;

    /// It contains a taken call.
    pub(crate) fn links(self) -> bool {
        self.0 & Self::LINKS != 0
    }

    /// It ends in an exception return.
    #[inline(always)]
    pub(crate) fn eret(self) -> bool {
        self.0 & Self::ERET != 0
    }
}

/// The first four runs of one block. The others are in a table.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Node([Run; 4]);

/// All cached runs.
#[derive(Debug)]
pub(crate) struct Runs {
    nodes: Vec<Node>,
    /// The block of each node.
    blocks: Vec<Id>,
    /// (node, atoms) to the index in `more`, where a node is full.
    overflow: Table,
    more: Vec<Run>,
    steps: Vec<Step>,
    /// The unique number of this set of runs, not zero.
    pub(crate) generation: u64,
}

static GENERATIONS: AtomicU64 = AtomicU64::new(1);

impl Runs {
    pub(crate) fn new() -> Self {
        // Unused capacity costs nothing; moving nodes does.
        let mut nodes = Vec::with_capacity(1 << 15);
        nodes.resize(FIRST as usize, Node::default());
        let mut blocks = Vec::with_capacity(1 << 15);
        blocks.extend(0..FIRST);
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let steps = Vec::with_capacity(1 << 17);
        Self { nodes, blocks, overflow: Table::new(), more: Vec::new(), steps, generation }
    }

    pub(crate) fn is_full(&self) -> bool {
        // A run that is not in its node has an entry in the table as well.
        let further = self.more.len() * (size_of::<Run>() + 64);
        self.steps.len() * size_of::<Step>() + self.nodes.len() * (size_of::<Node>() + 4) + further > MAX_BYTES
    }

    /// The node of a block.
    pub(crate) fn node(&mut self, graph: &mut Graph, block: Id) -> NodeId {
        if block < FIRST {
            return block;
        }
        let node = graph.node_of(block);
        if *node == 0 {
            *node = self.nodes.len() as NodeId;
            self.nodes.push(Node::default());
            self.blocks.push(block);
        }
        *node
    }

    pub(crate) fn block(&self, node: NodeId) -> Id {
        self.blocks[node as usize]
    }

    /// The run that `atoms` make from `node` on.
    #[inline(always)]
    pub(crate) fn find(&self, node: NodeId, atoms: Atoms) -> Option<&Run> {
        let key = key(atoms);
        self.nodes[node as usize].0.iter().find(|run| run.key == key)
    }

    /// Finds a run that is not in its node. It replaces the last one of the node, since it is likely to be used again.
    pub(crate) fn find_overflow(&mut self, node: NodeId, atoms: Atoms) -> Option<Run> {
        let [.., last] = &self.nodes[node as usize].0;
        if last.key == 0 {
            return None;
        }
        let index = self.overflow.find(overflow_key(node, key(atoms)))?;
        let found = *self.more.get(index as usize)?;
        let [.., last] = &mut self.nodes[node as usize].0;
        let replaced = std::mem::replace(last, found);
        if self.overflow.find(overflow_key(node, replaced.key)).is_none() {
            self.put_overflow(node, replaced);
        }
        Some(found)
    }

    fn put_overflow(&mut self, node: NodeId, run: Run) {
        self.overflow.insert(overflow_key(node, run.key), self.more.len() as u64);
        self.more.push(run);
    }

    /// The steps of all runs, one after the other.
    #[inline(always)]
    pub(crate) fn all_steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn steps(&self, run: &Run) -> &[Step] {
        &self.steps[run.start as usize..][..usize::from(run.length)]
    }

    /// Caches the run that `atoms` make from `node` to `next`. `None`: it is too long.
    pub(crate) fn insert(
        &mut self,
        graph: &Graph,
        node: NodeId,
        atoms: Atoms,
        next: NodeId,
        steps: &[Step],
    ) -> Option<Run> {
        let (instructions, traits) = summarize(graph, steps);
        let instructions = u16::try_from(instructions).ok()?;
        if atoms.count() > MAX_ATOMS || atoms.is_empty() {
            return None;
        }
        let (key, start, length) = (key(atoms), self.steps.len() as u32, steps.len() as u8);
        self.steps.extend_from_slice(steps);
        let run = Run { key, next, start, instructions, length, traits };
        match self.nodes[node as usize].0.iter_mut().find(|free| free.key == 0) {
            Some(free) => *free = run,
            None => self.put_overflow(node, run),
        }
        Some(run)
    }
}

/// Number of instructions of the steps of a run, and its other properties.
pub(crate) fn summarize(graph: &Graph, steps: &[Step]) -> (u64, Traits) {
    let (mut instructions, mut links, mut eret) = (0, false, false);
    for step in steps {
        let block = graph.block(step.block());
        instructions += u64::from(block.instructions);
        links |= step.taken() & block.last.link;
        eret = step.taken() & (block.last.flow == ControlFlow::ExceptionReturn);
    }
    (instructions, Traits((u8::from(links) * Traits::LINKS) | (u8::from(eret) * Traits::ERET)))
}

/// Twenty-four atoms and their count fit into one number, which is not zero since there is at least one.
#[inline(always)]
fn key(atoms: Atoms) -> u32 {
    atoms.count() << 24 | atoms.bits() & 0xff_ffff
}

fn overflow_key(node: NodeId, key: u32) -> u64 {
    u64::from(node) << 32 | u64::from(key)
}
