//! Counts branches and how often each conditional one was taken: `branches TRACE`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: branches TRACE")?;
    run(&path, &mut stdout().lock())
}

pub(crate) fn run(path: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let mut branches: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for instruction in unspool::open(path)?.instructions()? {
        let instruction = instruction?;
        if let Some(branch) = instruction.branch {
            branches.entry(instruction.address).or_default()[usize::from(branch.taken)] += 1;
        }
    }
    let total: u64 = branches.values().flatten().sum();
    writeln!(out, "{total} branches at {} addresses", branches.len())?;
    for (address, [not_taken, taken]) in branches.iter().filter(|(_, counts)| counts.iter().all(|count| *count > 0)) {
        writeln!(out, "{address:#x}: {taken} taken, {not_taken} not taken")?;
    }
    Ok(())
}
