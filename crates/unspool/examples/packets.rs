//! Counts the packets of each source of a capture by kind: `packets CAPTURE`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: packets CAPTURE")?;
    run(&path, &mut stdout().lock())
}

pub(crate) fn run(path: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let trace = unspool::open(path)?;
    let mut counts: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    for item in trace.packets()? {
        let item = item?;
        let kind = item.packet.map_or("malformed", |packet| packet.value.kind().name());
        *counts.entry((item.source, kind)).or_default() += 1;
    }
    for ((source, kind), count) in counts {
        writeln!(out, "{}: {count} {kind}", trace.sources()[source])?;
    }
    Ok(())
}
