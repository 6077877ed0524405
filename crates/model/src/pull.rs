//! Steps on demand, from a source that runs on its own thread.
//!
//! source ─▶ batches ─▶ **next**, next, next
//!
//! Batches are reused, and only a few exist, so that memory does not grow with the trace. Dropping the reader ends the
//! thread.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::batch::{Batch, Cursor};
use crate::{Coverage, Losses, SourceError, Step, StepSource, TimeUnit};

/// Steps per batch: waking a thread costs as much as many steps.
const BATCH: usize = 4096;

/// Batches that may wait for the reader.
const WAITING: usize = 2;

/// Result of a source, and its losses.
type Ended = (Result<(), SourceError>, Losses);

/// Reader of the steps of a source.
#[derive(Debug)]
pub struct Pull {
    coverage: Coverage,
    time_unit: TimeUnit,
    batches: Receiver<Batch>,
    used: Sender<Batch>,
    batch: Batch,
    cursor: Cursor,
    step: Step,
    worker: Option<JoinHandle<Ended>>,
    losses: Losses,
}

impl Pull {
    /// Starts a thread for a source.
    pub fn new(mut source: impl StepSource + Send + 'static) -> std::io::Result<Self> {
        let (coverage, time_unit) = (source.coverage(), source.time_unit());
        let (send, batches) = sync_channel(WAITING);
        let (used, reuse) = channel();
        let work = move || {
            let mut filler = Filler { send, reuse, batch: Batch::default() };
            let ended = source.each(&mut |step| filler.push(step));
            // The receiver may be gone: then the rest is dropped.
            let _ = filler.flush();
            (ended, source.losses())
        };
        let worker = Some(thread::Builder::new().name("steps".into()).spawn(work)?);
        let (batch, cursor, step) = (Batch::default(), Cursor::default(), Step::default());
        Ok(Self { coverage, time_unit, batches, used, batch, cursor, step, worker, losses: Losses::default() })
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
        &self.losses
    }

    /// The next step; `None`: there are no more.
    #[inline]
    pub fn next_step(&mut self) -> Result<Option<&Step>, SourceError> {
        if self.cursor.next(&self.batch, &mut self.step) {
            return Ok(Some(&self.step));
        }
        let is_next = self.refill()? && self.cursor.next(&self.batch, &mut self.step);
        Ok(is_next.then_some(&self.step))
    }

    /// Reads the next step into memory of the caller. False: there are no more.
    #[inline]
    pub fn read_step(&mut self, step: &mut Step) -> Result<bool, SourceError> {
        Ok(self.cursor.next(&self.batch, step) || self.refill()? && self.cursor.next(&self.batch, step))
    }

    fn refill(&mut self) -> Result<bool, SourceError> {
        self.cursor = Cursor::default();
        let mut used = std::mem::take(&mut self.batch);
        used.clear();
        // A source that has ended takes no batches back.
        let _ = self.used.send(used);
        match self.batches.recv() {
            Ok(batch) => {
                self.batch = batch;
                Ok(true)
            }
            Err(_) => {
                let Some(Ok((ended, losses))) = self.worker.take().map(JoinHandle::join) else { return Ok(false) };
                self.losses = losses;
                ended.map(|()| false)
            }
        }
    }
}

/// Fills batches.
struct Filler {
    send: SyncSender<Batch>,
    reuse: Receiver<Batch>,
    batch: Batch,
}

impl Filler {
    #[inline]
    fn push(&mut self, step: &Step) -> ControlFlow<()> {
        self.batch.push(step);
        if self.batch.len() < BATCH { ControlFlow::Continue(()) } else { self.flush() }
    }

    fn flush(&mut self) -> ControlFlow<()> {
        if self.batch.len() == 0 {
            return ControlFlow::Continue(());
        }
        let full = std::mem::replace(&mut self.batch, self.reuse.try_recv().unwrap_or_default());
        if self.send.send(full).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
