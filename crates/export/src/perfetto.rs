//! Timelines for the viewer Perfetto: tracks with nested calls, instants and counters.
//!
//! calls as they begin and end, marks, values ─▶ **packets** ─▶ a trace in the protocol buffers of Perfetto
//!
//! The viewer sorts packets by time, and leaves those of equal times as they are in the file. So slices of a track are
//! written in the order of execution, and never go back in time: then calls that take no time are nested as they were.
//! Each track with slices is a sequence of packets, which has its own numbers for names.
//! Format: the messages Trace, TracePacket, TrackDescriptor and TrackEvent of the PyPI package perfetto.

mod proto;

use std::collections::HashMap;
use std::io::{self, Write};

use proto::{push_double, push_message, push_number, push_text};

/// Maximum number of names that a sequence remembers.
const MAX_NAMES: usize = 1 << 16;

/// Number of names that are looked for first.
const RECENT: usize = 256;

/// Size of the buffer before the output.
const BUFFER: usize = 1 << 16;

/// Largest timestamp: the viewer has signed ones.
const MAX_TIME: u64 = i64::MAX as u64;

/// Fields of messages.
mod field {
    pub(super) const PACKET: u32 = 1;

    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;

    pub(super) const EVENT_CATEGORY: u32 = 3;
    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_NAME: u32 = 10;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_VALUE: u32 = 44;

    pub(super) const INTERNED_CATEGORY: u32 = 1;
    pub(super) const INTERNED_NAME: u32 = 2;
    pub(super) const NUMBER: u32 = 1;
    pub(super) const TEXT: u32 = 2;

    pub(super) const ANNOTATION_TEXT: u32 = 6;
    pub(super) const ANNOTATION_NAME: u32 = 10;

    pub(super) const TRACK_ID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const TRACK_PARENT: u32 = 5;
    pub(super) const TRACK_COUNTER: u32 = 8;
    pub(super) const COUNTER_UNIT: u32 = 6;
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const VALUE: u64 = 4;

const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// A track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track(u64);

/// Writer of a trace.
#[derive(Debug)]
pub struct PerfettoWriter<W> {
    out: W,
    buffer: Vec<u8>,
    tracks: u64,
    sequences: u64,
    /// The sequence of instants and values.
    marks: Sequence,
}

/// Packets with common names.
#[derive(Debug)]
struct Sequence {
    number: u64,
    /// The track of events without one.
    track: Option<Track>,
    /// Numbers of names, and of categories.
    names: HashMap<Box<str>, u64>,
    /// Names of late, by some of their letters.
    recent: Vec<(Box<str>, u64)>,
    categories: Vec<Box<str>>,
    is_started: bool,
}

/// An event.
struct Event<'e> {
    kind: u64,
    at: u64,
    track: Option<Track>,
    name: Option<&'e str>,
    category: Option<&'e str>,
    /// A remark: what it is about, and its text.
    remark: Option<(&'e str, &'e str)>,
}

/// Slices of a track, nested. [`finish`](Self::finish) ends those in progress.
#[derive(Debug)]
pub struct Slices<'w, W> {
    writer: &'w mut PerfettoWriter<W>,
    sequence: Sequence,
    depth: u64,
    last: u64,
}

impl Sequence {
    fn new(number: u64, track: Option<Track>) -> Self {
        let (names, recent, categories) = (HashMap::new(), Vec::new(), Vec::new());
        Self { number, track, names, recent, categories, is_started: false }
    }

