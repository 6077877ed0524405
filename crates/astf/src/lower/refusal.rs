//! Refusals of a step or a whole trace, with advice for the user.

use unspool_model::SinkError;

use super::super::builder::BuildError;

/// Refuses the step at this position.
pub(super) fn refuse<T>(position: u64, reason: &str) -> Result<T, SinkError> {
    Err(SinkError::Refused { position: Some(position), reason: reason.into() })
}

/// Refuses the whole trace.
pub(super) fn refuse_trace<T>(reason: &str) -> Result<T, SinkError> {
    Err(SinkError::Refused { position: None, reason: reason.into() })
}

/// The refusal of the builder, with advice.
#[cold]
pub(super) fn refusal(error: BuildError, position: Option<u64>) -> SinkError {
    let advice = match &error {
        BuildError::TimestampMissing => ": the source reports no time for the first steps",
        BuildError::Discontinuity { .. } => ": instructions are missing; write a Basic trace or cut it here",
        BuildError::OtherLevel { .. } => ": write a BasicPlus trace",
        BuildError::ContextMissing => ": the source does not report the state",
        BuildError::Rule { rule, .. } if rule.name == "astf-memory-ea-valid" => {
            ": the source does not report the access"
        }
        _ => "",
    };
    match error {
        BuildError::Io(error) => SinkError::Io(error),
        error => SinkError::Refused { position, reason: format!("{error}{advice}") },
    }
}
