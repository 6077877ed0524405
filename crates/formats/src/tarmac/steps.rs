//! Steps of a Tarmac log.
//!
//! lines ─▶ [`super::lift`] ─▶ **steps**: contexts, instructions with their effects, exceptions and their returns
//!
//! Places are lines; times are counted in the unit of the first one. Whether a branch was taken is told by a BR line, by
//! IS or CCFAIL, or by where the core goes on; so branches and exceptions wait for its next instruction. Registers have
//! one name whatever the log calls them: `x0` for X0 and w0, `v1` for V1 and q1.

mod effects;
mod words;

use std::io::Read;
use std::ops::{ControlFlow, Range};

use unspool_isa::{Facts, facts};
use unspool_model::{
    Branch, Context, Coverage, Event, Exception, ExceptionKind, Facet, Instruction, Isa, SourceError, Step, StepSource,
};

use self::effects::Effects;
use self::words::{course, exception_kind, is_handler, isa, isa_of_facts, level, security};
use super::clock::Clock;
use super::convert::opcode::is_branch;
use super::dialect::Dialect;
use super::lift::{self, Cause, Executed, Lifter, Raised};
use super::read::{ReadError, ReadErrorKind, Reader};
use super::record;
use super::registers::Scene;
use crate::hold::Hold;

/// Hands out the steps of a log.
pub struct Steps<R> {
    reader: Reader<R>,
    is_big: bool,
}

impl<R: Read> Steps<R> {
    /// Of a log of which nothing was read but its start. Data is big-endian where that matters and it is said so.
    pub fn new(reader: Reader<R>, big_endian: bool) -> Self {
        Self { reader, is_big: big_endian }
    }
}

impl<R: Read> StepSource for Steps<R> {
    fn coverage(&self) -> Coverage {
        let always = Coverage::of(&[
            Facet::Instructions,
            Facet::Opcodes,
            Facet::Conditions,
            Facet::Branches,
            Facet::Accesses,
            Facet::Data,
            Facet::Registers,
            Facet::Exceptions,
            Facet::Times,
        ]);
        match self.reader.dialect() {
            // The lines of these have no modes.
            Dialect::CortexM0 | Dialect::CortexM3 | Dialect::CortexR5 => always,
            _ => always.with(Facet::Levels).with(Facet::Security),
        }
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let dialect = self.reader.dialect();
        let mut lifter = Lifter::new(dialect, self.is_big);
        let mut teller = Teller { take, dialect, cores: Vec::new(), clock: Clock::default(), effects: Effects::new() };
        let mut flow = ControlFlow::Continue(());
        let read = self.reader.each(|place, line| {
            lifter.line(place, line, |step| {
                if flow.is_continue() {
                    flow = teller.step(step);
                }
            });
            flow
        });
        lifter.finish(|step| {
            if flow.is_continue() {
                flow = teller.step(step);
            }
        });
        if flow.is_continue() {
            // Nothing follows that anybody could stop.
            let _ = teller.finish();
        }
        read.map(|_| ()).map_err(|error| ended(&error))
    }
}

/// Why no more steps come.
fn ended(error: &ReadError) -> SourceError {
    SourceError { text: error.to_string(), is_damage: !matches!(error.kind, ReadErrorKind::Io(_)) }
}

/// Tells steps of the log as steps of the model.
struct Teller<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    dialect: Dialect,
    cores: Vec<Core>,
    clock: Clock,
    effects: Effects,
}

/// What is told of a core.
#[derive(Default)]
struct Core {
    context: Option<Context>,
    isa: Isa,
    /// What decides which registers names mean.
    scene: Scene,
    hold: Hold,
}

