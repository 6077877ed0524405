//! Registers of a core.
//!
//! A name determines the slot of a value; what some names mean depends on the mode of the last instruction.

use std::collections::HashMap;

use super::super::record::{Instruction, InstructionSet, Register};
use super::super::registers::{Level, MAX_BITS, Meaning, Mode, NameContext, Part, Slot};
use super::super::short_text::ShortText;
use super::super::value::{Digit, Value};
use super::cells::{Cells, Contents, LowBits};

/// Maximum number of registers without a slot of their own. Others are ignored.
const MAX_NAMES: usize = 2048;

/// The mode as printed.
type ModeText = ShortText<15>;

/// Registers of a core, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct Registers {
    pub(crate) cells: Cells,
    names: Vec<Box<[u8]>>,
    found: HashMap<Box<[u8]>, u16>,
    name_context: NameContext,
    mode: ModeText,
    pub(crate) last_stack: Option<Slot>,
    pub(crate) last_link: Option<Slot>,
    line: u64,
}

/// Effect of a register write on the call stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touched {
    /// Whether it changed the current stack pointer.
    pub sp: bool,
    /// Whether it changed the current link register.
    pub lr: bool,
}

impl Registers {
    /// Sets the line of the following writes.
    #[inline]
    pub fn at_line(&mut self, line: u64) {
        self.line = line;
    }

    /// Takes an instruction, whose mode and instruction set determine what SP and d0 mean.
    #[inline]
    pub fn instruction(&mut self, instruction: &Instruction<'_>) {
        if let Some(set) = instruction.set {
            self.name_context.is_a64 = Some(set == InstructionSet::O);
        }
        if !is_same(self.mode.as_bytes(), instruction.mode) {
            self.set_mode(instruction.mode);
        }
    }

    pub(crate) fn set_mode(&mut self, mode: &[u8]) {
        self.mode = ModeText::of(mode);
        self.name_context.mode = Mode::of(mode);
        if self.name_context.is_a64.is_none() && self.name_context.mode.level != Level::Unknown {
            self.name_context.is_a64 = Some(matches!(self.name_context.mode.level, Level::El { .. }));
        }
    }

    /// The mode of the last instruction.
    pub fn mode(&self) -> Mode {
        self.name_context.mode
    }

    pub(crate) fn mode_text(&self) -> &[u8] {
        self.mode.as_bytes()
    }

    /// Whether the core is in AArch64; `None`: unknown.
    pub fn is_a64(&self) -> Option<bool> {
        self.name_context.is_a64
    }

    pub(crate) fn set_is_a64(&mut self, is_a64: Option<bool>) {
        self.name_context.is_a64 = is_a64;
    }

    /// Applies a register write.
    #[inline]
    pub fn update(&mut self, register: &Register<'_>) -> Touched {
        let part = match self.name_context.meaning(register) {
            Meaning::Part(part) => part,
            Meaning::Named(name) => match self.add_name(name.as_bytes()) {
                Some(slot) => Part { slot, low: 0, bits: 0, is_fixed: false, clears: true },
                None => return Touched::default(),
            },
        };
        if !self.write(part, register.bits, register.value) {
            return Touched::default();
        }
        self.cells.written(part.slot, self.line);
        self.touched(part.slot)
    }

    #[inline]
    fn touched(&mut self, slot: Slot) -> Touched {
        if slot.is_stack_pointer() {
            self.last_stack = Some(slot);
        } else if slot.is_link() {
            self.last_link = Some(slot);
        } else if slot != Slot::X30 {
            return Touched::default();
        }
        Touched { sp: slot.is_stack_pointer() && self.sp_slot() == Some(slot), lr: self.lr_slot() == Some(slot) }
    }

    /// The current stack pointer, if it is known.
    #[inline]
    pub fn sp(&self) -> Option<u64> {
        self.cells.get(self.sp_slot()?)?.number()
    }

    /// The current link register, if it is known.
    #[inline]
    pub fn lr(&self) -> Option<u64> {
        self.cells.get(self.lr_slot()?)?.number()
    }

    /// General-purpose register 0 to 12, which has the same name in every mode but FIQ.
    pub fn general(&self, number: u8) -> Option<u64> {
        self.cells.get(Slot::X0.at(number))?.number()
    }

    fn sp_slot(&self) -> Option<Slot> {
        let slot = self.stack_slot();
        // Some producers print no mode, or names that do not match it.
        self.cells.get(slot).map(|_| slot).or(self.last_stack)
    }

    /// The stack pointer, as far as these registers determine it.
    #[inline]
    pub(crate) fn stack(&self) -> Pointer {
        self.pointer(self.stack_slot(), self.last_stack, true)
    }

    /// The link register, as far as these registers determine it.
    #[inline]
    pub(crate) fn link(&self) -> Pointer {
        let slot = self.name_context.lr();
        self.pointer(slot, self.last_link, slot != Slot::X30)
    }

