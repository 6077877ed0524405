//! Loading code from the images of a capture or from a file of the command line.
//!
//! Each file is read once, even if it is listed several times. The total size of all files of a capture is limited.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use super::elf::{Elf, Problem, is_elf};
use super::kallsyms::Kallsyms;
use super::names::names;
use super::{Bytes, Code, Machine, Region, Spaces, relocatable};
use crate::capture::{Capture, Image, ImageRole};
use crate::error::Error;
use crate::note::{Location, Note, NoteKind};

/// Maximum total size of images. Also keeps the offsets of symbol names within 32 bits.
pub(super) const BYTE_LIMIT: u64 = 4 << 30;

/// Maximum number of images of one capture, and of notes about them. Real captures have hundreds.
const IMAGE_LIMIT: usize = 64 << 10;
const NOTE_LIMIT: usize = 1 << 10;

/// The code of a capture.
#[derive(Debug, Clone, Default)]
pub struct LoadedCode {
    /// One for each image that has bytes or names. Those that a user added come first, then those of the requested core.
    pub codes: Vec<Code>,
    /// Number of those that a user added.
    pub added: usize,
    /// Number of those of the requested core.
    pub of_core: usize,
    /// Missing or invalid images.
    pub notes: Vec<Note>,
}

impl Capture {
    /// The code in the images of the capture: those that a user added, those of this core, then all others, since many
    /// captures list the images of only one core. Images that are listed twice are loaded once.
    ///
    /// An image with an address is a dump, whatever the file contains; an image without one must be an ELF file. What a
    /// user added is read as [`Code::from_file`] and [`Code::names_from_file`] read it.
    /// Images that cannot be loaded are noted, even if opening the capture already noted them.
    pub fn code(&self, core: Option<usize>) -> LoadedCode {
        self.code_within(core, BYTE_LIMIT)
    }

    pub(super) fn code_within(&self, core: Option<usize>, limit: u64) -> LoadedCode {
        let files = HashMap::new();
        let mut loader =
            Loader { capture: self, files, left: limit, seen: HashSet::new(), loaded: LoadedCode::default() };
        let own = self.cores.iter().enumerate().filter(|(index, _)| Some(*index) == core);
        let other = self.cores.iter().enumerate().filter(|(index, _)| Some(*index) != core);
        let own = own.flat_map(|(_, core)| &core.images);
        let of_devices = self.devices.iter().flat_map(|device| &device.images);
        let others = other.flat_map(|(_, core)| &core.images).chain(of_devices);
        let is_memory = |image: &&Image| image.role == ImageRole::Memory;
        let added =
            own.clone().chain(others.clone()).filter(|image| !is_memory(image)).map(|image| (image, Some(false)));
        let own = own.filter(is_memory).map(|image| (image, Some(true)));
        let others = others.filter(is_memory).map(|image| (image, None));
        for (image, is_own) in added.chain(own).chain(others) {
            if loader.seen.len() == IMAGE_LIMIT {
                let text = format!("more than {IMAGE_LIMIT} images; the rest are ignored");
                loader.note(&image.file, NoteKind::TooMany, text);
                break;
            }
            loader.load(image);
            let LoadedCode { codes, added, of_core, .. } = &mut loader.loaded;
            match is_own {
                Some(false) => *added = codes.len(),
                Some(true) => *of_core = codes.len() - *added,
                None => {}
            }
        }
        loader.loaded
    }
}

impl Capture {
    /// The symbols of the kernel, if a package has them.
    pub fn kernel_symbols(&self) -> Option<Kallsyms> {
        let mut images = self.cores.iter().flat_map(|core| &core.images);
        let image = images.find(|image| image.role == ImageRole::KernelSymbols)?;
        Some(Kallsyms::parse(&image.file, self.read_file(&image.file, BYTE_LIMIT).ok()?))
    }
}

impl Code {
    /// The code in a file outside any capture, and notes about problems in it.
    ///
    /// An ELF file is loaded as it was linked, or with its lowest page at `address`. An object file for AArch64 is placed
    /// like a kernel module, with its `.text` section at `address`. Any other file is a dump of the memory at `address`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or its address is unknown.
    pub fn from_file(path: impl AsRef<Path>, address: Option<u64>) -> Result<(Self, Vec<Note>), Error> {
        let path = path.as_ref();
        let name = path.to_string_lossy().into_owned();
        let mut file = File::open(path).map_err(Error::io(path))?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let (bytes, cut) = read(&mut file, size, BYTE_LIMIT).map_err(Error::io(path))?;
        let mut problems: Vec<Problem> = cut.into_iter().collect();
        let code = from_bytes(&name, &bytes, address, &mut problems)?;
        let notes = problems.into_iter().map(|(kind, text)| note(&name, kind, &text)).collect();
        Ok((code, notes))
    }
}

