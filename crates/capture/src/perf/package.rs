//! A recording as a capture: trace units become sources, sessions become buffers that are parts of a file.
//!
//! [`PerfData`] ─▶ **package** ─▶ [`Capture`]
//!
//! Raw bytes belong to the unit of their CPU. Frames may have the bytes of all units, or of those with the same sink if
//! trace IDs are unique only there. Problems, and trace that is announced and absent, become notes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use unspool_coresight::Protocol;

use super::{Absent, FileInfo, MAIN, PerfData, Session, Unit, is_perf};
use crate::buffer::{Buffer, BufferFile, BufferFormat, Recorded};
use crate::capture::{Capture, Core, Extra, PackageFormat, Source};
use crate::clock::EventClock;
use crate::code::{SymbolList, Symbols};
use crate::error::Error;
use crate::note::{Location, NoteKind};
use crate::registers::Registers;
use crate::store::{LooseFile, Store};

/// Maximum number of buffers, and of pairs of a buffer and a source.
const BUFFER_LIMIT: usize = 1 << 20;
const LINK_LIMIT: usize = 8 << 20;

/// Opens a file that starts like a recording.
pub(crate) fn open(path: &Path) -> Result<Capture, Error> {
    let data = PerfData::open(path)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let store = Store::Loose(BTreeMap::from([(name.clone(), LooseFile::Named(path.to_path_buf()))]));
    capture(path, data, store, vec![name])
}

/// Opens a directory whose main file starts like a recording; `None` if there is no such file.
pub(crate) fn open_directory(path: &Path) -> Result<Option<Capture>, Error> {
    let mut start = Vec::new();
    let is_recording = File::open(path.join(MAIN))
        .and_then(|file| file.take(8).read_to_end(&mut start))
        .is_ok_and(|_| is_perf(&start));
    if !is_recording {
        return Ok(None);
    }
    let data = PerfData::open(path)?;
    let files = data.files.clone();
    capture(path, data, Store::Directory(path.to_path_buf()), files).map(Some)
}

/// Opens a stream, which is copied to an unnamed temporary file.
pub(crate) fn open_stream(path: &Path, stream: &mut impl Read) -> Result<Capture, Error> {
    let mut start = Vec::new();
    stream.by_ref().take(8).read_to_end(&mut start).map_err(Error::io(path))?;
    if !is_perf(&start) {
        return Err(not_a_capture(path, "a stream that is not a perf.data file"));
    }
    let spooled = LooseFile::spool(&mut Cursor::new(start).chain(stream)).map_err(Error::io(path))?;
    let name = path.to_string_lossy().into_owned();
    let data = match &spooled {
        LooseFile::Spooled(file, _) => {
            let file = Arc::clone(file);
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            PerfData::read(&mut *file).map_err(Error::io(path))?
        }
        LooseFile::Named(_) => None,
    };
    let data = data.ok_or_else(|| not_a_capture(path, "not a perf.data file"))?;
    capture(path, data, Store::Loose(BTreeMap::from([(name.clone(), spooled)])), vec![name])
}

fn not_a_capture(path: &Path, found: &str) -> Error {
    Error::NotACapture { path: path.to_path_buf(), found: found.to_string() }
}

fn capture(path: &Path, data: PerfData, store: Store, files: Vec<String>) -> Result<Capture, Error> {
    if data.units.is_empty() {
        return Err(not_a_capture(path, "a perf.data file without CoreSight trace"));
    }
    let mut capture = Capture::new(path, PackageFormat::Perf, store);
    let mut writer = Writer { files, capture: &mut capture };
    writer.facts(&data);
    writer.sources(&data.units, &data.features.arch.as_deref().map_or("unknown".to_string(), one_line));
    writer.problems(&data);
    writer.buffers(&data);
    capture.clock.events = event_clock(&data);
    capture.symbols = symbols(&data.features.files);
    capture.events = data.events;
    Ok(capture)
}

/// The conversion is one to the default clock of perf; the user can have chosen another.
fn event_clock(data: &PerfData) -> EventClock {
    /// The number of CLOCK_MONOTONIC.
    const MONOTONIC: i32 = 1;
    let mut chosen = data.attrs.iter().map(|attr| attr.clock);
    let first = chosen.next().flatten();
    match (first, data.time_conversion) {
        _ if chosen.any(|clock| clock != first) => EventClock::Unknown,
        (Some(MONOTONIC), _) => EventClock::Monotonic,
        (None, Some(conversion)) => EventClock::Perf(conversion),
        _ => EventClock::Unknown,
    }
}

