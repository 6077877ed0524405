//! Numbers as bytes of Parquet pages: numbers of a dictionary, differences, and which rows have a value.
//!
//! Every width is a whole number of bytes. So packing is copying, and the compression finds what repeats.
//! Specification: Apache Parquet format, "Encodings".

use std::ops::{BitOr, BitXor};

use arrow_buffer::{BooleanBuffer, NullBuffer};

/// Values of a dictionary, at most: their numbers have two bytes.
const LARGEST: usize = 1 << 16;

/// Slots of a dictionary that are tried for a value.
const TRIED: usize = 64;

/// Differences of a block, and of each of its parts, which have a width of their own.
const BLOCK: usize = 1024;
const PART: usize = BLOCK / 4;

/// The values of a column, numbered in the order in which they come.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    values: Vec<u64>,
    /// A hash table with open addressing: the number of a value, plus one. 0: the slot is free.
    slots: Vec<u32>,
}

impl Dictionary {
    /// The values by number.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The number of a value. `None`: there is no room for another one.
    #[inline]
    pub(crate) fn number(&mut self, value: u64) -> Option<u16> {
        if self.values.len() * 2 >= self.slots.len() {
            self.grow();
        }
        for slot in self.slots_of(value) {
            match self.slots[slot].checked_sub(1) {
                Some(number) if self.values[number as usize] == value => return Some(number as u16),
                Some(_) => {}
                None if self.values.len() == LARGEST => return None,
                None => {
                    self.values.push(value);
                    self.slots[slot] = self.values.len() as u32;
                    return Some((self.values.len() - 1) as u16);
                }
            }
        }
        None
    }

    /// The slots that a value may be in. Hostile values may have the same ones, so that there are not many.
    #[inline]
    fn slots_of(&self, value: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.slots.len() - 1;
        // 2^64 divided by the golden ratio: the high bits depend on all bits of the value.
        let first = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.slots.len().trailing_zeros());
        (first as usize..).take(TRIED).map(move |slot| slot & mask)
    }

    fn grow(&mut self) {
        self.slots = vec![0; (self.slots.len() * 4).max(1 << 8)];
        for number in 0..self.values.len() {
            let free = self.slots_of(self.values[number]).find(|slot| self.slots[*slot] == 0);
            // A value without a slot gets another number when it comes again.
            if let Some(slot) = free {
                self.slots[slot] = number as u32 + 1;
            }
        }
    }

    /// The numbers of values. `None`: there is no room for all of them.
    pub(crate) fn numbers(&mut self, values: &[u64]) -> Option<Vec<u16>> {
        match values {
            [first, ..] if is_run(values) => Some(vec![self.number(*first)?; values.len()]),
            _ => values.iter().map(|value| self.number(*value)).collect(),
        }
    }

    /// Appends numbers of values to a page.
    pub(crate) fn encode(&self, numbers: &[u16], page: &mut Vec<u8>) {
        let is_wide = self.values.len() > 1 << 8;
        page.push(if is_wide { 16 } else { 8 });
        let is_run = is_run(numbers);
        let groups = numbers.len().div_ceil(8);
        varint(page, if is_run { (numbers.len() as u64) << 1 } else { (groups as u64) << 1 | 1 });
        let (stored, padded) = if is_run { (&numbers[..1], 1) } else { (numbers, groups * 8) };
        if is_wide {
            append(stored, padded, page, |number| number.to_le_bytes());
        } else {
            append(stored, padded, page, |number| [*number as u8]);
        }
    }
}

/// Whether all values are the same. Without an early end: then the compiler compares several at once.
fn is_run<T: Copy + BitXor<Output = T> + BitOr<Output = T> + Default + PartialEq>(values: &[T]) -> bool {
    let Some(first) = values.first() else { return false };
    values.iter().fold(T::default(), |bits, value| bits | *value ^ *first) == T::default()
}

/// Appends values of a fixed size, and zeros up to a number of values.
pub(crate) fn append<T, const N: usize>(values: &[T], padded: usize, page: &mut Vec<u8>, of: impl Fn(&T) -> [u8; N]) {
    let start = page.len();
    page.resize(start + padded * N, 0);
    for (bytes, value) in page[start..].chunks_exact_mut(N).zip(values) {
        bytes.copy_from_slice(&of(value));
    }
}

