//! Blocks give the findings of their steps, however often they were executed before.

use unspool_analyze::check::{Checker, Finding};
use unspool_model::{
    Block, BlockAccesses, BlockExecution, BlockTrace, Context, Coverage, Direction, Event, Exception, ExceptionKind,
    Facet, Gap, Isa, Positions, Step, TemplateAccess,
};
use unspool_testing::Random;

/// NOP, ADD, LDR of 8 bytes, STR of 4 bytes, TSTART.
const OPCODES: [u32; 5] = [0xd503_201f, 0x9100_0400, 0xf940_0020, 0xb900_0020, 0xd523_3060];

/// RET, B.NE to itself, NOP in place of a branch.
const ENDS: [u32; 3] = [0xd65f_03c0, 0x5400_0001, 0xd503_201f];

/// What a checker gets.
enum Part {
    Step(Step),
    /// Executions, their addresses, the address after them, and their time.
    Blocks(Vec<BlockExecution>, Vec<u64>, u64, u64),
}

struct Program {
    blocks: Vec<Block>,
    accesses: Vec<Vec<TemplateAccess>>,
}

/// Some blocks, one after the other; a few of them are T32, misaligned or without their accesses.
fn program(random: &mut Random) -> Program {
    let (mut blocks, mut accesses, mut start) = (Vec::new(), Vec::new(), 0x1000);
    for _ in 0..6 {
        let is_t32 = random.below(12) == 0;
        let mut opcodes: Vec<u32> = (0..1 + random.below(3)).map(|_| random.pick(&OPCODES[..4])).collect();
        if random.below(16) == 0 {
            opcodes.push(OPCODES[4]);
        }
        opcodes.push(random.pick(&ENDS));
        let mut of_block = Vec::new();
        for (index, opcode) in (0..).zip(&opcodes) {
            let access = match opcode {
                0xf940_0020 => TemplateAccess { index, size: 8, direction: Direction::Read },
                0xb900_0020 => TemplateAccess { index, size: 4, direction: Direction::Write },
                _ => continue,
            };
            if random.below(10) > 0 {
                of_block.push(access);
            }
        }
        let isa = if is_t32 { Isa::T32 } else { Isa::A64 };
        let opcodes = if is_t32 { vec![0xbf00, 0x4770] } else { opcodes };
        blocks.push(Block::new(start, isa, opcodes, true));
        accesses.push(if is_t32 { Vec::new() } else { of_block });
        start = blocks.last().map_or(start, Block::end) + if random.below(16) == 0 { 2 } else { 0 };
    }
    Program { blocks, accesses }
}

fn parts(program: &Program, random: &mut Random) -> Vec<Part> {
    let Program { blocks, accesses } = program;
    let (mut time, mut parts) = (100, Vec::new());
    for _ in 0..30 {
        let mut number = random.below(blocks.len() as u64) as usize;
        let (mut executions, mut addresses) = (Vec::new(), Vec::new());
        for _ in 0..1 + random.below(20) {
            let is_taken = random.flip();
            executions.push(BlockExecution::new(number as u32, is_taken));
            addresses.extend(accesses[number].iter().map(|_| random.bits()));
            // Now and then execution continues where it cannot.
            number = match is_taken || random.below(20) == 0 {
                true => random.below(blocks.len() as u64) as usize,
                false => (number + 1) % blocks.len(),
            };
        }
        time = if random.below(10) == 0 { time - 1 } else { time + random.below(2) };
        parts.push(Part::Blocks(executions, addresses, blocks[number].start, time));
        let context =
            Context { level: Some(random.below(2) as u8), is_aarch64: Some(random.flip()), ..Context::default() };
        let kind = ExceptionKind::Synchronous;
        let event = match random.below(12) {
            0 => Event::Gap(Gap::Start),
            1 => Event::Context(context),
            2 => Event::Exception(Exception { kind, ..Exception::default() }),
            3 => Event::ExceptionReturn { target: None },
            _ => continue,
        };
        let mut step = Step::default();
        (step.event, step.time) = (event, Some(time));
        parts.push(Part::Step(step));
    }
    parts
}

type Found = (Vec<(u64, Finding)>, Vec<(&'static str, u64)>, u64);

/// Findings with the positions of the steps, the counts per rule, and the number of repeats.
fn check(program: &Program, parts: &[Part], coverage: Coverage, as_blocks: bool) -> Found {
    let (mut checker, mut findings, mut position) = (Checker::new(coverage), Vec::new(), 0);
    for part in parts {
        match part {
            Part::Step(step) => {
                let mut step = step.clone();
                step.position = position;
                checker.step(&step, &mut |finding| findings.push((position, finding)));
                position += 1;
            }
            Part::Blocks(executions, addresses, next, time) => {
                let trace = BlockTrace {
                    core: 0,
                    blocks: &program.blocks,
                    executions,
                    next: Some(*next),
                    positions: Positions::From(position),
                    time: Some(*time),
                    accesses: Some(BlockAccesses { of_blocks: &program.accesses, addresses }),
                };
                position += trace.instructions() as u64;
                if as_blocks {
                    checker.blocks(&trace, &mut |at, finding| findings.push((at, finding)));
                    continue;
                }
                let _ = trace.each_step(|step| {
                    checker.step(step, &mut |finding| findings.push((step.position, finding)));
                    std::ops::ControlFlow::Continue(())
                });
            }
        }
    }
    checker.finish(&mut |finding| findings.push((position, finding)));
    let counts = checker.counts().map(|(rule, count)| (rule.name, count)).collect();
    (findings, counts, checker.repeats())
}

#[test]
fn blocks_give_the_findings_of_their_steps() {
    let without = Coverage::of(&Facet::ALL).without(Facet::Exceptions).without(Facet::Times);
    let (mut clean, mut broken) = (0, 0);
    for seed in 0..3000 {
        let random = &mut Random::new(seed);
        let program = program(random);
        let parts = parts(&program, random);
        for coverage in [Coverage::of(&Facet::ALL), without] {
            let expected = check(&program, &parts, coverage, false);
            let found = check(&program, &parts, coverage, true);
            let differs = found.0.iter().zip(&expected.0).position(|(found, expected)| found != expected);
            let at = differs.unwrap_or(found.0.len().min(expected.0.len()));
            assert_eq!(found.0.get(at), expected.0.get(at), "seed {seed}, finding {at}");
            assert_eq!((found.1, found.2), (expected.1, expected.2), "seed {seed}");
            assert_eq!(found.0.len(), expected.0.len(), "seed {seed}");
            if expected.0.is_empty() { clean += 1 } else { broken += 1 }
        }
    }
    assert!(broken > 1000, "{clean} clean, {broken} broken");
}
