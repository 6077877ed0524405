//! Saving a capture as a trace package, in the format that [`package`](crate::package) reads.
//!
//! Takes a [`Capture`] of any format. Writes a directory or a zip archive with `contents.ini`, metadata, one preconditioned
//! file per buffer, one device file per core, the system event log, and images: those of the capture, those that events
//! name, and those that the caller adds.
//!
//! | module | writes |
//! |---|---|
//! | `output` | files, into a directory or an archive |
//! | `names` | names of files that are safe and unused |
//! | `buffers` | buffers and their metadata |
//! | `events` | the event log, and the files of the images in it |
//!
//! The published format covers buffers and sources only. Our additions:
//!
//! - Names of buffers and sources (`name`), the core of a source (`core`), its index in the list (`source_index`, which also
//!   identifies a source that two metadata files describe).
//! - Cores with their images as snapshot device files under `[device_list]`. An image that a user added has a `role`, and an
//!   ELF file that was moved its `load_address`.
//! - Sessions of a recording: all buffers with the same sources have one metadata file, with a section (`[buffer3]`) for each
//!   of them: `name`, `buffer_index`, `recorded: session`, `recorded_after`, `recorded_until`, `recorded_thread`.
//! - In `contents.ini`: `event_log` and `context_id_format` in `[trace]`; `[event_images]` and a section for the file of each
//!   image that events name; a section for each note on the recording.

mod buffers;
mod events;
mod names;
mod output;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::capture::{Capture, Core, Extra, Image, ImageRole, PackageFormat};
use crate::code::{Bytes, ImageNotFound, ImageSearch};
use crate::error::Error;
use crate::event::SystemEvent;
use crate::ini::{INI_LIMIT, IniText};
use crate::lookup::path_components;
use crate::note::{Location, Note, NoteKind};
use crate::open::CONTENTS;
use crate::package::CONTEXT_FORMAT;
use crate::package::recording::{KINDS, NOTE};
use crate::registers::Registers;
use crate::timeline::ContextFormat;

use self::names::{Names, plain_name};
use self::output::Output;

/// Summary of a saved package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Number of files.
    pub files: usize,
    /// Total number of bytes in the files.
    pub bytes: u64,
    /// Number of files with code or symbols.
    pub images: usize,
    /// Number of system events in the log.
    pub events: usize,
    /// Parts of the capture that were dropped, and what was assumed about images.
    pub notes: Vec<Note>,
    /// Images that events name and that were not found.
    pub missing: Vec<MissingImage>,
}

/// An image that events name and that is not in a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingImage {
    /// Its path.
    pub image: String,
    /// Its build ID; empty if it is not known.
    pub build_id: String,
    /// Why it was not found.
    pub reason: ImageNotFound,
}

/// How a package is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PackageKind {
    /// A new or empty directory.
    #[default]
    Directory,
    /// A new zip archive.
    Zip,
}

/// What is saved beside the parts of a capture.
#[derive(Debug, Clone, Default)]
pub struct SaveOptions {
    /// How the package is stored.
    pub kind: PackageKind,
    /// Events beside those of the capture.
    pub events: Vec<SystemEvent>,
    /// Where to look for the images that events name. Without it, only files of a package are saved again.
    pub search: Option<ImageSearch>,
    /// Images for all cores.
    pub added: Vec<AddedImage>,
    /// What CONTEXTIDR contains, in place of what the capture says about it.
    pub context_format: Option<ContextFormat>,
}

/// A file that becomes an image of all cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedImage {
    /// The file, or a name for the bytes.
    pub path: PathBuf,
    /// Its bytes, if it is not a file.
    pub bytes: Option<Bytes>,
    /// The address of a memory dump.
    pub address: Option<u64>,
    /// The address of the lowest page of an ELF file; `None` for one that is loaded where it was linked.
    pub load_address: Option<u64>,
    /// What it is for.
    pub role: ImageRole,
}

