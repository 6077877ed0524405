//! Conversion between access lines and pictures.
//!
//! accesses ─▶ **runs of bytes** ─▶ pictures, and back
//!
//! A run is a contiguous range that one instruction reads or writes. In Rev 3 it is divided into chunks of sixteen
//! bytes, the highest first, as the models do; in Fast Models, into accesses of the size that the opcode implies.

use super::super::read;
use super::super::record::{Access, Byte, Direction, Order, Physical, Picture, PictureKind};
use super::super::state::{PADDED_DIGITS, has_padding, is_low_first};
use super::super::value::Digit;
use super::super::write::push_hex;

/// Maximum number of contiguous bytes that one instruction accesses: four vectors of the longest SVE.
const MAX_RUN: usize = 1024;

/// Direction and outcome of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) direction: Direction,
    pub(super) is_aborted: bool,
}

impl Kind {
    pub(super) fn of_picture(kind: PictureKind) -> Option<Self> {
        let own = Self { direction: kind.direction(), is_aborted: kind.is_aborted() };
        (kind != PictureKind::FailedStore).then_some(own)
    }
}

/// A physical address of a byte in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhysicalAnchor {
    /// Virtual address of the byte.
    at: u64,
    address: u64,
    space: [u8; 4],
    length: u8,
}

impl PhysicalAnchor {
    /// `None`: the name of the address space is too long.
    fn new(at: u64, physical: &Physical<'_>) -> Option<Self> {
        let mut space = [0; 4];
        space.get_mut(..physical.space.len())?.copy_from_slice(physical.space);
        Some(Self { at, address: physical.address, space, length: physical.space.len() as u8 })
    }

    fn physical(&self, at: u64) -> Physical<'_> {
        let address = self.address.wrapping_add(at.wrapping_sub(self.at));
        Physical { address, space: &self.space[..usize::from(self.length)], page: None }
    }
}

/// Bytes of one line that a run starts with or grows by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    pub(super) address: u64,
    pub(super) bytes: &'a [Byte],
    pub(super) physical: Option<Physical<'a>>,
}

impl Part<'_> {
    fn anchor(&self) -> Option<PhysicalAnchor> {
        self.physical.as_ref().and_then(|physical| PhysicalAnchor::new(self.address, physical))
    }
}

/// Contiguous bytes.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) kind: Kind,
    pub(super) address: u64,
    bytes: Vec<Byte>,
    anchors: Vec<PhysicalAnchor>,
}

impl Run {
    pub(super) fn new(part: &Part<'_>) -> Self {
        let anchors = part.anchor().into_iter().collect();
        Self { kind: part.kind, address: part.address, bytes: part.bytes.to_vec(), anchors }
    }

    /// Appends bytes that follow the run; returns false if they do not.
    pub(super) fn append(&mut self, part: &Part<'_>) -> bool {
        let is_next = self.can_grow(part) && part.address == self.address.wrapping_add(self.bytes.len() as u64);
        if is_next {
            self.bytes.extend_from_slice(part.bytes);
            self.anchors.extend(part.anchor());
        }
        is_next
    }

    /// Prepends bytes that end where the run starts; returns false if they do not.
    pub(super) fn prepend(&mut self, part: &Part<'_>) -> bool {
        let is_before = self.can_grow(part) && part.address.wrapping_add(part.bytes.len() as u64) == self.address;
        if is_before {
            self.bytes.splice(0..0, part.bytes.iter().copied());
            self.address = part.address;
            self.anchors.splice(0..0, part.anchor());
        }
        is_before
    }

    fn can_grow(&self, part: &Part<'_>) -> bool {
        part.kind == self.kind && self.bytes.len() + part.bytes.len() <= MAX_RUN
    }

    /// Physical address of a byte: relative to the last known one before it, within one page.
    fn physical(&self, address: u64) -> Option<Physical<'_>> {
        let distance = |anchor: &&PhysicalAnchor| address.wrapping_sub(anchor.at);
        let anchor = self.anchors.iter().filter(|anchor| distance(anchor) < MAX_RUN as u64).min_by_key(distance)?;
        (anchor.at >> 12 == address >> 12).then(|| anchor.physical(address))
    }

    /// Passes the run on as pictures, the highest chunk first.
    pub(super) fn pictures(&self, digits: u8, mut sink: impl FnMut(&Picture<'_>)) {
        let first = self.address & !15;
        let chunks = (self.address.wrapping_sub(first) as usize + self.bytes.len()).div_ceil(16) as u64;
        for chunk in (0..chunks).rev() {
            let address = first.wrapping_add(chunk * 16);
            let mut bytes = [Byte::Untouched; 16];
            for (at, byte) in bytes.iter_mut().enumerate() {
                let offset = address.wrapping_add(at as u64).wrapping_sub(self.address);
                *byte = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at)).copied().unwrap_or_default();
            }
            let touched = address.max(self.address);
            let physical = self.physical(touched).map(|physical| Physical {
                address: physical.address.wrapping_sub(touched.wrapping_sub(address)),
                ..physical
            });
            let kind = PictureKind::of(self.kind.direction, self.kind.is_aborted);
            sink(&Picture { kind, is_continuation: false, address, digits, bytes, physical, attributes: b"" });
        }
    }

    /// Passes the run on as accesses: address, bytes and physical address of each. `unit`: the size that the opcode
    /// implies.
    pub(super) fn accesses(&self, unit: Option<u16>, mut sink: impl FnMut(u64, &[Byte], Option<Physical<'_>>)) {
        let mut rest = self.bytes.as_slice();
        let mut address = self.address;
        while !rest.is_empty() {
            let size = size_of_next(address, rest.len(), unit);
            let (bytes, more) = rest.split_at(size);
            sink(address, bytes, self.physical(address));
            address = address.wrapping_add(size as u64);
            rest = more;
        }
    }

    /// Whether a physical address in the run is not contiguous with that of its access.
    pub(super) fn has_split_physical(&self, unit: Option<u16>) -> bool {
        let mut has_split_physical = false;
        self.accesses(unit, |address, bytes, physical| {
            let inside = |anchor: &&PhysicalAnchor| anchor.at.wrapping_sub(address) < bytes.len() as u64;
            let follows = |anchor: &PhysicalAnchor| {
                physical.is_some_and(|physical| {
                    physical.address.wrapping_add(anchor.at.wrapping_sub(address)) == anchor.address
                })
            };
            has_split_physical |= !self.anchors.iter().filter(inside).all(follows);
        });
        has_split_physical
    }

    /// Whether an aborted access has data.
    pub(super) fn has_lost_data(&self) -> bool {
        self.kind.is_aborted && self.bytes.iter().any(|byte| matches!(byte, Byte::Known(_)))
    }
}

