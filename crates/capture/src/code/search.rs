//! Finding the file of a mapping: which file on this machine, or in a package, is the one that was executed.
//!
//! path and build ID of a [`Mapping`] ─▶ **search** ─▶ [`FoundImage`], or the reason why there is none
//!
//! A file with another build ID is another program, and its code would be wrong without a sign of it, so it is refused
//! unless the user insists. Each file is read once, however many mappings it has. Paths come from a trace, so they are as
//! untrusted as the rest of it: they never lead out of a sysroot or package, and only regular files are opened.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build_id::{hex, is_same_id, parse_build_id};
use super::image_file::{ImageFile, module_name};
use super::kallsyms::Kallsyms;
use super::load::{BYTE_LIMIT, note, read};
use super::{Code, Symbols};
use crate::capture::{Capture, EventImage};
use crate::error::Error;
use crate::event::{Mapping, Placement};
use crate::lookup::path_components;
use crate::note::{Note, NoteKind};

/// Maximum number of files in folders that the user gives, and depth of these folders.
const FOLDER_LIMIT: usize = 64 << 10;
const DEPTH_LIMIT: usize = 16;

/// Where to look for the files of mappings, in this order.
#[derive(Debug, Clone, Default)]
pub struct ImageSearch {
    /// Files, and folders with files at any depth. A file fits by its name, and a file that is named here also by its build ID.
    pub given: Vec<PathBuf>,
    /// Copies of the file system of the traced machine.
    pub sysroots: Vec<PathBuf>,
    /// Folders with files by build ID, such as `/usr/lib/debug` and perf's `~/.debug`.
    pub debug_dirs: Vec<PathBuf>,
    /// The folder that relative paths start from, such as that of the event log.
    pub base: Option<PathBuf>,
    /// The package whose files are searched: those that it lists for images, if it lists any, otherwise by their paths.
    pub package: Option<Capture>,
    /// Whether a file of this machine is used although its build ID is not known to be the right one.
    pub trust_this_machine: bool,
    /// Whether files are used although their build ID differs.
    pub ignore_build_ids: bool,
    /// Symbols of the kernel, which place its modules.
    pub kernel: Option<Arc<Kallsyms>>,
}

/// The files of a mapping.
#[derive(Debug, Clone)]
pub struct FoundImage {
    /// The file with the code; if there is none, a file with symbols only.
    pub file: Arc<ImageFile>,
    /// Another file with more symbols.
    pub symbols: Option<Arc<ImageFile>>,
    /// What was assumed about them.
    pub notes: Vec<Note>,
}

/// Where a file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Disk,
    Package,
}

/// Reason why a mapping has no file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageNotFound {
    /// There is no such file.
    #[error("{image}: not found: tried {}", list(tried))]
    NotFound {
        /// The path of the mapping.
        image: String,
        /// The files that were looked for, some with the reason why they cannot be used.
        tried: Vec<String>,
    },
    /// The only files have other build IDs.
    #[error("{image}: build id differs: {wanted} was executed, {file} has {found}")]
    BuildIdDiffers {
        /// The path of the mapping.
        image: String,
        /// The build ID of the mapping.
        wanted: String,
        /// The first file that was refused.
        file: String,
        /// Its build ID.
        found: String,
    },
    /// The mapping is memory that no file has.
    #[error("{image}: memory without a file")]
    NoFile {
        /// The name of the mapping.
        image: String,
    },
}

/// Loads the files of mappings, each once.
#[derive(Debug)]
pub struct ImageLoader {
    search: ImageSearch,
    /// Files below the given folders, and given files, by name.
    given: Vec<PathBuf>,
    /// Files by path; the reason if one cannot be read.
    files: HashMap<PathBuf, Result<Arc<ImageFile>, String>>,
    found: HashMap<(String, String), Result<FoundImage, ImageNotFound>>,
    /// Number of bytes that may still be read.
    left: u64,
}

