//! Code at a moment of a trace, and the moments at which it changes.
//!
//! timestamps of a stream + times of system events ─▶ **moments**
//!
//! A trace has a time only where it has a timestamp. What is executed between two timestamps was executed in the window
//! between the events before the first and those before the second.

use std::collections::HashSet;

use unspool_capture::{ContextWidth, Pid, Recorded};
use unspool_coresight::frame::FrameError;
use unspool_coresight::{Context, Element, ElementItem, Sink};
use unspool_flow::{CodeMemory, MapId, Space};

use super::Program;
use super::address_spaces::AddressSpaces;
use super::context_registers::ContextRegisters;
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
        let windows = match spaces.has_trace_clock {
            true => windows_of_timestamps(spaces, trace)?,
            false => vec![(0, window_of_session(spaces, recorded))],
        };
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

/// The window of a session of perf: after the session before it on the same core or thread, up to its own time.
fn window_of_session(spaces: &AddressSpaces, recorded: Recorded) -> Window {
    let all = spaces.timeline.events().len();
    let after = recorded.until.map_or(all, |time| spaces.timeline.position(time));
    Window { before: spaces.timeline.position(recorded.after.unwrap_or(0)).min(after), after }
}

/// The windows between timestamps, with the offsets where they begin.
fn windows_of_timestamps(spaces: &AddressSpaces, trace: &Trace<'_>) -> Result<Vec<(u64, Window)>, Error> {
    let position = |time| spaces.timeline.position(time);
    let start = position(0);
    let all = spaces.timeline.events().len();
    let mut windows = Windows { list: vec![(0, Window { before: start, after: all })], position };
    if start < all {
        trace.elements(&mut windows)?;
    }
    Ok(windows.list)
}

/// Collects windows from timestamps. The last one is open.
struct Windows<P> {
    list: Vec<(u64, Window)>,
    position: P,
}

impl<P: Fn(u64) -> usize> Windows<P> {
    fn timestamp(&mut self, offset: u64, time: u64) {
        let position = (self.position)(time);
        let Some((_, open)) = self.list.last_mut() else { return };
        // A clock that runs backward would be one of another system: what is certain stays certain.
        let position = position.max(open.before);
        let all = std::mem::replace(&mut open.after, position);
        let closed = *open;
        if let [.., (_, before), _] = self.list[..]
            && before == closed
        {
            self.list.pop();
        }
        self.list.push((offset, Window { before: position, after: all }));
    }
}

impl<P: Fn(u64) -> usize> Sink<ElementItem> for Windows<P> {
    fn item(&mut self, item: ElementItem) {
        if let Ok(element) = item
            && let Element::Timestamp { value, .. } = element.value
        {
            self.timestamp(element.offset, value);
        }
    }
}

impl<P> Watch for Windows<P> {
    fn lost(&mut self, _error: FrameError) {}
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
    use super::*;

    #[test]
    fn windows_are_between_timestamps() {
        // Events at times 10, 20 and 30.
        let position = |time: u64| (time / 10).min(3) as usize;
        let windows = |timestamps: &[(u64, u64)]| {
            let mut windows = Windows { list: vec![(0, Window { before: 0, after: 3 })], position };
            timestamps.iter().for_each(|(offset, time)| windows.timestamp(*offset, *time));
            windows.list.iter().map(|(at, window)| (*at, window.before, window.after)).collect::<Vec<_>>()
        };
        assert_eq!(windows(&[]), [(0, 0, 3)]);
        assert_eq!(windows(&[(5, 3)]), [(0, 0, 0), (5, 0, 3)]);
        assert_eq!(windows(&[(5, 3), (6, 4), (7, 5)]), [(0, 0, 0), (7, 0, 3)]);
        assert_eq!(
            windows(&[(5, 3), (6, 14), (7, 15), (8, 99)]),
            [(0, 0, 0), (5, 0, 1), (6, 1, 1), (7, 1, 3), (8, 3, 3)]
        );
        // Time does not run backward.
        assert_eq!(windows(&[(5, 25), (6, 1)]), [(0, 0, 2), (5, 2, 2), (6, 2, 3)]);
    }
}
