//! Software trace over time: values and text of channels, observations of a DWT, lost data.
//!
//! ```text
//! elements of an ITM or STM ─┬─▶ which times there are ─▶ SoftwareTimes
//!                            └─▶ text joined by channel ─▶ **marks**, each with its time
//! ```
//!
//! A channel whose values are printable is text, which ends with its line, at a flag, or at anything that interrupts it. Text has
//! the time of its first value, and is passed on when it ends: marks are not in the order of their times. Knows no viewer.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;

use unspool_capture::Capture;
use unspool_coresight::frame::FrameError;
use unspool_coresight::stm::Kind;
use unspool_coresight::{Element, ElementItem, Protocol, Sink, Software, Time, TimeQuality, itm};

use crate::{Error, Meter, PresentIds, Trace, Watch};

/// Longest text of a mark; longer text is several marks.
const MAX_TEXT: usize = 1 << 10;

/// Maximum number of channels with text that has not ended.
const MAX_OPEN: usize = 256;

/// Kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SoftwareKind {
    /// Text of a channel.
    Text,
    /// A value of a channel that is not text.
    Value,
    /// Anything else: an observation of a DWT, a trigger.
    Event,
    /// Data was lost, or cannot be read.
    Gap,
}

impl SoftwareKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Value => "value",
            Self::Event => "event",
            Self::Gap => "gap",
        }
    }
}

/// How well the time of a mark is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// It has this time.
    At,
    /// It has no time of its own: this is the last one before it.
    After,
    /// It has no time of its own: this is the first time of the source, and comes after it.
    Before,
    /// The source has no times: this is its number among the marks.
    Number,
}

/// Master and channel, as far as the trace names them.
type Channel = (Option<u16>, Option<u16>);

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftwareMark<'m> {
    /// What it is.
    pub kind: SoftwareKind,
    /// Master and channel, for what belongs to a channel.
    pub channel: Option<(Option<u16>, Option<u16>)>,
    /// The time.
    pub time: u64,
    /// How well it is known.
    pub timing: Timing,
    /// The text, or the value with its size.
    pub text: &'m str,
}

/// Times that a source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoftwareTimes {
    /// Timestamps.
    From {
        /// The first one.
        first: u64,
        /// They are timestamps of the system, not ticks since the start of the source.
        is_of_system: bool,
        /// The trace of cores has the same: they are of the system, and nothing shows that they are of another clock.
        is_common: bool,
    },
    /// None.
    None,
}

/// Consumer of marks.
pub type TakeMark<'t> = dyn FnMut(&SoftwareMark<'_>) -> io::Result<()> + 't;

/// A source of software trace in a capture.
#[derive(Debug)]
pub struct SoftwareSource {
    capture: Capture,
    /// Indices of its traces in [`Trace::all`].
    traces: Vec<usize>,
    protocol: Protocol,
    name: String,
}

