//! Producers of steps.

use std::ops::ControlFlow;

use crate::{BlockSink, Coverage, Losses, Step, TimeUnit};

/// Produces steps in order.
pub trait StepSource {
    /// The kinds of information that the steps may have.
    fn coverage(&self) -> Coverage;

    /// The unit of times.
    fn time_unit(&self) -> TimeUnit {
        TimeUnit::Unknown
    }

    /// Passes all steps to `take` until it breaks. To be called once.
    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError>;

    /// Passes the execution to a sink: the same steps, but whole blocks at once where the source can. An alternative to
    /// [`each`](Self::each).
    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        self.each(&mut |step| sink.step(step))
    }

    /// Information of the trace that was in no step, with positions as the source counts.
    fn losses(&self) -> Losses {
        Losses::default()
    }
}

/// Reason why a source ended early.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SourceError {
    /// The problem and its position.
    pub text: String,
    /// Whether the trace is damaged, and all steps before the damage were produced. If not, it could not be read.
    pub is_damage: bool,
    /// Position of the first damage, as the source counts: a record or a line. A compressed log has none.
    pub position: Option<u64>,
}

impl SourceError {
    /// The trace could not be read.
    #[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` passes on")]
    pub fn unreadable(reason: impl ToString) -> Self {
        Self { text: reason.to_string(), is_damage: false, position: None }
    }
}

impl<S: StepSource + ?Sized> StepSource for Box<S> {
    fn coverage(&self) -> Coverage {
        (**self).coverage()
    }

    fn time_unit(&self) -> TimeUnit {
        (**self).time_unit()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        (**self).each(take)
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        (**self).follow(sink)
    }

    fn losses(&self) -> Losses {
        (**self).losses()
    }
}
