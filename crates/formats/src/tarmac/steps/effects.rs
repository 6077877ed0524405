//! Registers and memory that lines show, as effects of a step.

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
}

impl Effects {
    pub(super) fn new() -> Self {
        let names = |is_a64| (0..Slot::NAMED.0).map(move |slot| Slot(slot).name(is_a64).unwrap_or_default()).collect();
        Self { names: [names(false), names(true)] }
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
        let meaning = scene.meaning(&Register { name, context, bits: written.bits, value, notes: b"" });
        let first = written.bits.map_or(0, |(_, low)| low);
        let width = written.bits.map(|(high, low)| usize::from(high.saturating_sub(low)) + 1);
        match &meaning {
            Meaning::Part(Part { slot, low, bits, is_fixed, .. }) => {
                let names = &self.names[usize::from(scene.is_a64 != Some(false))];
                let name = names.get(usize::from(slot.0)).map_or("", |name| name);
                let width = width.or(is_fixed.then_some(usize::from(*bits)));
                told.write_register_known(name, low.saturating_add(first), bytes(value, width));
            }
            Meaning::Named(name) => {
                let name = str::from_utf8(name.as_bytes()).unwrap_or_default();
                told.write_register_known(name, first, bytes(value, width));
            }
        }
    }
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
