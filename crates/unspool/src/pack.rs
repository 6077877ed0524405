//! Packing: a capture with everything that decoding it needs, as one package.
//!
//! capture, files of this machine ─▶ **pack** ─▶ OUT.zip or OUT/
//!
//! The package has the trace, its metadata, the system events, and the images: those that events name, found as a decoder finds
//! them, and those that the user adds, where a decoder would place them. Decoding it gives the same instructions on a
//! machine without these files. It is written under a temporary name, and appears when it is complete.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use unspool_capture::perf::KernelMemory;
use unspool_capture::{
    AddedImage, Capture, Code, ImageArgument, ImageRole, Note, NoteKind, PackageFormat, PackageKind, SaveOptions, Saved,
};

use crate::placement::place_images;
use crate::program::{Generated, SpaceOptions, image_search, is_image_of};
use crate::target::{TemporaryPath, WriteError, extension};

/// Main file of a package.
const CONTENTS: &str = "contents.ini";

/// What is packed beside the capture.
#[derive(Debug, Clone, Default)]
pub struct PackOptions {
    /// Programs.
    pub images: Vec<ImageArgument>,
    /// Files with names.
    pub symbols: Vec<ImageArgument>,
    /// Memory that is not in a file, as of a kernel.
    pub memory: Vec<Code>,
    /// A copy of `/proc/kallsyms`.
    pub kernel_symbols: Option<PathBuf>,
    /// Where the files of processes are, and further events.
    pub spaces: SpaceOptions,
    /// Whether a package at the path is replaced.
    pub replace: bool,
}

/// Why a capture was not packed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The capture or an image cannot be read, or the package cannot be written.
    #[error(transparent)]
    Capture(#[from] unspool_capture::Error),
    /// The package cannot get its name.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There is something at the path.
    #[error("{}: {reason}", path.display())]
    Exists {
        /// The path of the package.
        path: PathBuf,
        /// What is there, and what to do.
        reason: String,
    },
}

