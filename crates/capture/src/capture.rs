//! The capture: the metadata of a recording, and access to its bytes.
//!
//! The readers of the package formats ([`snapshot`](crate::snapshot), [`package`](crate::package),
//! [`bare`](crate::bare)) fill in a [`Capture`]; users get buffers, streams and files from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unspool_coresight::Protocol;

use crate::buffer::{Buffer, BufferReader};
use crate::clock::Clock;
use crate::code::Symbols;
use crate::error::Error;
use crate::event::SystemEvent;
use crate::ini::{INI_LIMIT, INI_TOTAL, Ini, Section};
use crate::lookup::Lookup;
use crate::note::{Location, Note, NoteKind};
use crate::registers::Registers;
use crate::store::{FileReader, Store};
use crate::timeline::ContextFormat;

/// A recording on disk: trace buffers, the trace sources that wrote them, and the code that ran.
///
/// Index fields (`Source::buffers`, `Source::core`, `Core::sources`) point into the lists of the same capture.
#[derive(Debug, Clone)]
pub struct Capture {
    /// The path that was opened.
    pub path: PathBuf,
    /// The format of the package.
    pub format: PackageFormat,
    /// Whether the package is a zip archive.
    pub in_zip: bool,
    /// The version of a snapshot, as written.
    pub version: Option<String>,
    /// The trace buffers, in the order in which the package lists them.
    pub buffers: Vec<Buffer>,
    /// The trace sources.
    pub sources: Vec<Source>,
    /// The processors.
    pub cores: Vec<Core>,
    /// Devices that are neither source nor processor.
    pub devices: Vec<Device>,
    /// Sections and keys that are kept but not interpreted.
    pub extras: Vec<Extra>,
    /// The system event log, if the package has one.
    pub event_log: Option<EventLog>,
    /// What the operating system did while the trace was recorded: the lines of the event log, or the records of perf.data.
    pub events: Vec<SystemEvent>,
    /// Functions of files that a recording lists, by path. Their addresses are offsets in the file.
    pub symbols: BTreeMap<String, Symbols>,
    /// The clock of the timestamps in the trace; see [`clock_of`](Self::clock_of).
    pub clock: Clock,
    /// Files of the package for images that events name; `None` if it does not list them, and has them by their paths.
    pub event_images: Option<Vec<EventImage>>,
    /// What the operating system wrote to CONTEXTIDR, if the capture says so.
    pub context_format: Option<ContextFormat>,
    /// Missing and invalid parts of the package.
    pub notes: Vec<Note>,
    /// The notes that a package has on the recording it was made of.
    pub(crate) recording_notes: Vec<Note>,
    pub(crate) store: Arc<Store>,
    /// The ini files that were read.
    ini_files: Vec<String>,
    /// Number of bytes of ini text that may still be read.
    ini_left: u64,
    /// Whether notes were omitted.
    more_notes: bool,
}

/// Maximum number of notes. A note takes a hundred times the memory of the comma that can cause it.
const NOTE_LIMIT: usize = 16 << 10;

/// The format of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PackageFormat {
    /// `snapshot.ini`, one ini file per device, and `trace.ini`.
    Snapshot,
    /// `contents.ini` and metadata with one section per trace source.
    Package,
    /// Trace bytes without metadata.
    Bare,
    /// A recording of perf or simpleperf: a file, or a directory with the file `data`.
    Perf,
}

/// A trace source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name in the package.
    pub name: String,
    /// Its type, as written (`ETM4.2`).
    pub kind: String,
    /// The protocol of that type, if known.
    pub protocol: Option<Protocol>,
    /// The registers of the trace unit.
    pub registers: Registers,
    /// Individual options (`timestamp_bits`) given instead of registers, in the order of the package.
    pub options: Vec<(String, String)>,
    /// Its trace ID.
    pub id: Option<u8>,
    /// The buffers that contain its trace, in ascending order.
    pub buffers: Vec<usize>,
    /// The core that it traces.
    pub core: Option<usize>,
    /// The time of its configuration, if the event log has several of the trace unit. They have the same name.
    pub configured: Option<Configured>,
}

/// The time of a configuration of a trace unit, in ticks of the event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Configured {
    /// Its start; `None` if it is unknown.
    pub from: Option<u64>,
    /// Its end; `None` if it is unknown, or there is none.
    pub until: Option<u64>,
    /// Whether only the event log describes it.
    pub is_added: bool,
}

