//! Random steps survive the round trip, in every container, and broken annotations lose no instruction.

use std::io::Cursor;
use std::ops::ControlFlow;

use unspool_model::{
    Branch, Context, Direction, Event, Exception, ExceptionKind, Gap, Instruction, Isa, Modes, Security, Step,
    StepSink, StepSource, TimeUnit,
};
use unspool_stf::builder::StfVersion;
use unspool_stf::lower::{LowerOptions, Lowerer, coverage};
use unspool_stf::record::descriptor;
use unspool_stf::write::{Storage, WriteOptions, Writer};
use unspool_testing::Random;

use super::{NOP, all, assert_same, executed, few, kept, lowered, note, opened, round_trip};
use crate::fixtures::{each_record, encoded, findings};

/// Random steps, the same in every run.
struct RandomSteps(Random);

impl RandomSteps {
    fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// A number with a random count of bits.
    fn number(&mut self) -> u64 {
        let bits = self.0.below(64);
        self.0.bits() >> bits
    }

    fn perhaps<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.0.flip().then(|| make(self))
    }

    fn bytes(&mut self, count: u64) -> Vec<(u8, u8)> {
        let known = self.0.pick(&[0xff, 0xff, 0xff, 0, 0xf0]);
        (0..count).map(|_| (self.number() as u8 & known, known)).collect()
    }

    fn instruction(&mut self, next: u64) -> Instruction {
        let isa = self.0.pick(&[Isa::A64, Isa::A64, Isa::A64, Isa::A32, Isa::T32]);
        let length = if isa == Isa::T32 { self.0.pick(&[2, 4]) } else { 4 };
        let word = self.number() as u32;
        let branch = self.0.pick(&[NOP, 0xb400_0060, 0x1400_0010, 0xd69f_03e0, 0x1aff_fffb, 0xe12f_ff1e]);
        let opcode = if self.0.flip() { word } else { branch };
        Instruction {
            address: if self.0.below(4) == 0 { self.number() } else { next },
            opcode: (self.0.below(10) > 0).then_some(if length == 2 { opcode & 0xffff } else { opcode }),
            length,
            isa,
            is_executed: self.perhaps(|random| random.0.below(3) > 0),
            branch: self.perhaps(|random| {
                let taken = random.0.flip();
                Branch { taken, target: if taken { random.perhaps(Self::number) } else { None } }
            }),
            za_index: (self.0.below(20) == 0).then(|| self.0.below(256) as u8),
        }
    }

    fn exception(&mut self) -> Exception {
        use ExceptionKind::{Debug, Fiq, Irq, Reset, SError, Synchronous, Unknown};
        Exception {
            kind: self.0.pick(&[Unknown, Reset, Synchronous, Irq, Fiq, SError, Debug]),
            class: self.perhaps(|random| random.0.below(64) as u8),
            call: self.perhaps(|random| random.0.below(1 << 16) as u16),
            is_virtual: self.perhaps(|random| random.0.flip()),
            return_address: self.perhaps(Self::number),
            target: self.perhaps(Self::number),
        }
    }

    fn context(&mut self) -> Context {
        Context {
            level: self.perhaps(|random| random.0.below(5) as u8),
            security: self.perhaps(|random| {
                random.0.pick(&[Security::Secure, Security::NonSecure, Security::Root, Security::Realm])
            }),
            is_aarch64: self.perhaps(|random| random.0.flip()),
            is_handler: self.perhaps(|random| random.0.flip()),
            process: self.perhaps(Self::number),
            thread: self.perhaps(Self::number),
            vmid: self.perhaps(|random| random.number() as u32),
            modes: self.perhaps(|random| Modes {
                streaming: random.0.flip(),
                dit: random.0.flip(),
                ssbs: random.0.flip(),
                vector_length: random.0.below(16) as u8,
                tag_check_fault: random.0.below(4) as u8,
            }),
        }
    }

    fn step(&mut self, next: &mut u64) -> Step {
        let mut step = Step::default();
        match self.0.below(16) {
            0 => step.event = Event::State,
            1 => step.event = Event::Exception(self.exception()),
            2 => step.event = Event::ExceptionReturn { target: self.perhaps(Self::number) },
            3 => step.event = Event::Context(self.context()),
            4 => {
                use Gap::{Contradiction, Damaged, Discard, NoCode, Overflow, Start, TransactionFailed};
                let gaps = [Start, Overflow, Discard, NoCode(8), Damaged, Contradiction, TransactionFailed];
                step.event = Event::Gap(self.0.pick(&gaps));
            }
            5 => {
                step.set_note(self.0.pick(&[
                    "",
                    "a note\nof two lines",
                    "unspool",
                    "unspool time 3",
                    "unspool then",
                    "é",
                ]));
            }
            _ => {
                let instruction = self.instruction(*next);
                *next = instruction.address.wrapping_add(u64::from(instruction.length));
                step.event = Event::Instruction(instruction);
            }
        }
        step.time = self.perhaps(|random| random.0.below(8)).filter(|_| self.0.below(3) > 0);
        if !matches!(step.event, Event::Note | Event::Context(_) | Event::Gap(_)) {
            self.effects(&mut step);
        }
        step
    }

    fn effects(&mut self, step: &mut Step) {
        for _ in 0..self.0.below(3) {
            let (name, low) = (self.0.pick(&["x0", "x30", "x31", "v3", "sp", "a b%"]), self.0.pick(&[0, 0, 0, 64]));
            let count = self.0.pick(&[8, 8, 4, 0, 32]);
            let bytes = self.bytes(count);
            step.write_register_known(name, low, bytes);
        }
        for _ in 0..self.0.below(3) {
            let direction = self.0.pick(&[Direction::Read, Direction::Write, Direction::Both, Direction::Neither]);
            let (address, size) = (self.number(), self.0.pick(&[0, 1, 3, 8, 16, 20, 70_000]));
            let bytes = if self.0.flip() || size > 100 { Vec::new() } else { self.bytes(size) };
            step.access_known(direction, address, size, bytes);
            if self.0.below(4) == 0 {
                step.tag_last_access();
            }
        }
    }

    fn steps(&mut self, count: usize) -> Vec<Step> {
        let mut next = 0x1000;
        let mut steps: Vec<Step> = (0..count).map(|_| self.step(&mut next)).collect();
        steps.push(executed(next, NOP));
        steps
    }
}

