//! Lines in Rev 3 style.
//!
//! The columns are those of the published examples: eleven for the time, three for its unit, and effects indented below
//! the step.
//! Specification: ARM-EPM-041435, "Execution Event".

use super::super::record::{
    Branch, Byte, Exception, Header, Instruction, InstructionSet, Line, Operation, Physical, Picture, PictureKind,
    Record, Register, Stamp,
};
use super::number::{hex_digits, push_time};
use super::vectors::{AARCH64, is_m_profile};
use super::{push_decimal, push_hex, push_word};

/// Column where times end.
const TIME: usize = 11;
/// Column where effects start.
const INDENT: usize = 20;
/// Column of CCFAIL, relative to the mode.
const MODE: usize = 9;
/// Column of the disassembly, relative to the mode.
const TEXT: usize = 16;

/// Appends the line without a line end. Returns false if there is no such line.
pub(super) fn write(line: &Line<'_>, out: &mut Vec<u8>) -> bool {
    match &line.record {
        Record::Header(header) => write_header(header, out),
        Record::Instruction(instruction) => return write_instruction(line, instruction, out),
        Record::Asynchronous(name) => {
            push_step(line, out);
            out.extend_from_slice(name);
        }
        Record::Exception(exception) => write_exception(line, exception, out),
        Record::Register(register) => {
            push_effect(line, out);
            push_register(register, out);
        }
        Record::Operation(operation) => {
            push_effect(line, out);
            push_operation(operation, out);
        }
        Record::Picture(picture) => write_picture(line, picture, out),
        Record::Branch(branch) => return write_branch(line, branch, out),
        _ => return false,
    }
    true
}

pub(super) fn letter(set: InstructionSet) -> u8 {
    match set {
        InstructionSet::A => b'A',
        InstructionSet::T => b'T',
        InstructionSet::E => b'E',
        InstructionSet::O => b'O',
    }
}

fn write_header(header: &Header<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Tarmac Text Rev ");
    push_decimal(out, u64::from(header.revision));
    out.extend_from_slice(header.flags);
}

/// Appends time, unit and core, and the space after them.
pub(super) fn push_stamp(line: &Line<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    match line.stamp {
        Stamp::Absent => {}
        Stamp::Dashes => out.extend_from_slice(&[b'-'; TIME]),
        Stamp::At(time) => {
            push_time(out, time);
            let width = out.len() - start;
            if width < TIME {
                out.resize(start + TIME, b' ');
                out.copy_within(start..start + width, start + TIME - width);
                out[start..start + TIME - width].fill(b' ');
            }
            push_word(out, time.unit.name().as_bytes());
        }
    }
    pad(out, start, TIME + 5);
    if let Some(core) = line.core {
        out.extend_from_slice(core);
        out.push(b' ');
    }
}

/// Pads with spaces up to a column, with at least one after a word.
fn pad(out: &mut Vec<u8>, start: usize, column: usize) {
    let width = out.len() - start;
    if width > 0 && width >= column {
        out.push(b' ');
    }
    out.resize(out.len().max(start + column), b' ');
}

/// Appends the start of the first line of a step.
fn push_step(line: &Line<'_>, out: &mut Vec<u8>) {
    push_stamp(line, out);
    out.extend_from_slice(b"ES  ");
}

/// Appends the start of an effect line.
fn push_effect(line: &Line<'_>, out: &mut Vec<u8>) {
    if line.stamp == Stamp::Absent && line.core.is_none() {
        out.resize(out.len() + INDENT, b' ');
    } else {
        push_stamp(line, out);
    }
}

fn write_instruction(line: &Line<'_>, instruction: &Instruction<'_>, out: &mut Vec<u8>) -> bool {
    let Some(set) = instruction.set else { return false };
    push_step(line, out);
    match (set, instruction.address, instruction.opcode) {
        (InstructionSet::O, Some(address), Some(opcode)) if instruction.length == 4 => {
            out.extend_from_slice(&a64_code(address, opcode));
        }
        _ => push_code(out, set, instruction),
    }
    let start = out.len();
    out.extend_from_slice(instruction.mode);
    out.push(b':');
    if !instruction.is_executed {
        pad(out, start, MODE);
        out.extend_from_slice(b"CCFAIL");
    }
    if !instruction.text.is_empty() {
        pad(out, start, TEXT);
        out.extend_from_slice(instruction.text);
    }
    true
}

/// Address, opcode and instruction set of an A64 instruction, which most lines have, in one piece.
#[inline]
fn a64_code(address: u64, opcode: u32) -> [u8; 30] {
    let mut code = *b"(0123456789abcdef:01234567) O ";
    code[1..17].copy_from_slice(&hex_digits(address));
    code[18..26].copy_from_slice(&hex_digits(u64::from(opcode))[8..]);
    code
}

