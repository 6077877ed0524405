//! Captures of bare buffers, without a package.
//!
//! Takes files and what the user knows about them; produces a capture. Detects from the first bytes whether the buffer
//! is formatted, and reads the trace IDs from the frames; notes of the capture report both.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use unspool_capture::{BareOptions, BufferFormat, Capture, Note, NoteKind, Registers, Source};
use unspool_coresight::frame::{Deformatter, FrameSink, Ids, Layout, Mark, Span};
use unspool_coresight::{
    DecodePackets as _, Decoders as _, PacketItem, Profile, Protocol, TraceConfig, itm, with_decoders,
};

use crate::Error;
use crate::window::layout;

/// What the user knows about a bare buffer. Unlike [`BareOptions`], the format may be unknown.
#[derive(Debug, Clone)]
pub struct Bare {
    /// Protocol of the source or sources.
    pub protocol: Protocol,
    /// Trace ID; `None`: that of the registers (such as TRCTRACEIDR), or all that occur in the frames.
    pub id: Option<u8>,
    /// Format of the buffer; `None`: auto-detected.
    pub format: Option<BufferFormat>,
    /// Register values.
    pub registers: Registers,
    /// Offset of the next byte to be written (as RWP of a TMC): the oldest byte of a circular buffer that has wrapped,
    /// otherwise the end of the data.
    pub write_pointer: Option<u64>,
    /// Whether a circular buffer has wrapped; `None`: it has, if there is a write pointer.
    pub wrapped: Option<bool>,
}

/// Number of bytes at the start of a buffer that are examined.
const PROBE_BYTES: u64 = 1 << 20;

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
    let probe = first_bytes(&capture)?;
    if probe.is_empty() {
        note(&mut capture, NoteKind::Assumed, "the buffer is empty".to_string());
        return Ok(capture);
    }
    if bare.format.is_none() {
        let format = likely_format(bare.protocol, &probe);
        capture.buffers[0].format = format;
        let text = match format.is_formatted() {
            true => "the buffer looks formatted (frames of several sources); use --raw if it is not",
            false => "the buffer looks raw (one source, no frames); use --formatted if it is not",
        };
        note(&mut capture, NoteKind::Assumed, text.to_string());
    }
    if capture.buffers[0].format.is_formatted() {
        let ids: Ids = demultiplex(layout(&capture.buffers[0]), &probe).into_keys().collect();
        resolve_ids(&mut capture, &ids, probe.len());
    }
    Ok(capture)
}

fn note(capture: &mut Capture, kind: NoteKind, text: String) {
    let file = capture.buffers[0].name.clone();
    capture.notes.push(Note { kind, file, line: None, offset: None, text });
}

fn first_bytes(capture: &Capture) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let reader = capture.reader(0)?;
    let error = |source| Error::Read { buffer: capture.buffers[0].name.clone(), offset: 0, source };
    reader.take(PROBE_BYTES).read_to_end(&mut bytes).map_err(error)?;
    Ok(bytes)
}

/// Format under which more of the first bytes decode as packets.
fn likely_format(protocol: Protocol, probe: &[u8]) -> BufferFormat {
    if protocol == Protocol::Itm {
        return likely_itm_format(probe);
    }
    let Readings { framed, raw } = Readings::of(protocol, Layout::FromStart, probe);
    if framed > raw { BufferFormat::Formatted } else { BufferFormat::Raw }
}

/// Greatest number of trace IDs that a buffer is taken to have.
const MAX_IDS: usize = 8;

/// Format of ITM trace. Nearly all bytes are well-formed ITM packets, of whatever they are, so that damage decides: raw
/// bytes have none, unless they are frames.
fn likely_itm_format(probe: &[u8]) -> BufferFormat {
    let sources = demultiplex(Layout::FromStart, probe);
    let is_sane = probe.len().is_multiple_of(16) && sources.len() <= MAX_IDS;
    let enough = probe.len() / 16;
    let of_ids = sources.values().filter(|bytes| bytes.len() >= enough).map(|bytes| damage(bytes));
    match of_ids.min() {
        Some(least) if is_sane && least < damage(probe) => BufferFormat::Formatted,
        _ => BufferFormat::Raw,
    }
}

/// Number of malformed ranges in a million bytes.
fn damage(bytes: &[u8]) -> u64 {
    let mut malformed = 0;
    let (config, _) = itm::Config::described([], []);
    let mut count = |item: PacketItem<_>| malformed += u64::from(item.is_err_and(|error| !error.kind.is_ordinary()));
    let is_last = true;
    config.packets().decode(bytes, is_last, &mut count);
    malformed * 1_000_000 / (bytes.len() as u64).max(1)
}

/// Bytes at the start of a buffer that are well-formed packets, under either format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readings {
    pub(crate) framed: u64,
    pub(crate) raw: u64,
}

impl Readings {
    pub(crate) fn of(protocol: Protocol, layout: Layout, probe: &[u8]) -> Self {
        let sources = demultiplex(layout, probe);
        let framed = sources.values().map(|bytes| well_formed_bytes(protocol, bytes)).sum();
        Self { framed, raw: well_formed_bytes(protocol, probe) }
    }
}

/// Number of bytes in well-formed packets.
fn well_formed_bytes(protocol: Protocol, bytes: &[u8]) -> u64 {
    let (config, _) = TraceConfig::new(protocol, Profile::Unknown, [], []);
    let mut good = 0;
    with_decoders!(config, decoders => {
        let mut count = |item: PacketItem<_>| good += item.map_or(0, |packet| packet.length);
        let is_last = true;
        decoders.packets().decode(bytes, is_last, &mut count);
    });
    good
}

/// Bytes of each source, by trace ID.
struct Sources(BTreeMap<u8, Vec<u8>>);

impl FrameSink for Sources {
    fn span(&mut self, span: Span<'_>) {
        self.0.entry(span.id).or_default().extend_from_slice(span.bytes);
    }

    fn mark(&mut self, _mark: Mark) {}
}

fn demultiplex(layout: Layout, bytes: &[u8]) -> BTreeMap<u8, Vec<u8>> {
    let mut sources = Sources(BTreeMap::new());
    let mut deformatter = Deformatter::new(layout);
    deformatter.push(bytes, &mut sources);
    deformatter.finish(&mut sources);
    sources.0
}

/// How a buffer that contains synchronization is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// As the stream of one source.
    Raw,
    /// In formatter frames.
    Formatted,
}

/// Whether bytes contain the synchronization of a trace unit: zeros and 0x80.
pub(crate) fn synchronization(bytes: &[u8]) -> Option<Sync> {
    const ALIGNMENT: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
    let has_it = |bytes: &[u8]| bytes.windows(ALIGNMENT.len()).any(|window| window == ALIGNMENT);
    match () {
        () if has_it(bytes) => Some(Sync::Raw),
        () if demultiplex(Layout::FromStart, bytes).values().any(|bytes| has_it(bytes)) => Some(Sync::Formatted),
        () => None,
    }
}

/// Compares the trace ID of the source with those that the first `length` bytes contain, and notes the result. A source
/// without a trace ID becomes one source per ID.
fn resolve_ids(capture: &mut Capture, ids: &Ids, length: usize) {
    let list: Vec<String> = ids.iter().map(|id| format!("{id:#04x}")).collect();
    let list = list.join(" ");
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
