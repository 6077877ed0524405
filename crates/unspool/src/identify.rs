//! What a path or a stream is: a format that can be read, or another one, with the next step for its owner.
//!
//! ```text
//! path ─▶ FileKind ─▶ directory, compressed data, magic number, text, bytes ─▶ Identity ─▶ WrongKind
//! ```
//!
//! One identification for everything that opens files, so that the same file gets the same name everywhere. Reads a
//! limited number of bytes, whatever the file claims to contain. Reads no records.

mod directory;
mod elf;
mod magic;
mod perf;
mod text;

use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::Path;

use unspool_capture::{Capture, Error};
use unspool_container::{Container, Decompressor, Input};

use crate::bare::{Sync, synchronization};
use crate::sniff::{FileKind, HEAD, beginning};

/// Name of what a path or a stream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Format, if it is one that can be read. A directory or an archive is a capture if it can be opened as one.
    pub kind: Option<FileKind>,
    /// Name with its article: `an ASTF file`, `a perf.data file with the event cs_etm//u`.
    pub what: String,
    /// Next step for its owner.
    pub next: Option<String>,
    /// Text that a user may know to be a Tarmac log all the same.
    pub may_be_log: bool,
}

/// What a caller can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wanted {
    /// A capture.
    Capture,
    /// An ASTF file, an STF file or a Tarmac log.
    TraceFile,
    /// A Tarmac log.
    Tarmac,
}

/// A file of another kind than the one that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongKind {
    /// Name in messages.
    pub name: String,
    /// What it is.
    pub found: Identity,
    /// What is needed.
    pub wanted: Wanted,
    /// Option that reads any text as a Tarmac log.
    pub log_option: Option<&'static str>,
}

impl std::error::Error for WrongKind {}

/// Depth of compressed data in compressed data that is looked into.
const DEPTH: usize = 3;

impl Identity {
    /// Identifies the file or directory at a path. A pipe is not read: see [`of`](Self::of).
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn at(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        if metadata.is_dir() {
            return directory::identify(path);
        }
        if !metadata.is_file() {
            return Ok(Self::other("neither a file nor a directory"));
        }
        let mut file = File::open(path)?;
        let start = beginning(&mut file)?;
        let is_ini = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ini"));
        match FileKind::of(&start) {
            FileKind::Capture if is_ini || start.starts_with(b"PK") => Ok(package(path, is_ini)),
            _ => Ok(Self::of_start(&start, &mut file, &path.display().to_string())),
        }
    }

    /// Identifies a stream by its first bytes. `name`: its name in the next step.
    pub fn of(start: &[u8], name: &str) -> Self {
        Self::of_start(start, &mut Cursor::new(start), name)
    }

    fn of_start(start: &[u8], file: &mut (impl Read + Seek), name: &str) -> Self {
        match FileKind::of(start) {
            FileKind::Capture if perf::is_perf(start) => perf::identify(file),
            FileKind::Capture => Self::of_bytes(start, name, DEPTH),
            kind => Self::known(kind),
        }
    }

    fn of_bytes(start: &[u8], name: &str, depth: usize) -> Self {
        if start.is_empty() {
            return Self::other("an empty file").then("check that the program that wrote it succeeded");
        }
        if let Some(container) = Container::of(start).filter(|_| depth > 0) {
            return compressed(container, start, name, depth);
        }
        let found = elf::identify(start, name).or_else(|| magic::identify(start, name));
        found.or_else(|| text::identify(start, name)).unwrap_or_else(|| unknown(start))
    }

    /// Identity of a format that can be read.
    pub fn known(kind: FileKind) -> Self {
        Self { kind: Some(kind), ..Self::other(kind.with_article()) }
    }

    fn other(what: impl Into<String>) -> Self {
        Self { kind: None, what: what.into(), next: None, may_be_log: false }
    }

    fn then(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }

    /// The refusal of a caller that needs something else.
    pub fn refused(self, name: impl Into<String>, wanted: Wanted) -> WrongKind {
        WrongKind { name: name.into(), found: self, wanted, log_option: None }
    }
}

impl WrongKind {
    /// Adds the option that reads any text as a Tarmac log.
    #[must_use]
    pub fn or_as_log(self, option: &'static str) -> Self {
        Self { log_option: Some(option), ..self }
    }
}

