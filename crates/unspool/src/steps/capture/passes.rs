//! Passes over one source of a capture, on all cores.
//!
//! ```text
//! buffer ─▶ shards ─▶ blocks and steps ─▶ a pass for each shard ─▶ merged in order
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use unspool_analyze::pass::{Pass, Seam};
use unspool_coresight::Transactions;
use unspool_coresight::frame::FrameError;
use unspool_flow::{FlowItem, FlowSink, Run};
use unspool_model::{BlockSink, Context, Gap, SourceError, Step};

use super::{BlockBatch, BlockEmitter, CaptureSteps, StepEmitter};
use crate::{Error, Parts, PresentIds, Program, Progress, Trace, Watch};

impl CaptureSteps {
    /// Runs a pass over all steps; `make` makes one for each shard. The result does not depend on the number of threads.
    ///
    /// # Errors
    ///
    /// If a buffer cannot be read.
    pub fn run_pass<P: Pass>(&mut self, parts: Parts, make: impl Fn() -> P + Sync) -> Result<P, SourceError> {
        let mut whole = make();
        self.run_pass_into(&mut whole, parts, make)?;
        Ok(whole)
    }

    /// As [`run_pass`](Self::run_pass); what the shards find is merged into `whole`.
    ///
    /// # Errors
    ///
    /// If a buffer cannot be read.
    pub fn run_pass_into<P: Pass>(
        &mut self,
        whole: &mut P,
        parts: Parts,
        make: impl Fn() -> P + Sync,
    ) -> Result<(), SourceError> {
        let all = Trace::all(&self.capture);
        let (time_unit, core, bytes_read) = (self.time_unit, self.core, Arc::clone(&self.bytes_read));
        let start = |trace: &Trace<'_>| {
            let mut steps = StepEmitter::new(time_unit, make());
            steps.core = core;
            steps.start(trace);
            Shard { steps, batch: BlockBatch::default() }
        };
        let mut present = PresentIds::default();
        for trace in self.traces.iter().filter_map(|at| all.get(*at)).filter(|trace| present.may_have(trace)) {
            let (mut read, mut end) = (0, End::default());
            let mut take = |shard: Shard<P>, now: u64| {
                bytes_read.fetch_add(now - read, Ordering::Relaxed);
                read = now;
                let StepEmitter { sink, losses, .. } = shard.finish(&mut end);
                self.losses.add_all(&losses);
                whole.merge(sink, end.seam);
            };
            run_on(trace, &self.program, parts, &|| start(trace), &mut take).map_err(SourceError::unreadable)?;
        }
        Ok(())
    }
}

impl CaptureSteps {
    /// Whether a pass runs on shards. If not, a buffer is one shard.
    pub fn can_be_sharded(&self) -> bool {
        let all = Trace::all(&self.capture);
        let is_sharded = |trace: &Trace<'_>| {
            let mut steps = StepEmitter::new(self.time_unit, |_: &Step| ControlFlow::Continue(()));
            steps.start(trace);
            trace.can_be_sharded(Transactions::Show).unwrap_or(false) && !is_in_order(&self.program, &steps)
        };
        self.traces.iter().filter_map(|at| all.get(*at)).all(is_sharded)
    }
}

/// Only in order can system events be applied, cycles be summed up, and data be joined to instructions.
pub(super) fn is_in_order<S: BlockSink>(program: &Program, steps: &StepEmitter<S>) -> bool {
    program.has_processes() || steps.counts_cycles || steps.needs_instructions()
}

/// Reads one buffer. `take` gets the shards in order, with the bytes read so far.
fn run_on<P: Pass>(
    trace: &Trace<'_>,
    program: &Program,
    parts: Parts,
    start: &(impl Fn() -> Shard<P> + Sync),
    take: &mut impl FnMut(Shard<P>, u64),
) -> Result<(), Error> {
    let mut shard = start();
    if is_in_order(program, &shard.steps) {
        shard.steps.follow(trace, program, &mut shard.batch)?;
        take(shard, trace.buffer().len());
        return Ok(());
    }
    let mut take_shard = |shard, progress: Progress| {
        take(shard, progress.read);
        true
    };
    // With at least two threads, the trace is split in the same way for any number of them.
    let parts = parts.on_at_least(2);
    trace.flow_in_parts(parts, Transactions::Show, program, start, &mut take_shard).map(drop)
}

/// How a shard ended, and how it is joined to the one before it.
#[derive(Default)]
struct End {
    context: Option<Context>,
    gap: Option<Gap>,
    seam: Seam,
}

impl End {
    fn follow<P>(&mut self, shard: &StepEmitter<P>) {
        let first = shard.first;
        self.seam = Seam {
            repeats_context: first.context.is_some() && first.context == self.context,
            repeats_gap: first.gap.filter(|_| first.gap == self.gap),
        };
        if first.has_context {
            self.context = shard.context;
        }
        if first.is_past {
            self.gap = shard.gap;
        }
    }
}

/// A part of a buffer, with its pass.
struct Shard<P> {
    steps: StepEmitter<P>,
    batch: BlockBatch,
}

impl<P: Pass> Shard<P> {
    fn emitter(&mut self) -> BlockEmitter<'_, P> {
        BlockEmitter { steps: &mut self.steps, batch: &mut self.batch }
    }

    /// Ends the shard; `end` is that of the shard before it, and becomes that of this one.
    fn finish(mut self, end: &mut End) -> StepEmitter<P> {
        self.emitter().end();
        end.follow(&self.steps);
        self.steps.end();
        self.steps
    }
}

impl<P: Pass> FlowSink for Shard<P> {
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        self.emitter().run(run);
    }

    fn item(&mut self, item: FlowItem) {
        self.emitter().item(item);
    }
}

impl<P: Pass> Watch for Shard<P> {
    fn lost(&mut self, error: FrameError) {
        self.emitter().lost(error);
    }
}