    #[inline]
    fn pointer(&self, slot: Slot, last: Option<Slot>, has_other: bool) -> Pointer {
        let own = self.cells.low_bits(slot);
        if let Some(own) = own.filter(LowBits::is_whole) {
            return Pointer::Is(own.number());
        }
        let other = last.and_then(|slot| self.cells.low_bits(slot).map(|low_bits| (slot, low_bits)));
        Pointer::Depends { slot, own, has_other, other: other.filter(|_| has_other && own.is_none()) }
    }

    fn stack_slot(&self) -> Slot {
        match self.name_context.mode.level {
            Level::Thread | Level::Handler if self.cells.get(Slot::SP).is_some() => Slot::SP,
            Level::Thread | Level::Handler => self.name_context.stack(self.is_process_stack()),
            _ => self.name_context.sp(),
        }
    }

    fn lr_slot(&self) -> Option<Slot> {
        let slot = self.name_context.lr();
        if slot == Slot::X30 {
            return Some(slot);
        }
        self.cells.get(slot).map(|_| slot).or(self.last_link)
    }

    /// Whether CONTROL selects the process stack in Thread mode.
    fn is_process_stack(&self) -> bool {
        let control = self.found.get(&b"control"[..]).and_then(|slot| self.cells.get(Slot(*slot)));
        control.and_then(|control| control.number()).is_some_and(|control| control & 2 != 0)
    }

    /// Passes on every register that was ever written: slot, name and value.
    pub fn each(&self, mut sink: impl FnMut(Slot, &str, Contents<'_>)) {
        for slot in self.cells.slots() {
            if let Some(contents) = self.cells.get(slot) {
                sink(slot, &self.name(slot), contents);
            }
        }
    }

    /// Name of a register in the current state.
    pub fn name(&self, slot: Slot) -> String {
        let named = || {
            let name = slot.0.checked_sub(Slot::NAMED.0).and_then(|at| self.names.get(usize::from(at)));
            name.map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default()
        };
        slot.name(self.name_context.is_a64 != Some(false)).unwrap_or_else(named)
    }

    /// The register of a name in the current state, with its lowest bit and number of bits.
    pub fn find(&self, name: &str) -> Option<(Slot, u16, Option<u16>)> {
        match self.name_context.meaning(&Register { name: name.as_bytes(), ..Register::default() }) {
            Meaning::Part(Part { slot: Slot::SP, .. }) => Some((self.sp_slot()?, 0, None)),
            Meaning::Part(Part { slot: Slot::LR, .. }) => Some((self.lr_slot()?, 0, None)),
            Meaning::Part(part) => Some((part.slot, part.low, Some(part.bits).filter(|bits| *bits > 0))),
            Meaning::Named(name) => self.found.get(name.as_bytes()).map(|slot| (Slot(*slot), 0, None)),
        }
    }

    /// The value of a register, if it was ever written.
    pub fn get(&self, slot: Slot) -> Option<Contents<'_>> {
        self.cells.get(slot)
    }

    /// The slot of a name without one, allocated if needed. `None`: there are too many.
    pub(crate) fn add_name(&mut self, name: &[u8]) -> Option<Slot> {
        if let Some(slot) = self.found.get(name) {
            return Some(Slot(*slot));
        }
        if self.names.len() >= MAX_NAMES {
            return None;
        }
        let slot = Slot::NAMED.0 + self.names.len() as u16;
        self.names.push(name.into());
        self.found.insert(name.into(), slot);
        Some(Slot(slot))
    }

    /// Names with an allocated slot, in slot order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    /// Applies the writes of a later part of the log, whose lines are counted from `base`.
    pub(crate) fn overlay(&mut self, later: &Self, base: u64) {
        for from in later.cells.slots() {
            let slot = match from.0.checked_sub(Slot::NAMED.0) {
                None => Some(from),
                Some(at) => later.names.get(usize::from(at)).and_then(|name| self.add_name(name)),
            };
            if let Some(slot) = slot {
                self.cells.overlay(slot, &later.cells, from, base);
            }
        }
        if later.name_context.is_a64.is_some() {
            self.name_context.is_a64 = later.name_context.is_a64;
        }
        if later.mode != ModeText::default() {
            (self.name_context.mode, self.mode) = (later.name_context.mode, later.mode);
        }
        self.last_stack = later.last_stack.or(self.last_stack);
        self.last_link = later.last_link.or(self.last_link);
    }

    /// Restores the value of a register. Returns false if there is no such register.
    pub(crate) fn restore(&mut self, slot: Slot, bits: u64, line: u64, value: &[u64], known: &[u64]) -> bool {
        let is_slot = usize::from(slot.0) < usize::from(Slot::NAMED.0) + self.names.len();
        let words = (bits as usize).div_ceil(64);
        if !is_slot || bits == 0 || bits > MAX_BITS as u64 || value.len() != words || known.len() != words {
            return false;
        }
        for (at, (value, known)) in value.iter().zip(known).enumerate() {
            self.cells.set(slot, (at * 64, (bits as usize - at * 64).min(64)), *value, *known, line);
        }
        self.cells.written(slot, line);
        true
    }

