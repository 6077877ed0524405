//! Registers and memory that lines show, as effects of a step.

use std::iter::repeat_n;
use std::ops::Range;

use unspool_model::{self as model, Step};

use super::super::lift::{self, Accessed, Written};
use super::super::record::{Direction, Purpose, Register};
use super::super::registers::{MOST_BITS, Meaning, Part, Scene, Slot};
use super::super::value::{Digit, Value};
use super::lowered::tell_whole;

/// The names of registers that everybody knows, those of AArch32 first.
pub(super) struct Effects {
    names: [Vec<String>; 2],
    /// Those of vectors that are longer than 128 bits.
    long: Vec<String>,
}

/// Digits of 128 bits.
const SHORT: usize = 32;

impl Effects {
    pub(super) fn new() -> Self {
        let names = |is_a64| (0..Slot::NAMED.0).map(move |slot| Slot(slot).name(is_a64).unwrap_or_default()).collect();
        Self { names: [names(false), names(true)], long: (0..32).map(|number| format!("z{number}")).collect() }
    }

    /// Tells what lines of a range show, in the order of the log: registers, and accesses.
    #[inline]
    pub(super) fn tell(&self, step: &lift::Step, lines: &Range<u64>, scene: &Scene, told: &mut Step) {
        for register in step.registers.iter().filter(|register| lines.contains(&register.line)) {
            self.register(step, register, scene, told);
        }
        for access in step.accesses.iter().filter(|access| lines.contains(&access.line)) {
            tell_access(step, access, told);
        }
    }

    fn register(&self, step: &lift::Step, written: &Written, scene: &Scene, told: &mut Step) {
        let value = step.value(written);
        let (name, context) = (step.text(&written.name), step.text(&written.context));
        let notes = step.text(&written.notes);
        let meaning = scene.meaning(&Register { name, context, bits: written.bits, value, notes });
        let first = written.bits.map_or(0, |(_, low)| low);
        let width = written.bits.map(|(high, low)| usize::from(high.saturating_sub(low)) + 1);
        match &meaning {
            Meaning::Part(Part { slot, low, bits, is_fixed, .. }) => {
                let names = match slot.0.checked_sub(Slot::V0.0) {
                    Some(number) if *bits == 0 && *slot < Slot::P0 && value.width() > SHORT => {
                        self.long.get(usize::from(number)..)
                    }
                    _ => self.names[usize::from(scene.is_a64 != Some(false))].get(usize::from(slot.0)..),
                };
                let name = names.and_then(|names| names.first()).map_or("", |name| name);
                let fixed = is_fixed.then_some(usize::from(*bits));
                write(told, name, low.saturating_add(first), value, Width { said: width, most: fixed });
            }
            Meaning::Named(name) => {
                let name = str::from_utf8(name.as_bytes()).unwrap_or_default();
                write(told, name, first, value, Width { said: width, most: None });
            }
        }
    }
}

/// How many bits a value has: what the line says, or at most.
#[derive(Clone, Copy)]
struct Width {
    said: Option<usize>,
    most: Option<usize>,
}

/// Tells the parts of a register that are written; dashes stand for those that are not.
#[inline]
fn write(told: &mut Step, name: &str, low: u16, value: Value<'_>, width: Width) {
    let most = width.said.or(width.most);
    if value.0.iter().fold(false, |is_found, byte| is_found | (*byte == b'-')) {
        return write_parts(told, name, low, value, most.unwrap_or(MOST_BITS));
    }
    match width.said {
        Some(bits) => write_filled(told, name, low, value, bits),
        None => told.write_register_known(name, low, bytes(value, most)),
    }
}

/// Writes this many bits of a register.
#[cold]
fn write_filled(told: &mut Step, name: &str, low: u16, value: Value<'_>, bits: usize) {
    let zeros = repeat_n((0, 0xff), missing_zeros(value, bits));
    told.write_register_known(name, low, bytes(value, Some(bits)).chain(zeros));
}

/// Zeros at the front may be left out: how many bytes of them, if the value has so many bits.
fn missing_zeros(value: Value<'_>, bits: usize) -> usize {
    let is_number = value.digits().next().is_some_and(|digit| digit != Digit::Unknown);
    if is_number { bits.div_ceil(8).saturating_sub(value.width().div_ceil(2)) } else { 0 }
}

