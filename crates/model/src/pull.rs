//! Steps on demand, from a source that runs on its own thread.
//!
//! source ─▶ chunks ─▶ **next**, next, next; or the blocks at hand
//!
//! Chunks are reused, and only a few exist, so that memory does not grow with the trace. Dropping the reader ends the
//! thread.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::Cursor;
use crate::chunk::{Chunk, Filler, Head, KnownBlocks, Part, Starts};
use crate::{BlockCursor, BlockPlace, BlockSink, Coverage, Losses, SourceError, Step, StepRef, StepSource, TimeUnit};

/// Chunks that may wait for the reader.
const WAITING: usize = 2;

/// Instructions in blocks that a step counts as: it is larger, and chunks should stay in the cache.
const STEP_WEIGHT: usize = 4;

/// Result of a source, and its losses.
type Ended = (Result<(), SourceError>, Losses);

/// Reader of the steps of a source.
#[derive(Debug)]
pub struct Pull {
    coverage: Coverage,
    time_unit: TimeUnit,
    reader: ChunkReader,
    step: Step,
}

/// Receiver and reader of chunks.
#[derive(Debug)]
struct ChunkReader {
    chunks: Receiver<Chunk>,
    used: Sender<Chunk>,
    chunk: Chunk,
    known: KnownBlocks,
    at: ChunkPlace,
    worker: Option<JoinHandle<Ended>>,
    losses: Losses,
}

/// The position of a reader in a chunk.
#[derive(Debug, Default)]
struct ChunkPlace {
    /// Index of the next part.
    part: usize,
    /// Number of steps left in this part.
    steps: usize,
    cursor: Cursor,
    /// The blocks of this part.
    blocks: Option<(Head, BlockPlace)>,
    /// Where they start.
    starts: Starts,
}

impl Pull {
    /// Starts a thread for a source, and reads it step by step.
    pub fn new(source: impl StepSource + Send + 'static) -> std::io::Result<Self> {
        Self::start(source, false, |source, filler| source.each(&mut |step| filler.step(step)))
    }

    /// Starts a thread for a source, and reads whole blocks where it has them. The accesses of blocks may be missing if they
    /// are not wanted.
    pub fn with_blocks(source: impl StepSource + Send + 'static, wants_accesses: bool) -> std::io::Result<Self> {
        Self::start(source, wants_accesses, |source, filler| source.follow(filler))
    }

    fn start<S: StepSource + Send + 'static>(
        mut source: S,
        wants_accesses: bool,
        read: fn(&mut S, &mut Filler) -> Result<(), SourceError>,
    ) -> std::io::Result<Self> {
        let (coverage, time_unit) = (source.coverage(), source.time_unit());
        let (send, chunks) = sync_channel(WAITING);
        let (used, reuse) = channel();
        let work = move || {
            let mut filler = Filler::new(send, reuse, wants_accesses, STEP_WEIGHT);
            let ended = read(&mut source, &mut filler);
            // The receiver may be gone: then the rest is dropped.
            let _ = filler.flush();
            (ended, source.losses())
        };
        let worker = Some(thread::Builder::new().name("steps".into()).spawn(work)?);
        let (chunk, known, at) = (Chunk::default(), KnownBlocks::default(), ChunkPlace::default());
        let reader = ChunkReader { chunks, used, chunk, known, at, worker, losses: Losses::default() };
        Ok(Self { coverage, time_unit, reader, step: Step::default() })
    }

    /// The kinds of information that the steps may have.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// The unit of times.
    pub fn time_unit(&self) -> TimeUnit {
        self.time_unit
    }

    /// Information of the trace that was in no step. Complete once there are no more steps.
    pub fn losses(&self) -> &Losses {
        &self.reader.losses
    }

    /// The next step; `None`: there are no more.
    #[inline]
    pub fn next_step(&mut self) -> Result<Option<&Step>, SourceError> {
        Ok(self.reader.read_step(&mut self.step)?.then_some(&self.step))
    }

    /// Reads the next step into memory of the caller. False: there are no more.
    #[inline]
    pub fn read_step(&mut self, step: &mut Step) -> Result<bool, SourceError> {
        self.reader.read_step(step)
    }

    /// The step that comes next, in place, if it is not in blocks and was read.
    #[inline]
    pub fn peek_step(&self) -> Option<StepRef<'_>> {
        let reader = &self.reader;
        if reader.at.steps == 0 { None } else { reader.at.cursor.peek(&reader.chunk.steps) }
    }

    /// Passes the step that [comes next](Self::peek_step).
    #[inline]
    pub fn pass_step(&mut self) {
        let ChunkReader { at, chunk, .. } = &mut self.reader;
        if at.steps > 0 {
            at.steps -= 1;
            at.cursor.pass(&chunk.steps);
        }
    }

    /// The blocks that come next, if there are and they were read.
    pub fn blocks(&self) -> Option<BlockCursor<'_>> {
        self.reader.blocks().filter(|_| self.reader.at.steps == 0)
    }

    /// Continues at another place in the [blocks](Self::blocks) that come next.
    pub fn continue_at(&mut self, place: BlockPlace) {
        self.reader.continue_at(place);
    }
}

