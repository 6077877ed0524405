//! Device files: one ini file per core, trace source or other device.
//!
//! entries of a `[device_list]` ─▶ **device** ─▶ cores, sources and devices of the capture
//!
//! The links between sources and cores are in the trace metadata, not here.

use std::collections::HashSet;

use unspool_coresight::Protocol;

use crate::capture::{Capture, Core, Device, Image, ImageRole, Source, trace_id};
use crate::clock;
use crate::ini::{Entry, Ini, Section, flag, number};
use crate::note::{Location, NoteKind};
use crate::registers::{Register, Registers};

/// Maximum number of devices, more than any known system has.
pub(crate) const DEVICE_LIMIT: usize = 16 << 10;

/// Reads the version and the devices of a main file, and keeps what is not interpreted. Of other sections, the caller
/// interprets some keys.
pub(crate) fn read_main(capture: &mut Capture, file: &str, ini: &Ini, is_read: impl Fn(&Section, &str) -> bool) {
    for section in &ini.sections {
        if section.is("snapshot") {
            capture.version = section.value("version").map(str::to_string).or(capture.version.take());
            capture.keep_extras(file, section, |key| key == "version");
        } else if section.is("device_list") {
            read_list(capture, file, section);
        } else {
            clock::read(capture, file, section);
            capture.keep_extras(file, section, |key| is_read(section, key));
        }
    }
}

/// Reads the devices that the entries of a list name, `device0=cpu_0.ini`.
fn read_list(capture: &mut Capture, file: &str, list: &Section) {
    let mut seen = HashSet::new();
    for entry in &list.entries {
        let at = Location::line(file, entry.line);
        for name in entry.items() {
            if !seen.insert(name.to_string()) {
                capture.note(at, NoteKind::Duplicate, format!("`{name}` is repeated and read once"));
            } else if seen.len() > DEVICE_LIMIT {
                let text = format!("more than {DEVICE_LIMIT} devices; the rest are ignored");
                return capture.note(at, NoteKind::TooMany, text);
            } else if let Some((file, ini)) = capture.load_ini(at, name) {
                read(capture, &file, &ini);
            }
        }
    }
}

/// Contents of a device file.
#[derive(Default)]
struct Description {
    name: Option<String>,
    class: Option<String>,
    kind: Option<String>,
    registers: Registers,
    images: Vec<Image>,
}

fn read(capture: &mut Capture, file: &str, ini: &Ini) {
    let mut description = Description::default();
    for section in &ini.sections {
        if section.is("device") {
            read_identity(capture, file, section, &mut description);
        } else if section.is("regs") {
            read_registers(capture, file, &section.entries, &mut description.registers);
        } else if is_dump(&section.name) {
            description.images.extend(read_image(capture, file, section));
        } else {
            capture.keep_extras(file, section, |_| false);
        }
    }
    add(capture, file, description);
}

fn read_identity(capture: &mut Capture, file: &str, section: &Section, description: &mut Description) {
    let text = |key| section.value(key).map(str::to_string);
    description.name = text("name").or(description.name.take());
    description.class = text("class").or(description.class.take());
    description.kind = text("type").or(description.kind.take());
    capture.keep_extras(file, section, |key| matches!(key, "name" | "class" | "type"));
}

fn add(capture: &mut Capture, file: &str, description: Description) {
    let Description { name, class, kind, registers, images } = description;
    let name = name.unwrap_or_else(|| name_from_file(capture, file));
    let class = class.unwrap_or_default();
    let kind = kind.unwrap_or_default();
    if class.eq_ignore_ascii_case("core") {
        capture.cores.push(Core { name, kind, registers, images, sources: Vec::new() });
    } else if class.eq_ignore_ascii_case("trace_source") {
        let source = new_source(capture, Location::file(file), name, kind, registers);
        capture.sources.push(source);
    } else {
        if class.is_empty() {
            capture.note(Location::file(file), NoteKind::MissingKey, format!("`{name}` has no class"));
        }
        capture.devices.push(Device { name, class, kind, registers, images });
    }
}

/// A source without buffers.
pub(crate) fn new_source(
    capture: &mut Capture,
    at: Location<'_>,
    name: String,
    kind: String,
    registers: Registers,
) -> Source {
    let protocol = Protocol::from_name(&kind);
    if protocol.is_none() {
        let text = format!("`{name}` has the type `{kind}`, which is not a known trace protocol");
        capture.note(at, NoteKind::UnknownFormat, text);
    }
    let id =
        trace_id(&registers).map(|id| if protocol == Some(Protocol::Etm4Data) { id.saturating_add(1) } else { id });
    Source {
        name,
        kind,
        protocol,
        registers,
        options: Vec::new(),
        id,
        buffers: Vec::new(),
        core: None,
        configured: None,
    }
}