/// Appends address, opcode and instruction set of any instruction.
fn push_code(out: &mut Vec<u8>, set: InstructionSet, instruction: &Instruction<'_>) {
    out.push(b'(');
    match instruction.address {
        Some(address) => push_hex(out, address, digits(Some(set), 0)),
        None if set == InstructionSet::O => out.extend_from_slice(b"EDITR"),
        None => out.extend_from_slice(b"DBGITR"),
    }
    out.push(b':');
    push_opcode(out, instruction);
    out.extend_from_slice(&[b' ', letter(set), b' ']);
}

/// Appends the opcode and the bracket, padded to the width of eight digits.
fn push_opcode(out: &mut Vec<u8>, instruction: &Instruction<'_>) {
    let digits = if instruction.length == 2 { 4 } else { 8 };
    match instruction.opcode {
        None => out.resize(out.len() + digits, b'-'),
        Some(opcode) => push_hex(out, u64::from(opcode), digits),
    }
    out.push(b')');
    out.resize(out.len() + 8 - digits, b' ');
}

/// Number of digits of an address. Without an instruction set, the number that it was read with decides.
fn digits(set: Option<InstructionSet>, read: u8) -> usize {
    let is_wide = set.map_or(read > 8, |set| set == InstructionSet::O);
    if is_wide { 16 } else { 8 }
}

fn write_exception(line: &Line<'_>, exception: &Exception<'_>, out: &mut Vec<u8>) {
    if exception.is_step {
        push_step(line, out);
    } else {
        push_effect(line, out);
    }
    out.extend_from_slice(b"EXC");
    if let Some(vector) = exception.vector {
        out.extend_from_slice(b" [");
        push_vector(out, vector, exception.name);
        out.push(b']');
    }
    push_word(out, exception.name);
}

/// Appends a vector: offsets are hexadecimal, M-profile numbers decimal.
fn push_vector(out: &mut Vec<u8>, vector: i64, name: &[u8]) {
    let number = vector.unsigned_abs();
    if vector < 0 {
        out.push(b'-');
    }
    if vector < 0 || is_m_profile(vector, name) {
        return push_decimal(out, number);
    }
    // The AArch64 table has three digits, the AArch32 table two.
    let is_of_aarch64 = AARCH64.iter().any(|row| row.value == vector && row.name.as_bytes() == name);
    out.extend_from_slice(b"0x");
    push_hex(out, number, if is_of_aarch64 { 3 } else { 2 });
}

/// Appends a register without the start of its line; the same in all styles.
pub(super) fn push_register(register: &Register<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"R ");
    out.extend_from_slice(register.name);
    if !register.context.is_empty() {
        out.extend_from_slice(b" (");
        out.extend_from_slice(register.context);
        out.push(b')');
    }
    if let Some((high, low)) = register.bits {
        out.push(b'<');
        push_decimal(out, u64::from(high));
        out.push(b':');
        push_decimal(out, u64::from(low));
        out.push(b'>');
    }
    push_word(out, register.value.0);
    push_word(out, register.notes);
}

/// Appends a system operation without the start of its line; the same in all styles.
pub(super) fn push_operation(operation: &Operation<'_>, out: &mut Vec<u8>) {
    out.push(b'R');
    push_word(out, operation.kind);
    push_word(out, operation.name);
    push_word(out, operation.value.0);
}

fn write_picture(line: &Line<'_>, picture: &Picture<'_>, out: &mut Vec<u8>) {
    push_effect(line, out);
    out.extend_from_slice(match (picture.is_continuation, picture.kind) {
        (true, _) => b"   ",
        (_, PictureKind::Load) => b"LD ",
        (_, PictureKind::AbortedLoad) => b"LA ",
        (_, PictureKind::Store) => b"ST ",
        (_, PictureKind::AbortedStore) => b"SA ",
        (_, PictureKind::FailedStore) => b"SX ",
    });
    push_hex(out, picture.address, digits(None, picture.digits));
    for (index, byte) in picture.bytes.iter().rev().enumerate() {
        if index % 4 == 0 {
            out.push(b' ');
        }
        match byte {
            Byte::Untouched => out.extend_from_slice(b".."),
            Byte::Unknown => out.extend_from_slice(b"##"),
            Byte::Known(byte) => push_hex(out, u64::from(*byte), 2),
        }
    }
    if let Some(physical) = &picture.physical {
        push_physical(physical, out);
    }
    if !picture.attributes.is_empty() {
        out.extend_from_slice(b"    ");
        out.extend_from_slice(picture.attributes);
    }
}

fn push_physical(physical: &Physical<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"    ");
    if !physical.space.is_empty() {
        out.extend_from_slice(physical.space);
        out.push(b':');
    }
    push_hex(out, physical.address, 10);
    if let Some(page) = physical.page {
        out.push(b'/');
        push_decimal(out, u64::from(page));
    }
}

fn write_branch(line: &Line<'_>, branch: &Branch, out: &mut Vec<u8>) -> bool {
    let Some(set) = branch.set else { return false };
    push_effect(line, out);
    out.extend_from_slice(b"BR (");
    push_hex(out, branch.target, digits(Some(set), 0));
    out.extend_from_slice(b") ");
    out.push(letter(set));
    true
}
