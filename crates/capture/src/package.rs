//! Trace packages: `contents.ini` names buffers and metadata, and the metadata has one section per trace source.
//!
//! contents.ini ─▶ `[trace]` groups: metadata files with the buffers that they describe
//!              └▶ `[device_list]`:  device files as in a snapshot
//!
//! Fills a [`Capture`] from the parsed `contents.ini`. The format is defined by Arm's "CoreSight trace decode metadata
//! requirements", headings "INI format" and "Trace package". It leaves cores, images and names open; those use the
//! syntax of snapshots and are described in [`save`](crate::save).

pub(crate) mod recording;

use std::collections::{HashMap, HashSet};

use crate::capture::{Capture, EventLog, Source};
use crate::clock;
use crate::device::{DEVICE_LIMIT, new_source, read_main, read_number, read_registers};
use crate::ini::{Entry, Ini, Section, number};
use crate::lookup::Lookup;
use crate::metadata::{self, add_buffer, find_files, is_buffer, read_buffer};
use crate::note::{Location, NoteKind};
use crate::registers::Registers;
use crate::timeline::ContextFormat;

/// Default name of the system event log.
pub(crate) const EVENT_LOG: &str = "system-event-log";

/// Maximum number of buffers of a package, as in perf.data.
const PACKAGE_BUFFERS: usize = 1 << 20;

/// Keys that name the system event log.
const EVENT_LOG_KEYS: [&str; 3] = ["event_log", "system_event_log", "system-event-log"];

/// Key that names what CONTEXTIDR contains.
pub(crate) const CONTEXT_FORMAT: &str = "context_id_format";

/// Keys of a source section that are neither registers nor options.
const SOURCE_KEYS: [&str; 4] = ["format", "name", "core", "source_index"];

/// Maximum number of pairs of a buffer and a source, as in perf.data.
const LINK_LIMIT: usize = 8 << 20;

/// Section suffix for a source whose trace ID is unknown.
pub(crate) const NO_ID: &str = "unknown";

/// Reads a package whose main file is `file`.
pub(crate) fn read(capture: &mut Capture, file: &str, ini: &Ini) {
    let is_trace_key =
        |key: &str| key == "metadata" || is_buffer(key) || EVENT_LOG_KEYS.contains(&key) || key == CONTEXT_FORMAT;
    let is_read =
        |section: &Section, key: &str| section.is("trace") && is_trace_key(key) || recording::is_read(section, key);
    read_main(capture, file, ini, is_read);
    read_groups(capture, file, ini);
    read_context_format(capture, file, ini);
    read_event_log(capture, file, ini);
    recording::read(capture, file, ini);
}

/// Finds the system event log under its default name.
pub(crate) fn find_event_log(capture: &mut Capture) {
    for ending in ["", ".txt", ".log"] {
        if let Lookup::File { name, size, .. } = capture.store.find(&format!("{EVENT_LOG}{ending}")) {
            capture.event_log = Some(EventLog { file: name, size: Some(size) });
            return;
        }
    }
}

/// Reads what CONTEXTIDR contains.
pub(crate) fn read_context_format(capture: &mut Capture, file: &str, ini: &Ini) {
    let mut entries = ini.named("trace").flat_map(|section| &section.entries);
    let Some(entry) = entries.find(|entry| entry.is(CONTEXT_FORMAT)) else { return };
    capture.context_format = ContextFormat::from_name(&entry.value.to_ascii_lowercase());
    if capture.context_format.is_none() {
        let names = ContextFormat::ALL.map(ContextFormat::name).join(", ");
        let text = format!("`{}` is not a format of context identifiers: {names}", entry.value);
        capture.note(Location::line(file, entry.line), NoteKind::BadValue, text);
    }
}

fn read_event_log(capture: &mut Capture, file: &str, ini: &Ini) {
    let mut entries = ini.named("trace").flat_map(|section| &section.entries);
    match entries.find(|entry| EVENT_LOG_KEYS.iter().any(|key| entry.is(key))) {
        Some(entry) => {
            let (file, size) = capture.find_file(Location::line(file, entry.line), &entry.value);
            capture.event_log = Some(EventLog { file, size });
        }
        None => find_event_log(capture),
    }
}

