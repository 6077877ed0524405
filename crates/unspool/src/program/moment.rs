//! Code at a moment of a trace, and the moments at which it changes.
//!
//! timestamps of a stream + times of system events ─▶ **moments**
//!
//! A trace has a time only where it has a timestamp. What is executed between two timestamps was executed in the window
//! between the events before the first and those before the second. Where events have another clock, a timestamp is a
//! window of their times. A session of perf is a window as a whole; timestamps on the clock of perf divide it.

use std::collections::HashSet;

use unspool_capture::{Clock, ContextWidth, EventClock, Pid, Recorded, Timeline};
use unspool_coresight::frame::FrameError;
use unspool_coresight::{Context, Element, ElementItem, Sink};
use unspool_flow::{CodeMemory, MapId, Space};

use super::Program;
use super::address_spaces::AddressSpaces;
use super::context_registers::ContextRegisters;
use crate::order::Owner;
use crate::{Error, Trace, Watch};

/// Numbers of events, between which the number is that applied when an instruction was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Window {
    /// Events that were certainly applied.
    pub(super) before: usize,
    /// Events that were perhaps applied.
    pub(super) after: usize,
}

/// The code of a program between two changes of its address maps, as one stream of trace sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'p> {
    program: &'p Program,
    pub(super) window: Window,
    /// The only thread of the stream.
    pub(super) thread: Option<Pid>,
    /// The number of the core.
    pub(super) core: Option<u32>,
    pub(super) context_registers: ContextRegisters,
}

impl<'p> Moment<'p> {
    pub(crate) fn program(&self) -> &'p Program {
        self.program
    }

    /// On whose behalf code is executed in a context.
    pub(crate) fn owner(&self, context: Option<&Context>) -> Owner {
        let spaces = self.program.spaces.as_ref();
        spaces.map_or_else(Owner::default, |spaces| spaces.owner_of(self, context))
    }
}

impl CodeMemory for Moment<'_> {
    fn read<'b>(&'b self, address: u64, space: Space, buffer: &'b mut [u8]) -> &'b [u8] {
        self.program.read(address, space, buffer)
    }

    fn map_of(&self, context: &Context) -> MapId {
        let spaces = self.program.spaces.as_ref();
        spaces.map_or(MapId::ONLY, |spaces| spaces.map_of(self, context))
    }

    fn is_ambiguous(&self, address: u64, space: Space) -> bool {
        self.program.is_ambiguous(address, space)
    }
}

/// The moments of one stream, each with the offset in the buffer where it begins.
#[derive(Debug)]
pub(crate) struct Moments<'p> {
    first: Moment<'p>,
    later: Vec<(u64, Moment<'p>)>,
}

impl<'p> Moments<'p> {
    pub(super) fn of(program: &'p Program, trace: &Trace<'_>) -> Result<Self, Error> {
        let mut first = Moment {
            program,
            window: Window::default(),
            thread: None,
            core: None,
            context_registers: ContextRegisters::ALL_BITS,
        };
        let Some(spaces) = &program.spaces else { return Ok(Self { first, later: Vec::new() }) };
        let recorded = trace.buffer().recorded.unwrap_or_default();
        (first.thread, first.core) = (recorded.thread, core_number(trace));
        first.context_registers = ContextRegisters::of(trace.source(), &trace.features()?.0);
        let windows = windows(spaces, trace, recorded)?;
        spaces.find_context_format(|| context_numbers(trace));
        let moment = |window| Moment { window, ..first };
        let mut moments = windows.into_iter().map(|(offset, window)| (offset, moment(window)));
        let first = moments.next().map_or(first, |(_, first)| first);
        Ok(Self { first, later: moments.collect() })
    }

    /// The moment at the start of the stream.
    pub(crate) fn first(&self) -> Moment<'p> {
        self.first
    }

    /// Does the code stay the same?
    pub(crate) fn is_one(&self) -> bool {
        self.later.is_empty()
    }

    /// The changes after the start.
    pub(crate) fn changes(&self) -> Changes<'_, 'p> {
        Changes { left: &self.later }
    }
}

/// Finds the format of context identifiers.
pub(super) fn prepare(program: &Program, trace: &Trace<'_>) -> Result<(), Error> {
    trace.features()?;
    if let Some(spaces) = &program.spaces {
        spaces.find_context_format(|| context_numbers(trace));
    }
    Ok(())
}

/// Changes that have not been reached yet.
#[derive(Debug)]
pub(crate) struct Changes<'m, 'p> {
    left: &'m [(u64, Moment<'p>)],
}