    /// Restores the line numbers of a register, and the line of the last write that replaced all of it.
    pub(crate) fn restore_lines(&mut self, slot: Slot, lines: &[u64], whole: Option<u64>) {
        self.cells.restore_lines(slot, lines);
        if let (Some(bits), Some(whole)) = (self.cells.get(slot).map(|contents| contents.bits.into()), whole) {
            self.cells.replace(slot, bits, whole);
        }
    }

    /// Writes a value. Returns false if it changes nothing.
    #[inline]
    fn write(&mut self, part: Part, range: Option<(u16, u16)>, value: Value<'_>) -> bool {
        let (low, high) = match range {
            Some((a, b)) => (usize::from(a.min(b)), Some(usize::from(a.max(b)))),
            None => (0, None),
        };
        let low = usize::from(part.low) + low;
        let width = |given: usize| match high {
            Some(high) => usize::from(part.low) + high + 1 - low,
            None if part.is_fixed => part.bits.into(),
            None => given.max(part.bits.into()),
        };
        let clears = part.clears && high.is_none();
        if let Some((number, digits)) = value.plain() {
            let bits = width(digits * 4);
            if bits <= 64 && low + bits <= MAX_BITS {
                self.cells.set(part.slot, (low, bits), number, u64::MAX, self.line);
                if clears {
                    self.cells.replace(part.slot, low + bits, self.line);
                }
                return true;
            }
        }
        let digits = value.width();
        let bits = width(digits * 4);
        if digits == 0 || low + bits > MAX_BITS {
            return false;
        }
        self.write_digits(part.slot, low, bits, clears, value)
    }

    /// Writes digit by digit; dashes leave their bits unchanged.
    fn write_digits(&mut self, slot: Slot, low: usize, bits: usize, clears: bool, value: Value<'_>) -> bool {
        let (mut at, mut changes, mut has_dashes, mut has_unknown) = (0, false, false, false);
        for digit in value.digits().rev() {
            if at >= bits {
                break;
            }
            let size = (bits - at).min(4);
            match digit {
                Digit::Known(value) => self.cells.set(slot, (low + at, size), value.into(), u64::MAX, self.line),
                Digit::Unknown => self.cells.set(slot, (low + at, size), 0, 0, self.line),
                Digit::Unchanged => {}
            }
            has_dashes |= digit == Digit::Unchanged;
            has_unknown |= digit == Digit::Unknown;
            changes |= digit != Digit::Unchanged;
            at += size;
        }
        if changes {
            self.cells.reserve(slot, low + bits);
        }
        // Omitted leading digits are zeros, but only if all others are known.
        if !has_dashes && !has_unknown && at < bits {
            self.cells.clear(slot, low + at, low + bits, self.line);
        }
        if clears && !has_dashes {
            self.cells.replace(slot, low + bits, self.line);
        }
        changes
    }
}

/// A stack pointer or link register, as far as a part of a log determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// Independent of earlier state; `None`: its value is unknown.
    Is(Option<u64>),
    /// Dependent on earlier state.
    Depends {
        /// The register of the mode.
        slot: Slot,
        /// Its value in this part.
        own: Option<LowBits>,
        /// Whether the last one written replaces it if it was never written.
        has_other: bool,
        /// That register and its value, if this part wrote one.
        other: Option<(Slot, LowBits)>,
    },
}

impl Pointer {
    /// The value, given the registers at the start of the part. `is_link`: it is a link register.
    pub(crate) fn resolve(&self, start: &Registers, is_link: bool) -> Option<u64> {
        let Self::Depends { slot, own, has_other, other } = self else {
            let Self::Is(number) = self else { return None };
            return *number;
        };
        let combined = |own: Option<LowBits>, slot: Slot| match (own, start.cells.low_bits(slot)) {
            (Some(own), Some(before)) => Some(own.after(&before)),
            (own, before) => own.or(before),
        };
        if let Some(low_bits) = combined(*own, *slot) {
            return low_bits.number();
        }
        if !has_other {
            return None;
        }
        let last = if is_link { start.last_link } else { start.last_stack };
        let (slot, own) = other.map(|(slot, own)| (slot, Some(own))).or_else(|| last.map(|slot| (slot, None)))?;
        combined(own, slot)?.number()
    }
}

/// Compares short texts without a function call, which would dominate.
#[inline(always)]
pub(super) fn is_same(text: &[u8], other: &[u8]) -> bool {
    text.len() == other.len() && text.iter().zip(other).all(|(a, b)| a == b)
}
