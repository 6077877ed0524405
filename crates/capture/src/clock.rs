//! Clocks: what a timestamp of the trace is in seconds, and on the clock of the system events.
//!
//! metadata of a package, registers of a core, TIME_CONV of perf ─▶ **clock** ─▶ nanoseconds, windows of event times
//!
//! Both clocks count time in whole ticks, so that a conversion has a remainder: it gives a window of times, in which the
//! order is not known, and never one that is too small. Arithmetic is exact. Knows neither packets nor events.

use std::ops::RangeInclusive;

use crate::capture::{Capture, Extra, Source};
use crate::device::read_number;
use crate::ini::{Section, number};
use crate::note::{Location, NoteKind};

const NANOSECONDS: u64 = 1_000_000_000;

/// Section of a package with the keys of the clock.
const SECTION: &str = "timestamp";
/// Timestamps per second. Snapshots of other tools have this key too.
const FREQUENCY: &str = "frequency";
/// How the clock of the event log is related to timestamps.
const EVENT_CLOCK: &str = "event_clock";
const EVENT_FREQUENCY: &str = "event_frequency";
const EVENT_OFFSET: &str = "event_offset";
/// The conversion of perf, with its names.
const TIME_SHIFT: &str = "time_shift";
const TIME_MULT: &str = "time_mult";
const TIME_ZERO: &str = "time_zero";

/// Key of the frequency in the section of a source.
const SOURCE_FREQUENCY: &str = "timestamp_frequency";

/// Register of an STM with the frequency of its timestamps; 0 if it was never set.
const STM_FREQUENCY: &str = "STMTSFREQR";

/// Register with the frequency of the generic timer.
const TIMER_FREQUENCY: [&str; 2] = ["CNTFRQ_EL0", "CNTFRQ"];

/// Register that perf adds to those of a trace unit, and its value for the virtual counter, which is that of TIME_CONV.
const TS_SOURCE: &str = "TS_SOURCE";
const VIRTUAL: u64 = 1;

/// The clock of the timestamps in a trace.
///
/// ```
/// use unspool_capture::{Clock, EventClock, Frequency};
/// // Timestamps count at 25 MHz, and the log has microseconds.
/// let events = EventClock::Scaled { frequency: 1_000_000, offset: 0 };
/// let clock = Clock { frequency: Some(Frequency { hertz: 25_000_000, is_assumed: false }), events };
/// assert_eq!(clock.nanoseconds(25), Some(1_000));
/// let window = clock.event_times(260).unwrap();
/// assert_eq!((window.applied, window.reached), (Some(9), Some(10)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// Timestamps per second, if known.
    pub frequency: Option<Frequency>,
    /// How the times of system events are related to timestamps.
    pub events: EventClock,
}

/// Timestamps per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frequency {
    /// The frequency.
    pub hertz: u64,
    /// It is that of the generic timer, which may be another counter than that of the trace.
    pub is_assumed: bool,
}

/// How the times of system events are related to timestamps of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventClock {
    /// They are the same.
    #[default]
    Trace,
    /// Events have a clock of their own.
    Scaled {
        /// Ticks of that clock per second; 0 if it has the frequency of timestamps.
        frequency: u64,
        /// Time of that clock at timestamp 0.
        offset: i64,
    },
    /// perf converts them.
    Perf(TimeConversion),
    /// They are those of CLOCK_MONOTONIC in nanoseconds, which nothing relates to timestamps.
    Monotonic,
    /// Nothing relates them.
    Unknown,
}

/// Conversion of timestamps to the clock of perf, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeConversion {
    /// Number of fraction bits of the multiplier.
    pub shift: u64,
    /// Nanoseconds per tick, as a fixed-point number.
    pub mult: u64,
    /// Nanoseconds at tick 0. The kernel lets it wrap below zero.
    pub zero: u64,
    /// Tick at which a counter of fewer bits is extended, and its mask; the mask is 0 if the counter is not short.
    pub short: (u64, u64),
}

/// Times of events around a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTimes {
    /// Events up to this time had happened at the timestamp; `None`: no event certainly had.
    pub applied: Option<u64>,
    /// Events after this time had not happened; `None`: no event can have.
    pub reached: Option<u64>,
}

