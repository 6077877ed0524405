//! Description of a capture and what is in its buffers.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Value, json};
use unspool_capture::{Capture, Code, EventSummary, Image, LoadedCode, Note, NoteKind, Source, Spaces};
use unspool_coresight::{Protocol, TraceError};

use crate::{EventMeanings, Overview, Trace, TraceOverview, demangle};

/// Description of a capture, with its overview.
#[derive(Debug)]
pub struct CaptureInfo<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// Contents of its buffers, if they were read.
    pub overview: Option<&'c Overview<'c>>,
    /// Its program images, if they were read.
    pub loaded: LoadedCode,
}

/// Totals over some of the streams of a source.
#[derive(Debug, Clone, Copy)]
pub struct SourceTotals<'c> {
    /// The source.
    pub source: &'c Source,
    /// Number of streams.
    pub sessions: u64,
    /// Number of streams that cannot be read.
    pub unreadable: u64,
    /// Number of packets, of their bytes, and of synchronizations.
    pub packets: u64,
    /// See `packets`.
    pub bytes: u64,
    /// See `packets`.
    pub synchronizations: u64,
    /// Number of E atoms and N atoms.
    pub atoms: [u64; 2],
    /// The first and the last timestamp.
    pub time: Option<(u64, u64)>,
    /// Number of ranges that are not packets, and of their bytes.
    pub malformed: u64,
    /// See `malformed`.
    pub malformed_bytes: u64,
    /// Number of bytes before the first synchronization of each stream.
    pub unsynchronized_bytes: u64,
}

impl<'c> SourceTotals<'c> {
    fn new(source: &'c Source) -> Self {
        Self {
            source,
            sessions: 0,
            unreadable: 0,
            packets: 0,
            bytes: 0,
            synchronizations: 0,
            atoms: [0; 2],
            time: None,
            malformed: 0,
            malformed_bytes: 0,
            unsynchronized_bytes: 0,
        }
    }

    fn add(&mut self, found: &TraceOverview) {
        self.packets += found.packets();
        self.bytes += found.bytes;
        self.synchronizations += found.count("alignment_sync");
        self.atoms = [self.atoms[0] + found.atoms[0], self.atoms[1] + found.atoms[1]];
        self.time = match (self.time, found.time) {
            (Some((first, last)), Some((a, b))) => Some((first.min(a), last.max(b))),
            (known, new) => known.or(new),
        };
        self.malformed += found.malformed;
        self.malformed_bytes += found.malformed_bytes;
        self.unsynchronized_bytes += found.unsynchronized_bytes;
    }
}

/// Whether all of the capture is trace. Unreadable buffers, unknown sources and bytes that are not trace are
/// problems.
pub fn is_sound(overview: &Overview<'_>) -> bool {
    let buffers = overview.buffers.iter().all(|buffer| buffer.as_ref().is_ok_and(|buffer| buffer.lost == 0));
    let is_trace = |trace: &TraceOverview| trace.malformed == 0 && trace.errors.is_empty() && is_synchronized(trace);
    let traces = overview.traces.iter().all(|(_, trace)| trace.as_ref().is_ok_and(is_trace));
    buffers && traces
}

/// Whether there are packets: bytes without any are not trace of this protocol.
fn is_synchronized(trace: &TraceOverview) -> bool {
    trace.packets() > 0 || trace.unsynchronized_bytes == 0
}

/// Images without repetition, with the cores and other devices of each.
pub fn images(capture: &Capture) -> Vec<(Image, Vec<&str>)> {
    let mut all: Vec<(Image, Vec<&str>)> = vec![];
    let cores = capture.cores.iter().map(|core| (&core.name, &core.images));
    let devices = capture.devices.iter().map(|device| (&device.name, &device.images));
    for (name, images) in cores.chain(devices) {
        for image in images {
            match all.iter_mut().find(|(known, _)| known == image) {
                Some((_, owners)) => owners.push(name),
                None => all.push((image.clone(), vec![name])),
            }
        }
    }
    all
}