    /// Number of a name, and whether it is new.
    #[inline]
    fn number_of(&mut self, name: &str) -> (u64, bool) {
        let slot = slot_of(name);
        if let Some((_, number)) = self.recent.get(slot).filter(|(recent, _)| **recent == *name) {
            return (*number, false);
        }
        let found = self.find(name);
        self.recent.resize(RECENT, Default::default());
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = (name.into(), found.0);
        }
        found
    }

    fn find(&mut self, name: &str) -> (u64, bool) {
        if let Some(number) = self.names.get(name) {
            return (*number, false);
        }
        let number = self.names.len() as u64 + 1;
        self.names.insert(name.into(), number);
        (number, true)
    }

    /// Number of a category, of which there are few, and whether it is new.
    fn category(&mut self, name: &str) -> (u64, bool) {
        let known = self.categories.iter().position(|known| **known == *name);
        if known.is_none() {
            self.categories.push(name.into());
        }
        (known.unwrap_or(self.categories.len() - 1) as u64 + 1, known.is_none())
    }

    #[inline]
    fn push(&mut self, out: &mut Vec<u8>, event: &Event<'_>) {
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
            self.recent.clear();
            self.categories.clear();
            self.is_started = false;
        }
        let name = event.name.map(|name| (self.number_of(name), name));
        let category = event.category.map(|name| (self.category(name), name));
        let is_first = !std::mem::replace(&mut self.is_started, true);
        push_message(out, field::PACKET, |out| {
            push_number(out, field::TIMESTAMP, event.at.min(MAX_TIME));
            push_number(out, field::SEQUENCE, self.number);
            push_number(out, field::FLAGS, if is_first { CLEARED | NEEDS_STATE } else { NEEDS_STATE });
            if let Some(track) = self.track.filter(|_| is_first) {
                push_message(out, field::DEFAULTS, |out| {
                    push_message(out, field::TRACK_EVENT, |out| push_number(out, field::EVENT_TRACK, track.0));
                });
            }
            push_message(out, field::TRACK_EVENT, |out| {
                push_number(out, field::EVENT_TYPE, event.kind);
                event.track.into_iter().for_each(|track| push_number(out, field::EVENT_TRACK, track.0));
                name.iter().for_each(|((number, _), _)| push_number(out, field::EVENT_NAME, *number));
                category.iter().for_each(|((number, _), _)| push_number(out, field::EVENT_CATEGORY, *number));
                if let Some((about, text)) = event.remark {
                    push_message(out, field::EVENT_ANNOTATION, |out| {
                        push_text(out, field::ANNOTATION_NAME, about);
                        push_text(out, field::ANNOTATION_TEXT, text);
                    });
                }
            });
            let interned = [(field::INTERNED_NAME, name), (field::INTERNED_CATEGORY, category)];
            if [name, category].iter().flatten().any(|((_, is_new), _)| *is_new) {
                push_message(out, field::INTERNED, |out| interned.iter().for_each(|name| push_interned(out, name)));
            }
        });
    }
}

/// The slot of a name among the recent ones: by its length and its last letters, which differ most.
#[inline]
fn slot_of(name: &str) -> usize {
    let last = name.as_bytes().iter().rev().take(4).fold(name.len(), |slot, byte| slot * 31 + usize::from(*byte));
    last % RECENT
}

/// A number, whether it is new, and the name that it stands for.
type Interned<'n> = ((u64, bool), &'n str);

