//! What is at an address in one or more versions of one or more address spaces.
//!
//! rectangles at an address ─▶ **contents** ─▶ nothing, one piece, or a choice of pieces

use super::piece::Piece;
use super::space::{Rectangle, Space};
use super::{Timeline, View};
use crate::event::PatchCode;

/// Maximum number of changes of one address in a window that are compared. If there are more, its code is doubtful.
const COMPARE_LIMIT: usize = 64;

/// What is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents<'a> {
    /// Nothing is known, for this number of bytes.
    Absent {
        /// Number of bytes, at least one.
        left: u64,
    },
    /// This piece.
    Certain(Hit<'a>),
    /// One of two or more pieces.
    Doubtful(Hit<'a>, Hit<'a>),
}

/// A piece at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit<'a> {
    /// The piece.
    pub piece: &'a Piece,
    /// The offset of the address in the file, or in the code of the patch.
    pub offset: u64,
    /// Number of bytes from the address for which the answer is the same, at least one.
    pub left: u64,
}

impl<'a> Contents<'a> {
    /// The piece, if it is certain.
    pub fn certain(self) -> Option<Hit<'a>> {
        match self {
            Contents::Certain(hit) => Some(hit),
            Contents::Absent { .. } | Contents::Doubtful(..) => None,
        }
    }
}

/// An answer that is collected from one or more address spaces.
pub(super) struct Answer<'a> {
    timeline: &'a Timeline,
    address: u64,
    found: [Option<Hit<'a>>; 2],
    left: u64,
}

impl<'a> Answer<'a> {
    pub(super) fn new(timeline: &'a Timeline, address: u64) -> Self {
        Self { timeline, address, found: [None; 2], left: (u64::MAX - address).saturating_add(1) }
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.found[1].is_some()
    }

    pub(super) fn add(&mut self, space: &Space, view: View) {
        let mut left = space.same_for(self.address);
        let mut count = 0;
        space.visit((view.first, view.last), self.address, |rectangle| {
            if view.first == view.last {
                left = (rectangle.range.1 - self.address).saturating_add(1);
            }
            count += 1;
            self.take(rectangle, count > COMPARE_LIMIT);
            !self.is_doubtful()
        });
        self.left = self.left.min(left);
    }

    fn take(&mut self, rectangle: &Rectangle, is_over_limit: bool) {
        let Some(piece) = self.timeline.pieces.get(rectangle.piece) else { return };
        let hit = Hit { piece, offset: piece.offset(self.address), left: 0 };
        match self.found[0] {
            None => self.found[0] = Some(hit),
            Some(first) if !is_over_limit && self.timeline.is_same(first, hit) => {}
            Some(_) => self.found[1] = Some(hit),
        }
    }

    pub(super) fn finish(self) -> Contents<'a> {
        let left = self.left;
        let with_left = |hit: Hit<'a>| Hit { left, ..hit };
        match self.found {
            [Some(one), Some(other)] => Contents::Doubtful(with_left(one), with_left(other)),
            [Some(hit), None] | [None, Some(hit)] => Contents::Certain(with_left(hit)),
            [None, None] => Contents::Absent { left },
        }
    }
}

impl Timeline {
    /// Whether two pieces have the same bytes at an address, as far as the events show.
    fn is_same(&self, one: Hit<'_>, other: Hit<'_>) -> bool {
        let file = |index: usize| self.pieces.mappings.get(index).map(|mapping| mapping.file);
        match (one.piece, other.piece) {
            (Piece::Image { mapping: a, .. }, Piece::Image { mapping: b, .. }) => {
                file(*a) == file(*b) && one.offset == other.offset
            }
            (Piece::Patch { event: a, .. }, Piece::Patch { event: b, .. }) => {
                let code = self.patch_code(one.piece).filter(|code| **code != PatchCode::Absent);
                a == b || one.offset == other.offset && code.is_some() && code == self.patch_code(other.piece)
            }
            _ => false,
        }
    }
}
