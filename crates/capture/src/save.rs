//! Saving a capture as a trace package, in the format that [`package`](crate::package) reads.
//!
//! Takes a [`Capture`] of any format. Writes a directory with `contents.ini`, one metadata file and one preconditioned
//! file per buffer, one device file per core, the images and the system event log.
//!
//! The published format covers buffers and sources only. Our additions: the names of buffers and sources (`name`), the
//! core of a source (`core`), its index in the list (`source_index`, which also identifies a source that two metadata
//! files describe), and cores with their images as snapshot device files under `[device_list]`.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::buffer::{Buffer, BufferFormat};
use crate::capture::{Capture, Extra, Image, PackageFormat, Source};
use crate::error::Error;
use crate::ini::IniText;
use crate::lookup::path_components;
use crate::note::{Location, Note, NoteKind};
use crate::open::{CONTENTS, SNAPSHOT};
use crate::package::{CONTEXT_FORMAT, NO_ID, is_register};
use crate::registers::Registers;

/// Summary of a saved package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Number of files.
    pub files: usize,
    /// Total number of bytes in the files.
    pub bytes: u64,
    /// Parts of the capture that were dropped.
    pub notes: Vec<Note>,
}

impl Capture {
    /// Writes the capture as a package into a new or empty directory. Reading it back gives the same sources, cores,
    /// images and streams, and the same bytes from every [`reader`](Capture::reader).
    ///
    /// Buffers are written preconditioned: joined, oldest byte first, without the block trailers of a probe. Missing
    /// files stay missing.
    ///
    /// # Errors
    ///
    /// If the directory is not empty, if a file cannot be read or written, or if a name cannot be represented in an
    /// ini file.
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<Saved, Error> {
        let directory = directory.as_ref();
        create_empty(directory)?;
        // A file named `snapshot.ini` would turn the package into a snapshot.
        let used = HashSet::from([CONTENTS, SNAPSHOT].map(str::to_string));
        let mut writer = Writer { capture: self, directory, used, copied: HashMap::new(), saved: Saved::default() };
        writer.write()?;
        Ok(writer.saved)
    }
}

struct Writer<'a> {
    capture: &'a Capture,
    directory: &'a Path,
    /// Names in use, in lower case, since the target file system may ignore case.
    used: HashSet<String>,
    /// Copied files: name in the capture to name in the package.
    copied: HashMap<&'a str, String>,
    saved: Saved,
}

impl<'a> Writer<'a> {
    fn write(&mut self) -> Result<(), Error> {
        let mut contents = IniText::new("=");
        if let Some(version) = &self.capture.version {
            contents.section("snapshot")?;
            contents.entry("version", version)?;
        }
        self.copy_files()?;
        for index in 0..self.capture.buffers.len() {
            self.write_buffer(&mut contents, index)?;
        }
        self.write_sources_without_buffer(&mut contents)?;
        if let Some(log) = &self.capture.event_log {
            contents.section("trace")?;
            contents.entry("event_log", self.copied.get(log.file.as_str()).unwrap_or(&log.file))?;
        }
        if let Some(format) = self.capture.context_format {
            contents.section("trace")?;
            contents.entry(CONTEXT_FORMAT, format.name())?;
        }
        if self.capture.format == PackageFormat::Perf && !self.capture.events.is_empty() {
            let text = format!("{} system events are not saved", self.capture.events.len());
            let file = self.capture.path.display().to_string();
            self.saved.notes.push(Location::file(&file).note(NoteKind::Dropped, text));
        }
        self.write_devices(&mut contents)?;
        for extra in &self.capture.extras {
            self.write_extra(&mut contents, extra)?;
        }
        self.write_bytes(CONTENTS, &contents.into_bytes())
    }

