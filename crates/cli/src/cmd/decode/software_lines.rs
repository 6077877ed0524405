//! Lines of software trace, in the order in which they began: values by channel, text joined to lines, observations of a
//! DWT.
//!
//! elements of a source ─▶ **lines**, each with its time window
//!
//! A channel whose values are printable is text: its values are joined up to the end of a line, a flag, or anything that
//! interrupts it. In JSON every value is an object. A line waits for those that began before it, and, in an order of time,
//! for the next time of its source, before which it ended.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use unspool::coresight::fields::{Fields as _, Value};
use unspool::coresight::stm::Kind;
use unspool::coresight::{Element, ElementError, ElementItem, Located, Protocol, Software, Time, TimeQuality};
use unspool::coresight::{itm, stm};
use unspool::order::TimeWindow;
use unspool::{ChannelNames, Trace};

use super::summary::SoftwareCounts;
use super::tagged::Line;
use crate::listing::{JsonFields, error_text, push_error, push_object};
use crate::style::Palette;

/// Longest line of text.
const MAX_LINE: usize = 4096;

/// Most channels with an unfinished line.
const MAX_OPEN: usize = 256;

/// Most lines that wait for an unfinished one, or for a time.
const MAX_WAITING: usize = 1 << 16;

/// Master and channel, as far as they are known.
type Channel = (Option<u16>, Option<u16>);

/// How lines are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct SoftwareStyle<'p> {
    pub(super) names: &'p ChannelNames,
    /// Text is joined to lines. JSON never joins it.
    pub(super) joins: bool,
    pub(super) json: bool,
    pub(super) palette: Palette,
}

/// One line.
#[derive(Debug)]
pub(super) struct SoftwareLine {
    pub(super) kind: Line,
    pub(super) text: String,
    /// When its elements were written, in an order of time.
    pub(super) window: TimeWindow,
    pub(super) counts: SoftwareCounts,
    /// The problem that it reports.
    pub(super) error: Option<ElementError>,
}

/// Makes lines from elements.
pub(super) struct SoftwareLines<'p> {
    trace: Trace<'p>,
    style: SoftwareStyle<'p>,
    times: Times,
    queue: VecDeque<Entry>,
    /// Number of entries that have left the queue.
    taken: usize,
    /// Numbers of the entries whose end is the next time.
    waiting: Vec<usize>,
    /// Text that has not ended.
    open: BTreeMap<Channel, OpenText>,
}

/// A line that waits.
struct Entry {
    line: SoftwareLine,
    is_complete: bool,
    /// Its end is the next time of the source.
    waits: bool,
}

/// Text of one channel.
struct OpenText {
    /// Number of its entry.
    entry: usize,
    text: String,
    time: Option<Time>,
}

/// When an element was written.
#[derive(Clone, Copy)]
struct Moment {
    window: TimeWindow,
    waits: bool,
}

/// Times of a source that other sources have too.
#[derive(Debug, Clone, Copy)]
pub(super) enum Times {
    /// There are none: this is what is known of all elements.
    Whole(TimeWindow),
    /// The last of them.
    Since(Option<u64>),
}

impl<'p> SoftwareLines<'p> {
    pub(super) fn new(trace: Trace<'p>, style: SoftwareStyle<'p>, times: Times) -> Self {
        let style = SoftwareStyle { joins: style.joins && !style.json, ..style };
        let (queue, waiting, open) = (VecDeque::new(), Vec::new(), BTreeMap::new());
        Self { trace, style, times, queue, taken: 0, waiting, open }
    }

    /// The last time that other sources have too.
    pub(super) fn last_time(&self) -> Option<u64> {
        match self.times {
            Times::Whole(_) => None,
            Times::Since(last) => last,
        }
    }

    /// Times of the source cannot be compared with those of others from here on.
    pub(super) fn forget_time(&mut self) {
        self.settle(None);
        self.times = Times::Whole(TimeWindow { from: self.last_time(), to: None });
    }

    /// Adds an element.
    pub(super) fn push(&mut self, item: &ElementItem) {
        match item {
            Ok(element) => self.element(element),
            Err(error) => {
                self.end_all();
                self.error(*error);
            }
        }
        if self.queue.len() > MAX_WAITING {
            self.finish();
        }
    }

    /// Ends all lines.
    pub(super) fn finish(&mut self) {
        self.end_all();
        self.settle(None);
    }

    /// The next line that is complete.
    pub(super) fn next_line(&mut self) -> Option<SoftwareLine> {
        self.queue.front().filter(|entry| entry.is_complete && !entry.waits)?;
        self.taken += 1;
        self.queue.pop_front().map(|entry| entry.line)
    }

    fn element(&mut self, element: &Located<Element>) {
        let moment = self.moment(&element.value);
        match &element.value {
            Element::Software(software) if self.style.joins => self.value(element.offset, software, moment),
            Element::Software(software) => self.written(element.offset, software, moment),
            other => {
                self.interrupt(other);
                self.other(element, moment);
            }
        }
    }

