//! Integration tests of the analyses, in one binary to link only once.

mod calls;
mod check;
mod diff;
mod diff_blocks;
mod join;
mod stats;

use std::ops::ControlFlow;

use unspool_model::{Coverage, Event, SourceError, Step, StepSource};

/// A step with this event.
fn event(event: Event) -> Step {
    let mut step = Step::default();
    step.event = event;
    step
}

/// A source of these steps, which may end with an error.
struct Source {
    coverage: Coverage,
    steps: Vec<Step>,
    failure: Option<SourceError>,
}

impl StepSource for Source {
    fn coverage(&self) -> Coverage {
        self.coverage
    }

    fn each(&mut self, sink: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        match self.steps.iter().try_for_each(sink) {
            ControlFlow::Break(()) => Ok(()),
            ControlFlow::Continue(()) => self.failure.take().map_or(Ok(()), Err),
        }
    }
}
