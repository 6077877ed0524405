//! Memory footprint of a trace: distinct bytes of code, distinct lines of data, distinct pages of both.
//!
//! Addresses are those of the trace: two processes that use the same address touch the same page. The number of pages
//! is limited; beyond the limit, further pages are ignored and the counts are lower bounds.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::number_hash::Fibonacci;

/// Page size in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Cache line size in bytes.
pub const LINE_BYTES: u64 = 64;

/// Maximum number of code pages: 256 MiB.
const CODE_PAGES: usize = 1 << 16;

/// Maximum number of data pages: 4 GiB.
const DATA_PAGES: usize = 1 << 20;

/// Maximum number of pages of one access; a larger access is a range that was not touched byte by byte.
const ACCESS_PAGES: u64 = 1 << 12;

/// Memory from which instructions were executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CodeFootprint {
    /// Distinct bytes.
    pub bytes: u64,
    /// Distinct pages.
    pub pages: u64,
    /// Whether the page limit was reached, so that the counts are lower bounds.
    pub is_lower_bound: bool,
}

/// Memory that was accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataFootprint {
    /// Distinct lines.
    pub lines: u64,
    /// Distinct pages.
    pub pages: u64,
    /// Whether the page limit was reached, so that the counts are lower bounds.
    pub is_lower_bound: bool,
}

/// Bit set of the executed halfwords of a page.
type Halfwords = [u64; 32];

#[derive(Debug)]
pub(super) struct CodePages {
    pages: Vec<Halfwords>,
    indexes: PageIndex,
    /// Number and index of the page that was used last.
    last: (u64, usize),
    is_full: bool,
}

impl Default for CodePages {
    fn default() -> Self {
        // No address is in page `u64::MAX`.
        Self { pages: Vec::new(), indexes: PageIndex::default(), last: (u64::MAX, 0), is_full: false }
    }
}

impl CodePages {
    #[inline]
    pub(super) fn add(&mut self, address: u64, length: u8) {
        self.halfword(address);
        if length > 2 {
            self.halfword(address.wrapping_add(2));
        }
    }

    #[inline]
    fn halfword(&mut self, address: u64) {
        let number = address / PAGE_BYTES;
        if self.last.0 != number && !self.find(number) {
            return;
        }
        let halfword = (address % PAGE_BYTES / 2) as usize;
        if let Some(page) = self.pages.get_mut(self.last.1) {
            page[halfword / 64] |= 1 << (halfword % 64);
        }
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> bool {
        let next = self.pages.len();
        let index = match self.indexes.get(&number) {
            Some(index) => *index as usize,
            None if next >= CODE_PAGES => {
                self.is_full = true;
                return false;
            }
            None => {
                self.pages.push([0; 32]);
                self.indexes.insert(number, next as u32);
                next
            }
        };
        self.last = (number, index);
        true
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.is_full |= other.is_full;
        for (number, index) in &other.indexes {
            if self.find(*number) {
                let halfwords = self.pages[self.last.1].iter_mut().zip(&other.pages[*index as usize]);
                halfwords.for_each(|(bits, others)| *bits |= others);
            }
        }
    }

    pub(super) fn finish(&self) -> CodeFootprint {
        let halfwords: u64 = self.pages.iter().flatten().map(|bits| u64::from(bits.count_ones())).sum();
        CodeFootprint { bytes: 2 * halfwords, pages: self.pages.len() as u64, is_lower_bound: self.is_full }
    }
}

/// Pages of data, each with a bit set of its accessed lines.
#[derive(Debug)]
pub(super) struct DataPages {
    pages: Vec<u64>,
    indexes: PageIndex,
    /// Cache of recently used pages, by the lowest bits of their numbers: number and index.
    last: [(u64, u32); LAST],
    is_full: bool,
}

/// Size of the page cache. Programs work on a few pages at a time.
const LAST: usize = 64;

impl Default for DataPages {
    fn default() -> Self {
        Self { pages: Vec::new(), indexes: PageIndex::default(), last: [(u64::MAX, 0); LAST], is_full: false }
    }
}

impl DataPages {
    #[inline]
    pub(super) fn add(&mut self, address: u64, size: u64) {
        let in_page = address % PAGE_BYTES;
        if size > 0 && size <= PAGE_BYTES - in_page {
            self.lines(address / PAGE_BYTES, in_page, in_page + size - 1);
        } else if size > 0 {
            self.add_pages(address, size);
        }
    }

