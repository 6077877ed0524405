//! Generator of traces of any size, repetitive or random:
//! `cargo run --release --features measure --example generate KIND MILLIONS PATH [SEED]`.
//!
//! ```text
//! generate repetitive 10 small.astf     a small loop over blocks, with few values and addresses
//! generate random 10 large.zstf         random branches over 800 KB of code, random values and addresses
//! ```
//!
//! The path selects the format: ASTF, STF or Tarmac by its extension, which also selects the compression; without one, a
//! capture of an ETE. The size is in million instructions. All formats of one kind and seed have the same instructions, and
//! the same arguments give the same bytes.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

use unspool::convert::{FileSink, Format, SinkOptions};
use unspool::coresight::Protocol;
use unspool::coresight::etm4::unit::Settings;
use unspool::encode::{EncodeOptions, encode};
use unspool::model::{
    Branch, Context, Coverage, Direction, Event, Facet, Instruction, Isa, Security, SourceError, Step, StepSink,
    StepSource, TimeUnit,
};

/// Address of the program.
const CODE: u64 = 0x40_0000;
/// Address of the data.
const DATA: u64 = 0x2000_0000;
/// Blocks of the random program: conditional branches reach all of them.
const BLOCKS: usize = 1 << 15;
/// Blocks of the repetitive program, of which the last is a function.
const FEW_BLOCKS: usize = 25;
/// Return addresses that are remembered.
const DEPTH: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (kind, millions, path, seed) = match &args[..] {
        [kind, millions, path] => (kind, millions, path, 1),
        [kind, millions, path, seed] => (kind, millions, path, seed.parse()?),
        _ => return Err("usage: generate repetitive|random MILLIONS PATH [SEED]".into()),
    };
    let is_random = match kind.as_str() {
        "random" => true,
        "repetitive" => false,
        other => return Err(format!("no such kind: {other} (repetitive, random)").into()),
    };
    let instructions = (millions.parse::<f64>()? * 1e6) as u64;
    let machine = Machine::new(is_random, seed, instructions);
    let path = Path::new(path);
    match format(path) {
        Some(format) => write(machine, format, path),
        None => capture(machine, path),
    }
}

/// The format that the name of a file stands for; `None`: a capture.
fn format(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy();
    let has = |extension: &str| name.ends_with(extension) || name.contains(&format!("{extension}."));
    match () {
        () if has(".astf") => Some(Format::Astf),
        () if has("stf") => Some(Format::Stf),
        () if has(".tarmac") || has(".log") => Some(Format::Tarmac),
        () => None,
    }
}