/// Buffers and the metadata that describes them.
#[derive(Default)]
struct Group<'a> {
    metadata: Vec<&'a Entry>,
    buffers: Vec<&'a Entry>,
}

/// The groups of all `[trace]` sections. Metadata after the buffers of another metadata file opens the next group, and
/// groups with the same metadata are merged.
fn groups(ini: &Ini) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for section in ini.named("trace") {
        let mut group = Group::default();
        for entry in &section.entries {
            if entry.is("metadata") {
                if !group.buffers.is_empty() && !group.metadata.is_empty() {
                    groups.push(std::mem::take(&mut group));
                }
                group.metadata.push(entry);
            } else if is_buffer(&entry.key) {
                group.buffers.push(entry);
            }
        }
        groups.push(group);
    }
    merge(groups)
}

fn merge(groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let mut merged: Vec<Group<'_>> = Vec::new();
    let mut by_metadata: HashMap<Vec<&str>, usize> = HashMap::new();
    for group in groups {
        let names: Vec<&str> = group.metadata.iter().flat_map(|entry| entry.items()).collect();
        match by_metadata.get(&names).and_then(|&at| merged.get_mut(at)) {
            Some(same) => same.buffers.extend(group.buffers),
            None => {
                by_metadata.insert(names, merged.len());
                merged.push(group);
            }
        }
    }
    merged
}

/// A source, with its core and list position as given in its section.
struct Draft {
    source: Source,
    core: Option<(String, String, u32)>,
    index: Option<u64>,
}

impl Draft {
    fn identity(&self) -> (Option<u64>, &str, Option<u8>) {
        (self.index, &self.source.name, self.source.id)
    }
}

/// Reads the metadata and buffers of all `[trace]` sections.
fn read_groups(capture: &mut Capture, file: &str, ini: &Ini) {
    let mut drafts = Drafts::default();
    let mut links = metadata::Links::default();
    let groups = groups(ini);
    if groups.iter().all(|group| group.metadata.is_empty()) {
        capture.note(Location::file(file), NoteKind::MissingKey, "no [trace] section names metadata");
    }
    for group in &groups {
        read_group(capture, file, group, &mut drafts, &mut links);
    }
    if drafts.sources.is_empty() {
        metadata::resolve(capture, file, &links);
    }
    drafts.order_buffers(capture);
    add_sources(capture, drafts.sources);
}

/// What the metadata of all groups describes.
#[derive(Default)]
struct Drafts {
    sources: Vec<Draft>,
    /// Number of pairs of a buffer and a source.
    links: usize,
    /// The index that the package gives to a buffer, by its index in the capture.
    order: HashMap<usize, u64>,
}

impl Drafts {
    /// Sorts buffers by the indexes that the package gives them. Those without stay after the others.
    fn order_buffers(&mut self, capture: &mut Capture) {
        if self.order.is_empty() {
            return;
        }
        let mut old: Vec<usize> = (0..capture.buffers.len()).collect();
        old.sort_by_key(|index| self.order.get(index).copied().unwrap_or(u64::MAX));
        let new: HashMap<usize, usize> = old.iter().copied().zip(0..).collect();
        let mut numbered: Vec<_> = std::mem::take(&mut capture.buffers).into_iter().enumerate().collect();
        numbered.sort_by_key(|(index, _)| new.get(index).copied());
        capture.buffers = numbered.into_iter().map(|(_, buffer)| buffer).collect();
        let all = self.sources.iter_mut().map(|draft| &mut draft.source).chain(&mut capture.sources);
        for source in all {
            source.buffers.iter_mut().for_each(|buffer| *buffer = new.get(buffer).copied().unwrap_or(*buffer));
            source.buffers.sort_unstable();
        }
    }
}