impl<'p> Changes<'_, 'p> {
    /// Applies the last change up to an offset.
    #[inline]
    pub(crate) fn up_to(&mut self, offset: u64, apply: impl FnOnce(Moment<'p>)) {
        if self.left.first().is_some_and(|(start, _)| *start <= offset) {
            let passed = self.left.partition_point(|(start, _)| *start <= offset);
            let (now, left) = self.left.split_at(passed);
            self.left = left;
            if let Some((_, moment)) = now.last() {
                apply(*moment);
            }
        }
    }
}

/// The number of the core of a trace: the digits at the end of its name, or its index.
fn core_number(trace: &Trace<'_>) -> Option<u32> {
    let name = &trace.core()?.name;
    let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    digits.parse().ok().or_else(|| trace.source().core.and_then(|index| u32::try_from(index).ok()))
}

/// The windows of a stream, with the offsets where they begin.
fn windows(spaces: &AddressSpaces, trace: &Trace<'_>, recorded: Recorded) -> Result<Vec<(u64, Window)>, Error> {
    let clock = trace.clock();
    let timeline = &spaces.timeline;
    let session = window_of_session(timeline, recorded, clock);
    if session.before == session.after || !clock.relates_events() {
        return Ok(vec![(0, session)]);
    }
    let mut windows = Windows { list: vec![(0, session)], timeline, clock, recorded, is_contradicted: false };
    trace.elements(&mut windows)?;
    if windows.is_contradicted {
        spaces.note_contradiction(&trace.source().name);
        return Ok(vec![(0, session)]);
    }
    Ok(windows.list)
}

/// The window of a stream: of a session of perf, from the session before it on the same core or thread up to its own
/// time; otherwise all events.
fn window_of_session(timeline: &Timeline, recorded: Recorded, clock: Clock) -> Window {
    // Timestamps and the times of events start at 0 if they are the same.
    let start = recorded.after.or((clock.events == EventClock::Trace).then_some(0));
    let after = recorded.until.map_or(timeline.events().len(), |time| timeline.position(time));
    let before = start.map_or_else(|| timeline.untimed(), |time| timeline.position(time));
    Window { before: before.min(after), after }
}

/// Collects windows from timestamps. The last one is open.
struct Windows<'s> {
    list: Vec<(u64, Window)>,
    timeline: &'s Timeline,
    clock: Clock,
    recorded: Recorded,
    /// Whether a timestamp is not in the session: the conversion of the clock is not right.
    is_contradicted: bool,
}

impl Windows<'_> {
    fn timestamp(&mut self, offset: u64, timestamp: u64) {
        let Some(times) = self.clock.event_times(timestamp) else { return };
        let Recorded { after, until, .. } = self.recorded;
        self.is_contradicted |= times.applied.zip(until).is_some_and(|(applied, until)| applied > until)
            || after.is_some_and(|after| times.reached.is_none_or(|reached| reached < after));
        let timeline = self.timeline;
        let position = |time: Option<u64>| time.map_or_else(|| timeline.untimed(), |time| timeline.position(time));
        let (applied, reached) = (position(times.applied), position(times.reached));
        let Some((_, open)) = self.list.last_mut() else { return };
        // A clock that runs backward would be one of another system: what is certain stays certain.
        let last = open.after;
        open.after = reached.clamp(open.before, last);
        let closed = *open;
        if let [.., (_, before), _] = self.list[..]
            && before == closed
        {
            self.list.pop();
        }
        self.list.push((offset, Window { before: applied.clamp(closed.before, last), after: last }));
    }
}

impl Sink<ElementItem> for Windows<'_> {
    fn item(&mut self, item: ElementItem) {
        if let Ok(element) = item
            && let Element::Timestamp { value, .. } = element.value
        {
            self.timestamp(element.offset, value);
        }
    }
}

impl Watch for Windows<'_> {
    fn lost(&mut self, _error: FrameError) {}

    fn wants_more(&mut self) -> bool {
        !self.is_contradicted
    }
}

/// The numbers of processes in all streams of a capture, as evidence for their format.
fn context_numbers(trace: &Trace<'_>) -> HashSet<(u32, ContextWidth)> {
    let mut numbers = Numbers { registers: ContextRegisters::ALL_BITS, found: HashSet::new() };
    for trace in trace.siblings() {
        // A stream that cannot be read is no evidence; decoding it reports why.
        let Ok((features, _)) = trace.features() else { continue };
        numbers.registers = ContextRegisters::of(trace.source(), &features);
        let _ = trace.elements(&mut numbers);
    }
    numbers.found
}

/// Maximum number of context identifiers that are collected as evidence.
const EVIDENCE: usize = 4096;

