//! Reads and writes of each line.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use unspool_model::Access;

use super::{reads, writes};
use crate::number_hash::Fibonacci;

/// Maximum number of lines; accesses of further ones are counted together.
const MAX_LINES: usize = 1 << 24;

/// Accesses of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Accesses that read.
    pub reads: u64,
    /// Accesses that write.
    pub writes: u64,
}

/// Accesses of all lines.
#[derive(Debug, Default)]
pub struct LineTotals {
    shift: u32,
    lines: HashMap<u64, Totals, BuildHasherDefault<Fibonacci>>,
    /// Accesses of lines that came when there were too many.
    pub others: Totals,
}

impl LineTotals {
    /// Counts accesses of lines of `1 << shift` bytes.
    pub fn new(shift: u32) -> Self {
        Self { shift: shift.min(63), ..Self::default() }
    }

    /// Counts an access.
    pub fn add(&mut self, access: &Access<'_>) {
        let line = access.address >> self.shift;
        let has_room = self.lines.len() < MAX_LINES || self.lines.contains_key(&line);
        let totals = if has_room { self.lines.entry(line).or_default() } else { &mut self.others };
        totals.reads += u64::from(reads(access));
        totals.writes += u64::from(writes(access));
    }

    /// The lines by their first address, in order.
    pub fn rows(&self) -> Vec<(u64, Totals)> {
        let rows = self.lines.iter().filter(|(_, totals)| **totals != Totals::default());
        let mut rows: Vec<(u64, Totals)> = rows.map(|(line, totals)| (line << self.shift, *totals)).collect();
        rows.sort_unstable_by_key(|(address, _)| *address);
        rows
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::{Direction, Step};

    use super::*;

    #[test]
    fn accesses_belong_to_the_line_of_their_first_byte() {
        use Direction::{Both, Neither, Read, Write};
        let rows = [(Read, 0x40), (Write, 0x7f), (Both, 0x80), (Neither, 0xc0), (Read, u64::MAX)];
        let mut step = Step::default();
        rows.iter().for_each(|(direction, address)| step.access(*direction, *address, 8));
        let mut lines = LineTotals::new(6);
        step.accesses().for_each(|access| lines.add(&access));
        let expected = [(0x40, 1, 1), (0x80, 1, 1), (0xffff_ffff_ffff_ffc0, 1, 0)];
        assert_eq!(lines.rows(), expected.map(|(address, reads, writes)| (address, Totals { reads, writes })));
    }
}