pub(super) fn from_bytes(
    name: &str,
    bytes: &Bytes,
    address: Option<u64>,
    problems: &mut Vec<Problem>,
) -> Result<Code, Error> {
    if is_elf(bytes) {
        match (Elf::read(bytes), address) {
            // The branches of an object file lead nowhere before it is placed.
            (Ok(elf), Some(address)) if elf.is_relocatable && elf.machine == Machine::AArch64 => {
                return Ok(relocatable::place(name, bytes, &elf, address, name, None, problems));
            }
            (Ok(elf), address) => {
                problems.extend(elf.problems.iter().cloned());
                let bias = address.map_or(0, |address| elf.bias_to(address));
                let code = load_elf(name, &elf, bias, Spaces::ANY, problems);
                return Ok(Code { is_unplaced: elf.is_dynamic && address.is_none(), ..code });
            }
            (Err(problem), _) => problems.push(problem),
        }
    }
    let no_address = || {
        let reason = "not an ELF file, so it needs an address: FILE@ADDRESS".to_string();
        Error::Unusable { name: name.to_string(), reason }
    };
    let address = address.ok_or_else(no_address)?;
    if bytes.is_empty() {
        problems.push((NoteKind::Truncated, "is empty".to_string()));
    }
    Ok(load_dump(name, address, bytes, Spaces::ANY, problems))
}

/// The code of an ELF file, moved by `bias` from its link address.
pub(super) fn load_elf(name: &str, elf: &Elf, bias: u64, spaces: Spaces, problems: &mut Vec<Problem>) -> Code {
    let moved = |address: u64| address.wrapping_add(bias);
    let regions = elf.segments.iter().filter_map(|segment| Region::new(moved(segment.address), &segment.bytes, spaces));
    let regions: Vec<Region> = regions.collect();
    let total: usize = elf.segments.iter().map(|segment| segment.bytes.len()).fold(0, usize::saturating_add);
    check_end(&regions, total, problems);
    if regions.is_empty() {
        let text = match elf.is_debug_file {
            true => "has symbols but no code: it is the separate symbol file of a program",
            false => "has no segment or section with code",
        };
        problems.push((NoteKind::MissingKey, text.to_string()));
    }
    elf.code(name, bias, regions)
}

/// The code of a memory dump.
pub(super) fn load_dump(name: &str, address: u64, bytes: &Bytes, spaces: Spaces, problems: &mut Vec<Problem>) -> Code {
    let regions: Vec<Region> = Region::new(address, bytes, spaces).into_iter().collect();
    check_end(&regions, bytes.len(), problems);
    Code { name: name.to_string(), raw: true, regions, ..Code::default() }
}

pub(super) fn check_end(regions: &[Region], expected: usize, problems: &mut Vec<Problem>) {
    let held = regions.iter().map(|region| region.bytes.len()).fold(0, usize::saturating_add);
    if held < expected {
        problems.push((NoteKind::BadValue, "extends past the end of the address space".to_string()));
    }
}

/// A file of the capture.
struct Opened {
    bytes: Bytes,
    elf: Option<Elf>,
}

struct Loader<'a> {
    capture: &'a Capture,
    /// `None` for files that could not be read.
    files: HashMap<String, Option<Rc<Opened>>>,
    /// Number of bytes that may still be loaded.
    left: u64,
    /// File, part and spaces of each image. An image without an address is its whole file.
    seen: HashSet<(&'a str, Option<Part>, Spaces, ImageRole)>,
    loaded: LoadedCode,
}

/// Address, offset and length.
type Part = (u64, u64, Option<u64>);

impl<'a> Loader<'a> {
    fn load(&mut self, image: &'a Image) {
        let spaces = self.spaces(image);
        let address = image.address.or(image.load_address);
        let part = address.map(|address| (address, image.offset, image.length));
        if !self.seen.insert((&image.file, part, spaces, image.role)) {
            return;
        }
        if image.role != ImageRole::Memory {
            return self.load_added(image);
        }
        let Some(file) = self.open(&image.file) else { return };
        let mut problems = Vec::new();
        let code = match (image.address, &file.elf) {
            (Some(address), elf) => Some(listed_dump(image, address, &file.bytes, elf.as_ref(), spaces, &mut problems)),
            (None, Some(elf)) => {
                problems.extend(elf.problems.iter().cloned());
                problems.extend(wrong_machine(elf.machine));
                problems.extend(ignored_range(image));
                Some(load_elf(&image.file, elf, 0, spaces, &mut problems))
            }
            (None, None) => {
                let text = format!("cannot be read as an ELF file, and [{}] has no address", image.section);
                problems.push((NoteKind::MissingKey, text));
                None
            }
        };
        self.loaded.codes.extend(code.filter(|code| !code.regions.is_empty()));
        problems.into_iter().for_each(|(kind, text)| self.note(&image.file, kind, text));
    }