/// A processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Its name in the package.
    pub name: String,
    /// Its type, as written (`Cortex-A53`).
    pub kind: String,
    /// Its registers when the capture was taken.
    pub registers: Registers,
    /// Contents of its memory.
    pub images: Vec<Image>,
    /// The sources that trace it, in ascending order.
    pub sources: Vec<usize>,
}

/// A device that is neither source nor processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name in the package.
    pub name: String,
    /// Its class, as written; empty if not given.
    pub class: String,
    /// Its type, as written.
    pub kind: String,
    /// Its registers.
    pub registers: Registers,
    /// Contents of its memory.
    pub images: Vec<Image>,
}

/// A range of memory whose contents are in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The section that describes it (`dump1`).
    pub section: String,
    /// The name of the file inside the package.
    pub file: String,
    /// The size of the file, `None` if it is missing.
    pub size: Option<u64>,
    /// The address of the first byte; `None` if the file itself determines it.
    pub address: Option<u64>,
    /// Number of bytes; `None` for all until the end of the file.
    pub length: Option<u64>,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// The memory space (`EL2`, `S`), as written.
    pub space: Option<String>,
    /// The address of the lowest page of an ELF file that is not loaded where it was linked.
    pub load_address: Option<u64>,
    /// What the file is for.
    pub role: ImageRole,
}

/// What an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ImageRole {
    /// Memory of the device that lists it.
    #[default]
    Memory,
    /// A program that a user added. It takes precedence over memory.
    Added,
    /// Names without code.
    Symbols,
    /// The symbols of the kernel, which also place its modules.
    KernelSymbols,
}

/// A file of a package for an image that system events name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventImage {
    /// The path of the image, as events have it.
    pub image: String,
    /// The build ID, as events have it; empty if they have none.
    pub build_id: String,
    /// The name of the file inside the package.
    pub file: String,
    /// The name of another file with its symbols.
    pub symbols: Option<String>,
}

/// A section, or some keys of one, that are kept but not interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// The name of the file inside the package.
    pub file: String,
    /// The name of the section.
    pub section: String,
    /// Its keys and values, in order.
    pub pairs: Vec<(String, String)>,
}

/// The file of the system event log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLog {
    /// The name inside the package.
    pub file: String,
    /// The size in bytes, `None` if the file is missing.
    pub size: Option<u64>,
}

/// The trace of one source in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Index into [`Capture::sources`].
    pub source: usize,
    /// Index into [`Capture::buffers`].
    pub buffer: usize,
    /// Index of the buffer among those with this trace ID, in the order of the package.
    pub session: usize,
}

impl Capture {
    /// The streams to decode: every pair of a buffer and a source in it, in the order of the buffers.
    ///
    /// Recordings that were stopped and restarted have one buffer per session, and often one description of the
    /// trace unit per session too. The trace ID stays the same, so sessions are counted per trace ID. A source
    /// without an ID is counted by itself.
    pub fn streams(&self) -> Vec<Stream> {
        let mut streams = Vec::new();
        let mut sessions: HashMap<Result<u8, usize>, usize> = HashMap::new();
        for (buffer, in_buffer) in self.sources_by_buffer().into_iter().enumerate() {
            let key = |source: usize| self.sources.get(source).and_then(|found| found.id).ok_or(source);
            let session = |source| sessions.get(&key(source)).copied().unwrap_or(0);
            streams.extend(in_buffer.iter().map(|&source| Stream { source, buffer, session: session(source) }));
            let seen: HashSet<Result<u8, usize>> = in_buffer.iter().map(|&source| key(source)).collect();
            seen.into_iter().for_each(|key| *sessions.entry(key).or_default() += 1);
        }
        streams
    }

    /// The bytes of a buffer, oldest first. Missing files are skipped; it is an error if all are missing.
    ///
    /// # Errors
    ///
    /// If there is no such buffer, or its first file cannot be opened.
    pub fn reader(&self, buffer: usize) -> Result<BufferReader, Error> {
        let count = self.buffers.len();
        let found = self.buffers.get(buffer).ok_or(Error::NoBuffer { index: buffer, count })?;
        BufferReader::new(Arc::clone(&self.store), found, 0)
    }

