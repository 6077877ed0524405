//! Consumers of steps.

use std::io;

use crate::{Losses, Step};

/// Consumer that writes steps in a format.
pub trait StepSink {
    /// Writes the next step. After an error, no further step may be pushed.
    fn push(&mut self, step: &Step) -> Result<(), SinkError>;

    /// Ends the trace.
    fn finish(&mut self) -> Result<(), SinkError>;

    /// Information of the steps so far that was not written.
    fn losses(&self) -> &Losses;
}

/// Reason why steps cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format cannot express the steps, and leaving something out would make the trace wrong.
    #[error("{reason}")]
    Refused {
        /// Position of the step in the source; `None`: it does not depend on a step.
        position: Option<u64>,
        /// The reason, and what to do.
        reason: String,
    },
}

impl<S: StepSink + ?Sized> StepSink for Box<S> {
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        (**self).push(step)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        (**self).finish()
    }

    fn losses(&self) -> &Losses {
        (**self).losses()
    }
}
