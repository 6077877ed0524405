//! Times of a log as integers in the unit of its first timestamp.

use unspool_model::TimeUnit;

use super::record::{Time, Unit};

/// Unit and decimals of the first timestamp, in which times are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    scale: Option<(Unit, u8)>,
}

impl Clock {
    /// A clock in the unit of this time.
    pub(super) fn of(first: Option<Time>) -> Self {
        Self { scale: first.map(|time| (time.unit, time.decimals)) }
    }

    /// The unit; `None` before the first timestamp.
    pub fn unit(&self) -> Option<Unit> {
        self.scale.map(|(unit, _)| unit)
    }

    /// Number of decimals in a count.
    pub fn decimals(&self) -> u8 {
        self.scale.map_or(0, |(_, decimals)| decimals)
    }

    /// A time as an integer. A unit that cannot be converted is ignored.
    #[inline]
    pub fn count(&mut self, time: Time) -> u64 {
        let (unit, decimals) = *self.scale.get_or_insert((time.unit, time.decimals));
        if unit == time.unit && decimals == time.decimals { time.value } else { converted(time, unit, decimals) }
    }
}

/// Converts a time to another power of ten.
fn converted(time: Time, unit: Unit, decimals: u8) -> u64 {
    let powers = time.unit.power().zip(unit.power()).map_or(0, |(from, to)| i32::from(from - to));
    let powers = powers + i32::from(decimals) - i32::from(time.decimals);
    let factor = 10_u64.saturating_pow(powers.unsigned_abs());
    if powers < 0 { time.value / factor } else { time.value.saturating_mul(factor) }
}

/// The unit of counted times, given the first timestamp.
pub fn time_unit(first: Time) -> TimeUnit {
    match (first.unit, first.unit.power()) {
        (_, Some(power)) => power.checked_sub_unsigned(first.decimals).map_or(TimeUnit::Unknown, TimeUnit::Seconds),
        // The length of a simulator tick is unspecified.
        (Unit::Tic | Unit::None, None) => TimeUnit::Unknown,
        _ => TimeUnit::Cycles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let rows = [
            (0, Unit::Us, TimeUnit::MICROSECONDS),
            (6, Unit::Us, TimeUnit::Seconds(-12)),
            (0, Unit::S, TimeUnit::Seconds(0)),
            (200, Unit::Fs, TimeUnit::Unknown),
            (0, Unit::Clk, TimeUnit::Cycles),
            (0, Unit::Cs, TimeUnit::Cycles),
            (0, Unit::Cyc, TimeUnit::Cycles),
            (0, Unit::Tic, TimeUnit::Unknown),
            (0, Unit::None, TimeUnit::Unknown),
        ];
        for (decimals, unit, expected) in rows {
            assert_eq!(time_unit(Time { value: 1, decimals, unit }), expected, "{unit:?} with {decimals} decimals");
        }
    }

    #[test]
    fn times_are_counted_in_the_first_unit() {
        let rows = [
            ((10, 0, Unit::Ns), (3, 0, Unit::Ns), 3),
            ((10, 0, Unit::Ns), (3, 0, Unit::Us), 3000),
            ((10, 0, Unit::Ns), (3_500, 0, Unit::Ps), 3),
            ((10_356_000, 6, Unit::Us), (11, 0, Unit::Us), 11_000_000),
            ((10, 0, Unit::Clk), (11, 0, Unit::Ns), 11),
            ((1, 0, Unit::Fs), (u64::MAX, 0, Unit::S), u64::MAX),
        ];
        for (first, second, expected) in rows {
            let time = |(value, decimals, unit)| Time { value, decimals, unit };
            let mut clock = Clock::default();
            assert_eq!(clock.count(time(first)), first.0);
            assert_eq!(clock.count(time(second)), expected, "{second:?} after {first:?}");
            assert_eq!((clock.unit(), clock.decimals()), (Some(first.2), first.1));
        }
    }
}
