//! Trace metadata of a snapshot: its buffers, and which sources and cores they belong to.
//!
//! parsed `trace.ini` ─▶ **metadata** ─▶ buffers, then sources with their buffers and cores
//!
//! Names are resolved at the end, when all devices and all buffers are known.

use std::collections::{HashMap, HashSet};

use crate::buffer::{BLOCK, Buffer, BufferFile, BufferFormat, Recorded};
use crate::capture::Capture;
use crate::clock;
use crate::device::{read_flag, read_number};
use crate::ini::{Entry, Ini, Section};
use crate::lookup::Lookup;
use crate::note::{Location, NoteKind};

/// Maximum number of buffers of a snapshot, more than any known one has.
const BUFFER_LIMIT: usize = 1 << 10;

/// Maximum number of files of one buffer.
const FILE_LIMIT: usize = 1 << 10;

/// Maximum number of pairs of a source and a buffer that are assumed: all buffers of a snapshot with all devices.
const ASSUMED_LIMIT: usize = 16 << 20;

/// Maximum number of links of one kind, more than any known recording has.
const LINK_LIMIT: usize = 64 << 10;

/// Links between sources, buffers and cores, by name.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Source to buffer.
    buffers: Vec<Link>,
    /// Core to source.
    sources: Vec<Link>,
}

#[derive(Debug)]
struct Link {
    file: String,
    line: u32,
    from: String,
    to: String,
}

/// Reads the buffers and adds the links between names to `links`.
pub(crate) fn read(capture: &mut Capture, file: &str, ini: &Ini, links: &mut Links) {
    let sections: HashMap<String, &Section> =
        ini.sections.iter().map(|section| (section.name.to_ascii_lowercase(), section)).collect();
    let mut described = HashSet::new();
    let mut listed = listed_buffers(capture, file, ini);
    // Sessions are counted in the order of the sections, as the reference decoder does; the list may differ.
    listed.sort_by_key(|(name, _)| sections.get(&name.to_ascii_lowercase()).map_or(u32::MAX, |section| section.line));
    for (name, line) in listed {
        let lower = name.to_ascii_lowercase();
        add_listed(capture, Location::line(file, line), sections.get(&lower).copied(), &name);
        described.insert(lower);
    }
    for section in &ini.sections {
        if section.is("trace_buffers") {
            capture.keep_extras(file, section, |key| key == "buffers");
        } else if section.is("source_buffers") {
            add_links(capture, file, section, &mut links.buffers);
        } else if section.is("core_trace_sources") {
            add_links(capture, file, section, &mut links.sources);
        } else if !described.contains(&section.name.to_ascii_lowercase()) {
            keep_other(capture, file, section);
        }
    }
}

/// Turns names into indexes and fills in defaults for missing links.
pub(crate) fn resolve(capture: &mut Capture, file: &str, links: &Links) {
    let sources = by_name(capture.sources.iter().map(|source| source.name.as_str()));
    if links.buffers.is_empty() {
        assume_buffers(capture, file);
    } else {
        link_buffers(capture, links, &sources);
        note_sources_without_buffer(capture, file);
    }
    let cores = by_name(capture.cores.iter().map(|core| core.name.as_str()));
    for link in &links.sources {
        let core = resolve_name(capture, link, &link.from, "core", &cores);
        let source = resolve_name(capture, link, &link.to, "trace source", &sources);
        if let (Some(core), Some(source)) = (core, source) {
            capture.link_core(link.location(), core, source);
        }
    }
}

/// The settings of a buffer section. The files come from the caller.
pub(crate) fn read_buffer(
    capture: &mut Capture,
    file: &str,
    section: &Section,
    name: String,
    files: Vec<BufferFile>,
) -> Buffer {
    let text = |key| section.value(key).map(str::to_string);
    let mut buffer = Buffer {
        name,
        files,
        format: read_format(capture, file, section),
        write_pointer: read_number(capture, file, section, "write_pointer"),
        wrapped: read_flag(capture, file, section, "wrapped"),
        vendor: text("vendor"),
        component: text("component"),
        recorded: read_recorded(capture, file, section),
    };
    check_start(capture, Location::line(file, section.line), &mut buffer);
    buffer
}