impl SoftwareSource {
    /// The source of this name. `None`: it has instructions, or is not in the capture.
    pub fn new(capture: &Capture, name: &str) -> Option<Self> {
        let all = Trace::all(capture);
        let of_name = |trace: &Trace<'_>| trace.source().name == name;
        let first = all.iter().find(|trace| of_name(trace))?;
        let protocol = first.source().protocol.filter(|of| matches!(of, Protocol::Itm | Protocol::Stm))?;
        let traces = (0..).zip(&all).filter(|(_, trace)| of_name(trace)).map(|(index, _)| index).collect();
        Some(Self { capture: capture.clone(), traces, protocol, name: name.to_string() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its channels have masters.
    pub fn has_masters(&self) -> bool {
        self.protocol == Protocol::Stm
    }

    /// Bytes of its buffers, each of which is read twice.
    pub fn size(&self) -> u64 {
        let all = Trace::all(&self.capture);
        self.traces.iter().filter_map(|at| all.get(*at)).map(|trace| 2 * trace.buffer().len()).sum()
    }

    /// The times of its elements.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read.
    pub fn times(&self, meter: &Meter) -> Result<SoftwareTimes, Error> {
        let mut found = FindTimes::new(self.protocol, meter);
        self.each_trace(|trace| {
            let known = trace.clock().frequency.filter(|known| !known.is_assumed);
            (found.counted, found.frequency) = (0, known.map(|known| known.hertz));
            trace.elements(&mut found).map(|()| true)
        })?;
        Ok(match (found.of_system, found.own) {
            (Some(first), _) => SoftwareTimes::From { first, is_of_system: true, is_common: !found.is_other_clock },
            (None, Some(first)) => SoftwareTimes::From { first, is_of_system: false, is_common: false },
            (None, None) => SoftwareTimes::None,
        })
    }

    /// Passes on all marks, with [these times](Self::times). An error of the consumer ends it.
    ///
    /// # Errors
    ///
    /// The outer one if the trace cannot be read, the inner one if the consumer has failed.
    pub fn each(&self, times: SoftwareTimes, meter: &Meter, take: &mut TakeMark<'_>) -> Result<io::Result<()>, Error> {
        let mut marker = Marker::new(self.protocol, times, meter, take);
        self.each_trace(|trace| {
            marker.counted = 0;
            trace.elements(&mut marker)?;
            marker.end_all();
            Ok(marker.written.is_ok())
        })?;
        Ok(marker.written)
    }

    fn each_trace(&self, mut take: impl FnMut(&Trace<'_>) -> Result<bool, Error>) -> Result<(), Error> {
        let (all, mut present) = (Trace::all(&self.capture), PresentIds::default());
        for trace in self.traces.iter().filter_map(|at| all.get(*at)).filter(|trace| present.may_have(trace)) {
            if !take(trace)? {
                break;
            }
        }
        Ok(())
    }
}

/// The time of an element: whether it is one of the system, or of the source alone. Zero: no counter runs.
fn time_of(protocol: Protocol, element: &Element) -> Option<(u64, bool)> {
    let own = match element {
        Element::Timestamp { value, .. } => return Some((*value, true)).filter(|_| *value != 0),
        Element::Software(software) => software.time,
        Element::Stm(own) => own.time,
        Element::Itm(itm::OwnElement::Event { time, .. }) => *time,
        _ => None,
    };
    // Local timestamps of an ITM count from an unknown start.
    let is_of_system = protocol == Protocol::Stm;
    let Time { value, quality } = own?;
    let is_known = !(matches!(quality, TimeQuality::Partial | TimeQuality::Earlier) || is_of_system && value == 0);
    is_known.then_some((value, is_of_system))
}

/// Search for the first times.
struct FindTimes<'m> {
    of_system: Option<u64>,
    own: Option<u64>,
    /// The frequency of the capture's timestamps.
    frequency: Option<u64>,
    /// The trace has another one.
    is_other_clock: bool,
    protocol: Protocol,
    meter: &'m Meter,
    counted: u64,
}

impl<'m> FindTimes<'m> {
    fn new(protocol: Protocol, meter: &'m Meter) -> Self {
        Self { of_system: None, own: None, frequency: None, is_other_clock: false, protocol, meter, counted: 0 }
    }

    fn element(&mut self, element: &Element) {
        if let Element::Stm(own) = element
            && let Kind::Frequency(found @ 1..) = own.kind
        {
            self.is_other_clock |= self.frequency.is_some_and(|known| known != found);
        }
        match time_of(self.protocol, element) {
            Some((time, true)) => drop(self.of_system.get_or_insert(time)),
            Some((time, false)) => drop(self.own.get_or_insert(time)),
            None => {}
        }
    }
}

impl Sink<ElementItem> for FindTimes<'_> {
    fn item(&mut self, item: ElementItem) {
        if let Ok(element) = item {
            self.element(&element.value);
        }
    }
}

impl Watch for FindTimes<'_> {
    fn progress(&mut self, read: u64, _total: u64) {
        self.meter.read.fetch_add(read.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = read;
    }
}

/// Text that has not ended.
struct OpenText {
    text: String,
    time: u64,
    timing: Timing,
}

/// Makes marks from elements.
struct Marker<'t, 'm> {
    protocol: Protocol,
    times: SoftwareTimes,
    /// The last time.
    last: Option<u64>,
    /// Number of marks, if there are no times.
    count: u64,
    open: BTreeMap<Channel, OpenText>,
    take: &'t mut TakeMark<'m>,
    written: io::Result<()>,
    meter: &'t Meter,
    counted: u64,
}

impl<'t, 'm> Marker<'t, 'm> {
    fn new(protocol: Protocol, times: SoftwareTimes, meter: &'t Meter, take: &'t mut TakeMark<'m>) -> Self {
        let open = BTreeMap::new();
        Self { protocol, times, last: None, count: 0, open, take, written: Ok(()), meter, counted: 0 }
    }

    /// When something happens that has this time or none.
    fn now(&mut self, time: Option<(u64, bool)>) -> (u64, Timing) {
        let SoftwareTimes::From { first, is_of_system, .. } = self.times else {
            self.count += 1;
            return (self.count - 1, Timing::Number);
        };
        match (time.filter(|(_, of_system)| *of_system == is_of_system), self.last) {
            (Some((time, _)), _) => {
                self.last = Some(time);
                (time, Timing::At)
            }
            (None, Some(last)) => (last, Timing::After),
            (None, None) => (first, Timing::Before),
        }
    }

    fn element(&mut self, element: &Element) {
        let time = time_of(self.protocol, element);
        match element {
            Element::Software(software) => self.value(software, time),
            Element::Stm(own) => match own.kind {
                Kind::Flag => {
                    let channel = (own.master, own.channel);
                    let now = self.follow(time);
                    self.date(channel, now);
                    self.end(channel);
                }
                Kind::Time | Kind::Frequency(_) => drop(self.follow(time)),
                Kind::MasterError(_) | Kind::GlobalError(_) | Kind::ChannelError(_) => self.lost(element, time),
                _ => self.event(SoftwareKind::Event, element, time),
            },
            Element::Overflow => self.lost(element, time),
            Element::Itm(itm::OwnElement::Event { .. }) => self.event(SoftwareKind::Event, element, time),
            _ => drop(self.follow(time)),
        }
    }

    /// Takes note of a time.
    fn follow(&mut self, time: Option<(u64, bool)>) -> Option<(u64, Timing)> {
        time.filter(|_| self.times != SoftwareTimes::None).map(|time| self.now(Some(time)))
    }

    fn lost(&mut self, element: &Element, time: Option<(u64, bool)>) {
        self.end_all();
        self.event(SoftwareKind::Gap, element, time);
    }

    fn event(&mut self, kind: SoftwareKind, element: &Element, time: Option<(u64, bool)>) {
        let (time, timing) = self.now(time);
        let text = match element {
            // Its time is that of the mark.
            Element::Itm(itm::OwnElement::Event { event, .. }) => event.to_string(),
            other => other.to_string().split(", time ").next().unwrap_or_default().to_string(),
        };
        self.emit(&SoftwareMark { kind, channel: None, time, timing, text: &text });
    }

    fn value(&mut self, software: &Software, time: Option<(u64, bool)>) {
        let channel = (software.master, software.channel);
        let (bytes, length) = software.bytes();
        let bytes = bytes.get(..length).unwrap_or_default();
        if bytes == [0] && self.open.contains_key(&channel) {
            self.follow(time);
            return self.end(channel);
        }
        if software.bits >= 8 && bytes.iter().all(|byte| is_text(*byte)) {
            return self.text(channel, bytes, time);
        }
        self.end(channel);
        let (time, timing) = self.now(time);
        let digits = usize::from(software.bits / 4);
        let marked = if software.marked { ", marked" } else { "" };
        let text = format!("{:#0width$x} ({} bits{marked})", software.payload, software.bits, width = digits + 2);
        self.emit(&SoftwareMark { kind: SoftwareKind::Value, channel: Some(channel), time, timing, text: &text });
    }

    fn text(&mut self, channel: Channel, bytes: &[u8], time: Option<(u64, bool)>) {
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&channel) {
            self.end_all();
        }
        let mut now = if self.open.contains_key(&channel) { self.follow(time) } else { Some(self.now(time)) };
        self.date(channel, now);
        for &byte in bytes {
            match byte {
                b'\n' => self.end(channel),
                b'\r' => {}
                byte => {
                    let (time, timing) = match (self.open.contains_key(&channel), now.take()) {
                        (true, _) => (0, Timing::At),
                        (false, Some(now)) => now,
                        (false, None) => self.now(None),
                    };
                    let open = self.open.entry(channel).or_insert(OpenText { text: String::new(), time, timing });
                    open.text.push(char::from(byte));
                    if open.text.len() >= MAX_TEXT {
                        self.end(channel);
                    }
                }
            }
        }
    }

    /// Gives text without a time of its own one of a later value: a message may have its time only at its end.
    fn date(&mut self, channel: Channel, now: Option<(u64, Timing)>) {
        if let (Some(open), Some((time, Timing::At))) = (self.open.get_mut(&channel), now)
            && open.timing != Timing::At
        {
            (open.time, open.timing) = (time, Timing::At);
        }
    }

    /// Passes on the text of a channel.
    fn end(&mut self, channel: Channel) {
        if let Some(OpenText { text, time, timing }) = self.open.remove(&channel) {
            self.emit(&SoftwareMark { kind: SoftwareKind::Text, channel: Some(channel), time, timing, text: &text });
        }
    }

    fn end_all(&mut self) {
        while let Some((&channel, _)) = self.open.first_key_value() {
            self.end(channel);
        }
    }

    fn damaged(&mut self, text: &str) {
        self.end_all();
        let (time, timing) = self.now(None);
        self.emit(&SoftwareMark { kind: SoftwareKind::Gap, channel: None, time, timing, text });
    }

    fn emit(&mut self, mark: &SoftwareMark<'_>) {
        if self.written.is_ok() {
            self.written = (self.take)(mark);
        }
    }
}

impl Sink<ElementItem> for Marker<'_, '_> {
    fn item(&mut self, item: ElementItem) {
        match item {
            Ok(element) => self.element(&element.value),
            Err(error) => self.damaged(&format!("damaged: {error}")),
        }
    }
}

impl Watch for Marker<'_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.damaged(&format!("damaged: {error}"));
    }

    fn wants_more(&mut self) -> bool {
        self.written.is_ok()
    }

    fn progress(&mut self, read: u64, _total: u64) {
        self.meter.read.fetch_add(read.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = read;
    }
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n')
}
