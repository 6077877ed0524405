//! perf.data files without CoreSight trace: their events, and what trace they have instead.
//!
//! Takes a file; produces its name and the next step, or a capture if it has CoreSight trace. What cannot be read is left
//! out.

use std::io::{Read, Seek};

use unspool_capture::perf::{Features, PerfData};

use super::Identity;
use crate::sniff::FileKind;

/// Events that are named.
const EVENTS: usize = 8;

/// Whether a file starts like this.
pub(super) fn is_perf(start: &[u8]) -> bool {
    unspool_capture::perf::is_perf(start) || start.starts_with(b"PERFFILE")
}

/// Identifies a perf.data file, or the beginning of one.
pub(super) fn identify(file: &mut (impl Read + Seek)) -> Identity {
    let found = PerfData::read(file).ok().flatten();
    if found.as_ref().is_some_and(|found| !found.units.is_empty()) {
        return Identity::known(FileKind::Capture);
    }
    let mut what = "a perf.data file".to_string();
    if let Some(found) = found {
        match &events(&found.features)[..] {
            [] => {}
            [event] => what += &format!(" with the event {event}"),
            events => what += &format!(" with the events {}", events.join(", ")),
        }
        what += &trace(found.trace_kind);
    }
    Identity::other(what).then("unspool reads CoreSight trace, which 'perf record -e cs_etm//u' records on Arm")
}

fn trace(kind: Option<u32>) -> String {
    match kind {
        None => String::new(),
        Some(1) => " and Intel PT trace".to_string(),
        Some(2) => " and Intel BTS trace".to_string(),
        Some(3) => " and CoreSight trace without a description of its trace units".to_string(),
        Some(4) => " and Arm SPE samples".to_string(),
        Some(kind) => format!(" and trace of type {kind}"),
    }
}

/// Names of the events: perf has a list, and simpleperf has lines of name, type and configuration.
fn events(features: &Features) -> Vec<String> {
    let lines = features.meta.iter().filter(|(key, _)| key == "event_type_info").flat_map(|(_, value)| value.lines());
    let of_simpleperf = lines.filter_map(|line| line.split(',').next());
    let names = features.events.iter().map(String::as_str).chain(of_simpleperf);
    let printable = |name: &str| name.chars().filter(char::is_ascii_graphic).take(64).collect::<String>();
    names.map(printable).filter(|name| !name.is_empty()).take(EVENTS).collect()
}
