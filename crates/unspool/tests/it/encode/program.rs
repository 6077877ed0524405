//! Random programs and their execution: loops, calls, returns, indirect branches, system calls, interrupts.

use unspool::model::{Branch, Context, Direction, Event, Exception, ExceptionKind, Instruction, Isa, Security, Step};
use unspool_testing::Random;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    Nop,
    /// Four bytes in T32 too.
    Wide,
    Barrier,
    DataBarrier,
    Load,
    /// Two words.
    Store,
    /// Conditional in A32.
    Conditional,
    If(usize),
    Goto(usize),
    Call(usize),
    CallRegister,
    Jump,
    Return,
    System,
    ExceptionReturn,
}

#[derive(Clone, Copy)]
struct Placed {
    op: Op,
    address: u64,
    opcode: u32,
    length: u8,
}

pub(crate) struct Program {
    isa: Isa,
    code: Vec<Placed>,
    functions: Vec<usize>,
    vector: usize,
}

const LENGTH: usize = 24;

impl Program {
    /// Functions of equal length; the last is the exception handler.
    pub(crate) fn new(isa: Isa, base: u64, seed: u64) -> Self {
        Self::made(isa, base, seed, false)
    }

    /// With loads, stores, data barriers and, in A32, conditional instructions too.
    pub(crate) fn with_data(isa: Isa, base: u64, seed: u64) -> Self {
        Self::made(isa, base, seed, true)
    }

    fn made(isa: Isa, base: u64, seed: u64, has_data: bool) -> Self {
        let mut random = Random::new(seed);
        let count = 8;
        let mut ops = vec![];
        for function in 0..count {
            let start = function * LENGTH;
            for at in 0..LENGTH {
                ops.push(match random.below(20) {
                    _ if at == LENGTH - 1 && function == count - 1 => Op::ExceptionReturn,
                    _ if at == LENGTH - 1 => Op::Return,
                    0..=2 => Op::If(start + random.below(LENGTH as u64) as usize),
                    3 => Op::Goto(start + at + 1 + random.below((LENGTH - at - 1) as u64) as usize),
                    4 | 5 if function < count - 1 => Op::Call(random.below(count as u64 - 1) as usize * LENGTH),
                    6 if function < count - 1 => Op::CallRegister,
                    7 if function < count - 1 => Op::Jump,
                    8 if function < count - 1 => Op::System,
                    9 => Op::Barrier,
                    10 if function < count - 1 => Op::Return,
                    11..=13 if !has_data => Op::Wide,
                    11 => Op::Wide,
                    12 => Op::DataBarrier,
                    13 if has_data => Op::Load,
                    14 if has_data => Op::Store,
                    15 if has_data => Op::Conditional,
                    _ => Op::Nop,
                });
            }
        }
        let mut address = base;
        let mut code: Vec<Placed> = vec![];
        for (at, &op) in ops.iter().enumerate() {
            if at == (count - 1) * LENGTH {
                address = if isa == Isa::A64 { 0xffff_8000_0008_0400 } else { address };
            }
            let length = length(isa, op);
            code.push(Placed { op, address, opcode: 0, length });
            address += u64::from(length);
        }
        for at in 0..code.len() {
            let target = match code[at].op {
                Op::If(to) | Op::Goto(to) | Op::Call(to) => code[to].address,
                _ => 0,
            };
            code[at].opcode = opcode(isa, code[at].op, code[at].address, target);
        }
        let functions = (0..count - 1).map(|function| function * LENGTH).collect();
        Self { isa, code, functions, vector: (count - 1) * LENGTH }
    }

    /// First and last address of a function.
    pub(crate) fn span(&self, function: usize) -> (u64, u64) {
        (self.code[function * LENGTH].address, self.code[function * LENGTH + LENGTH - 1].address)
    }

    /// Address after `count` consecutive instructions from `start`, if there are as many.
    pub(crate) fn end_of(&self, start: u64, count: usize) -> Option<u64> {
        let first = self.code.iter().position(|placed| placed.address == start)?;
        self.code.get(first + count - 1).map(|placed| placed.address + u64::from(placed.length))
    }

    /// Executes `count` instructions.
    pub(crate) fn run(&self, count: usize, seed: u64) -> Vec<Step> {
        let mut random = Random::new(seed ^ 0x5555);
        let mut steps = vec![step(context(0, 1), 0)];
        let (mut at, mut level, mut time, mut process) = (0, 0, 1000_u64, 1);
        let mut calls: Vec<usize> = vec![];
        let mut interrupted: Vec<usize> = vec![];
        for number in 0..count {
            let placed = self.code[at];
            time += random.below(9);
            let branch_to = |taken, to: usize| Some(Branch { taken, target: taken.then(|| self.code[to].address) });
            let (next, branch) = match placed.op {
                Op::Nop | Op::Wide | Op::Barrier | Op::DataBarrier | Op::System => (at + 1, None),
                Op::Load | Op::Store | Op::Conditional => (at + 1, None),
                Op::If(to) => {
                    let taken = random.below(3) > 0;
                    (if taken { to } else { at + 1 }, branch_to(taken, to))
                }
                Op::Goto(to) => (to, branch_to(true, to)),
                Op::Call(to) => {
                    calls.push(at + 1);
                    (to, branch_to(true, to))
                }
                Op::CallRegister | Op::Jump => {
                    if placed.op == Op::CallRegister {
                        calls.push(at + 1);
                    }
                    let to = self.functions[random.below(self.functions.len() as u64) as usize];
                    (to, branch_to(true, to))
                }
                Op::Return => {
                    let to = if random.below(10) > 0 { calls.pop().unwrap_or(0) } else { self.functions[1] };
                    (to, branch_to(true, to))
                }
                Op::ExceptionReturn => {
                    let to = interrupted.pop().unwrap_or(0);
                    (to, branch_to(true, to))
                }
            };
            calls.truncate(64);
            let is_conditional = placed.op == Op::Conditional && self.isa == Isa::A32;
            let is_executed = is_conditional.then(|| random.below(2) == 0);
            let mut executed = step(
                Event::Instruction(Instruction {
                    is_executed,
                    address: placed.address,
                    opcode: Some(placed.opcode),
                    length: placed.length,
                    isa: self.isa,
                    branch,
                    ..Instruction::default()
                }),
                time,
            );
            access(&mut executed, placed.op, is_executed, &mut random);
            steps.push(executed);
            at = next;
            if placed.op == Op::ExceptionReturn {
                level = 0;
                process += u64::from(random.below(4) == 0);
                steps.push(step(Event::ExceptionReturn { target: Some(self.code[at].address) }, time));
                steps.push(step(context(0, process), time));
            }
            let is_system = placed.op == Op::System;
            if level == 0 && number + 1 < count && (is_system || random.below(40) == 0) {
                let kind = if is_system { ExceptionKind::Synchronous } else { ExceptionKind::Irq };
                let return_address = Some(self.code[at].address);
                let target = Some(self.code[self.vector].address);
                let call = is_system.then_some(0);
                steps.push(step(
                    Event::Exception(Exception { kind, call, return_address, target, ..Exception::default() }),
                    time,
                ));
                steps.push(step(context(1, process), time));
                interrupted.push(at);
                (at, level) = (self.vector, 1);
            }
        }
        steps
    }
}

