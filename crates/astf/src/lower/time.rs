//! Times of steps as timestamps: microseconds that never decrease.

use unspool_model::{Loss, SinkError, Step, TimeUnit};

use super::super::builder::{BuildError, RecordSink};
use super::Lowerer;
use super::refusal::refusal;

impl<S: RecordSink> Lowerer<S> {
    /// Advances to the time of a step.
    pub(super) fn advance(&mut self, step: &Step) -> Result<(), SinkError> {
        self.advance_to(step.time, step.position).map_err(|error| refusal(error, Some(step.position)))
    }

    #[inline]
    pub(super) fn advance_to(&mut self, time: Option<u64>, position: u64) -> Result<(), BuildError> {
        if time.is_none() || time == self.time { Ok(()) } else { self.change_time(time.unwrap_or(0), position) }
    }

    fn change_time(&mut self, time: u64, position: u64) -> Result<(), BuildError> {
        self.time = Some(time);
        let stamp = self.unit.convert(time, TimeUnit::MICROSECONDS).filter(|stamp| self.has_times && *stamp < u64::MAX);
        let Some(stamp) = stamp.filter(|stamp| self.timestamp.is_none_or(|last| last <= *stamp)) else {
            self.losses.add(Loss::Times, position);
            return Ok(());
        };
        if TimeUnit::MICROSECONDS.convert(stamp, self.unit) != Some(time) {
            self.losses.add(Loss::TimeDigits, position);
        }
        if self.timestamp == Some(stamp) {
            return Ok(());
        }
        // The first one precedes all contexts.
        if self.known.waits() && !self.is_unsupported && self.timestamp.is_some() {
            self.put_context()?;
        }
        self.timestamp = Some(stamp);
        self.builder.timestamp(stamp)
    }

    /// Whether these are different microseconds.
    pub(super) fn is_other_time(&self, one: Option<u64>, other: Option<u64>) -> bool {
        let stamp = |time: Option<u64>| time.and_then(|time| self.unit.convert(time, TimeUnit::MICROSECONDS));
        self.has_times && stamp(one) != stamp(other)
    }
}