/// The session that a buffer is; `None` if the section does not say that it is one.
pub(crate) fn read_recorded(capture: &mut Capture, file: &str, section: &Section) -> Option<Recorded> {
    section.value("recorded").filter(|value| value.eq_ignore_ascii_case(SESSION))?;
    let thread = read_number(capture, file, section, "recorded_thread");
    Some(Recorded {
        after: read_number(capture, file, section, "recorded_after"),
        until: read_number(capture, file, section, "recorded_until"),
        thread: thread.and_then(|thread| u32::try_from(thread).ok()),
    })
}

/// Value of `recorded` for a buffer that is a session of a recording.
pub(crate) const SESSION: &str = "session";

/// Whether a key describes the session that a buffer is.
pub(crate) fn is_recorded_key(key: &str) -> bool {
    matches!(key, "recorded" | "recorded_after" | "recorded_until" | "recorded_thread")
}

/// Adds a buffer and returns its index; `None` if the capture has too many.
pub(crate) fn add_buffer(capture: &mut Capture, at: Location<'_>, buffer: Buffer, limit: usize) -> Option<usize> {
    let index = capture.buffers.len();
    if index >= limit {
        let text = format!("more than {limit} buffers; `{}` is ignored", buffer.name);
        capture.note(at, NoteKind::TooMany, text);
        return None;
    }
    capture.buffers.push(buffer);
    Some(index)
}

/// Whether a key of a buffer section is interpreted.
pub(crate) fn is_buffer_key(key: &str) -> bool {
    let is_named = matches!(key, "name" | "format" | "write_pointer" | "wrapped" | "vendor" | "component");
    is_named || is_recorded_key(key) || is_file_key(key)
}

/// Drops an impossible write pointer and notes when the position of the oldest byte is unknown.
pub(crate) fn check_start(capture: &mut Capture, at: Location<'_>, buffer: &mut Buffer) {
    let size = buffer.stored_size();
    let name = &buffer.name;
    let splits_block = |pointer: u64| buffer.format == BufferFormat::DstreamFormatted && !pointer.is_multiple_of(BLOCK);
    match buffer.write_pointer {
        Some(pointer) if pointer > size || splits_block(pointer) => {
            let text = format!("write pointer {pointer:#x} is not valid for `{name}` ({size:#x} bytes); ignored");
            buffer.write_pointer = None;
            capture.note(at, NoteKind::BadValue, text);
        }
        Some(pointer) if buffer.wrapped == Some(false) && pointer < size => {
            let text = format!("`{name}` was written up to {pointer:#x}; the rest is ignored");
            capture.note(at, NoteKind::Assumed, text);
        }
        _ => {}
    }
    if buffer.wrapped == Some(true) && buffer.write_pointer.is_none() {
        let name = &buffer.name;
        let text = format!("`{name}` wrapped at an unknown offset; decoding starts at the first synchronization point");
        capture.note(at, NoteKind::StartUnknown, text);
    }
}

/// Names of the buffers, each with the line that lists it.
fn listed_buffers(capture: &mut Capture, file: &str, ini: &Ini) -> Vec<(String, u32)> {
    let lists = ini.named("trace_buffers").flat_map(|section| &section.entries).filter(|entry| entry.is("buffers"));
    let listed = lists.flat_map(|entry| entry.items().map(|name| (name.to_string(), entry.line)));
    let mut names: Vec<(String, u32)> = listed.take(BUFFER_LIMIT + 1).collect();
    if names.is_empty() {
        let sections = ini.sections.iter().filter(|section| is_buffer(&section.name));
        names = sections.map(|section| (section.name.clone(), section.line)).take(BUFFER_LIMIT + 1).collect();
        let (kind, text) = match names.len() {
            0 => (NoteKind::MissingKey, "no trace buffers are described"),
            _ => (NoteKind::Assumed, "no list of buffers is given; their sections are used in the order of the file"),
        };
        capture.note(Location::file(file), kind, text);
    }
    if names.len() > BUFFER_LIMIT {
        let text = format!("more than {BUFFER_LIMIT} buffers; the rest are ignored");
        capture.note(Location::file(file), NoteKind::TooMany, text);
        names.truncate(BUFFER_LIMIT);
    }
    let mut seen = HashSet::new();
    let (once, again): (Vec<_>, Vec<_>) = names.into_iter().partition(|(name, _)| seen.insert(name.to_lowercase()));
    for (name, line) in again {
        capture.note(Location::line(file, line), NoteKind::Duplicate, format!("buffer `{name}` is listed again"));
    }
    once
}