struct Numbers {
    registers: ContextRegisters,
    found: HashSet<(u32, ContextWidth)>,
}

impl Sink<ElementItem> for Numbers {
    fn item(&mut self, item: ElementItem) {
        if let Ok(element) = item
            && let Element::Context(context) = element.value
            && self.found.len() < EVIDENCE
        {
            self.found.extend(self.registers.number(&context));
        }
    }
}

impl Watch for Numbers {
    fn lost(&mut self, _error: FrameError) {}

    fn wants_more(&mut self) -> bool {
        self.found.len() < EVIDENCE
    }
}

#[cfg(test)]
mod tests {
    use unspool_capture::{Call, Direction, Frequency, SystemEvent};

    use super::*;

    /// Offsets and windows after these timestamps, with events at 10, 20 and 30; `None` if a timestamp is not in the session.
    fn windows(clock: Clock, recorded: Recorded, timestamps: &[(u64, u64)]) -> Option<Vec<(u64, usize, usize)>> {
        let event = |time| SystemEvent { time: Some(time), place: 0, call: Call::Exec { pid: 1 } };
        let timeline = Timeline::new([10, 20, 30].map(event).to_vec(), Direction::Forward, |_| Vec::new());
        let session = window_of_session(&timeline, recorded, clock);
        let timeline = &timeline;
        let mut windows = Windows { list: vec![(0, session)], timeline, clock, recorded, is_contradicted: false };
        timestamps.iter().for_each(|(offset, time)| windows.timestamp(*offset, *time));
        let list = windows.list.iter().map(|(at, window)| (*at, window.before, window.after)).collect();
        (!windows.is_contradicted).then_some(list)
    }

    #[test]
    fn windows_are_between_timestamps() {
        type Row<'a> = (&'a [(u64, u64)], &'a [(u64, usize, usize)]);
        let rows: &[Row<'_>] = &[
            (&[], &[(0, 0, 3)]),
            (&[(5, 3)], &[(0, 0, 0), (5, 0, 3)]),
            (&[(5, 3), (6, 4), (7, 5)], &[(0, 0, 0), (7, 0, 3)]),
            (&[(5, 3), (6, 14), (7, 15), (8, 99)], &[(0, 0, 0), (5, 0, 1), (6, 1, 1), (7, 1, 3), (8, 3, 3)]),
            // Time does not run backward.
            (&[(5, 25), (6, 1)], &[(0, 0, 2), (5, 2, 2), (6, 2, 3)]),
        ];
        for (timestamps, expected) in rows {
            let found = windows(Clock::default(), Recorded::default(), timestamps);
            assert_eq!(found.as_deref(), Some(*expected), "{timestamps:?}");
        }
    }

    #[test]
    fn timestamps_of_another_clock() {
        let clock = |hertz, frequency, offset| Clock {
            frequency: Some(Frequency { hertz, is_assumed: false }),
            events: EventClock::Scaled { frequency, offset },
        };
        let all = Recorded::default();
        // The same ticks, 100 later.
        assert_eq!(windows(clock(1, 0, -100), all, &[(5, 120)]), Some(vec![(0, 0, 2), (5, 2, 3)]));
        assert_eq!(windows(clock(1, 0, -100), all, &[(5, 99)]), Some(vec![(0, 0, 0), (5, 0, 3)]));
        // Ten timestamps per tick of an event: that at 20 may come before or after timestamps 200 to 209.
        for (timestamp, reached, applied) in [(199, 1, 1), (200, 2, 1), (209, 2, 1), (210, 2, 2)] {
            let expected = vec![(0, 0, reached), (5, applied, 3)];
            assert_eq!(windows(clock(10, 1, 0), all, &[(5, timestamp)]), Some(expected), "{timestamp}");
        }
        let unknown = Clock { events: EventClock::Unknown, ..Clock::default() };
        assert_eq!(windows(unknown, all, &[(5, 120)]), Some(vec![(0, 0, 3)]));
    }

    #[test]
    fn timestamps_divide_a_session() {
        let clock = Clock { frequency: None, events: EventClock::Scaled { frequency: 0, offset: 5 } };
        let session = Recorded { after: Some(10), until: Some(25), thread: None };
        assert_eq!(windows(clock, session, &[]), Some(vec![(0, 1, 2)]));
        assert_eq!(windows(clock, session, &[(4, 10), (5, 17)]), Some(vec![(0, 1, 1), (4, 1, 2), (5, 2, 2)]));
        // A timestamp before or after the session shows that the clock is another one.
        assert_eq!(windows(clock, session, &[(4, 4)]), None);
        assert_eq!(windows(clock, session, &[(4, 21)]), None);
    }
}
