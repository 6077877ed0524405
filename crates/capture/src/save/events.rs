//! The system event log of a package, and the files of the images in it.
//!
//! events of a capture and of the caller ─▶ **events** ─▶ log, code of patches, images
//!
//! A log that the capture has is copied as it is. Images are found as a decoder finds them; `contents.ini` lists the file of
//! each, so that reading the package gives the same files as here, whatever their names are.

use std::collections::{HashMap, HashSet};
use std::io::{Cursor, Read, Write};

use super::names::name_of_image;
use super::{MissingImage, Writer, in_quotes};
use crate::capture::{EventImage, PackageFormat};
use crate::code::{ImageFile, ImageLoader, ImageNotFound, ImageSearch, Origin};
use crate::error::Error;
use crate::event::{Call, Mapping, PatchCode, SystemEvent};
use crate::ini::IniText;
use crate::log::{EVENT_LIMIT, TEXT_LIMIT};
use crate::note::{Location, NoteKind};
use crate::package::EVENT_LOG;
use crate::package::recording::{EVENT_IMAGE, EVENT_IMAGES};

/// Code of a patch that is longer has a file of its own. A line of a log is limited, and so is what people read.
const INLINE_LIMIT: usize = 64 << 10;

impl Writer<'_> {
    /// Writes the event log and the files of patches in it. Returns the name of the log; `None` if there are no events.
    pub(super) fn write_log(&mut self) -> Result<Option<String>, Error> {
        let capture = self.capture;
        let added = &self.options.events;
        self.saved.events = capture.events.len() + added.len();
        let known = capture.event_log.as_ref();
        if let Some(log) = known.filter(|log| log.size.is_none() && added.is_empty()) {
            return Ok(Some(log.file.clone()));
        }
        let known = known.filter(|log| log.size.is_some());
        if known.is_none() && self.saved.events == 0 {
            return Ok(None);
        }
        if let Some(log) = known.filter(|_| added.is_empty()) {
            self.copy_patches(&capture.events)?;
            return self.copy_file(&log.file).map(Some);
        }
        let name = self.names.reserve(known.map_or(EVENT_LOG, |log| &log.file));
        let new = if known.is_some() { &[][..] } else { &capture.events[..] };
        self.copy_patches(&capture.events)?;
        let names = self.write_long_patches(new.iter().chain(added))?;
        let mut text = Vec::new();
        if let Some(log) = known {
            // Ends the last line, in case that the log does not.
            capture.open_file(&log.file)?.read_to_end(&mut text).map_err(Error::io(&log.file))?;
            if !text.ends_with(b"\n") && !text.is_empty() {
                text.push(b'\n');
            }
        }
        let lines = Lines { events: new.iter().chain(added).enumerate(), names: &names, text: Cursor::new(text) };
        let size = self.output.write(&name, &mut { lines }, 0)?;
        // A reader ignores the rest.
        if self.saved.events > EVENT_LIMIT || size > TEXT_LIMIT {
            let text = format!("only the first {EVENT_LIMIT} events and {TEXT_LIMIT} bytes of a log are read");
            self.saved.notes.push(Location::file(&name).note(NoteKind::TooMany, text));
        }
        Ok(Some(name))
    }

    /// Copies the files of the package that patches name. Their names are in the log, so they stay.
    fn copy_patches(&mut self, events: &[SystemEvent]) -> Result<(), Error> {
        let mut seen = HashSet::new();
        let ids = events.iter().filter_map(|event| event.call.patch_file());
        for id in ids.filter(|id| seen.insert(*id)) {
            match self.copy_file(id) {
                Ok(copy) if copy != id.replace('\\', "/") => {
                    let text = format!("the code of a patch has to be stored as `{copy}`, where it is not found");
                    self.saved.notes.push(Location::file(id).note(NoteKind::Dropped, text));
                }
                Ok(_) | Err(Error::MissingFile { .. } | Error::Unusable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the code of long patches into files, and returns their names by the index of the event.
    fn write_long_patches<'e>(
        &mut self,
        events: impl Iterator<Item = &'e SystemEvent>,
    ) -> Result<HashMap<usize, String>, Error> {
        let mut names = HashMap::new();
        for (index, event) in events.enumerate() {
            if let Call::Patch { code: PatchCode::Bytes(code), .. } = &event.call
                && code.len() > INLINE_LIMIT
            {
                let name = self.names.unused("patch", "bin");
                self.output.write(&name, &mut &code[..], code.len() as u64)?;
                names.insert(index, name);
            }
        }
        Ok(names)
    }

    /// Finds and writes the files of the images that events name; `None` if they are not looked for.
    pub(super) fn write_event_images(&mut self) -> Result<Option<Vec<EventImage>>, Error> {
        let Some(search) = self.image_search() else { return Ok(None) };
        let mut loader = ImageLoader::new(search);
        let events = self.capture.events.iter().chain(&self.options.events);
        let mut seen = HashSet::new();
        let mappings = events.filter_map(|event| event.call.mapping());
        let mappings: Vec<&Mapping> =
            mappings.filter(|mapping| seen.insert((&mapping.image, &mapping.build_id))).collect();
        let mut written = HashMap::new();
        let mut images = Vec::new();
        for mapping in mappings {
            loader.release();
            let (image, build_id) = (mapping.image.clone(), mapping.build_id.clone());
            match loader.find(mapping) {
                Ok(found) => {
                    self.saved.notes.extend(found.notes);
                    let name = name_of_image(&image);
                    let file = self.write_image_file(&found.file, &name, &mut written)?;
                    let symbols = found.symbols.as_ref();
                    let symbols = symbols.map(|file| self.write_image_file(file, &(name + ".debug"), &mut written));
                    images.push(EventImage { image, build_id, file, symbols: symbols.transpose()? });
                }
                Err(ImageNotFound::NoFile { .. }) => {}
                Err(reason) => self.saved.missing.push(MissingImage { image, build_id, reason }),
            }
        }
        Ok(Some(images))
    }

    fn image_search(&self) -> Option<ImageSearch> {
        let capture = self.capture;
        let has_events = !capture.events.is_empty() || !self.options.events.is_empty();
        let default = || ImageSearch { package: Some(capture.clone()), ..ImageSearch::default() };
        let search = self.options.search.clone();
        search.or_else(|| (capture.format != PackageFormat::Perf).then(default)).filter(|_| has_events)
    }

    /// Writes a file once, and returns its name in the package.
    fn write_image_file(
        &mut self,
        file: &ImageFile,
        name: &str,
        written: &mut HashMap<(Origin, String), String>,
    ) -> Result<String, Error> {
        let (origin, own_name) = file.origin();
        if let Some(copy) = self.copied.get(own_name).filter(|_| origin == Origin::Package) {
            return Ok(copy.clone());
        }
        let key = (origin, own_name.to_string());
        if let Some(copy) = written.get(&key) {
            return Ok(copy.clone());
        }
        let copy = self.names.reserve(name);
        self.output.write(&copy, &mut file.bytes(), file.bytes().len() as u64)?;
        self.saved.images += 1;
        written.insert(key, copy.clone());
        Ok(copy)
    }
}

/// Writes the list of the files of images.
pub(super) fn image_sections(contents: &mut IniText, images: Option<&[EventImage]>) -> Result<(), Error> {
    let Some(images) = images else { return Ok(()) };
    contents.section(EVENT_IMAGES)?;
    contents.entry("count", &images.len().to_string())?;
    for (index, image) in images.iter().enumerate() {
        contents.section(&format!("{EVENT_IMAGE}{index}"))?;
        contents.entry("image", &in_quotes(&image.image))?;
        if !image.build_id.is_empty() {
            contents.entry("build_id", &in_quotes(&image.build_id))?;
        }
        contents.entry("file", &in_quotes(&image.file))?;
        image.symbols.iter().try_for_each(|symbols| contents.entry("symbols", &in_quotes(symbols)))?;
    }
    Ok(())
}

/// The text of a log, made while it is read.
struct Lines<'a, E> {
    /// Events and their indexes.
    events: E,
    /// Files with the code of patches.
    names: &'a HashMap<usize, String>,
    /// Text that is not read yet.
    text: Cursor<Vec<u8>>,
}

impl<'a, E: Iterator<Item = (usize, &'a SystemEvent)>> Read for Lines<'a, E> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = self.text.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some((index, event)) = self.events.next() else { return Ok(0) };
            let mut line = std::mem::take(&mut self.text).into_inner();
            line.clear();
            match (self.names.get(&index), &event.call) {
                (Some(file), Call::Patch { pid, address, length, code, name }) => {
                    let (length, id) = (code.length(*length), PatchCode::Id(file.clone()));
                    let call = Call::Patch { pid: *pid, address: *address, length, code: id, name: name.clone() };
                    writeln!(line, "{}", SystemEvent { time: event.time, place: event.place, call })?;
                }
                _ => writeln!(line, "{event}")?,
            }
            self.text = Cursor::new(line);
        }
    }
}