fn keep_other(capture: &mut Capture, file: &str, section: &Section) {
    if is_buffer(&section.name) {
        let text = format!("[{}] is not in the list of buffers and is ignored", section.name);
        capture.note(Location::line(file, section.line), NoteKind::UnknownName, text);
    }
    clock::read(capture, file, section);
    capture.keep_extras(file, section, |_| false);
}

fn add_listed(capture: &mut Capture, listed: Location<'_>, section: Option<&Section>, name: &str) {
    let file = listed.file;
    let Some(section) = section else {
        let text = format!("buffer `{name}` is listed but not described");
        return capture.note(listed, NoteKind::UnknownName, text);
    };
    let mut files = Vec::new();
    for entry in section.entries.iter().filter(|entry| is_file_key(&entry.key.to_ascii_lowercase())) {
        files.extend(find_files(capture, Location::line(file, entry.line), &entry.value));
    }
    if files.is_empty() {
        capture.note(
            Location::line(file, section.line),
            NoteKind::MissingKey,
            format!("buffer `{name}` names no file"),
        );
    }
    let name = section.value("name").unwrap_or(name).to_string();
    let buffer = read_buffer(capture, file, section, name, files);
    add_buffer(capture, Location::line(file, section.line), buffer, BUFFER_LIMIT);
    capture.keep_extras(file, section, is_buffer_key);
}

/// The files that a value names: a single file, even if its name has a comma, or a list.
pub(crate) fn find_files(capture: &mut Capture, at: Location<'_>, value: &str) -> Vec<BufferFile> {
    let whole = matches!(capture.store.find(value), Lookup::File { .. });
    let names: Vec<&str> = if whole { vec![value] } else { crate::ini::items(value).take(FILE_LIMIT + 1).collect() };
    let mut files = Vec::new();
    for name in names {
        if files.len() == FILE_LIMIT {
            let text = format!("more than {FILE_LIMIT} files; the rest are ignored");
            capture.note(at, NoteKind::TooMany, text);
            break;
        }
        let (name, size) = capture.find_file(at, name);
        files.push(BufferFile { name, offset: 0, size });
    }
    files
}

fn read_format(capture: &mut Capture, file: &str, section: &Section) -> BufferFormat {
    let Some(entry) = section.entry("format") else {
        let text = format!("[{}] has no format; `coresight` is assumed", section.name);
        capture.note(Location::line(file, section.line), NoteKind::Assumed, text);
        return BufferFormat::Formatted;
    };
    BufferFormat::from_name(&entry.value).unwrap_or_else(|| {
        let text = format!("unknown buffer format `{}`; `coresight` is assumed", entry.value);
        capture.note(Location::line(file, entry.line), NoteKind::UnknownFormat, text);
        BufferFormat::Formatted
    })
}

fn link_buffers(capture: &mut Capture, links: &Links, sources: &Names) {
    let buffers = by_name(capture.buffers.iter().map(|buffer| buffer.name.as_str()));
    for link in &links.buffers {
        let buffer = resolve_name(capture, link, &link.to, "buffer", &buffers);
        let source = resolve_name(capture, link, &link.from, "trace source", sources);
        if let (Some(source), Some(buffer)) = (source.and_then(|at| capture.sources.get_mut(at)), buffer) {
            source.add_buffer(buffer);
        }
    }
}

