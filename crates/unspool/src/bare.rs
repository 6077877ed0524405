//! Captures of bare buffers, without a package.
//!
//! Takes files and what the user knows about them; produces a capture. Detects from the beginning whether the bytes are
//! formatted, and reads the trace ids from the frames; notes of the capture report both.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use unspool_capture::{BareOptions, BufferFormat, Capture, Note, NoteKind, Registers, Source};
use unspool_coresight::frame::{Deformatter, FrameSink, Ids, Layout, Mark, Span};
use unspool_coresight::{DecodePackets as _, Decoders as _, PacketItem, Profile, Protocol, TraceConfig, with_decoders};

use crate::Error;
use crate::window::layout;

/// Description of a bare buffer.
#[derive(Debug, Clone)]
pub struct Bare {
    /// Protocol of the source or sources.
    pub protocol: Protocol,
    /// Trace id; `None`: all that occur.
    pub id: Option<u8>,
    /// Format of the buffer; `None`: auto-detected.
    pub format: Option<BufferFormat>,
    /// Register values.
    pub registers: Registers,
    /// Offset of the oldest byte of a circular buffer.
    pub write_pointer: Option<u64>,
    /// The buffer has wrapped.
    pub wrapped: Option<bool>,
}

/// Bytes at the beginning that are examined.
const HEAD: u64 = 1 << 20;

/// Opens bare bytes as a capture.
pub fn open_bare<P: AsRef<Path>>(paths: &[P], bare: Bare) -> Result<Capture, Error> {
    let options = BareOptions {
        protocol: bare.protocol,
        id: bare.id,
        format: bare.format.unwrap_or(BufferFormat::Raw),
        registers: bare.registers,
        write_pointer: bare.write_pointer,
        wrapped: bare.wrapped,
    };
    // Opened once: standard input cannot be opened again.
    let mut capture = Capture::bare(paths, options)?;
    let start = beginning(&capture)?;
    if start.is_empty() {
        note(&mut capture, NoteKind::Assumed, "the buffer is empty".to_string());
        return Ok(capture);
    }
    if bare.format.is_none() {
        let format = likely_format(bare.protocol, &start);
        capture.buffers[0].format = format;
        note(&mut capture, NoteKind::Assumed, format!("the buffer looks {} if it is not", describe(format)));
    }
    if capture.buffers[0].format.is_formatted() {
        name_sources(&mut capture, &start);
    }
    Ok(capture)
}

fn describe(format: BufferFormat) -> &'static str {
    match format.is_formatted() {
        true => "formatted (frames of several sources); use --raw",
        false => "raw (one source, no frames); use --formatted",
    }
}

fn note(capture: &mut Capture, kind: NoteKind, text: String) {
    let file = capture.buffers[0].name.clone();
    capture.notes.push(Note { kind, file, line: None, text });
}

fn beginning(capture: &Capture) -> Result<Vec<u8>, Error> {
    let mut start = Vec::new();
    let reader = capture.reader(0)?;
    let error = |source| Error::Read { buffer: capture.buffers[0].name.clone(), offset: 0, source };
    reader.take(HEAD).read_to_end(&mut start).map_err(error)?;
    Ok(start)
}

/// Format under which more of the beginning decodes as packets.
fn likely_format(protocol: Protocol, start: &[u8]) -> BufferFormat {
    let raw = well_formed(protocol, start);
    let framed: u64 = split(Layout::FromStart, start).values().map(|bytes| well_formed(protocol, bytes)).sum();
    if framed > raw { BufferFormat::Formatted } else { BufferFormat::Raw }
}

/// Number of bytes in well-formed packets.
fn well_formed(protocol: Protocol, bytes: &[u8]) -> u64 {
    let Some((config, _)) = TraceConfig::new(protocol, Profile::Unknown, [], []) else { return 0 };
    let mut good = 0;
    with_decoders!(config, decoders => {
        let mut count = |item: PacketItem<_>| good += item.map_or(0, |packet| packet.length);
        decoders.packets().decode(bytes, true, &mut count);
    });
    good
}

struct Split(BTreeMap<u8, Vec<u8>>);

impl FrameSink for Split {
    fn span(&mut self, span: Span<'_>) {
        self.0.entry(span.id).or_default().extend_from_slice(span.bytes);
    }

    fn mark(&mut self, _mark: Mark) {}
}

fn split(layout: Layout, bytes: &[u8]) -> BTreeMap<u8, Vec<u8>> {
    let mut split = Split(BTreeMap::new());
    let mut deformatter = Deformatter::new(layout);
    deformatter.push(bytes, &mut split);
    deformatter.finish(&mut split);
    split.0
}

/// Makes one source per trace id, unless the id is given; then it only checks that the id occurs.
fn name_sources(capture: &mut Capture, start: &[u8]) {
    let ids: Ids = split(layout(&capture.buffers[0]), start).into_keys().collect();
    let list: Vec<String> = ids.iter().map(|id| format!("{id:#04x}")).collect();
    let [length, list] = [start.len().to_string(), list.join(" ")];
    let text = match capture.sources[0].id {
        _ if ids.is_empty() => format!("no trace id in the first {length} bytes; use --raw if these are not frames"),
        Some(id) if ids.contains(id) => return,
        Some(id) => format!("no trace id {id:#04x} in the first {length} bytes of the buffer, only {list}"),
        None => {
            let model = capture.sources.remove(0);
            let named = |id| Source { name: format!("id_{id:#04x}"), id: Some(id), ..model.clone() };
            capture.sources = ids.iter().map(named).collect();
            format!("trace ids found at the start of the buffer: {list}; all are read as the named protocol")
        }
    };
    note(capture, NoteKind::Assumed, text);
}