impl CaptureInfo<'_> {
    /// Oddities of the description and of images. Missing files are noted in the description.
    pub fn notes(&self) -> Vec<&Note> {
        let of_images = self.loaded.notes.iter().filter(|note| note.kind != NoteKind::MissingFile);
        self.capture.notes.iter().chain(of_images).collect()
    }

    /// Code that was read of an image.
    pub fn code_of(&self, image: &Image) -> Option<&Code> {
        let spaces = image.space.as_deref().and_then(Spaces::from_name).unwrap_or(Spaces::ANY);
        let is_meant = |code: &&Code| {
            let first = code.regions.first();
            code.name == image.file
                && first.is_some_and(|region| region.spaces == spaces)
                && image.address.is_none_or(|address| first.is_some_and(|region| region.address == address))
                && code.raw == image.address.is_some()
        };
        self.loaded.codes.iter().find(is_meant)
    }

    /// What the events of a stream mean, with the names of functions in the images that were read.
    pub fn event_meanings(&self, trace: &Trace<'_>) -> EventMeanings {
        let mut meanings = EventMeanings::new(trace);
        meanings.name_addresses(&|address| {
            let (name, offset) = self.loaded.codes.iter().find_map(|code| code.symbols.find(address))?;
            let name = demangle(name).unwrap_or_else(|| name.to_string());
            Some(if offset == 0 { name } else { format!("{name}+{offset:#x}") })
        });
        meanings
    }

    /// The streams, without those that a recording could have and does not.
    pub fn traces(&self) -> Vec<Trace<'_>> {
        match self.overview {
            Some(overview) => overview.traces.iter().map(|(trace, _)| *trace).collect(),
            None => Trace::all(self.capture),
        }
    }

    /// Totals of the streams from this one on, by source, in the order of the first stream of each.
    pub fn totals_from(&self, first: usize) -> Vec<SourceTotals<'_>> {
        let mut totals: Vec<SourceTotals<'_>> = Vec::new();
        for (index, trace) in self.traces().into_iter().enumerate().skip(first) {
            let known = totals.iter().position(|totals| std::ptr::eq(totals.source, trace.source()));
            let at = known.unwrap_or_else(|| {
                totals.push(SourceTotals::new(trace.source()));
                totals.len() - 1
            });
            let Some(of_source) = totals.get_mut(at) else { continue };
            of_source.sessions += 1;
            match self.overview.and_then(|overview| overview.traces.get(index)) {
                Some((_, Ok(found))) => of_source.add(found),
                Some((_, Err(_))) => of_source.unreadable += 1,
                None => {}
            }
        }
        totals
    }

    /// Counts of the system events; `None` if there are none.
    pub fn events(&self) -> Option<EventSummary> {
        (!self.capture.events.is_empty()).then(|| EventSummary::new(&self.capture.events))
    }

    /// Everything as JSON.
    pub fn json(&self) -> Value {
        let capture = self.capture;
        let buffers: Vec<Value> = (0..capture.buffers.len()).map(|index| self.buffer_json(index)).collect();
        let traces = self.traces();
        let sources: Vec<Value> = (0..traces.len()).map(|index| self.trace_json(&traces[index], index)).collect();
        let images: Vec<Value> =
            images(capture).iter().map(|(image, cores)| image_json(image, self.code_of(image), cores)).collect();
        let notes: Vec<Value> = self.notes().iter().map(|note| json!({"file": note.file, "line": note.line, "offset": note.offset, "kind": format!("{:?}", note.kind), "text": note.text})).collect();
        let extras: Vec<Value> = capture
            .extras
            .iter()
            .map(|it| json!({"file": it.file, "section": it.section, "pairs": it.pairs}))
            .collect();
        json!({
            "kind": "capture",
            "file": capture.path.display().to_string(),
            "format": format!("{:?}", capture.format).to_lowercase(),
            "zip": capture.in_zip,
            "version": capture.version,
            "buffers": buffers,
            "sources": sources,
            "cores": capture.cores.iter().map(|core| json!({"name": core.name, "type": core.kind})).collect::<Vec<_>>(),
            "images": images,
            "events": self.events().map(|events| events_json(&events)),
            "extras": extras,
            "notes": notes,
        })
    }

    fn buffer_json(&self, index: usize) -> Value {
        let buffer = &self.capture.buffers[index];
        let files: Vec<Value> = buffer
            .files
            .iter()
            .map(|file| json!({"name": file.name, "offset": file.offset, "size": file.size}))
            .collect();
        let mut value =
            json!({"name": buffer.name, "format": buffer.format.name(), "bytes": buffer.len(), "files": files});
        match self.overview.map(|overview| &overview.buffers[index]) {
            None => {}
            Some(Err(error)) => value["error"] = json!(error.to_string()),
            Some(Ok(found)) => {
                let ids: Vec<Value> =
                    found.ids.iter().map(|(id, bytes)| json!({"source": id, "bytes": bytes})).collect();
                value["ids"] = json!(ids);
                value["full_syncs"] = json!(found.full_syncs);
                value["half_syncs"] = json!(found.half_syncs);
                value["barriers"] = json!(found.barriers);
                value["triggers"] = json!(found.triggers);
                value["lost_bytes"] = json!(found.lost_bytes);
                value["errors"] = errors_json(&found.errors);
            }
        }
        value
    }

    fn trace_json(&self, trace: &Trace<'_>, index: usize) -> Value {
        let source = trace.source();
        let registers: BTreeMap<&str, String> =
            source.registers.iter().map(|it| (it.name.as_str(), format!("{:#x}", it.value))).collect();
        let mut value = json!({
            "source": source.id,
            "session": trace.session(),
            "name": source.name,
            "type": source.kind,
            "protocol": source.protocol.map(Protocol::name),
            "core": trace.core().map(|core| &core.name),
            "buffer": trace.buffer().name,
            "registers": registers,
        });
        let meanings: BTreeMap<String, String> = {
            let meanings = self.event_meanings(trace);
            meanings.all().map(|(number, meaning)| (number.to_string(), meaning.to_string())).collect()
        };
        if !meanings.is_empty() {
            value["event_meanings"] = json!(meanings);
        }
        match self.overview.map(|overview| &overview.traces[index].1) {
            None => {}
            Some(Err(error)) => value["error"] = json!(error.to_string()),
            Some(Ok(found)) => trace_found_json(found, &mut value),
        }
        value
    }
}

