//! Sources that have an index: `--at` reads them from the segment that has the place.
//!
//! place, index of a source ─▶ **start inside its buffer** ─▶ `start`, which skips what is before the place
//!
//! The index is used as it is found; only `index` and `state` make one. A place that is in the first segment, or whose kind the
//! index does not have, is found from the beginning.

use std::fs::File;

use unspool::Trace;
use unspool::capture::Capture;
use unspool::indexed_steps::{CaptureStart, capture_index_path, capture_start, open_capture_index};
use unspool::place::Place;
use unspool::tarmac::index::{Index, Position};
use unspool::tarmac::record::Unit;

use super::start::Start;
use crate::diagnostic;
use crate::programs::Programs;

/// The index of a trace whose source has no other buffer, if there is one.
pub(super) fn index_of(trace: &Trace<'_>, programs: &Programs) -> Option<Index<File>> {
    let (capture, source) = (trace.capture(), &trace.source().name);
    let path = capture_index_path(capture, source);
    if !path.is_file() || !trace.has_instructions() || !is_only_buffer(capture, source) {
        return None;
    }
    let opened = open_capture_index(&path, &programs.fingerprint(capture, source));
    opened.map_err(|error| diagnostic::detail(format_args!("{error}; it is not used"))).ok()
}

/// Where reading starts. `None`: at the beginning.
pub(super) fn start_of(index: &mut Index<File>, trace: &Trace<'_>, start: &Start) -> Option<CaptureStart> {
    earliest(index, &positions(trace, start))
}

/// Each buffer is listed from the place on, and an index counts the instructions of all.
fn is_only_buffer(capture: &Capture, source: &str) -> bool {
    Trace::all(capture).iter().filter(|other| other.source().name == *source).count() == 1
}

/// The positions of the place in an index; empty: it has none of its kind.
fn positions(trace: &Trace<'_>, start: &Start) -> Vec<Position> {
    let features = trace.features().ok().map(|(features, _)| features);
    match start.place() {
        Place::Instruction(number) => vec![Position::Instruction(*number)],
        Place::Address(_) | Place::Function(_) => start.addresses().iter().copied().map(Position::Address).collect(),
        // An index has timestamps, or cycles where there are none, without their frequency.
        Place::Time(time) => {
            let has_unit = features.is_some_and(|features| match time.unit {
                Unit::Tic | Unit::None => features.timestamps,
                Unit::Clk | Unit::Cs | Unit::Cyc => features.cycle_counting && !features.timestamps,
                _ => false,
            });
            if has_unit { vec![Position::Time(*time)] } else { Vec::new() }
        }
        Place::Position(_) => Vec::new(),
    }
}

/// The first of the segments that have the positions. `None`: one of them is in the first segment, or cannot be found.
fn earliest(index: &mut Index<File>, positions: &[Position]) -> Option<CaptureStart> {
    let starts: Option<Vec<CaptureStart>> =
        positions.iter().map(|position| capture_start(index, *position).ok().flatten()).collect();
    starts?.into_iter().min_by_key(|start| start.instructions)
}