/// Adds a name with its number, if it is new.
fn push_interned(out: &mut Vec<u8>, (kind, name): &(u32, Option<Interned<'_>>)) {
    if let Some(((number, true), text)) = name {
        push_message(out, *kind, |out| {
            push_number(out, field::NUMBER, *number);
            push_text(out, field::TEXT, text);
        });
    }
}

impl<W: Write> PerfettoWriter<W> {
    /// Starts a trace.
    pub fn new(out: W) -> Self {
        Self { out, buffer: Vec::with_capacity(2 * BUFFER), tracks: 0, sequences: 1, marks: Sequence::new(1, None) }
    }

    /// Adds a track, which may be below another one.
    pub fn track(&mut self, name: &str, parent: Option<Track>) -> io::Result<Track> {
        self.describe(name, parent, |_| {})
    }

    /// Adds a track of values.
    pub fn counter(&mut self, name: &str, unit: &str, parent: Option<Track>) -> io::Result<Track> {
        self.describe(name, parent, |out| {
            push_message(out, field::TRACK_COUNTER, |out| push_text(out, field::COUNTER_UNIT, unit));
        })
    }

    fn describe(&mut self, name: &str, parent: Option<Track>, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<Track> {
        self.tracks += 1;
        let track = Track(self.tracks);
        push_message(&mut self.buffer, field::PACKET, |out| {
            push_number(out, field::SEQUENCE, 1);
            push_message(out, field::TRACK_DESCRIPTOR, |out| {
                push_number(out, field::TRACK_ID, track.0);
                push_text(out, field::TRACK_NAME, name);
                parent.into_iter().for_each(|parent| push_number(out, field::TRACK_PARENT, parent.0));
                fill(out);
            });
        });
        self.spill()?;
        Ok(track)
    }

    /// Marks a time, in nanoseconds. `remark`: what it is about, and its text.
    pub fn instant(
        &mut self,
        track: Track,
        at: u64,
        (name, category): (&str, &str),
        remark: Option<(&str, &str)>,
    ) -> io::Result<()> {
        let (name, category) = (Some(name), Some(category));
        let event = Event { kind: INSTANT, at, track: Some(track), name, category, remark };
        self.marks.push(&mut self.buffer, &event);
        self.spill()
    }

    /// The value of a counter from a time on, in nanoseconds.
    pub fn value(&mut self, counter: Track, at: u64, value: f64) -> io::Result<()> {
        push_message(&mut self.buffer, field::PACKET, |out| {
            push_number(out, field::TIMESTAMP, at.min(MAX_TIME));
            push_number(out, field::SEQUENCE, 1);
            push_message(out, field::TRACK_EVENT, |out| {
                push_number(out, field::EVENT_TYPE, VALUE);
                push_number(out, field::EVENT_TRACK, counter.0);
                push_double(out, field::EVENT_VALUE, value);
            });
        });
        self.spill()
    }

    /// Starts the slices of a track.
    pub fn slices(&mut self, track: Track) -> Slices<'_, W> {
        self.sequences += 1;
        let sequence = Sequence::new(self.sequences, Some(track));
        Slices { writer: self, sequence, depth: 0, last: 0 }
    }

    /// Ends the trace.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.buffer)?;
        self.out.flush()?;
        Ok(self.out)
    }

    #[inline]
    fn spill(&mut self) -> io::Result<()> {
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl<W: Write> Slices<'_, W> {
    /// A slice begins, at a time in nanoseconds. `remark`: what it is about, and its text.
    #[inline]
    pub fn begin(&mut self, at: u64, name: &str, category: &str, remark: Option<(&str, &str)>) -> io::Result<()> {
        self.depth += 1;
        self.push(BEGIN, at, Some(name), Some(category), remark)
    }

    /// The innermost slice ends.
    #[inline]
    pub fn end(&mut self, at: u64, remark: Option<(&str, &str)>) -> io::Result<()> {
        if self.depth == 0 {
            return Ok(());
        }
        self.depth -= 1;
        self.push(END, at, None, None, remark)
    }

    /// The value of a counter from a time on.
    pub fn value(&mut self, counter: Track, at: u64, value: f64) -> io::Result<()> {
        self.writer.value(counter, at, value)
    }

    /// Ends the slices in progress.
    pub fn finish(mut self) -> io::Result<()> {
        while self.depth > 0 {
            self.end(self.last, None)?;
        }
        Ok(())
    }

    #[inline]
    fn push(
        &mut self,
        kind: u64,
        at: u64,
        name: Option<&str>,
        category: Option<&str>,
        remark: Option<(&str, &str)>,
    ) -> io::Result<()> {
        self.last = self.last.max(at);
        let event = Event { kind, at: self.last, track: None, name, category, remark };
        self.sequence.push(&mut self.writer.buffer, &event);
        self.writer.spill()
    }
}
