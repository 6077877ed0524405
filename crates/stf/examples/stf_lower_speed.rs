//! Speed of lowering steps to STF and lifting them: `cargo run --release --features measure --example stf_lower_speed`.
//!
//! The steps are generated: plain ones, ones with accesses like those of ASTF, and ones with times, registers and data
//! like those of Tarmac logs.

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

/// Instructions of a loop, its rounds, and the number of measurements, of which the best counts.
const LOOP: u64 = 1000;
const ROUNDS: u64 = 5000;
const TIMES: usize = 5;

/// A sink that counts bytes.
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

/// A loop with some branches that are not taken, and a taken one at its end.
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
        bytes = lowered(Count(0), coverage, steps)?.0;
        Ok(())
    })?;
    let file = lowered(Vec::new(), coverage, steps)?;
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

/// Lowers all rounds of the loop.
fn lowered<S: RecordSink>(sink: S, coverage: Coverage, steps: &[Step]) -> Result<S, Box<dyn Error>> {
    let mut lowerer = Lowerer::new(sink, coverage, TimeUnit::Cycles, &LowerOptions::default())?;
    for _ in 0..ROUNDS {
        steps.iter().try_for_each(|step| lowerer.push(step))?;
    }
    lowerer.finish()?;
    Ok(lowerer.into_sink())
}

fn best(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut min = f64::MAX;
    for _ in 0..TIMES {
        let start = Instant::now();
        run()?;
        min = min.min(start.elapsed().as_secs_f64());
    }
    Ok(min)
}
