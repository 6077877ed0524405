//! Software trace as text and JSON lines: values by channel, text joined to lines, observations of a DWT.
//!
//! Takes the elements of a source without instructions; produces lines. A channel whose values are printable is text: its
//! values are joined up to the end of a line, a flag, or anything that interrupts it. In JSON every value is an object.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use unspool::coresight::fields::{Fields as _, Value};
use unspool::coresight::frame::FrameError;
use unspool::coresight::stm::Kind;
use unspool::coresight::{Element, ElementItem, Located, Protocol, Sink, Software, Time, TimeQuality};
use unspool::{ChannelNames, Watch};

use super::summary::Summary;
use crate::listing::{JsonFields, Listing};
use crate::style::Palette;
use crate::verdict::Verdict;

/// Longest line of text.
const MAX_LINE: usize = 4096;

/// Most channels with an unfinished line.
const MAX_OPEN: usize = 256;

/// Master and channel, as far as they are known.
type Channel = (Option<u16>, Option<u16>);

/// Prints the elements of one source.
pub(super) struct SoftwarePrinter<'o, 'c, 'p> {
    listing: Listing<'o, 'c>,
    names: &'p ChannelNames,
    summary: &'p mut Summary,
    /// Text is joined to lines.
    joins: bool,
    /// Text that has not ended.
    open: BTreeMap<Channel, OpenLine>,
}

/// Text of one channel.
struct OpenLine {
    text: String,
    time: Option<Time>,
}

impl<'o, 'c, 'p> SoftwarePrinter<'o, 'c, 'p> {
    pub(super) fn new(
        listing: Listing<'o, 'c>,
        names: &'p ChannelNames,
        joins: bool,
        summary: &'p mut Summary,
    ) -> Self {
        let joins = joins && !listing.json;
        Self { listing, names, summary, joins, open: BTreeMap::new() }
    }

    /// Ends the source. Returns the verdict, and whether all of it was listed.
    pub(super) fn finish(mut self) -> (Verdict, bool) {
        self.flush();
        (self.listing.verdict(), self.listing.window.is_open())
    }

    fn element(&mut self, element: &Located<Element>) {
        match &element.value {
            Element::Software(software) if self.joins => self.value(software),
            Element::Software(software) => self.written(element.offset, software),
            other => {
                self.interrupt(other);
                self.other(element);
            }
        }
    }

    /// Ends text before an element that interrupts it.
    fn interrupt(&mut self, element: &Element) {
        match element {
            Element::Stm(own) if own.kind == Kind::Flag => self.end((own.master, own.channel)),
            Element::Overflow => self.flush(),
            _ => {}
        }
    }

