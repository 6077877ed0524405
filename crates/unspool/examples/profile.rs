//! Shows where a trace spent its instructions: `profile TRACE`.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: profile TRACE")?;
    run(&path, &mut stdout().lock())
}

pub(crate) fn run(path: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let trace = unspool::open(path)?;
    let mut blocks: HashMap<(u64, u64), u64> = HashMap::new();
    let mut total = 0;
    for block in trace.blocks()? {
        let block = block?;
        *blocks.entry((block.start, block.end)).or_default() += u64::from(block.instructions);
        total += u64::from(block.instructions);
    }
    let mut hottest: Vec<_> = blocks.into_iter().collect();
    hottest.sort_unstable_by_key(|(range, count)| (std::cmp::Reverse(*count), *range));
    for ((start, end), count) in hottest.into_iter().take(5) {
        let share = 100.0 * count as f64 / total as f64;
        writeln!(out, "{share:5.1}% {start:#x}..{end:#x} {}", trace.function(start).unwrap_or("?"))?;
    }
    Ok(())
}
