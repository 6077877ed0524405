//! The buffers of a package and their metadata.
//!
//! A capture has one metadata file per buffer, unless its buffers are sessions of a recording: of those there may be
//! thousands, with the same sources.

use std::collections::{HashMap, HashSet};

use super::Writer;
use crate::buffer::{Buffer, BufferFormat, Recorded};
use crate::capture::Source;
use crate::error::Error;
use crate::ini::IniText;
use crate::metadata::SESSION;
use crate::note::{Location, NoteKind};
use crate::package::{NO_ID, is_register};

/// Maximum number of buffers in a metadata file, whose size is limited.
const GROUP_LIMIT: usize = 16 << 10;

/// What the buffers of one metadata file have in common: all but the name, and sources.
type Shared<'a> = (BufferFormat, Option<&'a str>, Option<&'a str>, bool, &'a [usize]);

impl Writer<'_> {
    pub(super) fn write_buffers(&mut self, contents: &mut IniText) -> Result<(), Error> {
        let capture = self.capture;
        let sources = capture.sources_by_buffer();
        let sources_of = |index: usize| sources.get(index).map_or(&[][..], Vec::as_slice);
        if capture.buffers.iter().any(|buffer| buffer.recorded.is_some()) {
            for group in groups(&capture.buffers, sources_of) {
                self.write_sessions(contents, &group, group.first().map_or(&[], |(index, _)| sources_of(*index)))?;
            }
        } else {
            for (index, buffer) in capture.buffers.iter().enumerate() {
                self.write_buffer(contents, index, buffer, sources_of(index))?;
            }
        }
        self.write_sources_without_buffer(contents)
    }

    fn write_buffer(
        &mut self,
        contents: &mut IniText,
        index: usize,
        buffer: &Buffer,
        sources: &[usize],
    ) -> Result<(), Error> {
        let file = self.write_buffer_file(index, buffer)?;
        let mut metadata = IniText::new(": ");
        buffer_section(&mut metadata, buffer, Some(&buffer.name))?;
        self.write_sources(&mut metadata, sources)?;
        let metadata = self.write_ini("trace", metadata)?;
        contents.section("trace")?;
        contents.entry("metadata", &metadata)?;
        contents.entry(&format!("buffer{index}"), &file)
    }

    /// Writes sessions with the same sources.
    fn write_sessions(
        &mut self,
        contents: &mut IniText,
        group: &[(usize, &Buffer)],
        sources: &[usize],
    ) -> Result<(), Error> {
        let Some((_, first)) = group.first() else { return Ok(()) };
        let mut metadata = IniText::new(": ");
        buffer_section(&mut metadata, first, None)?;
        self.write_sources(&mut metadata, sources)?;
        let mut files = Vec::new();
        for (index, buffer) in group {
            files.push((*index, self.write_buffer_file(*index, buffer)?));
            session_section(&mut metadata, *index, buffer)?;
        }
        let metadata = self.write_ini("trace", metadata)?;
        contents.section("trace")?;
        contents.entry("metadata", &metadata)?;
        files.iter().try_for_each(|(index, file)| contents.entry(&format!("buffer{index}"), file))
    }

    /// Writes the bytes of a buffer, and returns the name of the file.
    fn write_buffer_file(&mut self, index: usize, buffer: &Buffer) -> Result<String, Error> {
        let file = self.names.unused(&buffer.name, "bin");
        match self.capture.reader(index) {
            Ok(reader) => {
                let size = reader.len();
                self.write_trace(&file, reader, size)?;
            }
            Err(Error::MissingFile { .. }) => {}
            Err(error) => return Err(error),
        }
        for missing in buffer.files.iter().filter(|file| file.size.is_none()) {
            let text = format!("missing, so its bytes are not in `{file}`");
            self.saved.notes.push(Location::file(&missing.name).note(NoteKind::MissingFile, text));
        }
        Ok(file)
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

    fn write_sources(&self, metadata: &mut IniText, sources: &[usize]) -> Result<(), Error> {
        let found = sources.iter().filter_map(|index| Some((*index, self.capture.sources.get(*index)?)));
        found
            .filter(|(_, source)| !is_from_log(source))
            .try_for_each(|(index, source)| self.write_source(metadata, index, source))
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
}

/// Whether reading the event log of the package adds the source again.
fn is_from_log(source: &Source) -> bool {
    source.configured.is_some_and(|configured| configured.is_added)
}

/// Buffers with the same properties and sources, in the order of the first of each group.
fn groups<'a>(buffers: &'a [Buffer], sources_of: impl Fn(usize) -> &'a [usize]) -> Vec<Vec<(usize, &'a Buffer)>> {
    let mut groups: Vec<Vec<(usize, &Buffer)>> = Vec::new();
    let mut open: HashMap<Shared<'a>, usize> = HashMap::new();
    for (index, buffer) in buffers.iter().enumerate() {
        let (vendor, component) = (buffer.vendor.as_deref(), buffer.component.as_deref());
        let shared = (format_of(buffer), vendor, component, has_unknown_start(buffer), sources_of(index));
        let last = open.get(&shared).copied();
        match last.and_then(|at| groups.get_mut(at)).filter(|group| group.len() < GROUP_LIMIT) {
            Some(group) => group.push((index, buffer)),
            None => {
                open.insert(shared, groups.len());
                groups.push(vec![(index, buffer)]);
            }
        }
    }
    groups
}

fn buffer_section(text: &mut IniText, buffer: &Buffer, name: Option<&str>) -> Result<(), Error> {
    text.section("buffer")?;
    name.iter().try_for_each(|name| text.entry("name", name))?;
    buffer.vendor.iter().try_for_each(|vendor| text.entry("vendor", vendor))?;
    buffer.component.iter().try_for_each(|component| text.entry("component", component))?;
    text.entry("format", format_of(buffer).name())?;
    if has_unknown_start(buffer) {
        text.entry("wrapped", "1")?;
    }
    Ok(())
}

/// The section of one session: its name, its index, and when it was recorded.
fn session_section(text: &mut IniText, index: usize, buffer: &Buffer) -> Result<(), Error> {
    text.section(&format!("buffer{index}"))?;
    text.entry("name", &buffer.name)?;
    text.entry("buffer_index", &index.to_string())?;
    let Some(Recorded { after, until, thread }) = buffer.recorded else { return Ok(()) };
    text.entry("recorded", SESSION)?;
    let thread = thread.map(u64::from);
    for (key, value) in [("recorded_after", after), ("recorded_until", until), ("recorded_thread", thread)] {
        value.iter().try_for_each(|value| text.entry(key, &value.to_string()))?;
    }
    Ok(())
}

/// The format of the bytes in the package, which has no blocks of a probe.
fn format_of(buffer: &Buffer) -> BufferFormat {
    if buffer.format.is_formatted() { BufferFormat::Formatted } else { BufferFormat::Raw }
}

fn has_unknown_start(buffer: &Buffer) -> bool {
    buffer.wrapped == Some(true) && buffer.write_pointer.is_none()
}
