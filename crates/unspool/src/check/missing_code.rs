//! Code that a capture executed and no image has.
//!
//! Takes the items of a flow; produces regions of memory, each with what could not be followed because of it. Memory is
//! bounded by [`MAX_PAGES`].

use std::collections::BTreeMap;
use std::fmt;

use unspool_flow::{Cause, FlowItem, Item, Space};

use crate::number::many;

/// Missing code is counted per page.
const PAGE_BITS: u32 = 12;

/// Pages that are counted separately.
const MAX_PAGES: usize = 1 << 16;

/// Regions that are listed.
const MAX_LISTED: usize = 10;

/// Addresses without code, counted per page.
#[derive(Debug, Default)]
pub struct MissingCode {
    /// What was lost to each page. There are at most sixteen spaces.
    spaces: Vec<(Space, BTreeMap<u64, Page>)>,
    pages: usize,
    /// P0 elements lost to pages beyond [`MAX_PAGES`].
    beyond: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    elements: u64,
    offset: u64,
}

/// Consecutive pages without code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingRegion {
    /// Space of the addresses.
    pub space: Space,
    /// First address.
    pub first: u64,
    /// Last address.
    pub last: u64,
    /// P0 elements that could not be followed.
    pub elements: u64,
    /// First offset in the trace at which code of the region was missing.
    pub offset: u64,
}

impl MissingCode {
    /// Adds an item, if it is about missing code.
    pub fn add(&mut self, item: &FlowItem) {
        let Ok(item) = item else { return };
        match item.value {
            Item::NoCode { address, space, .. } => self.add_address(address, space, 0, item.offset),
            Item::Lost { elements, cause: Cause::NoCode { address, space } } => {
                self.add_address(address, space, elements, item.offset);
            }
            _ => {}
        }
    }

    /// Adds what comes later in a trace, or in another one.
    pub fn merge(&mut self, later: &Self) {
        for (space, pages) in &later.spaces {
            let pages = pages.iter();
            pages.for_each(|(page, found)| self.add_address(page << PAGE_BITS, *space, found.elements, found.offset));
        }
        self.beyond += later.beyond;
    }

    fn add_address(&mut self, address: u64, space: Space, elements: u64, offset: u64) {
        let known = self.spaces.iter().position(|(of, _)| *of == space);
        let index = known.unwrap_or_else(|| {
            self.spaces.push((space, BTreeMap::new()));
            self.spaces.len() - 1
        });
        let pages = &mut self.spaces[index].1;
        let page = address >> PAGE_BITS;
        match pages.get_mut(&page) {
            Some(page) => page.elements += elements,
            None if self.pages < MAX_PAGES => {
                pages.insert(page, Page { elements, offset });
                self.pages += 1;
            }
            None => self.beyond += elements,
        }
    }

    /// Regions, the one with the most lost elements first.
    pub fn regions(&self) -> Vec<MissingRegion> {
        let mut regions: Vec<MissingRegion> = vec![];
        for (space, pages) in &self.spaces {
            for (&page, &Page { elements, offset }) in pages {
                let (first, last) = (page << PAGE_BITS, page << PAGE_BITS | ((1 << PAGE_BITS) - 1));
                match regions.last_mut() {
                    Some(region) if region.space == *space && region.last.checked_add(1) == Some(first) => {
                        region.last = last;
                        region.elements += elements;
                        region.offset = region.offset.min(offset);
                    }
                    _ => regions.push(MissingRegion { space: *space, first, last, elements, offset }),
                }
            }
        }
        regions.sort_by_key(|region| std::cmp::Reverse(region.elements));
        regions
    }

    /// P0 elements lost to all pages.
    pub fn elements(&self) -> u64 {
        let pages = self.spaces.iter().flat_map(|(_, pages)| pages.values());
        pages.map(|page| page.elements).sum::<u64>() + self.beyond
    }

    /// P0 elements lost to pages that are in no region, because there are too many.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The first regions as lines of a summary, and the total of the others.
    pub fn lines(&self) -> Vec<String> {
        let regions = self.regions();
        let mut lines: Vec<String> = regions.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        if regions.len() > MAX_LISTED {
            let rest = regions[MAX_LISTED..].iter().map(|region| region.elements).sum::<u64>() + self.beyond;
            let more = many((regions.len() - MAX_LISTED) as u64, "more region");
            lines.push(format!("no code in {more}: {} lost", many(rest, "P0 element")));
        }
        lines
    }
}

impl fmt::Display for MissingRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { space, first, last, elements, .. } = self;
        let end = u128::from(*last) + 1;
        write!(f, "no code in {first:#x}..{end:#x} of {space}: {} lost", many(*elements, "P0 element"))
    }
}

#[cfg(test)]
mod tests {
    use unspool_coresight::Security;

    use super::*;

    #[test]
    fn adjacent_missing_pages_are_one_region() {
        let [user, kernel] = [0, 1].map(|el| Space::new(Security::NonSecure, el));
        let mut missing = MissingCode::default();
        let rows = [
            (0x2000, user, 3),
            (0x1000, user, 1),
            (0x1ffc, user, 2),
            (0x2000, kernel, 5),
            (0x4000, user, 100),
            (u64::MAX, user, 0),
        ];
        (0..).zip(rows).for_each(|(offset, (address, space, elements))| {
            missing.add_address(address, space, elements, 100 + offset);
        });
        let expected = [
            "no code in 0x4000..0x5000 of EL0N: 100 P0 elements lost",
            "no code in 0x1000..0x3000 of EL0N: 6 P0 elements lost",
            "no code in 0x2000..0x3000 of EL1N: 5 P0 elements lost",
            "no code in 0xfffffffffffff000..0x10000000000000000 of EL0N: 0 P0 elements lost",
        ];
        assert_eq!(missing.lines(), expected);
        assert_eq!(missing.regions().iter().map(|region| region.offset).collect::<Vec<_>>(), [104, 100, 103, 105]);
    }

    #[test]
    fn ten_regions_are_listed_and_the_rest_is_counted() {
        let space = Space::new(Security::Secure, 3);
        let mut missing = MissingCode::default();
        // Every other page.
        (0..70_000_u64).for_each(|page| missing.add_address(page << 13, space, 1, 0));
        let lines = missing.lines();
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[10], "no code in 65,526 more regions: 69,990 P0 elements lost");
        assert_eq!(missing.beyond(), 70_000 - 65_536);
    }
}