fn write(mut machine: Machine, format: Format, path: &Path) -> Result<(), Box<dyn Error>> {
    let options = SinkOptions::for_path(format, path);
    let mut sink = FileSink::open(path, machine.coverage(), machine.time_unit(), &options)?;
    let mut failed = None;
    machine.each(&mut |step| match sink.push(step) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    sink.finish()?;
    sink.keep()?;
    Ok(())
}

fn capture(machine: Machine, path: &Path) -> Result<(), Box<dyn Error>> {
    let options = EncodeOptions {
        settings: Settings::new(Protocol::Ete).into(),
        formatted: false,
        buffer: None,
        time_unit: machine.time_unit(),
        replace: false,
        events: None,
    };
    let (encoded, _) = encode(path, vec![Box::new(machine)], options)?;
    println!("{} instructions in {} bytes of trace", encoded.instructions, encoded.trace_bytes);
    Ok(())
}

/// A block of the program: instructions, of which the last may branch.
struct Block {
    start: u64,
    body: Vec<Operation>,
    end: End,
}

/// An instruction that does not branch.
#[derive(Clone, Copy)]
struct Operation {
    opcode: u32,
    /// Bytes and direction of its access.
    access: Option<(Direction, u64)>,
    /// The register that it writes.
    register: Option<usize>,
}

/// How a block ends; targets are numbers of blocks.
#[derive(Clone, Copy)]
enum End {
    Falls,
    Conditional(usize),
    Jump(usize),
    Call(usize),
    Return,
    Indirect,
}

/// The machine that executes the program.
struct Machine {
    is_random: bool,
    random: Random,
    blocks: Vec<Block>,
    /// Blocks after the calls.
    calls: Vec<usize>,
    /// Executions of each block.
    counts: Vec<u64>,
    left: u64,
    count: u64,
    step: Step,
}

impl Machine {
    fn new(is_random: bool, seed: u64, instructions: u64) -> Self {
        let mut random = Random(seed);
        let blocks = program(is_random, &mut random);
        let counts = vec![0; blocks.len()];
        Self {
            is_random,
            random,
            blocks,
            calls: Vec::new(),
            counts,
            left: instructions,
            count: 0,
            step: Step::default(),
        }
    }

    /// Executes a block; returns the number of the next one.
    fn block(&mut self, number: usize, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> ControlFlow<(), usize> {
        let mut address = self.blocks[number].start;
        for index in 0..self.blocks[number].body.len() {
            let operation = self.blocks[number].body[index];
            self.begin(address, operation.opcode, None)?;
            self.effects(operation);
            take(&self.step)?;
            address += 4;
        }
        let (opcode, branch, next) = self.end(number, address);
        if let Some(opcode) = opcode {
            self.begin(address, opcode, branch)?;
            if matches!(self.blocks[number].end, End::Call(_)) {
                self.step.write_register("x30", 0, &(address + 4).to_le_bytes());
            }
            take(&self.step)?;
        }
        ControlFlow::Continue(next)
    }

    /// Starts the step of an instruction, unless there were enough.
    fn begin(&mut self, address: u64, opcode: u32, branch: Option<Branch>) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        self.count += 1;
        self.step.clear();
        self.step.position = self.count;
        let opcode = Some(opcode);
        let instruction = Instruction { address, opcode, length: 4, isa: Isa::A64, branch, ..Instruction::default() };
        self.step.event = Event::Instruction(instruction);
        ControlFlow::Continue(())
    }

    fn effects(&mut self, operation: Operation) {
        let value = if self.is_random { self.random.next() } else { self.count & 7 };
        if let Some((direction, size)) = operation.access {
            let slot = if self.is_random { self.random.below(1 << 20) as u64 } else { self.count % 128 };
            let data = [value, !value].map(u64::to_le_bytes).concat();
            let data = data.into_iter().take(size as usize).map(|byte| (byte, 0xff));
            self.step.access_known(direction, DATA + 16 * slot, size, data);
        }
        if let Some(register) = operation.register {
            self.step.write_register(NAMES[register], 0, &value.to_le_bytes());
        }
    }

    /// The branch at the end of a block, which is at `address`, and the number of the next block.
    fn end(&mut self, number: usize, address: u64) -> (Option<u32>, Option<Branch>, usize) {
        let count = self.counts[number];
        self.counts[number] += 1;
        let after = (number + 1) % self.blocks.len();
        let jump = |to: usize, opcode: u32, blocks: &[Block]| {
            let target = blocks[to].start;
            let offset = (target.wrapping_sub(address) >> 2) as u32;
            let opcode = match opcode {
                0x5400_0000 => opcode | (offset & 0x7_ffff) << 5,
                0x1400_0000 | 0x9400_0000 => opcode | offset & 0x3ff_ffff,
                _ => opcode,
            };
            (Some(opcode), Some(Branch { taken: true, target: Some(target) }), to)
        };
        match self.blocks[number].end {
            End::Falls => (None, None, after),
            End::Conditional(to) => {
                let is_taken = if self.is_random { self.random.below(2) == 0 } else { count % 8 != 7 };
                let found = jump(to, 0x5400_0000, &self.blocks);
                if is_taken { found } else { (found.0, Some(Branch { taken: false, target: None }), after) }
            }
            End::Jump(to) => jump(to, 0x1400_0000, &self.blocks),
            End::Call(to) => {
                if self.calls.len() == DEPTH {
                    self.calls.clear();
                }
                self.calls.push(after);
                jump(to, 0x9400_0000, &self.blocks)
            }
            End::Return => {
                let to = self.calls.pop().unwrap_or_else(|| self.random.below(self.blocks.len()));
                jump(to, 0xd65f_03c0, &self.blocks)
            }
            End::Indirect => {
                let to = self.random.below(self.blocks.len());
                jump(to, 0xd61f_0200, &self.blocks)
            }
        }
    }
}

impl StepSource for Machine {
    fn coverage(&self) -> Coverage {
        Coverage::of(&[
            Facet::Instructions,
            Facet::Opcodes,
            Facet::Branches,
            Facet::Accesses,
            Facet::Data,
            Facet::Registers,
            Facet::Levels,
            Facet::Security,
        ])
    }

    fn time_unit(&self) -> TimeUnit {
        TimeUnit::Unknown
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let context = Context {
            level: Some(0),
            security: Some(Security::NonSecure),
            is_aarch64: Some(true),
            ..Context::default()
        };
        self.step.clear();
        self.step.event = Event::Context(context);
        let mut flow = take(&self.step).map_continue(|()| 0);
        while let ControlFlow::Continue(number) = flow {
            flow = self.block(number, take);
        }
        Ok(())
    }
}

/// The blocks of a program, one after the other.
fn program(is_random: bool, random: &mut Random) -> Vec<Block> {
    let mut start = CODE;
    let count = if is_random { BLOCKS } else { FEW_BLOCKS };
    let block = |number: usize| {
        let length = 1 + random.below(8);
        let body: Vec<Operation> = (0..length).map(|_| operation(random)).collect();
        let end = if is_random { random_end(number, random) } else { regular_end(number) };
        let block = Block { start, body, end };
        start += 4 * (length as u64 + u64::from(!matches!(end, End::Falls)));
        block
    };
    (0..count).map(block).collect()
}

fn random_end(number: usize, random: &mut Random) -> End {
    let to = random.below(BLOCKS);
    match random.below(20) {
        _ if number + 1 == BLOCKS => End::Jump(0),
        0..10 => End::Conditional(to),
        10..13 => End::Call(to),
        13..16 => End::Return,
        16 | 17 => End::Jump(to),
        18 => End::Indirect,
        _ => End::Falls,
    }
}

/// Loops of a block, calls of the function in the last one, and a jump to the start.
fn regular_end(number: usize) -> End {
    match number {
        _ if number + 1 == FEW_BLOCKS => End::Return,
        _ if number + 2 == FEW_BLOCKS => End::Jump(0),
        _ => [End::Conditional(number), End::Call(FEW_BLOCKS - 1), End::Conditional(number), End::Falls][number % 4],
    }
}

fn operation(random: &mut Random) -> Operation {
    // x16 is for indirect branches.
    let [d, n, m] = [0; 3].map(|_| random.below(16));
    let registers = (n << 5 | d) as u32;
    let (opcode, access, register) = match random.below(8) {
        0 => (0x8b00_0000 | (m as u32) << 16, None, Some(d)),
        1 => (0xca00_0000 | (m as u32) << 16, None, Some(d)),
        2 => (0x9100_0000 | (random.below(1 << 12) as u32) << 10, None, Some(d)),
        3 => (0xd280_0000 | (random.below(1 << 11) as u32) << 10, None, Some(d)),
        4 | 5 => (0xf940_0000 | (random.below(1 << 12) as u32) << 10, Some((Direction::Read, 8)), Some(d)),
        6 => (0xf900_0000 | (random.below(1 << 12) as u32) << 10, Some((Direction::Write, 8)), None),
        _ => (0xb900_0000 | (random.below(1 << 12) as u32) << 10, Some((Direction::Write, 4)), None),
    };
    Operation { opcode: opcode | registers, access, register }
}

const NAMES: [&str; 16] =
    ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15"];

/// Random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