    /// Copies images and the event log. They keep their names, so they come before the generated files.
    fn copy_files(&mut self) -> Result<(), Error> {
        let capture = self.capture;
        let of_cores = capture.cores.iter().flat_map(|core| &core.images);
        let of_devices = capture.devices.iter().flat_map(|device| &device.images);
        let images = of_cores.chain(of_devices).map(|image| (image.file.as_str(), image.size));
        let log = capture.event_log.iter().map(|log| (log.file.as_str(), log.size));
        let files: Vec<(&str, Option<u64>)> = images.chain(log).collect();
        // A missing file must stay missing: no generated file may take its name.
        let missing = files.iter().filter(|(_, size)| size.is_none()).filter_map(|(name, _)| path_components(name));
        self.used.extend(missing.map(|path| path.join("/").to_ascii_lowercase()));
        for (name, size) in files {
            if size.is_some() && !self.copied.contains_key(name) {
                let copy = self.reserve_name(name);
                self.write_file(&copy, &mut capture.open_file(name)?)?;
                self.copied.insert(name, copy);
            }
        }
        Ok(())
    }

    fn write_buffer(&mut self, contents: &mut IniText, index: usize) -> Result<(), Error> {
        let Some(buffer) = self.capture.buffers.get(index) else { return Ok(()) };
        let file = self.unused_name(&buffer.name, "bin");
        match self.capture.reader(index) {
            Ok(mut reader) => self.write_file(&file, &mut reader)?,
            Err(Error::MissingFile { .. }) => {}
            Err(error) => return Err(error),
        }
        for missing in buffer.files.iter().filter(|file| file.size.is_none()) {
            let text = format!("missing, so its bytes are not in `{file}`");
            self.saved.notes.push(Location::file(&missing.name).note(NoteKind::MissingFile, text));
        }
        let mut metadata = buffer_text(buffer)?;
        for (source, found) in self.capture.sources.iter().enumerate() {
            if found.buffers.contains(&index) && !is_from_log(found) {
                self.write_source(&mut metadata, source, found)?;
            }
        }
        let metadata = self.write_ini("trace", metadata)?;
        contents.section("trace")?;
        contents.entry("metadata", &metadata)?;
        contents.entry(&format!("buffer{index}"), &file)
    }

    /// Writes the sources that are in no buffer into metadata files without buffers, each trace ID once per file.
    fn write_sources_without_buffer(&mut self, contents: &mut IniText) -> Result<(), Error> {
        let without = self.capture.sources.iter().enumerate().filter(|(_, source)| source.buffers.is_empty());
        let mut left: Vec<(usize, &Source)> = without.collect();
        while !left.is_empty() {
            let mut ids = HashSet::new();
            let (now, later) = left.into_iter().partition(|(_, source)| ids.insert(source.id));
            left = later;
            let now: Vec<(usize, &Source)> = now;
            let mut metadata = IniText::new(": ");
            for (index, source) in now {
                self.write_source(&mut metadata, index, source)?;
            }
            let metadata = self.write_ini("trace", metadata)?;
            contents.section("trace")?;
            contents.entry("metadata", &metadata)?;
        }
        Ok(())
    }

    fn write_source(&self, metadata: &mut IniText, index: usize, source: &Source) -> Result<(), Error> {
        let id = source.id.map_or(NO_ID.to_string(), |id| id.to_string());
        metadata.section(&format!("trace_{id}"))?;
        metadata.entry("format", &source.kind)?;
        metadata.entry("name", &source.name)?;
        metadata.entry("source_index", &index.to_string())?;
        if let Some(core) = source.core.and_then(|core| self.capture.cores.get(core)) {
            metadata.entry("core", &core.name)?;
        }
        for register in &source.registers {
            let key = register.to_string();
            // Empty parentheses mark a register whose name looks like an option.
            let key = if is_register(&key) { key } else { key + "()" };
            metadata.entry(&key, &format!("{:#x}", register.value))?;
        }
        source.options.iter().try_for_each(|(key, value)| metadata.entry(key, value))
    }

