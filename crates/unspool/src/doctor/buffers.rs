//! Findings about buffers: their format, the trace ids in them, and sources that cannot be read.
//!
//! Takes the totals of frames, and the first bytes of each buffer; produces findings. Which packets the bytes contain is
//! counted under both formats, with every packet of the architecture allowed.

use std::collections::BTreeMap;
use std::io::Read;

use unspool_capture::BufferFormat;
use unspool_coresight::Protocol;
use unspool_coresight::frame::Layout;

use super::{Doctor, Evidence, Finding, Severity, is_share, percent};
use crate::Error;
use crate::bare::Readings;
use crate::number::many;
use crate::window::layout;

/// Bytes at the start of a buffer that are read under both formats.
const PROBE_BYTES: u64 = 256 << 10;

/// Buffers that are probed. Those of a recording have the same format.
const MAX_PROBED: usize = 16;

/// Ids of sources; the others are reserved or mark triggers and empty frames.
const SOURCE_IDS: std::ops::Range<u8> = 1..0x70;

pub(super) fn findings(doctor: &Doctor<'_>) -> Vec<Finding> {
    let found = [formats(doctor), ids_without_source(doctor), sources_without_bytes(doctor), ids(doctor)];
    let mut findings: Vec<Finding> = found.into_iter().flatten().collect();
    findings.extend(unreadable(doctor));
    findings
}

/// Is each buffer formatted as declared?
fn formats(doctor: &Doctor<'_>) -> Option<Finding> {
    let probed: Vec<(usize, Readings, u64)> =
        (0..doctor.capture.buffers.len().min(MAX_PROBED)).filter_map(|index| probe(doctor, index)).collect();
    let wrong: Vec<Evidence> =
        probed.iter().filter_map(|&(index, readings, size)| contradiction(doctor, index, readings, size)).collect();
    if !wrong.is_empty() {
        let title = "the format of a buffer is not the declared one";
        let finding = Finding::new(Severity::Problem, "buffer-format", title)
            .with(wrong)
            .remedy("correct the format in the metadata of the package")
            .remedy("or open the buffer by itself: --protocol NAME with --raw or --formatted");
        return Some(finding);
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    doctor.capture.buffers.iter().for_each(|buffer| *counts.entry(word(buffer.format)).or_default() += 1);
    let counts: Vec<String> =
        counts.iter().map(|(format, count)| format!("{} {format}", many(*count, "buffer"))).collect();
    let title = format!("buffers are as declared: {}", counts.join(", "));
    (!counts.is_empty()).then(|| Finding::new(Severity::Fine, "buffer-format", title))
}

/// A format as options name it.
fn word(format: BufferFormat) -> &'static str {
    match format {
        BufferFormat::Formatted => "formatted",
        BufferFormat::Raw => "raw",
        _ => "in DSTREAM blocks",
    }
}

/// Reads the start of a buffer under both formats. `None`: there is no choice, or nothing to read.
fn probe(doctor: &Doctor<'_>, index: usize) -> Option<(usize, Readings, u64)> {
    let buffer = doctor.capture.buffers.get(index)?;
    let layout = match buffer.format {
        BufferFormat::Formatted => layout(buffer),
        BufferFormat::Raw => Layout::FromStart,
        _ => return None,
    };
    let mut bytes = Vec::new();
    doctor.capture.reader(index).ok()?.take(PROBE_BYTES).read_to_end(&mut bytes).ok()?;
    let readings = Readings::of(protocol_in(doctor, index)?, layout, &bytes);
    Some((index, readings, bytes.len() as u64))
}

fn protocol_in(doctor: &Doctor<'_>, buffer: usize) -> Option<Protocol> {
    let mut sources = doctor.capture.sources.iter().filter(|source| source.buffers.contains(&buffer));
    sources.find_map(|source| source.protocol)
}

/// Evidence that a buffer has the other format: most of its bytes are packets under it, and few under the declared one.
fn contradiction(doctor: &Doctor<'_>, index: usize, readings: Readings, size: u64) -> Option<Evidence> {
    let buffer = doctor.capture.buffers.get(index)?;
    let (declared, other, name) = match buffer.format {
        BufferFormat::Raw => (readings.raw, readings.framed, "formatted"),
        _ => (readings.framed, readings.raw, "raw"),
    };
    let is_other = is_share(other, size, 50) && other / 2 >= declared;
    is_other.then(|| {
        let [bytes, declared, other] = [many(size, "byte"), many(declared, "byte"), many(other, "byte")];
        let text = format!("declared {}, looks {name}: of the first {bytes}, {declared} are packets as declared, and {other} if {name}", word(buffer.format));
        Evidence::at(&buffer.name, None, text)
    })
}

