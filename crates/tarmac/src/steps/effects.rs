//! Register writes and memory accesses of lines as effects of a step.

use std::iter::repeat_n;
use std::ops::Range;

use unspool_model::{self as model, Step};

use super::super::lift::{self, MemoryAccess, RegisterWrite};
use super::super::record::{Direction, InstructionSet, Register};
use super::super::registers::{MAX_BITS, Meaning, NameContext, Part, Slot};
use super::super::value::{Digit, Value};

/// Names of the registers with a slot, those of AArch32 first.
pub(super) struct Effects {
    names: [Vec<String>; 2],
    /// Names of vectors that are longer than 128 bits.
    long: Vec<String>,
}

/// Number of digits of 128 bits.
const DIGITS_128: usize = 32;

impl Effects {
    pub(super) fn new() -> Self {
        let names = |is_a64| (0..Slot::NAMED.0).map(move |slot| Slot(slot).name(is_a64).unwrap_or_default()).collect();
        Self { names: [names(false), names(true)], long: (0..32).map(|number| format!("z{number}")).collect() }
    }

    /// Appends the effects in a range of lines, in the order of the log: registers, then accesses.
    #[inline]
    pub(super) fn push(&self, step: &lift::Step, lines: &Range<u64>, name_context: &NameContext, out: &mut Step) {
        for register in step.registers.iter().filter(|register| lines.contains(&register.line)) {
            self.register(step, register, name_context, out);
        }
        for access in step.accesses.iter().filter(|access| lines.contains(&access.line)) {
            push_access(step, access, out);
        }
    }

    fn register(&self, step: &lift::Step, written: &RegisterWrite, name_context: &NameContext, out: &mut Step) {
        let value = step.value(written);
        let (name, context) = (step.text(&written.name), step.text(&written.context));
        let notes = step.text(&written.notes);
        let meaning = name_context.meaning(&Register { name, context, bits: written.bits, value, notes });
        let first = written.bits.map_or(0, |(_, low)| low);
        let width = written.bits.map(|(high, low)| usize::from(high.saturating_sub(low)) + 1);
        match &meaning {
            Meaning::Part(Part { slot, low, bits, is_fixed, .. }) => {
                let names = match slot.0.checked_sub(Slot::V0.0) {
                    Some(number) if *bits == 0 && *slot < Slot::P0 && value.width() > DIGITS_128 => {
                        self.long.get(usize::from(number)..)
                    }
                    _ => self.names[usize::from(name_context.is_a64 != Some(false))].get(usize::from(slot.0)..),
                };
                let name = names.and_then(|names| names.first()).map_or("", |name| name);
                let fixed = is_fixed.then_some(usize::from(*bits));
                write(out, name, low.saturating_add(first), value, Width { given: width, max: fixed });
            }
            Meaning::Named(name) => {
                let name = str::from_utf8(name.as_bytes()).unwrap_or_default();
                write(out, name, first, value, Width { given: width, max: None });
            }
        }
    }
}

/// Number of bits of a value: as the line gives it, or the maximum.
#[derive(Clone, Copy)]
struct Width {
    given: Option<usize>,
    max: Option<usize>,
}

/// Appends a register write. Dashes are parts that are not written.
#[inline]
fn write(out: &mut Step, name: &str, low: u16, value: Value<'_>, width: Width) {
    let max = width.given.or(width.max);
    if value.0.iter().fold(false, |is_found, byte| is_found | (*byte == b'-')) {
        return write_parts(out, name, low, value, max.unwrap_or(MAX_BITS));
    }
    match width.given {
        Some(bits) => write_filled(out, name, low, value, bits),
        None => out.write_register_known(name, low, bytes(value, max)),
    }
}

/// Writes exactly `bits` bits of a register.
#[cold]
fn write_filled(out: &mut Step, name: &str, low: u16, value: Value<'_>, bits: usize) {
    let zeros = repeat_n((0, 0xff), missing_zeros(value, bits));
    out.write_register_known(name, low, bytes(value, Some(bits)).chain(zeros));
}

/// Number of leading zero bytes that the value omits, for a width of `bits`.
fn missing_zeros(value: Value<'_>, bits: usize) -> usize {
    let is_number = value.digits().next().is_some_and(|digit| digit != Digit::Unknown);
    if is_number { bits.div_ceil(8).saturating_sub(value.width().div_ceil(2)) } else { 0 }
}

#[cold]
fn write_parts(out: &mut Step, name: &str, low: u16, value: Value<'_>, max: usize) {
    let digits: Vec<(u8, u8)> = value.digits().rev().take(max / 4).map(updated).collect();
    let mut at = 0;
    while at < digits.len() {
        let length = digits[at..].iter().take_while(|digit| **digit != UNCHANGED).count();
        if length > 0 {
            let pairs = digits[at..at + length].chunks(2);
            let join = |pair: &[(u8, u8)]| {
                let high = pair.get(1).copied().unwrap_or_default();
                (pair[0].0 | high.0 << 4, pair[0].1 | high.1 << 4)
            };
            out.write_register_known(name, low.saturating_add(4 * at as u16), pairs.map(join));
        }
        at += length + 1;
    }
}

/// Marker for four bits that are not written.
const UNCHANGED: (u8, u8) = (u8::MAX, 0);

fn updated(digit: Digit) -> (u8, u8) {
    if digit == Digit::Unchanged { UNCHANGED } else { nibble(digit) }
}

