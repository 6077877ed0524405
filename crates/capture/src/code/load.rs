//! Loading: from the images that a capture lists, or a file of the command line, to code.
//!
//! Each file is read once, however often it is listed. All files of a capture together have a limit.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use super::elf::{Elf, Problem, is_elf};
use super::{Bytes, Code, Machine, Piece, Spaces, Symbols};
use crate::capture::{Capture, Image};
use crate::error::Error;
use crate::note::{At, Note, NoteKind};

/// How many bytes of images are held. Where in a file a name starts is also kept in 32 bits.
const BYTE_LIMIT: u64 = 4 << 30;

/// Images of one capture, and what is said about them. Real captures have hundreds.
const IMAGE_LIMIT: usize = 64 << 10;
const NOTE_LIMIT: usize = 1 << 10;

/// Code, and what was odd about it.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// One for each image that has bytes, the most fitting first.
    pub codes: Vec<Code>,
    /// What is missing or odd.
    pub notes: Vec<Note>,
}

impl Capture {
    /// The code that the images of the capture hold: those of this core first, then all others, since many captures
    /// list the images at one core only. What is listed twice counts once.
    ///
    /// An image with an address is a dump, whatever is in the file; one without is an ELF file, which says itself
    /// where it belongs. What cannot be had is a note, even where opening the capture already noted it.
    pub fn code(&self, core: Option<usize>) -> Loaded {
        self.code_within(core, BYTE_LIMIT)
    }

    pub(super) fn code_within(&self, core: Option<usize>, limit: u64) -> Loaded {
        let files = HashMap::new();
        let mut loader = Loader { capture: self, files, left: limit, seen: HashSet::new(), loaded: Loaded::default() };
        let own = self.cores.iter().enumerate().filter(|(index, _)| Some(*index) == core);
        let other = self.cores.iter().enumerate().filter(|(index, _)| Some(*index) != core);
        let of_cores = own.chain(other).flat_map(|(_, core)| &core.images);
        for image in of_cores.chain(self.devices.iter().flat_map(|device| &device.images)) {
            if loader.seen.len() == IMAGE_LIMIT {
                let text = format!("there are more than {IMAGE_LIMIT} images; the rest is left out");
                loader.note(&image.file, NoteKind::TooMany, text);
                break;
            }
            loader.load(image);
        }
        loader.loaded
    }
}

impl Code {
    /// The code in a file outside of any capture, and what was odd about it.
    ///
    /// An ELF file is loaded as it was linked, or with its lowest page at `address`. Any other file is a dump of the
    /// memory at `address`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or nothing says where it belongs.
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
        match Elf::read(bytes) {
            Ok(elf) => {
                problems.extend(elf.problems.iter().cloned());
                let bias = address.map_or(0, |address| elf.bias_to(address));
                return Ok(linked(name, &elf, bias, Spaces::ANY, problems));
            }
            Err(problem) => problems.push(problem),
        }
    }
    let unplaced = || {
        let reason = "not an ELF file, so it needs an address: FILE@ADDRESS".to_string();
        Error::Unusable { name: name.to_string(), reason }
    };
    let address = address.ok_or_else(unplaced)?;
    if bytes.is_empty() {
        problems.push((NoteKind::Truncated, "is empty".to_string()));
    }
    Ok(dump(name, address, bytes, Spaces::ANY, problems))
}

/// An ELF file in memory, this far from where it was linked.
fn linked(name: &str, elf: &Elf, bias: u64, spaces: Spaces, problems: &mut Vec<Problem>) -> Code {
    let place = |address: u64| address.wrapping_add(bias);
    let pieces = elf.segments.iter().filter_map(|segment| Piece::new(place(segment.address), &segment.bytes, spaces));
    let pieces: Vec<Piece> = pieces.collect();
    let total: usize = elf.segments.iter().map(|segment| segment.bytes.len()).fold(0, usize::saturating_add);
    check_end(&pieces, total, problems);
    if pieces.is_empty() {
        problems.push((NoteKind::MissingKey, "has no segment or section with code".to_string()));
    }
    described(name, elf, bias, pieces)
}

fn described(name: &str, elf: &Elf, bias: u64, pieces: Vec<Piece>) -> Code {
    Code {
        name: name.to_string(),
        raw: false,
        pieces,
        symbols: elf.symbols.moved(bias),
        build_id: elf.build_id.clone(),
        machine: Some(elf.machine),
        big_endian: elf.big_endian,
        big_endian_code: elf.big_endian_code,
    }
}

/// Bytes that stand in memory as they do in the file.
fn dump(name: &str, address: u64, bytes: &Bytes, spaces: Spaces, problems: &mut Vec<Problem>) -> Code {
    let pieces: Vec<Piece> = Piece::new(address, bytes, spaces).into_iter().collect();
    check_end(&pieces, bytes.len(), problems);
    Code {
        name: name.to_string(),
        raw: true,
        pieces,
        symbols: Symbols::default(),
        build_id: None,
        machine: None,
        big_endian: false,
        big_endian_code: false,
    }
}

