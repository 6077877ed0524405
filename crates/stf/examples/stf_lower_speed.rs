//! How fast steps become STF and are steps again: `cargo run --release --example stf_lower_speed`.
//!
//! Steps are made here, as sources tell them: plain ones, ones with accesses as ASTF has them, and ones with times,
//! registers and data as Tarmac logs have them.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io;
use std::ops::ControlFlow;
use std::time::Instant;

use unspool_model::{Branch, Coverage, Direction, Event, Facet, Instruction, Step, StepSink, StepSource, TimeUnit};
use unspool_stf::builder::RecordSink;
use unspool_stf::lower::{LowerOptions, Lowerer};
use unspool_stf::read::{ReadOptions, Reader};
use unspool_stf::steps::Steps;

/// Instructions of a loop, how often it is written, and how often that is measured; the best counts.
const LOOP: u64 = 1000;
const ROUNDS: u64 = 5000;
const TIMES: usize = 5;

/// Takes records and forgets them.
struct Count(u64);

impl RecordSink for Count {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.0 += std::hint::black_box(records).len() as u64;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let plain = Coverage::of(&[Facet::Instructions, Facet::Opcodes, Facet::Branches]);
    let accesses = plain.with(Facet::Accesses);
    let all = Coverage::of(&Facet::ALL);
    measure("plain", plain, &steps(|_, _| {}))?;
    let touch = |number: u64, step: &mut Step| {
        if number.is_multiple_of(3) {
            step.access(Direction::Read, 0xffff_8000_0000 + number * 8, 8);
        }
    };
    measure("accesses without data", accesses, &steps(touch))?;
    let effects = |number: u64, step: &mut Step| {
        step.time = Some(number);
        if let Event::Instruction(instruction) = &mut step.event {
            instruction.is_executed = Some(instruction.branch.is_none_or(|branch| branch.taken));
        }
        step.write_register("x1", 0, &number.to_le_bytes());
        if number.is_multiple_of(3) {
            step.access_known(Direction::Read, 0x8000 + number * 8, 8, [(7, 0xff); 8]);
        }
    };
    measure("times, registers, data", all, &steps(effects))
}

/// A loop: some of its instructions are branches that are not taken, and the last one is taken.
fn steps(change: impl Fn(u64, &mut Step)) -> Vec<Step> {
    let step = |number: u64| {
        let (opcode, branch) = match number {
            _ if number + 1 == LOOP => (0x17ff_fc19, Some(Branch { taken: true, target: Some(0x1000) })),
            _ if number.is_multiple_of(7) => (0xb400_0060, Some(Branch { taken: false, target: None })),
            _ => (0x8b01_0020, None),
        };
        let mut step = Step::default();
        let address = 0x1000 + number * 4;
        let opcode = Some(opcode);
        step.event = Event::Instruction(Instruction { address, opcode, length: 4, branch, ..Instruction::default() });
        change(number, &mut step);
        step
    };
    (0..LOOP).map(step).collect()
}

fn measure(name: &str, coverage: Coverage, steps: &[Step]) -> Result<(), Box<dyn Error>> {
    let instructions = (LOOP * ROUNDS) as f64 / 1e6;
    let mut bytes = 0;
    let write = best(|| {
        let sink = Count(0);
        let mut lowerer = Lowerer::new(sink, coverage, TimeUnit::Cycles, &LowerOptions::default())?;
        for _ in 0..ROUNDS {
            steps.iter().try_for_each(|step| lowerer.push(step))?;
        }
        lowerer.finish()?;
        bytes = lowerer.into_sink().0;
        Ok(())
    })?;
    let mut lowerer = Lowerer::new(Vec::new(), coverage, TimeUnit::Cycles, &LowerOptions::default())?;
    for _ in 0..ROUNDS {
        steps.iter().try_for_each(|step| lowerer.push(step))?;
    }
    lowerer.finish()?;
    let file = lowerer.into_sink();
    let read = best(|| {
        let reader = Reader::new(io::Cursor::new(file.clone()), ReadOptions { threads: 1 })?;
        let mut count = 0_u64;
        Steps::new(reader).each(&mut |step| {
            count += std::hint::black_box(step).position & 1;
            ControlFlow::Continue(())
        })?;
        std::hint::black_box(count);
        Ok(())
    })?;
    let size = bytes as f64 / 1e6 / instructions;
    println!(
        "{name:>24}: write {:5.1} M/s, lift {:5.1} M/s, {size:.1} bytes each",
        instructions / write,
        instructions / read
    );
    Ok(())
}

fn best(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut least = f64::MAX;
    for _ in 0..TIMES {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}