impl Teller<'_> {
    fn step(&mut self, step: &lift::Step) -> ControlFlow<()> {
        while self.cores.len() <= step.core {
            self.cores.push(Core::default());
        }
        match &step.cause {
            Cause::Start => self.start(step),
            Cause::Instruction(executed) => self.instruction(step, executed),
            Cause::Asynchronous(name) => self.asynchronous(step, step.text(name)),
        }
    }

    /// The log ends.
    fn finish(&mut self) -> ControlFlow<()> {
        (0..self.cores.len()).try_for_each(|core| self.release(core, None))
    }

    /// Lines before the first instruction, or such that no instruction caused.
    fn start(&mut self, step: &lift::Step) -> ControlFlow<()> {
        if !step.registers.is_empty() || !step.accesses.is_empty() {
            self.tell(step, step.place.line, Event::State, ALL)?;
        }
        step.exceptions.iter().try_for_each(|raised| self.exception(step, raised, step.branch))
    }

    /// An interrupt, a reset: one exception, which the lines behind it may name again.
    fn asynchronous(&mut self, step: &lift::Step, name: &[u8]) -> ControlFlow<()> {
        // Registers and memory change, and that is all.
        if name == b"Background Update" {
            return self.tell(step, step.place.line, Event::State, ALL);
        }
        let named = step.exceptions.first().map(|raised| exception_kind(step.text(&raised.name), raised.vector));
        let kind = match exception_kind(name, None) {
            ExceptionKind::Unknown => named.unwrap_or_default(),
            kind => kind,
        };
        let target = step.branch.map(|branch| branch.target);
        self.tell(step, step.place.line, Event::Exception(Exception { kind, target, ..Exception::default() }), ALL)
    }

    fn instruction(&mut self, step: &lift::Step, executed: &Executed) -> ControlFlow<()> {
        let line = step.place.line;
        // Where effects come first, exceptions before the line are such before the instruction.
        let before = step.exceptions.iter().take_while(|raised| raised.line < line).count();
        let (before, behind) = step.exceptions.split_at(before);
        before.iter().try_for_each(|raised| self.exception(step, raised, None))?;
        // In debug state it is nowhere, but it has effects.
        let Some(address) = executed.address else { return self.tell(step, line, Event::State, ALL) };
        self.release(step.core, Some(address))?;
        self.context(step, executed)?;
        let isa = self.cores[step.core].isa;
        let led = step.branch.filter(|_| behind.is_empty());
        let (instruction, facts) = instruction(executed, address, isa, led);
        let until = behind.first().map_or(u64::MAX, |raised| raised.line);
        self.tell(step, line, Event::Instruction(instruction), 0..until)?;
        let is_eret = facts.is_some_and(|facts| facts.eret) && executed.is_executed && behind.is_empty();
        if is_eret {
            let target = led.map(|branch| branch.target);
            self.tell(step, line, Event::ExceptionReturn { target }, NONE)?;
        }
        behind.iter().try_for_each(|raised| self.exception(step, raised, step.branch))?;
        let waits = is_eret || !behind.is_empty() || facts.is_some() && instruction.branch.is_none();
        if waits {
            return ControlFlow::Continue(());
        }
        // All is known: nothing is asked a second time.
        self.cores[step.core].hold.release(None, |_, _| {}, self.take)
    }

    /// The state of the core, if it is another than before.
    #[inline]
    fn context(&mut self, step: &lift::Step, executed: &Executed) -> ControlFlow<()> {
        let core = &mut self.cores[step.core];
        let isa = isa(self.dialect, executed);
        core.isa = isa;
        core.scene = Scene { mode: executed.mode, is_a64: Some(isa == Isa::A64) };
        let context = Context {
            level: level(executed.mode),
            security: executed.mode.security.map(security),
            is_aarch64: Some(isa == Isa::A64),
            is_handler: is_handler(executed.mode.level),
            ..Context::default()
        };
        if core.context.replace(context) == Some(context) {
            return ControlFlow::Continue(());
        }
        self.tell(step, step.place.line, Event::Context(context), NONE)
    }

    /// An exception that a line tells, and the effects from there on to the next one.
    fn exception(&mut self, step: &lift::Step, raised: &Raised, led: Option<record::Branch>) -> ControlFlow<()> {
        let next = step.exceptions.iter().map(|raised| raised.line).find(|line| *line > raised.line);
        // A BR line belongs to the last one.
        let target = led.filter(|_| next.is_none()).map(|branch| branch.target);
        let kind = exception_kind(step.text(&raised.name), raised.vector);
        let event = Event::Exception(Exception { kind, target, ..Exception::default() });
        let is_behind = step.instruction().is_some() && raised.line > step.place.line;
        let lines = if is_behind { raised.line..next.unwrap_or(u64::MAX) } else { NONE };
        self.tell(step, raised.line, event, lines)
    }

    /// Puts a step behind those that wait, with the effects that these lines show.
    #[inline]
    fn tell(&mut self, step: &lift::Step, place: u64, event: Event, lines: Range<u64>) -> ControlFlow<()> {
        if self.cores[step.core].hold.is_full() {
            self.release(step.core, None)?;
        }
        let time = step.time.map(|time| self.clock.count(time));
        let core = &mut self.cores[step.core];
        let told = core.hold.push();
        (told.core, told.place, told.time, told.event) = (step.core as u32, place, time, event);
        self.effects.tell(step, &lines, &core.scene, told);
        ControlFlow::Continue(())
    }

    /// Hands out what waits: the core goes on there, if that is known.
    #[inline]
    fn release(&mut self, core: usize, next: Option<u64>) -> ControlFlow<()> {
        self.cores[core].hold.release(next, resolve, self.take)
    }
}

/// All lines of a step, and none.
const ALL: Range<u64> = 0..u64::MAX;
const NONE: Range<u64> = 0..0;

/// An instruction, as far as it is known without the next one; and the facts, if it is a branch.
#[inline]
fn instruction(
    executed: &Executed,
    address: u64,
    isa: Isa,
    led: Option<record::Branch>,
) -> (Instruction, Option<Facts>) {
    let &Executed { opcode, length, is_executed, .. } = executed;
    let mut instruction =
        Instruction { address, opcode, length, isa, is_executed: Some(is_executed), ..Instruction::default() };
    let facts = branch_facts(&instruction);
    instruction.branch = match (&facts, led) {
        (_, Some(led)) => Some(Branch { taken: true, target: Some(led.target) }),
        (Some(_), None) if !is_executed => Some(Branch { taken: false, target: None }),
        _ => None,
    };
    if let Some(facts) = &facts {
        settle(&mut instruction, facts);
    }
    (instruction, facts)
}

/// The core goes on at `next`: what became of the branch before?
fn resolve(instruction: &mut Instruction, next: Option<u64>) {
    if instruction.branch.is_none()
        && let Some(facts) = branch_facts(instruction)
    {
        instruction.branch = course(instruction, &facts, next);
        settle(instruction, &facts);
    }
}

/// The condition of a branch that has one held if it was taken. Some producers say so themselves (a CBZ that is skipped),
/// others only of AArch32.
fn settle(instruction: &mut Instruction, facts: &Facts) {
    if instruction.isa == Isa::A64 && facts.conditional {
        instruction.is_executed = instruction.branch.map(|branch| branch.taken);
    }
}

/// What is known of an instruction, if it is a branch.
#[inline]
fn branch_facts(instruction: &Instruction) -> Option<Facts> {
    let facts = facts(isa_of_facts(instruction.isa), instruction.address, instruction.opcode?);
    (facts.length == instruction.length && is_branch(&facts)).then_some(facts)
}
