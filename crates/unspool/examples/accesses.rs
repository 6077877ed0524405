//! Lists the memory accesses and register writes of a trace: `accesses TRACE`.

use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: accesses TRACE")?;
    run(&path, &mut stdout().lock())
}

pub(crate) fn run(path: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    for step in unspool::open(path)?.steps()? {
        let step = step?;
        let Some(instruction) = step.event.instruction() else { continue };
        for access in step.accesses() {
            let (direction, address, size) = (access.direction, access.address, access.size);
            writeln!(out, "{:#x}: {direction:?} {size} bytes at {address:#x}", instruction.address)?;
        }
        for register in step.registers() {
            let value: String = register.bytes.iter().rev().map(|(byte, _)| format!("{byte:02x}")).collect();
            writeln!(out, "{:#x}: {} = 0x{value}", instruction.address, register.name)?;
        }
    }
    Ok(())
}
