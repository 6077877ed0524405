//! Functions of generated code by address, where later code replaces earlier code.
//!
//! Memory of a JIT compiler is used again: of functions that overlap, only the one that was written last exists.

use std::collections::BTreeMap;

use super::symbols::{SymbolList, Symbols};

/// The functions that exist, without overlaps.
#[derive(Debug, Default)]
pub(super) struct LatestFunctions<'a> {
    /// End address and name, by first address.
    functions: BTreeMap<u64, (u64, &'a str)>,
}

impl<'a> LatestFunctions<'a> {
    /// Adds a function and removes those that it overlaps. One without bytes is ignored.
    pub(super) fn insert(&mut self, address: u64, size: u64, name: &'a str) {
        let end = address.saturating_add(size);
        if end > address {
            self.remove(address, end);
            self.functions.insert(address, (end, name));
        }
    }

    /// Removes the functions that have bytes in this range.
    pub(super) fn remove(&mut self, address: u64, end: u64) {
        while let Some((&start, _)) = self.functions.range(..end).next_back().filter(|(_, (end, _))| *end > address) {
            self.functions.remove(&start);
        }
    }

    pub(super) fn symbols(&self) -> Symbols {
        let mut list = SymbolList::default();
        self.functions.iter().for_each(|(&start, &(end, name))| list.push(name, start, end - start, end, 0));
        list.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_functions_replace_earlier_ones() {
        let mut latest = LatestFunctions::default();
        for (address, size, name) in
            [(0, 0x10, "a"), (0x10, 0x10, "b"), (0x20, 0x10, "c"), (0x18, 0x10, "d"), (0x30, 0, "none"), (0, 0x10, "e")]
        {
            latest.insert(address, size, name);
        }
        latest.insert(u64::MAX - 1, 100, "last");
        let found = |address| latest.symbols().find(address).map(|(name, _)| name.to_string());
        let rows = [(0, Some("e")), (0xf, Some("e")), (0x10, None), (0x18, Some("d")), (0x27, Some("d")), (0x28, None)];
        rows.iter().for_each(|(address, name)| assert_eq!(found(*address).as_deref(), *name, "{address:#x}"));
        assert_eq!(found(u64::MAX - 1).as_deref(), Some("last"));
    }
}
