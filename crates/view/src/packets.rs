//! Packets of a capture around an instruction.

use std::collections::VecDeque;

use serde_json::{Value, json};
use unspool::coresight::{Located, Packet, PacketItem, Sink};
use unspool::{Trace, Watch};

use crate::Refusal;
use crate::job::locked;
use crate::parameters::Parameters;
use crate::source::{Source, Trace as ViewedTrace};

/// Packets before and after the one that is meant.
const BEFORE: usize = 40;
const AFTER: usize = 60;

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
    let before = before.iter().map(|packet| json(packet, false));
    let packets = before.chain(here.iter().map(|packet| json(packet, true)));
    let packets: Vec<Value> = packets.chain(after.iter().map(|packet| json(packet, false))).collect();
    Ok(json!({"packets": packets, "why": null}))
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

fn json(packet: &ShownPacket, is_here: bool) -> Value {
    let ShownPacket { offset, length, name, text } = packet;
    json!({"offset": offset, "length": length, "bytes": "", "name": name, "text": text, "here": is_here})
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