/// Reads register lines; invalid ones become notes.
pub(crate) fn read_registers<'a>(
    capture: &mut Capture,
    file: &str,
    entries: impl IntoIterator<Item = &'a Entry>,
    registers: &mut Registers,
) {
    for entry in entries {
        match Register::parse(&entry.key, &entry.value) {
            Ok(register) => registers.set(register),
            Err(reason) => {
                let text = format!("register `{}` is ignored: {reason}", entry.key);
                capture.note(Location::line(file, entry.line), NoteKind::BadValue, text);
            }
        }
    }
}

/// A number in a section; an invalid one becomes a note.
pub(crate) fn read_number(capture: &mut Capture, file: &str, section: &Section, key: &str) -> Option<u64> {
    read_value(capture, file, section, key, ("number", number))
}

/// A boolean in a section; an invalid one becomes a note.
pub(crate) fn read_flag(capture: &mut Capture, file: &str, section: &Section, key: &str) -> Option<bool> {
    read_value(capture, file, section, key, ("boolean", flag))
}

fn read_value<T>(
    capture: &mut Capture,
    file: &str,
    section: &Section,
    key: &str,
    (noun, parse): (&str, fn(&str) -> Option<T>),
) -> Option<T> {
    let entry = section.entry(key)?;
    let value = parse(&entry.value);
    if value.is_none() {
        let text = format!("`{}` is not a {noun}; `{key}` is ignored", entry.value);
        capture.note(Location::line(file, entry.line), NoteKind::BadValue, text);
    }
    value
}

fn read_image(capture: &mut Capture, file: &str, section: &Section) -> Option<Image> {
    let at = Location::line(file, section.line);
    let Some(named) = section.value("file") else {
        capture.note(at, NoteKind::MissingKey, format!("[{}] names no file", section.name));
        capture.keep_extras(file, section, |_| false);
        return None;
    };
    let line = section.entry("file").map_or(section.line, |entry| entry.line);
    let (name, size) = capture.find_file(Location::line(file, line), named);
    let image = Image {
        section: section.name.clone(),
        file: name,
        size,
        address: read_number(capture, file, section, "address"),
        length: read_number(capture, file, section, "length"),
        offset: read_number(capture, file, section, "offset").unwrap_or(0),
        space: section.value("space").map(str::to_string),
        load_address: read_number(capture, file, section, "load_address"),
        role: read_role(capture, file, section),
    };
    check_image(capture, at, &image);
    const KEYS: [&str; 7] = ["file", "address", "length", "offset", "space", "load_address", "role"];
    capture.keep_extras(file, section, |key| KEYS.contains(&key));
    Some(image)
}

fn read_role(capture: &mut Capture, file: &str, section: &Section) -> ImageRole {
    let role = section.entry("role").map(|entry| (entry, ImageRole::from_name(&entry.value)));
    if let Some((entry, None)) = role {
        let text = format!("unknown role `{}` of an image; `memory` is assumed", entry.value);
        capture.note(Location::line(file, entry.line), NoteKind::BadValue, text);
    }
    role.and_then(|(_, role)| role).unwrap_or_default()
}

impl ImageRole {
    /// Parses the name of a role in a package.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Memory, Self::Added, Self::Symbols, Self::KernelSymbols]
            .into_iter()
            .find(|role| name.eq_ignore_ascii_case(role.name()))
    }

    /// The name of the role in a package.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Added => "added",
            Self::Symbols => "symbols",
            Self::KernelSymbols => "kernel_symbols",
        }
    }
}

fn check_image(capture: &mut Capture, at: Location<'_>, image: &Image) {
    let Some(size) = image.size else { return };
    if image.offset.saturating_add(image.length.unwrap_or(0)) > size {
        let text = format!("[{}] extends past the end of `{}` ({size:#x} bytes)", image.section, image.file);
        capture.note(at, NoteKind::BadValue, text);
    }
    if image.address.is_none() && image.role == ImageRole::Memory {
        let text = format!("[{}] has no address; the file itself must give one", image.section);
        capture.note(at, NoteKind::MissingKey, text);
    }
}

/// `dump`, `dump1`, `dump3a`, `dump.text`, `dump__libc_freeres_fn`.
fn is_dump(section: &str) -> bool {
    section.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("dump"))
}

fn name_from_file(capture: &mut Capture, file: &str) -> String {
    let last = file.rsplit('/').next().unwrap_or(file);
    let name = last.rsplit_once('.').map_or(last, |(stem, _)| stem).to_string();
    capture.note(Location::file(file), NoteKind::MissingKey, format!("the device has no name; `{name}` is used"));
    name
}
