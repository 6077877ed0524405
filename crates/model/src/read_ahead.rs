//! Blocks and steps of a source that is read on its own thread.
//!
//! source ─▶ chunks: steps, executions, new blocks ─▶ **next chunk** ─▶ sink
//!
//! Chunks are reused, and only a few exist, so that memory does not grow with the trace. Dropping the reader ends the
//! thread.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::chunk::{Chunk, Filler, KnownBlocks};
use crate::{BlockSink, Losses, SourceError, Step, StepSource};

/// Chunks that may wait for the reader.
const WAITING: usize = 3;

/// Result of a source, and its losses.
type Ended = (Result<(), SourceError>, Losses);

/// A source that is read ahead in chunks.
#[derive(Debug)]
pub struct ReadAhead {
    chunks: Receiver<Chunk>,
    used: Sender<Chunk>,
    known: KnownBlocks,
    step: Step,
    worker: Option<JoinHandle<Ended>>,
    losses: Losses,
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
            let mut filler = Filler::new(send, reuse, wants_accesses, 1);
            let ended = source.follow(&mut filler);
            // The receiver may be gone: then the rest is dropped.
            let _ = filler.flush();
            (ended, source.losses())
        };
        let worker = Some(thread::Builder::new().name("follow".into()).spawn(work)?);
        let (known, step, losses) = (KnownBlocks::default(), Step::default(), Losses::default());
        Ok(Self { chunks, used, known, step, worker, losses })
    }

    /// Information of the trace that was in no step. Complete once there are no more chunks.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Passes the next chunk to the sink. False: there are no more chunks, or the sink broke.
    pub fn next_chunk(&mut self, sink: &mut dyn BlockSink) -> Result<bool, SourceError> {
        let Ok(mut chunk) = self.chunks.recv() else { return self.end() };
        self.known.learn(&mut chunk);
        let is_over = chunk.pass_to(&self.known, &mut self.step, sink).is_break();
        chunk.clear();
        // A source that has ended takes no chunks back.
        let _ = self.used.send(chunk);
        Ok(!is_over)
    }

    fn end(&mut self) -> Result<bool, SourceError> {
        let Some(worker) = self.worker.take() else { return Ok(false) };
        let Ok((ended, losses)) = worker.join() else {
            return Err(SourceError::unreadable("the reading thread has failed"));
        };
        self.losses = losses;
        ended.map(|()| false)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::chunk::CHUNK;
    use crate::{
        Block, BlockAccesses, BlockExecution, BlockTrace, Coverage, Direction, Event, Instruction, Isa, Positions,
        TemplateAccess,
    };

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
            Err(SourceError { text: "that is all".into(), is_damage: true, position: None })
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
