//! Lists the functions that a trace executed, in the order of their first instruction: `functions TRACE`.

use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: functions TRACE")?;
    run(&path, &mut stdout().lock())
}

pub(crate) fn run(path: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let trace = unspool::open(path)?;
    let mut functions: Vec<(&str, u64)> = Vec::new();
    for block in trace.blocks()? {
        let block = block?;
        let name = trace.function(block.start).unwrap_or("?");
        match functions.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += u64::from(block.instructions),
            None => functions.push((name, block.instructions.into())),
        }
    }
    for (name, instructions) in functions {
        writeln!(out, "{name}: {instructions} instructions")?;
    }
    Ok(())
}
