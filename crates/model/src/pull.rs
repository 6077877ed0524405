//! Steps when they are asked for: a source that pushes, on a thread of its own.
//!
//! source ─▶ batches ─▶ **next**, next, next
//!
//! Batches are used again, and only a few exist, so that memory does not grow with the trace. Who stops asking ends the
//! thread.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::{Coverage, SourceError, Step, StepSource, TimeUnit};

/// Steps of a batch.
const BATCH: usize = 1024;

/// Batches that wait.
const WAITING: usize = 4;

type Batch = Vec<Step>;

/// Steps of a source, one after another.
#[derive(Debug)]
pub struct Pull {
    coverage: Coverage,
    time_unit: TimeUnit,
    batches: Receiver<(Batch, usize)>,
    used: Sender<Batch>,
    batch: Batch,
    /// The part of the batch that was not handed out.
    next: usize,
    end: usize,
    worker: Option<JoinHandle<Result<(), SourceError>>>,
}

impl Pull {
    /// Starts a thread for a source.
    pub fn new(mut source: impl StepSource + Send + 'static) -> std::io::Result<Self> {
        let (coverage, time_unit) = (source.coverage(), source.time_unit());
        let (give, batches) = sync_channel(WAITING);
        let (used, reuse) = channel();
        let work = move || {
            let mut filler = Filler { give, reuse, batch: Vec::new(), length: 0 };
            let ended = source.each(&mut |step| filler.take(step));
            // If nobody wants the rest, it is not given.
            let _ = filler.flush();
            ended
        };
        let worker = Some(thread::Builder::new().name("steps".into()).spawn(work)?);
        Ok(Self { coverage, time_unit, batches, used, batch: Vec::new(), next: 0, end: 0, worker })
    }

    /// What steps can ever tell.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// What times are counted in.
    pub fn time_unit(&self) -> TimeUnit {
        self.time_unit
    }

    /// The next step; `None`: there are no more.
    #[inline]
    pub fn next_step(&mut self) -> Result<Option<&Step>, SourceError> {
        if self.next == self.end && !self.refill()? {
            return Ok(None);
        }
        self.next += 1;
        Ok(self.batch.get(self.next - 1))
    }

    fn refill(&mut self) -> Result<bool, SourceError> {
        // A source that has ended wants no batches back.
        let _ = self.used.send(std::mem::take(&mut self.batch));
        match self.batches.recv() {
            Ok((batch, length)) => {
                (self.batch, self.next, self.end) = (batch, 0, length);
                Ok(length > 0)
            }
            Err(_) => {
                (self.next, self.end) = (0, 0);
                match self.worker.take().map(JoinHandle::join) {
                    Some(Ok(Err(error))) => Err(error),
                    _ => Ok(false),
                }
            }
        }
    }
}

/// Fills batches.
struct Filler {
    give: SyncSender<(Batch, usize)>,
    reuse: Receiver<Batch>,
    batch: Batch,
    length: usize,
}

impl Filler {
    #[inline]
    fn take(&mut self, step: &Step) -> ControlFlow<()> {
        match self.batch.get_mut(self.length) {
            Some(place) => place.clone_from(step),
            None => self.batch.push(step.clone()),
        }
        self.length += 1;
        if self.length < BATCH { ControlFlow::Continue(()) } else { self.flush() }
    }

    fn flush(&mut self) -> ControlFlow<()> {
        if self.length == 0 {
            return ControlFlow::Continue(());
        }
        let next = self.reuse.try_recv().unwrap_or_default();
        let full = (std::mem::replace(&mut self.batch, next), std::mem::take(&mut self.length));
        if self.give.send(full).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
