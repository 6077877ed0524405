//! Files of the capture: a snapshot directory, which other readers know too.
//!
//! They are written to a temporary directory, and get their names when all are complete.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use unspool_coresight::frame::Formatter;
use unspool_coresight::trace_buffer::{BufferSettings, ManagementEvent, TraceBuffer};
use unspool_model::SinkError;

use super::core::Core;
use super::totals::Encoded;
use crate::target::TemporaryPath;

/// Frames after which the id is repeated: at most that many at the start of a wrapped buffer are unreadable.
const IDS_EVERY: usize = 16;

/// Bytes of trace that are collected before they are written.
pub(super) const CHUNK: usize = 64 << 10;

/// File that names all others.
const SNAPSHOT: &str = "snapshot.ini";

/// File that describes the buffers.
const TRACE: &str = "trace.ini";

/// System event log.
const EVENTS: &str = "system-event-log";

#[derive(Debug)]
pub(super) struct Output {
    directory: PathBuf,
    /// Files of an earlier capture in the directory, to be replaced. `None`: the directory does not exist.
    replaced: Option<BTreeSet<OsString>>,
    /// Directory of the files until all are complete.
    unfinished: TemporaryPath,
    /// Frames, if all cores share a buffer.
    formatter: Option<Formatter>,
    /// Buffers: one, or one for each core.
    files: Vec<File>,
    /// Their size and contents, if they are limited.
    settings: Option<BufferSettings>,
    buffers: Vec<TraceBuffer>,
    trace_bytes: u64,
}

impl Output {
    /// `replace`: the directory may hold a capture that an encoder wrote.
    pub(super) fn new(
        directory: &Path,
        replace: bool,
        formatted: bool,
        settings: Option<BufferSettings>,
    ) -> Result<Self, SinkError> {
        let replaced = directory.exists().then(|| earlier_files(directory, replace)).transpose()?;
        // Inside of a directory that exists: the one around it may be read-only, or on another disk.
        let unfinished = match replaced {
            Some(_) => TemporaryPath::beside(&directory.join("capture")),
            None => TemporaryPath::beside(directory),
        };
        let path = unfinished.path();
        fs::create_dir_all(path).map_err(|error| at(directory, &error))?;
        let formatter = formatted.then(|| Formatter::with_ids_every(IDS_EVERY));
        let directory = directory.to_path_buf();
        let (files, buffers) = (Vec::new(), Vec::new());
        Ok(Self { directory, replaced, unfinished, formatter, files, settings, buffers, trace_bytes: 0 })
    }

    pub(super) fn add(&mut self, core: usize) -> Result<(), SinkError> {
        if self.formatter.is_none() || core == 0 {
            let path = self.unfinished.path().join(buffer_file(core));
            self.files.push(File::create_new(&path).map_err(|error| at(&path, &error))?);
            self.buffers.extend(self.settings.map(TraceBuffer::new));
        }
        Ok(())
    }

    /// Writes the trace of a core so far. Its trigger follows it into the buffer, and events of the buffer go back.
    pub(super) fn write(&mut self, index: usize, core: &mut Core) -> Result<(), SinkError> {
        let Self { formatter, files, buffers, trace_bytes, .. } = self;
        let mut written = Ok(());
        let id = core.id;
        core.unit.take(|bytes| {
            *trace_bytes += bytes.len() as u64;
            written = match formatter {
                None => collect(&mut files[index], buffers.get_mut(index), bytes),
                Some(formatter) => {
                    formatter.push(id, bytes);
                    collect(&mut files[0], buffers.first_mut(), &formatter.take())
                }
            };
        });
        if let Some(buffer) = buffers.get_mut(if formatter.is_some() { 0 } else { index }) {
            if core.unit.take_trigger() {
                buffer.trigger();
            }
            core.unit.buffer_events(buffer.take_events());
        }
        Ok(written?)
    }