/// A file that may be the one.
#[derive(Debug)]
enum Candidate {
    Path(PathBuf),
    /// A path that must not lead out of this folder.
    Below(PathBuf, PathBuf),
    Package(String),
    /// The file that a package lists for the image.
    Listed(EventImage),
    /// The file of this machine.
    Here(PathBuf),
}

/// What was refused on the way.
#[derive(Default)]
struct Tried {
    files: Vec<String>,
    differing: Option<(String, String)>,
    /// A file without code.
    symbols: Option<Arc<ImageFile>>,
}

impl ImageLoader {
    /// A loader that searches there. Lists the given folders.
    pub fn new(search: ImageSearch) -> Self {
        let mut given = Vec::new();
        search.given.iter().for_each(|path| list_files(path, 0, &mut given));
        Self { search, given, files: HashMap::new(), found: HashMap::new(), left: BYTE_LIMIT }
    }

    /// The code of a mapping at its addresses, with symbols.
    ///
    /// # Errors
    ///
    /// If no file is found for it.
    pub fn load(&mut self, mapping: &Mapping) -> Result<(Code, Vec<Note>), ImageNotFound> {
        let found = self.find(mapping)?;
        if let Some(symbol) = kernel_symbol(&mapping.image) {
            let (code, notes) = self.place_kernel(&found.file, symbol, mapping.placement);
            return Ok((code, found.notes.into_iter().chain(notes).collect()));
        }
        let (code, notes) = if found.file.is_module() {
            let (Placement::Base(address) | Placement::Part { address, .. }) = mapping.placement;
            found.file.place_module(address, &mapping.image, self.search.kernel.as_deref())
        } else {
            found.file.place(mapping.placement)
        };
        // Symbols of a module would have to be placed by section, like its code, which has them all.
        let bias = found.file.bias(mapping.placement);
        let symbols = found.symbols.as_ref().zip(bias).and_then(|(file, bias)| file.symbols_moved(bias));
        let debug_file = found.symbols.as_ref().map(|file| file.file().clone());
        let code = Code { symbols: symbols.unwrap_or_else(|| code.symbols.clone()), debug_file, ..code };
        Ok((code, found.notes.into_iter().chain(notes).collect()))
    }

    /// The code of a kernel, which may be anywhere: one symbol has to be at its address.
    ///
    /// perf writes this address instead of an offset in the file, simpleperf as that of the mapping. It is zero where the
    /// kernel hides it.
    fn place_kernel(&self, file: &ImageFile, symbol: &str, placement: Placement) -> (Code, Vec<Note>) {
        let listed = self.search.kernel.as_ref().and_then(|kernel| kernel.address_of(symbol));
        let recorded = match placement {
            Placement::Base(address) | Placement::Part { address, offset: 0, .. } => address,
            Placement::Part { offset, .. } => offset,
        };
        let address = Some(recorded).filter(|address| *address != 0).or(listed);
        let placed = address.and_then(|address| file.place_by_symbol(symbol, address));
        placed.unwrap_or_else(|| {
            let reason = if address.is_none() { "its address is hidden" } else { "the file does not have it" };
            let text = format!("the kernel is not placed: the symbol `{symbol}` is needed, and {reason}");
            let code = Code { name: file.name().to_string(), ..Code::default() };
            (code, vec![note(file.name(), NoteKind::Unplaced, &text)])
        })
    }

    /// The file of a mapping, and one with its symbols.
    ///
    /// # Errors
    ///
    /// If there is none, or only files with other build IDs.
    pub fn find(&mut self, mapping: &Mapping) -> Result<FoundImage, ImageNotFound> {
        let key = (mapping.image.clone(), mapping.build_id.clone());
        if let Some(known) = self.found.get(&key) {
            return known.clone();
        }
        let found = self.search(&mapping.image, &mapping.build_id);
        self.found.insert(key, found.clone());
        found
    }

