//! Data trace streams of ETMv4 trace units: sources that a package does not describe by themselves.
//!
//! Takes the sources of a capture. Adds one for each trace unit that traces data addresses or values (TRCCONFIGR.DA and
//! DV) into a buffer of frames: its trace id is that of the instruction stream plus one.

use unspool_coresight::Protocol;

use crate::buffer::BufferFormat;
use crate::capture::{Capture, Source};

/// TRCCONFIGR.DA and TRCCONFIGR.DV.
const DATA: u64 = 0b11 << 16;

/// Adds the data streams of all trace units.
pub(crate) fn add(capture: &mut Capture) {
    let found: Vec<Source> = capture.sources.iter().filter_map(|source| data_stream(capture, source)).collect();
    capture.sources.extend(found);
}

fn data_stream(capture: &Capture, source: &Source) -> Option<Source> {
    let traces_data = source.registers.get("TRCCONFIGR").is_some_and(|configr| configr & DATA != 0);
    let id = source.id?.checked_add(1)?;
    let is_taken = capture.sources.iter().any(|other| other.id == Some(id));
    let is_framed = |index: &usize| capture.buffers.get(*index).is_some_and(|it| it.format != BufferFormat::Raw);
    let buffers: Vec<usize> = source.buffers.iter().copied().filter(is_framed).collect();
    if source.protocol != Some(Protocol::Etm4) || !traces_data || is_taken || buffers.is_empty() {
        return None;
    }
    let name = format!("{}.data", source.name);
    Some(Source {
        name,
        kind: "ETM4-data".into(),
        protocol: Some(Protocol::Etm4Data),
        id: Some(id),
        buffers,
        ..source.clone()
    })
}