/// Appends a number, and differences of each of the next ones to the one before, to a page: `DELTA_BINARY_PACKED`.
pub(crate) fn differences(first: u64, mut rest: impl ExactSizeIterator<Item = i64>, page: &mut Vec<u8>) {
    [BLOCK, BLOCK / PART, rest.len() + 1].into_iter().for_each(|number| varint(page, number as u64));
    varint(page, zigzag(first as i64));
    while rest.len() > 0 {
        let mut block = [0; BLOCK];
        let count = rest.len().min(BLOCK);
        block.iter_mut().zip(rest.by_ref().take(count)).for_each(|(at, difference)| *at = difference);
        difference_block(&mut block[..count], page);
    }
}

/// Appends a block of differences: a base, and what they have more than it.
fn difference_block(block: &mut [i64], page: &mut Vec<u8>) {
    // Bytes stay as they are, so that the same differences are the same bytes in every block.
    let are_bytes = block.iter().fold(0, |bits, at| bits | *at as u64) < 1 << 8;
    let base = if are_bytes { 0 } else { block.iter().copied().min().unwrap_or_default() };
    varint(page, zigzag(base));
    block.iter_mut().for_each(|at| *at = at.wrapping_sub(base));
    let mut widths = [0; BLOCK / PART];
    for (width, part) in widths.iter_mut().zip(block.chunks(PART)) {
        let bits = 64 - part.iter().fold(0, |bits, at| bits | *at as u64).leading_zeros();
        *width = bits.div_ceil(8);
    }
    page.extend(widths.map(|width| width as u8 * 8));
    for (width, part) in widths.into_iter().zip(block.chunks(PART)) {
        match width {
            0 => {}
            1 => append(part, PART, page, |at| [*at as u8]),
            2 => append(part, PART, page, |at| (*at as u16).to_le_bytes()),
            _ => append_wide(part, width as usize, page),
        }
    }
}

/// Appends a part of a block whose differences are large.
fn append_wide(part: &[i64], width: usize, page: &mut Vec<u8>) {
    let end = page.len() + PART * width;
    part.iter().for_each(|at| page.extend_from_slice(&at.to_le_bytes()[..width]));
    page.resize(end, 0);
}

/// Appends which rows have a value: definition levels.
pub(crate) fn levels(nulls: Option<&NullBuffer>, rows: usize, page: &mut Vec<u8>) {
    match nulls.filter(|nulls| (1..rows).contains(&nulls.null_count())) {
        Some(nulls) => {
            let mut levels = Vec::new();
            varint(&mut levels, (rows.div_ceil(8) as u64) << 1 | 1);
            levels.extend_from_slice(&nulls.inner().sliced()[..rows.div_ceil(8)]);
            page.extend((levels.len() as u32).to_le_bytes());
            page.extend(levels);
        }
        None => same_levels(nulls.is_none_or(|nulls| nulls.null_count() == 0), rows, page),
    }
}

/// Appends that all rows have a value, or that none has.
pub(crate) fn same_levels(have_values: bool, rows: usize, page: &mut Vec<u8>) {
    let mut levels = Vec::new();
    varint(&mut levels, (rows as u64) << 1);
    levels.push(have_values.into());
    page.extend((levels.len() as u32).to_le_bytes());
    page.extend(levels);
}

/// Appends the values of rows that have one, as bits.
pub(crate) fn bits(values: &BooleanBuffer, nulls: Option<&NullBuffer>, page: &mut Vec<u8>) {
    let valid = nulls.map_or_else(|| BooleanBuffer::new_set(values.len()), |nulls| nulls.inner().clone());
    let (mut bits, mut count) = (0_u64, 0);
    for (values, mut valid) in values.bit_chunks().iter_padded().zip(valid.bit_chunks().iter_padded()) {
        while valid != 0 {
            bits |= (values >> valid.trailing_zeros() & 1) << count;
            count += 1;
            if count == 64 {
                page.extend(bits.to_le_bytes());
                (bits, count) = (0, 0);
            }
            valid &= valid - 1;
        }
    }
    page.extend(&bits.to_le_bytes()[..usize::div_ceil(count, 8)]);
}

/// Appends a number, seven bits to a byte.
fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A signed number as an unsigned one that is small if it is near to zero.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}
