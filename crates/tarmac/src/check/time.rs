//! Times: whether they are there, how they are written, and that they do not go back.

use super::super::record::{Line, Record, Stamp, Time, Unit};
use super::Out;
use super::header::Headers;
use super::rules::RuleId;

/// Where times end.
const END: usize = 11;

/// What is known of the times of a log.
#[derive(Debug, Default)]
pub(super) struct Times {
    unit: Option<Unit>,
}

impl Times {
    /// The time of a line, as Rev 3 wants it.
    pub(super) fn rev3(&mut self, line: &Line<'_>, is_start: bool, headers: &Headers, out: &mut Out<'_>) {
        match (line.stamp, headers.has_times) {
            (Stamp::Absent, Some(true)) if is_start => {
                out.add(RuleId::TimeMissing, format_args!("a step without a time"));
            }
            (Stamp::At(_) | Stamp::Dashes, Some(false)) => {
                let detail = format_args!("a line with a time, and the header has no flag t");
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

    /// The time of a line, whoever wrote it.
    pub(super) fn any(&mut self, line: &Line<'_>, out: &mut Out<'_>) {
        let Stamp::At(time) = line.stamp else { return };
        if let Some(unit) = self.unit.filter(|unit| *unit != time.unit) {
            let (new, old) = (name(time.unit), name(unit));
            out.add(RuleId::TimeUnitChange, format_args!("the unit becomes {new}, and was {old}"));
        }
        self.unit = Some(time.unit);
    }
}

fn check_form(time: Time, raw: &[u8], out: &mut Out<'_>) {
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
    if unit == Unit::None { "not said" } else { unit.name() }
}
