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

/// Where the value of a slot is: `words` words of value, as many of marks for what is known, as many for what was written,
/// and twice as many lines, one for every 32 bits.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    start: u32,
    words: u16,
    /// As many bits as were ever written.
    bits: u16,
    /// A write has replaced all of the register, however wide it is.
    is_whole: bool,
    /// The line of the last such write.
    whole: u64,
    line: u64,
}

/// As many words for one of a value.
const PLANES: usize = 5;

/// Bits that have a line of their own: the smallest registers that are parts of others.
const HALF: usize = 32;

/// What a register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents<'a> {
    /// How many bits it has, as far as the log shows.
    pub bits: u16,
    /// The line of its last write.
    pub line: u64,
    value: &'a [u64],
    known: &'a [u64],
    lines: &'a [u64],
}

impl Contents<'_> {
    /// The line of the last write to some bits; 0: they were never written. 32 bits have one together.
    pub fn line_of(&self, low: u16, bits: u16) -> u64 {
        let (low, end) = (usize::from(low), usize::from(low) + usize::from(bits));
        let lines = self.lines.get(low / HALF..end.div_ceil(HALF).min(self.lines.len())).unwrap_or_default();
        lines.iter().copied().max().unwrap_or(0)
    }

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

    /// The lines of every 32 bits.
    pub(crate) fn lines(&self) -> &[u64] {
        &self.lines[..usize::from(self.bits).div_ceil(HALF)]
    }
}

/// The lowest 64 bits of a register: what they are, which are known, which were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lowest {
    value: u64,
    known: u64,
    touched: u64,
    bits: u16,
}

impl Lowest {
    /// Nothing that was before matters.
    pub(crate) fn is_whole(&self) -> bool {
        self.touched == u64::MAX
    }

    /// What it is behind what was before.
    pub(crate) fn after(&self, before: &Self) -> Self {
        let mix = |own: u64, other: u64| other & !self.touched | own & self.touched;
        Self {
            value: mix(self.value, before.value),
            known: mix(self.known, before.known),
            touched: self.touched | before.touched,
            bits: self.bits.max(before.bits),
        }
    }

    /// The number, if it is known.
    pub(crate) fn number(&self) -> Option<u64> {
        let within = mask(self.bits.into());
        (self.known & within == within).then_some(self.value & within)
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
            lines: &self.words[start + 3 * words..start + PLANES * words],
        })
    }

    /// The lowest 64 bits of a slot, if it was ever written.
    #[inline]
    pub(crate) fn lowest(&self, slot: Slot) -> Option<Lowest> {
        let cell = self.cells.get(usize::from(slot.0)).filter(|cell| cell.words > 0)?;
        let of = |plane: usize| self.words[cell.start as usize + plane * usize::from(cell.words)];
        let (value, known, touched) = (of(0), of(1), of(2));
        // A write that replaces all clears what is above.
        let above = if cell.is_whole { !mask(cell.bits.into()) } else { 0 };
        Some(Lowest { value: value & !above, known: known | above, touched: touched | above, bits: cell.bits })
    }

    /// Slots up to the last that was ever written.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.cells.len() as u16).map(Slot)
    }

    /// Writes up to 64 bits at `low` on a line; those of `known` are known.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, (low, bits): (usize, usize), value: u64, known: u64, line: u64) {
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
        let lines = start + 3 * words;
        self.words[lines + low / HALF..lines + (low + bits).div_ceil(HALF)].fill(line);
    }

    /// The register has at least so many bits.
    pub(crate) fn widen(&mut self, slot: Slot, bits: usize) {
        self.room(slot, bits);
    }

    /// Bits become zero, and known.
    pub(crate) fn clear(&mut self, slot: Slot, from: usize, to: usize, line: u64) {
        let mut at = from;
        while at < to {
            let bits = (to - at).min(64);
            self.set(slot, (at, bits), 0, u64::MAX, line);
            at += bits;
        }
    }

    /// A write has replaced all of the register up to `bits`: what is above becomes zero.
    #[inline]
    pub(crate) fn replace(&mut self, slot: Slot, bits: usize, line: u64) {
        let cell = self.room(slot, bits);
        (cell.is_whole, cell.whole) = (true, line);
        let all = usize::from(cell.bits);
        if all > bits {
            self.clear(slot, bits, all, line);
        }
    }

    /// The line of the last write that replaced all of it.
    pub(crate) fn whole(&self, slot: Slot) -> Option<u64> {
        self.cells.get(usize::from(slot.0)).filter(|cell| cell.is_whole).map(|cell| cell.whole)
    }

    /// Puts back the lines of every 32 bits.
    pub(crate) fn restore_lines(&mut self, slot: Slot, lines: &[u64]) {
        if let Some(cell) = self.cells.get(usize::from(slot.0)) {
            let start = cell.start as usize + 3 * usize::from(cell.words);
            let count = lines.len().min(2 * usize::from(cell.words));
            self.words[start..start + count].copy_from_slice(&lines[..count]);
        }
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

/// So many ones.
#[inline(always)]
fn mask(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