impl Clock {
    /// The time of a timestamp in nanoseconds: since 0 of the counter, or on the clock of perf if that is known.
    pub fn nanoseconds(&self, timestamp: u64) -> Option<u128> {
        match self.events {
            EventClock::Perf(conversion) if conversion.line().is_some() => {
                Some(conversion.nanoseconds(timestamp).into())
            }
            _ => {
                let hertz = self.frequency.map(|frequency| frequency.hertz).filter(|hertz| *hertz > 0)?;
                Some(u128::from(timestamp) * u128::from(NANOSECONDS) / u128::from(hertz))
            }
        }
    }

    /// The times of events that had happened at a timestamp, and that may have; `None` if the clocks are not related.
    pub fn event_times(&self, timestamp: u64) -> Option<EventTimes> {
        let (line, timestamp) = self.line_at(timestamp)?;
        let time = |value: i128| (value >= 0).then(|| u64::try_from(value).unwrap_or(u64::MAX));
        if line.is_exact() {
            let same = time(line.floor(timestamp));
            return Some(EventTimes { applied: same, reached: same });
        }
        // An event with time t happened in the tick from t to t + 1, and the timestamp is also one tick long.
        let (first, last) = (line.floor(timestamp) - 1, line.ceil(timestamp.saturating_add(1)) - 1);
        Some(EventTimes { applied: time(first - line.error), reached: time(last + line.error) })
    }

    /// The time that an event at a timestamp has; `None` if the clocks are not related, or if it is before time 0.
    pub fn event_time(&self, timestamp: u64) -> Option<u64> {
        let (line, timestamp) = self.line_at(timestamp)?;
        u64::try_from(line.floor(timestamp)).ok()
    }

    /// The timestamps that the trace may have had at the time of an event; `None` if the clocks are not related, or if
    /// the event happened before timestamp 0.
    pub fn timestamps_of(&self, time: u64) -> Option<RangeInclusive<u64>> {
        let (line, _) = self.line_at(0)?;
        let (first, last) = match line.is_exact() {
            true => (line.before(i128::from(time)), line.before(i128::from(time))),
            false => {
                let (first, last) = (i128::from(time) - line.error, i128::from(time) + 1 + line.error);
                (line.before(first), line.before(last))
            }
        };
        let last = u64::try_from(last).ok()?;
        Some(u64::try_from(first).unwrap_or(0)..=last)
    }

    /// Whether times of events and timestamps can be compared.
    pub fn relates_events(&self) -> bool {
        self.line_at(0).is_some()
    }

    /// Times of events as a function of timestamps, and the timestamp to use with it.
    fn line_at(&self, timestamp: u64) -> Option<(Line, u64)> {
        let line = match self.events {
            EventClock::Trace => Line { numerator: 1, denominator: 1, offset: 0, error: 0 },
            EventClock::Scaled { frequency: 0, offset } => Line { numerator: 1, denominator: 1, offset, error: 0 },
            EventClock::Scaled { frequency, offset } => {
                let of_trace = self.frequency.filter(|found| !found.is_assumed && found.hertz > 0)?;
                Line { numerator: frequency, denominator: of_trace.hertz, offset, error: 0 }
            }
            EventClock::Perf(conversion) => return Some((conversion.line()?, conversion.extended(timestamp))),
            EventClock::Monotonic | EventClock::Unknown => return None,
        };
        Some((line, timestamp))
    }
}

/// `offset + timestamp * numerator / denominator`, with a possible error of the result.
#[derive(Debug, Clone, Copy)]
struct Line {
    numerator: u64,
    denominator: u64,
    offset: i64,
    error: i128,
}

impl Line {
    /// Whether both clocks have the same ticks.
    fn is_exact(&self) -> bool {
        self.numerator == self.denominator
    }

    fn product(&self, timestamp: u64) -> (u128, u128) {
        (u128::from(timestamp) * u128::from(self.numerator), u128::from(self.denominator))
    }

    fn placed(&self, value: u128) -> i128 {
        i128::try_from(value).unwrap_or(i128::MAX).saturating_add(self.offset.into())
    }