#[test]
fn any_steps_survive_a_round_trip() {
    for seed in 0..300 {
        let mut random = RandomSteps::new(seed);
        let mut steps = random.steps(40);
        // The last instruction may be followed by other steps.
        steps[random.0.below(40) as usize..].rotate_right(1);
        let covered = if seed % 2 == 0 { coverage() } else { few() };
        let units = [TimeUnit::Unknown, TimeUnit::Cycles, TimeUnit::MICROSECONDS, TimeUnit::Seconds(3)];
        let unit = random.0.pick(&units);
        let bytes = round_trip(&(covered, unit, steps), &format!("seed {seed}"));
        // The order of records does not depend on the steps.
        for finding in findings(&bytes) {
            let is_order = finding.rule.name.contains("order") || finding.rule.name.contains("content-missing");
            assert!(!is_order && finding.rule.name != "stf-open-group", "seed {seed}: {finding:?}");
        }
    }
}

#[test]
fn steps_do_not_depend_on_the_container_or_the_end() {
    let mut steps = RandomSteps::new(7).steps(500);
    steps.push(note("after the last"));
    for container in Storage::ALL {
        let options = WriteOptions { threads: 1, chunk_markers: 10, ..WriteOptions::default() };
        let writer = Writer::seekable(Cursor::new(Vec::new()), container, options).unwrap();
        let mut lowerer = Lowerer::new(writer, coverage(), TimeUnit::Cycles, &LowerOptions::default()).unwrap();
        steps.iter().for_each(|step| lowerer.push(step).unwrap());
        lowerer.finish().unwrap();
        let bytes = lowerer.into_sink().finish().unwrap().into_inner();
        assert_same(&all(opened(bytes)).2, &kept(&steps), &container.to_string());
    }
    let bytes = lowered(&steps, coverage(), TimeUnit::Cycles, StfVersion::V1_6).unwrap();
    for stop in 1..=steps.len() {
        let mut found = 0;
        let ended = opened(bytes.clone()).each(&mut |_| {
            found += 1;
            if found < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert!(ended.is_ok());
        assert_eq!(found, stop);
    }
}

/// Broken comments in any order: no panic, and every instruction is emitted.
#[test]
fn broken_comments_keep_the_instructions() {
    let steps = RandomSteps::new(3).steps(60);
    let bytes = lowered(&steps, coverage(), TimeUnit::Cycles, StfVersion::V1_6).unwrap();
    let mut parts = Vec::new();
    each_record(&bytes, |record| parts.push(encoded(&[*record])));
    let body = 1 + parts.iter().position(|part| part[0] == descriptor::END_HEADER).unwrap();
    for seed in 0..2000 {
        let (mut random, mut parts) = (Random::new(seed), parts.clone());
        for _ in 0..=random.below(8) {
            let at = body + random.below((parts.len() - body) as u64) as usize;
            let (length, is_comment) = (parts[at].len() as u64, parts[at][0] == descriptor::COMMENT);
            match random.below(3) {
                0 if is_comment && length > 5 => parts[at][5 + random.below(length - 5) as usize] = random.bits() as u8,
                1 if is_comment => {
                    let other = body + random.below((parts.len() - body) as u64) as usize;
                    parts.swap(at, other);
                }
                _ if is_comment => {
                    parts.remove(at);
                }
                _ => {}
            }
        }
        let (_, _, found) = all(opened(parts.concat()));
        let opcodes = parts.iter().filter(|part| part[0] >= descriptor::INST_OPCODE32).count();
        let instructions = found.iter().filter(|step| step.event.instruction().is_some()).count();
        let last = parts.last().is_some_and(|part| part[0] >= descriptor::INST_OPCODE32);
        assert!(instructions >= opcodes || !last, "seed {seed}");
        findings(&parts.concat());
    }
}
