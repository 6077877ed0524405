//! Snapshots: `snapshot.ini` names the device files and the trace metadata.
//!
//! snapshot.ini ─▶ device files ─▶ cores, sources
//!              └▶ trace.ini    ─▶ buffers and the sources in them
//!
//! Fills a [`Capture`] from the parsed `snapshot.ini`.

use std::collections::HashSet;

use crate::capture::Capture;
use crate::ini::Ini;
use crate::note::{Location, NoteKind};
use crate::{device, metadata, package};

/// Reads a snapshot whose main file is `file`.
pub(crate) fn read(capture: &mut Capture, file: &str, ini: &Ini) {
    device::read_main(capture, file, ini, |section, key| {
        section.is("trace") && (key == "metadata" || key == package::CONTEXT_FORMAT)
    });
    read_trace(capture, file, ini);
    package::read_context_format(capture, file, ini);
    package::find_event_log(capture);
}

fn read_trace(capture: &mut Capture, file: &str, ini: &Ini) {
    let mut links = metadata::Links::default();
    let mut seen = HashSet::new();
    for entry in ini.named("trace").flat_map(|section| &section.entries).filter(|entry| entry.is("metadata")) {
        for name in entry.items() {
            let at = Location::line(file, entry.line);
            if !seen.insert(name) {
                capture.note(at, NoteKind::Duplicate, format!("`{name}` is repeated and read once"));
            } else if let Some((file, ini)) = capture.load_ini(at, name) {
                metadata::read(capture, &file, &ini, &mut links);
            }
        }
    }
    if seen.is_empty() {
        capture.note(Location::file(file), NoteKind::MissingKey, "no trace: no [trace] section names metadata");
    }
    metadata::resolve(capture, file, &links);
}
