//! Where steps come from.

use std::ops::ControlFlow;

use crate::{BlockSink, Coverage, Losses, Step, TimeUnit};

/// Hands out steps in order.
pub trait StepSource {
    /// What steps can ever tell.
    fn coverage(&self) -> Coverage;

    /// What times are counted in.
    fn time_unit(&self) -> TimeUnit {
        TimeUnit::Unknown
    }

    /// Hands out steps until there are no more or `take` breaks. Is called once.
    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError>;

    /// Hands out where execution went: the same steps, but whole blocks at once where the source can. Replaces
    /// [`each`](Self::each).
    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        self.each(&mut |step| sink.step(step))
    }

    /// What of the trace was in none of the steps that were handed out. First places are as the source counts.
    fn losses(&self) -> Losses {
        Losses::default()
    }
}

/// Why no more steps come.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SourceError {
    /// What was found, and where.
    pub text: String,
    /// The trace is damaged; everything before was handed out. Else we could not read it.
    pub is_damage: bool,
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
