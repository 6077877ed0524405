//! Time: announced, present from the start, and never decreasing.

use super::super::record::{Level, MICROSECONDS, Timestamp};
use super::report::Report;
use super::rules::RuleId;

/// Timestamps so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Time {
    /// Whether the Header announces Timestamps; `None` without a Header, or after it was found wrong.
    pub(super) is_announced: Option<bool>,
    /// A Context or Instruction came, so the first Timestamp was checked.
    pub(super) is_started: bool,
    /// There was a Timestamp.
    is_present: bool,
    last: Option<u64>,
    /// Number of consecutive Timestamps, not counting strings between them.
    in_a_row: u8,
}

impl Time {
    /// A Context or an Instruction follows.
    #[inline]
    pub(super) fn execution(&mut self, out: &mut Report<'_>) {
        self.in_a_row = 0;
        if !self.is_started {
            self.start(out);
        }
    }

    /// Another record follows that ends a row of Timestamps.
    pub(super) fn other(&mut self) {
        self.in_a_row = 0;
    }

    fn start(&mut self, out: &mut Report<'_>) {
        self.is_started = true;
        if self.is_announced == Some(true) && !self.is_present {
            out.add(RuleId::TimestampFirst, format_args!("execution starts without a Timestamp"));
        }
    }

    pub(super) fn timestamp(&mut self, record: Timestamp, level: Option<Level>, out: &mut Report<'_>) {
        if self.is_announced == Some(false) {
            out.add(RuleId::TimestampFlag, format_args!("the Header announces no Timestamps"));
            self.is_announced = None;
        }
        if record.unit != MICROSECONDS {
            out.add(RuleId::TimestampUnit, format_args!("the unit is {}", record.unit));
        }
        self.is_present = true;
        self.advance(record.value, out);
        self.count(level, out);
    }

    fn advance(&mut self, value: u64, out: &mut Report<'_>) {
        if value == u64::MAX {
            return out.add(RuleId::TimestampMaximum, format_args!("the value is {value:#x}"));
        }
        if let Some(last) = self.last.filter(|last| *last >= value) {
            out.add(RuleId::TimestampMonotonic, format_args!("the value is {value}, and the previous one was {last}"));
        }
        self.last = Some(value);
    }

    fn count(&mut self, level: Option<Level>, out: &mut Report<'_>) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row == 3 && level == Some(Level::BasicPlus) {
            out.add(RuleId::SuspendTimestamps, format_args!("the third Timestamp in a row"));
        }
    }
}