    /// Loads what a user added. One whose address was not found is not looked for again.
    fn load_added(&mut self, image: &Image) {
        let Some(file) = self.open(&image.file) else { return };
        let address = image.address.or(image.load_address);
        let mut problems = Vec::new();
        let loaded = match image.role {
            ImageRole::Symbols | ImageRole::KernelSymbols => {
                names(&image.file, &file.bytes, address).map(|(code, notes)| {
                    problems.extend(notes.into_iter().map(|note| (note.kind, note.text)));
                    code
                })
            }
            _ => from_bytes(&image.file, &file.bytes, address, &mut problems),
        };
        match loaded {
            Ok(code) => self.loaded.codes.push(Code { is_unplaced: false, ..code }),
            Err(error) => problems.push((NoteKind::Unreadable, format!("cannot be loaded: {error}"))),
        }
        problems.into_iter().for_each(|(kind, text)| self.note(&image.file, kind, text));
    }

    fn spaces(&mut self, image: &Image) -> Spaces {
        let Some(name) = &image.space else { return Spaces::ANY };
        Spaces::from_name(name).unwrap_or_else(|| {
            let text = format!("[{}] has the unknown memory space `{name}`; all are assumed", image.section);
            self.note(&image.file, NoteKind::UnknownName, text);
            Spaces::ANY
        })
    }

    fn open(&mut self, name: &str) -> Option<Rc<Opened>> {
        if let Some(known) = self.files.get(name) {
            return known.clone();
        }
        let opened = self.read(name).map(Rc::new);
        self.files.insert(name.to_string(), opened.clone());
        opened
    }

    fn read(&mut self, name: &str) -> Option<Opened> {
        let read = self.capture.open_file(name).and_then(|mut file| {
            let size = file.size();
            read(&mut file, size, self.left).map_err(Error::io(name))
        });
        let (bytes, cut) = match read {
            Ok(read) => read,
            Err(error) => {
                let missing = matches!(error, Error::MissingFile { .. });
                let kind = if missing { NoteKind::MissingFile } else { NoteKind::Unreadable };
                self.note(name, kind, format!("cannot be loaded: {error}"));
                return None;
            }
        };
        self.left = self.left.saturating_sub(bytes.len() as u64);
        cut.into_iter().for_each(|(kind, text)| self.note(name, kind, text));
        let elf = is_elf(&bytes).then(|| Elf::read(&bytes));
        // A dump may start like ELF and be something else; if it has no address, that is noted.
        Some(Opened { bytes, elf: elf.and_then(Result::ok) })
    }

    fn note(&mut self, file: &str, kind: NoteKind, text: impl AsRef<str>) {
        let notes = &mut self.loaded.notes;
        if notes.len() < NOTE_LIMIT {
            notes.push(note(file, kind, text.as_ref()));
        } else if notes.len() == NOTE_LIMIT {
            notes.push(note(file, NoteKind::TooMany, "further notes are omitted"));
        }
    }
}

pub(super) fn note(file: &str, kind: NoteKind, text: &str) -> Note {
    Location::file(file).note(kind, text)
}

/// The code of an image with an address.
///
/// A dump of memory into which a program was loaded starts like the file of the program. Its bytes are used as they
/// are, but the symbols and properties in the ELF headers apply to them.
fn listed_dump(
    image: &Image,
    address: u64,
    file: &Bytes,
    elf: Option<&Elf>,
    spaces: Spaces,
    problems: &mut Vec<Problem>,
) -> Code {
    let bytes = file.part(image.offset, image.length.unwrap_or(u64::MAX));
    if bytes.is_empty() || image.length.is_some_and(|length| length > bytes.len() as u64) {
        let text = format!("contains only {:#x} of the bytes of [{}]", bytes.len(), image.section);
        problems.push((NoteKind::Truncated, text));
    }
    let dump = load_dump(&image.file, address, &bytes, spaces, problems);
    let with_elf = elf.filter(|_| image.offset == 0).and_then(|elf| {
        let bias = elf.bias_of_dump(address)?;
        Some(elf.code(&image.file, bias, dump.regions.clone()))
    });
    with_elf.map_or(dump, |code| Code { raw: true, ..code })
}

fn wrong_machine(machine: Machine) -> Option<Problem> {
    let expected = matches!(machine, Machine::AArch64 | Machine::Arm);
    (!expected).then(|| (NoteKind::WrongMachine, format!("is a program for {machine}, not for Arm")))
}

fn ignored_range(image: &Image) -> Option<Problem> {
    let text = || format!("is an ELF file, so offset and length of [{}] are ignored", image.section);
    (image.offset != 0 || image.length.is_some()).then(|| (NoteKind::BadValue, text()))
}

/// All bytes of a file, or as many as the limit allows.
pub(super) fn read(file: &mut impl Read, size: u64, limit: u64) -> io::Result<(Bytes, Option<Problem>)> {
    let mut bytes = Vec::new();
    // Only a hint: if the size is wrong or memory is short, reading reports the error.
    let _ = bytes.try_reserve_exact(usize::try_from(size.min(limit)).unwrap_or(0));
    file.take(limit).read_to_end(&mut bytes)?;
    bytes.shrink_to_fit();
    let is_whole = (bytes.len() as u64) < limit || file.read(&mut [0])? == 0;
    let problem = || (NoteKind::TooMany, format!("is too large; its first {:#x} bytes are used", bytes.len()));
    let problem = (!is_whole).then(problem);
    Ok((bytes.into(), problem))
}
