//! What times are counted in.

/// What times are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeUnit {
    /// Ticks, and nobody says how long they are.
    #[default]
    Unknown,
    /// Cycles of a clock, and nobody says how fast it is.
    Cycles,
    /// A power of ten of a second: -6 are microseconds.
    Seconds(i8),
}

impl TimeUnit {
    /// Microseconds.
    pub const MICROSECONDS: Self = Self::Seconds(-6);

    /// A time of this unit in another one, rounded down; `None`: there is no relation, or it is too large.
    pub fn convert(self, time: u64, to: Self) -> Option<u64> {
        match (self, to) {
            (Self::Seconds(from), Self::Seconds(to)) => {
                let powers = i32::from(from) - i32::from(to);
                let factor = 10_u64.checked_pow(powers.unsigned_abs());
                if time == 0 {
                    // It is the same in every unit.
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
    fn times_are_converted() {
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