/// Adds the accesses of an instruction. Most are near each other.
fn access(step: &mut Step, op: Op, is_executed: Option<bool>, random: &mut Random) {
    if !matches!(op, Op::Load | Op::Store | Op::Conditional) {
        return;
    }
    let page = if random.below(8) == 0 { 0x8000_0000 } else { 0x2000_0000 };
    let address = page + 4 * random.below(64);
    let mut word = |bytes: u32| {
        let value = (random.below(1 << 32) >> (8 * random.below(5))) as u32;
        value.to_le_bytes().map(|byte| (byte, 0xff)).into_iter().take(bytes as usize).collect::<Vec<_>>()
    };
    match op {
        Op::Load => step.access_known(Direction::Read, address, 4, word(4)),
        Op::Store => {
            step.access_known(Direction::Write, address, 4, word(4));
            step.access_known(Direction::Write, address + 4, 4, word(4));
        }
        Op::Conditional if is_executed != Some(false) => step.access_known(Direction::Read, address + 2, 2, word(2)),
        _ => {}
    }
}

fn step(event: Event, time: u64) -> Step {
    let mut step = Step::default();
    (step.event, step.time) = (event, Some(time));
    step
}

fn context(level: u8, process: u64) -> Event {
    Event::Context(Context {
        level: Some(level),
        security: Some(Security::NonSecure),
        process: Some(process),
        vmid: Some(7),
        ..Context::default()
    })
}

fn length(isa: Isa, op: Op) -> u8 {
    match op {
        _ if isa != Isa::T32 => 4,
        Op::Wide | Op::Call(_) | Op::Barrier | Op::DataBarrier | Op::ExceptionReturn => 4,
        _ => 2,
    }
}

fn opcode(isa: Isa, op: Op, address: u64, target: u64) -> u32 {
    let offset = target.wrapping_sub(address) as u32;
    let (a64, a32, t32) = (offset >> 2, offset.wrapping_sub(8) >> 2 & 0xff_ffff, offset.wrapping_sub(4) >> 1);
    // J1 and J2 of a T32 BL are set, and so is S if the offset is negative.
    let t32_call = 0xf000_f800 | (t32 >> 23 & 1) << 26 | (t32 >> 11 & 0x3ff) << 16 | t32 & 0x7ff;
    let opcodes = match op {
        Op::Nop => [0xd503_201f, 0xe320_f000, 0xbf00],
        Op::Wide => [0xd503_201f, 0xe320_f000, 0xf3af_8000],
        Op::DataBarrier => [0xd503_3bbf, 0xf57f_f05b, 0xf3bf_8f5b],
        // LDR W0, [X1]; STP W2, W3, [X1]; conditional, LDRH.
        Op::Load => [0xb940_0020, 0xe591_0000, 0x6808],
        Op::Store => [0x2900_0c22, 0xe881_000c, 0xc10c],
        Op::Conditional => [0x7940_0020, 0x11d1_00b0, 0x8808],
        Op::Barrier => [0xd503_3fdf, 0xf57f_f06f, 0xf3bf_8f6f],
        Op::If(_) => [0x5400_0001 | (a64 & 0x7_ffff) << 5, 0x1a00_0000 | a32, 0xd100 | t32 & 0xff],
        Op::Goto(_) => [0x1400_0000 | a64 & 0x3ff_ffff, 0xea00_0000 | a32, 0xe000 | t32 & 0x7ff],
        Op::Call(_) => [0x9400_0000 | a64 & 0x3ff_ffff, 0xeb00_0000 | a32, t32_call],
        Op::CallRegister => [0xd63f_0020, 0xe12f_ff31, 0x4788],
        Op::Jump => [0xd61f_0020, 0xe12f_ff11, 0x4708],
        Op::Return => [0xd65f_03c0, 0xe12f_ff1e, 0x4770],
        Op::System => [0xd400_0001, 0xef00_0000, 0xdf00],
        Op::ExceptionReturn => [0xd69f_03e0, 0xe1b0_f00e, 0xf3de_8f00],
    };
    match isa {
        Isa::A64 => opcodes[0],
        Isa::A32 => opcodes[1],
        _ => opcodes[2],
    }
}
