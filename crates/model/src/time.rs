//! Units of time.

/// Unit of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeUnit {
    /// Ticks of unknown length.
    #[default]
    Unknown,
    /// Cycles of a clock of unknown frequency.
    Cycles,
    /// A power of ten of a second: -6 for microseconds.
    Seconds(i8),
}

impl TimeUnit {
    /// Microseconds.
    pub const MICROSECONDS: Self = Self::Seconds(-6);

    /// Converts a time of this unit to another one, rounded down; `None`: the units are unrelated, or it overflows.
    pub fn convert(self, time: u64, to: Self) -> Option<u64> {
        match (self, to) {
            (Self::Seconds(from), Self::Seconds(to)) => {
                let powers = i32::from(from) - i32::from(to);
                let factor = 10_u64.checked_pow(powers.unsigned_abs());
                if time == 0 {
                    // Zero is the same in every unit.
                    Some(0)
                } else if powers < 0 {
                    Some(factor.map_or(0, |factor| time / factor))
                } else {
                    factor.and_then(|factor| time.checked_mul(factor))
                }
            }
            _ => (self == to).then_some(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TimeUnit::{Cycles, Seconds, Unknown};

    #[test]
    fn times_convert_between_units() {
        let rows = [
            (Seconds(-9), 1_999, Seconds(-6), Some(1)),
            (Seconds(-6), 3, Seconds(-9), Some(3000)),
            (Seconds(0), u64::MAX, Seconds(-9), None),
            (Seconds(-120), 5, Seconds(0), Some(0)),
            (Seconds(99), 5, Seconds(0), None),
            (Seconds(99), 0, Seconds(0), Some(0)),
            (Cycles, 0, Seconds(0), None),
            (Cycles, 7, Cycles, Some(7)),
            (Cycles, 7, Seconds(-6), None),
            (Unknown, 7, Cycles, None),
        ];
        for (from, time, to, expected) in rows {
            assert_eq!(from.convert(time, to), expected, "{time} {from:?} in {to:?}");
        }
    }
}
