//! Opening a capture: detects the package format and finds its main file.
//!
//! directory, zip archive, ini file or recording ─▶ **open** ─▶ [`Capture`], or an error that describes what was found instead

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::capture::{Capture, PackageFormat, read_ini};
use crate::error::Error;
use crate::ini::Ini;
use crate::lookup::Lookup;
use crate::note::{Location, Note, NoteKind};
use crate::store::Store;
use crate::{clock, data_streams, log, package, perf, reconfigured, snapshot};

pub(crate) const SNAPSHOT: &str = "snapshot.ini";
pub(crate) const CONTENTS: &str = "contents.ini";

impl Capture {
    /// Opens a package: a directory or a zip archive that contains `snapshot.ini` or `contents.ini` (the snapshot
    /// takes precedence if both exist), or the path of such a file itself; or a recording of perf: a file, a directory
    /// with the file `data`, or a pipe (`-` is the standard input), which is copied to an unnamed temporary file.
    ///
    /// # Errors
    ///
    /// If there is no package at the path, or its main file cannot be read. Missing or invalid parts of the package
    /// are listed in [`Capture::notes`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            return perf::open_stream(path, &mut io::stdin().lock());
        }
        let metadata = fs::metadata(path).map_err(Error::io(path))?;
        if metadata.is_dir() {
            open_directory(path)
        } else if !metadata.is_file() {
            perf::open_stream(path, &mut File::open(path).map_err(Error::io(path))?)
        } else if starts_like_perf(path)? {
            perf::open(path)
        } else if has_extension(path, "zip") || starts_like_zip(path)? {
            open_zip(path)
        } else {
            open_ini(path)
        }
    }
}

fn open_directory(path: &Path) -> Result<Capture, Error> {
    let store = Store::Directory(path.to_path_buf());
    match main_file(&store) {
        Some((name, format)) => read(path, store, &name, format, Vec::new()),
        None => match perf::open_directory(path)? {
            Some(capture) => Ok(capture),
            None => Err(not_a_capture(path, &describe_directory(path)?)),
        },
    }
}

fn open_zip(path: &Path) -> Result<Capture, Error> {
    let (mut archive, notes) = Archive::read(path)?;
    let members = archive.len();
    let folders = archive.folders_with(&[SNAPSHOT, CONTENTS]);
    let mut names = folders.iter();
    let (folder, others) = (names.next(), names.count());
    let Some(folder) = folder else {
        return Err(not_a_capture(path, &format!("neither {SNAPSHOT} nor {CONTENTS} among {members} members")));
    };
    if others > 0 {
        let found = format!("several captures in one archive, `{folder}` and {others} more; unpack it and open one");
        return Err(not_a_capture(path, &found));
    }
    archive.enter(folder);
    let store = Store::Zip(archive);
    match main_file(&store) {
        Some((name, format)) => read(path, store, &name, format, notes),
        None => Err(not_a_capture(path, &format!("{SNAPSHOT} or {CONTENTS} exists but cannot be read"))),
    }
}

fn open_ini(path: &Path) -> Result<Capture, Error> {
    // A link that the user names is followed: the package is where the file is. Links inside a package are its own.
    let target = if path.is_symlink() { fs::canonicalize(path).map_err(Error::io(path))? } else { path.to_path_buf() };
    let path = target.as_path();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !has_extension(path, "ini") {
        return Err(not_a_capture(path, "neither a directory, nor a zip archive, nor an ini file"));
    }
    let store = Store::Directory(path.parent().map(Path::to_path_buf).unwrap_or_default());
    let ini = read_ini(&store, name).map_err(|error| failed(path, error))?;
    match format_of(name, &ini) {
        Some(format) => read(path, store, name, format, Vec::new()),
        None => Err(not_a_capture(path, "an ini file, but not the main file of a capture")),
    }
}

/// The main file of a package, spelled as it is in the package.
fn main_file(store: &Store) -> Option<(String, PackageFormat)> {
    let find = |name| match store.find(name) {
        Lookup::File { name, .. } => Some(name),
        _ => None,
    };
    let snapshot = find(SNAPSHOT).map(|name| (name, PackageFormat::Snapshot));
    snapshot.or_else(|| find(CONTENTS).map(|name| (name, PackageFormat::Package)))
}

/// The package format of a main file, by its name or else by its sections.
fn format_of(name: &str, ini: &Ini) -> Option<PackageFormat> {
    let has = |section| ini.named(section).next().is_some();
    let lists_buffers = || ini.named("trace").any(|trace| trace.entry("buffer0").is_some());
    match () {
        () if name.eq_ignore_ascii_case(SNAPSHOT) => Some(PackageFormat::Snapshot),
        () if name.eq_ignore_ascii_case(CONTENTS) || lists_buffers() => Some(PackageFormat::Package),
        () if has("snapshot") || has("device_list") => Some(PackageFormat::Snapshot),
        () => None,
    }
}

fn read(path: &Path, store: Store, main: &str, format: PackageFormat, notes: Vec<Note>) -> Result<Capture, Error> {
    let ini = read_ini(&store, main).map_err(|error| failed(&path.join(main), error))?;
    let mut capture = Capture::new(path, format, store);
    capture.notes = notes;
    capture.notes.extend(ini.notes(main));
    if ini.sections.is_empty() {
        capture.note(Location::file(main), NoteKind::MissingKey, "the file is empty");
    }
    match format {
        PackageFormat::Package => package::read(&mut capture, main, &ini),
        PackageFormat::Snapshot | PackageFormat::Bare | PackageFormat::Perf => snapshot::read(&mut capture, main, &ini),
    }
    log::load(&mut capture);
    clock::check(&mut capture, main);
    reconfigured::apply(&mut capture);
    data_streams::add(&mut capture);
    if capture.sources.is_empty() && !capture.buffers.is_empty() {
        capture.note(Location::file(main), NoteKind::MissingKey, "no trace source is described");
    }
    Ok(capture)
}

/// Turns a main file that is not an ini file into "not a capture".
fn failed(path: &Path, error: Error) -> Error {
    match error {
        Error::Unusable { reason, .. } => not_a_capture(path, &reason),
        error => error,
    }
}

fn describe_directory(path: &Path) -> Result<String, Error> {
    let entries: Vec<PathBuf> =
        fs::read_dir(path).map_err(Error::io(path))?.filter_map(Result::ok).map(|entry| entry.path()).collect();
    let folders = entries.iter().filter(|entry| entry.is_dir()).count();
    Ok(match entries.len() {
        0 => "an empty directory".to_string(),
        all => format!("no {SNAPSHOT} or {CONTENTS} among {} files and {folders} folders", all - folders),
    })
}

fn not_a_capture(path: &Path, found: &str) -> Error {
    Error::NotACapture { path: path.to_path_buf(), found: found.to_string() }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn starts_like_zip(path: &Path) -> Result<bool, Error> {
    let start = start(path)?;
    Ok(start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06"))
}

fn starts_like_perf(path: &Path) -> Result<bool, Error> {
    Ok(perf::is_perf(&start(path)?))
}

/// The first bytes of a file.
fn start(path: &Path) -> Result<Vec<u8>, Error> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(Error::io(path))?;
    file.take(8).read_to_end(&mut start).map_err(Error::io(path))?;
    Ok(start)
}