    fn floor(&self, timestamp: u64) -> i128 {
        let (product, denominator) = self.product(timestamp);
        self.placed(product / denominator)
    }

    fn ceil(&self, timestamp: u64) -> i128 {
        let (product, denominator) = self.product(timestamp);
        self.placed(product.div_ceil(denominator))
    }

    /// The last timestamp up to a time; negative if the time is before timestamp 0.
    fn before(&self, time: i128) -> i128 {
        let since = time - i128::from(self.offset);
        since.saturating_mul(self.denominator.into()).div_euclid(self.numerator.into())
    }
}

impl TimeConversion {
    /// The time of perf in nanoseconds at a timestamp of the trace.
    pub fn nanoseconds(&self, timestamp: u64) -> u64 {
        let shift = self.shift.min(127);
        let product = u128::from(self.extended(timestamp)) * u128::from(self.mult);
        self.zero.wrapping_add((product >> shift) as u64)
    }

    /// Timestamps per second, rounded.
    pub fn hertz(&self) -> Option<u64> {
        let line = self.line()?;
        let product = u128::from(NANOSECONDS) * u128::from(line.denominator);
        let numerator = u128::from(line.numerator);
        u64::try_from((product + numerator / 2) / numerator).ok().filter(|hertz| *hertz > 0)
    }

    /// The value of a counter of more bits.
    fn extended(&self, timestamp: u64) -> u64 {
        match self.short {
            (_, 0) => timestamp,
            (cycles, mask) => cycles.wrapping_add(timestamp.wrapping_sub(cycles) & mask),
        }
    }

    /// `None` if it is not a conversion.
    fn line(&self) -> Option<Line> {
        let shift = u32::try_from(self.shift).ok().filter(|shift| *shift < u64::BITS)?;
        let (numerator, denominator) = (self.mult, 1_u64 << shift);
        // The kernel adds rounded numbers of nanoseconds: the sum may be off by one.
        let error = i128::from(numerator != denominator);
        (numerator > 0).then_some(Line { numerator, denominator, offset: self.zero as i64, error })
    }
}

impl EventClock {
    /// The clock of a recording as a section of a package, which [`read`] reads.
    pub(crate) fn extra(&self, file: String) -> Option<Extra> {
        let pair = |(key, value): (&str, String)| (key.to_string(), value);
        let pairs = match self {
            EventClock::Trace | EventClock::Scaled { .. } => return None,
            EventClock::Perf(TimeConversion { shift, mult, zero, short: (_, 0) }) => {
                [(TIME_SHIFT, shift), (TIME_MULT, mult), (TIME_ZERO, zero)]
                    .map(|(key, value)| (key, value.to_string()))
                    .to_vec()
            }
            EventClock::Monotonic => vec![(EVENT_CLOCK, "monotonic".to_string())],
            // There are no keys for a counter that is extended.
            EventClock::Perf(_) | EventClock::Unknown => vec![(EVENT_CLOCK, "unknown".to_string())],
        };
        Some(Extra { file, section: SECTION.to_string(), pairs: pairs.into_iter().map(pair).collect() })
    }
}

