//! Accesses to memory as lines: numbers of their size, or pictures of sixteen bytes each.
//!
//! An access that lines show as what it is needs nothing more. Of others a remark says what they are, and how many of
//! the lines behind it are parts of them: pictures end every sixteen bytes, and no line both reads and writes.

use unspool_isa::Isa;
use unspool_model::{Access, Direction, Loss};

use super::super::record::{self, Byte, Order, Picture, PictureKind, Purpose, Record};
use super::super::value::Value;
use super::super::write::Style;
use super::remark::{Remark, Whole};
use super::{Page, Spot};

/// Accesses that are larger have no lines of their own.
const LARGEST: u64 = 4096;

/// The most bytes that a remark says.
const MOST_BYTES: usize = 256 << 10;

/// Bytes of a picture.
const CHUNK: u64 = 16;

/// What a line shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    is_write: bool,
    is_aborted: bool,
}

/// Adds the lines of an access. `opcode`: that of A64, if an instruction of it is the cause.
pub(super) fn write(page: &mut Page, spot: &Spot<'_>, access: &Access<'_>, opcode: Option<u32>, digits: &mut Vec<u8>) {
    if access.bytes.iter().any(|(_, known)| !matches!(known, 0 | 0xff)) {
        page.lose(Loss::Data);
    }
    let shown = shown(access, opcode);
    let has_data = access.bytes.iter().any(|(_, known)| *known == 0xff);
    let is_in_lines = has_data && shown.len() == 1 && !shown[0].is_aborted && access.bytes.len() as u64 == access.size;
    let shown = if has_data && !is_in_lines && access.direction != Direction::Both { &[] } else { shown };
    let pieces = match page.style {
        Style::FastModels => 1,
        Style::Rev3 => pictures(access.address, access.size),
    };
    if shown.len() != 1 || pieces != 1 || access.is_tagged {
        page.enter(spot.at);
        say(page, access, shown.len() as u32 * pieces, has_data && !is_in_lines, digits);
    }
    for shown in shown {
        match page.style {
            Style::FastModels => write_access(page, spot, access, *shown, is_in_lines, digits),
            Style::Rev3 => write_pictures(page, spot, access, *shown, is_in_lines),
        }
    }
}

/// What lines can show of it: an access that was tried and is known to be one that loads or stores was aborted.
fn shown(access: &Access<'_>, opcode: Option<u32>) -> &'static [Shown] {
    const READ: Shown = Shown { is_write: false, is_aborted: false };
    const WRITE: Shown = Shown { is_write: true, is_aborted: false };
    if access.size == 0 || access.size > LARGEST {
        return &[];
    }
    match access.direction {
        Direction::Read => &[READ],
        Direction::Write => &[WRITE],
        Direction::Both => &[READ, WRITE],
        Direction::Neither => match opcode.map(|opcode| unspool_isa::access(Isa::A64, opcode)) {
            Some(does) if does.may_not_write || does.reads() == does.writes() => &[],
            Some(does) if does.reads() => &[Shown { is_aborted: true, ..READ }],
            Some(_) => &[Shown { is_aborted: true, ..WRITE }],
            None => &[],
        },
    }
}

/// How many pictures it takes.
fn pictures(address: u64, size: u64) -> u32 {
    let bytes = address % CHUNK + size.min(LARGEST);
    bytes.div_ceil(CHUNK) as u32
}

/// The remark of an access.
fn say(page: &mut Page, access: &Access<'_>, lines: u32, has_data: bool, digits: &mut Vec<u8>) {
    digits.clear();
    if has_data && access.bytes.len() > MOST_BYTES {
        page.lose(Loss::Data);
    } else if has_data {
        access.bytes.iter().for_each(|byte| push_byte(*byte, digits));
    }
    let data = str::from_utf8(digits).unwrap_or_default();
    let &Access { direction, address, size, is_tagged, .. } = access;
    page.remark(&Remark::Access(Whole { direction, address, size, is_tagged, lines, data }));
}

fn push_byte((value, known): (u8, u8), out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&match known {
        0xff => [DIGITS[usize::from(value >> 4)], DIGITS[usize::from(value & 0xf)]],
        _ => *b"xx",
    });
}

fn write_access(
    page: &mut Page,
    spot: &Spot<'_>,
    access: &Access<'_>,
    shown: Shown,
    has_data: bool,
    digits: &mut Vec<u8>,
) {
    digits.clear();
    if has_data {
        access.bytes.iter().rev().for_each(|byte| push_byte(*byte, digits));
    } else {
        digits.resize(access.size as usize * 2, b'x');
    }
    let access = record::Access {
        tag: b"",
        direction: if shown.is_write { record::Direction::Write } else { record::Direction::Read },
        purpose: Purpose::Data,
        size: access.size as u16,
        address: Some(access.address),
        digits: 0,
        physical: None,
        owner: None,
        data: Some(Value(digits)).filter(|_| !shown.is_aborted),
        order: Order::Number,
        is_aborted: shown.is_aborted,
        is_exclusive: false,
        is_unprivileged: false,
        is_locked: false,
        notes: b"",
    };
    page.effect(spot, Record::Access(access));
}

fn write_pictures(page: &mut Page, spot: &Spot<'_>, access: &Access<'_>, shown: Shown, has_data: bool) {
    let kind = match (shown.is_write, shown.is_aborted) {
        (false, false) => PictureKind::Load,
        (false, true) => PictureKind::AbortedLoad,
        (true, false) => PictureKind::Store,
        (true, true) => PictureKind::AbortedStore,
    };
    let first = access.address % CHUNK;
    for piece in 0..u64::from(pictures(access.address, access.size)) {
        let mut bytes = [Byte::Untouched; CHUNK as usize];
        for (lane, byte) in (0_u64..).zip(&mut bytes) {
            let place = piece * CHUNK + lane;
            let Some(offset) = place.checked_sub(first).filter(|offset| *offset < access.size) else { continue };
            let known = access.bytes.get(offset as usize).filter(|(_, known)| has_data && *known == 0xff);
            *byte = known.map_or(Byte::Unknown, |(value, _)| Byte::Known(*value));
        }
        let address = (access.address - first).wrapping_add(piece * CHUNK);
        let digits = if spot.is_wide { 16 } else { 8 };
        let picture = Picture { kind, is_continuation: false, address, digits, bytes, physical: None, attributes: b"" };
        page.effect(spot, Record::Picture(picture));
    }
}