    /// Writes everything else, and returns the totals of buffers and images. `events`: a log that has the code, in place of
    /// images.
    pub(super) fn finish(mut self, cores: &[Core], events: Option<&[u8]>) -> Result<Encoded, SinkError> {
        let is_framed = self.formatter.is_some();
        if let Some(formatter) = self.formatter.take() {
            collect(&mut self.files[0], self.buffers.first_mut(), &formatter.finish())?;
        }
        for (file, buffer) in self.files.iter_mut().zip(&self.buffers) {
            file.write_all(buffer.memory())?;
        }
        self.put(SNAPSHOT, snapshot_text(cores.len()).as_bytes())?;
        self.put(TRACE, trace_text(cores.len(), is_framed, &self.buffers).as_bytes())?;
        let mut image_bytes = 0;
        for (index, core) in cores.iter().enumerate() {
            let segments = if events.is_some() { Vec::new() } else { core.image.segments() };
            self.put(&format!("unit_{index}.ini"), unit_text(index, core).as_bytes())?;
            self.put(&format!("cpu_{index}.ini"), core_text(index, core, &segments).as_bytes())?;
            for (number, (_, bytes)) in segments.iter().enumerate() {
                self.put(&image_file(index, number), bytes)?;
                image_bytes += bytes.len() as u64;
            }
        }
        if let Some(events) = events {
            self.put(EVENTS, events)?;
        }
        // Other systems do not rename files that are open.
        self.files.clear();
        self.publish().map_err(|error| at(&self.directory, &error))?;
        Ok(Encoded {
            trace_bytes: self.trace_bytes,
            image_bytes,
            event_bytes: events.map_or(0, |events| events.len() as u64),
            lost_bytes: self.buffers.iter().map(|buffer| buffer.lost() + buffer.overwritten()).sum(),
            trigger_stops: self.buffers.iter().filter(|buffer| stopped_by_trigger(buffer)).count() as u64,
            interrupts: self.buffers.iter().map(|buffer| buffer.events().len() as u64).sum(),
            ..Encoded::default()
        })
    }

    /// Writes files of the caller in place of those of cores.
    pub(super) fn finish_with(self, files: &[(&str, &[u8])]) -> Result<(), SinkError> {
        files.iter().try_for_each(|(name, bytes)| self.put(name, bytes))?;
        Ok(self.publish().map_err(|error| at(&self.directory, &error))?)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), SinkError> {
        let path = self.unfinished.path().join(name);
        fs::write(&path, bytes).map_err(|error| at(&path, &error))?;
        Ok(())
    }

    /// Gives the complete files their names. The file that names the others is replaced last.
    fn publish(&self) -> io::Result<()> {
        let Some(replaced) = &self.replaced else { return fs::rename(self.unfinished.path(), &self.directory) };
        let names = names_in(self.unfinished.path())?;
        let others = names.iter().filter(|name| *name != SNAPSHOT);
        for name in others.chain([&OsString::from(SNAPSHOT)]) {
            fs::rename(self.unfinished.path().join(name), self.directory.join(name))?;
        }
        replaced.difference(&names).try_for_each(|name| fs::remove_file(self.directory.join(name)))
    }
}

/// Files of a capture that an encoder wrote, which may be replaced; none in an empty directory.
fn earlier_files(directory: &Path, replace: bool) -> Result<BTreeSet<OsString>, SinkError> {
    let names = names_in(directory).map_err(|error| at(directory, &error))?;
    let foreign = names.iter().find(|name| !is_ours(&name.to_string_lossy()));
    let reason = match foreign {
        _ if names.is_empty() => return Ok(names),
        Some(name) => format!("it has '{}', which is not a file of an encoded capture", name.display()),
        None if !names.contains(&OsString::from(SNAPSHOT)) => {
            format!("it has no {SNAPSHOT}, as an encoded capture has")
        }
        None if replace => return Ok(names),
        None => "it has a capture".to_string(),
    };
    let reason = format!("{}: the directory is not empty: {reason}", directory.display());
    Err(SinkError::Refused { position: None, reason })
}

