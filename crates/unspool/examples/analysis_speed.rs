//! Traces for measuring the speed of analyses, and the speed of reading them alone.
//!
//! ```text
//! cargo run --release --features measure --example analysis_speed -- OUT [--random] [--instructions N] [--seed N] [--change]
//! cargo run --release --features measure --example analysis_speed -- --read TRACE
//! ```
//!
//! The name of OUT selects the format: .astf, .stf, .zstf or .tarmac, compressed or not. By default the program is
//! repetitive: 64 blocks, each a loop of 16 rounds, whose accesses step through memory. With `--random` it has 8192
//! blocks that follow each other in random order, and accesses random addresses. Opcodes are real A64, and branches lead
//! where their opcodes say, so that a check has nothing to report. The same seed gives the same trace; `--change` alters
//! the accesses of the last 1000 instructions, for a comparison.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use unspool::astf::record::View;
use unspool::convert::{FileSink, Format, SinkOptions};
use unspool::file::{FileOptions, TraceFile};
use unspool::model::{Branch, Coverage, Direction, Event, Facet, Instruction, Step, StepSink, TimeUnit};
use unspool::tarmac::record::Record;
use unspool_testing::Random;

/// Runs of a measurement, of which the best counts.
const RUNS: usize = 3;

/// Address of the program.
const CODE: u64 = 0x40_0000;

/// Address of the memory that it accesses, and its size.
const MEMORY: u64 = 0x7000_0000;
const MEMORY_SIZE: u64 = 1 << 24;

/// Rounds of a loop.
const ROUNDS: u64 = 16;

/// Instructions whose accesses are altered.
const CHANGED: u64 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut path, mut is_read) = (None, false);
    let mut options = Options { is_random: false, instructions: 20_000_000, seed: 1, is_changed: false };
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().unwrap_or_default().parse::<u64>();
        match argument.as_str() {
            "--random" => options.is_random = true,
            "--change" => options.is_changed = true,
            "--read" => is_read = true,
            "--instructions" => options.instructions = number()?,
            "--seed" => options.seed = number()?,
            _ => path = Some(argument),
        }
    }
    let path = path.ok_or("usage: analysis_speed OUT, or --read TRACE")?;
    if is_read { measure(Path::new(&path)) } else { write(Path::new(&path), &options) }
}

struct Options {
    is_random: bool,
    instructions: u64,
    seed: u64,
    is_changed: bool,
}

/// Measures how fast the records of a trace can be read.
fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    let (mut best, mut count) = (f64::MAX, 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        count = read(path)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let (megabytes, millions) = (path.metadata()?.len() as f64 / 1e6, count as f64 / 1e6);
    println!("{millions:.1} M in {best:.3} s: {:.1} M/s, {:.0} MB/s", millions / best, megabytes / best);
    Ok(())
}

/// Reads the records of a trace, and uses fields of each. Returns the number of instructions.
fn read(path: &Path) -> Result<u64, Box<dyn Error>> {
    let (mut count, mut check) = (0_u64, 0);
    let progress = &mut |_: u64, _: u64| {};
    match TraceFile::open(path, &FileOptions::default())? {
        TraceFile::Astf(mut file) => {
            file.each(progress, |_, records| {
                for record in records {
                    if let View::Instruction(instruction) = View::new(record) {
                        count += 1;
                        check ^= instruction.pc() ^ instruction.ea() ^ u64::from(instruction.iword());
                    }
                }
                true
            })?;
        }
        TraceFile::Stf(mut file) => {
            let header = file.header()?.map_err(|_| "the header is damaged")?;
            file.each_instruction(&mut header.follower(), progress, |instruction| {
                count += 1;
                check ^= instruction.pc ^ u64::from(instruction.opcode);
                true
            })?;
        }
        TraceFile::Tarmac(mut file) => {
            file.each(progress, |_, line| {
                if let Record::Instruction(instruction) = &line.record {
                    count += 1;
                    check ^= instruction.address;
                }
                true
            })?;
        }
    }
    std::hint::black_box(check);
    Ok(count)
}

fn write(path: &Path, options: &Options) -> Result<(), Box<dyn Error>> {
    let name = path.to_string_lossy();
    let format = match name.as_ref() {
        name if name.contains(".tarmac") => Format::Tarmac,
        name if name.contains(".astf") => Format::Astf,
        _ => Format::Stf,
    };
    let facets = [Facet::Instructions, Facet::Opcodes, Facet::Branches, Facet::Accesses, Facet::Data, Facet::Registers];
    let sink_options = SinkOptions::for_path(format, path);
    let mut sink = FileSink::open(path, Coverage::of(&facets), TimeUnit::Unknown, &sink_options)?;
    let (mut machine, mut step) = (Machine::new(options), Step::default());
    for number in 0..options.instructions {
        machine.is_changed = options.is_changed && number + CHANGED >= options.instructions;
        machine.step(&mut step);
        step.position = number;
        sink.push(&step)?;
    }
    sink.finish()?;
    sink.keep()?;
    println!("{} instructions", options.instructions);
    Ok(())
}

/// An operation without a branch.
#[derive(Debug, Clone, Copy)]
enum Operation {
    /// ADD, SUB, EOR: writes a register.
    Compute,
    /// LDR of this number of bytes.
    Load(usize),
    /// STR of this number of bytes.
    Store(usize),
}