    fn write_devices(&mut self, contents: &mut IniText) -> Result<(), Error> {
        let cores = self.capture.cores.iter().map(|core| {
            let identity = [("name", core.name.as_str()), ("class", "core"), ("type", &core.kind)];
            (identity, &core.registers, &core.images)
        });
        let others = self.capture.devices.iter().map(|device| {
            let identity = [("name", device.name.as_str()), ("class", &device.class), ("type", &device.kind)];
            (identity, &device.registers, &device.images)
        });
        let devices: Vec<_> = cores.chain(others).collect();
        if !devices.is_empty() {
            contents.section("device_list")?;
        }
        for (number, (identity, registers, images)) in devices.into_iter().enumerate() {
            let text = self.device_text(&identity, registers, images)?;
            let file = self.write_ini(identity[0].1, text)?;
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
        for (key, value) in [("address", image.address), ("length", image.length), ("offset", offset)] {
            if let Some(value) = value {
                text.entry(key, &format!("{value:#x}"))?;
            }
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
        extra.pairs.iter().try_for_each(|(key, value)| contents.entry(key, value))
    }

    fn write_ini(&mut self, stem: &str, text: IniText) -> Result<String, Error> {
        let name = self.unused_name(stem, "ini");
        self.write_bytes(&name, &text.into_bytes())?;
        Ok(name)
    }

    fn write_bytes(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.write_file(name, &mut &bytes[..])
    }

    /// Writes one file and creates its parent folders.
    fn write_file(&mut self, name: &str, bytes: &mut impl io::Read) -> Result<(), Error> {
        let path = self.directory.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::io(folder))?;
        }
        let mut file = File::create_new(&path).map_err(Error::io(&path))?;
        self.saved.bytes += io::copy(bytes, &mut file).map_err(Error::io(&path))?;
        file.flush().map_err(Error::io(&path))?;
        self.saved.files += 1;
        Ok(())
    }

    /// Reserves the name of a copied file, moved into a folder if the name is in use.
    fn reserve_name(&mut self, name: &str) -> String {
        let mut name = path_components(name).unwrap_or_default().join("/");
        while name.is_empty() || self.used.contains(&name.to_ascii_lowercase()) {
            name.insert_str(0, "images/");
        }
        let lower = name.to_ascii_lowercase();
        let folders = lower.match_indices('/').map(|(at, _)| lower[..at].to_string());
        self.used.extend(folders.chain([lower.clone()]));
        name
    }

    /// Reserves an unused name for a generated file.
    fn unused_name(&mut self, stem: &str, extension: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
        let stem: String = stem.chars().take(64).map(plain).collect();
        let names = (0..).map(|number| match number {
            0 => format!("{stem}.{extension}"),
            number => format!("{stem}_{number}.{extension}"),
        });
        let mut free = names.filter(|name| !self.used.contains(&name.to_ascii_lowercase()));
        let name = free.next().unwrap_or_default();
        self.used.insert(name.to_ascii_lowercase());
        name
    }
}

fn buffer_text(buffer: &Buffer) -> Result<IniText, Error> {
    let mut text = IniText::new(": ");
    let format = if buffer.format.is_formatted() { BufferFormat::Formatted } else { BufferFormat::Raw };
    text.section("buffer")?;
    text.entry("name", &buffer.name)?;
    buffer.vendor.iter().try_for_each(|vendor| text.entry("vendor", vendor))?;
    buffer.component.iter().try_for_each(|component| text.entry("component", component))?;
    text.entry("format", format.name())?;
    if buffer.wrapped == Some(true) && buffer.write_pointer.is_none() {
        text.entry("wrapped", "1")?;
    }
    Ok(text)
}

/// Whether reading the event log of the package adds the source again.
fn is_from_log(source: &Source) -> bool {
    source.configured.is_some_and(|configured| configured.is_added)
}

/// Whether the section has another meaning in `contents.ini`, or is meaningless outside its own file.
fn belongs_elsewhere(section: &str) -> bool {
    let section = section.to_ascii_lowercase();
    let prefixes = ["trace", "device", "regs", "dump", "buffer"];
    section.is_empty() || prefixes.iter().any(|prefix| section.starts_with(prefix))
}

/// Whether the section is a `[snapshot]` of another file, whose version would replace that of the package.
fn gives_version(extra: &Extra) -> bool {
    let version = extra.pairs.iter().any(|(key, _)| key.eq_ignore_ascii_case("version"));
    version && extra.section.eq_ignore_ascii_case("snapshot")
}

fn create_empty(directory: &Path) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(Error::io(directory))?;
    match fs::read_dir(directory).map_err(Error::io(directory))?.next() {
        None => Ok(()),
        Some(_) => Err(Error::NotEmpty { path: directory.to_path_buf() }),
    }
}
