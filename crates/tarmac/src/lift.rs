//! Lifting: lines to steps, each an instruction with the registers and memory it accessed, per core.
//!
//! ```text
//! lines ─▶ by core ─▶ ┬ instruction, then its effects (most producers)  ─▶ steps
//!                     └ effects, then their instruction (M0, R5)        ─▶
//! ```
//!
//! Lines before the first instruction of a core form a step of their own, as do lines that no instruction caused. A
//! step is emitted once no further line can belong to it, so the steps of one core are in order, and those of several
//! cores nearly so. The `Step` value is reused, so lifting allocates nothing per step.

mod dual_issue;
mod step;

use super::dialect::{Dialect, Effects};
use super::read::Position;
use super::record::{Line, Record, Stamp, Time};
use super::state::{Machine, Registers};
use dual_issue::Group;
pub(super) use dual_issue::{names_register, owns};
pub use step::{Cause, MemoryAccess, RegisterWrite, Span, Step, StepInstruction, TakenException};

/// Groups lines into steps.
#[derive(Debug)]
pub struct Lifter {
    effects: Effects,
    is_big_endian: bool,
    /// Whether the opcode decides if an access is a write.
    corrects_loads: bool,
    machine: Machine,
    cores: Vec<OpenSteps>,
    time: Option<Time>,
}

/// Unfinished steps of one core.
#[derive(Debug, Default)]
struct OpenSteps {
    /// The step that lines are added to. With effects before their instruction, it has no cause yet.
    step: Step,
    /// Instructions whose effects precede them, perhaps interleaved.
    group: Group,
    number: u64,
}

impl Lifter {
    /// A lifter for the start of a log.
    pub fn new(dialect: Dialect, big_endian: bool) -> Self {
        Self {
            effects: dialect.effects(),
            is_big_endian: big_endian,
            corrects_loads: true,
            // Memory is not tracked: steps contain the accesses.
            machine: Machine::new(big_endian, 1),
            cores: Vec::new(),
            time: None,
        }
    }

    /// Takes the direction of every access as its line has it: for logs that unspool wrote.
    pub(super) fn trusting(self) -> Self {
        Self { corrects_loads: false, ..self }
    }

    /// Names of the cores in order of appearance; [`Step::core`] is an index into them.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.machine.cores().iter().map(|core| &core.name[..])
    }

    /// The registers of a core after all lines so far. While a step is emitted, they do not include the next
    /// instruction.
    pub fn registers(&self, core: usize) -> Option<&Registers> {
        self.machine.cores().get(core).map(|core| &core.registers)
    }

    /// Index of the core of the last line, in [`cores`](Self::cores).
    pub fn core(&self) -> usize {
        self.machine.current()
    }

    /// The last timestamp.
    pub fn time(&self) -> Option<Time> {
        self.time
    }

    /// Makes the following lines have no time until one has a timestamp.
    pub fn clear_time(&mut self) {
        self.time = None;
    }

    /// Makes the following lines belong to the core of this name, unless they name another.
    pub fn select_core(&mut self, name: &[u8]) {
        let line = Line { raw: b"", stamp: Stamp::Absent, core: Some(name), record: Record::Blank };
        self.line(Position::default(), &line, |_| {});
    }

    /// Whether the core of the last line has an unfinished step.
    pub fn has_open_step(&self) -> bool {
        self.cores.get(self.core()).is_some_and(|core| !core.step.is_empty())
    }

    /// Ends the unfinished step of the core of the last line.
    pub fn end_step(&mut self, mut sink: impl FnMut(&Step)) {
        let at = self.core();
        self.cores.get_mut(at).into_iter().for_each(|core| core.finish(&mut sink));
    }

    /// Takes the next line, and passes completed steps to `sink`.
    #[inline]
    pub fn line(&mut self, position: Position, line: &Line<'_>, mut sink: impl FnMut(&Step)) {
        match line.stamp {
            Stamp::At(time) => self.time = Some(time),
            Stamp::Dashes => self.time = None,
            Stamp::Absent => {}
        }
        // The core comes first; its registers change after the step that ends here is emitted.
        let Some(at) = self.machine.select_core(line) else { return };
        while self.cores.len() <= at {
            let mut core = OpenSteps::default();
            core.step.core = self.cores.len();
            self.cores.push(core);
        }
        let core = &mut self.cores[at];
        let is_after = self.effects == Effects::After;
        if is_after {
            if line.record.begins_step() {
                core.emit(&mut sink);
            }
        } else {
            core.end_before(&line.record, &mut sink);
        }
        core.step.corrects_loads = self.corrects_loads;
        core.step.add(position, line, self.time, self.is_big_endian);
        if !is_after && matches!(line.record, Record::Instruction(_)) {
            core.group.push(&mut core.step);
        }
        if matches!(line.record, Record::Register(_) | Record::Instruction(_)) {
            self.machine.line(position.line, line);
        }
    }

    /// Emits the unfinished steps at the end of the log.
    pub fn finish(&mut self, mut sink: impl FnMut(&Step)) {
        self.cores.iter_mut().for_each(|core| core.finish(&mut sink));
    }
}

impl OpenSteps {
    /// Emits what ends before a line of a producer that prints effects before their instruction.
    fn end_before(&mut self, record: &Record<'_>, sink: &mut impl FnMut(&Step)) {
        let is_instruction = matches!(record, Record::Instruction(_));
        if !is_instruction || self.group.is_full() {
            self.group.finish(&mut self.number, sink);
        }
        // An asynchronous event follows the executed instructions.
        if !is_instruction && record.begins_step() {
            self.emit(sink);
        }
    }

    /// Emits the unfinished steps.
    fn finish(&mut self, sink: &mut impl FnMut(&Step)) {
        self.group.finish(&mut self.number, sink);
        self.emit(sink);
    }

    /// Emits the step, unless it is empty.
    #[inline]
    fn emit(&mut self, sink: &mut impl FnMut(&Step)) {
        if !self.step.is_empty() {
            self.step.assign_number(&mut self.number);
            sink(&self.step);
        }
        self.step.clear();
    }
}