    /// Reads the trace bytes of a buffer from this one on. Its length is that of the whole buffer.
    ///
    /// # Errors
    ///
    /// As for [`reader`](Capture::reader).
    pub fn reader_at(&self, buffer: usize, start: u64) -> Result<BufferReader, Error> {
        let count = self.buffers.len();
        let found = self.buffers.get(buffer).ok_or(Error::NoBuffer { index: buffer, count })?;
        BufferReader::new(Arc::clone(&self.store), found, start)
    }

    /// Opens a file of the package, such as an image.
    ///
    /// # Errors
    ///
    /// If the file is missing, points outside the package, or cannot be opened.
    pub fn open_file(&self, name: &str) -> Result<FileReader, Error> {
        self.store.open(name)
    }

    /// All bytes of a file of the package, at most `limit`.
    ///
    /// # Errors
    ///
    /// As for [`open_file`](Capture::open_file), and if the file is larger or damaged.
    pub fn read_file(&self, name: &str, limit: u64) -> Result<Vec<u8>, Error> {
        self.store.read(name, limit)
    }

    /// The names of all files that belong to a package, but for its main file.
    pub fn files(&self) -> BTreeSet<&str> {
        let buffers = self.buffers.iter().flat_map(|buffer| &buffer.files).map(|file| &file.name);
        let of_cores = self.cores.iter().flat_map(|core| &core.images);
        let of_devices = self.devices.iter().flat_map(|device| &device.images);
        let images = of_cores.chain(of_devices).map(|image| &image.file);
        let of_events = self.event_images.iter().flatten();
        let of_events = of_events.flat_map(|image| [Some(&image.file), image.symbols.as_ref()].into_iter().flatten());
        let patches = self.events.iter().filter_map(|event| event.call.patch_file());
        let log = self.event_log.iter().map(|log| &log.file);
        let named = buffers.chain(images).chain(of_events).chain(patches).chain(log).chain(&self.ini_files);
        named.map(String::as_str).collect()
    }

    /// Whether buffers are the sessions of a recording such as perf's. Then system events have the clock of the sessions,
    /// not that of timestamps in the trace, and a formatted buffer may lack some of its sources.
    pub fn has_sessions(&self) -> bool {
        self.format == PackageFormat::Perf || self.buffers.iter().any(|buffer| buffer.recorded.is_some())
    }

    /// Whether the code that a core executes depends on the core: not all images are those of every core.
    pub fn has_images_of_cores(&self) -> bool {
        let of_devices = self.devices.iter().any(|device| !device.images.is_empty());
        let of_cores = self.cores.iter().any(|core| !core.images.is_empty());
        let differ = self.cores.iter().zip(self.cores.iter().skip(1)).any(|(one, two)| one.images != two.images);
        differ || of_cores && of_devices
    }

    pub(crate) fn new(path: &Path, format: PackageFormat, store: Store) -> Self {
        Self {
            path: path.to_path_buf(),
            format,
            in_zip: matches!(store, Store::Zip(_)),
            version: None,
            buffers: Vec::new(),
            sources: Vec::new(),
            cores: Vec::new(),
            devices: Vec::new(),
            extras: Vec::new(),
            event_log: None,
            events: Vec::new(),
            symbols: BTreeMap::new(),
            clock: Clock::default(),
            event_images: None,
            // The kernel writes the thread, and perf requires it.
            context_format: (format == PackageFormat::Perf).then_some(ContextFormat::Tid),
            notes: Vec::new(),
            recording_notes: Vec::new(),
            store: Arc::new(store),
            ini_files: Vec::new(),
            ini_left: INI_TOTAL,
            more_notes: false,
        }
    }

    pub(crate) fn note(&mut self, at: Location<'_>, kind: NoteKind, text: impl Into<String>) {
        self.add_note(at.note(kind, text));
    }

    pub(crate) fn add_note(&mut self, note: Note) {
        if self.notes.len() < NOTE_LIMIT {
            self.notes.push(note);
        } else if !self.more_notes {
            self.more_notes = true;
            self.notes.push(Note { kind: NoteKind::TooMany, text: "further notes are omitted".to_string(), ..note });
        }
    }