/// The functions of ELF files, at their offsets in the files.
fn symbols(files: &[FileInfo]) -> BTreeMap<String, Symbols> {
    /// The type of an ELF file.
    const ELF: u64 = 2;
    let mut found = BTreeMap::new();
    for file in files.iter().filter(|file| file.kind == ELF && !file.symbols.is_empty()) {
        let mut list = SymbolList::default();
        let bias = file.offset.unwrap_or(file.min_vaddr).wrapping_sub(file.min_vaddr);
        for symbol in &file.symbols {
            let offset = symbol.address.wrapping_add(bias);
            list.push(&symbol.name, offset, symbol.size, offset.saturating_add(symbol.size), 0);
        }
        found.insert(file.path.clone(), list.finish());
    }
    found
}

struct Writer<'a> {
    files: Vec<String>,
    capture: &'a mut Capture,
}

impl Writer<'_> {
    fn note(&mut self, file: usize, offset: u64, kind: NoteKind, text: impl Into<String>) {
        let name = self.files.get(file).map_or("", String::as_str);
        self.capture.note(Location::offset(name, offset), kind, text);
    }

    /// Facts about machine and recording, for people.
    fn facts(&mut self, data: &PerfData) {
        let features = &data.features;
        let text = |key: &str, value: &Option<String>| value.clone().map(|value| (key.to_string(), value));
        let mut pairs = Vec::new();
        pairs.extend(text("os_release", &features.os_release));
        pairs.extend(text("perf_version", &features.version));
        pairs.extend(text("arch", &features.arch));
        pairs.extend(features.cpus.map(|(online, all)| ("cpus".to_string(), format!("{online} of {all}"))));
        let command = features.command.join(" ");
        pairs.extend((!command.is_empty()).then(|| ("command".to_string(), command)));
        pairs.iter_mut().for_each(|(_, value)| *value = one_line(value));
        if !pairs.is_empty() {
            let file = self.files.first().cloned().unwrap_or_default();
            self.capture.extras.push(Extra { file, section: "recording".to_string(), pairs });
        }
        let file = self.files.first().cloned().unwrap_or_default();
        self.capture.extras.extend(event_clock(data).extra(file));
    }

    /// A source and a core for each unit. The type of a core is the architecture.
    fn sources(&mut self, units: &[Unit], arch: &str) {
        for (index, unit) in units.iter().enumerate() {
            let name = format!("cpu{}", unit.cpu);
            self.capture.sources.push(Source {
                name: name.clone(),
                kind: kind(unit.protocol).to_string(),
                protocol: Some(unit.protocol),
                registers: unit.registers.clone(),
                options: Vec::new(),
                id: unit.id,
                buffers: Vec::new(),
                core: Some(index),
                configured: None,
            });
            let (kind, registers) = (arch.to_string(), Registers::default());
            self.capture.cores.push(Core { name, kind, registers, images: Vec::new(), sources: vec![index] });
        }
    }

    fn problems(&mut self, data: &PerfData) {
        for problem in &data.problems {
            let kind = if problem.is_damage { NoteKind::Damaged } else { NoteKind::Unplaced };
            self.note(problem.file, problem.offset, kind, problem.text.clone());
        }
        for loss in &data.losses {
            let text = format!("the kernel lost {} records", loss.count);
            self.note(loss.file, loss.offset, NoteKind::RecordsLost, text);
        }
    }

    fn buffers(&mut self, data: &PerfData) {
        let members = Members::new(&data.units);
        let mut counts: HashMap<String, usize> = HashMap::new();
        // The time of the last session of each owner.
        let mut times: HashMap<String, u64> = HashMap::new();
        let mut links = 0;
        for session in &data.sessions {
            let owner = owner(session);
            self.session_notes(session, &owner);
            if session.is_empty() {
                continue;
            }
            let members = members.of(session);
            links += members.len();
            let index = self.capture.buffers.len();
            if index >= BUFFER_LIMIT || links > LINK_LIMIT {
                let text = format!("more than {index} sessions; the rest are ignored");
                return self.note(session.file, session.offset, NoteKind::TooMany, text);
            }
            if members.is_empty() {
                let text = format!("the trace of {owner} belongs to no known trace unit");
                self.note(session.file, session.offset, NoteKind::UnknownName, text);
            }
            let count = counts.entry(owner.clone()).or_default();
            let name = format!("{owner}-{count}");
            *count += 1;
            let after = session.time.and_then(|time| times.insert(owner, time));
            let buffer = self.buffer(name, session, after);
            self.capture.buffers.push(buffer);
            for &member in members {
                if let Some(source) = self.capture.sources.get_mut(member) {
                    source.add_buffer(index);
                }
            }
        }
    }

    fn buffer(&self, name: String, session: &Session, after: Option<u64>) -> Buffer {
        let thread = session.tid.filter(|_| session.is_of_thread);
        let file = |index: usize| self.files.get(index).cloned().unwrap_or_default();
        let files = session.parts.iter().map(|part| BufferFile {
            name: file(part.file),
            offset: part.offset,
            size: Some(part.length),
        });
        Buffer {
            name,
            files: files.collect(),
            format: if session.is_raw { BufferFormat::Raw } else { BufferFormat::Formatted },
            write_pointer: None,
            wrapped: None,
            vendor: None,
            component: None,
            recorded: Some(Recorded { after, until: session.time, thread }),
        }
    }

    fn session_notes(&mut self, session: &Session, owner: &str) {
        let missing = session.missing;
        let mut add = |kind, text: String| self.note(session.file, session.offset, kind, text);
        match session.absent {
            Some(Absent::Empty) => add(NoteKind::NoTrace, format!("{owner}: nothing was traced")),
            Some(Absent::NoTrace) => {
                add(
                    NoteKind::TraceAbsent,
                    format!("{owner}: {missing} bytes of trace are announced, and the file has none"),
                );
            }
            Some(Absent::NotRecorded) => {
                add(
                    NoteKind::TraceAbsent,
                    format!("{owner}: {missing} bytes of trace are announced and not in the file"),
                );
            }
            None if missing > 0 => {
                let all = missing.saturating_add(session.len());
                add(NoteKind::TraceAbsent, format!("{owner}: {missing} of {all} bytes of trace are not in the file"));
            }
            None => {}
        }
        if session.is_truncated {
            add(NoteKind::TraceLost, format!("{owner}: the buffer was full, and trace was lost"));
        }
        if session.is_partial {
            add(NoteKind::TraceLost, format!("{owner}: some of the trace may be missing"));
        }
        if session.is_collision {
            add(NoteKind::TraceLost, format!("{owner}: trace was lost in a collision"));
        }
        if session.is_unannounced {
            let format = if session.is_raw { "raw" } else { "formatted" };
            add(NoteKind::Assumed, format!("{owner}: trace that no AUX record announces is assumed to be {format}"));
        }
    }
}

