//! System events that software trace carries: the lines of the event log, written to a channel of an STM or ITM.
//!
//! elements of a source ─▶ text of one channel ─▶ **system events**, on the clock of the event log
//!
//! Arm's "CoreSight trace decode metadata requirements" lets an STM carry the events and leaves their form open: it is that of
//! the log (`docs/event-log.md`). A line without a time has that of the trace. The key `event_channel` of a source names the
//! channel. Knows nothing of the meaning of the events.

use std::str::FromStr;

use unspool_capture::{Capture, Note, NoteKind, SystemEvent, SystemLog};
use unspool_coresight::stm::Kind;
use unspool_coresight::{Element, ElementItem, Sink, Software, Time, TimeQuality};

use crate::{Error, Trace, Watch};

/// Key of a source that names its channel of system events.
const EVENT_CHANNEL: &str = "event_channel";

/// Number of bytes of text that are kept.
const TEXT_LIMIT: usize = 64 << 20;

/// A channel that carries system events: `MASTER:CHANNEL` of an STM, or a port of an ITM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventChannel {
    /// The master; `None`: any.
    pub master: Option<u16>,
    /// The channel or port.
    pub channel: u16,
}

impl FromStr for EventChannel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let digits = text.trim();
            let parsed = match digits.strip_prefix("0x") {
                Some(digits) => u16::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            parsed.map_err(|_| format!("'{text}' is not a number up to 65535"))
        };
        match text.split_once(':') {
            Some((master, channel)) => Ok(Self { master: Some(number(master)?), channel: number(channel)? }),
            None => Ok(Self { master: None, channel: number(text)? }),
        }
    }
}

/// The events of a channel, and notes on lines that are none.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn channel_events(trace: &Trace<'_>, channel: EventChannel) -> Result<(Vec<SystemEvent>, Vec<Note>), Error> {
    let mut text = ChannelText::new(channel);
    trace.elements(&mut text)?;
    text.end_line();
    let mut log = SystemLog::read(text.bytes.as_slice());
    let clock = trace.clock();
    for event in &mut log.events {
        let line = event.place.checked_sub(1).and_then(|line| text.times.get(usize::try_from(line).ok()?));
        event.time = event.time.or_else(|| clock.event_time((*line?)?));
    }
    let mut notes = log.notes(&trace.source().name);
    if text.bytes.len() >= TEXT_LIMIT {
        notes.push(note(
            trace,
            NoteKind::TooMany,
            format!("more than {TEXT_LIMIT} bytes of events; the rest is ignored"),
        ));
    }
    Ok((log.events, notes))
}

/// Adds the events of all channels that the sources of a capture name. Problems become notes.
pub(crate) fn add_channel_events(capture: &mut Capture) {
    let (mut events, mut notes) = (Vec::new(), Vec::new());
    for trace in Trace::all(capture) {
        let options = trace.source().options.iter();
        let named = options.filter(|(key, _)| key.eq_ignore_ascii_case(EVENT_CHANNEL));
        for (key, value) in named {
            match value.parse() {
                Ok(channel) => match channel_events(&trace, channel) {
                    Ok((found, more)) => {
                        events.extend(found);
                        notes.extend(more);
                    }
                    Err(error) => notes.push(note(&trace, NoteKind::Unreadable, error.to_string())),
                },
                Err(error) => notes.push(note(&trace, NoteKind::BadValue, format!("`{key}`: {error}"))),
            }
        }
    }
    // A package that is saved has these events in its log.
    for source in &mut capture.sources {
        source.options.retain(|(key, _)| !key.eq_ignore_ascii_case(EVENT_CHANNEL));
    }
    capture.events.extend(events);
    capture.notes.extend(notes);
}

fn note(trace: &Trace<'_>, kind: NoteKind, text: String) -> Note {
    Note { kind, file: trace.source().name.clone(), line: None, offset: None, text }
}

/// Text of one channel, with the time of each line.
struct ChannelText {
    channel: EventChannel,
    bytes: Vec<u8>,
    times: Vec<Option<u64>>,
    /// The line has begun; its time, if known.
    line: Option<Option<u64>>,
    /// The last global timestamp of an ITM.
    global: Option<u64>,
}

impl ChannelText {
    fn new(channel: EventChannel) -> Self {
        Self { channel, bytes: Vec::new(), times: Vec::new(), line: None, global: None }
    }

    fn is_ours(&self, master: Option<u16>, channel: Option<u16>) -> bool {
        let EventChannel { master: wanted, channel: number } = self.channel;
        channel == Some(number) && wanted.is_none_or(|wanted| master == Some(wanted))
    }

    fn value(&mut self, software: &Software) {
        let (bytes, length) = software.bytes();
        let is_itm = software.master.is_none();
        let time = if is_itm { self.global } else { software.time.and_then(common) };
        for &byte in bytes.iter().take(length) {
            match byte {
                // A value of a fixed size may be filled up with zeros.
                0 => {}
                b'\n' => self.end_line(),
                byte if self.bytes.len() < TEXT_LIMIT => {
                    self.line.get_or_insert(time);
                    self.bytes.push(byte);
                }
                _ => {}
            }
        }
    }

    /// Ends a line, at a line feed or a flag.
    fn end_line(&mut self) {
        if let Some(time) = self.line.take() {
            self.bytes.push(b'\n');
            self.times.push(time);
        }
    }
}

/// A time that the trace of cores has too.
fn common(time: Time) -> Option<u64> {
    matches!(time.quality, TimeQuality::Exact | TimeQuality::Earlier).then_some(time.value).filter(|time| *time != 0)
}

impl Sink<ElementItem> for ChannelText {
    fn item(&mut self, item: ElementItem) {
        let Ok(element) = item else {
            // The rest of the line may be missing: what is left is reported as a line that is no event.
            return self.end_line();
        };
        match &element.value {
            Element::Timestamp { value, .. } => self.global = Some(*value),
            Element::Software(software) if self.is_ours(software.master, software.channel) => self.value(software),
            Element::Stm(own) if own.kind == Kind::Flag && self.is_ours(own.master, own.channel) => {
                // A message may have its time only at its end.
                let time = own.time.and_then(common);
                self.line = self.line.map(|line| line.or(time));
                self.end_line();
            }
            _ => {}
        }
    }
}

impl Watch for ChannelText {}
