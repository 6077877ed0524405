//! State at one point of any source, from its steps.
//!
//! steps ─▶ records ─▶ [`Scanner`] ─▶ **registers and memory** at the point
//!
//! Lines of the state are numbers of instructions. After a gap, registers and memory are unknown. Knows no format.

use unspool_model::{Step, TimeUnit};

use super::query::State;
use super::scan::Scanner;
use super::step_index::number_of;
use super::{IndexOptions, Position};
use crate::dialect::Dialect;
use crate::lower::records::StepRecords;

/// Computes the state at a point in one pass over the steps of a source.
#[derive(Debug)]
pub struct StepScanner {
    scanner: Scanner,
    records: StepRecords,
    /// Number of instructions so far.
    instructions: u64,
    /// The point is reached.
    is_past: bool,
}

impl StepScanner {
    /// A scanner of the steps of a source with this unit of time. Keeps at most `limit` granules (eight bytes) of memory
    /// per core.
    pub fn new(unit: TimeUnit, limit: usize) -> Self {
        let scanner = Scanner::new(IndexOptions::of(Dialect::Other), Position::Line(u64::MAX), None, limit);
        Self { scanner, records: StepRecords::new(unit), instructions: 0, is_past: false }
    }

    /// Takes the next step.
    pub fn step(&mut self, step: &Step) {
        let is_instruction = step.event.instruction().is_some();
        self.instructions += u64::from(is_instruction);
        let number = number_of(self.instructions, is_instruction);
        let Self { scanner, records, .. } = self;
        records.each(step, |line| scanner.line(number, line));
        if !self.is_past {
            self.scanner.passed(self.instructions);
        }
    }

    /// The point is reached: further steps only show what memory contained there.
    pub fn end(&mut self) {
        self.is_past = true;
        self.scanner.end();
    }

    /// The state at the point.
    pub fn finish(self) -> State {
        self.scanner.into_state()
    }
}

#[cfg(test)]
mod tests {
    use unspool_model::{Context, Direction, Event, Gap, Instruction};

    use super::*;

    /// A step of an instruction, with effects.
    fn instruction(address: u64, effects: impl FnOnce(&mut Step)) -> Step {
        let mut step = Step::default();
        let opcode = Some(0xd503_201f);
        step.event = Event::Instruction(Instruction { address, opcode, length: 4, ..Instruction::default() });
        effects(&mut step);
        step
    }

    fn event(event: Event) -> Step {
        let mut step = Step::default();
        step.event = event;
        step
    }

    fn state(steps: &[Step], after: &[Step]) -> State {
        let mut scanner = StepScanner::new(TimeUnit::MICROSECONDS, 1 << 10);
        steps.iter().for_each(|step| scanner.step(step));
        scanner.end();
        after.iter().for_each(|step| scanner.step(step));
        scanner.finish()
    }

    #[test]
    fn registers_and_memory_come_from_steps() {
        let steps = [
            event(Event::Context(Context { level: Some(1), is_handler: Some(true), ..Context::default() })),
            instruction(0x1000, |step| step.write_register("x0", 0, &[1, 2, 3, 4, 5, 6, 7, 8])),
            instruction(0x1004, |step| {
                step.write_register("x0", 0, &[9, 0, 0, 0]);
                step.access_known(Direction::Write, 0x8000, 2, [(0xab, 0xff), (0xcd, 0)]);
            }),
        ];
        let after = [instruction(0x1008, |step| step.access_known(Direction::Read, 0x9000, 1, [(0x77, 0xff)]))];
        let found = state(&steps, &after);
        let core = &found.cores[0];
        assert_eq!((found.line, core.instructions, core.pc), (2, 2, Some(0x1004)));
        let register = super::super::register(core, "x0").map(|row| (row.value, row.line));
        assert_eq!(register, Some(("0000000000000009".to_string(), 2)));
        assert_eq!(
            [0x8000, 0x8001, 0x9000, 0x9001].map(|at| found.byte(at).map(|byte| byte.value)),
            [Some(0xab), None, Some(0x77), None]
        );
        assert_eq!(core.registers.mode().level.name(), "el1h");
    }

    #[test]
    fn after_a_gap_nothing_is_known() {
        let known = instruction(0x1000, |step| {
            step.write_register("x0", 0, &[1; 8]);
            step.access_known(Direction::Write, 0x8000, 1, [(1, 0xff)]);
        });
        let read = instruction(0x1004, |step| step.access_known(Direction::Read, 0x9000, 1, [(2, 0xff)]));
        let gap = || event(Event::Gap(Gap::Overflow));
        let found = state(&[known.clone(), gap()], &[]);
        assert!(super::super::register(&found.cores[0], "x0").is_none());
        assert_eq!(found.byte(0x8000), None);
        // What is read after a gap was not there before it.
        assert_eq!(state(std::slice::from_ref(&known), &[gap(), read.clone()]).byte(0x9000), None);
        assert_eq!(state(&[known], &[read]).byte(0x9000).map(|byte| byte.value), Some(2));
    }

    #[test]
    fn large_writes_make_memory_unknown() {
        let write = |size| instruction(0x1000, |step| step.access(Direction::Write, 0x8000, size));
        let known = instruction(0x1000, |step| step.access_known(Direction::Write, 0x9000, 1, [(1, 0xff)]));
        assert_eq!(state(&[known.clone(), write(u64::MAX)], &[]).byte(0x9000), None);
        assert!(state(&[known, write(0x100)], &[]).byte(0x9000).is_some());
    }
}
