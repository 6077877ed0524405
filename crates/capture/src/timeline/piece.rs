//! What can be at an address: a part of a file, or code that was written there.
//!
//! The same mapping in many processes is one entry here, so that pieces can be compared by number.

use std::collections::HashMap;

use super::ranges::{Range, range};
use crate::event::{Mapping, Placement};

/// Bytes of a file in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub length: u64,
    /// The offset of the first byte in the file.
    pub offset: u64,
}

/// Contents of memory that are known from one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Piece {
    /// A part of a file.
    Image {
        /// Index for [`Timeline::mapping`](super::Timeline::mapping).
        mapping: usize,
        /// Where the part is, and its offset in the file.
        extent: Extent,
    },
    /// Code that was written to memory.
    Patch {
        /// Index of the event in [`Timeline::events`](super::Timeline::events).
        event: usize,
        /// The address of the first byte.
        address: u64,
    },
}

impl Piece {
    /// The mapping, if it is a part of a file.
    pub fn mapping(&self) -> Option<usize> {
        match self {
            Piece::Image { mapping, .. } => Some(*mapping),
            Piece::Patch { .. } => None,
        }
    }

    /// The offset of an address in the file, or in the code of the patch.
    pub fn offset(&self, address: u64) -> u64 {
        match self {
            Piece::Image { extent, .. } => extent.offset.wrapping_add(address.wrapping_sub(extent.address)),
            Piece::Patch { address: first, .. } => address.wrapping_sub(*first),
        }
    }
}

/// A file that is mapped in one way, in any number of processes.
#[derive(Debug, Clone)]
pub(super) struct KnownMapping {
    /// The first event that has it.
    pub(super) event: usize,
    /// Number of the file: mappings of the same file have the same.
    pub(super) file: u32,
    pub(super) placement: Placement,
    /// Its pieces, and where they are.
    pub(super) parts: Parts,
}

/// Parts of a mapping: their pieces and addresses.
pub(super) type Parts = Vec<(u32, Range)>;

impl KnownMapping {
    /// The address by which events name it.
    pub(super) fn base(&self) -> u64 {
        match self.placement {
            Placement::Base(address) | Placement::Part { address, .. } => address,
        }
    }

    pub(super) fn is_part(&self) -> bool {
        matches!(self.placement, Placement::Part { .. })
    }
}

/// All pieces and mappings of the events.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces {
    pub(super) pieces: Vec<Piece>,
    pub(super) mappings: Vec<KnownMapping>,
}

/// Numbers for mappings and files that occur more than once.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    files: HashMap<(String, String), u32>,
    mappings: HashMap<(u32, Placement), u32>,
}

impl Pieces {
    pub(super) fn get(&self, piece: u32) -> Option<&Piece> {
        self.pieces.get(piece as usize)
    }

    /// The number of the mapping of an event.
    pub(super) fn mapping(
        &mut self,
        numbers: &mut Numbers,
        event: usize,
        mapping: &Mapping,
        layout: &mut impl FnMut(&Mapping) -> Vec<Extent>,
    ) -> u32 {
        let next = number(numbers.files.len());
        let name = (mapping.image.clone(), mapping.build_id.clone());
        let file = *numbers.files.entry(name).or_insert(next);
        if let Some(known) = numbers.mappings.get(&(file, mapping.placement)) {
            return *known;
        }
        let index = number(self.mappings.len());
        numbers.mappings.insert((file, mapping.placement), index);
        let extents = match mapping.placement {
            Placement::Part { address, length, offset } => vec![Extent { address, length, offset }],
            Placement::Base(_) => layout(mapping),
        };
        let with_range = extents.into_iter().filter_map(|extent| Some((extent, range(extent.address, extent.length)?)));
        let parts =
            with_range.map(|(extent, range)| (self.add(Piece::Image { mapping: index as usize, extent }), range));
        let parts: Parts = parts.collect();
        self.mappings.push(KnownMapping { event, file, placement: mapping.placement, parts });
        index
    }

    pub(super) fn add(&mut self, piece: Piece) -> u32 {
        self.pieces.push(piece);
        number(self.pieces.len() - 1)
    }
}

/// A list has fewer entries than there are events, and those are limited.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
