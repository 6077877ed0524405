//! Steps and executions of blocks in a few arrays, so that they are cheap to send to another thread.
//!
//! source ─▶ filler ─▶ **chunks** ─▶ sink, or one step after the other

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender};

use crate::batch::{Batch, Cursor};
use crate::{Block, BlockAccesses, BlockExecution, BlockSink, BlockTrace, Positions, Step, TemplateAccess};

/// Approximate number of instructions per chunk: waking a thread costs as much as many of them.
pub(crate) const CHUNK: usize = 16 << 10;

/// Steps and blocks of a source.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) parts: Vec<Part>,
    pub(crate) steps: Batch,
    pub(crate) executions: Vec<BlockExecution>,
    /// Positions of the executions that have one each.
    pub(crate) positions: Vec<u64>,
    pub(crate) addresses: Vec<u64>,
    new: KnownBlocks,
    /// Instructions, and other steps with their weight.
    length: usize,
}

/// Blocks by number, with their accesses.
#[derive(Debug, Default)]
pub(crate) struct KnownBlocks {
    pub(crate) blocks: Vec<Block>,
    /// Accesses of the blocks.
    pub(crate) accesses: Vec<Vec<TemplateAccess>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// A number of steps.
    Steps(usize),
    Blocks(Head),
}

/// A block trace without its slices, and the number of its executions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) core: u32,
    pub(crate) executions: usize,
    next: Option<u64>,
    /// The first position; `None`: each execution has one.
    position: Option<u64>,
    time: Option<u64>,
    /// Number of addresses, if there are accesses.
    addresses: Option<usize>,
}

/// Where the executions, positions and addresses of a part start in its chunk.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Starts {
    executions: usize,
    positions: usize,
    addresses: usize,
}

impl Starts {
    /// The starts of the part after the one with this head.
    pub(crate) fn after(self, head: &Head) -> Self {
        Self {
            executions: self.executions + head.executions,
            positions: self.positions + if head.position.is_none() { head.executions } else { 0 },
            addresses: self.addresses + head.addresses.unwrap_or(0),
        }
    }
}

impl KnownBlocks {
    /// Takes the blocks that are new in a chunk.
    pub(crate) fn learn(&mut self, chunk: &mut Chunk) {
        self.blocks.append(&mut chunk.new.blocks);
        self.accesses.append(&mut chunk.new.accesses);
    }
}

impl Chunk {
    /// Empties the chunk and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.steps.clear();
        self.executions.clear();
        self.positions.clear();
        self.addresses.clear();
        self.new.blocks.clear();
        self.new.accesses.clear();
        self.length = 0;
    }

    /// The block trace with this head.
    #[inline]
    pub(crate) fn trace<'c>(&'c self, head: &Head, starts: Starts, known: &'c KnownBlocks) -> BlockTrace<'c> {
        let &Head { core, executions: length, next, position, time, addresses } = head;
        let positions = match position {
            Some(first) => Positions::From(first),
            None => Positions::Each(&self.positions[starts.positions..][..length]),
        };
        let accesses = addresses.map(|length| {
            let addresses = &self.addresses[starts.addresses..][..length];
            BlockAccesses { of_blocks: &known.accesses, addresses }
        });
        let executions = &self.executions[starts.executions..][..length];
        BlockTrace { core, blocks: &known.blocks, executions, next, positions, time, accesses }
    }

    /// Passes all parts to a sink.
    pub(crate) fn pass_to(&self, known: &KnownBlocks, step: &mut Step, sink: &mut dyn BlockSink) -> ControlFlow<()> {
        let (mut cursor, mut starts) = (Cursor::default(), Starts::default());
        for part in &self.parts {
            match part {
                Part::Steps(count) => {
                    for _ in 0..*count {
                        cursor.next(&self.steps, step);
                        sink.step(step)?;
                    }
                }
                Part::Blocks(head) => {
                    sink.blocks(&self.trace(head, starts, known))?;
                    starts = starts.after(head);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Fills chunks.
pub(crate) struct Filler {
    send: SyncSender<Chunk>,
    reuse: Receiver<Chunk>,
    chunk: Chunk,
    /// The number of blocks that were sent, and of those whose accesses were.
    blocks: usize,
    accesses: usize,
    wants_accesses: bool,
    /// Number of instructions in blocks that a step counts as.
    step_weight: usize,
}

impl Filler {
    pub(crate) fn new(
        send: SyncSender<Chunk>,
        reuse: Receiver<Chunk>,
        wants_accesses: bool,
        step_weight: usize,
    ) -> Self {
        Self { send, reuse, chunk: Chunk::default(), blocks: 0, accesses: 0, wants_accesses, step_weight }
    }

    #[inline]
    fn filled(&mut self, length: usize) -> ControlFlow<()> {
        self.chunk.length += length;
        if self.chunk.length < CHUNK { ControlFlow::Continue(()) } else { self.flush() }
    }

    /// Sends what there is.
    pub(crate) fn flush(&mut self) -> ControlFlow<()> {
        if self.chunk.parts.is_empty() {
            return ControlFlow::Continue(());
        }
        let full = std::mem::replace(&mut self.chunk, self.reuse.try_recv().unwrap_or_default());
        if self.send.send(full).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl BlockSink for Filler {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.chunk.steps.push(step);
        match self.chunk.parts.last_mut() {
            Some(Part::Steps(count)) => *count += 1,
            _ => self.chunk.parts.push(Part::Steps(1)),
        }
        self.filled(self.step_weight)
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let &BlockTrace { core, blocks, executions, next, positions, time, accesses } = trace;
        let chunk = &mut self.chunk;
        let position = match positions {
            Positions::From(first) => Some(first),
            Positions::Each(all) => {
                chunk.positions.extend_from_slice(all);
                None
            }
        };
        chunk.new.blocks.extend_from_slice(&blocks[self.blocks..]);
        self.blocks = blocks.len();
        chunk.executions.extend_from_slice(executions);
        let addresses = accesses.map(|BlockAccesses { of_blocks, addresses }| {
            chunk.new.accesses.extend_from_slice(&of_blocks[self.accesses..]);
            self.accesses = of_blocks.len();
            chunk.addresses.extend_from_slice(addresses);
            addresses.len()
        });
        let executions = executions.len();
        chunk.parts.push(Part::Blocks(Head { core, executions, next, position, time, addresses }));
        self.filled(trace.instructions())
    }

    fn wants_accesses(&self) -> bool {
        self.wants_accesses
    }
}