/// Packs a capture: into a zip archive if the path ends in `.zip`, otherwise into a directory. `progress` is called with
/// the number of bytes of trace that were written, and their total.
///
/// The notes are those on dropped parts and on images.
///
/// # Errors
///
/// If a file cannot be read or written, or if something is at the path that must not be replaced.
pub fn pack(
    capture: &Capture,
    path: &Path,
    options: &PackOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Saved, PackError> {
    let target = PackageTarget::new(path, options.replace)?;
    let kernel = capture.kernel_memory();
    let (added, codes, mut notes) = added_images(capture, &kernel, options)?;
    notes.extend(dropped_names(capture));
    let mut search = image_search(capture, &codes, &options.spaces);
    search.kernel = search.kernel.or(kernel.symbols);
    let generated = Generated::given(&options.spaces.jitdumps, capture.clock);
    notes.extend(generated.notes.iter().cloned());
    let save = SaveOptions {
        kind: target.kind,
        events: generated.with(options.spaces.events.iter()),
        search: Some(search),
        added,
        context_format: options.spaces.context_format,
    };
    let mut saved = capture.save_with(target.unfinished.path(), &save, progress)?;
    target.publish()?;
    saved.notes.splice(..0, notes);
    Ok(saved)
}

/// The images that a user adds, without those that events place; the code of all; and notes on them.
type Added = (Vec<AddedImage>, Vec<Code>, Vec<Note>);

fn added_images(capture: &Capture, kernel: &KernelMemory, options: &PackOptions) -> Result<Added, PackError> {
    let mut notes = kernel.notes.clone();
    let mut codes = Vec::new();
    let mut roles = Vec::new();
    for (role, arguments) in [(ImageRole::Added, &options.images), (ImageRole::Symbols, &options.symbols)] {
        for image in arguments {
            let (code, more) = match role {
                ImageRole::Symbols => Code::names_from_file(&image.path, image.address)?,
                _ => Code::from_file(&image.path, image.address)?,
            };
            code.require_arm()?;
            notes.extend(more);
            roles.push((role, image, code.first_page()));
            codes.push(code);
        }
    }
    notes.extend(place_images(capture, &mut codes));
    let files = codes.iter().zip(&roles).filter(|(code, _)| !is_placed(capture, options, code));
    let mut added: Vec<AddedImage> =
        files.map(|(code, (role, image, linked))| added_image(code, *role, image, *linked, &mut notes)).collect();
    let regions = options.memory.iter().chain(&kernel.code).flat_map(|code| &code.regions);
    added.extend(regions.enumerate().map(|(index, region)| AddedImage {
        path: format!("memory_{index}.bin").into(),
        bytes: Some(region.bytes.clone()),
        address: Some(region.address),
        load_address: None,
        role: ImageRole::Added,
    }));
    let kernel_symbols = options.kernel_symbols.as_ref().or(kernel.symbols_file.as_ref());
    added.extend(kernel_symbols.map(|path| AddedImage {
        path: path.clone(),
        bytes: None,
        address: None,
        load_address: None,
        role: ImageRole::KernelSymbols,
    }));
    Ok((added, codes, notes))
}

/// A note on the functions that a recording lists, which a package has no place for.
fn dropped_names(capture: &Capture) -> Option<Note> {
    let text = "the functions that the recording lists are not stored; those of the files are".to_string();
    let file = capture.path.display().to_string();
    let note = Note { kind: NoteKind::Dropped, file, line: None, offset: None, text };
    (!capture.symbols.is_empty()).then_some(note)
}

/// An image as it is placed. `linked` is the address of its lowest page before that.
fn added_image(code: &Code, role: ImageRole, image: &ImageArgument, linked: u64, notes: &mut Vec<Note>) -> AddedImage {
    let was_moved = image.address.is_none() && code.bias != 0;
    if was_moved && code.regions.is_empty() {
        let text = format!("the address that the trace shows is not stored; add it: --symbols {}@ADDR", code.name);
        notes.push(Note { kind: NoteKind::Dropped, file: code.name.clone(), line: None, offset: None, text });
    }
    let moved = (was_moved && !code.regions.is_empty()).then(|| linked.wrapping_add(code.bias));
    let (address, load_address) = match code.raw {
        true => (image.address, None),
        false => (None, image.address.or(moved)),
    };
    AddedImage { path: image.path.clone(), bytes: None, address, load_address, role }
}

/// Whether events place an image that the user added. Then it is found as their image.
fn is_placed(capture: &Capture, options: &PackOptions, code: &Code) -> bool {
    let events = capture.events.iter().chain(&options.spaces.events);
    events.filter_map(|event| event.call.mapping()).any(|mapping| is_image_of(mapping, code))
}

/// The path of a package, and where it is until it is complete.
struct PackageTarget {
    path: PathBuf,
    kind: PackageKind,
    unfinished: TemporaryPath,
    /// Whether the path is a directory.
    is_directory: bool,
    /// What is in it.
    replaced: BTreeSet<OsString>,
}

impl PackageTarget {
    fn new(path: &Path, replace: bool) -> Result<Self, PackError> {
        let is_zip = extension(path).is_some_and(|extension| extension == "zip");
        let kind = if is_zip { PackageKind::Zip } else { PackageKind::Directory };
        let exists = |reason: &str| PackError::Exists { path: path.to_path_buf(), reason: reason.to_string() };
        let is_directory = path.is_dir();
        let mut replaced = BTreeSet::new();
        match (kind, is_directory) {
            (PackageKind::Zip, true) => return Err(exists("a directory; an archive is a file")),
            (PackageKind::Zip, false) if path.exists() && !replace => {
                return Err(exists("the file exists; use --force to replace it"));
            }
            (PackageKind::Directory, false) if path.exists() => {
                return Err(exists("a file; write to a directory, or to a file that ends in .zip"));
            }
            (PackageKind::Directory, true) => {
                replaced = names_in(path).map_err(|source| WriteError::new(path, source))?;
                check_replaced(path, &replaced, replace).map_err(|reason| exists(&reason))?;
            }
            _ => {}
        }
        // The target of a link is replaced, not the link.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        // Inside of a directory that exists: the one around it may be read-only, or on another disk.
        let beside = if is_directory { path.join("package") } else { path.clone() };
        let unfinished = TemporaryPath::beside(&beside);
        Ok(Self { path, kind, unfinished, is_directory, replaced })
    }

    /// Gives the complete package its name.
    fn publish(self) -> Result<(), WriteError> {
        let published = match self.is_directory {
            true => self.publish_inside(),
            false => fs::rename(self.unfinished.path(), &self.path),
        };
        published.map_err(|source| WriteError::new(&self.path, source))
    }

    /// Moves the files up, and those of an earlier package away. The file that names the others is moved last.
    fn publish_inside(&self) -> io::Result<()> {
        let old = TemporaryPath::beside(&self.path.join("replaced"));
        fs::create_dir(old.path())?;
        for name in &self.replaced {
            fs::rename(self.path.join(name), old.path().join(name))?;
        }
        let names = names_in(self.unfinished.path())?;
        let others = names.iter().filter(|name| *name != CONTENTS);
        for name in others.chain([&OsString::from(CONTENTS)]) {
            fs::rename(self.unfinished.path().join(name), self.path.join(name))?;
        }
        Ok(())
    }
}

/// Rejects a directory with contents, unless all of it belongs to a package that may be replaced.
fn check_replaced(path: &Path, names: &BTreeSet<OsString>, replace: bool) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let package = Capture::open(path).ok().filter(|package| package.format == PackageFormat::Package);
    let Some(package) = package else {
        return Err("the directory is not empty, and has no package".to_string());
    };
    if !replace {
        return Err("the directory has a package; use --force to replace it".to_string());
    }
    let files = package.files();
    match foreign_file(path, Path::new(""), &|name| name == CONTENTS || files.contains(name)) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(format!("it has '{name}', which is not a file of the package; remove it first")),
        Err(error) => Err(error.to_string()),
    }
}

/// The first file in a folder that is not known.
fn foreign_file(root: &Path, folder: &Path, is_known: &dyn Fn(&str) -> bool) -> io::Result<Option<String>> {
    for name in names_in(&root.join(folder))? {
        let path = folder.join(&name);
        let text = path.to_string_lossy().replace('\\', "/");
        let is_folder = fs::symlink_metadata(root.join(&path))?.is_dir();
        let found = match is_folder {
            true => foreign_file(root, &path, is_known)?,
            false => Some(text).filter(|text| !is_known(text)),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn names_in(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
}
