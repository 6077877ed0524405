//! Conversion of times to a unit that Tarmac has a name for.

use unspool_model::TimeUnit;

use super::super::clock::time_unit;
use super::super::record::{Time, Unit};
use super::super::write::Style;

/// Conversion from the unit of a source to the unit of the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    unit: Unit,
    decimals: u8,
    multiply: Option<u64>,
    divide: Option<u64>,
}

impl Scale {
    /// The closest unit that the style can write. Rev 3 has no decimals, so it uses the next finer unit.
    pub(super) fn new(unit: TimeUnit, style: Style) -> Self {
        let whole = |unit| Self { unit, decimals: 0, multiply: Some(1), divide: Some(1) };
        let power = match unit {
            TimeUnit::Unknown => return whole(Unit::Tic),
            TimeUnit::Cycles => return whole(Unit::Clk),
            TimeUnit::Seconds(power) => power,
        };
        let factor = |powers: i8| 10_u64.checked_pow(u32::from(powers.unsigned_abs()));
        if power > 0 {
            return Self { multiply: factor(power), ..whole(Unit::S) };
        }
        let units = || Unit::ALL.iter().filter_map(|unit| unit.power().map(|power| (power, *unit)));
        let coarser = units().rfind(|(unit, _)| *unit >= power);
        let finer = units().find(|(unit, _)| *unit <= power);
        match (style, coarser, finer) {
            (Style::FastModels, Some((unit, name)), _) => Self { decimals: unit.abs_diff(power), ..whole(name) },
            (_, _, Some((unit, name))) => Self { multiply: factor(power - unit), ..whole(name) },
            _ => Self { divide: factor(power + 15), ..whole(Unit::Fs) },
        }
    }

    /// The unit of time that a reader of the log sees.
    pub(super) fn unit(&self) -> TimeUnit {
        time_unit(self.time(0))
    }

    /// Whether times are written unchanged.
    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        (self.multiply, self.divide) == (Some(1), Some(1))
    }

    /// A time in the unit of the log; `None`: it overflows.
    pub(super) fn count(&self, time: u64) -> Option<u64> {
        let divided = self.divide.map_or(0, |divide| time / divide);
        if divided == 0 { Some(0) } else { divided.checked_mul(self.multiply?) }
    }

    pub(super) fn drops_digits(&self, time: u64) -> bool {
        self.divide.map_or(time, |divide| time % divide) != 0
    }

    /// A scaled time as a record.
    #[inline]
    pub(super) fn time(&self, count: u64) -> Time {
        Time { value: count, decimals: self.decimals, unit: self.unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_scaled_to_a_tarmac_unit() {
        let seconds = TimeUnit::Seconds;
        let rows = [
            (TimeUnit::Cycles, Style::Rev3, 7, (Some(7), 0, Unit::Clk), TimeUnit::Cycles),
            (TimeUnit::Unknown, Style::FastModels, 7, (Some(7), 0, Unit::Tic), TimeUnit::Unknown),
            (seconds(-9), Style::Rev3, 7, (Some(7), 0, Unit::Ns), seconds(-9)),
            (seconds(-7), Style::FastModels, 7, (Some(7), 1, Unit::Us), seconds(-7)),
            (seconds(-7), Style::Rev3, 7, (Some(700), 0, Unit::Ns), seconds(-9)),
            (seconds(-7), Style::Rev3, u64::MAX, (None, 0, Unit::Ns), seconds(-9)),
            (seconds(2), Style::FastModels, 7, (Some(700), 0, Unit::S), seconds(0)),
            (seconds(100), Style::FastModels, 7, (None, 0, Unit::S), seconds(0)),
            (seconds(-17), Style::FastModels, 7, (Some(7), 2, Unit::Fs), seconds(-17)),
            (seconds(-17), Style::Rev3, 765, (Some(7), 0, Unit::Fs), seconds(-15)),
            (seconds(-128), Style::Rev3, 7, (Some(0), 0, Unit::Fs), seconds(-15)),
        ];
        for (unit, style, time, (count, decimals, name), read) in rows {
            let scale = Scale::new(unit, style);
            assert_eq!((scale.count(time), scale.decimals, scale.unit), (count, decimals, name), "{unit:?}");
            assert_eq!(scale.unit(), read, "{unit:?}");
        }
        assert!(Scale::new(seconds(-17), Style::Rev3).drops_digits(765));
        assert!(!Scale::new(seconds(-17), Style::Rev3).drops_digits(700));
    }
}