fn names_in(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// Whether an encoder gives files this name.
fn is_ours(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = |start: &str, end: &str| name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    let has_number = |start, end| numbers(start, end).is_some_and(is_number);
    [SNAPSHOT, TRACE, EVENTS].contains(&name)
        || has_number("unit_", ".ini")
        || has_number("cpu_", ".ini")
        || has_number("trace_", ".bin")
        || numbers("program_", ".bin").is_some_and(|rest| rest.split('_').all(is_number))
}

/// Writes trace to the file, or to a buffer that is written at the end.
fn collect(file: &mut File, buffer: Option<&mut TraceBuffer>, bytes: &[u8]) -> io::Result<()> {
    match buffer {
        Some(buffer) => {
            buffer.push(bytes);
            Ok(())
        }
        None => file.write_all(bytes),
    }
}

fn stopped_by_trigger(buffer: &TraceBuffer) -> bool {
    buffer.events().iter().any(|(_, event)| *event == ManagementEvent::Stopped)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn buffer_file(index: usize) -> String {
    format!("trace_{index}.bin")
}

/// Writing into a string cannot fail.
macro_rules! line {
    ($text:ident, $($arguments:tt)*) => {{
        let _ = writeln!($text, $($arguments)*);
    }};
}

fn snapshot_text(cores: usize) -> String {
    let mut text = String::from("[snapshot]\nversion=1.0\n\n[device_list]\n");
    (0..cores).for_each(|core| line!(text, "device{core}=cpu_{core}.ini"));
    (0..cores).for_each(|core| line!(text, "device{}=unit_{core}.ini", cores + core));
    text.push_str("\n[trace]\nmetadata=trace.ini\n");
    text
}

fn trace_text(cores: usize, is_shared: bool, memories: &[TraceBuffer]) -> String {
    let buffers = if is_shared { 1 } else { cores };
    let names: Vec<String> = (0..buffers).map(|buffer| format!("buffer{buffer}")).collect();
    let mut text = format!("[trace_buffers]\nbuffers={}\n", names.join(","));
    let format = if is_shared { "coresight" } else { "source_data" };
    for (index, name) in names.iter().enumerate() {
        line!(text, "\n[{name}]\nname=BUFFER_{index}\nfile={}\nformat={format}", buffer_file(index));
        if let Some(oldest) = memories.get(index).and_then(TraceBuffer::oldest).filter(|oldest| *oldest > 0) {
            line!(text, "wrapped=1\nwrite_pointer={oldest:#x}");
        }
    }
    text.push_str("\n[source_buffers]\n");
    (0..cores).for_each(|core| line!(text, "UNIT_{core}=BUFFER_{}", if is_shared { 0 } else { core }));
    text.push_str("\n[core_trace_sources]\n");
    (0..cores).for_each(|core| line!(text, "cpu_{core}=UNIT_{core}"));
    text
}

fn unit_text(index: usize, core: &Core) -> String {
    let (kind, _) = core.settings.device_types();
    let mut text = format!("[device]\nname=UNIT_{index}\nclass=trace_source\ntype={kind}\n\n[regs]\n");
    core.settings.registers().iter().for_each(|(name, value)| line!(text, "{name}={value:#x}"));
    text
}

fn image_file(core: usize, number: usize) -> String {
    format!("program_{core}_{number}.bin")
}

fn core_text(index: usize, core: &Core, segments: &[(u64, Vec<u8>)]) -> String {
    let (_, kind) = core.settings.device_types();
    let mut text = format!("[device]\nname=cpu_{index}\nclass=core\ntype={kind}\n");
    if let Some((first, _)) = segments.first() {
        line!(text, "\n[regs]\nPC(size:64)={first:#x}");
    }
    for (number, (address, bytes)) in segments.iter().enumerate() {
        let file = image_file(index, number);
        line!(text, "\n[dump{}]\nfile={file}\naddress={address:#018x}\nlength={:#x}", number + 1, bytes.len());
    }
    text
}
