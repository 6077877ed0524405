//! Conversion between formats: the plan for every pair, and the transfer of steps.
//!
//! steps ─▶ **transfer** ─▶ sink of a format
//!
//! Within a format, records are copied and never become steps. Between formats, steps carry the facts that both formats
//! can express; facts that the target has no field for are counted, and a trace that it could only misrepresent is
//! refused. [`plan`] lists these beforehand.

pub mod native;
mod plan;
pub mod report;
mod sink;
mod split;

use std::ops::ControlFlow;

use unspool_model::{Losses, Pull, SinkError, SourceError, Step, StepSink};

pub use self::plan::{ConversionPlan, Format, Origin, plan, table};
pub use self::sink::{FileSink, OpenSinkError, SinkOptions};
pub use self::split::SplitSink;
use crate::OpenedSteps;

/// Why steps were not transferred.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The source failed, and not because the trace is damaged.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// They cannot be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The chosen core has no steps.
    #[error("there is no core {core}; {}", known(*others))]
    NoCore {
        /// Chosen core.
        core: u32,
        /// Highest core that has steps, counted from 0; `None`: there are no steps.
        others: Option<u32>,
    },
}

fn known(highest: Option<u32>) -> String {
    match highest {
        None => "the trace has no steps".to_string(),
        Some(0) => "the trace has core 0 only".to_string(),
        Some(highest) => format!("the trace has cores 0 to {highest}"),
    }
}

/// Totals of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transferred {
    /// Number of instructions.
    pub instructions: u64,
    /// Facts of the trace that no step carries, as far as it was read; not known of a transfer that was stopped.
    pub not_in_steps: Losses,
    /// Steps of other cores than the one that was chosen.
    pub other_cores: u64,
    /// Damage of the trace; everything before it was transferred. The sink is then not finished: a caller that wants to
    /// keep its contents finishes it.
    pub damage: Option<String>,
}

/// Transfers all steps of a source to a sink, or those of one core. `watch` sees each step, and can stop the transfer.
///
/// The source is read on a thread of its own, so that the slower of the two sets the pace.
pub fn transfer(
    source: OpenedSteps,
    core: Option<u32>,
    sink: &mut dyn StepSink,
    mut watch: impl FnMut(&Step, &dyn StepSink) -> ControlFlow<()>,
) -> Result<Transferred, TransferError> {
    let mut done = Transferred::default();
    let (mut is_met, mut others) = (core.is_none(), None);
    let mut steps = Pull::new(source).map_err(SourceError::unreadable)?;
    loop {
        let step = match steps.next_step() {
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(SourceError { text, is_damage: true, .. }) => {
                done.damage = Some(text);
                break;
            }
            Err(error) => return Err(error.into()),
        };
        if core.is_some_and(|core| core != step.core) {
            done.other_cores += 1;
            others = others.max(Some(step.core));
            continue;
        }
        is_met = true;
        done.instructions += u64::from(step.event.instruction().is_some());
        sink.push(step)?;
        if watch(step, sink).is_break() {
            return Ok(done);
        }
    }
    done.not_in_steps = steps.losses().clone();
    if let Some(core) = core.filter(|core| !is_met && (*core > 0 || others.is_some())) {
        return Err(TransferError::NoCore { core, others });
    }
    if done.damage.is_none() {
        sink.finish()?;
    }
    Ok(done)
}
