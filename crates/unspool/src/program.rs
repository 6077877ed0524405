//! The program that ran: all known code, by address and space, and its symbols.
//!
//! Takes the images of a capture, and images that a user adds; produces code for decoding and names for listings. Where
//! images overlap, those of the user take precedence over those of the capture, those that a user added to a package over
//! its others, and those of the traced core over those of other cores. A memory dump takes precedence over ELF files after it, since it may be a patch. Any other overlap with
//! different bytes is ambiguous: one of the images is that of another process, and nothing says which.

mod address_spaces;
mod context_registers;
mod generated;
mod moment;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use unspool_capture::{Capture, Code, ImageNotFound, Note, Pid, Region, Symbol};
use unspool_coresight::FlowRules;
use unspool_flow::{CodeMemory, KnownCode, MapId, Space};

pub use self::address_spaces::SpaceOptions;
use self::address_spaces::{AddressSpaces, Found};
pub(crate) use self::address_spaces::{image_search, is_image_of};
pub(crate) use self::generated::Generated;
pub(crate) use self::moment::{Changes, Moment, Moments};
use crate::demangle::is_demangled;
use crate::placement::place_images;
use crate::{Error, Trace};

/// Code of a program, and its symbols.
#[derive(Debug, Default)]
pub struct Program {
    codes: Vec<Code>,
    /// Number of images in each group: added by the user, added to the package, of the traced core, others.
    groups: [usize; 4],
    /// View of each space, computed on first use.
    views: [OnceLock<View>; 20],
    /// Code that differs between processes, or changes.
    spaces: Option<AddressSpaces>,
    /// What finished walks decoded, for those that follow.
    known: Mutex<Vec<KnownCode>>,
}

/// Number of bytes of images that are compared at once.
const LINE: usize = 64;

/// Memory ranges by first address, without overlaps.
type View = BTreeMap<u64, MemoryRange>;

#[derive(Debug, Clone, Copy)]
struct MemoryRange {
    last: u64,
    /// Indices of the code and of its region that hold the bytes.
    code: usize,
    region: usize,
    /// Another image has other bytes here.
    is_ambiguous: bool,
}

impl Program {
    /// Makes a program of several images.
    pub fn new(codes: Vec<Code>) -> Self {
        Self { groups: [codes.len(), 0, 0, 0], codes, ..Self::default() }
    }

    /// Images that a user added, then those of a capture as the given core sees them. Notes list missing and odd files,
    /// and the load addresses of [placed](place_images) images.
    pub fn of(capture: &Capture, core: Option<usize>, added: &[Code]) -> (Self, Vec<Note>) {
        Self::with_spaces(capture, core, added, &SpaceOptions::default())
    }

    /// As [`of`](Self::of), with a choice of where to find the files of processes.
    pub fn with_spaces(
        capture: &Capture,
        core: Option<usize>,
        added: &[Code],
        options: &SpaceOptions,
    ) -> (Self, Vec<Note>) {
        let kernel = capture.kernel_memory();
        let spaces = AddressSpaces::new(capture, added, options, &kernel);
        let is_static = |code: &&Code| spaces.as_ref().is_none_or(|spaces| !spaces.places(code));
        let mut codes: Vec<Code> = added.iter().filter(is_static).cloned().collect();
        let mut notes = place_images(capture, &mut codes);
        let loaded = capture.code(core);
        let others = loaded.codes.len() - loaded.added - loaded.of_core + usize::from(kernel.code.is_some());
        let groups = [codes.len(), loaded.added, loaded.of_core, others];
        codes.extend(loaded.codes);
        codes.extend(kernel.code);
        notes.extend(loaded.notes.into_iter().chain(kernel.notes));
        (Self { codes, groups, spaces, ..Self::default() }, notes)
    }

    /// All images.
    pub fn codes(&self) -> &[Code] {
        &self.codes
    }

