//! Writes an STF file from scratch, as a simulator would: `write_stf OUT.stf`.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;

use unspool::convert::{FileSink, Format, SinkOptions};
use unspool::model::{Branch, Coverage, Direction, Event, Facet, Instruction, Step, StepSink, TimeUnit};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: write_stf OUT.stf")?;
    run(&path, &mut stdout().lock())
}

pub(crate) fn run(path: &str, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let coverage = Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Branches, Facet::Accesses, Facet::Data]);
    let options = SinkOptions::for_path(Format::Stf, Path::new(path));
    let mut sink = FileSink::open(Path::new(path), coverage, TimeUnit::Unknown, &options)?;
    for lap in 0..3_u8 {
        // str w1, [x0]
        let mut store = step(0x8000, 0xb900_0001, None);
        store.access_known(Direction::Write, 0x2_0000, 4, [lap, 0, 0, 0].map(|byte| (byte, 0xff)));
        sink.push(&store)?;
        // b.ne 0x8000
        let taken = lap < 2;
        sink.push(&step(0x8004, 0x54ff_ffe1, Some(Branch { taken, target: taken.then_some(0x8000) })))?;
    }
    sink.finish()?;
    sink.keep()?;
    writeln!(out, "{} instructions", unspool::open(path)?.instructions()?.count())?;
    Ok(())
}

fn step(address: u64, opcode: u32, branch: Option<Branch>) -> Step {
    let instruction = Instruction { address, opcode: Some(opcode), length: 4, branch, ..Instruction::default() };
    let mut step = Step::default();
    step.event = Event::Instruction(instruction);
    step
}
