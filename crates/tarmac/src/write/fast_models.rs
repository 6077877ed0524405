//! Lines in Fast Models style.
//!
//! A line starts with the time and the core, as far as the record has them. Data is a number with a separator every
//! eight digits.

use super::super::record::{
    Access, Direction, Event, Instruction, InstructionSet, Line, Order, Physical, Record, Stamp, Tag,
};
use super::super::state::is_low_first;
use super::number::push_time;
use super::rev3::{letter, push_operation, push_register};
use super::{push_decimal, push_hex, push_word};

/// Number of digits of a physical address.
const PHYSICAL_DIGITS: usize = 12;

/// Number of digits of a word.
const WORD_DIGITS: usize = 8;

/// Appends the line without a line end. Returns false if there is no such line; `out` may then end with a part of it,
/// which the caller removes.
pub(super) fn write(line: &Line<'_>, out: &mut Vec<u8>) -> bool {
    push_stamp(line, out);
    match &line.record {
        Record::Instruction(instruction) => return write_instruction(instruction, out),
        Record::Event(event) => write_event(event, out),
        Record::Register(register) => push_register(register, out),
        Record::Operation(operation) => push_operation(operation, out),
        Record::Access(access) => return write_access(access, out),
        _ => return false,
    }
    true
}

pub(super) fn push_stamp(line: &Line<'_>, out: &mut Vec<u8>) {
    if let Stamp::At(time) = line.stamp {
        push_time(out, time);
        push_word(out, time.unit.name().as_bytes());
        out.push(b' ');
    }
    if let Some(core) = line.core {
        out.extend_from_slice(core);
        out.push(b' ');
    }
}

fn write_instruction(instruction: &Instruction<'_>, out: &mut Vec<u8>) -> bool {
    let (Some(set), Some(address)) = (instruction.set, instruction.address) else { return false };
    out.extend_from_slice(match instruction.tag {
        // A condition that failed takes precedence over the tag that was read.
        _ if !instruction.is_executed => b"IS ",
        Tag::If => b"IF ",
        _ => b"IT ",
    });
    if let Some(number) = instruction.number {
        out.push(b'(');
        push_decimal(out, number);
        out.extend_from_slice(b") ");
    }
    push_address(out, address);
    if let Some(physical) = &instruction.physical {
        out.push(b':');
        push_physical(out, physical);
        if let Some(second) = &instruction.second_physical {
            out.push(b',');
            push_physical(out, second);
        }
    }
    out.push(b' ');
    match instruction.opcode {
        None => out.resize(out.len() + usize::from(instruction.length) * 2, b'-'),
        Some(opcode) => push_hex(out, u64::from(opcode), usize::from(instruction.length) * 2),
    }
    out.push(b' ');
    // Fast Models use another letter for ThumbEE than Rev 3.
    out.push(if set == InstructionSet::E { b'X' } else { letter(set) });
    push_word(out, instruction.mode);
    out.extend_from_slice(b" :");
    push_word(out, instruction.text);
    true
}

/// Appends an address with eight digits, or sixteen if it needs them.
pub(in super::super) fn push_address(out: &mut Vec<u8>, address: u64) {
    push_hex(out, address, if address > u64::from(u32::MAX) { 16 } else { 8 });
}

fn push_physical(out: &mut Vec<u8>, physical: &Physical<'_>) {
    push_hex(out, physical.address, PHYSICAL_DIGITS);
    if !physical.space.is_empty() {
        out.push(b'_');
        out.extend_from_slice(physical.space);
    }
}

fn write_event(event: &Event<'_>, out: &mut Vec<u8>) {
    out.push(b'E');
    if let Some(value) = event.value {
        out.push(b' ');
        push_address(out, value);
    }
    push_word(out, event.mode);
    // A line without an address has no number either: it would be read as the address.
    if let Some(number) = event.number.filter(|_| event.value.is_some()) {
        out.push(b' ');
        push_hex(out, u64::from(number), 8);
    }
    push_word(out, event.name);
}

fn write_access(access: &Access<'_>, out: &mut Vec<u8>) -> bool {
    let Some(address) = access.address else { return false };
    // Data in memory order or on bus lanes, and the instruction of an access, have no notation in this style.
    if access.order != Order::Number || access.owner.is_some() {
        return false;
    }
    out.extend_from_slice(match access.direction {
        Direction::Read => b"MR",
        Direction::Write => b"MW",
    });
    push_decimal(out, u64::from(access.size));
    for (is_set, letter) in [(access.is_exclusive, b'X'), (access.is_unprivileged, b'T'), (access.is_locked, b'L')] {
        if is_set {
            out.push(letter);
        }
    }
    out.push(b' ');
    push_address(out, address);
    if let Some(physical) = &access.physical {
        out.push(b':');
        push_physical(out, physical);
    }
    match access.data {
        // Notes such as `(ABORTED)` are written below, in place of the data.
        _ if access.is_aborted && access.notes.starts_with(b"(") => {}
        _ if access.is_aborted => out.extend_from_slice(b" (ABORTED)"),
        Some(data) => {
            out.push(b' ');
            match data.0.split_at_checked(WORD_DIGITS).filter(|_| is_low_first(access)) {
                // The R5 prints two words, the lower one first; Fast Models prints one number.
                Some((low, high)) => push_data(out, &[high, low].concat()),
                None => push_data(out, data.0),
            }
        }
        None => {}
    }
    push_word(out, access.notes);
    true
}

/// Appends the digits of data in groups of eight, counted from the least significant.
fn push_data(out: &mut Vec<u8>, data: &[u8]) {
    let is_digit = |byte: &&u8| !matches!(byte, b'_' | b':' | b' ');
    let width = data.iter().filter(is_digit).count();
    for (index, digit) in data.iter().filter(is_digit).enumerate() {
        if index > 0 && (width - index).is_multiple_of(WORD_DIGITS) {
            out.push(b'_');
        }
        out.push(*digit);
    }
}