impl Capture {
    /// Writes the capture as a package into a new or empty directory. Reading it back gives the same sources, cores,
    /// images, events and streams, and the same bytes from every [`reader`](Capture::reader).
    ///
    /// Buffers are written preconditioned: joined, oldest byte first, without the block trailers of a probe. Missing
    /// files stay missing.
    ///
    /// # Errors
    ///
    /// If the directory is not empty, if a file cannot be read or written, or if a name cannot be represented in an
    /// ini file.
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<Saved, Error> {
        self.save_with(directory, &SaveOptions::default(), &mut |_, _| {})
    }

    /// As [`save`](Capture::save), with images, and as a directory or an archive. `progress` is called with the number of
    /// bytes of trace that were written, and their total.
    ///
    /// # Errors
    ///
    /// As for [`save`](Capture::save), and if an added image cannot be read. What was written then stays.
    pub fn save_with(
        &self,
        path: impl AsRef<Path>,
        options: &SaveOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Saved, Error> {
        let mut writer = Writer {
            capture: self,
            options,
            cores: cores_with(self, &options.added),
            output: Output::create(path.as_ref(), options.kind)?,
            names: Names::new(),
            copied: HashMap::new(),
            saved: Saved::default(),
            progress,
            done: 0,
            total: self.buffers.iter().map(crate::Buffer::len).fold(0, u64::saturating_add),
        };
        writer.write()?;
        let Writer { output, mut saved, .. } = writer;
        (saved.files, saved.bytes) = output.finish()?;
        Ok(saved)
    }
}

struct Writer<'a> {
    capture: &'a Capture,
    options: &'a SaveOptions,
    /// The cores, with the images that the caller adds.
    cores: Vec<Core>,
    output: Output,
    names: Names,
    /// Copied files: name in the capture to name in the package.
    copied: HashMap<String, String>,
    saved: Saved,
    progress: &'a mut dyn FnMut(u64, u64),
    /// Bytes of trace that were written, and their total.
    done: u64,
    total: u64,
}

/// Start of the name of an added image before it has one. No name in a package is like this.
const ADDED: &str = "\0added";

/// The cores of a capture, each with these images too. If there is none, one without trace.
fn cores_with(capture: &Capture, added: &[AddedImage]) -> Vec<Core> {
    let mut cores = capture.cores.clone();
    if cores.is_empty() && !added.is_empty() {
        let (name, kind) = ("core".to_string(), String::new());
        cores.push(Core { name, kind, registers: Registers::default(), images: Vec::new(), sources: Vec::new() });
    }
    let image = |(index, added): (usize, &AddedImage)| Image {
        section: format!("dump_added{index}"),
        file: format!("{ADDED}{index}"),
        size: Some(0),
        address: added.address,
        length: None,
        offset: 0,
        space: None,
        load_address: added.load_address,
        role: added.role,
    };
    cores.iter_mut().for_each(|core| core.images.extend(added.iter().enumerate().map(image)));
    cores
}

