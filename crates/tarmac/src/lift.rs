//! Lines as steps: an instruction with the registers and the memory that it changed, each core by itself.
//!
//! ```text
//! lines ─▶ by core ─▶ ┬ instruction, then its effects (most producers)  ─▶ steps
//!                     └ effects, then their instruction (M0, R5)        ─▶
//! ```
//!
//! What comes before the first instruction of a core is a step of its own; so is what no instruction caused. A step is
//! handed out when it is clear that nothing more belongs to it, so steps of one core come in order, and those of several
//! cores nearly so. Steps are reused: going through a log needs no memory for each of them.

mod before;
mod step;

use super::dialect::{Dialect, Effects};
use super::read::Place;
use super::record::{Line, Record, Stamp, Time};
use super::state::{Machine, Registers};
use before::Group;
pub use step::{Accessed, Cause, Executed, Raised, Span, Step, Strays, Written};

/// Makes steps of lines.
#[derive(Debug)]
pub struct Lifter {
    effects: Effects,
    is_big: bool,
    machine: Machine,
    cores: Vec<Open>,
    time: Option<Time>,
}

/// What a core has begun.
#[derive(Debug, Default)]
struct Open {
    /// The step that lines are added to. Where effects come first, it has no cause yet.
    step: Step,
    /// Instructions whose effects came before them, and may be mixed.
    group: Group,
    number: u64,
}

impl Lifter {
    /// Before the first line of a log.
    pub fn new(dialect: Dialect, big_endian: bool) -> Self {
        Self {
            effects: dialect.effects(),
            is_big: big_endian,
            // Memory is not followed: steps have what is accessed.
            machine: Machine::new(big_endian, 1),
            cores: Vec::new(),
            time: None,
        }
    }

    /// The names of cores, in the order in which they appeared: [`Step::core`] is a place among them.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.machine.cores().iter().map(|core| &core.name[..])
    }

    /// The registers of a core, after all lines so far. When a step is handed out, the next instruction is not in them.
    pub fn registers(&self, core: usize) -> Option<&Registers> {
        self.machine.cores().get(core).map(|core| &core.registers)
    }

    /// The core that the last line belongs to: its place among [`cores`](Self::cores).
    pub fn core(&self) -> usize {
        self.machine.current()
    }

    /// The time of the last line that had one.
    pub fn time(&self) -> Option<Time> {
        self.time
    }

    /// What follows has no time, until a line says one.
    pub fn forget_time(&mut self) {
        self.time = None;
    }

    /// What follows belongs to the core of this name, unless it says otherwise.
    pub fn enter(&mut self, name: &[u8]) {
        let line = Line { raw: b"", stamp: Stamp::Absent, core: Some(name), record: Record::Blank };
        self.line(Place::default(), &line, |_| {});
    }

    /// The core of the last line has begun a step.
    pub fn is_open(&self) -> bool {
        self.cores.get(self.core()).is_some_and(|open| !open.step.is_empty())
    }

    /// The step that the core of the last line has begun ends here.
    pub fn end_step(&mut self, mut take: impl FnMut(&Step)) {
        let at = self.core();
        if let Some(open) = self.cores.get_mut(at) {
            open.group.finish(&mut open.number, &mut take);
            open.hand_out(&mut take);
        }
    }

    /// Takes a line; `take` is handed the steps that are complete.
    #[inline]
    pub fn line(&mut self, place: Place, line: &Line<'_>, mut take: impl FnMut(&Step)) {
        match line.stamp {
            Stamp::At(time) => self.time = Some(time),
            Stamp::Dashes => self.time = None,
            Stamp::Absent => {}
        }
        // Which core it is comes first; the registers change after a step that ends here was handed out.
        let Some(at) = self.machine.pass(line) else { return };
        while self.cores.len() <= at {
            let mut open = Open::default();
            open.step.core = self.cores.len();
            self.cores.push(open);
        }
        let open = &mut self.cores[at];
        match self.effects {
            Effects::After => open.line_after(place, line, self.time, self.is_big, &mut take),
            Effects::Before => open.line_before(place, line, self.time, self.is_big, &mut take),
        }
        if matches!(line.record, Record::Register(_) | Record::Instruction(_)) {
            self.machine.line(place.line, line);
        }
    }

    /// Hands out what is left at the end.
    pub fn finish(&mut self, mut take: impl FnMut(&Step)) {
        for open in &mut self.cores {
            open.group.finish(&mut open.number, &mut take);
            open.hand_out(&mut take);
        }
    }
}

impl Open {
    /// A line of a producer that prints effects behind their instruction.
    #[inline]
    fn line_after(
        &mut self,
        place: Place,
        line: &Line<'_>,
        time: Option<Time>,
        is_big: bool,
        take: &mut impl FnMut(&Step),
    ) {
        if starts(&line.record) {
            self.hand_out(take);
        }
        self.step.add(place, line, time, is_big);
    }

    /// A line of a producer that prints effects before their instruction.
    fn line_before(
        &mut self,
        place: Place,
        line: &Line<'_>,
        time: Option<Time>,
        is_big: bool,
        take: &mut impl FnMut(&Step),
    ) {
        match &line.record {
            Record::Instruction(_) => {
                if self.group.is_full() {
                    self.group.finish(&mut self.number, take);
                }
                self.step.add(place, line, time, is_big);
                self.group.push(&mut self.step);
            }
            // Something that no instruction caused comes behind what was executed.
            record if starts(record) => {
                self.group.finish(&mut self.number, take);
                self.hand_out(take);
                self.step.add(place, line, time, is_big);
            }
            _ => {
                self.group.finish(&mut self.number, take);
                self.step.add(place, line, time, is_big);
            }
        }
    }

    /// Hands out the step, if it has anything.
    #[inline]
    fn hand_out(&mut self, take: &mut impl FnMut(&Step)) {
        if !self.step.is_empty() {
            self.step.count(&mut self.number);
            take(&self.step);
        }
        self.step.clear();
    }
}

/// Does it begin a step?
#[inline]
fn starts(record: &Record<'_>) -> bool {
    match record {
        Record::Instruction(_) | Record::Asynchronous(_) => true,
        Record::Exception(exception) => exception.is_step,
        _ => false,
    }
}