fn events_json(events: &EventSummary) -> Value {
    let calls: BTreeMap<&str, u64> = events.calls.iter().copied().collect();
    let (first, last) = events.times.unzip();
    json!({"calls": calls, "first_time": first, "last_time": last, "without_time": events.without_time})
}

fn trace_found_json(found: &TraceOverview, value: &mut Value) {
    let assumed: BTreeMap<&str, String> =
        found.assumed.iter().map(|it| (it.register, format!("{:#x}", it.value))).collect();
    let kinds: BTreeMap<&str, u64> = found.kinds.iter().map(|(kind, count)| (kind.name(), *count)).collect();
    value["version"] = json!(found.features.version);
    value["assumed"] = json!(assumed);
    value["bytes"] = json!(found.bytes);
    value["packets"] = json!(kinds);
    value["atoms"] = json!({"e": found.atoms[0], "n": found.atoms[1]});
    value["first_time"] = json!(found.time.map(|(first, _)| first));
    value["last_time"] = json!(found.time.map(|(_, last)| last));
    value["cycles"] = json!(found.cycles);
    let exceptions: BTreeMap<u16, u64> = found.exceptions.iter().map(|(kind, count)| (kind.value, *count)).collect();
    value["exceptions"] = json!(exceptions);
    if found.written > 0 {
        value["written"] = json!(found.written);
        value["channels"] = channels_json(&found.channels);
    }
    value["contexts"] = json!(found.contexts);
    value["malformed"] = json!({"count": found.malformed, "bytes": found.malformed_bytes});
    value["unsynchronized_bytes"] = json!(found.unsynchronized_bytes);
    value["errors"] = errors_json(&found.errors);
}

/// The first few problems.
fn errors_json<K: Display>(errors: &[TraceError<K>]) -> Value {
    errors.iter().map(|it| json!({"offset": it.offset, "skipped": it.skipped, "what": it.kind.to_string()})).collect()
}

fn channels_json(channels: &BTreeMap<(Option<u16>, Option<u16>), u64>) -> Value {
    let line = |(&(master, channel), written): (&(Option<u16>, Option<u16>), &u64)| json!({"master": master, "channel": channel, "written": written});
    channels.iter().map(line).collect()
}

fn image_json(image: &Image, code: Option<&Code>, cores: &[&str]) -> Value {
    let build_id = code.and_then(|code| code.build_id.as_ref());
    json!({
        "machine": code.and_then(|code| code.machine).map(|machine| machine.to_string()),
        "build_id": build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        "symbols": code.map(|code| code.symbols.len()),
        "file": image.file,
        "present": image.size.is_some(),
        "address": image.address.map(|address| format!("{address:#x}")),
        "length": image.length,
        "offset": image.offset,
        "space": image.space,
        "cores": cores,
    })
}