/// Bytes by id, of all buffers: with the sources of the id, and without.
#[derive(Default)]
struct IdBytes {
    known: BTreeMap<u8, u64>,
    unknown: BTreeMap<u8, u64>,
}

impl IdBytes {
    fn of(doctor: &Doctor<'_>) -> Self {
        let mut all = Self::default();
        for (index, buffer) in doctor.overview.buffers.iter().enumerate() {
            let Ok(buffer) = buffer else { continue };
            for (&id, &bytes) in buffer.ids.iter().filter(|(id, _)| SOURCE_IDS.contains(id)) {
                let mut sources = doctor.capture.sources.iter();
                let is_known = sources.any(|source| source.id == Some(id) && source.buffers.contains(&index));
                let ids = if is_known { &mut all.known } else { &mut all.unknown };
                *ids.entry(id).or_default() += bytes;
            }
        }
        all
    }

    fn total(&self) -> u64 {
        self.known.values().chain(self.unknown.values()).sum()
    }
}

fn ids_without_source(doctor: &Doctor<'_>) -> Option<Finding> {
    let ids = IdBytes::of(doctor);
    let bytes: u64 = ids.unknown.values().sum();
    if bytes == 0 {
        return None;
    }
    // A system trace that is not described is common; that of a core is what the capture is for.
    let severity = if is_share(bytes, ids.total(), 50) { Severity::Problem } else { Severity::Advice };
    let share = percent(bytes, ids.total()).unwrap_or_default();
    let title = format!("{share} of the trace has ids that no source has: {}", many(bytes, "byte"));
    let evidence =
        ids.unknown.iter().map(|(id, bytes)| Evidence::new(format!("id {id:#04x}: {}", many(*bytes, "byte"))));
    Some(
        Finding::new(severity, "id-without-source", title)
            .with(evidence)
            .remedy("describe the source of each id, with its TRCTRACEIDR and other registers")
            .remedy("an id that another component uses (STM, ITM) needs nothing: 'unspool frames CAPTURE --stream ID' extracts it"),
    )
}

fn sources_without_bytes(doctor: &Doctor<'_>) -> Option<Finding> {
    // perf describes all processors, and those that did not execute the program have no trace.
    let is_perf = doctor.capture.has_sessions();
    let silent = doctor.sources.iter().filter(|examined| examined.bytes == 0 && examined.failure.is_none());
    let evidence: Vec<Evidence> = silent
        .map(|examined| {
            let id = examined.source.id.map_or_else(|| "no id".to_string(), |id| format!("id {id:#04x}"));
            examined
                .evidence(None, format!("{id}: no bytes in {}", many(examined.source.buffers.len() as u64, "buffer")))
        })
        .collect();
    if evidence.is_empty() || is_perf {
        return None;
    }
    let title = format!("{} without trace", many(evidence.len() as u64, "source"));
    Some(
        Finding::new(Severity::Advice, "source-without-trace", title).with(evidence).remedy(
            "check TRCTRACEIDR of the trace unit, and that it was enabled (TRCPRGCTLR.EN) and its core executed",
        ),
    )
}

/// The ids that have a source.
fn ids(doctor: &Doctor<'_>) -> Option<Finding> {
    let ids = IdBytes::of(doctor);
    let evidence: Vec<Evidence> = doctor
        .present()
        .map(|examined| match examined.source.id.filter(|id| ids.known.contains_key(id)) {
            Some(id) => examined.evidence(None, format!("id {id:#04x}: {}", many(examined.bytes, "byte"))),
            None => examined.evidence(None, many(examined.bytes, "byte")),
        })
        .collect();
    let title = format!("{} with trace", many(evidence.len() as u64, "source"));
    (!evidence.is_empty()).then(|| Finding::new(Severity::Fine, "sources", title).with(evidence))
}

/// Sources and buffers that cannot be read.
fn unreadable(doctor: &Doctor<'_>) -> Vec<Finding> {
    let failures = doctor.sources.iter().filter_map(|examined| examined.failure.as_ref());
    let buffers = doctor.overview.buffers.iter().filter_map(|buffer| buffer.as_ref().err());
    let mut seen = Vec::new();
    let mut findings = Vec::new();
    for error in buffers.chain(failures) {
        let text = error.to_string();
        if !seen.contains(&text) {
            // Sources may be of any kind; a buffer that cannot be read is a loss.
            let severity = match error {
                Error::UnknownProtocol { .. } => Severity::Advice,
                error if error.is_other_kind() => Severity::Advice,
                _ => Severity::Problem,
            };
            findings.push(Finding::new(severity, "unreadable", text.clone()));
            seen.push(text);
        }
    }
    findings
}
