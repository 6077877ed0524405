//! Values of any width, with masks of the bits that are known and that were ever written.
//!
//! All values are in one vector, so that cloning the state of a core is cheap.

use std::ops::Range;

use super::super::registers::Slot;

/// Values by slot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cells {
    cells: Vec<Cell>,
    words: Vec<u64>,
}

/// Position of the value of a slot: `words` words of value, as many of the known mask, as many of the written mask, and
/// twice as many line numbers, one for every 32 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cell {
    start: u32,
    words: u16,
    /// Number of bits that were ever written.
    bits: u16,
    /// Whether a write has replaced the whole register, however wide it is.
    is_whole: bool,
    /// Line of the last such write.
    whole: u64,
    line: u64,
}

/// Number of stored words for each word of a value.
const PLANES: usize = 5;

/// Number of bits that share a line number: the width of the smallest registers that are parts of others.
const HALF: usize = 32;

/// Value of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents<'a> {
    /// Number of bits, as far as the log shows.
    pub bits: u16,
    /// Line of the last write.
    pub line: u64,
    value: &'a [u64],
    known: &'a [u64],
    lines: &'a [u64],
}

impl Contents<'_> {
    /// Line of the last write to a range of bits; 0: never written. 32 bits share a line number.
    pub fn line_of(&self, low: u16, bits: u16) -> u64 {
        let (low, end) = (usize::from(low), usize::from(low) + usize::from(bits));
        let lines = self.lines.get(low / HALF..end.div_ceil(HALF).min(self.lines.len())).unwrap_or_default();
        lines.iter().copied().max().unwrap_or(0)
    }

    /// The number, if it is known and only its lowest 64 bits are not zero.
    pub fn number(&self) -> Option<u64> {
        let is_known = (0..usize::from(self.bits).div_ceil(64)).all(|at| {
            let bits = (usize::from(self.bits) - at * 64).min(64);
            let upper_is_zero = at == 0 || self.value[at] == 0;
            self.known[at] | !mask(bits) == u64::MAX && upper_is_zero
        });
        is_known.then(|| self.value[0])
    }

    /// Value and known mask of four bits; index 0 is the least significant digit.
    pub fn digit(&self, index: usize) -> (u8, u8) {
        let (at, shift) = (index / 16, index % 16 * 4);
        let of = |words: &[u64]| words.get(at).map_or(0, |word| (word >> shift & 15) as u8);
        (of(self.value), of(self.known))
    }

    /// Number of digits.
    pub fn digits(&self) -> usize {
        usize::from(self.bits).div_ceil(4)
    }

    /// Whether any bit is known.
    pub fn is_any_known(&self) -> bool {
        self.known.iter().any(|word| *word != 0)
    }

    /// The value with `x` for unknown digits, the most significant digit first.
    pub fn text(&self) -> String {
        self.digit_text(0..self.digits())
    }

    /// A range of digits as text, counted from the least significant.
    pub(crate) fn digit_text(&self, digits: Range<usize>) -> String {
        let digit = |index| match self.digit(index) {
            (value, 15) => char::from_digit(value.into(), 16).unwrap_or('x'),
            _ => 'x',
        };
        digits.rev().map(digit).collect()
    }

    pub(crate) fn words(&self) -> (&[u64], &[u64]) {
        (self.value, self.known)
    }

    /// The line numbers, one for every 32 bits.
    pub(crate) fn lines(&self) -> &[u64] {
        &self.lines[..usize::from(self.bits).div_ceil(HALF)]
    }
}

/// The lowest 64 bits of a register: value, known mask and written mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LowBits {
    value: u64,
    known: u64,
    touched: u64,
    bits: u16,
}

impl LowBits {
    /// Whether all bits were written, so that earlier values do not matter.
    pub(crate) fn is_whole(&self) -> bool {
        self.touched == u64::MAX
    }

    /// The combined value after an earlier one.
    pub(crate) fn after(&self, before: &Self) -> Self {
        let mix = |own: u64, other: u64| other & !self.touched | own & self.touched;
        Self {
            value: mix(self.value, before.value),
            known: mix(self.known, before.known),
            touched: self.touched | before.touched,
            bits: self.bits.max(before.bits),
        }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        let within = mask(self.bits.into());
        (self.known & within == within).then_some(self.value & within)
    }
}