    /// A file of the traced machine that is not an image, such as one that a JIT compiler writes.
    pub fn find_file(&mut self, path: &str) -> Option<Arc<ImageFile>> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default().to_string();
        let is_trusted = self.search.trust_this_machine;
        let candidates = self.candidates((path, ""), &[name], None).into_iter();
        let mut allowed = candidates.filter(|candidate| is_trusted || !matches!(candidate, Candidate::Here(_)));
        allowed.find_map(|candidate| self.open_candidate(&candidate).ok())
    }

    fn search(&mut self, image: &str, build_id: &str) -> Result<FoundImage, ImageNotFound> {
        let names = file_names(image).ok_or_else(|| ImageNotFound::NoFile { image: image.to_string() })?;
        let mut notes = Vec::new();
        let wanted = parse_build_id(build_id);
        if wanted.is_none() && !build_id.is_empty() {
            let text = format!("the build ID `{build_id}` is not hexadecimal and is ignored");
            notes.push(note(image, NoteKind::BadValue, &text));
        }
        let wanted = wanted.as_deref();
        let mut tried = Tried::default();
        for candidate in self.candidates((image, build_id), &names, wanted) {
            if let Some(file) = self.accept(&candidate, wanted, &mut tried, &mut notes) {
                let symbols = match &candidate {
                    Candidate::Listed(listed) => self.open_listed_symbols(listed, &mut notes),
                    _ => self.find_symbols(image, &file, wanted).or(tried.symbols),
                };
                return Ok(FoundImage { file, symbols, notes });
            }
        }
        let text = "has symbols but no code; the program itself was not found";
        match (tried.symbols, tried.differing, wanted) {
            (Some(file), ..) => {
                notes.push(note(file.name(), NoteKind::MissingFile, text));
                Ok(FoundImage { file, symbols: None, notes })
            }
            (None, Some((file, found)), Some(wanted)) => {
                let (image, wanted) = (image.to_string(), hex(wanted));
                Err(ImageNotFound::BuildIdDiffers { image, wanted, file, found })
            }
            _ => {
                // A folder may be given twice, or be that of the recording.
                let mut seen = HashSet::new();
                tried.files.retain(|file| seen.insert(file.clone()));
                Err(ImageNotFound::NotFound { image: image.to_string(), tried: tried.files })
            }
        }
    }

    fn candidates(
        &mut self,
        (image, build_id): (&str, &str),
        names: &[String],
        wanted: Option<&[u8]>,
    ) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = self.given_by_id(wanted).into_iter().map(Candidate::Path).collect();
        let named = self.given.iter().filter(|path| names.iter().any(|name| fits(path, name)));
        found.extend(named.cloned().map(Candidate::Path));
        // The path as components, which cannot lead upward.
        let inside = path_components(image.trim_start_matches(['/', '\\'])).unwrap_or_default().join("/");
        let has_path = image.contains('/');
        for root in self.search.sysroots.iter().filter(|_| has_path && !inside.is_empty()) {
            found.push(Candidate::Below(root.clone(), root.join(&inside)));
        }
        for folder in wanted.into_iter().flat_map(|id| self.by_build_id(id)) {
            let parts = ["elf", "vdso", "vmlinux", "debug"].map(|name| Candidate::Path(folder.join(name)));
            found.push(Candidate::Path(folder.clone()));
            found.extend(parts);
            found.push(Candidate::Path(with_suffix(&folder, ".debug")));
        }
        let inside = Some(inside).filter(|path| has_path && !path.is_empty());
        let listed = self.search.package.as_ref().and_then(|package| package.event_images.as_deref());
        for name in inside.iter().chain(names) {
            let below = |base: &PathBuf| Candidate::Below(base.clone(), base.join(name));
            found.extend(self.search.base.iter().map(below));
            let package = self.search.package.iter().filter(|_| listed.is_none());
            found.extend(package.map(|_| Candidate::Package(name.clone())));
        }
        let of_image = |listed: &&EventImage| listed.image == image && listed.build_id == build_id;
        found.extend(listed.unwrap_or_default().iter().find(of_image).cloned().map(Candidate::Listed));
        if Path::new(image).is_absolute() {
            found.push(Candidate::Here(PathBuf::from(image)));
        }
        found
    }

    /// The files that the user named, if they have this build ID.
    fn given_by_id(&mut self, wanted: Option<&[u8]>) -> Vec<PathBuf> {
        let Some(wanted) = wanted else { return Vec::new() };
        let files: Vec<PathBuf> = self.search.given.iter().filter(|path| path.is_file()).cloned().collect();
        let mut has_id =
            |path: &PathBuf| self.open(path).is_ok_and(|file| file.build_id().is_some_and(|id| is_same_id(id, wanted)));
        files.into_iter().filter(|path| has_id(path)).collect()
    }

    /// The names below the debug folders that a build ID stands for, without suffix.
    fn by_build_id(&self, id: &[u8]) -> Vec<PathBuf> {
        let digits = hex(id);
        let Some((first, rest)) = digits.split_at_checked(2).filter(|(_, rest)| !rest.is_empty()) else {
            return Vec::new();
        };
        let folders = self.search.debug_dirs.iter().flat_map(|folder| [folder.join(".build-id"), folder.clone()]);
        folders.map(|folder| folder.join(first).join(rest)).collect()
    }

    /// The file of a candidate, if it is the one; otherwise the reason is added.
    fn accept(
        &mut self,
        candidate: &Candidate,
        wanted: Option<&[u8]>,
        tried: &mut Tried,
        notes: &mut Vec<Note>,
    ) -> Option<Arc<ImageFile>> {
        let is_here = matches!(candidate, Candidate::Here(_));
        if is_here && wanted.is_none() && !self.search.trust_this_machine {
            tried.files.push(format!("{} (not used: its build ID is not known)", candidate.name()));
            return None;
        }
        let file = match self.open_candidate(candidate) {
            Ok(file) => file,
            Err(reason) => {
                tried.files.push(candidate.name() + &reason);
                return None;
            }
        };
        let is_listed = matches!(candidate, Candidate::Listed(_));
        let text = match (wanted, file.build_id()) {
            (None, _) => None,
            (Some(wanted), Some(found)) if is_same_id(found, wanted) => None,
            (Some(wanted), Some(found)) if self.search.ignore_build_ids || is_listed => {
                let reason = if is_listed { "as the package lists it" } else { "as requested" };
                Some(format!("has build ID {}, not {}, and is used {reason}", hex(found), hex(wanted)))
            }
            (Some(_), Some(found)) => {
                tried.differing.get_or_insert_with(|| (file.name().to_string(), hex(found)));
                return None;
            }
            (Some(_), None) if is_here && !self.search.trust_this_machine => {
                tried.files.push(format!("{} (not used: it has no build ID)", candidate.name()));
                return None;
            }
            (Some(_), None) => Some("has no build ID to compare".to_string()),
        };
        notes.extend(text.map(|text| note(file.name(), NoteKind::Assumed, &text)));
        if !file.has_code() {
            tried.symbols.get_or_insert(file);
            return None;
        }
        Some(file)
    }

    /// A file with the symbols that another file lacks: by build ID, or by the name and checksum in it.
    fn find_symbols(&mut self, image: &str, file: &ImageFile, wanted: Option<&[u8]>) -> Option<Arc<ImageFile>> {
        if !file.lacks_symbols() {
            return None;
        }
        self.find_separate(image, file, wanted)
    }

    /// The separate file with the debug information of a program that has none itself: by build ID, or by the name and
    /// checksum in the program.
    pub fn find_debug_file(&mut self, code: &Code) -> Option<Arc<ImageFile>> {
        let file = ImageFile::new(&code.name, code.elf.clone()?, None);
        self.find_separate(&code.name, &file, None)
    }

    fn find_separate(&mut self, image: &str, file: &ImageFile, wanted: Option<&[u8]>) -> Option<Arc<ImageFile>> {
        let id = file.build_id().or(wanted);
        let by_id = id.into_iter().flat_map(|id| self.by_build_id(id)).map(|name| with_suffix(&name, ".debug"));
        let by_id: Vec<PathBuf> = by_id.collect();
        let same_id =
            |found: &Arc<ImageFile>| found.build_id().zip(id).is_some_and(|(found, id)| is_same_id(found, id));
        let found = by_id.iter().find_map(|path| self.open(path).ok().filter(&same_id));
        found.or_else(|| {
            let (name, checksum) = file.debug_link().filter(|(name, _)| !name.contains(['/', '\\']))?;
            let paths = self.debug_link_paths(image, file.name(), name);
            let is_wanted = |found: &Arc<ImageFile>| crc32fast::hash(found.bytes()) == *checksum;
            paths.iter().find_map(|path| self.open(path).ok().filter(is_wanted))
        })
    }

    /// Where the file may be that another one names: beside it, and below the debug folders.
    fn debug_link_paths(&self, image: &str, file: &str, name: &str) -> Vec<PathBuf> {
        let beside = Path::new(file).parent().unwrap_or(Path::new(""));
        let inside = path_components(image.trim_start_matches(['/', '\\'])).unwrap_or_default();
        let folder: PathBuf = inside.iter().take(inside.len().saturating_sub(1)).collect();
        let below = self.search.debug_dirs.iter().flat_map(|dir| [dir.join(&folder).join(name), dir.join(name)]);
        let given = self.given.iter().filter(|path| fits(path, name)).cloned();
        [beside.join(name), beside.join(".debug").join(name)].into_iter().chain(below).chain(given).collect()
    }

    fn open_candidate(&mut self, candidate: &Candidate) -> Result<Arc<ImageFile>, String> {
        match candidate {
            Candidate::Path(path) | Candidate::Here(path) => self.open(path),
            Candidate::Below(root, path) => {
                let real = fs::canonicalize(path).map_err(|_| String::new())?;
                let root = fs::canonicalize(root).map_err(|_| String::new())?;
                if !real.starts_with(root) {
                    return Err(" (a link that leads out of the folder)".to_string());
                }
                self.open(path)
            }
            Candidate::Package(name) => self.open_in_package(name),
            Candidate::Listed(listed) => self.open_in_package(&listed.file),
        }
    }

    /// Reads a regular file, or finds it among those that were read.
    fn open(&mut self, path: &Path) -> Result<Arc<ImageFile>, String> {
        let real = fs::canonicalize(path).map_err(|_| String::new())?;
        if let Some(known) = self.files.get(&real) {
            return known.clone();
        }
        if !real.is_file() {
            return Err(if real.is_dir() { String::new() } else { " (not a regular file)".to_string() });
        }
        let opened = fs::File::open(&real).and_then(|mut file| {
            let size = file.metadata()?.len();
            read(&mut file, size, self.left)
        });
        let opened = opened.map_err(|error| format!(" ({error})")).and_then(|(bytes, cut)| {
            self.left = self.left.saturating_sub(bytes.len() as u64);
            reject_compressed(&bytes)?;
            Ok(Arc::new(ImageFile::new(&path.to_string_lossy(), bytes, cut)))
        });
        self.files.insert(real, opened.clone());
        opened
    }

    fn open_listed_symbols(&mut self, listed: &EventImage, notes: &mut Vec<Note>) -> Option<Arc<ImageFile>> {
        let name = listed.symbols.as_ref()?;
        let opened = self.open_in_package(name);
        if opened.is_err() {
            notes.push(note(name, NoteKind::MissingFile, "is listed for symbols and is not in the package"));
        }
        opened.ok()
    }

    /// Forgets files if many bytes are kept, for a caller that needs each file once.
    pub(crate) fn release(&mut self) {
        if self.left < BYTE_LIMIT / 2 {
            self.files.clear();
            self.found.clear();
            self.left = BYTE_LIMIT;
        }
    }

    fn open_in_package(&mut self, name: &str) -> Result<Arc<ImageFile>, String> {
        let Some(package) = &self.search.package else { return Err(String::new()) };
        // No path on disk is like this one.
        let key = PathBuf::from(format!("\0{name}"));
        if let Some(known) = self.files.get(&key) {
            return known.clone();
        }
        let opened = package.open_file(name).and_then(|mut file| {
            let size = file.size();
            read(&mut file, size, self.left).map_err(Error::io(name))
        });
        let opened = match opened {
            Ok((bytes, cut)) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                reject_compressed(&bytes).map(|()| Arc::new(ImageFile::new(name, bytes, cut).in_package()))
            }
            Err(Error::MissingFile { .. }) => Err(String::new()),
            Err(error) => Err(format!(" ({error})")),
        };
        self.files.insert(key, opened.clone());
        opened
    }
}