impl fmt::Display for WrongKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, found, wanted, log_option } = self;
        write!(f, "{name}: this is {}", found.what)?;
        if found.kind.is_some() {
            write!(f, ", not {}", wanted.with_article())?;
        }
        match (found.kind, &found.next, log_option) {
            (Some(kind), ..) => write!(f, "; {}", suggestion(kind, name)),
            (_, Some(next), _) => write!(f, "; {next}"),
            (_, None, Some(option)) if found.may_be_log => write!(f, "; use {option} to read it as a Tarmac log"),
            _ => Ok(()),
        }
    }
}

/// Identifies an archive or an ini file, which may be a capture.
fn package(path: &Path, is_ini: bool) -> Identity {
    let next = "a capture is a directory or zip archive that contains snapshot.ini or contents.ini";
    match Capture::open(path) {
        Ok(_) => Identity::known(FileKind::Capture),
        Err(Error::NotACapture { found, .. }) if is_ini => Identity::other(found).then(next),
        Err(Error::NotACapture { found, .. }) => {
            Identity::other(format!("a zip archive without a capture: {found}")).then(next)
        }
        Err(_) => Identity::other("a damaged or truncated zip archive").then("copy it again, in binary mode"),
    }
}

/// Verbs that read a kind of trace; the first one shows what is in it.
fn suggestion(kind: FileKind, name: &str) -> String {
    let (first, others) = match kind {
        FileKind::Capture => ("decode", "check, convert, diff, elements, info, packets and stats"),
        FileKind::Astf | FileKind::Stf => ("dump", "check, convert, diff, encode, info, slice and stats"),
        FileKind::Tarmac => {
            ("dump", "calls, check, convert, diff, encode, index, info, profile, slice, state and stats")
        }
    };
    format!("try 'unspool {first} {name}'; {others} read it too")
}

impl Wanted {
    fn with_article(self) -> &'static str {
        match self {
            Self::Capture => "a capture",
            Self::TraceFile => "a trace file",
            Self::Tarmac => "a Tarmac log",
        }
    }
}

/// Identifies what is compressed. ASTF is compressed after its header only, so that its readers do not decompress.
fn compressed(container: Container, start: &[u8], name: &str, depth: usize) -> Identity {
    let mut inside = Vec::new();
    if let Ok(data) = Decompressor::new(Input::new(start), container, 1) {
        // Only the beginning is there, so that reading may fail at its end.
        let _ = data.take(HEAD).read_to_end(&mut inside);
    }
    if inside.is_empty() {
        return Identity::other(format!("a damaged or empty {container} file"));
    }
    let decompress = match container {
        Container::Gzip => "gunzip",
        Container::Zstd => "unzstd",
        _ => "unxz",
    };
    let what = match FileKind::of(&inside) {
        FileKind::Capture => Identity::of_bytes(&inside, name, depth - 1).what,
        kind => kind.with_article().to_string(),
    };
    let unpack = if what.contains("tar archive") { "tar -xf" } else { decompress };
    Identity::other(format!("{container}-compressed data: {what}")).then(format!("unpack it with '{unpack} {name}'"))
}

fn unknown(start: &[u8]) -> Identity {
    let bytes: Vec<String> = start.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let protocol = "name its protocol with --protocol ete or --protocol etm4, which info, frames, packets, elements, decode, \
                    check and convert take";
    match synchronization(start) {
        _ if start.iter().all(|byte| *byte == 0) => Identity::other(format!("{} zero bytes or more", start.len())),
        Some(Sync::Raw) => {
            Identity::other("data with trace synchronization, probably the buffer of one source").then(protocol)
        }
        Some(Sync::Formatted) => {
            Identity::other("data with trace synchronization, probably a buffer in formatter frames").then(protocol)
        }
        None => {
            let (count, bytes) = (start.len(), bytes.join(" "));
            let what = format!("data of an unknown format: it starts with {bytes}, and has no trace synchronization");
            Identity::other(format!("{what} in its first {count} bytes"))
                .then(format!("if it is a bare trace buffer, {protocol}"))
        }
    }
}
