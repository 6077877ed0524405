//! Packets of a capture around an instruction.

use std::collections::VecDeque;
use std::ops::Range;

use serde_json::{Value, json};
use unspool::capture::BufferFormat;
use unspool::coresight::frame::{FrameSink, Mark, Span};
use unspool::coresight::{Located, Packet, PacketItem, Sink};
use unspool::{Trace, Watch, read_frames};

use crate::Refusal;
use crate::job::locked;
use crate::parameters::Parameters;
use crate::source::{Source, Trace as ViewedTrace};

/// Packets before and after the one that is meant.
const BEFORE: usize = 40;
const AFTER: usize = 60;
/// Bytes of a packet that are shown.
const MAX_BYTES: usize = 64;

/// Answers a request for packets.
pub(crate) fn answer(trace: &ViewedTrace, source: &Source, parameters: &mut Parameters) -> Result<Value, Refusal> {
    let at = parameters.instruction("at")?;
    let none = |why: &str| Ok(json!({"packets": [], "why": why}));
    let Some(capture) = trace.opened.capture() else { return none("the trace is no capture: it has no packets") };
    let Some(row) = locked(&source.reader).row(at)? else { return none("the trace has no such instruction") };
    let all = Trace::all(capture);
    let traces: Vec<&Trace<'_>> = all.iter().filter(|trace| trace.source().name == source.name).collect();
    let [found] = traces[..] else { return none("the source is in several buffers: 'unspool packets' lists them") };
    let mut near = Near { offset: row.step.position, before: VecDeque::new(), after: Vec::new() };
    found.packets(&mut near).map_err(Refusal::unreadable)?;
    let Near { mut before, after, .. } = near;
    // The last packet that starts at or before the instruction's offset caused it.
    let here = before.pop_back();
    let all = || before.iter().chain(&here).chain(&after);
    let (first, end) = (all().next().map_or(0, |first| first.offset), all().last().map_or(0, ShownPacket::end));
    let mut bytes = BytesOf { id: found.source().id, wanted: first..end, position: 0, found: Vec::new() };
    let read = match found.buffer().format {
        BufferFormat::Raw => found.bytes(&mut bytes),
        _ => read_frames(capture, found.buffer_index(), &mut bytes),
    };
    read.map_err(Refusal::unreadable)?;
    let json = |packet: &ShownPacket, is_here| json(packet, &bytes.text(packet), is_here);
    let packets = before.iter().map(|packet| json(packet, false)).chain(here.iter().map(|packet| json(packet, true)));
    let packets: Vec<Value> = packets.chain(after.iter().map(|packet| json(packet, false))).collect();
    Ok(json!({"packets": packets, "why": null}))
}

/// Bytes of a source in a part of a buffer, each with its offset.
struct BytesOf {
    id: Option<u8>,
    wanted: Range<u64>,
    /// Bytes of the source so far.
    position: u64,
    found: Vec<(u64, u8)>,
}

impl BytesOf {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let bytes = (offset..).zip(bytes.iter().copied());
        self.found.extend(bytes.filter(|(offset, _)| self.wanted.contains(offset)));
    }

    /// The bytes of a packet, as far as they are known.
    fn text(&self, packet: &ShownPacket) -> String {
        let Ok(first) = self.found.binary_search_by_key(&packet.offset, |(offset, _)| *offset) else {
            return String::new();
        };
        let length = usize::try_from(packet.length).unwrap_or(MAX_BYTES).min(MAX_BYTES);
        let bytes = self.found[first..].iter().take(length).map(|(_, byte)| format!("{byte:02x}"));
        bytes.collect::<Vec<_>>().join(" ")
    }
}

impl FrameSink for BytesOf {
    fn span(&mut self, span: Span<'_>) {
        if self.id == Some(span.id) {
            self.add(span.offset, span.bytes);
        }
        self.position = span.offset;
    }

    fn mark(&mut self, _: Mark) {}
}

impl<'b> Sink<&'b [u8]> for BytesOf {
    fn item(&mut self, bytes: &'b [u8]) {
        self.add(self.position, bytes);
        self.position += bytes.len() as u64;
    }
}

impl Watch for BytesOf {
    fn wants_more(&mut self) -> bool {
        self.position < self.wanted.end
    }
}

/// Packets around an offset.
struct Near {
    offset: u64,
    before: VecDeque<ShownPacket>,
    after: Vec<ShownPacket>,
}

struct ShownPacket {
    offset: u64,
    length: u64,
    name: String,
    text: String,
}

impl ShownPacket {
    fn end(&self) -> u64 {
        // Bytes of other sources may be in between.
        self.offset.saturating_add(2 * self.length).saturating_add(32)
    }
}

impl From<PacketItem> for ShownPacket {
    fn from(item: PacketItem) -> Self {
        match item {
            Ok(Located { offset, length, value }) => {
                let (name, text) = (Packet::kind(&value).name().to_string(), value.to_string());
                Self { offset, length, name, text }
            }
            Err(error) => Self {
                offset: error.offset,
                length: error.skipped,
                name: "malformed".to_string(),
                text: error.to_string(),
            },
        }
    }
}

fn json(packet: &ShownPacket, bytes: &str, is_here: bool) -> Value {
    let ShownPacket { offset, length, name, text } = packet;
    json!({"offset": offset, "length": length, "bytes": bytes, "name": name, "text": text, "here": is_here})
}

impl Sink<PacketItem> for Near {
    fn item(&mut self, item: PacketItem) {
        let offset = match &item {
            Ok(packet) => packet.offset,
            Err(error) => error.offset,
        };
        if offset > self.offset {
            if self.after.len() < AFTER {
                self.after.push(item.into());
            }
            return;
        }
        // Only the last ones are shown, and most are never described.
        if self.before.len() > BEFORE {
            self.before.pop_front();
        }
        self.before.push_back(item.into());
    }
}

impl Watch for Near {
    fn wants_more(&mut self) -> bool {
        self.after.len() < AFTER
    }
}
