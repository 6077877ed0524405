//! The program that ran: all code that is known, by address and space, and what its places are called.
//!
//! Comes in: the images of a capture, and others that a user adds. Goes out: code for the walk, names for people. Where
//! images overlap, those that the user added come before those of the capture, those of the traced core before those
//! of other cores, and what is listed first before what is listed later.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use unspool_capture::{Capture, Code, Note, Region};
use unspool_coresight::Security;
use unspool_flow::{CodeMemory, Space};

/// Code of a program, and its symbols.
#[derive(Debug, Default)]
pub struct Program {
    codes: Vec<Code>,
    /// What each space sees, found out when it is first asked for.
    views: [OnceLock<View>; 16],
}

/// Stretches of memory by their first address; none overlap.
type View = BTreeMap<u64, Stretch>;

#[derive(Debug, Clone, Copy)]
struct Stretch {
    last: u64,
    /// Which piece of which code has the bytes.
    code: usize,
    piece: usize,
}

impl Program {
    /// A program from several images; where they overlap, the first counts.
    pub fn new(codes: Vec<Code>) -> Self {
        Self { codes, views: Default::default() }
    }

    /// The images of a capture behind those that a user added, as the given core sees them. The notes tell what is
    /// missing or odd.
    pub fn of(capture: &Capture, core: Option<usize>, added: &[Code]) -> (Self, Vec<Note>) {
        let loaded = capture.code(core);
        (Self::new(added.iter().cloned().chain(loaded.codes).collect()), loaded.notes)
    }

    /// All images.
    pub fn codes(&self) -> &[Code] {
        &self.codes
    }

    /// The function that an address is in, and how far behind its start.
    pub fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        self.codes.iter().find_map(|code| code.symbols.find(address))
    }

    /// Where functions of this name are, as far as symbols say how long they are.
    pub fn functions<'p>(&'p self, name: &'p str) -> impl Iterator<Item = Range<u64>> + 'p {
        let symbols = self.codes.iter().flat_map(|code| code.symbols.iter());
        let named = symbols.filter(move |symbol| symbol.name == name && symbol.size > 0);
        named.map(|symbol| symbol.address..symbol.address.saturating_add(symbol.size))
    }

    fn view(&self, space: Space) -> &View {
        let security = match space.security {
            Security::Secure => 0,
            Security::NonSecure => 1,
            Security::Root => 2,
            Security::Realm => 3,
        };
        self.views[security << 2 | usize::from(space.el & 3)].get_or_init(|| self.seen_from(space))
    }

    fn seen_from(&self, space: Space) -> View {
        let mut view = View::new();
        for (code, pieces) in self.codes.iter().map(|code| &code.regions).enumerate() {
            for (piece, found) in pieces.iter().enumerate() {
                if found.spaces.contains(space.security, space.el) {
                    add(&mut view, found, code, piece);
                }
            }
        }
        view
    }
}

/// Adds what of the piece is not covered yet.
fn add(view: &mut View, found: &Region, code: usize, piece: usize) {
    let (mut start, last) = (found.address, found.last());
    if let Some((_, before)) = view.range(..=start).next_back()
        && before.last >= start
    {
        match before.last.checked_add(1) {
            Some(behind) => start = behind,
            None => return,
        }
    }
    while start <= last {
        let next = view.range(start..=last).next().map(|(&next, stretch)| (next, stretch.last));
        let until = next.map_or(last, |(next, _)| next.wrapping_sub(1));
        if next.is_none_or(|(next, _)| next > start) {
            view.insert(start, Stretch { last: until, code, piece });
        }
        match next.and_then(|(_, covered)| covered.checked_add(1)) {
            Some(behind) => start = behind,
            None => return,
        }
    }
}

impl CodeMemory for Program {
    fn read<'b>(&'b self, address: u64, space: Space, _buffer: &'b mut [u8]) -> &'b [u8] {
        let Some((_, stretch)) = self.view(space).range(..=address).next_back() else { return &[] };
        let Some(left) = stretch.last.checked_sub(address) else { return &[] };
        let piece = self.codes.get(stretch.code).and_then(|code| code.regions.get(stretch.piece));
        let bytes = piece.and_then(|piece| piece.starting_at(address)).unwrap_or_default();
        let length = usize::try_from(left).map_or(usize::MAX, |left| left.saturating_add(1));
        &bytes[..length.min(bytes.len())]
    }
}