#[cold]
fn write_parts(told: &mut Step, name: &str, low: u16, value: Value<'_>, most: usize) {
    let digits: Vec<(u8, u8)> = value.digits().rev().take(most / 4).map(updated).collect();
    let mut at = 0;
    while at < digits.len() {
        let length = digits[at..].iter().take_while(|digit| **digit != UNCHANGED).count();
        if length > 0 {
            let pairs = digits[at..at + length].chunks(2);
            let join = |pair: &[(u8, u8)]| {
                let high = pair.get(1).copied().unwrap_or_default();
                (pair[0].0 | high.0 << 4, pair[0].1 | high.1 << 4)
            };
            told.write_register_known(name, low.saturating_add(4 * at as u16), pairs.map(join));
        }
        at += length + 1;
    }
}

/// Stands for four bits that are not written.
const UNCHANGED: (u8, u8) = (u8::MAX, 0);

fn updated(digit: Digit) -> (u8, u8) {
    if digit == Digit::Unchanged { UNCHANGED } else { nibble(digit) }
}

/// The bytes of a value of so many bits, the lowest first, each with the bits that are known.
fn bytes(value: Value<'_>, width: Option<usize>) -> impl Iterator<Item = (u8, u8)> {
    let width = width.unwrap_or(MOST_BITS).min(MOST_BITS);
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

/// An access that following lines are parts of, or that none shows.
#[derive(Debug)]
pub(super) struct Parts {
    /// The line that says so.
    pub(super) line: u64,
    pub(super) direction: model::Direction,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) is_tagged: bool,
    /// So many accesses behind it are parts of it.
    pub(super) lines: u32,
    /// What was read or written, if the parts do not say.
    pub(super) bytes: Vec<(u8, u8)>,
}

/// Tells what the lines of a step show of a log that was lowered, and what remarks before a line say.
pub(super) fn tell_lowered(step: Option<&lift::Step>, parts: &mut Vec<Parts>, line: u64, told: &mut Step) {
    let registers = step.iter().flat_map(|step| step.registers.iter().map(move |register| (step, register)));
    for (step, written) in registers {
        let name = str::from_utf8(step.text(&written.name)).unwrap_or_default();
        let first = written.bits.map_or(0, |(_, low)| low);
        match name.strip_prefix('W').filter(|number| written.bits.is_none() && number.parse::<u8>().is_ok()) {
            // The lower half of a general register.
            Some(number) => told.write_register_known(&format!("x{number}"), first, bytes(step.value(written), None)),
            None => told.write_register_known(name, first, bytes(step.value(written), None)),
        }
    }
    let mut accesses = step.map_or(&[][..], |step| &step.accesses[..]).iter().peekable();
    let before = parts.iter().take_while(|whole| whole.line < line).count();
    for whole in parts.drain(..before) {
        while let Some(access) = accesses.next_if(|access| access.line < whole.line) {
            step.iter().for_each(|step| tell_access(step, access, told));
        }
        let of_it = accesses.by_ref().take(whole.lines as usize);
        let bytes: Vec<(u8, u8)> =
            of_it.flat_map(|access| step.into_iter().flat_map(|step| step.data(access).map(known))).collect();
        tell_whole(&whole, &bytes, told);
    }
    for access in accesses {
        step.iter().for_each(|step| tell_access(step, access, told));
    }
}

fn known(byte: Option<u8>) -> (u8, u8) {
    byte.map_or((0, 0), |byte| (byte, 0xff))
}

/// Fetches are no accesses of the instruction. What was aborted or failed was neither read nor written; where nothing is
/// known of what was, nothing is said.
fn tell_access(step: &lift::Step, access: &Accessed, told: &mut Step) {
    let Some(address) = access.address.filter(|_| access.purpose != Purpose::Fetch) else { return };
    let size = u64::from(access.size);
    let direction = match access.direction {
        _ if access.is_aborted || access.is_failed => return told.access(model::Direction::Neither, address, size),
        Direction::Read => model::Direction::Read,
        Direction::Write => model::Direction::Write,
    };
    let is_known = step.data(access).any(|byte| byte.is_some());
    told.access_known(direction, address, size, step.data(access).filter(|_| is_known).map(known));
}