fn read_group(capture: &mut Capture, file: &str, group: &Group<'_>, drafts: &mut Drafts, links: &mut metadata::Links) {
    let mut files = Vec::new();
    for entry in &group.metadata {
        for name in entry.items() {
            files.extend(capture.load_ini(Location::line(file, entry.line), name));
        }
    }
    // Some tools write contents.ini next to the trace.ini of a snapshot.
    if let Some((file, ini)) = files.iter().find(|(_, ini)| ini.named("trace_buffers").next().is_some()) {
        return metadata::read(capture, file, ini, links);
    }
    let buffers = read_buffers(capture, file, group, &files, &mut drafts.order);
    for (file, ini) in &files {
        read_metadata(capture, file, ini, &buffers, drafts);
    }
}

/// All buffers of a group share the `[buffer]` section of its metadata. The section of a single buffer, `[buffer3]`, has
/// its name and what was recorded in it.
fn read_buffers(
    capture: &mut Capture,
    file: &str,
    group: &Group<'_>,
    files: &[(String, Ini)],
    order: &mut HashMap<usize, u64>,
) -> Vec<usize> {
    let described = files.iter().find_map(|(file, ini)| Some((file.as_str(), ini.named("buffer").last()?)));
    let nothing = Section { name: "buffer".to_string(), ..Section::default() };
    let (metadata, section) = described.unwrap_or((file, &nothing));
    let of_files =
        files.iter().flat_map(|(file, ini)| ini.sections.iter().map(move |section| (file.as_str(), section)));
    let single = of_files.filter(|(_, section)| is_single_buffer(section));
    let single: HashMap<String, (&str, &Section)> =
        single.map(|(file, section)| (section.name.to_ascii_lowercase(), (file, section))).collect();
    let mut indexes = Vec::new();
    for entry in &group.buffers {
        let at = Location::line(file, entry.line);
        let files = find_files(capture, at, &entry.value);
        if files.is_empty() {
            capture.note(at, NoteKind::MissingKey, format!("`{}` names no file", entry.key));
        }
        let name = section.value("name").filter(|_| group.buffers.len() == 1).unwrap_or(&entry.key).to_string();
        let mut buffer = read_buffer(capture, metadata, section, name, files);
        let own = single.get(&entry.key.to_ascii_lowercase());
        if let Some((file, section)) = own {
            buffer.name = section.value("name").map_or(buffer.name, str::to_string);
            buffer.recorded = metadata::read_recorded(capture, file, section).or(buffer.recorded);
        }
        let Some(index) = add_buffer(capture, at, buffer, PACKAGE_BUFFERS) else { continue };
        indexes.push(index);
        let given = own.and_then(|(file, section)| read_number(capture, file, section, "buffer_index"));
        order.extend(given.map(|given| (index, given)));
    }
    indexes
}

/// `[buffer3]`.
fn is_single_buffer(section: &Section) -> bool {
    is_buffer(&section.name) && !section.is("buffer")
}

fn read_metadata(capture: &mut Capture, file: &str, ini: &Ini, buffers: &[usize], drafts: &mut Drafts) {
    let mut seen = HashSet::new();
    for section in &ini.sections {
        let Some(number) = trace_number(&section.name) else {
            clock::read(capture, file, section);
            let of_single = |key: &str| key == "buffer_index" || key == "name" || metadata::is_recorded_key(key);
            let known = |key: &str| match is_single_buffer(section) {
                true => of_single(key),
                false => section.is("buffer") && metadata::is_buffer_key(key),
            };
            capture.keep_extras(file, section, known);
            continue;
        };
        if !seen.insert(section.name.to_ascii_lowercase()) {
            let text = format!("[{}] is repeated and treated as another source", section.name);
            capture.note(Location::line(file, section.line), NoteKind::Duplicate, text);
        }
        if drafts.sources.len() >= DEVICE_LIMIT {
            let text = format!("more than {DEVICE_LIMIT} sources; the rest are ignored");
            return capture.note(Location::line(file, section.line), NoteKind::TooMany, text);
        }
        let draft = read_source(capture, file, section, number);
        drafts.links = drafts.links.saturating_add(buffers.len());
        if drafts.links > LINK_LIMIT {
            let text = format!("more than {LINK_LIMIT} pairs of a buffer and a source; the rest are ignored");
            return capture.note(Location::line(file, section.line), NoteKind::TooMany, text);
        }
        add_draft(&mut drafts.sources, draft, buffers);
    }
}