    /// Adds an access to more than one page.
    #[inline(never)]
    fn add_pages(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size - 1);
        let (first, last) = (address / PAGE_BYTES, end / PAGE_BYTES);
        self.is_full |= last - first >= ACCESS_PAGES;
        for number in first..=last.min(first + ACCESS_PAGES - 1) {
            let from = if number == first { address % PAGE_BYTES } else { 0 };
            let to = if number == last { end % PAGE_BYTES } else { PAGE_BYTES - 1 };
            self.lines(number, from, to);
        }
    }

    /// Adds the lines of a range of bytes within one page.
    #[inline]
    fn lines(&mut self, number: u64, from: u64, to: u64) {
        let (from, to) = (from / LINE_BYTES, to / LINE_BYTES);
        let bits = u64::MAX << from & u64::MAX >> (63 - to);
        let (last, index) = self.last[number as usize % LAST];
        let index = if last == number { Some(index) } else { self.find(number) };
        if let Some(page) = index.and_then(|index| self.pages.get_mut(index as usize)) {
            *page |= bits;
        }
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> Option<u32> {
        let next = self.pages.len();
        let index = match self.indexes.get(&number) {
            Some(index) => *index,
            None if next >= DATA_PAGES => {
                self.is_full = true;
                return None;
            }
            None => {
                self.pages.push(0);
                self.indexes.insert(number, next as u32);
                next as u32
            }
        };
        self.last[number as usize % LAST] = (number, index);
        Some(index)
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.is_full |= other.is_full;
        for (number, index) in &other.indexes {
            if let Some(found) = self.find(*number) {
                self.pages[found as usize] |= other.pages[*index as usize];
            }
        }
    }

    pub(super) fn finish(&self) -> DataFootprint {
        let lines = self.pages.iter().map(|bits| u64::from(bits.count_ones())).sum();
        DataFootprint { lines, pages: self.pages.len() as u64, is_lower_bound: self.is_full }
    }
}

/// Indexes of pages by their numbers.
type PageIndex = HashMap<u64, u32, BuildHasherDefault<Fibonacci>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_code_are_counted_once() {
        type Row = (&'static str, &'static [(u64, u8)], u64, u64);
        let rows: [Row; 6] = [
            ("nothing", &[], 0, 0),
            ("twice", &[(0x1000, 4), (0x1000, 4)], 4, 1),
            ("two halves", &[(0x1000, 2), (0x1002, 2)], 4, 1),
            ("within another", &[(0x1000, 4), (0x1002, 4)], 6, 1),
            ("across pages", &[(0x1ffe, 4)], 4, 2),
            ("the last bytes of all", &[(u64::MAX - 3, 4)], 4, 1),
        ];
        for (name, instructions, bytes, pages) in rows {
            let mut code = CodePages::default();
            instructions.iter().for_each(|(address, length)| code.add(*address, *length));
            assert_eq!(code.finish(), CodeFootprint { bytes, pages, is_lower_bound: false }, "{name}");
        }
    }

    #[test]
    fn lines_of_data_are_counted_once() {
        type Row = (&'static str, &'static [(u64, u64)], u64, u64, bool);
        let rows: [Row; 8] = [
            ("nothing", &[(0x1000, 0)], 0, 0, false),
            ("one line", &[(0x1000, 8), (0x1038, 8)], 1, 1, false),
            ("across lines", &[(0x103c, 8)], 2, 1, false),
            ("a page", &[(0x1000, 4096)], 64, 1, false),
            ("across pages", &[(0x1ffc, 8)], 2, 2, false),
            ("three pages", &[(0x1fff, 4098)], 66, 3, false),
            ("the last bytes of all", &[(u64::MAX - 7, 8)], 1, 1, false),
            ("a range larger than any access", &[(0, 1 << 40)], 64 << 12, 1 << 12, true),
        ];
        for (name, accesses, lines, pages, is_lower_bound) in rows {
            let mut data = DataPages::default();
            accesses.iter().for_each(|(address, size)| data.add(*address, *size));
            assert_eq!(data.finish(), DataFootprint { lines, pages, is_lower_bound }, "{name}");
        }
    }

    #[test]
    fn the_number_of_pages_is_limited() {
        let (mut code, mut data) = (CodePages::default(), DataPages::default());
        for page in 0..=DATA_PAGES as u64 {
            data.add(page * PAGE_BYTES, 1);
        }
        for page in 0..=CODE_PAGES as u64 {
            code.add(page * PAGE_BYTES, 2);
        }
        let (code, data) = (code.finish(), data.finish());
        assert_eq!((code.pages, code.is_lower_bound), (CODE_PAGES as u64, true));
        assert_eq!((data.pages, data.is_lower_bound), (DATA_PAGES as u64, true));
    }
}
