//! Blocks and steps of a source that is read on its own thread.
//!
//! source ─▶ chunks: steps, executions, new blocks ─▶ **next chunk** ─▶ sink
//!
//! Chunks are reused, and only a few exist, so that memory does not grow with the trace. Dropping the reader ends the
//! thread.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::{Batch, Cursor};
use crate::{
    Block, BlockAccesses, BlockExecution, BlockSink, BlockTrace, Losses, Positions, SourceError, Step, StepSource,
    TemplateAccess,
};

/// Approximate number of instructions per chunk: waking a thread costs as much as many of them.
const CHUNK: usize = 16 << 10;

/// Chunks that may wait for the reader.
const WAITING: usize = 3;

/// Result of a source, and its losses.
type Ended = (Result<(), SourceError>, Losses);

/// A source that is read ahead in chunks.
#[derive(Debug)]
pub struct ReadAhead {
    chunks: Receiver<Chunk>,
    used: Sender<Chunk>,
    blocks: Vec<Block>,
    /// Accesses of the blocks.
    accesses: Vec<Vec<TemplateAccess>>,
    step: Step,
    worker: Option<JoinHandle<Ended>>,
    losses: Losses,
}

/// Steps and blocks of a source.
#[derive(Debug, Default)]
struct Chunk {
    parts: Vec<Part>,
    steps: Batch,
    executions: Vec<BlockExecution>,
    /// Positions of the executions that have one each.
    positions: Vec<u64>,
    /// New blocks.
    blocks: Vec<Block>,
    /// Accesses of blocks that are new.
    accesses: Vec<Vec<TemplateAccess>>,
    addresses: Vec<u64>,
    /// Instructions and other steps.
    length: usize,
}

#[derive(Debug)]
enum Part {
    /// A number of steps.
    Steps(usize),
    Blocks(Head),
}

/// A block trace without its slices, and the number of its executions.
#[derive(Debug)]
struct Head {
    core: u32,
    executions: usize,
    next: Option<u64>,
    /// The first position; `None`: each execution has one.
    position: Option<u64>,
    time: Option<u64>,
    /// Number of addresses, if there are accesses.
    addresses: Option<usize>,
}

impl ReadAhead {
    /// Starts a thread for a source, for sinks that do not want accesses.
    pub fn new(source: impl StepSource + Send + 'static) -> std::io::Result<Self> {
        Self::start(source, false)
    }

    /// Starts a thread for a source, for sinks that want accesses.
    pub fn with_accesses(source: impl StepSource + Send + 'static) -> std::io::Result<Self> {
        Self::start(source, true)
    }

    fn start(mut source: impl StepSource + Send + 'static, wants_accesses: bool) -> std::io::Result<Self> {
        let (send, chunks) = sync_channel(WAITING);
        let (used, reuse) = channel();
        let work = move || {
            let mut filler = Filler { send, reuse, chunk: Chunk::default(), blocks: 0, accesses: 0, wants_accesses };
            let ended = source.follow(&mut filler);
            // The receiver may be gone: then the rest is dropped.
            let _ = filler.flush();
            (ended, source.losses())
        };
        let worker = Some(thread::Builder::new().name("follow".into()).spawn(work)?);
        let (blocks, accesses, step, losses) = (Vec::new(), Vec::new(), Step::default(), Losses::default());
        Ok(Self { chunks, used, blocks, accesses, step, worker, losses })
    }

    /// Information of the trace that was in no step. Complete once there are no more chunks.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Passes the next chunk to the sink. False: there are no more chunks, or the sink broke.
    pub fn next_chunk(&mut self, sink: &mut dyn BlockSink) -> Result<bool, SourceError> {
        let Ok(mut chunk) = self.chunks.recv() else { return self.end() };
        self.blocks.append(&mut chunk.blocks);
        self.accesses.append(&mut chunk.accesses);
        let is_over = chunk.pass_to((&self.blocks, &self.accesses), &mut self.step, sink).is_break();
        chunk.clear();
        // A source that has ended takes no chunks back.
        let _ = self.used.send(chunk);
        Ok(!is_over)
    }

