//! The program that ran: all known code, by address and space, and its symbols.
//!
//! Takes the images of a capture, and images that a user adds; produces code for decoding and names for listings. Where
//! images overlap, those of the user take precedence over those of the capture, those of the traced core over those of
//! other cores, and earlier ones over later ones.

mod moment;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use unspool_capture::{Capture, Code, Note, Region, Symbol};
use unspool_coresight::FlowRules;
use unspool_flow::{CodeMemory, KnownCode, Space};

pub(crate) use self::moment::{Moment, Moments};
use crate::demangle::is_demangled;
use crate::placement::place_images;
use crate::{Error, Trace};

/// Code of a program, and its symbols.
#[derive(Debug, Default)]
pub struct Program {
    codes: Vec<Code>,
    /// View of each space, computed on first use.
    views: [OnceLock<View>; 16],
    /// What finished walks decoded, for those that follow.
    known: Mutex<Vec<KnownCode>>,
}

/// Memory ranges by first address, without overlaps.
type View = BTreeMap<u64, MemoryRange>;

#[derive(Debug, Clone, Copy)]
struct MemoryRange {
    last: u64,
    /// Indices of the code and of its region that hold the bytes.
    code: usize,
    region: usize,
}

impl Program {
    /// Makes a program of several images; where they overlap, the first one wins.
    pub fn new(codes: Vec<Code>) -> Self {
        Self { codes, ..Self::default() }
    }

    /// Images that a user added, then those of a capture as the given core sees them. Notes list missing and odd files,
    /// and the load addresses of [placed](place_images) images.
    pub fn of(capture: &Capture, core: Option<usize>, added: &[Code]) -> (Self, Vec<Note>) {
        let mut codes = added.to_vec();
        let mut notes = place_images(capture, &mut codes);
        let loaded = capture.code(core);
        codes.extend(loaded.codes);
        notes.extend(loaded.notes);
        (Self::new(codes), notes)
    }

    /// All images.
    pub fn codes(&self) -> &[Code] {
        &self.codes
    }

    /// Function at an address, and the offset in it.
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

    /// The moments of a trace: where its code changes.
    pub(crate) fn moments(&self, _trace: &Trace<'_>) -> Result<Moments<'_>, Error> {
        Ok(Moments::one(self))
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
        self.views[security << 2 | usize::from(space.el & 3)].get_or_init(|| self.seen_from(space))
    }

    fn seen_from(&self, space: Space) -> View {
        let mut view = View::new();
        for (code, regions) in self.codes.iter().map(|code| &code.regions).enumerate() {
            for (region, found) in regions.iter().enumerate() {
                if found.spaces.contains(space.security, space.el) {
                    add(&mut view, found, code, region);
                }
            }
        }
        view
    }
}

/// Adds the parts of the region that are not covered yet.
fn add(view: &mut View, found: &Region, code: usize, region: usize) {
    let (mut start, last) = (found.address, found.last());
    if let Some((_, before)) = view.range(..=start).next_back()
        && before.last >= start
    {
        match before.last.checked_add(1) {
            Some(after) => start = after,
            None => return,
        }
    }
    while start <= last {
        let next = view.range(start..=last).next().map(|(&next, range)| (next, range.last));
        let until = next.map_or(last, |(next, _)| next.wrapping_sub(1));
        if next.is_none_or(|(next, _)| next > start) {
            view.insert(start, MemoryRange { last: until, code, region });
        }
        match next.and_then(|(_, covered)| covered.checked_add(1)) {
            Some(after) => start = after,
            None => return,
        }
    }
}

impl CodeMemory for Program {
    fn read<'b>(&'b self, address: u64, space: Space, _buffer: &'b mut [u8]) -> &'b [u8] {
        let Some((_, range)) = self.view(space).range(..=address).next_back() else { return &[] };
        let Some(left) = range.last.checked_sub(address) else { return &[] };
        let region = self.codes.get(range.code).and_then(|code| code.regions.get(range.region));
        let bytes = region.and_then(|region| region.starting_at(address)).unwrap_or_default();
        let length = usize::try_from(left).map_or(usize::MAX, |left| left.saturating_add(1));
        &bytes[..length.min(bytes.len())]
    }
}