impl Capture {
    /// The clock of the timestamps of a source: that of the capture, as far as it is valid for this source.
    ///
    /// The frequency is that of the source (`timestamp_frequency`, or STMTSFREQR of an STM), of the capture (`[timestamp]`, `frequency`), or of perf;
    /// otherwise that of the generic timer of its core, or of all cores, is assumed. The conversion of perf is one of the virtual counter, and is
    /// used only for a source with timestamps of that counter.
    pub fn clock_of(&self, source: usize) -> Clock {
        let Some(source) = self.sources.get(source) else { return self.clock };
        let own = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(SOURCE_FREQUENCY));
        let own = own.and_then(|(_, value)| number(value)).or_else(|| source.registers.get(STM_FREQUENCY));
        let own = own.filter(|hertz| *hertz > 0);
        let own = own.map(|hertz| Frequency { hertz, is_assumed: false });
        let (frequency, events) = match self.clock.events {
            EventClock::Perf(_) if source.registers.get(TS_SOURCE) != Some(VIRTUAL) => (None, EventClock::Unknown),
            EventClock::Perf(conversion) => {
                let hertz = conversion.hertz();
                (hertz.map(|hertz| Frequency { hertz, is_assumed: false }), self.clock.events)
            }
            events => (None, events),
        };
        let frequency = own.or(self.clock.frequency).or(frequency).or_else(|| self.timer_frequency(source));
        Clock { frequency, events }
    }

    /// The frequency of the generic timer: of the core of a source, or that which all cores have.
    fn timer_frequency(&self, source: &Source) -> Option<Frequency> {
        let of_core = |index: usize| {
            let registers = &self.cores.get(index)?.registers;
            TIMER_FREQUENCY.iter().find_map(|name| registers.get(name)).filter(|hertz| *hertz > 0)
        };
        let own = source.core.and_then(of_core);
        let hertz = own.or_else(|| {
            let mut all = (0..self.cores.len()).filter_map(of_core);
            let first = all.next()?;
            all.all(|other| other == first).then_some(first)
        })?;
        Some(Frequency { hertz, is_assumed: true })
    }
}

/// Reads the clock of a package if this is its section. Problems become notes.
pub(crate) fn read(capture: &mut Capture, file: &str, section: &Section) {
    if !section.is(SECTION) {
        return;
    }
    let mut positive = |key| {
        let value = read_number(capture, file, section, key)?;
        if value == 0 {
            let line = section.entry(key).map_or(0, |entry| entry.line);
            capture.note(Location::line(file, line), NoteKind::BadValue, format!("`{key}` is 0 and is ignored"));
        }
        Some(value).filter(|value| *value > 0)
    };
    let hertz = positive(FREQUENCY);
    let log_frequency = positive(EVENT_FREQUENCY);
    let mult = positive(TIME_MULT);
    let shift = read_number(capture, file, section, TIME_SHIFT);
    let zero = read_number(capture, file, section, TIME_ZERO);
    let offset = read_offset(capture, file, section);
    if let Some(hertz) = hertz {
        capture.clock.frequency = Some(Frequency { hertz, is_assumed: false });
    }
    let named = match section.value(EVENT_CLOCK).map(str::to_ascii_lowercase).as_deref() {
        Some("unknown") => Some(EventClock::Unknown),
        Some("monotonic") => Some(EventClock::Monotonic),
        _ => None,
    };
    capture.clock.events = match (mult, shift, zero) {
        _ if named.is_some() => named.unwrap_or_default(),
        (Some(mult), Some(shift), Some(zero)) => EventClock::Perf(TimeConversion { shift, mult, zero, short: (0, 0) }),
        _ if log_frequency.is_some() || offset.is_some() => {
            EventClock::Scaled { frequency: log_frequency.unwrap_or(0), offset: offset.unwrap_or(0) }
        }
        _ => capture.clock.events,
    };
    note_problems(capture, file, section, named.is_some());
}

/// The offset may be negative.
fn read_offset(capture: &mut Capture, file: &str, section: &Section) -> Option<i64> {
    let entry = section.entry(EVENT_OFFSET)?;
    let value = match entry.value.trim().strip_prefix('-') {
        Some(digits) => number(digits).and_then(|value| 0_i64.checked_sub_unsigned(value)),
        None => number(&entry.value).and_then(|value| i64::try_from(value).ok()),
    };
    if value.is_none() {
        let text = format!("`{}` is not a number of 64 bits; `{EVENT_OFFSET}` is ignored", entry.value);
        capture.note(Location::line(file, entry.line), NoteKind::BadValue, text);
    }
    value
}

fn note_problems(capture: &mut Capture, file: &str, section: &Section, is_named: bool) {
    let at = |key| Location::line(file, section.entry(key).map_or(section.line, |entry| entry.line));
    let name = section.value(EVENT_CLOCK).filter(|name| !is_named && !name.eq_ignore_ascii_case("trace"));
    if let Some(name) = name {
        let text = format!("`{name}` is not a clock (trace, monotonic, unknown); `{EVENT_CLOCK}` is ignored");
        capture.note(at(EVENT_CLOCK), NoteKind::BadValue, text);
    }
    let parts = [TIME_SHIFT, TIME_MULT, TIME_ZERO];
    if parts.iter().any(|key| section.entry(key).is_some()) && !matches!(capture.clock.events, EventClock::Perf(_)) {
        let text = "`time_shift`, `time_mult` and `time_zero` are a conversion only together and are ignored";
        capture.note(at(TIME_MULT), NoteKind::BadValue, text);
    }
}