    fn end(&mut self) -> Result<bool, SourceError> {
        let Some(worker) = self.worker.take() else { return Ok(false) };
        let Ok((ended, losses)) = worker.join() else {
            return Err(SourceError { text: "the reading thread has failed".into(), is_damage: false });
        };
        self.losses = losses;
        ended.map(|()| false)
    }
}

impl Chunk {
    /// Empties the chunk and keeps its memory.
    fn clear(&mut self) {
        self.parts.clear();
        self.steps.clear();
        self.executions.clear();
        self.positions.clear();
        self.blocks.clear();
        self.accesses.clear();
        self.addresses.clear();
        self.length = 0;
    }

    fn pass_to(
        &self,
        (blocks, of_blocks): (&[Block], &[Vec<TemplateAccess>]),
        step: &mut Step,
        sink: &mut dyn BlockSink,
    ) -> ControlFlow<()> {
        let mut cursor = Cursor::default();
        let (mut executions, mut positions, mut addresses) =
            (&self.executions[..], &self.positions[..], &self.addresses[..]);
        for part in &self.parts {
            match part {
                Part::Steps(count) => {
                    for _ in 0..*count {
                        cursor.next(&self.steps, step);
                        sink.step(step)?;
                    }
                }
                &Part::Blocks(Head { core, executions: length, next, position, time, addresses: accesses }) => {
                    let executions = split_off(&mut executions, length);
                    let positions = match position {
                        Some(first) => Positions::From(first),
                        None => Positions::Each(split_off(&mut positions, length)),
                    };
                    let accesses = accesses.map(|length| {
                        let addresses = split_off(&mut addresses, length);
                        BlockAccesses { of_blocks, addresses }
                    });
                    sink.blocks(&BlockTrace { core, blocks, executions, next, positions, time, accesses })?;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Splits the first items off.
fn split_off<'s, T>(rest: &mut &'s [T], length: usize) -> &'s [T] {
    let (first, later) = rest.split_at(length);
    *rest = later;
    first
}

/// Fills chunks.
struct Filler {
    send: SyncSender<Chunk>,
    reuse: Receiver<Chunk>,
    chunk: Chunk,
    /// The number of blocks that were sent, and of those whose accesses were.
    blocks: usize,
    accesses: usize,
    wants_accesses: bool,
}

impl Filler {
    fn filled(&mut self, length: usize) -> ControlFlow<()> {
        self.chunk.length += length;
        if self.chunk.length < CHUNK { ControlFlow::Continue(()) } else { self.flush() }
    }

    fn flush(&mut self) -> ControlFlow<()> {
        if self.chunk.parts.is_empty() {
            return ControlFlow::Continue(());
        }
        let full = std::mem::replace(&mut self.chunk, self.reuse.try_recv().unwrap_or_default());
        if self.send.send(full).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl BlockSink for Filler {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.chunk.steps.push(step);
        match self.chunk.parts.last_mut() {
            Some(Part::Steps(count)) => *count += 1,
            _ => self.chunk.parts.push(Part::Steps(1)),
        }
        self.filled(1)
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let &BlockTrace { core, blocks, executions, next, positions, time, accesses } = trace;
        let position = match positions {
            Positions::From(first) => Some(first),
            Positions::Each(all) => {
                self.chunk.positions.extend_from_slice(all);
                None
            }
        };
        self.chunk.blocks.extend_from_slice(&blocks[self.blocks..]);
        self.blocks = blocks.len();
        self.chunk.executions.extend_from_slice(executions);
        let addresses = accesses.map(|BlockAccesses { of_blocks, addresses }| {
            self.chunk.accesses.extend_from_slice(&of_blocks[self.accesses..]);
            self.accesses = of_blocks.len();
            self.chunk.addresses.extend_from_slice(addresses);
            addresses.len()
        });
        let executions = executions.len();
        self.chunk.parts.push(Part::Blocks(Head { core, executions, next, position, time, addresses }));
        self.filled(trace.instructions())
    }

    fn wants_accesses(&self) -> bool {
        self.wants_accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coverage, Direction, Event, Instruction, Isa};

    /// Steps and blocks alternately, and an error at the end.
    struct Laps(usize);

    impl StepSource for Laps {
        fn coverage(&self) -> Coverage {
            Coverage::default()
        }

        fn each(&mut self, _: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
            Ok(())
        }

        fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
            let (mut blocks, mut accesses) = (Vec::new(), Vec::new());
            for lap in 0..self.0 {
                let event = Event::Instruction(Instruction { address: lap as u64, ..Instruction::default() });
                let step = Step { core: 1, position: 9, event, ..Step::default() };
                // Every tenth lap has a new block.
                if lap % 10 == 0 {
                    let start = 4 * blocks.len() as u64;
                    blocks.push(Block::new(start, Isa::A64, vec![lap as u32; 3], false));
                    accesses.push(vec![TemplateAccess { index: 1, size: lap as u16, direction: Direction::Read }]);
                }
                let number = blocks.len() as u32 - 1;
                let executions = [BlockExecution::new(0, false), BlockExecution::new(number, true)];
                let (blocks, time) = (&blocks, Some(lap as u64));
                let positions = if lap % 2 == 0 { Positions::From(10) } else { Positions::Each(&[10, 30]) };
                let addresses = [lap as u64];
                let accesses = (lap % 3 == 0).then_some(BlockAccesses { of_blocks: &accesses, addresses: &addresses });
                let (executions, next) = (&executions[..], Some(7));
                let trace = BlockTrace { core: 1, blocks, executions, next, positions, time, accesses };
                if sink.step(&step).is_break() || sink.blocks(&trace).is_break() {
                    return Ok(());
                }
            }
            Err(SourceError { text: "that is all".into(), is_damage: true })
        }
    }

    /// Keeps the text of everything it receives.
    #[derive(Default)]
    struct Written(Vec<String>, usize);

    impl BlockSink for Written {
        fn step(&mut self, step: &Step) -> ControlFlow<()> {
            self.0.push(format!("{step:?}"));
            if self.0.len() == self.1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }

        fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
            let BlockTrace { core, executions, next, positions, time, accesses, .. } = trace;
            let accesses = accesses.map(|BlockAccesses { of_blocks, addresses }| {
                let executed = executions.iter().map(|execution| of_blocks[execution.number()].clone());
                (executed.collect::<Vec<_>>(), addresses.to_vec())
            });
            let blocks: Vec<&Block> = executions.iter().map(|execution| &trace.blocks[execution.number()]).collect();
            self.0.push(format!("{core} {blocks:?} {executions:?} {next:?} {positions:?} {time:?} {accesses:?}"));
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn chunks_have_all_blocks_and_steps() {
        for laps in [0, 1, 20_000] {
            let mut expected = Written::default();
            let expected_end = Laps(laps).follow(&mut expected).map_err(|error| error.to_string());
            let (mut ahead, mut found, mut chunks) = (ReadAhead::new(Laps(laps)).unwrap(), Written::default(), 0);
            let end = loop {
                match ahead.next_chunk(&mut found) {
                    Ok(true) => chunks += 1,
                    Ok(false) => break Ok(()),
                    Err(error) => break Err(error.to_string()),
                }
            };
            assert_eq!((found.0, end), (expected.0, expected_end));
            assert_eq!(chunks, (7 * laps).div_ceil(CHUNK), "{laps}");
        }
    }

    #[test]
    fn a_sink_that_breaks_gets_no_more() {
        let (mut ahead, mut found) = (ReadAhead::new(Laps(1_000_000)).unwrap(), Written(Vec::new(), 5));
        assert!(!ahead.next_chunk(&mut found).unwrap());
        assert_eq!(found.0.len(), 5);
    }
}