impl Writer<'_> {
    fn write(&mut self) -> Result<(), Error> {
        let mut contents = IniText::new("=");
        if let Some(version) = &self.capture.version {
            contents.section("snapshot")?;
            contents.entry("version", version)?;
        }
        self.copy_images()?;
        let log = self.write_log()?;
        let images = self.write_event_images()?;
        self.write_buffers(&mut contents)?;
        let format = self.options.context_format.or(self.capture.context_format);
        if log.is_some() || format.is_some() {
            contents.section("trace")?;
            log.iter().try_for_each(|log| contents.entry("event_log", log))?;
            format.iter().try_for_each(|format| contents.entry(CONTEXT_FORMAT, format.name()))?;
        }
        self.write_devices(&mut contents)?;
        for extra in &self.capture.extras {
            self.write_extra(&mut contents, extra)?;
        }
        events::image_sections(&mut contents, images.as_deref())?;
        self.write_notes(&mut contents)?;
        self.write_text(CONTENTS, contents)
    }

    /// Copies the images of cores and devices. They keep their names, so they come before the generated files.
    fn copy_images(&mut self) -> Result<(), Error> {
        let of_cores = self.cores.iter().flat_map(|core| &core.images);
        let of_devices = self.capture.devices.iter().flat_map(|device| &device.images);
        let images = of_cores.chain(of_devices).map(|image| (image.file.clone(), image.size));
        let images: Vec<(String, Option<u64>)> = images.collect();
        let log = self.capture.event_log.iter().map(|log| (log.file.clone(), log.size));
        // A missing file must stay missing: no generated file may take its name.
        let missing = images.iter().cloned().chain(log).filter(|(_, size)| size.is_none());
        missing
            .filter_map(|(name, _)| Some(path_components(&name)?.join("/")))
            .for_each(|name| self.names.block(&name));
        for (name, size) in images {
            if size.is_some() && !self.copied.contains_key(&name) {
                self.copy_image(&name)?;
                self.saved.images += 1;
            }
        }
        Ok(())
    }

    fn copy_image(&mut self, name: &str) -> Result<(), Error> {
        let index = name.strip_prefix(ADDED).and_then(|index| index.parse::<usize>().ok());
        let Some(added) = index.and_then(|index| self.options.added.get(index)) else {
            self.copy_file(name)?;
            return Ok(());
        };
        let file = added.path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        let copy = self.names.reserve(&plain_name(&file));
        if let Some(bytes) = &added.bytes {
            self.output.write(&copy, &mut &bytes[..], bytes.len() as u64)?;
        } else {
            let mut file = File::open(&added.path).map_err(Error::io(&added.path))?;
            let size = file.metadata().map_or(0, |metadata| metadata.len());
            self.output.write(&copy, &mut file, size)?;
        }
        self.copied.insert(name.to_string(), copy);
        Ok(())
    }

    /// Copies a file of the capture, and returns its name in the package.
    fn copy_file(&mut self, name: &str) -> Result<String, Error> {
        if let Some(copy) = self.copied.get(name) {
            return Ok(copy.clone());
        }
        let copy = self.names.reserve(&path_components(name).unwrap_or_default().join("/"));
        let mut file = self.capture.open_file(name)?;
        let size = file.size();
        self.output.write(&copy, &mut file, size)?;
        self.copied.insert(name.to_string(), copy.clone());
        Ok(copy)
    }

    fn write_devices(&mut self, contents: &mut IniText) -> Result<(), Error> {
        let cores = self.cores.iter().map(|core| {
            let identity = [("name", core.name.as_str()), ("class", "core"), ("type", &core.kind)];
            (identity, &core.registers, &core.images)
        });
        let others = self.capture.devices.iter().map(|device| {
            let identity = [("name", device.name.as_str()), ("class", &device.class), ("type", &device.kind)];
            (identity, &device.registers, &device.images)
        });
        let devices = cores.chain(others).map(|(identity, registers, images)| {
            Ok((identity[0].1.to_string(), self.device_text(&identity, registers, images)?))
        });
        let devices = devices.collect::<Result<Vec<(String, IniText)>, Error>>()?;
        if !devices.is_empty() {
            contents.section("device_list")?;
        }
        for (number, (name, text)) in devices.into_iter().enumerate() {
            let file = self.write_ini(&name, text)?;
            contents.entry(&format!("device{number}"), &file)?;
        }
        Ok(())
    }

    fn device_text(
        &self,
        identity: &[(&str, &str)],
        registers: &Registers,
        images: &[Image],
    ) -> Result<IniText, Error> {
        let mut text = IniText::new("=");
        text.section("device")?;
        identity.iter().try_for_each(|(key, value)| text.entry(key, value))?;
        if !registers.is_empty() {
            text.section("regs")?;
        }
        for register in registers {
            text.entry(&register.to_string(), &format!("{:#x}", register.value))?;
        }
        for image in images {
            self.write_image(&mut text, image)?;
        }
        Ok(text)
    }

    fn write_image(&self, text: &mut IniText, image: &Image) -> Result<(), Error> {
        text.section(&image.section)?;
        text.entry("file", self.copied.get(image.file.as_str()).unwrap_or(&image.file))?;
        let offset = Some(image.offset).filter(|offset| *offset != 0);
        let numbers = [
            ("address", image.address),
            ("length", image.length),
            ("offset", offset),
            ("load_address", image.load_address),
        ];
        for (key, value) in numbers {
            if let Some(value) = value {
                text.entry(key, &format!("{value:#x}"))?;
            }
        }
        if image.role != ImageRole::Memory {
            text.entry("role", image.role.name())?;
        }
        image.space.iter().try_for_each(|space| text.entry("space", space))
    }

    fn write_extra(&mut self, contents: &mut IniText, extra: &Extra) -> Result<(), Error> {
        if belongs_elsewhere(&extra.section) || gives_version(extra) {
            let text = format!("some keys of [{}] cannot be stored in a package", extra.section);
            self.saved.notes.push(Location::file(&extra.file).note(NoteKind::Dropped, text));
            return Ok(());
        }
        contents.section(&extra.section)?;
        for (key, value) in &extra.pairs {
            // The command of a recording may be anything.
            if let Err(error) = contents.entry(key, value) {
                self.saved.notes.push(Location::file(&extra.file).note(NoteKind::Dropped, error.to_string()));
            }
        }
        Ok(())
    }

    /// Writes the notes on a recording, which the package could not have otherwise.
    fn write_notes(&mut self, contents: &mut IniText) -> Result<(), Error> {
        let notes = match self.capture.format {
            PackageFormat::Perf => &self.capture.notes,
            _ => &self.capture.recording_notes,
        };
        let named = notes.iter().filter_map(|note| Some((note, KINDS.iter().find(|(_, kind)| *kind == note.kind)?.0)));
        for (index, (note, kind)) in named.enumerate() {
            contents.section(&format!("{NOTE}{index}"))?;
            contents.entry("kind", kind)?;
            contents.entry("file", &in_quotes(&note.file))?;
            for (key, value) in [("line", note.line.map(u64::from)), ("offset", note.offset)] {
                value.iter().try_for_each(|value| contents.entry(key, &value.to_string()))?;
            }
            contents.entry("text", &in_quotes(&note.text))?;
        }
        Ok(())
    }

    fn write_ini(&mut self, stem: &str, text: IniText) -> Result<String, Error> {
        let name = self.names.unused(stem, "ini");
        self.write_text(&name, text)?;
        Ok(name)
    }

    /// Writes an ini file, if it is small enough to be read again.
    fn write_text(&mut self, name: &str, text: IniText) -> Result<(), Error> {
        let bytes = text.into_bytes();
        if bytes.len() as u64 > INI_LIMIT {
            return Err(Error::TooLarge { name: name.to_string(), limit: INI_LIMIT });
        }
        self.output.write(name, &mut &bytes[..], bytes.len() as u64).map(drop)
    }

    /// Writes trace, and reports progress.
    fn write_trace(&mut self, name: &str, mut bytes: impl Read, size: u64) -> Result<(), Error> {
        let Self { output, progress, done, total, .. } = self;
        output.write(name, &mut Metered { bytes: &mut bytes, progress: *progress, done, total: *total }, size).map(drop)
    }
}

