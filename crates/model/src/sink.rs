//! Where steps go to.

use std::io;

use crate::{Losses, Step};

/// Takes steps in order, and writes them as a format does.
pub trait StepSink {
    /// Takes one more. After an error nothing more may come.
    fn push(&mut self, step: &Step) -> Result<(), SinkError>;

    /// Ends what was written.
    fn finish(&mut self) -> Result<(), SinkError>;

    /// What of the steps so far is not in what was written.
    fn losses(&self) -> &Losses;
}

/// Why steps cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format could only say something untrue.
    #[error("{reason}")]
    Refused {
        /// Of which step, as the source counts; `None`: whatever the steps are.
        position: Option<u64>,
        /// Why, and what to do.
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