/// Notes events that have no place in the trace because a frequency is missing.
pub(crate) fn check(capture: &mut Capture, file: &str) {
    let is_scaled = matches!(capture.clock.events, EventClock::Scaled { .. });
    let is_related = (0..capture.sources.len()).any(|source| capture.clock_of(source).relates_events());
    if is_scaled && !is_related && !capture.events.is_empty() {
        let text = format!("events have no place in the trace: `{EVENT_FREQUENCY}` needs `{FREQUENCY}` of [{SECTION}]");
        capture.note(Location::file(file), NoteKind::MissingKey, text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONE: Clock = Clock { frequency: None, events: EventClock::Trace };

    fn scaled(hertz: u64, frequency: u64, offset: i64) -> Clock {
        let events = EventClock::Scaled { frequency, offset };
        Clock { frequency: Some(Frequency { hertz, is_assumed: false }), events }
    }

    fn perf(shift: u64, mult: u64, zero: u64) -> Clock {
        Clock { events: EventClock::Perf(TimeConversion { shift, mult, zero, short: (0, 0) }), ..NONE }
    }

    #[test]
    fn windows_of_events() {
        type Row = (&'static str, Clock, u64, Option<u64>, Option<u64>);
        let rows: &[Row] = &[
            ("the clock of the trace", NONE, 100, Some(100), Some(100)),
            ("an offset", scaled(1, 0, 50), 100, Some(150), Some(150)),
            ("before time 0", scaled(1, 0, -101), 100, None, None),
            ("the same frequency", scaled(1_000, 1_000, 5), 100, Some(105), Some(105)),
            // Timestamp 100 is 4000 to 4040 ns; what was logged at 3999 happened before 4000 ns.
            ("25 MHz and nanoseconds", scaled(25_000_000, 1_000_000_000, 0), 100, Some(3999), Some(4039)),
            // Timestamp 1500 is in the second microsecond, in which an event may come before or after it.
            ("1 GHz and microseconds", scaled(1_000_000_000, 1_000_000, 0), 1500, Some(0), Some(1)),
            ("and with the end of a microsecond", scaled(1_000_000_000, 1_000_000, 0), 1999, Some(0), Some(1)),
            ("and with the start of one", scaled(1_000_000_000, 1_000_000, 0), 2000, Some(1), Some(2)),
            ("perf at 1 GHz", perf(22, 1 << 22, 7), 100, Some(107), Some(107)),
            ("perf at 25 MHz", perf(22, 40 << 22, 0), 100, Some(3998), Some(4040)),
            ("perf since before the counter", perf(22, 40 << 22, 0_u64.wrapping_sub(4000)), 100, None, Some(40)),
            ("the largest timestamp", perf(0, 1 << 40, 0), u64::MAX, Some(u64::MAX), Some(u64::MAX)),
        ];
        for (name, clock, timestamp, applied, reached) in rows {
            let expected = EventTimes { applied: *applied, reached: *reached };
            assert_eq!(clock.event_times(*timestamp), Some(expected), "{name}");
        }
        let assumed = Frequency { hertz: 25_000_000, is_assumed: true };
        let unrelated = [
            Clock { events: EventClock::Unknown, ..NONE },
            Clock { frequency: Some(assumed), ..scaled(1, 1_000_000, 0) },
            Clock { frequency: None, ..scaled(1, 1_000_000, 0) },
            perf(64, 1, 0),
            perf(22, 0, 0),
        ];
        for clock in unrelated {
            assert_eq!((clock.event_times(5), clock.timestamps_of(5), clock.relates_events()), (None, None, false));
        }
    }

    #[test]
    fn seconds() {
        let rows = [
            (NONE, None),
            (scaled(25_000_000, 1, 0), Some(1_000_000_000)),
            (scaled(3, 1, 0), Some(8_333_333_333_333_333)),
            (perf(22, 40 << 22, 5), Some(1_000_000_005)),
        ];
        for (clock, expected) in rows {
            assert_eq!(clock.nanoseconds(25_000_000), expected, "{clock:?}");
        }
        assert_eq!(
            [NONE, perf(22, 40 << 22, 5), scaled(1, 0, -9)].map(|clock| clock.event_time(8)),
            [Some(8), Some(325), None]
        );
        assert_eq!(scaled(1, 1, 0).nanoseconds(u64::MAX), Some(u128::from(u64::MAX) * 1_000_000_000));
        let conversion = |shift, mult| TimeConversion { shift, mult, ..TimeConversion::default() };
        assert_eq!(conversion(22, 40 << 22).hertz(), Some(25_000_000));
        // The multiplier of 24 MHz is rounded.
        assert_eq!(conversion(22, 174_762_667).hertz(), Some(24_000_000));
        assert_eq!((conversion(22, 0).hertz(), conversion(0, u64::MAX).hertz()), (None, None));
    }

    proptest! {
        /// Times are counted in units that both clocks have whole numbers of.
        #[test]
        fn no_window_is_too_small(
            (hertz, frequency) in (1_u64..2000, 1_u64..2000),
            offset in -500_i64..500,
            (event, moment) in (0_u64..1 << 40, -5000_i64..5000),
        ) {
            let clock = scaled(hertz, frequency, offset);
            let moment = event.saturating_add_signed(moment);
            let timestamp = moment / frequency;
            let happened = event <= timestamp * frequency;
            let is_later = event >= (timestamp + 1) * frequency;
            let Some(time) = (event / hertz).checked_add_signed(offset) else { return Ok(()) };
            let window = clock.event_times(timestamp).unwrap();
            if hertz != frequency {
                prop_assert!(window.applied.is_none_or(|applied| time > applied) || happened);
                prop_assert!(window.reached.is_some_and(|reached| time <= reached) || is_later);
            }
            prop_assert!(clock.timestamps_of(time).unwrap().contains(&(event / frequency)));
            let width = window.reached.unwrap_or(0).saturating_sub(window.applied.unwrap_or(0));
            prop_assert!(width <= frequency.div_ceil(hertz) + 1);
        }

        /// The kernel converts the tick of an event, rounding twice; the trace has a timestamp of the same counter.
        #[test]
        fn no_window_of_perf_is_too_small(
            (shift, mult) in (0_u64..32, 1_u64..1 << 32),
            (event, timestamp) in (0_u64..1 << 30, -4_i64..4),
            (zero, error) in (10_u64..1 << 40, -1_i64..=1),
        ) {
            let clock = perf(shift, mult, zero);
            let timestamp = event.saturating_add_signed(timestamp);
            let EventClock::Perf(conversion) = clock.events else { unreachable!() };
            let error = if mult == 1 << shift { 0 } else { error };
            let time = conversion.nanoseconds(event).saturating_add_signed(error);
            let window = clock.event_times(timestamp).unwrap();
            prop_assert!(window.applied.is_none_or(|applied| time > applied) || event <= timestamp);
            prop_assert!(window.reached.is_some_and(|reached| time <= reached) || event > timestamp);
            prop_assert!(clock.timestamps_of(time).unwrap().contains(&event));
        }

        #[test]
        fn any_clock(hertz: u64, frequency: u64, offset: i64, shift: u64, words: [u64; 5], assumed: bool) {
            let [mult, zero, cycles, mask, time] = words;
            let conversion = TimeConversion { shift: shift % 70, mult, zero, short: (cycles, mask) };
            let clocks = [EventClock::Scaled { frequency, offset }, EventClock::Perf(conversion)];
            for events in clocks {
                let clock = Clock { frequency: Some(Frequency { hertz, is_assumed: assumed }), events };
                let _ = (clock.nanoseconds(time), clock.timestamps_of(time), conversion.hertz());
                let window = clock.event_times(time);
                prop_assert!(window.is_none_or(|window| window.applied <= window.reached));
            }
        }
    }
}