/// Reader that reports progress.
struct Metered<'a> {
    bytes: &'a mut dyn Read,
    progress: &'a mut dyn FnMut(u64, u64),
    done: &'a mut u64,
    total: u64,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        *self.done += read as u64;
        (self.progress)(*self.done, self.total);
        Ok(read)
    }
}

/// Text in quotes, with the escapes of the event log. What an ini file could read as a comment is escaped too.
fn in_quotes(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '#' | ';' => quoted += &format!("\\u{{{:x}}}", u32::from(character)),
            character if character.is_control() => quoted += &format!("\\u{{{:x}}}", u32::from(character)),
            character => quoted.push(character),
        }
    }
    quoted + "\""
}

/// Whether the section has another meaning in `contents.ini`, or is meaningless outside its own file.
fn belongs_elsewhere(section: &str) -> bool {
    let section = section.to_ascii_lowercase();
    let prefixes = ["trace", "device", "regs", "dump", "buffer", "event_image", NOTE];
    section.is_empty() || prefixes.iter().any(|prefix| section.starts_with(prefix))
}

/// Whether the section is a `[snapshot]` of another file, whose version would replace that of the package.
fn gives_version(extra: &Extra) -> bool {
    let version = extra.pairs.iter().any(|(key, _)| key.eq_ignore_ascii_case("version"));
    version && extra.section.eq_ignore_ascii_case("snapshot")
}