impl Candidate {
    fn name(&self) -> String {
        match self {
            Self::Path(path) | Self::Below(_, path) | Self::Here(path) => path.display().to_string(),
            Self::Package(name) | Self::Listed(EventImage { file: name, .. }) => format!("{name} in the package"),
        }
    }
}

impl ImageFile {
    /// The symbols of the file, moved by a bias.
    fn symbols_moved(&self, bias: u64) -> Option<Symbols> {
        let symbols = self.symbols()?;
        (!symbols.is_empty()).then(|| symbols.moved(bias))
    }
}

/// The names of files that an image may have; `None` if it is memory without a file.
pub(crate) fn file_names(image: &str) -> Option<Vec<String>> {
    let anonymous = ["//anon", "/memfd:", "/dev/zero", "/SYSV", "[heap]", "[stack", "[anon", "[vvar", "[vsyscall]"];
    if image.is_empty() || anonymous.iter().any(|start| image.starts_with(start)) {
        return None;
    }
    let of_kernel = image.starts_with("[kernel.") || image.starts_with("[guest.kernel.");
    Some(match image {
        "[vdso]" | "[vdso32]" => ["vdso.so", "vdso64.so", "vdso", "[vdso]"].map(String::from).to_vec(),
        _ if of_kernel => vec!["vmlinux".to_string()],
        // A module without its path.
        _ if image.starts_with('[') => vec![module_name(image) + ".ko"],
        _ => vec![image.rsplit(['/', '\\']).next().unwrap_or_default().to_string()],
    })
}