/// Sizes of a sequence of accesses, and the runs that their pictures imply.
#[derive(Debug, Default)]
pub(super) struct AccessSizes {
    /// Position of the first access.
    since: Option<read::Position>,
    read_accesses: Vec<(u64, usize)>,
    pictured: Vec<Run>,
}

impl AccessSizes {
    /// Adds an access that was read.
    pub(super) fn push(&mut self, position: read::Position, address: u64, size: usize) {
        self.since.get_or_insert(position);
        self.read_accesses.push((address, size));
    }

    /// Number of accesses that were read.
    pub(super) fn len(&self) -> usize {
        self.read_accesses.len()
    }

    /// Adds a picture that was written. Like a reader, joins adjacent bytes if the opcode implies how to divide them
    /// again.
    pub(super) fn picture(&mut self, kind: Kind, picture: &Picture<'_>, unit: Option<u16>) {
        for (at, bytes) in picture.runs() {
            let part = Part { kind, address: picture.address.wrapping_add(at as u64), bytes, physical: None };
            let run = self.pictured.last_mut().filter(|_| unit.is_some());
            if !run.is_some_and(|run| run.append(&part) || run.prepend(&part)) {
                self.pictured.push(Run::new(&part));
            }
        }
    }

    /// Ends the sequence. Returns its position if a reader would get other accesses from the pictures.
    pub(super) fn finish(&mut self, unit: Option<u16>) -> Option<read::Position> {
        let since = self.since.take()?;
        let mut expected = self.read_accesses.iter();
        let mut differs = false;
        for run in &self.pictured {
            run.accesses(unit, |address, bytes, _| differs |= expected.next() != Some(&(address, bytes.len())));
        }
        differs |= expected.next().is_some();
        self.read_accesses.clear();
        self.pictured.clear();
        differs.then_some(since)
    }
}

/// Size of the next access: as the opcode implies, or the largest aligned one.
fn size_of_next(address: u64, rest: usize, unit: Option<u16>) -> usize {
    let unit = usize::from(unit.unwrap_or(4)).max(1);
    if rest <= unit && rest.is_power_of_two() {
        return rest;
    }
    if rest.is_multiple_of(unit) {
        return unit;
    }
    let aligned = 1 << address.trailing_zeros().min(4);
    [16, 8, 4, 2].into_iter().find(|size| *size <= rest && *size <= aligned && *size <= unit).unwrap_or(1)
}

/// Bytes of an access, lowest address first. `None`: the data does not fit the size.
pub(super) fn bytes_of(access: &Access<'_>, is_big_endian: bool) -> Option<Vec<Byte>> {
    let size = usize::from(access.size);
    let Some(data) = access.data.filter(|_| !access.is_aborted) else {
        return (size <= MAX_RUN).then(|| vec![Byte::Unknown; size]);
    };
    let mut digits: Vec<Digit> = data.digits().collect();
    if has_padding(access) {
        let unknown = digits.len().saturating_sub(PADDED_DIGITS);
        digits[..unknown].fill(Digit::Unknown);
    }
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut bytes: Vec<Byte> = pairs.iter().map(byte).collect();
    match access.order {
        Order::Memory => {}
        Order::Number if is_big_endian => {}
        Order::Number => {
            bytes.reverse();
            if is_low_first(access) {
                bytes.rotate_left(4);
            }
        }
        Order::Lanes => {
            bytes.reverse();
            let lanes = bytes.len().max(1);
            let first = access.address.unwrap_or(0) as usize % lanes;
            bytes.rotate_left(first);
            bytes.truncate(size);
        }
    }
    (bytes.len() == size && size <= MAX_RUN).then_some(bytes)
}

/// Whether a line has more than Fast Models print: a bus cycle, the owning instruction, notes.
pub(super) fn has_detail(access: &Access<'_>) -> bool {
    let is_plain =
        matches!(access.tag, [b'M', b'R' | b'W', rest @ ..] | [b'R' | b'W', rest @ ..] if !rest.contains(&b'_'));
    access.owner.is_some() || !access.notes.is_empty() && !access.is_aborted || !is_plain
}

fn byte(pair: &[Digit; 2]) -> Byte {
    match pair {
        [Digit::Known(high), Digit::Known(low)] => Byte::Known(high << 4 | low),
        _ => Byte::Unknown,
    }
}

/// Appends the bytes as the digits of a number.
pub(super) fn push_number(out: &mut Vec<u8>, bytes: &[Byte], is_big_endian: bool) {
    let mut push = |byte: &Byte| match byte {
        Byte::Known(byte) => push_hex(out, u64::from(*byte), 2),
        _ => out.extend_from_slice(b"xx"),
    };
    if is_big_endian {
        bytes.iter().for_each(&mut push);
    } else {
        bytes.iter().rev().for_each(&mut push);
    }
}
