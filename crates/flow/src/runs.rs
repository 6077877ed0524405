//! Cached runs: the same atoms from the same block make the same walk.
//!
//! (node, packed atoms) ─▶ **steps, next node**
//!
//! A node is a block where an atom packet started. Its first four runs share one cache line, the others are in a hash
//! table. Does not walk: the caller inserts what it walked. `graph.rs` has the drawing.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_coresight::Atoms;
use unspool_isa::ControlFlow;

use crate::graph::{BlockId, FIRST, Graph};
use crate::item::WalkStep;
use crate::table::Table;

/// Greatest number of atoms of a cached run: that of a packet, in ETMv4 and ETE. [`Atoms`] has room for more.
const MAX_ATOMS: u32 = 24;

/// Approximate limit of the memory of runs, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The number of a node: an index into [`Runs::nodes`], not a [`BlockId`]. Only the states without a block have the same
/// number as both.
pub(crate) type NodeId = u32;

/// The cached walk of one packet from a node to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CachedRun {
    /// Its atoms; zero: a free slot.
    key: u32,
    pub(crate) next: NodeId,
    /// Index of its first step.
    pub(crate) start: u32,
    pub(crate) instructions: u16,
    /// Number of its steps.
    pub(crate) length: u8,
    pub(crate) flags: RunFlags,
}

/// Other properties of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunFlags(u8);

impl RunFlags {
    const HAS_CALL: u8 = 1;
    const ENDS_IN_EXCEPTION_RETURN: u8 = 2;

    /// Does it contain a taken function call?
    pub(crate) fn has_call(self) -> bool {
        self.0 & Self::HAS_CALL != 0
    }

    #[inline(always)]
    pub(crate) fn ends_in_exception_return(self) -> bool {
        self.0 & Self::ENDS_IN_EXCEPTION_RETURN != 0
    }
}

/// The first four runs of one block. The others are in a table.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Node([CachedRun; 4]);

/// All cached runs.
#[derive(Debug)]
pub(crate) struct Runs {
    nodes: Vec<Node>,
    /// The block of each node.
    blocks: Vec<BlockId>,
    /// (node, atoms) to the index in `overflow_runs`, where a node is full.
    overflow: Table,
    overflow_runs: Vec<CachedRun>,
    steps: Vec<WalkStep>,
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
        Self { nodes, blocks, overflow: Table::new(), overflow_runs: Vec::new(), steps, generation }
    }

    pub(crate) fn is_full(&self) -> bool {
        let nodes = self.nodes.len() * (size_of::<Node>() + size_of::<BlockId>());
        // The table has at least four slots of 16 bytes for each run in it.
        let overflow = self.overflow_runs.len() * (size_of::<CachedRun>() + 4 * 16);
        self.steps.len() * size_of::<WalkStep>() + nodes + overflow > MAX_BYTES
    }

    /// The node of a block, or of a state without one.
    pub(crate) fn node(&mut self, graph: &mut Graph, block: BlockId) -> NodeId {
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

    pub(crate) fn block(&self, node: NodeId) -> BlockId {
        self.blocks[node as usize]
    }

    /// The run that `atoms` make from `node` on, if it is in the node itself. Otherwise it may be in the overflow table.
    #[inline(always)]
    pub(crate) fn find_in_node(&self, node: NodeId, atoms: Atoms) -> Option<&CachedRun> {
        let key = key(atoms);
        self.nodes[node as usize].0.iter().find(|run| run.key == key)
    }

    /// Finds a run in the overflow table. It takes the place of the last run of its node, since it is likely to be used
    /// again; that one stays in the table.
    pub(crate) fn promote_from_overflow(&mut self, node: NodeId, atoms: Atoms) -> Option<CachedRun> {
        let [.., last] = &self.nodes[node as usize].0;
        // A node that is not full has no other runs.
        if last.key == 0 {
            return None;
        }
        let index = self.overflow.find(overflow_key(node, key(atoms)))?;
        let found = *self.overflow_runs.get(index as usize)?;
        let [.., last] = &mut self.nodes[node as usize].0;
        let replaced = std::mem::replace(last, found);
        if self.overflow.find(overflow_key(node, replaced.key)).is_none() {
            self.put_overflow(node, replaced);
        }
        Some(found)
    }

    fn put_overflow(&mut self, node: NodeId, run: CachedRun) {
        self.overflow.insert(overflow_key(node, run.key), self.overflow_runs.len() as u64);
        self.overflow_runs.push(run);
    }

    /// The steps of all runs, one after the other.
    #[inline(always)]
    pub(crate) fn all_steps(&self) -> &[WalkStep] {
        &self.steps
    }

    pub(crate) fn steps(&self, run: &CachedRun) -> &[WalkStep] {
        &self.steps[run.start as usize..][..usize::from(run.length)]
    }

    /// Caches the run that `atoms` make from `node` to `next`, with one step per atom. `None`: it has no atoms, more than
    /// [`MAX_ATOMS`], or more instructions than the field has room for.
    pub(crate) fn insert(
        &mut self,
        graph: &Graph,
        node: NodeId,
        atoms: Atoms,
        next: NodeId,
        steps: &[WalkStep],
    ) -> Option<CachedRun> {
        let (instructions, flags) = summarize(graph, steps);
        let instructions = u16::try_from(instructions).ok()?;
        if atoms.count() > MAX_ATOMS || atoms.is_empty() {
            return None;
        }
        let (key, start, length) = (key(atoms), self.steps.len() as u32, steps.len() as u8);
        self.steps.extend_from_slice(steps);
        let run = CachedRun { key, next, start, instructions, length, flags };
        match self.nodes[node as usize].0.iter_mut().find(|free| free.key == 0) {
            Some(free) => *free = run,
            None => self.put_overflow(node, run),
        }
        Some(run)
    }
}

/// Number of instructions of the steps of a run, and its other properties.
pub(crate) fn summarize(graph: &Graph, steps: &[WalkStep]) -> (u64, RunFlags) {
    let (mut instructions, mut has_call, mut is_exception_return) = (0, false, false);
    for step in steps {
        let block = graph.block(step.block());
        instructions += u64::from(block.instructions);
        has_call |= step.taken() & block.last.link;
        // Assigned, not or-ed: only the last step decides how the run ends.
        is_exception_return = step.taken() & (block.last.flow == ControlFlow::ExceptionReturn);
    }
    let call = u8::from(has_call) * RunFlags::HAS_CALL;
    let exception_return = u8::from(is_exception_return) * RunFlags::ENDS_IN_EXCEPTION_RETURN;
    (instructions, RunFlags(call | exception_return))
}

/// [`MAX_ATOMS`] atoms and their count in one number, which is not zero since there is at least one atom. With more atoms,
/// it is the key of no cached run.
#[inline(always)]
fn key(atoms: Atoms) -> u32 {
    atoms.count() << MAX_ATOMS | atoms.bits() & ((1 << MAX_ATOMS) - 1)
}

fn overflow_key(node: NodeId, key: u32) -> u64 {
    u64::from(node) << 32 | u64::from(key)
}