/// Adds a source; if another metadata file describes it too, adds only the buffers.
fn add_draft(drafts: &mut Vec<Draft>, mut draft: Draft, buffers: &[usize]) {
    let same = |other: &&mut Draft| other.index.is_some() && other.identity() == draft.identity();
    if let Some(known) = drafts.iter_mut().find(same) {
        buffers.iter().for_each(|&buffer| known.source.add_buffer(buffer));
    } else {
        draft.source.buffers = buffers.to_vec();
        drafts.push(draft);
    }
}

fn read_source(capture: &mut Capture, file: &str, section: &Section, number: &str) -> Draft {
    let at = Location::line(file, section.line);
    let rest = section.entries.iter().filter(|entry| !SOURCE_KEYS.iter().any(|key| entry.is(key)));
    let (lines, options): (Vec<&Entry>, Vec<&Entry>) = rest.partition(|entry| is_register(&entry.key));
    let mut registers = Registers::default();
    read_registers(capture, file, lines, &mut registers);
    let name = section.value("name").unwrap_or(&section.name).to_string();
    let kind = section.value("format").unwrap_or_default().to_string();
    let mut source = new_source(capture, at, name, kind, registers);
    source.options = options.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
    source.id = read_id(capture, at, number, source.id);
    Draft {
        source,
        core: section.entry("core").map(|entry| (entry.value.clone(), file.to_string(), entry.line)),
        index: read_number(capture, file, section, "source_index"),
    }
}

/// The trace ID in the section name, which takes precedence over the registers.
fn read_id(capture: &mut Capture, at: Location<'_>, text: &str, from_registers: Option<u8>) -> Option<u8> {
    if text.eq_ignore_ascii_case(NO_ID) {
        return from_registers;
    }
    let id = number(text).and_then(|id| u8::try_from(id).ok()).filter(|id| *id < 0x80);
    match (id, from_registers) {
        (None, _) => {
            capture.note(at, NoteKind::BadValue, format!("`{text}` is not a trace ID"));
            from_registers
        }
        (Some(id), Some(other)) if id != other => {
            let text = format!("section for trace ID {id:#x} has registers for {other:#x}; {id:#x} is used");
            capture.note(at, NoteKind::BadValue, text);
            Some(id)
        }
        (id, _) => id,
    }
}

fn add_sources(capture: &mut Capture, mut drafts: Vec<Draft>) {
    drafts.sort_by_key(|draft| draft.index.unwrap_or(u64::MAX));
    for draft in drafts {
        let source = capture.sources.len();
        capture.sources.push(draft.source);
        let Some((name, file, line)) = draft.core else { continue };
        let at = Location::line(&file, line);
        match capture.cores.iter().position(|core| core.name.eq_ignore_ascii_case(&name)) {
            Some(core) => capture.link_core(at, core, source),
            None => capture.note(at, NoteKind::UnknownName, format!("no core is named `{name}`")),
        }
    }
}

/// `[trace_1]` gives `1`.
fn trace_number(section: &str) -> Option<&str> {
    let (word, number) = section.split_at_checked("trace_".len())?;
    word.eq_ignore_ascii_case("trace_").then_some(number)
}

/// Whether a key names a register: it is in capitals, starts with the unit, or has a number in parentheses. Options
/// are in lower case.
pub(crate) fn is_register(key: &str) -> bool {
    const OPTIONS: [&str; 4] = ["cyclecount", "timestamp_bits", "timestamp_gray", "context_id"];
    const UNITS: [&str; 4] = ["etm", "trc", "itm", "stm"];
    let lower = key.to_ascii_lowercase();
    let capitals = key.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_');
    let is_option = OPTIONS.contains(&lower.as_str()) || SOURCE_KEYS.contains(&lower.as_str());
    !is_option && (key.contains('(') || capitals || UNITS.iter().any(|unit| lower.starts_with(unit)))
}