/// Default without `[source_buffers]`: the only buffer, the one of the same name, or all formatted ones.
fn assume_buffers(capture: &mut Capture, file: &str) {
    if capture.sources.is_empty() || capture.buffers.is_empty() {
        return;
    }
    let names = by_name(capture.buffers.iter().map(|buffer| buffer.name.as_str()));
    let formatted = capture.buffers.iter().enumerate().filter(|(_, buffer)| buffer.format.is_formatted());
    let formatted: Vec<usize> = formatted.map(|(index, _)| index).collect();
    let only = capture.buffers.len() == 1;
    if formatted.len().saturating_mul(capture.sources.len()) > ASSUMED_LIMIT {
        let text = format!("no mapping of sources to buffers, and more than {ASSUMED_LIMIT} pairs of them");
        return capture.note(Location::file(file), NoteKind::TooMany, text);
    }
    for source in &mut capture.sources {
        source.buffers = match names.get(&source.name.to_ascii_lowercase()) {
            _ if only => vec![0],
            Some(same_name) => same_name.clone(),
            None => formatted.clone(),
        };
    }
    let text = if only {
        "no mapping of sources to buffers; all sources are assumed to be in the only buffer"
    } else {
        "no mapping of sources to buffers; each source is assumed to be in the buffer with its name, \
         or else in all formatted buffers"
    };
    capture.note(Location::file(file), NoteKind::Assumed, text);
    note_sources_without_buffer(capture, file);
}

fn note_sources_without_buffer(capture: &mut Capture, file: &str) {
    let without = capture.sources.iter().filter(|source| source.buffers.is_empty());
    let notes: Vec<_> = without
        .map(|source| {
            Location::file(file).note(NoteKind::NoBuffer, format!("`{}` is in none of the buffers", source.name))
        })
        .collect();
    capture.notes.extend(notes);
}

/// Indexes by name in lower case.
type Names = HashMap<String, Vec<usize>>;

fn by_name<'a>(names: impl Iterator<Item = &'a str>) -> Names {
    let mut found = Names::new();
    for (index, name) in names.enumerate() {
        found.entry(name.to_ascii_lowercase()).or_default().push(index);
    }
    found
}

/// Index of the first item with this name.
fn resolve_name(capture: &mut Capture, link: &Link, name: &str, noun: &str, names: &Names) -> Option<usize> {
    let found = names.get(&name.to_ascii_lowercase()).map_or(&[][..], Vec::as_slice);
    match found {
        [] => capture.note(link.location(), NoteKind::UnknownName, format!("no {noun} is named `{name}`")),
        [_] => {}
        all => {
            let text = format!("{} {noun}s are named `{name}`; the first one is used", all.len());
            capture.note(link.location(), NoteKind::Duplicate, text);
        }
    }
    found.first().copied()
}

impl Link {
    fn location(&self) -> Location<'_> {
        Location::line(&self.file, self.line)
    }
}

fn add_links(capture: &mut Capture, file: &str, section: &Section, links: &mut Vec<Link>) {
    let mut new = section.entries.iter().flat_map(|entry| pairs(file, entry));
    links.extend(new.by_ref().take(LINK_LIMIT - links.len().min(LINK_LIMIT)));
    if let Some(link) = new.next() {
        let text = format!("[{}] has more than {LINK_LIMIT} links; the rest are ignored", section.name);
        capture.note(link.location(), NoteKind::TooMany, text);
    }
}

fn pairs(file: &str, entry: &Entry) -> impl Iterator<Item = Link> {
    let (file, line, from) = (file.to_string(), entry.line, entry.key.clone());
    entry.items().map(move |to| Link { file: file.clone(), line, from: from.clone(), to: to.to_string() })
}

/// `buffer`, `buffer0`, `buffer12`.
pub(crate) fn is_buffer(name: &str) -> bool {
    is_numbered(name, "buffer")
}

/// `file`, `file0`, `file1`.
fn is_file_key(key: &str) -> bool {
    is_numbered(key, "file")
}

fn is_numbered(name: &str, word: &str) -> bool {
    let (start, digits) = name.split_at_checked(word.len()).unwrap_or((name, ""));
    start.eq_ignore_ascii_case(word) && digits.bytes().all(|digit| digit.is_ascii_digit())
}