    /// Is no code known, in no process?
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty() && self.spaces.is_none()
    }

    /// Function at an address of a map, and the offset in it.
    pub fn symbol_in(&self, map: MapId, address: u64) -> Option<(&str, u64)> {
        let of_space = self.spaces.as_ref().filter(|_| map != MapId::ONLY);
        of_space.and_then(|spaces| spaces.symbol(map, address)).or_else(|| self.symbol(address))
    }

    /// Function at an address of a process that was decoded, in any version of its memory, and the offset in it.
    pub fn symbol_of(&self, process: Option<u64>, address: u64) -> Option<(&str, u64)> {
        let process = process.and_then(|process| Pid::try_from(process).ok());
        let of_space = self.spaces.as_ref().and_then(|spaces| spaces.symbol_of(process, address));
        of_space.or_else(|| self.symbol(address))
    }

    /// The process of a map, if events of the capture name it. The kernel is process 0.
    pub fn process_of(&self, map: MapId) -> Option<Pid> {
        self.spaces.as_ref()?.process_of(map)
    }

    /// Whether system events of the capture name processes.
    pub fn has_processes(&self) -> bool {
        self.spaces.is_some()
    }

    /// The processes whose program has this file name, or this path.
    pub fn processes_named(&self, name: &str) -> Vec<Pid> {
        self.spaces.as_ref().map(|spaces| spaces.processes_named(name)).unwrap_or_default()
    }

    /// Does a map stand for several versions of the memory of its process, between which code is removed or replaced?
    /// These events came before or after any instruction in the map; an address has code where all versions agree.
    pub fn is_changing(&self, map: MapId) -> bool {
        self.spaces.as_ref().is_some_and(|spaces| spaces.is_changing(map))
    }

    /// Files of processes that were executed and not found, each with the reason.
    pub fn missing_images(&self) -> BTreeMap<String, ImageNotFound> {
        self.spaces.as_ref().map(AddressSpaces::missing).unwrap_or_default()
    }

    /// Name of the image at an address: the one that events place there, found or not, or that whose code is used.
    pub fn image_at(&self, address: u64, space: Space) -> Option<&str> {
        let of_space = self.spaces.as_ref().filter(|_| space.map != MapId::ONLY);
        let placed = of_space.and_then(|spaces| spaces.image(space.map, address));
        placed.or_else(|| Some(self.codes.get(self.range_of(address, space)?.code)?.name.as_str()))
    }

    /// The images that may describe an address of a map: that which events place there, then those of all processes that have
    /// the address, then files with names only.
    pub fn images_in(&self, map: MapId, address: u64) -> impl Iterator<Item = &Code> {
        let of_space = self.spaces.as_ref().filter(|_| map != MapId::ONLY);
        let placed = of_space.and_then(|spaces| spaces.code_at(map, address));
        let has_code = move |code: &&Code| code.starting_at(address).is_some();
        let names = self.codes.iter().filter(|code| code.regions.is_empty());
        placed.into_iter().chain(self.codes.iter().filter(has_code)).chain(names)
    }

    /// As [`images_in`](Self::images_in), for what a process executed at any time: in its own memory, or in the kernel.
    pub fn images_of_process(&self, process: Option<u64>, address: u64) -> impl Iterator<Item = &Code> {
        let process = process.and_then(|process| Pid::try_from(process).ok());
        let placed = self.spaces.as_ref().and_then(|spaces| spaces.code_of_process(process, address));
        placed.into_iter().chain(self.images_in(MapId::ONLY, address))
    }

    /// Notes since the last call: what was assumed about processes, and problems of their files.
    pub fn take_notes(&self) -> Vec<Note> {
        self.spaces.as_ref().map(AddressSpaces::take_notes).unwrap_or_default()
    }

    /// Function at an address of the images that all processes have, and the offset in it.
    pub fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        self.codes.iter().find_map(|code| code.symbols.find(address))
    }

    /// Address ranges of the functions of this name whose size is known. The name is that of the symbol table; if no symbol
    /// has it, the readable name of C++ and Rust functions, with or without parameters.
    pub fn functions<'p>(&'p self, name: &'p str) -> impl Iterator<Item = Range<u64>> + 'p {
        let is_exact = self.sized_symbols().any(|symbol| symbol.name == name);
        let is_named = move |symbol: &Symbol<'_>| match is_exact {
            true => symbol.name == name,
            false => is_demangled(symbol.name, name),
        };
        let named = self.sized_symbols().filter(is_named);
        named.map(|symbol| symbol.address..symbol.address.saturating_add(symbol.size))
    }

    fn sized_symbols(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.codes.iter().flat_map(|code| code.symbols.iter()).filter(|symbol| symbol.size > 0)
    }

    /// Finds out what context identifiers contain, from this trace on. Otherwise the first trace that is decoded decides,
    /// which on several threads could be any.
    pub fn prepare(&self, trace: &Trace<'_>) -> Result<(), Error> {
        moment::prepare(self, trace)
    }

    /// The moments of a trace: where its code changes.
    pub(crate) fn moments(&self, trace: &Trace<'_>) -> Result<Moments<'_>, Error> {
        Moments::of(self, trace)
    }

    /// Code that an earlier walk with these rules decoded, or none. A trace of many short buffers decodes code once.
    pub(crate) fn take_known(&self, rules: FlowRules) -> KnownCode {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let index = known.iter().position(|code| code.rules() == rules);
        index.map_or_else(|| KnownCode::new(rules), |index| known.swap_remove(index))
    }

    /// Keeps what a walk decoded.
    pub(crate) fn keep_known(&self, code: KnownCode) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).push(code);
    }

    fn view(&self, space: Space) -> &View {
        let security = space.security as usize;
        // The fifth view of a state is that of an unknown level.
        self.views[security * 5 + usize::from(space.el.min(4))].get_or_init(|| self.seen_from(space))
    }

    fn seen_from(&self, space: Space) -> View {
        let mut view = View::new();
        for (code, regions) in self.codes.iter().map(|code| &code.regions).enumerate() {
            for (region, found) in regions.iter().enumerate() {
                if found.spaces.contains(space.security, space.el) {
                    self.add(&mut view, found, code, region);
                }
            }
        }
        view
    }

    /// Adds the parts of the region that are not covered yet, and marks those that contradict it.
    fn add(&self, view: &mut View, found: &Region, code: usize, region: usize) {
        let last = found.last();
        let mut next = Some(found.address);
        while let Some(start) = next.filter(|start| *start <= last) {
            next = match covering(view, start) {
                Some((first, range)) => {
                    let until = range.last.min(last);
                    let mut first = first;
                    for (from, to) in self.contradictions(range, code, start, until) {
                        mark(view, first, from, to);
                        first = to.saturating_add(1);
                    }
                    until.checked_add(1)
                }
                None => {
                    let next = view.range(start..=last).next().map(|(&next, _)| next);
                    let until = next.map_or(last, |next| next - 1);
                    view.insert(start, MemoryRange { last: until, code, region, is_ambiguous: false });
                    until.checked_add(1)
                }
            };
        }
    }

    /// The parts of a range, between two addresses, where an image has other bytes, without a reason to prefer one of them.
    fn contradictions(&self, range: MemoryRange, code: usize, start: u64, last: u64) -> Vec<(u64, u64)> {
        let [Some(known), Some(other)] = [range.code, code].map(|code| self.codes.get(code)) else { return Vec::new() };
        let is_patch = known.raw && !other.raw;
        if range.code == code || self.group_of(range.code) != self.group_of(code) || is_patch {
            return Vec::new();
        }
        let [known, other] = [range.code, code].map(|code| self.bytes(code, start, last).unwrap_or_default());
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for (index, (known, other)) in known.chunks(LINE).zip(other.chunks(LINE)).enumerate() {
            if known != other {
                let from = start + (index * LINE) as u64;
                let to = from + known.len() as u64 - 1;
                match parts.last_mut() {
                    Some(part) if part.1 + 1 == from => part.1 = to,
                    _ => parts.push((from, to)),
                }
            }
        }
        parts
    }

    fn group_of(&self, code: usize) -> usize {
        let ends = self.groups.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        ends.take_while(|end| code >= *end).count()
    }

    /// Bytes of an image from one address to another, if one of its regions has them all.
    fn bytes(&self, code: usize, start: u64, last: u64) -> Option<&[u8]> {
        let length = usize::try_from(last - start).ok()?.checked_add(1)?;
        self.codes.get(code)?.regions.iter().find_map(|region| region.starting_at(start)?.get(..length))
    }

    /// The range of an address, in the view of a space.
    fn range_of(&self, address: u64, space: Space) -> Option<MemoryRange> {
        covering(self.view(space), address).map(|(_, range)| range)
    }
}

