//! Finds where a trace executed an address, and where it came from: `find_address TRACE ADDRESS`.

use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, path, address] = &args[..] else { return Err("usage: find_address TRACE ADDRESS".into()) };
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
    run(path, address, &mut stdout().lock())
}

pub(crate) fn run(path: &str, address: u64, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let trace = unspool::open(path)?;
    let (mut number, mut before) = (0_u64, None);
    for instruction in trace.instructions()? {
        let instruction = instruction?;
        number += 1;
        if instruction.address == address {
            let from = before.and_then(|before| trace.function(before)).unwrap_or("the start");
            writeln!(out, "instruction {number}, {} {:#x}, from {from}", trace.kind().unit(), instruction.position)?;
        }
        before = Some(instruction.address);
    }
    Ok(())
}