/// Operations with the opcode that has zeros in place of registers and immediates, and the immediates that may be set.
const OPERATIONS: [(Operation, u32, u32); 8] = [
    (Operation::Compute, 0x9100_0000, 0x003f_fc00),
    (Operation::Compute, 0xd100_0000, 0x003f_fc00),
    (Operation::Compute, 0xca00_0000, 0x000f_0000),
    (Operation::Compute, 0x8b00_0000, 0x000f_0000),
    (Operation::Load(8), 0xf940_0000, 0x001f_fc00),
    (Operation::Load(4), 0xb940_0000, 0x001f_fc00),
    (Operation::Store(8), 0xf900_0000, 0x001f_fc00),
    (Operation::Store(4), 0xb900_0000, 0x001f_fc00),
];

/// BR X16.
const INDIRECT: u32 = 0xd61f_0200;

/// B.NE, with the offset to be added.
const NOT_EQUAL: u32 = 0x5400_0001;

/// Registers that are written: X0 to X15.
const NAMES: [&str; 16] =
    ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15"];

/// Straight-line code that ends in a branch.
struct Block {
    start: u64,
    code: Vec<(Operation, u32)>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    /// To this block, or to the next one.
    Conditional(usize),
    /// To any block.
    Indirect,
}

/// Program with the state of its execution.
struct Machine {
    blocks: Vec<Block>,
    random: Random,
    is_random: bool,
    is_changed: bool,
    block: usize,
    /// Index of the next instruction in the block.
    index: usize,
    /// Rounds of the current loop, and accesses so far.
    rounds: u64,
    accesses: u64,
}

impl Machine {
    fn new(options: &Options) -> Self {
        let (mut random, is_random) = (Random::new(options.seed), options.is_random);
        let count = if is_random { 1 << 13 } else { 1 << 6 };
        let (mut blocks, mut start) = (Vec::new(), CODE);
        for number in 0..count {
            let length = 2 + random.below(10) as usize;
            let code: Vec<_> = (0..length).map(|_| operation(&mut random)).collect();
            let is_last = number + 1 == count;
            let end = match is_random {
                _ if is_last => End::Indirect,
                true if random.below(4) == 0 => End::Indirect,
                true => End::Conditional(random.below(count as u64) as usize),
                false => End::Conditional(number),
            };
            blocks.push(Block { start, code, end });
            start += 4 * (length as u64 + 1);
        }
        Self { blocks, random, is_random, is_changed: false, block: 0, index: 0, rounds: 0, accesses: 0 }
    }

    /// Executes an instruction.
    fn step(&mut self, step: &mut Step) {
        step.clear();
        let block = &self.blocks[self.block];
        let address = block.start + 4 * self.index as u64;
        match block.code.get(self.index) {
            Some(&(operation, opcode)) => {
                step.event = instruction(address, opcode, None);
                self.index += 1;
                self.effect(operation, opcode, step);
            }
            None => step.event = self.branch(address),
        }
    }

    fn effect(&mut self, operation: Operation, opcode: u32, step: &mut Step) {
        let value = if self.is_random { self.random.bits() } else { self.accesses }.to_le_bytes();
        let register = NAMES[opcode as usize & 0xf];
        match operation {
            Operation::Compute => step.write_register(register, 0, &value),
            Operation::Load(size) => {
                let address = self.accessed();
                step.access_known(
                    Direction::Read,
                    address,
                    size as u64,
                    value[..size].iter().map(|byte| (*byte, 0xff)),
                );
                let loaded = if size == 8 { value } else { (u64::from_le_bytes(value) & 0xffff_ffff).to_le_bytes() };
                step.write_register(register, 0, &loaded);
            }
            Operation::Store(size) => {
                let address = self.accessed();
                let data = value[..size].iter().map(|byte| (*byte, 0xff));
                step.access_known(Direction::Write, address, size as u64, data);
            }
        }
    }

    /// Address of the next access.
    fn accessed(&mut self) -> u64 {
        self.accesses += 1;
        let number = if self.is_random { self.random.bits() >> 8 } else { self.accesses };
        let address = MEMORY + (number * 8) % MEMORY_SIZE;
        if self.is_changed { address ^ 8 } else { address }
    }

    /// Executes the branch at the end of the block.
    fn branch(&mut self, address: u64) -> Event {
        let end = self.blocks[self.block].end;
        self.rounds += 1;
        let (opcode, next) = match end {
            End::Indirect if self.is_random => (INDIRECT, Some(self.random.below(self.blocks.len() as u64) as usize)),
            End::Indirect => (INDIRECT, Some(0)),
            End::Conditional(to) => {
                let is_taken = if self.is_random { self.random.flip() } else { self.rounds < ROUNDS };
                let offset = self.blocks[to].start.wrapping_sub(address) as u32 >> 2;
                (NOT_EQUAL | (offset & 0x7_ffff) << 5, is_taken.then_some(to))
            }
        };
        self.rounds = if next == Some(self.block) { self.rounds } else { 0 };
        self.block = next.unwrap_or(self.block + 1);
        self.index = 0;
        let target = next.map(|_| self.blocks[self.block].start);
        instruction(address, opcode, Some(Branch { taken: next.is_some(), target }))
    }
}

fn operation(random: &mut Random) -> (Operation, u32) {
    let (operation, opcode, immediate) = random.pick(&OPERATIONS);
    let registers = random.word() & 0x1ef;
    (operation, opcode | random.word() & immediate | registers)
}

fn instruction(address: u64, opcode: u32, branch: Option<Branch>) -> Event {
    Event::Instruction(Instruction { address, opcode: Some(opcode), length: 4, branch, ..Instruction::default() })
}