fn check_end(pieces: &[Piece], expected: usize, problems: &mut Vec<Problem>) {
    let held = pieces.iter().map(|piece| piece.bytes.len()).fold(0, usize::saturating_add);
    if held < expected {
        problems.push((NoteKind::BadValue, "reaches beyond the end of the address space".to_string()));
    }
}

/// A file of the capture.
struct Opened {
    bytes: Bytes,
    elf: Option<Elf>,
}

struct Loader<'a> {
    capture: &'a Capture,
    /// `None` for what could not be read.
    files: HashMap<String, Option<Rc<Opened>>>,
    /// How many bytes may still be held.
    left: u64,
    /// File, place and spaces of each image. An image without an address is all of its file.
    seen: HashSet<(&'a str, Option<Part>, Spaces)>,
    loaded: Loaded,
}

/// Address, offset and length.
type Part = (u64, u64, Option<u64>);

impl<'a> Loader<'a> {
    fn load(&mut self, image: &'a Image) {
        let spaces = self.spaces(image);
        let part = image.address.map(|address| (address, image.offset, image.length));
        if !self.seen.insert((&image.file, part, spaces)) {
            return;
        }
        let Some(file) = self.open(&image.file) else { return };
        let mut problems = Vec::new();
        let code = match (image.address, &file.elf) {
            (Some(address), elf) => Some(listed_dump(image, address, &file.bytes, elf.as_ref(), spaces, &mut problems)),
            (None, Some(elf)) => {
                problems.extend(elf.problems.iter().cloned());
                problems.extend(foreign(elf.machine));
                problems.extend(needless(image));
                Some(linked(&image.file, elf, 0, spaces, &mut problems))
            }
            (None, None) => {
                let text = format!("cannot be read as an ELF file, and [{}] gives no address for it", image.section);
                problems.push((NoteKind::MissingKey, text));
                None
            }
        };
        self.loaded.codes.extend(code.filter(|code| !code.pieces.is_empty()));
        problems.into_iter().for_each(|(kind, text)| self.note(&image.file, kind, text));
    }

    fn spaces(&mut self, image: &Image) -> Spaces {
        let Some(name) = &image.space else { return Spaces::ANY };
        Spaces::from_name(name).unwrap_or_else(|| {
            let text = format!("[{}] is in the unknown space `{name}`; it is taken to be in all", image.section);
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
            notes.push(note(file, NoteKind::TooMany, "from here on, notes are left out"));
        }
    }
}

fn note(file: &str, kind: NoteKind, text: &str) -> Note {
    At::file(file).note(kind, text)
}

/// The part of a file that a capture says was in memory there.
///
/// Memory into which a program was loaded starts as the file of the program does. The bytes are taken as they are,
/// but what the file says about itself is true there too.
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
        let text = format!("holds only {:#x} of the bytes that [{}] speaks of", bytes.len(), image.section);
        problems.push((NoteKind::Truncated, text));
    }
    let dump = dump(&image.file, address, &bytes, spaces, problems);
    let described = elf.filter(|_| image.offset == 0).and_then(|elf| {
        let bias = elf.bias_of_dump(address)?;
        Some(described(&image.file, elf, bias, dump.pieces.clone()))
    });
    described.map_or(dump, |code| Code { raw: true, ..code })
}

fn foreign(machine: Machine) -> Option<Problem> {
    let expected = matches!(machine, Machine::AArch64 | Machine::Arm);
    (!expected).then(|| (NoteKind::WrongMachine, format!("is a program for {machine}, not for Arm")))
}

fn needless(image: &Image) -> Option<Problem> {
    let text = || format!("is an ELF file, so offset and length of [{}] are ignored", image.section);
    (image.offset != 0 || image.length.is_some()).then(|| (NoteKind::BadValue, text()))
}

/// All bytes of a file, or as many as the limit allows.
fn read(file: &mut impl Read, size: u64, limit: u64) -> io::Result<(Bytes, Option<Problem>)> {
    let mut bytes = Vec::new();
    // A hint: whoever lies about the size, or has less memory, is told by the reading.
    let _ = bytes.try_reserve_exact(usize::try_from(size.min(limit)).unwrap_or(0));
    file.take(limit).read_to_end(&mut bytes)?;
    bytes.shrink_to_fit();
    let whole = (bytes.len() as u64) < limit || file.read(&mut [0])? == 0;
    let problem = || (NoteKind::TooMany, format!("is too large; its first {:#x} bytes are used", bytes.len()));
    let problem = (!whole).then(problem);
    Ok((bytes.into(), problem))
}