/// The range that contains an address, and its first address.
fn covering(view: &View, address: u64) -> Option<(u64, MemoryRange)> {
    let (&first, &range) = view.range(..=address).next_back()?;
    (range.last >= address).then_some((first, range))
}

/// Marks a part of a range as ambiguous.
fn mark(view: &mut View, first: u64, start: u64, until: u64) {
    let Some(range) = view.remove(&first) else { return };
    if first < start {
        view.insert(first, MemoryRange { last: start - 1, ..range });
    }
    view.insert(start, MemoryRange { last: until, is_ambiguous: true, ..range });
    if until < range.last {
        view.insert(until + 1, range);
    }
}

impl CodeMemory for Program {
    fn read<'b>(&'b self, address: u64, space: Space, _buffer: &'b mut [u8]) -> &'b [u8] {
        match self.find_in_spaces(address, space) {
            Found::Bytes(bytes) => bytes,
            Found::Ambiguous => &[],
            // A dump of memory may have what the file would have.
            Found::Missing => self.read_static(address, space),
            Found::Absent(left) => {
                let bytes = self.read_static(address, space);
                &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))]
            }
        }
    }

    fn is_ambiguous(&self, address: u64, space: Space) -> bool {
        match self.find_in_spaces(address, space) {
            Found::Bytes(_) => false,
            Found::Ambiguous => true,
            Found::Missing | Found::Absent(_) => self.range_of(address, space).is_some_and(|range| range.is_ambiguous),
        }
    }
}