    /// Name and size of a file that the package refers to. Problems with it become notes.
    pub(crate) fn find_file(&mut self, at: Location<'_>, name: &str) -> (String, Option<u64>) {
        let (kind, text) = match self.store.find(name) {
            Lookup::File { name: found, size, exact } => {
                if !exact {
                    self.note(at, NoteKind::NameCase, format!("`{name}` is spelled `{found}` in the package"));
                }
                return (found, Some(size));
            }
            Lookup::Missing => (NoteKind::MissingFile, format!("`{name}` is not in the package")),
            Lookup::Outside => {
                (NoteKind::OutsidePackage, format!("`{name}` points outside the package and is not opened"))
            }
            Lookup::Unusable(reason) => (NoteKind::Unreadable, format!("`{name}` cannot be used: {reason}")),
        };
        self.note(at, kind, text);
        (name.to_string(), None)
    }

    /// Reads an ini file that the package refers to. Problems with it become notes.
    pub(crate) fn load_ini(&mut self, at: Location<'_>, name: &str) -> Option<(String, Ini)> {
        let (file, size) = self.find_file(at, name);
        let Some(left) = self.ini_left.checked_sub(size?.min(INI_LIMIT)) else {
            self.note(at, NoteKind::TooMany, format!("`{name}` is ignored: the ini files together are too large"));
            return None;
        };
        self.ini_left = left;
        match read_ini(&self.store, &file) {
            Ok(ini) => {
                self.ini_files.push(file.clone());
                self.notes.extend(ini.notes(&file));
                Some((file, ini))
            }
            Err(error) => {
                self.note(at, NoteKind::Unreadable, error.to_string());
                None
            }
        }
    }

    /// Keeps the entries of a section whose keys are not interpreted.
    pub(crate) fn keep_extras(&mut self, file: &str, section: &Section, interpreted: impl Fn(&str) -> bool) {
        let rest = section.entries.iter().filter(|entry| !interpreted(&entry.key.to_ascii_lowercase()));
        let pairs: Vec<(String, String)> = rest.map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        if !pairs.is_empty() {
            self.extras.push(Extra { file: file.to_string(), section: section.name.clone(), pairs });
        }
    }

    /// Links a core and a source. A source traces one core; a core may have many sources.
    pub(crate) fn link_core(&mut self, at: Location<'_>, core: usize, source: usize) {
        let Some(found) = self.sources.get_mut(source) else { return };
        match found.core {
            None => found.core = Some(core),
            Some(known) if known == core => return,
            Some(_) => {
                let text = format!("`{}` already has a core; the first one is used", found.name);
                return self.note(at, NoteKind::Duplicate, text);
            }
        }
        if let Some(core) = self.cores.get_mut(core) {
            core.sources.push(source);
            core.sources.sort_unstable();
        }
    }

    pub(crate) fn sources_by_buffer(&self) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.buffers.len()];
        for (source, buffers) in self.sources.iter().map(|source| &source.buffers).enumerate() {
            for &buffer in buffers {
                if let Some(list) = lists.get_mut(buffer) {
                    list.push(source);
                }
            }
        }
        lists
    }
}

impl Source {
    /// Adds a buffer, keeping the list sorted.
    pub(crate) fn add_buffer(&mut self, buffer: usize) {
        if let Err(at) = self.buffers.binary_search(&buffer) {
            self.buffers.insert(at, buffer);
        }
    }
}

/// Reads an ini file of the package.
pub(crate) fn read_ini(store: &Store, file: &str) -> Result<Ini, Error> {
    let bytes = store.read(file, INI_LIMIT)?;
    let not_ini = || Error::Unusable { name: file.to_string(), reason: "not an ini file".to_string() };
    Ini::from_bytes(&bytes).ok_or_else(not_ini)
}

/// The trace ID in the registers of a trace unit. Seven bits, as in CoreSight's ATID.
pub(crate) fn trace_id(registers: &Registers) -> Option<u8> {
    const FIELDS: [(&str, u32); 4] = [("TRCTRACEIDR", 0), ("ETMTRACEIDR", 0), ("ITMTCR", 16), ("STMTCSR", 16)];
    let found = FIELDS.iter().find_map(|&(name, shift)| registers.get(name).map(|value| value >> shift & 0x7f));
    found.and_then(|id| u8::try_from(id).ok())
}
