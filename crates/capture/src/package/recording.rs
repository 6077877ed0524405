//! What a package has of a recording that it was made of: the files of images, and notes on trace that was lost.
//!
//! sections of `contents.ini` ─▶ **recording** ─▶ [`EventImage`]s, [`Note`]s
//!
//! These sections are additions of ours, which [`save`](crate::save) writes. Names and texts are in quotes, with the escapes
//! of the event log, since a path may be anything.

use crate::capture::{Capture, EventImage};
use crate::device::read_number;
use crate::ini::{Ini, Section};
use crate::log;
use crate::note::{Location, Note, NoteKind};

/// Section that says that the package lists the files of images.
pub(crate) const EVENT_IMAGES: &str = "event_images";
/// Start of the name of a section with the file of an image.
pub(crate) const EVENT_IMAGE: &str = "event_image_";
/// Start of the name of a section with a note.
pub(crate) const NOTE: &str = "recording_note_";

/// Maximum number of images and of notes.
const LIMIT: usize = 64 << 10;

/// The kinds of notes that a recording has, with their names in a package.
pub(crate) const KINDS: [(&str, NoteKind); 9] = [
    ("assumed", NoteKind::Assumed),
    ("damaged", NoteKind::Damaged),
    ("no_trace", NoteKind::NoTrace),
    ("records_lost", NoteKind::RecordsLost),
    ("too_many", NoteKind::TooMany),
    ("trace_absent", NoteKind::TraceAbsent),
    ("trace_lost", NoteKind::TraceLost),
    ("unknown_name", NoteKind::UnknownName),
    ("unplaced", NoteKind::Unplaced),
];

/// Whether a key is read here.
pub(super) fn is_read(section: &Section, key: &str) -> bool {
    let has = |keys: &[&str]| keys.contains(&key);
    match () {
        () if section.is(EVENT_IMAGES) => key == "count",
        () if starts(section, EVENT_IMAGE) => has(&["image", "build_id", "file", "symbols"]),
        () if starts(section, NOTE) => has(&["kind", "file", "line", "offset", "text"]),
        () => false,
    }
}

/// Reads the sections. What is wrong with them becomes a note.
pub(super) fn read(capture: &mut Capture, file: &str, ini: &Ini) {
    let images = ini.sections.iter().filter(|section| starts(section, EVENT_IMAGE)).take(LIMIT);
    let images: Vec<EventImage> = images.filter_map(|section| image(capture, file, section)).collect();
    if !images.is_empty() || ini.named(EVENT_IMAGES).next().is_some() {
        capture.event_images = Some(images);
    }
    for section in ini.sections.iter().filter(|section| starts(section, NOTE)).take(LIMIT) {
        if let Some(note) = note(capture, file, section) {
            capture.recording_notes.push(note.clone());
            capture.add_note(note);
        }
    }
}

fn image(capture: &mut Capture, file: &str, section: &Section) -> Option<EventImage> {
    let text = |key: &str| section.value(key).and_then(log::quoted);
    let at = Location::line(file, section.line);
    let (Some(image), Some(named)) = (text("image"), text("file")) else {
        let what = format!("[{}] needs `image` and `file` in quotes; it is ignored", section.name);
        capture.note(at, NoteKind::MissingKey, what);
        return None;
    };
    let (found, _) = capture.find_file(at, &named);
    let symbols = text("symbols").map(|name| capture.find_file(at, &name).0);
    Some(EventImage { image, build_id: text("build_id").unwrap_or_default(), file: found, symbols })
}

fn note(capture: &mut Capture, file: &str, section: &Section) -> Option<Note> {
    let text = |key: &str| section.value(key).and_then(log::quoted);
    let kind = section.value("kind").and_then(|kind| KINDS.iter().find(|(name, _)| kind == *name));
    let (Some((_, kind)), Some(what)) = (kind, text("text")) else {
        let what = format!("[{}] needs a known `kind`, and `text` in quotes; it is ignored", section.name);
        capture.note(Location::line(file, section.line), NoteKind::MissingKey, what);
        return None;
    };
    let line = read_number(capture, file, section, "line").and_then(|line| u32::try_from(line).ok());
    let offset = read_number(capture, file, section, "offset");
    Some(Note { kind: *kind, file: text("file").unwrap_or_default(), line, offset, text: what })
}

fn starts(section: &Section, start: &str) -> bool {
    section.name.get(..start.len()).is_some_and(|name| name.eq_ignore_ascii_case(start))
}