/// The bytes of a value, the lowest first, each with the mask of its known bits; at most `width` bits.
fn bytes(value: Value<'_>, width: Option<usize>) -> impl Iterator<Item = (u8, u8)> {
    let width = width.unwrap_or(MAX_BITS).min(MAX_BITS);
    let mut digits = value.digits().rev();
    (0..width).step_by(8).map_while(move |at| {
        let (low, high) = (nibble(digits.next()?), digits.next().map_or((0, 0), nibble));
        let within = 0xff_u8 >> (8 - (width - at).min(8));
        let known = (low.1 | high.1 << 4) & within;
        Some(((low.0 | high.0 << 4) & known, known))
    })
}

fn nibble(digit: Digit) -> (u8, u8) {
    match digit {
        Digit::Known(bits) => (bits, 0xf),
        Digit::Unknown | Digit::Unchanged => (0, 0),
    }
}

/// An annotated access that several lines or none represent.
#[derive(Debug)]
pub(super) struct CompoundAccess {
    /// The line of the annotation.
    pub(super) line: u64,
    pub(super) direction: model::Direction,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) is_tagged: bool,
    /// Number of following access lines that are parts of it.
    pub(super) lines: u32,
    /// The data, if the parts do not contain it.
    pub(super) bytes: Vec<(u8, u8)>,
}

/// Appends the effects of a step of a lowered log, with the accesses whose annotations precede `line`.
pub(super) fn push_lowered_effects(
    step: Option<&lift::Step>,
    parts: &mut Vec<CompoundAccess>,
    line: u64,
    out: &mut Step,
) {
    let registers = step.iter().flat_map(|step| step.registers.iter().map(move |register| (step, register)));
    for (step, written) in registers {
        let name = str::from_utf8(step.text(&written.name)).unwrap_or_default();
        let first = written.bits.map_or(0, |(_, low)| low);
        match name.strip_prefix('W').filter(|number| written.bits.is_none() && number.parse::<u8>().is_ok()) {
            // The lower half of a general-purpose register.
            Some(number) => out.write_register_known(&format!("x{number}"), first, bytes(step.value(written), None)),
            None => out.write_register_known(name, first, bytes(step.value(written), None)),
        }
    }
    let mut accesses = step.map_or(&[][..], |step| &step.accesses[..]).iter().peekable();
    let before = parts.iter().take_while(|compound| compound.line < line).count();
    for compound in parts.drain(..before) {
        while let Some(access) = accesses.next_if(|access| access.line < compound.line) {
            step.iter().for_each(|step| push_access(step, access, out));
        }
        let own_lines = accesses.by_ref().take(compound.lines as usize);
        let bytes: Vec<(u8, u8)> =
            own_lines.flat_map(|access| step.into_iter().flat_map(|step| step.data(access).map(known))).collect();
        push_compound_access(&compound, &bytes, out);
    }
    for access in accesses {
        step.iter().for_each(|step| push_access(step, access, out));
    }
}

/// Appends an annotated access, with the data of its annotation or of its lines.
fn push_compound_access(access: &CompoundAccess, bytes: &[(u8, u8)], out: &mut Step) {
    let is_known = bytes.iter().any(|(_, known)| *known != 0) && access.direction != model::Direction::Both
        || !access.bytes.is_empty();
    let bytes = if access.bytes.is_empty() { bytes } else { &access.bytes };
    out.access_known(access.direction, access.address, access.size, bytes.iter().copied().filter(|_| is_known));
    if access.is_tagged {
        out.tag_last_access();
    }
}

fn known(byte: Option<u8>) -> (u8, u8) {
    byte.map_or((0, 0), |byte| (byte, 0xff))
}

/// Appends an access, if it is an effect. An aborted or failed access has no direction; an
/// access without known data has no bytes.
fn push_access(step: &lift::Step, access: &MemoryAccess, out: &mut Step) {
    let Some(address) = access.address.filter(|_| access.is_effect()) else { return };
    let size = u64::from(access.size);
    let direction = match access.direction {
        _ if access.is_aborted || access.is_failed => return out.access(model::Direction::Neither, address, size),
        Direction::Read => model::Direction::Read,
        Direction::Write => model::Direction::Write,
    };
    let is_known = step.data(access).any(|byte| byte.is_some());
    if let Some(second) = second_of_pair(step, access, out) {
        let first = step.data(access).take(8).map(known);
        return out.access_known(direction, address, size, first.chain(second));
    }
    out.access_known(direction, address, size, step.data(access).filter(|_| is_known).map(known));
}

/// The second half of the data of `LDP Xt1, Xt2`, from the register that it loads, if the log has only the first half: gem5
/// prints 64 bits of data, however wide the access is. Registers come before accesses.
fn second_of_pair(step: &lift::Step, access: &MemoryAccess, out: &Step) -> Option<[(u8, u8); 8]> {
    if access.size != 16 || access.direction != Direction::Read || !step.data(access).skip(8).all(|byte| byte.is_none())
    {
        return None;
    }
    let instruction = step.instruction().filter(|instruction| instruction.set == Some(InstructionSet::O))?;
    let opcode = instruction.opcode.filter(|opcode| opcode & PAIR_MASK == LOAD_PAIR_64)?;
    let number = opcode >> 10 & 0x1f;
    let is_second = |name: &str| name.strip_prefix('x').is_some_and(|digits| digits.parse() == Ok(number));
    let second = out.registers().find(|register| register.low == 0 && is_second(register.name))?;
    let bytes: [(u8, u8); 8] = second.bytes.try_into().ok()?;
    bytes.iter().all(|byte| byte.1 == 0xff).then_some(bytes)
}

/// `LDP` and `LDNP` of 64-bit general registers, with any addressing.
const PAIR_MASK: u32 = 0xfc40_0000;
const LOAD_PAIR_64: u32 = 0xa840_0000;