    /// A value: text is joined, anything else is a line.
    fn value(&mut self, software: &Software) {
        let channel = (software.master, software.channel);
        let (bytes, length) = software.bytes();
        let bytes = bytes.get(..length).unwrap_or_default();
        if bytes == [0] && self.open.contains_key(&channel) {
            return self.end(channel);
        }
        if software.bits < 8 || !bytes.iter().all(|byte| is_text(*byte)) {
            self.end(channel);
            return self.written(0, software);
        }
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&channel) {
            self.flush();
        }
        for &byte in bytes {
            let line =
                self.open.entry(channel).or_insert_with(|| OpenLine { text: String::new(), time: software.time });
            match byte {
                b'\n' => self.end(channel),
                b'\r' => {}
                byte => {
                    line.text.push(char::from(byte));
                    if line.text.len() >= MAX_LINE {
                        self.end(channel);
                    }
                }
            }
        }
    }

    /// Prints all text that has not ended.
    fn flush(&mut self) {
        while let Some((&channel, _)) = self.open.first_key_value() {
            self.end(channel);
        }
    }

    /// Prints the text of a channel.
    fn end(&mut self, channel: Channel) {
        let Some(OpenLine { text, time }) = self.open.remove(&channel) else { return };
        let text = format!("{text:?}");
        self.line(channel, time, &text);
    }

    /// Prints a value.
    fn written(&mut self, offset: u64, software: &Software) {
        let channel = (software.master, software.channel);
        if self.listing.json {
            return self.json_value(offset, software);
        }
        let mut text = format!("0x{:0width$x}", software.payload, width = usize::from(software.bits / 4));
        if software.marked {
            text.push_str(" marked");
        }
        self.line(channel, software.time, &text);
    }

    fn line(&mut self, channel: Channel, time: Option<Time>, text: &str) {
        if !self.listing.window.is_open() || !self.listing.window.next() {
            return;
        }
        let label = self.label(channel);
        let Palette { symbol, detail, reset, .. } = self.listing.output.palette;
        let time = time_text(time);
        self.listing.output.write(|out| writeln!(out, "{detail}{time:>16}{reset}  {symbol}{label:<10}{reset}  {text}"));
    }

    /// The name of a channel, or its numbers.
    fn label(&self, (master, channel): Channel) -> String {
        let number = |number: Option<u16>| number.map_or_else(|| "?".to_string(), |number| number.to_string());
        let name = channel.and_then(|channel| self.names.channel(master, channel));
        let mut label = String::new();
        if self.protocol() == Some(Protocol::Stm) {
            match master.and_then(|master| self.names.master(master)) {
                Some(name) => label.push_str(name),
                None => match master {
                    Some(master) => {
                        let _ = write!(label, "{master:#x}");
                    }
                    None => label.push('?'),
                },
            }
            label.push(':');
        }
        label.push_str(&name.map_or_else(|| number(channel), str::to_string));
        label
    }

    fn protocol(&self) -> Option<Protocol> {
        self.listing.trace.source().protocol
    }

    fn json_value(&mut self, offset: u64, software: &Software) {
        if !self.listing.window.next() {
            return;
        }
        let (protocol, names) = (self.protocol(), self.names);
        self.listing.object("software", |object| {
            if let Some(protocol) = protocol {
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
    }

    /// Any other element.
    fn other(&mut self, element: &Located<Element>) {
        // In text, timestamps are in the column of the elements that they date.
        let is_column = matches!(&element.value, Element::Itm(own) if own.name() == "local_timestamp");
        if (is_column && !self.listing.json) || !self.listing.window.next() {
            return;
        }
        if self.listing.json {
            let protocol = self.protocol();
            return self.listing.object(element.value.name(), |object| {
                if let Some(protocol) = protocol {
                    object.string("protocol", protocol);
                }
                element.value.fields(&mut JsonFields(object));
                object.plain("offset", element.offset);
            });
        }
        let Palette { problem, mark, reset, .. } = self.listing.output.palette;
        let (color, sign) = if element.value == Element::Overflow { (problem, "!!") } else { (mark, "--") };
        let text = element.value.to_string();
        self.listing.output.write(|out| writeln!(out, "{color}{sign} {text}{reset}"));
    }
}

impl Sink<ElementItem> for SoftwarePrinter<'_, '_, '_> {
    fn item(&mut self, item: ElementItem) {
        // Items of a chunk after the last one requested are not printed.
        if !self.listing.window.is_open() {
            return;
        }
        self.listing.note(item.as_ref().err());
        match &item {
            Ok(element) => {
                self.summary.software(&element.value);
                self.element(element);
            }
            Err(error) => {
                self.flush();
                self.summary.skipped(error);
                if self.listing.window.shows() {
                    self.listing.error(error);
                }
            }
        }
    }
}

impl Watch for SoftwarePrinter<'_, '_, '_> {
    fn lost(&mut self, error: FrameError) {
        self.summary.lost(&error);
        self.listing.lost(error);
    }

    fn wants_more(&mut self) -> bool {
        self.listing.wants_more()
    }

    fn progress(&mut self, read: u64, total: u64) {
        self.listing.progress(read, total);
    }

    fn bytes_read(&mut self, bytes: u64) {
        self.summary.bytes_read(bytes);
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
