//! Headings of segments and groups: whose execution follows, when, and what was executed at the same time.

use std::fmt::Write as _;

use unspool::Trace;
use unspool::capture::{KERNEL, Pid};
use unspool::model::json::{Object, quoted};
use unspool::order::{OrderClock, Owner, TimeWindow};

use crate::listing::push_object;
use crate::style::Palette;

/// What headings need to know of the listing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Headings<'h> {
    pub(super) traces: &'h [Trace<'h>],
    /// Name of each lane.
    pub(super) names: &'h [String],
    pub(super) clock: OrderClock,
    pub(super) json: bool,
    pub(super) palette: Palette,
}

/// Place of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) trace: usize,
    pub(super) lane: usize,
    pub(super) owner: Owner,
    pub(super) overlaps: Vec<usize>,
}

impl Headings<'_> {
    /// Heading of a segment. In text, it is omitted where the place is that of the segment before.
    pub(super) fn segment(&self, shown: &mut Option<Place>, place: Place, window: TimeWindow) -> String {
        let mut text = String::new();
        let is_same = shown.as_ref() == Some(&place);
        match self.traces.get(place.trace) {
            Some(trace) if self.json => self.push_object(&mut text, trace, &place, window),
            Some(trace) if !is_same => self.push_text(&mut text, trace, &place, window),
            _ => {}
        }
        *shown = Some(place);
        text
    }

    fn push_object(&self, text: &mut String, trace: &Trace<'_>, place: &Place, window: TimeWindow) {
        push_object(text, trace, "segment", |object| {
            object.nullable_string("core", trace.core().map(|core| &core.name));
            object.nullable("from", window.from).nullable("to", window.to);
            let [from, to] = [window.from, window.to].map(|time| self.nanoseconds(trace, time?));
            object.nullable("from_ns", from).nullable("to_ns", to);
            object.nullable("process", place.owner.process).nullable("thread", place.owner.thread);
            object.list("overlaps", self.names_of(place), quoted);
        });
    }

    fn push_text(&self, text: &mut String, trace: &Trace<'_>, place: &Place, window: TimeWindow) {
        let source = trace.source();
        let id = source.id.map_or_else(|| "without id".to_string(), |id| format!("{id:#04x}"));
        let _ = write!(text, "{}# source {id} {}, session {}", self.palette.heading, source.name, trace.session());
        let _ = write!(text, ", {}", self.time_text(trace, window));
        let Owner { process, thread } = place.owner;
        for (name, number) in [("process", process), ("thread", thread)] {
            if let Some(number) = number {
                let _ = write!(text, ", {name} {number}");
            }
        }
        let others: Vec<&str> = self.names_of(place).collect();
        if !others.is_empty() {
            let _ = write!(text, "; before, during or after {}", others.join(", "));
        }
        let _ = writeln!(text, "{}", self.palette.reset);
    }

    fn names_of<'n>(&'n self, place: &'n Place) -> impl Iterator<Item = &'n str> {
        place.overlaps.iter().filter_map(|lane| self.names.get(*lane)).map(String::as_str)
    }

    /// `time 0x10 to 0x20 (1.5 s to 2.0 s)`.
    fn time_text(&self, trace: &Trace<'_>, window: TimeWindow) -> String {
        let ticks = |time: u64| format!("{time:#x}");
        let seconds = |time: u64| self.nanoseconds(trace, time).map(seconds_text);
        match (self.clock, window_text(window, |time| Some(ticks(time))), window_text(window, seconds)) {
            (OrderClock::Trace, Some(ticks), Some(seconds)) => format!("time {ticks} ({seconds})"),
            (OrderClock::Trace, Some(times), None) | (OrderClock::Recorder, _, Some(times)) => format!("time {times}"),
            _ => "unknown time".into(),
        }
    }

    fn nanoseconds(&self, trace: &Trace<'_>, time: u64) -> Option<u128> {
        match self.clock {
            OrderClock::Trace => trace.clock().nanoseconds(time),
            OrderClock::Recorder => Some(time.into()),
            OrderClock::None => None,
        }
    }
}

fn window_text(window: TimeWindow, text: impl Fn(u64) -> Option<String>) -> Option<String> {
    Some(match (window.from, window.to) {
        (Some(from), Some(to)) if from == to => text(from)?,
        (Some(from), Some(to)) => format!("{} to {}", text(from)?, text(to)?),
        (Some(from), None) => format!("from {} on", text(from)?),
        (None, Some(to)) => format!("up to {}", text(to)?),
        (None, None) => return None,
    })
}

/// Nanoseconds as seconds: `1.500000000 s`.
pub(super) fn seconds_text(nanoseconds: u128) -> String {
    format!("{}.{:09} s", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

/// Key of a group of segments. Unknown processes and threads come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GroupKey {
    process: (bool, Option<Pid>),
    /// `None`: groups are processes.
    thread: Option<(bool, Option<Pid>)>,
}

impl GroupKey {
    pub(super) fn new(owner: Owner, by_thread: bool) -> Self {
        let key = |number: Option<Pid>| (number.is_none(), number);
        Self { process: key(owner.process), thread: by_thread.then(|| key(owner.thread)) }
    }

    pub(super) fn heading(&self, json: bool, palette: &Palette) -> String {
        let mut text = String::new();
        if json {
            let mut object = Object::new(&mut text);
            object.string("kind", "group").nullable("process", self.process.1);
            if let Some((_, thread)) = self.thread {
                object.nullable("thread", thread);
            }
            object.end_line();
            return text;
        }
        let process = match self.process.1 {
            Some(KERNEL) => "process 0, the kernel".to_string(),
            Some(pid) => format!("process {pid}"),
            None => "unknown process".to_string(),
        };
        let thread = match self.thread {
            Some((_, Some(thread))) => format!(", thread {thread}"),
            Some((_, None)) => ", unknown thread".to_string(),
            None => String::new(),
        };
        let _ = writeln!(text, "{}# {process}{thread}{}", palette.heading, palette.reset);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_unknown_processes_come_last() {
        let key = |process, thread| GroupKey::new(Owner { process, thread }, true);
        let mut keys = [key(None, None), key(Some(7), None), key(Some(7), Some(9)), key(Some(KERNEL), Some(0))];
        keys.sort();
        let texts = keys.map(|key| key.heading(false, &Palette::PLAIN));
        let expected = [
            "# process 0, the kernel, thread 0\n",
            "# process 7, thread 9\n",
            "# process 7, unknown thread\n",
            "# unknown process, unknown thread\n",
        ];
        assert_eq!(texts, expected);
        let json = GroupKey::new(Owner { process: Some(7), thread: Some(8) }, false).heading(true, &Palette::PLAIN);
        assert_eq!(json, "{\"kind\":\"group\",\"process\":7}\n");
    }

    #[test]
    fn seconds() {
        assert_eq!(seconds_text(1_500_000_000), "1.500000000 s");
        assert_eq!(seconds_text(7), "0.000000007 s");
    }
}
