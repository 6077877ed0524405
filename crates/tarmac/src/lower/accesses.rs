//! Memory accesses as lines: numbers of their size (Fast Models), or pictures of sixteen bytes each (Rev 3).
//!
//! An access that one line represents fully needs nothing else. For any other access an annotation holds its properties
//! and the number of following lines that belong to it: a picture covers sixteen bytes at most, and no line both reads
//! and writes.

use unspool_isa::Isa;
use unspool_model::{Access, Direction, Loss};

use super::super::annotation::{AnnotatedAccess, Annotation};
use super::super::record::{self, Byte, Picture, PictureKind, Record};
use super::super::value::Value;
use super::super::write::{Style, push_hex};
use super::lines::{LineHead, LineWriter};

/// Size of the largest access that is written as lines.
const MAX_SIZE: u64 = 4096;

/// Maximum number of data bytes in an annotation.
const MAX_DATA: usize = 256 << 10;

/// Number of bytes in a picture.
const CHUNK: u64 = 16;

/// Kind of a memory line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    direction: record::Direction,
    is_aborted: bool,
}

/// Writes the lines of an access. `opcode`: that of the A64 instruction that caused it.
pub(super) fn write(
    writer: &mut LineWriter,
    head: &LineHead<'_>,
    access: &Access<'_>,
    opcode: Option<u32>,
    digits: &mut Vec<u8>,
) {
    if access.bytes.iter().any(|(_, known)| !matches!(known, 0 | 0xff)) {
        writer.lose(Loss::Data);
    }
    let shown = shown(access, opcode);
    let has_data = access.bytes.iter().any(|(_, known)| *known == 0xff);
    let is_in_lines = has_data && shown.len() == 1 && !shown[0].is_aborted && access.bytes.len() as u64 == access.size;
    let shown = if has_data && !is_in_lines && access.direction != Direction::Both { &[] } else { shown };
    let lines_each = match writer.style {
        Style::FastModels => 1,
        Style::Rev3 => pictures(access.address, access.size),
    };
    if shown.len() != 1 || lines_each != 1 || access.is_tagged {
        writer.select_core(head.at);
        annotate(writer, access, shown.len() as u32 * lines_each, has_data && !is_in_lines, digits);
    }
    for shown in shown {
        match writer.style {
            Style::FastModels => write_access(writer, head, access, *shown, is_in_lines, digits),
            Style::Rev3 => write_pictures(writer, head, access, *shown, is_in_lines),
        }
    }
}

/// The lines that can represent an access. An access without a direction is aborted if the opcode is known to load or
/// store.
fn shown(access: &Access<'_>, opcode: Option<u32>) -> &'static [Shown] {
    const READ: Shown = Shown { direction: record::Direction::Read, is_aborted: false };
    const WRITE: Shown = Shown { direction: record::Direction::Write, is_aborted: false };
    if access.size == 0 || access.size > MAX_SIZE {
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

/// Number of pictures that an access takes.
fn pictures(address: u64, size: u64) -> u32 {
    let bytes = address % CHUNK + size.min(MAX_SIZE);
    bytes.div_ceil(CHUNK) as u32
}

/// Writes the annotation of an access.
fn annotate(writer: &mut LineWriter, access: &Access<'_>, lines: u32, has_data: bool, digits: &mut Vec<u8>) {
    digits.clear();
    if has_data && access.bytes.len() > MAX_DATA {
        writer.lose(Loss::Data);
    } else if has_data {
        access.bytes.iter().for_each(|byte| push_byte(*byte, digits));
    }
    let data = str::from_utf8(digits).unwrap_or_default();
    let &Access { direction, address, size, is_tagged, .. } = access;
    writer.annotate(&Annotation::Access(AnnotatedAccess { direction, address, size, is_tagged, lines, data }));
}

pub(super) fn push_byte((value, known): (u8, u8), out: &mut Vec<u8>) {
    match known {
        0xff => push_hex(out, value.into(), 2),
        _ => out.extend_from_slice(b"xx"),
    }
}

fn write_access(
    writer: &mut LineWriter,
    head: &LineHead<'_>,
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
        direction: shown.direction,
        size: access.size as u16,
        address: Some(access.address),
        data: Some(Value(digits)).filter(|_| !shown.is_aborted),
        is_aborted: shown.is_aborted,
        ..record::Access::default()
    };
    writer.effect(head, Record::Access(access));
}

fn write_pictures(writer: &mut LineWriter, head: &LineHead<'_>, access: &Access<'_>, shown: Shown, has_data: bool) {
    let kind = PictureKind::of(shown.direction, shown.is_aborted);
    let first = access.address % CHUNK;
    for index in 0..u64::from(pictures(access.address, access.size)) {
        let mut bytes = [Byte::Untouched; CHUNK as usize];
        for (lane, byte) in (0_u64..).zip(&mut bytes) {
            let position = index * CHUNK + lane;
            let Some(offset) = position.checked_sub(first).filter(|offset| *offset < access.size) else { continue };
            let known = access.bytes.get(offset as usize).filter(|(_, known)| has_data && *known == 0xff);
            *byte = known.map_or(Byte::Unknown, |(value, _)| Byte::Known(*value));
        }
        let address = (access.address - first).wrapping_add(index * CHUNK);
        let digits = if head.is_wide { 16 } else { 8 };
        let picture = Picture { kind, is_continuation: false, address, digits, bytes, physical: None, attributes: b"" };
        writer.effect(head, Record::Picture(picture));
    }
}
