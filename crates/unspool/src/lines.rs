//! Source lines of addresses, from the debug information (DWARF) of the images.
//!
//! ```text
//! address ─▶ image of the Program ─▶ unit of its DWARF ─▶ rows, scopes ─▶ frames, innermost first
//!            (capture: Code)         (dwarf.rs)           (unit.rs, origins.rs)
//! ```
//!
//! Each static address is resolved once. A unit is parsed when one of its addresses is needed; `split.rs` finds the part of
//! it that is in another file (.dwo, .dwp). A separate file with debug information is found by build ID or by the name in
//! the image. An image without debug information has no lines; damaged debug information has those before the damage, and a
//! note. Knows nothing of traces. Specification: DWARF Debugging Information Format, versions 2 to 5.

mod dwarf;
mod origins;
mod split;
mod unit;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unspool_capture::{Bytes, Code, ElfSections, ImageLoader, ImageSearch, Note, NoteKind};
use unspool_flow::MapId;

use self::dwarf::DebugInfo;
use crate::Program;

/// Source lines of the addresses of programs. Can be shared between threads.
pub struct Lines {
    state: Mutex<State>,
}

/// One function that contains an address: the innermost one, or one that it was inlined into.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its name, as it is mangled; `None` if the debug information has none.
    pub function: Option<Arc<str>>,
    /// The position of the instruction; of a caller, that of the call that was inlined.
    pub position: Option<Position>,
    /// The line in which the function is declared.
    pub declared: Option<u32>,
    /// Distinguishes blocks of code of the same line, as the compiler encodes it; 0: there is nothing to distinguish.
    pub discriminator: u32,
}

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Path of the file, as the compiler recorded it.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

/// A range of addresses that comes from one source line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRange {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// The source line; `None` for code that the compiler added.
    pub position: Option<Position>,
    /// Whether a statement starts here: a debugger would stop.
    pub is_statement: bool,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({} images)", self.lock().images.len())
    }
}

/// What was loaded so far.
struct State {
    loader: ImageLoader,
    images: Vec<Image>,
    /// Indices of images by the number of their file in memory.
    known: HashMap<usize, usize>,
    /// Frames by image and link address.
    frames: HashMap<(usize, u64), Arc<[Frame]>>,
    notes: Vec<Note>,
}

/// An image whose debug information was looked for.
struct Image {
    name: String,
    /// Keeps the number of the file in use.
    _file: Bytes,
    /// The debug information, if there is any.
    debug: Option<DebugInfo>,
    is_damage_noted: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(ImageSearch::default())
    }
}

impl Lines {
    /// Source lines, with separate debug files from the folders of `search`.
    pub fn new(search: ImageSearch) -> Self {
        let (loader, images, known) = (ImageLoader::new(search), Vec::new(), HashMap::new());
        let state = State { loader, images, known, frames: HashMap::new(), notes: Vec::new() };
        Self { state: Mutex::new(state) }
    }

    /// The functions that contain an address of a map, innermost first; all but the last were inlined. Empty if nothing is
    /// known about the address.
    pub fn find(&self, program: &Program, map: MapId, address: u64) -> Arc<[Frame]> {
        let mut state = self.lock();
        let mut found = program.images_in(map, address).map(|code| state.frames_of(code, address));
        found.find(|frames| !frames.is_empty()).unwrap_or_default()
    }

    /// As [`find`](Self::find), for an address of an image.
    pub fn find_in(&self, code: &Code, address: u64) -> Arc<[Frame]> {
        self.lock().frames_of(code, address)
    }

    /// As [`find`](Self::find), for what a process executed at any time.
    pub fn find_of_process(&self, program: &Program, process: Option<u64>, address: u64) -> Arc<[Frame]> {
        let mut found = program.images_of_process(process, address).map(|code| self.find_in(code, address));
        found.find(|frames| !frames.is_empty()).unwrap_or_default()
    }

    /// The source line of an address of a map.
    pub fn position(&self, program: &Program, map: MapId, address: u64) -> Option<Position> {
        self.find(program, map, address).first()?.position.clone()
    }

    /// All lines of an image at its addresses, sorted.
    pub fn ranges(&self, code: &Code) -> Vec<LineRange> {
        let mut state = self.lock();
        let Some(index) = state.image(code) else { return Vec::new() };
        let Some(image) = state.images.get_mut(index) else { return Vec::new() };
        let mut ranges = image.debug.as_mut().map(DebugInfo::ranges).unwrap_or_default();
        for range in &mut ranges {
            (range.start, range.end) = (range.start.wrapping_add(code.bias), range.end.wrapping_add(code.bias));
        }
        state.note_damage(index);
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Notes on debug information since the last call.
    pub fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.lock().notes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn frames_of(&mut self, code: &Code, address: u64) -> Arc<[Frame]> {
        let Some(index) = self.image(code) else { return Arc::default() };
        let linked = address.wrapping_sub(code.bias);
        if let Some(known) = self.frames.get(&(index, linked)) {
            return Arc::clone(known);
        }
        let debug = self.images.get_mut(index).and_then(|image| image.debug.as_mut());
        let found: Arc<[Frame]> = debug.map(|debug| debug.frames(linked)).unwrap_or_default().into();
        self.note_damage(index);
        self.frames.insert((index, linked), Arc::clone(&found));
        found
    }

    /// The index of the image with this code; `None` if it is not an ELF file.
    fn image(&mut self, code: &Code) -> Option<usize> {
        let file = code.elf.as_ref().or(code.debug_file.as_ref())?;
        if let Some(known) = self.known.get(&file.file_id()) {
            return Some(*known);
        }
        let index = self.images.len();
        let debug = self.debug_info(code);
        self.images.push(Image { name: code.name.clone(), _file: file.clone(), debug, is_damage_noted: false });
        self.known.insert(file.file_id(), index);
        Some(index)
    }

    /// The debug information of the image itself, or of the file that has it instead.
    fn debug_info(&mut self, code: &Code) -> Option<DebugInfo> {
        let open = |file: &Bytes| DebugInfo::open(&code.name, &ElfSections::new(file)?);
        let own = code.elf.iter().chain(&code.debug_file).find_map(open);
        own.or_else(|| open(self.loader.find_debug_file(code)?.file()))
    }

    fn note_damage(&mut self, index: usize) {
        let Some(image) = self.images.get_mut(index).filter(|image| !image.is_damage_noted) else { return };
        if let Some(damage) = image.debug.as_ref().and_then(DebugInfo::damage) {
            image.is_damage_noted = true;
            let text = format!("debug information is damaged, so lines may be missing: {damage}");
            let (kind, file) = (NoteKind::Damaged, image.name.clone());
            self.notes.push(Note { kind, file, line: None, offset: None, text });
        }
    }
}