    /// When an element was written. A time of the source is the end of what waits for it.
    fn moment(&mut self, element: &Element) -> Moment {
        let last = match self.times {
            Times::Whole(window) => return Moment { window, waits: false },
            Times::Since(last) => last,
        };
        let Some(time) = self.common_time(element) else {
            return Moment { window: TimeWindow { from: last, to: None }, waits: true };
        };
        let time = Some(time).max(last);
        self.settle(time);
        self.times = Times::Since(time);
        Moment { window: TimeWindow { from: time, to: time }, waits: false }
    }

    /// The time of an element, if other sources have it too: a whole timestamp of its own. Zero: no counter runs.
    fn common_time(&self, element: &Element) -> Option<u64> {
        let time = match element {
            Element::Timestamp { value, .. } => Some(*value),
            // Local timestamps of an ITM count from an unknown start.
            Element::Software(Software { time, .. }) | Element::Stm(stm::OwnElement { time, .. })
                if self.protocol() == Some(Protocol::Stm) =>
            {
                time.filter(|time| time.quality == TimeQuality::Exact).map(|time| time.value)
            }
            _ => None,
        };
        time.filter(|time| *time != 0)
    }

    /// Ends what waits for a time, at this one or at an unknown one.
    fn settle(&mut self, time: Option<u64>) {
        for number in std::mem::take(&mut self.waiting) {
            let entry = number.checked_sub(self.taken).and_then(|index| self.queue.get_mut(index));
            if let Some(entry) = entry.filter(|entry| entry.waits) {
                (entry.line.window.to, entry.waits) = (time, false);
            }
        }
    }

    /// Ends text before an element that interrupts it.
    fn interrupt(&mut self, element: &Element) {
        match element {
            Element::Stm(own) if own.kind == Kind::Flag => self.end((own.master, own.channel)),
            Element::Overflow => self.end_all(),
            _ => {}
        }
    }

