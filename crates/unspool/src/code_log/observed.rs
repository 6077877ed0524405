//! A value that was seen at times, and the times at which it changed.
//!
//! ```text
//! cores         X....X    X       Y..Y        sightings: X from 1 to 9, Y from 16 to 19
//! exceptions                 |  |             the second one ends at 14: Y is there from 14 on
//! ```
//!
//! A change is between the last time of one value and the first of the next. Trace has timestamps after exceptions and exception
//! returns, and a change is certain for what follows a timestamp: so it is best placed right there.

/// A time of a step, if it has one, and that of the first instruction after the last exception or exception return before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) time: Option<u64>,
    pub(super) synchronized: u64,
}

/// A value, and the times between which nothing else was seen, in the order of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sighting<T> {
    pub(super) value: T,
    pub(super) first: u64,
    pub(super) last: u64,
    synchronized: u64,
}

impl<T> Sighting<T> {
    pub(super) fn new(value: T, moment: Moment) -> Self {
        let time = moment.time.unwrap_or(0);
        Self { value, first: time, last: time, synchronized: moment.synchronized }
    }

    /// The value is seen again.
    #[inline]
    pub(super) fn extend(&mut self, moment: Moment) {
        let time = moment.time.unwrap_or(0);
        self.last = self.last.max(time);
        if time < self.first {
            (self.first, self.synchronized) = (time, moment.synchronized);
        }
    }
}

/// The history of a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Observed<T> {
    /// The value at the start, without a time, and each later one.
    pub(super) changes: Vec<(Option<u64>, T)>,
    /// No two sightings of different values overlap.
    pub(super) is_ordered: bool,
}

impl<T: Copy + PartialEq> Observed<T> {
    pub(super) fn new(sightings: impl Iterator<Item = Sighting<T>>) -> Self {
        let mut sightings: Vec<Sighting<T>> = sightings.collect();
        sightings.sort_by_key(|sighting| sighting.first);
        let mut observed = Self { changes: Vec::new(), is_ordered: true };
        let mut before: Option<Sighting<T>> = None;
        for sighting in sightings {
            before = Some(match before {
                Some(before) if before.value == sighting.value => {
                    Sighting { last: before.last.max(sighting.last), ..before }
                }
                Some(before) => {
                    observed.is_ordered &= before.last < sighting.first;
                    observed.changes.push((Some(time_between(&before, &sighting)), sighting.value));
                    sighting
                }
                None => {
                    observed.changes.push((None, sighting.value));
                    sighting
                }
            });
        }
        observed
    }
}

/// The time of the change: after an exception where there was one, otherwise in the middle.
fn time_between<T>(before: &Sighting<T>, after: &Sighting<T>) -> u64 {
    if after.synchronized > before.last && after.synchronized <= after.first {
        return after.synchronized;
    }
    before.last + after.first.saturating_sub(before.last).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(value: char, first: u64, last: u64, synchronized: u64) -> Sighting<char> {
        Sighting { value, first, last, synchronized }
    }

    #[test]
    fn changes_are_between_sightings() {
        type Row<'a> = (&'a str, &'a [Sighting<char>], &'a [(Option<u64>, char)], bool);
        let rows: &[Row<'_>] = &[
            ("one value", &[sighting('x', 5, 9, 2)], &[(None, 'x')], true),
            (
                "after an exception return",
                &[sighting('x', 1, 9, 0), sighting('y', 16, 19, 14)],
                &[(None, 'x'), (Some(14), 'y')],
                true,
            ),
            (
                "no exception between",
                &[sighting('x', 1, 9, 0), sighting('y', 16, 19, 9)],
                &[(None, 'x'), (Some(13), 'y')],
                true,
            ),
            (
                "and back",
                &[sighting('x', 1, 2, 0), sighting('y', 3, 4, 0), sighting('x', 5, 6, 5)],
                &[(None, 'x'), (Some(3), 'y'), (Some(5), 'x')],
                true,
            ),
            (
                "in another order, by another core",
                &[
                    sighting('x', 10, 90, 0),
                    sighting('y', 100, 120, 0),
                    sighting('x', 60, 60, 0),
                    sighting('y', 130, 130, 0),
                ],
                &[(None, 'x'), (Some(95), 'y')],
                true,
            ),
            (
                "overlapping",
                &[sighting('x', 10, 90, 0), sighting('y', 60, 60, 0)],
                &[(None, 'x'), (Some(90), 'y')],
                false,
            ),
        ];
        for (name, sightings, expected, is_ordered) in rows {
            let observed = Observed::new(sightings.iter().copied());
            assert_eq!((observed.changes.as_slice(), observed.is_ordered), (*expected, *is_ordered), "{name}");
        }
    }

    #[test]
    fn the_first_time_has_its_exception() {
        let mut seen = Sighting::new('x', Moment { time: Some(10), synchronized: 8 });
        seen.extend(Moment { time: Some(20), synchronized: 18 });
        assert_eq!(seen, sighting('x', 10, 20, 8));
        seen.extend(Moment { time: Some(5), synchronized: 3 });
        assert_eq!(seen, sighting('x', 5, 20, 3));
    }
}
