//! Directories that are not captures: what is in them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Identity, perf};
use crate::sniff::FileKind;

/// Entries that are looked at.
const ENTRIES: usize = 1000;

/// Files whose kind is detected, and of which some are named.
const FILES: usize = 32;
const NAMED: usize = 3;

/// Main files of captures.
const MAINS: [&str; 2] = ["snapshot.ini", "contents.ini"];

/// Identifies a directory.
pub(super) fn identify(path: &Path) -> io::Result<Identity> {
    let entries = fs::read_dir(path)?.take(ENTRIES).filter_map(Result::ok).map(|entry| entry.path());
    let (mut folders, mut files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|entry| entry.is_dir());
    folders.sort_unstable();
    files.sort_unstable();
    let is_main =
        |file: &PathBuf| named(file).is_some_and(|name| MAINS.iter().any(|main| name.eq_ignore_ascii_case(main)));
    if files.iter().any(is_main) {
        return Ok(Identity::known(FileKind::Capture));
    }
    if starts_with(&path.join("data"), b"PERFILE2") || starts_with(&path.join("data"), b"2ELIFREP") {
        return Ok(perf::identify(&mut File::open(path.join("data"))?));
    }
    if starts_with(&path.join("metadata"), b"/* CTF") || starts_with(&path.join("metadata"), b"\x75\xd1\x1d\x57") {
        return Ok(Identity::other("a CTF trace").then("babeltrace2 reads it; unspool reads instruction traces"));
    }
    let what = match (files.len(), folders.len()) {
        (0, 0) => "an empty directory".to_string(),
        (files, folders) => {
            format!("a directory with no {} or {} among {files} files and {folders} folders", MAINS[0], MAINS[1])
        }
    };
    Ok(Identity::other(what).then(next(&folders, &files)))
}

fn next(folders: &[PathBuf], files: &[PathBuf]) -> String {
    let is_capture = |folder: &&PathBuf| MAINS.iter().any(|main| folder.join(main).is_file());
    if let Some(folder) = folders.iter().take(FILES).find(is_capture) {
        return format!("its folder {0} is a capture: try 'unspool info {0}'", folder.display());
    }
    let is_trace = |file: &&PathBuf| !matches!(FileKind::at(file), Err(_) | Ok(FileKind::Capture));
    let traces = files.iter().take(FILES).filter(is_trace).take(NAMED);
    let names: Vec<String> = traces.map(|file| file.display().to_string()).collect();
    if !names.is_empty() {
        return format!("open the trace files in it one by one: {}", names.join(", "));
    }
    "a capture is a directory or zip archive that contains snapshot.ini or contents.ini".to_string()
}

fn named(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn starts_with(path: &Path, magic: &[u8]) -> bool {
    let mut start = Vec::new();
    let read = || File::open(path)?.take(magic.len() as u64).read_to_end(&mut start);
    path.is_file() && { read }().is_ok() && start == magic
}
