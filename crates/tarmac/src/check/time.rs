//! Checks of timestamps: presence, notation and order.

use super::super::record::{Line, Record, Stamp, Time, Unit};
use super::findings::FindingSink;
use super::header::Headers;
use super::rules::RuleId;

/// The column in which times end.
const END: usize = 11;

/// State of the time checks.
#[derive(Debug, Default)]
pub(super) struct Times {
    unit: Option<Unit>,
}

impl Times {
    /// Checks the timestamp of a Rev 3 line.
    pub(super) fn rev3(&mut self, line: &Line<'_>, is_start: bool, headers: &Headers, out: &mut FindingSink<'_>) {
        match (line.stamp, headers.has_times) {
            (Stamp::Absent, Some(true)) if is_start => {
                out.add(RuleId::TimeMissing, format_args!("a step without a time"));
            }
            (Stamp::At(_) | Stamp::Dashes, Some(false)) => {
                let detail = format_args!("a line with a time, but the header has no flag t");
                out.add_once(RuleId::TimeUnannounced, detail);
            }
            (Stamp::At(_), _) if !is_start && !matches!(line.record, Record::Event(_)) => {
                out.add_once(RuleId::TimeInStep, format_args!("a time in a line that is not the first of its step"));
            }
            _ => {}
        }
        if let Stamp::At(time) = line.stamp {
            check_form(time, line.raw, out);
        }
        self.any(line, out);
    }

    /// Checks the timestamp of a line in any dialect.
    pub(super) fn any(&mut self, line: &Line<'_>, out: &mut FindingSink<'_>) {
        let Stamp::At(time) = line.stamp else { return };
        if let Some(unit) = self.unit.filter(|unit| *unit != time.unit) {
            let (new, old) = (name(time.unit), name(unit));
            out.add(RuleId::TimeUnitChange, format_args!("the unit changes from {old} to {new}"));
        }
        self.unit = Some(time.unit);
    }
}

fn check_form(time: Time, raw: &[u8], out: &mut FindingSink<'_>) {
    let blanks = raw.iter().take_while(|byte| **byte == b' ').count();
    let digits = raw.iter().skip(blanks).take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    if time.decimals > 0 {
        out.add_once(RuleId::TimeDecimals, format_args!("the time has decimals"));
    } else if blanks + digits != END && digits <= END {
        let end = blanks + digits;
        out.add_once(RuleId::TimeColumns, format_args!("the time ends in column {end}"));
    }
    if matches!(time.unit, Unit::Cs | Unit::Cyc | Unit::None) {
        out.add_once(RuleId::TimeUnit, format_args!("the unit is {}", name(time.unit)));
    }
}

fn name(unit: Unit) -> &'static str {
    if unit == Unit::None { "missing" } else { unit.name() }
}