impl Cells {
    /// The value of a slot, if it was ever written.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<Contents<'_>> {
        let cell = self.cells.get(usize::from(slot.0)).filter(|cell| cell.words > 0)?;
        let (start, words) = (cell.start as usize, usize::from(cell.words));
        Some(Contents {
            bits: cell.bits,
            line: cell.line,
            value: &self.words[start..start + words],
            known: &self.words[start + words..start + 2 * words],
            lines: &self.words[start + 3 * words..start + PLANES * words],
        })
    }

    /// The lowest 64 bits of a slot, if it was ever written.
    #[inline]
    pub(crate) fn low_bits(&self, slot: Slot) -> Option<LowBits> {
        let cell = self.cells.get(usize::from(slot.0)).filter(|cell| cell.words > 0)?;
        let of = |plane: usize| self.words[cell.start as usize + plane * usize::from(cell.words)];
        let (value, known, touched) = (of(0), of(1), of(2));
        // A write that replaces the whole register clears the bits above.
        let above = if cell.is_whole { !mask(cell.bits.into()) } else { 0 };
        Some(LowBits { value: value & !above, known: known | above, touched: touched | above, bits: cell.bits })
    }

    /// Slots up to the last one that was ever written.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.cells.len() as u16).map(Slot)
    }

    /// Writes up to 64 bits at bit `low`; `known` is the mask of known bits.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, (low, bits): (usize, usize), value: u64, known: u64, line: u64) {
        let cell = self.reserve(slot, low + bits);
        let (start, words) = (cell.start as usize, usize::from(cell.words));
        let (at, shift) = (low / 64, low % 64);
        let put = |target: &mut u64, mask: u64, value: u64| *target = *target & !mask | value & mask;
        let within = mask(bits);
        for (plane, value) in [(0, value), (1, known), (2, u64::MAX)] {
            let word = start + plane * words + at;
            put(&mut self.words[word], within << shift, value << shift);
            if shift + bits > 64 {
                put(&mut self.words[word + 1], within >> (64 - shift), value >> (64 - shift));
            }
        }
        let lines = start + 3 * words;
        self.words[lines + low / HALF..lines + (low + bits).div_ceil(HALF)].fill(line);
    }

    /// Sets bits to a known zero.
    pub(crate) fn clear(&mut self, slot: Slot, from: usize, to: usize, line: u64) {
        let mut at = from;
        while at < to {
            let bits = (to - at).min(64);
            self.set(slot, (at, bits), 0, u64::MAX, line);
            at += bits;
        }
    }

    /// Records that a write replaced the whole register up to `bits`: bits above become zero.
    #[inline]
    pub(crate) fn replace(&mut self, slot: Slot, bits: usize, line: u64) {
        let cell = self.reserve(slot, bits);
        (cell.is_whole, cell.whole) = (true, line);
        let all = usize::from(cell.bits);
        if all > bits {
            self.clear(slot, bits, all, line);
        }
    }

    /// Line of the last write that replaced the whole register.
    pub(crate) fn whole(&self, slot: Slot) -> Option<u64> {
        self.cells.get(usize::from(slot.0)).filter(|cell| cell.is_whole).map(|cell| cell.whole)
    }

    /// Restores the line numbers.
    pub(crate) fn restore_lines(&mut self, slot: Slot, lines: &[u64]) {
        if let Some(cell) = self.cells.get(usize::from(slot.0)) {
            let start = cell.start as usize + 3 * usize::from(cell.words);
            let count = lines.len().min(2 * usize::from(cell.words));
            self.words[start..start + count].copy_from_slice(&lines[..count]);
        }
    }

    /// Sets the line of the last write.
    #[inline]
    pub(crate) fn written(&mut self, slot: Slot, line: u64) {
        if let Some(cell) = self.cells.get_mut(usize::from(slot.0)) {
            cell.line = line;
        }
    }

    /// Applies the writes to a slot in a later part of the log, whose lines are counted from `base`.
    pub(crate) fn overlay(&mut self, slot: Slot, later: &Self, from: Slot, base: u64) {
        let Some(cell) = later.cells.get(usize::from(from.0)).filter(|cell| cell.words > 0) else { return };
        let words = usize::from(cell.words);
        self.reserve(slot, cell.bits.into());
        let own = self.cells[usize::from(slot.0)];
        for at in 0..words.min(own.words.into()) {
            let theirs = |plane: usize| later.words[cell.start as usize + plane * words + at];
            let touched = theirs(2);
            for plane in 0..3 {
                let word = &mut self.words[own.start as usize + plane * usize::from(own.words) + at];
                *word = *word & !touched | theirs(plane) & touched;
            }
            for half in [2 * at, 2 * at + 1] {
                if touched >> (half % 2 * HALF) & mask(HALF) != 0 {
                    let line = later.words[cell.start as usize + 3 * words + half] + base;
                    self.words[own.start as usize + 3 * usize::from(own.words) + half] = line;
                }
            }
        }
        if cell.is_whole {
            self.replace(slot, cell.bits.into(), cell.whole + base);
        }
        self.written(slot, cell.line + base);
    }

    /// The cell of a slot, which becomes at least `bits` wide.
    #[inline]
    pub(super) fn reserve(&mut self, slot: Slot, bits: usize) -> &mut Cell {
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
                // The replacing write cleared these bits too.
                let line = self.cells[index].whole;
                self.clear(slot, old, bits, line);
            }
        }
        &mut self.cells[index]
    }

    #[cold]
    fn grow(&mut self, index: usize, bits: usize) {
        let old = self.cells[index];
        let words = bits.div_ceil(64).next_power_of_two();
        let start = self.words.len();
        self.words.resize(start + PLANES * words, 0);
        for (plane, times) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
            let from = old.start as usize + plane * usize::from(old.words);
            self.words.copy_within(from..from + times * usize::from(old.words), start + plane * words);
        }
        self.cells[index] = Cell { start: start as u32, words: words as u16, ..old };
    }
}

/// A mask of `bits` ones.
#[inline(always)]
fn mask(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