impl Program {
    fn find_in_spaces(&self, address: u64, space: Space) -> Found<'_> {
        let spaces = self.spaces.as_ref().filter(|_| space.map != MapId::ONLY);
        spaces.map_or(Found::Absent(u64::MAX), |spaces| spaces.find(space.map, address))
    }

    /// Code of the images that all processes have.
    fn read_static(&self, address: u64, space: Space) -> &[u8] {
        let Some(range) = self.range_of(address, space).filter(|range| !range.is_ambiguous) else { return &[] };
        let region = self.codes.get(range.code).and_then(|code| code.regions.get(range.region));
        let bytes = region.and_then(|region| region.starting_at(address)).unwrap_or_default();
        let length = usize::try_from(range.last - address).map_or(usize::MAX, |left| left.saturating_add(1));
        &bytes[..length.min(bytes.len())]
    }
}

#[cfg(test)]
mod tests {
    use unspool_capture::Spaces;
    use unspool_coresight::Security;

    use super::*;

    const SPACE: Space = Space::new(Security::NonSecure, 0);

    fn image(raw: bool, address: u64, bytes: &[u8]) -> Code {
        let regions = vec![Region { address, bytes: bytes.to_vec().into(), spaces: Spaces::ANY }];
        Code { raw, regions, ..Code::default() }
    }

    /// Each 64 bytes from 0x1000 on: the byte that is read there, `?` if it is ambiguous, `-` if there is none.
    fn lines(program: &Program) -> String {
        let line = |index: u64| {
            let address = 0x1000 + index * LINE as u64;
            match program.read(address, SPACE, &mut []).first() {
                Some(byte) => char::from(*byte),
                None if program.is_ambiguous(address, SPACE) => '?',
                None => '-',
            }
        };
        (0..6).map(line).collect()
    }

    #[test]
    fn images_that_contradict_each_other_are_ambiguous() {
        let repeat = |lines: &[u8]| lines.iter().flat_map(|line| [*line; LINE]).collect::<Vec<u8>>();
        let (all, same, other) = (repeat(b"aaaa"), repeat(b"aa"), repeat(b"bb"));
        let at = |line: u64| 0x1000 + line * LINE as u64;
        let rows = [
            ("alone", vec![image(false, at(0), &all)], "aaaa--"),
            ("the same bytes", vec![image(false, at(0), &all), image(false, at(1), &same)], "aaaa--"),
            ("other bytes inside", vec![image(false, at(0), &all), image(false, at(1), &other)], "a??a--"),
            ("other bytes at the end", vec![image(false, at(0), &all), image(false, at(3), &other)], "aaa?b-"),
            ("the smaller one first", vec![image(false, at(1), &other), image(false, at(0), &all)], "a??a--"),
            ("a patch before a program", vec![image(true, at(1), &other), image(false, at(0), &all)], "abba--"),
            ("a dump after a program", vec![image(false, at(0), &all), image(true, at(1), &other)], "a??a--"),
        ];
        for (name, codes, expected) in rows {
            assert_eq!(lines(&Program::new(codes)), expected, "{name}");
        }
    }

    #[test]
    fn images_of_a_user_take_precedence() {
        let codes = vec![image(false, 0x1000, &[b'u'; LINE]), image(false, 0x1000, &[b'c'; LINE])];
        let program = Program { groups: [1, 0, 1, 0], codes, ..Program::default() };
        assert_eq!(lines(&program), "u-----");
    }
}
