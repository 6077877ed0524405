//! Pre-aggregated branches for BOLT, as `perf2bolt -pa` reads them.
//!
//! branches and ranges with counts, at link addresses of one program ─▶ [`write`](fn@write) ─▶ `B from to count mispredictions`, `F start end count`
//!
//! A trace does not show mispredictions: their number is 0. Specification: LLVM, `bolt/Profile/DataAggregator.h`.

use std::io::{self, Write};

/// Executions of a branch, or of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counted {
    /// The address of the branch, or of the first instruction of the range; 0: outside of the program.
    pub from: u64,
    /// The target of the branch, or the address of the last instruction of the range.
    pub to: u64,
    /// How often.
    pub count: u64,
}

/// Writes branches and what was executed between them.
pub fn write(branches: &[Counted], ranges: &[Counted], out: &mut dyn Write) -> io::Result<()> {
    for Counted { from, to, count } in branches {
        writeln!(out, "B {from:x} {to:x} {count} 0")?;
    }
    for Counted { from, to, count } in ranges {
        writeln!(out, "F {from:x} {to:x} {count}")?;
    }
    Ok(())
}