/// The symbol that a mapping of the kernel names: `_text` of `[kernel.kallsyms]_text`; `None` if it is not the kernel.
fn kernel_symbol(image: &str) -> Option<&str> {
    let is_kernel = image.starts_with("[kernel.kallsyms") || image.starts_with("[guest.kernel.kallsyms");
    let (_, symbol) = image.split_once(']').filter(|_| is_kernel)?;
    Some(if symbol.is_empty() { "_text" } else { symbol })
}

/// Whether a given file has this name. The names of modules have `-` in files and `_` in the kernel.
fn fits(path: &Path, name: &str) -> bool {
    let Some(file) = path.file_name().and_then(|file| file.to_str()) else { return false };
    let is_module = name.ends_with(".ko");
    file == name || is_module && file.ends_with(".ko") && module_name(file) == module_name(name)
}

/// Adds a file, or the files below a folder. Links to folders are not followed.
fn list_files(path: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let entries = match fs::read_dir(path) {
        Ok(entries) if depth < DEPTH_LIMIT && (depth == 0 || !path.is_symlink()) => entries,
        Ok(_) => return,
        Err(_) => return files.push(path.to_path_buf()),
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).take(FOLDER_LIMIT).collect();
    // The order of a folder is that of the file system.
    paths.sort_unstable();
    for path in paths {
        if files.len() < FOLDER_LIMIT {
            list_files(&path, depth + 1, files);
        }
    }
}

/// Refuses files that are compressed, as modules often are: their bytes are no code.
fn reject_compressed(bytes: &[u8]) -> Result<(), String> {
    let kinds: [(&[u8], &str); 3] = [(b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"\x28\xb5\x2f\xfd", "zstd")];
    match kinds.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, kind)) => Err(format!(" (compressed with {kind}; decompress it first)")),
        None => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

/// The first names, and the number of the rest.
fn list(tried: &[String]) -> String {
    /// Maximum number of names in a message.
    const SHOWN: usize = 8;
    let shown: Vec<&str> = tried.iter().take(SHOWN).map(String::as_str).collect();
    match tried.len() {
        0 => "nothing, since there is no place to look".to_string(),
        count if count > SHOWN => format!("{} and {} more", shown.join(", "), count - SHOWN),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests;
