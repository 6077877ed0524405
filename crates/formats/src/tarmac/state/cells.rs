//! Values of any width, with a mark for every bit: is it known, was it ever written?
//!
//! All lie in one vector, so that a copy of the state of a core costs next to nothing.

use super::super::registers::Slot;

/// The values of slots.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    cells: Vec<Cell>,
    words: Vec<u64>,
}

/// Where the value of a slot is: `words` words of value, as many of marks for what is known, as many for what was written.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    start: u32,
    words: u16,
    /// As many bits as were ever written.
    bits: u16,
    /// A write has replaced all of the register, however wide it is.
    is_whole: bool,
    line: u64,
}

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents<'a> {
    /// How many bits it has, as far as the log shows.
    pub bits: u16,
    /// The line of its last write.
    pub line: u64,
    value: &'a [u64],
    known: &'a [u64],
}

impl Contents<'_> {
    /// The number, if it is known and has at most 64 bits that are not zero.
    pub fn number(&self) -> Option<u64> {
        let is_known = (0..usize::from(self.bits).div_ceil(64)).all(|at| {
            let bits = (usize::from(self.bits) - at * 64).min(64);
            let upper_is_zero = at == 0 || self.value[at] == 0;
            self.known[at] | !mask(bits) == u64::MAX && upper_is_zero
        });
        is_known.then(|| self.value[0])
    }

    /// Four bits: the value and what of it is known; the lowest digit is the first.
    pub fn digit(&self, index: usize) -> (u8, u8) {
        let (at, shift) = (index / 16, index % 16 * 4);
        let of = |words: &[u64]| words.get(at).map_or(0, |word| (word >> shift & 15) as u8);
        (of(self.value), of(self.known))
    }

    /// How many digits it has.
    pub fn digits(&self) -> usize {
        usize::from(self.bits).div_ceil(4)
    }

    /// Is any bit of it known?
    pub fn is_any_known(&self) -> bool {
        self.known.iter().any(|word| *word != 0)
    }

    /// Its value with `x` for digits that are not known, the highest digit first.
    pub fn text(&self) -> String {
        let digit = |index| match self.digit(index) {
            (value, 15) => char::from_digit(value.into(), 16).unwrap_or('x'),
            _ => 'x',
        };
        (0..self.digits()).rev().map(digit).collect()
    }

    pub(crate) fn words(&self) -> (&[u64], &[u64]) {
        (self.value, self.known)
    }
}

impl Cells {
    /// What a slot holds, if it was ever written.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<Contents<'_>> {
        let cell = self.cells.get(usize::from(slot.0)).filter(|cell| cell.words > 0)?;
        let (start, words) = (cell.start as usize, usize::from(cell.words));
        Some(Contents {
            bits: cell.bits,
            line: cell.line,
            value: &self.words[start..start + words],
            known: &self.words[start + words..start + 2 * words],
        })
    }

    /// Slots up to the last that was ever written.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.cells.len() as u16).map(Slot)
    }

    /// Writes up to 64 bits at `low`; those of `known` are known.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, low: usize, bits: usize, value: u64, known: u64) {
        let cell = self.room(slot, low + bits);
        let (start, words) = (cell.start as usize, usize::from(cell.words));
        let (at, shift) = (low / 64, low % 64);
        let put = |word: &mut u64, mask: u64, value: u64| *word = *word & !mask | value & mask;
        let within = mask(bits);
        for (plane, value) in [(0, value), (1, known), (2, u64::MAX)] {
            let place = start + plane * words + at;
            put(&mut self.words[place], within << shift, value << shift);
            if shift + bits > 64 {
                put(&mut self.words[place + 1], within >> (64 - shift), value >> (64 - shift));
            }
        }
    }

    /// The register has at least so many bits.
    pub(crate) fn widen(&mut self, slot: Slot, bits: usize) {
        self.room(slot, bits);
    }

    /// Bits become zero, and known.
    pub(crate) fn clear(&mut self, slot: Slot, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let bits = (to - at).min(64);
            self.set(slot, at, bits, 0, u64::MAX);
            at += bits;
        }
    }

    /// A write has replaced all of the register up to `bits`: what is above becomes zero.
    #[inline]
    pub(crate) fn replace(&mut self, slot: Slot, bits: usize) {
        let cell = self.room(slot, bits);
        cell.is_whole = true;
        let all = usize::from(cell.bits);
        if all > bits {
            self.clear(slot, bits, all);
        }
    }

    /// Has a write ever replaced all of it?
    pub(crate) fn is_whole(&self, slot: Slot) -> bool {
        self.cells.get(usize::from(slot.0)).is_some_and(|cell| cell.is_whole)
    }

    /// Says when a slot was written last.
    #[inline]
    pub(crate) fn written(&mut self, slot: Slot, line: u64) {
        if let Some(cell) = self.cells.get_mut(usize::from(slot.0)) {
            cell.line = line;
        }
    }

    /// Takes over what was written to a slot in a later part of a log, whose lines are counted from `base`.
    pub(crate) fn overlay(&mut self, slot: Slot, later: &Self, from: Slot, base: u64) {
        let Some(cell) = later.cells.get(usize::from(from.0)).filter(|cell| cell.words > 0) else { return };
        let words = usize::from(cell.words);
        self.room(slot, cell.bits.into());
        let own = self.cells[usize::from(slot.0)];
        for at in 0..words.min(own.words.into()) {
            let theirs = |plane: usize| later.words[cell.start as usize + plane * words + at];
            let touched = theirs(2);
            for plane in 0..3 {
                let word = &mut self.words[own.start as usize + plane * usize::from(own.words) + at];
                *word = *word & !touched | theirs(plane) & touched;
            }
        }
        if cell.is_whole {
            self.replace(slot, cell.bits.into());
        }
        self.written(slot, cell.line + base);
    }

    /// The cell of a slot, with room for so many bits.
    #[inline]
    fn room(&mut self, slot: Slot, bits: usize) -> &mut Cell {
        let index = usize::from(slot.0);
        if index >= self.cells.len() {
            self.cells.resize(index + 1, Cell::default());
        }
        if usize::from(self.cells[index].words) * 64 < bits {
            self.grow(index, bits);
        }
        let old = usize::from(self.cells[index].bits);
        if old < bits {
            self.cells[index].bits = bits as u16;
            if self.cells[index].is_whole {
                // What was cleared, however wide it is.
                self.clear(slot, old, bits);
            }
        }
        &mut self.cells[index]
    }

    #[cold]
    fn grow(&mut self, index: usize, bits: usize) {
        let old = self.cells[index];
        let words = bits.div_ceil(64).next_power_of_two();
        let start = self.words.len();
        self.words.resize(start + 3 * words, 0);
        for plane in 0..3 {
            let from = old.start as usize + plane * usize::from(old.words);
            self.words.copy_within(from..from + usize::from(old.words), start + plane * words);
        }
        self.cells[index] = Cell { start: start as u32, words: words as u16, ..old };
    }
}

/// So many ones.
#[inline(always)]
fn mask(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
