//! Places in a trace that reading can start at, without an index: found by one pass, and kept in memory.
//!
//! steps with points ─▶ **points**, each with its number of instructions ─▶ steps from the last one before an instruction
//!
//! An index also has what registers, memory and addresses are where, which takes many times as long to find.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use unspool_model::{Context, Event, SourceError, Step};
use unspool_tarmac::index::{ResumeSteps as _, SegmentAt};

use super::{TakePoints, TraceSegments};

/// Points of a source.
#[derive(Debug)]
pub struct StepPoints {
    segments: TraceSegments,
    points: Vec<Point>,
    /// Number of instructions of the source.
    pub instructions: u64,
}

/// A place that reading can start at.
#[derive(Debug)]
struct Point {
    /// Number of instructions before it.
    instructions: u64,
    offset: u64,
    resume: Vec<u8>,
    /// Contexts of the cores, by their numbers.
    contexts: Vec<(u32, Context)>,
}

/// Points that are being found.
#[derive(Debug)]
pub(super) struct FoundPoints {
    /// Number of instructions that points are apart, at least.
    distance: u64,
    points: Vec<Point>,
    contexts: BTreeMap<u32, Context>,
    instructions: u64,
}

impl TakePoints for FoundPoints {
    #[inline]
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        match &step.event {
            Event::Instruction(_) => self.instructions += 1,
            Event::Context(context) => {
                let before = self.contexts.get(&step.core).copied().unwrap_or_default();
                self.contexts.insert(step.core, context.over(&before));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn point(&mut self, offset: u64, resume: Vec<u8>) -> ControlFlow<()> {
        let is_far = self.points.last().is_none_or(|last| self.instructions - last.instructions >= self.distance);
        if is_far && self.instructions > 0 {
            let contexts = self.contexts.iter().map(|(core, context)| (*core, *context)).collect();
            self.points.push(Point { instructions: self.instructions, offset, resume, contexts });
        }
        ControlFlow::Continue(())
    }
}

impl FoundPoints {
    pub(super) fn new(distance: u64) -> Self {
        Self { distance, points: Vec::new(), contexts: BTreeMap::new(), instructions: 0 }
    }

    /// The points, with what reads the trace from them. `None`: there are none.
    pub(super) fn finish(self, segments: TraceSegments) -> Option<StepPoints> {
        let Self { points, instructions, .. } = self;
        (!points.is_empty()).then_some(StepPoints { segments, points, instructions })
    }
}

impl StepPoints {
    /// Passes on steps until `take` breaks, each with the number of instructions up to and including it. They start close
    /// before an instruction, after the contexts of the cores.
    ///
    /// # Errors
    ///
    /// If the trace is damaged or cannot be read.
    pub fn each_step_from(
        &mut self,
        instruction: u64,
        take: &mut dyn FnMut(u64, &Step) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let after = self.points.partition_point(|point| point.instructions < instruction);
        let point = after.checked_sub(1).and_then(|last| self.points.get(last));
        let (mut count, offset, resume) = match point {
            Some(point) => (point.instructions, point.offset, &point.resume[..]),
            None => (0, 0, &[][..]),
        };
        let mut step = Step::default();
        for (core, context) in point.into_iter().flat_map(|point| &point.contexts) {
            (step.core, step.event) = (*core, Event::Context(*context));
            if take(count, &step).is_break() {
                return Ok(());
            }
        }
        self.segments.each_from(&SegmentAt::to_continue(offset, resume), &mut |step| {
            count += u64::from(step.event.instruction().is_some());
            take(count, step)
        })
    }
}