impl ChunkReader {
    #[inline]
    fn read_step(&mut self, step: &mut Step) -> Result<bool, SourceError> {
        loop {
            if self.at.steps > 0 {
                self.at.steps -= 1;
                return Ok(self.at.cursor.next(&self.chunk.steps, step));
            }
            if self.read_from_blocks(step) {
                return Ok(true);
            }
            if !self.next_part() && !self.refill()? {
                return Ok(false);
            }
        }
    }

    fn blocks(&self) -> Option<BlockCursor<'_>> {
        let (head, place) = self.at.blocks.as_ref()?;
        let cursor = BlockCursor::at(self.chunk.trace(head, self.at.starts, &self.known), *place);
        cursor.rest().is_some().then_some(cursor)
    }

    fn continue_at(&mut self, there: BlockPlace) {
        if let Some((_, place)) = &mut self.at.blocks {
            *place = there;
        }
    }

    fn read_from_blocks(&mut self, step: &mut Step) -> bool {
        let Some(mut cursor) = self.blocks() else { return false };
        let is_read = cursor.read(step);
        cursor.advance(1);
        let place = cursor.place();
        self.continue_at(place);
        is_read
    }

    /// Continues with the next part of the chunk, if there is one.
    fn next_part(&mut self) -> bool {
        if let Some((head, _)) = self.at.blocks.take() {
            self.at.starts = self.at.starts.after(&head);
        }
        let Some(part) = self.chunk.parts.get(self.at.part) else { return false };
        self.at.part += 1;
        match part {
            Part::Steps(count) => self.at.steps = *count,
            Part::Blocks(head) => {
                let start = BlockCursor::new(self.chunk.trace(head, self.at.starts, &self.known)).place();
                self.at.blocks = Some((*head, start));
            }
        }
        true
    }

    fn refill(&mut self) -> Result<bool, SourceError> {
        self.at = ChunkPlace::default();
        let mut used = std::mem::take(&mut self.chunk);
        used.clear();
        // A source that has ended takes no chunks back.
        let _ = self.used.send(used);
        match self.chunks.recv() {
            Ok(chunk) => {
                self.chunk = chunk;
                self.known.learn(&mut self.chunk);
                Ok(true)
            }
            Err(_) => {
                let Some(worker) = self.worker.take() else { return Ok(false) };
                let Ok((ended, losses)) = worker.join() else {
                    return Err(SourceError::unreadable("the reading thread has failed"));
                };
                self.losses = losses;
                ended.map(|()| false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    /// A source with a defect.
    struct Defective;

    impl StepSource for Defective {
        fn coverage(&self) -> Coverage {
            Coverage::default()
        }

        fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
            let _ = take(&Step::default());
            panic!("a defect");
        }
    }

    #[test]
    fn a_panic_of_the_source_is_not_the_end_of_the_trace() {
        let mut steps = Pull::new(Defective).unwrap();
        let error = loop {
            match steps.next_step() {
                Ok(step) => assert!(step.is_some(), "the end"),
                Err(error) => break error,
            }
        };
        assert!(!error.is_damage, "{error}");
        assert!(steps.next_step().unwrap().is_none());
    }
}
