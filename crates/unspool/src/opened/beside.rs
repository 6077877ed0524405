//! Programs beside a trace: ELF files whose name matches, so that no image has to be named.
//!
//! `run.astf` has the program `run`, `run.elf`, `run.axf` or `run.out` beside it. A capture without images has the ELF
//! files of its directory. Other files are not opened.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use unspool_capture::{Capture, Code};

/// Entries of a directory that are looked at.
const ENTRIES: usize = 64;

/// Extensions of programs.
const EXTENSIONS: [&str; 4] = ["", "elf", "axf", "out"];

/// Code of the program that a trace file is named after.
pub(super) fn of_file(path: &Path) -> Vec<Code> {
    let mut stem = path.to_path_buf();
    // `run.astf.xz` has two extensions.
    while stem.extension().is_some() {
        stem.set_extension("");
        let codes =
            load(EXTENSIONS.iter().map(|extension| stem.with_extension(extension)).filter(|beside| beside != path));
        if !codes.is_empty() {
            return codes;
        }
    }
    Vec::new()
}

/// Code in the directory of a capture that names no image.
pub(super) fn of_capture(capture: &Capture) -> Vec<Code> {
    let has_images = capture.cores.iter().any(|core| !core.images.is_empty())
        || capture.devices.iter().any(|device| !device.images.is_empty());
    if has_images {
        return Vec::new();
    }
    match fs::read_dir(&capture.path) {
        Ok(entries) => {
            let mut paths: Vec<PathBuf> =
                entries.take(ENTRIES).filter_map(Result::ok).map(|entry| entry.path()).collect();
            paths.sort_unstable();
            load(paths.into_iter())
        }
        Err(_) => of_file(&capture.path),
    }
}

fn load(paths: impl Iterator<Item = PathBuf>) -> Vec<Code> {
    // A file that cannot be read was not asked for.
    paths
        .filter(|path| is_elf(path))
        .filter_map(|path| Code::from_file(path, None).ok())
        .map(|(code, _)| code)
        .collect()
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *b"\x7fELF"
}