/// Text without line breaks and other control characters.
fn one_line(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<&str>>().join(" ").trim().to_string()
}

fn kind(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Ete => "ETE",
        Protocol::Etm4 => "ETMv4",
        Protocol::Ptm => "PTM",
        _ => "ETMv3",
    }
}

/// The CPU or thread whose trace it is.
fn owner(session: &Session) -> String {
    match (session.cpu, session.tid) {
        (Some(cpu), _) if !session.is_of_thread => format!("cpu{cpu}"),
        (_, Some(tid)) => format!("thread{tid}"),
        _ => "unknown".to_string(),
    }
}

/// The units whose bytes a session may have.
struct Members {
    by_cpu: HashMap<u32, usize>,
    by_sink: HashMap<u32, Vec<usize>>,
    sinks: HashMap<u32, u32>,
    all: Vec<usize>,
}

impl Members {
    fn new(units: &[Unit]) -> Self {
        let mut members =
            Self { by_cpu: HashMap::new(), by_sink: HashMap::new(), sinks: HashMap::new(), all: Vec::new() };
        // If the kernel reports trace IDs, a unit without one was not used.
        let is_reported = units.iter().any(|unit| unit.has_hardware_id);
        for (index, unit) in units.iter().enumerate() {
            members.by_cpu.insert(unit.cpu, index);
            if unit.id.is_some() && unit.has_hardware_id == is_reported {
                members.all.push(index);
            }
            if let Some(sink) = unit.sink {
                members.by_sink.entry(sink).or_default().push(index);
                members.sinks.insert(unit.cpu, sink);
            }
        }
        members
    }

    fn of(&self, session: &Session) -> &[usize] {
        let cpu = session.cpu;
        if session.is_raw {
            let only = self.by_cpu.values().next().filter(|_| self.by_cpu.len() == 1 && cpu.is_none());
            return cpu.and_then(|cpu| self.by_cpu.get(&cpu)).or(only).map_or(&[], std::slice::from_ref);
        }
        let sink = cpu.and_then(|cpu| self.sinks.get(&cpu));
        sink.and_then(|sink| self.by_sink.get(sink)).map_or(&self.all, Vec::as_slice)
    }
}
