//! The rules of steps, checked in place or on another thread.
//!
//! ```text
//! steps, blocks ─▶ checker ─┬──────────────▶ findings
//!                           └─ a thread ─▶ StepCheck ─▶ findings, once the format was checked
//! ```
//!
//! A finding comes with the position of the step at which it was found. What waits for the caller is bounded: the thread
//! pauses while there are too many findings.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

use unspool_analyze::check::{Checker, Finding};
use unspool_model::{BlockSink, BlockTrace, Event, Positions, SourceError, Step, StepSource};

use super::CheckedSteps;
use crate::file::OpenedSteps;
use crate::meter::{Meter, OnProgress};

/// Steps between two reports of progress.
const STRIDE: u64 = 1 << 16;

/// Findings that may wait for the caller.
const WAITING: usize = 1 << 14;

/// Sink of findings, with the position of the step at which each was found. Returns false to stop.
type TakeFinding<'t> = dyn FnMut(u64, Finding) -> bool + 't;

/// Totals of steps, and how they ended.
type Checked = (CheckedSteps, Result<(), SourceError>);

/// Checks all steps of a source.
pub(super) fn check_steps(
    source: &mut dyn StepSource,
    (meter, progress): (&Meter, &mut OnProgress<'_>),
    take: &mut TakeFinding<'_>,
) -> Checked {
    let (checker, counted) = (Checker::new(source.coverage()), CheckedSteps::default());
    let mut sink = CheckSink { checker, counted, position: 0, is_open: true, left: STRIDE, meter, progress, take };
    let ended = source.follow(&mut sink);
    (sink.finish(), ended)
}

/// Check of steps that runs on another thread.
pub struct StepCheck {
    findings: Receiver<(u64, Finding)>,
    thread: JoinHandle<Checked>,
}

impl StepCheck {
    /// Starts to check the steps of a source.
    ///
    /// # Errors
    ///
    /// If there is no thread.
    pub fn start(mut source: OpenedSteps) -> io::Result<Self> {
        let (send, findings) = sync_channel(WAITING);
        let work = move || {
            let take = &mut |position, finding| send.send((position, finding)).is_ok();
            check_steps(&mut *source, (&Meter::default(), &mut |_, _| {}), take)
        };
        Ok(Self { findings, thread: thread::Builder::new().name("check".into()).spawn(work)? })
    }

    /// Passes on all findings, and waits for the end unless `take` wants no more of them.
    pub(super) fn join(self, take: &mut TakeFinding<'_>) -> Checked {
        if !self.findings.iter().all(|(position, finding)| take(position, finding)) {
            return (CheckedSteps::default(), Ok(()));
        }
        let failed = |_| SourceError::unreadable("the checking thread has failed");
        self.thread.join().unwrap_or_else(|error| (CheckedSteps::default(), Err(failed(error))))
    }
}

/// Checks steps and blocks, and reports progress.
struct CheckSink<'c, 'p, 't> {
    checker: Checker,
    counted: CheckedSteps,
    /// Position of the last step.
    position: u64,
    is_open: bool,
    left: u64,
    meter: &'c Meter,
    progress: &'c mut OnProgress<'p>,
    take: &'c mut TakeFinding<'t>,
}

impl CheckSink<'_, '_, '_> {
    fn finish(self) -> CheckedSteps {
        let Self { mut checker, counted, position, take, .. } = self;
        checker.finish(&mut |finding| {
            take(position, finding);
        });
        CheckedSteps { repeats: checker.repeats(), ..counted }
    }

    fn wants_more(&self) -> ControlFlow<()> {
        if self.is_open { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl BlockSink for CheckSink<'_, '_, '_> {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.counted.steps += 1;
        self.counted.gaps += u64::from(matches!(step.event, Event::Gap(_)));
        self.position = step.position;
        let Self { checker, is_open, take, .. } = self;
        checker.step(step, &mut |finding| *is_open &= take(step.position, finding));
        self.meter.tick(&mut self.left, STRIDE, self.progress);
        self.wants_more()
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        let instructions = trace.instructions() as u64;
        self.counted.steps += instructions;
        self.position = match trace.positions {
            Positions::From(first) => first + instructions.saturating_sub(1),
            Positions::Each(all) => all.last().copied().unwrap_or(self.position),
        };
        let Self { checker, is_open, take, .. } = self;
        checker.blocks(trace, &mut |position, finding| *is_open &= take(position, finding));
        self.meter.tick(&mut self.left, STRIDE, self.progress);
        self.wants_more()
    }

    fn wants_accesses(&self) -> bool {
        true
    }
}