    /// A value: text is joined, anything else is a line.
    fn value(&mut self, offset: u64, software: &Software, moment: Moment) {
        let channel = (software.master, software.channel);
        let (bytes, length) = software.bytes();
        let bytes = bytes.get(..length).unwrap_or_default();
        if bytes == [0] && self.open.contains_key(&channel) {
            self.extend(channel, software, &moment);
            return self.end(channel);
        }
        if software.bits < 8 || !bytes.iter().all(|byte| is_text(*byte)) {
            self.end(channel);
            return self.written(offset, software, moment);
        }
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&channel) {
            self.end_all();
        }
        self.text(channel, software, bytes, &moment);
    }

    /// Adds text to the line of a channel. Of the lines that a value with line ends makes, the first counts it.
    fn text(&mut self, channel: Channel, software: &Software, bytes: &[u8], moment: &Moment) {
        self.extend(channel, software, moment);
        for &byte in bytes {
            if !self.open.contains_key(&channel) {
                self.start(channel, software.time, moment);
            }
            let Some(open) = self.open.get_mut(&channel) else { return };
            match byte {
                b'\n' => self.end(channel),
                b'\r' => {}
                byte => {
                    open.text.push(char::from(byte));
                    if open.text.len() >= MAX_LINE {
                        self.end(channel);
                    }
                }
            }
        }
    }

    /// Starts the text of a channel.
    fn start(&mut self, channel: Channel, time: Option<Time>, moment: &Moment) {
        let entry = self.taken + self.queue.len();
        let moment = Moment { window: moment.window, waits: moment.waits };
        self.add(Line::Item, String::new(), moment, SoftwareCounts::default(), None);
        if let Some(entry) = self.queue.back_mut() {
            entry.is_complete = false;
        }
        self.open.insert(channel, OpenText { entry, text: String::new(), time });
    }

    /// Counts a value with the text of its channel, which ends no earlier than the value.
    fn extend(&mut self, channel: Channel, software: &Software, moment: &Moment) {
        if !self.open.contains_key(&channel) {
            self.start(channel, software.time, moment);
        }
        let counts = SoftwareCounts::of(self.protocol(), &Element::Software(*software));
        let Some(number) = self.open.get(&channel).map(|open| open.entry) else { return };
        let Some(entry) = number.checked_sub(self.taken).and_then(|index| self.queue.get_mut(index)) else { return };
        entry.line.counts.merge(&counts);
        (entry.line.window.to, entry.waits) = (moment.window.to, moment.waits);
        if moment.waits {
            self.waiting.push(number);
        }
    }

    /// Completes all text that has not ended.
    fn end_all(&mut self) {
        while let Some((&channel, _)) = self.open.first_key_value() {
            self.end(channel);
        }
    }

    /// Completes the text of a channel.
    fn end(&mut self, channel: Channel) {
        let Some(OpenText { entry, text, time }) = self.open.remove(&channel) else { return };
        let line = self.line(channel, time, &format!("{text:?}"));
        if let Some(entry) = entry.checked_sub(self.taken).and_then(|index| self.queue.get_mut(index)) {
            (entry.line.text, entry.is_complete) = (line, true);
        }
    }

    /// Adds a value.
    fn written(&mut self, offset: u64, software: &Software, moment: Moment) {
        let text = if self.style.json {
            self.json_value(offset, software)
        } else {
            let mut text = format!("0x{:0width$x}", software.payload, width = usize::from(software.bits / 4));
            text.push_str(if software.marked { " marked" } else { "" });
            self.line((software.master, software.channel), software.time, &text)
        };
        let counts = SoftwareCounts::of(self.protocol(), &Element::Software(*software));
        self.add(Line::Item, text, moment, counts, None);
    }

    fn add(&mut self, kind: Line, text: String, moment: Moment, counts: SoftwareCounts, error: Option<ElementError>) {
        let Moment { window, waits } = moment;
        if waits {
            self.waiting.push(self.taken + self.queue.len());
        }
        let line = SoftwareLine { kind, text, window, counts, error };
        self.queue.push_back(Entry { line, is_complete: true, waits });
    }

    fn error(&mut self, error: ElementError) {
        let mut text = String::new();
        if self.style.json {
            push_error(&mut text, &self.trace, &error);
        } else {
            text = error_text(&error, &self.style.palette);
        }
        // An error has no time of its own.
        let moment = self.moment(&Element::Overflow);
        self.add(Line::Mark, text, moment, SoftwareCounts::default(), Some(error));
    }

    fn line(&self, channel: Channel, time: Option<Time>, text: &str) -> String {
        let label = self.label(channel);
        let Palette { symbol, detail, reset, .. } = self.style.palette;
        let time = time_text(time);
        format!("{detail}{time:>16}{reset}  {symbol}{label:<10}{reset}  {text}\n")
    }

    /// The name of a channel, or its numbers.
    fn label(&self, (master, channel): Channel) -> String {
        let number = |number: Option<u16>| number.map_or_else(|| "?".to_string(), |number| number.to_string());
        let name = channel.and_then(|channel| self.style.names.channel(master, channel));
        let mut label = String::new();
        if self.protocol() == Some(Protocol::Stm) {
            match master.map(|master| (master, self.style.names.master(master))) {
                Some((_, Some(name))) => label.push_str(name),
                Some((master, None)) => {
                    let _ = write!(label, "{master:#x}");
                }
                None => label.push('?'),
            }
            label.push(':');
        }
        label.push_str(&name.map_or_else(|| number(channel), str::to_string));
        label
    }

    fn protocol(&self) -> Option<Protocol> {
        self.trace.source().protocol
    }

    fn json_value(&self, offset: u64, software: &Software) -> String {
        let names = self.style.names;
        let mut text = String::new();
        push_object(&mut text, &self.trace, "software", |object| {
            if let Some(protocol) = self.protocol() {
                object.string("protocol", protocol);
            }
            let mut fields = JsonFields(object);
            Element::Software(*software).fields(&mut fields);
            let master = software.master.and_then(|master| names.master(master));
            let channel = software.channel.and_then(|channel| names.channel(software.master, channel));
            for (key, name) in [("master_name", master), ("channel_name", channel)] {
                if let Some(name) = name {
                    fields.field(key, Value::Text(&name));
                }
            }
            object.plain("offset", offset);
        });
        text
    }

    /// Any other element.
    fn other(&mut self, element: &Located<Element>, moment: Moment) {
        // In text, timestamps are in the column of the elements that they date.
        let is_column = matches!(&element.value, Element::Itm(itm::OwnElement::LocalTimestamp { .. }));
        if is_column && !self.style.json {
            return;
        }
        let mut text = String::new();
        if self.style.json {
            push_object(&mut text, &self.trace, element.value.name(), |object| {
                if let Some(protocol) = self.protocol() {
                    object.string("protocol", protocol);
                }
                element.value.fields(&mut JsonFields(object));
                object.plain("offset", element.offset);
            });
        } else {
            let Palette { problem, mark, reset, .. } = self.style.palette;
            let (color, sign) = if element.value == Element::Overflow { (problem, "!!") } else { (mark, "--") };
            text = format!("{color}{sign} {}{reset}\n", element.value);
        }
        let counts = SoftwareCounts::of(self.protocol(), &element.value);
        self.add(Line::Item, text, moment, counts, None);
    }
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n')
}

/// A time with a sign for its quality: `~` not exact, `>` or later, `+` relative.
fn time_text(time: Option<Time>) -> String {
    let Some(Time { value, quality }) = time else { return "-".to_string() };
    let sign = match quality {
        TimeQuality::Exact => "",
        TimeQuality::Earlier => ">",
        TimeQuality::Relative => "+",
        _ => "~",
    };
    format!("{sign}{value:#x}")
}
