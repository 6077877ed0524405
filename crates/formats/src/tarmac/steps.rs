//! Steps of a Tarmac log.
//!
//! lines ─▶ [`super::lift`] ─▶ **steps**: contexts, instructions with their effects, exceptions and their returns
//!
//! Places are lines; times are counted in the unit of the first one. Whether a branch was taken is told by a BR line, by
//! IS or CCFAIL, or by where the core goes on; so branches and exceptions wait for its next instruction. Registers have
//! one name whatever the log calls them: `x0` for X0 and w0, `v1` for V1 and q1. Lines that tell none of this are notes;
//! what buses do and what is fetched is not told, it is the same once more. Logs that were lowered from steps carry
//! remarks, which come first: [`super::lower`].

mod effects;
pub(super) mod lowered;
mod notes;
mod start;
mod words;

use std::io::Read;
use std::ops::{ControlFlow, Range};

use unspool_isa::{Facts, facts};
use unspool_model::{
    Branch, Context, Coverage, Event, Exception, ExceptionKind, Facet, Instruction, Isa, Loss, SourceError, Step,
    StepSource, TimeUnit,
};

use self::effects::Effects;
use self::lowered::Said;
use self::notes::{Notes, is_note};
use self::start::Start;
use self::words::{
    always_raises, call, class, course, exception_kind, is_handler, isa, isa_of_facts, kind_of_vector, level, security,
};
use super::clock::Clock;
use super::convert::opcode::is_branch;
use super::dialect::Dialect;
use super::lift::{self, Cause, Executed, Lifter, Raised};
use super::lower::remark::{Remark, seam_core};
use super::read::{Place, ReadError, ReadErrorKind, Reader};
use super::record::{self, Line, Record};
use super::registers::Scene;
use crate::hold::Hold;

/// Hands out the steps of a log.
pub struct Steps<R> {
    reader: Reader<R>,
    is_big: bool,
    start: Start,
}

impl<R: Read> Steps<R> {
    /// Of a log of which nothing was read but its start. Data is big-endian where that matters and it is said so.
    pub fn new(reader: Reader<R>, big_endian: bool) -> Self {
        let mut start = Start::default();
        reader.look(|line| start.line(line));
        Self { reader, is_big: big_endian, start }
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
        self.start.coverage(match self.reader.dialect() {
            // The lines of these have no modes.
            Dialect::CortexM0 | Dialect::CortexM3 | Dialect::CortexR5 => always,
            _ => always.with(Facet::Levels).with(Facet::Security),
        })
    }

    fn time_unit(&self) -> TimeUnit {
        self.start.time_unit()
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let lowered = self.start.lowered.map(|(coverage, _)| coverage);
        let (dialect, is_big) = match lowered {
            Some(_) => (Dialect::Other, false),
            None => (self.reader.dialect(), self.is_big),
        };
        let mut lifter = Lifter::new(dialect, is_big);
        let mut clock = Clock::default();
        self.start.time.iter().for_each(|first| {
            clock.count(*first);
        });
        let mut teller = Teller { take, dialect, lowered, cores: Vec::new(), clock, effects: Effects::new() };
        let mut flow = ControlFlow::Continue(());
        let read = self.reader.each(|place, line| {
            lifter.line(place, line, |step| {
                if flow.is_continue() {
                    flow = teller.step(step);
                }
            });
            if flow.is_continue() && is_note(&line.record) {
                flow = teller.told(place, line, &mut lifter);
            }
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

/// What of a log no step tells.
pub const UNTOLD: &[Loss] = &[Loss::Modes, Loss::PhysicalAddresses, Loss::Attributes, Loss::Unreadable];

/// Why no more steps come.
fn ended(error: &ReadError) -> SourceError {
    SourceError { text: error.to_string(), is_damage: !matches!(error.kind, ReadErrorKind::Io(_)) }
}

/// Tells steps of the log as steps of the model.
struct Teller<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    dialect: Dialect,
    /// The log was lowered, from a source that tells this.
    lowered: Option<Coverage>,
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
    /// The last instruction, if nothing is told behind it.
    last: Option<Instruction>,
    notes: Notes,
    said: Said,
}

impl Teller<'_> {
    fn step(&mut self, step: &lift::Step) -> ControlFlow<()> {
        while self.cores.len() <= step.core {
            self.cores.push(Core::default());
        }
        if let Some(coverage) = self.lowered {
            return self.lowered_step(step, coverage);
        }
        self.notes_before(step.core, step.place.line)?;
        match &step.cause {
            Cause::Start => self.start(step),
            Cause::Instruction(executed) => self.instruction(step, executed),
            Cause::Asynchronous(name) => self.asynchronous(step, step.text(name)),
        }
    }

    /// The log ends.
    fn finish(&mut self) -> ControlFlow<()> {
        (0..self.cores.len()).try_for_each(|core| {
            self.tell_said(core, None, u64::MAX)?;
            self.all_notes(core)?;
            match self.lowered {
                Some(coverage) => {
                    let conclude = |instruction: &mut _, next| lowered::conclude(instruction, next, coverage);
                    self.cores[core].hold.release(None, conclude, self.take)
                }
                None => self.release(core, None),
            }
        })
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
        self.cores[step.core].last = None;
        let target = step.branch.map(|branch| branch.target);
        let class = class(step, &ALL);
        self.tell(
            step,
            step.place.line,
            Event::Exception(Exception { kind, class, target, ..Exception::default() }),
            ALL,
        )
    }

    fn instruction(&mut self, step: &lift::Step, executed: &Executed) -> ControlFlow<()> {
        let line = step.place.line;
        // Where effects come first, exceptions before the line are such before the instruction.
        let before = step.exceptions.iter().take_while(|raised| raised.line < line).count();
        let (before, behind) = step.exceptions.split_at(before);
        before.iter().try_for_each(|raised| self.exception(step, raised, None))?;
        // In debug state it is nowhere, but it has effects.
        let Some(address) = executed.address else { return self.tell(step, line, Event::State, ALL) };
        self.implied(step, executed, address)?;
        self.release(step.core, Some(address))?;
        self.notes_now(step.core, line)?;
        self.context(step, executed)?;
        let isa = self.cores[step.core].isa;
        let led = step.branch.filter(|_| behind.is_empty());
        let (opcode, length) = (executed.opcode, executed.length);
        let plain = Instruction { address, opcode, length, isa, ..Instruction::default() };
        let (instruction, facts) = instruction(&plain, executed.is_executed, led.map(|branch| branch.target));
        let until = behind.first().map_or(u64::MAX, |raised| raised.line);
        self.tell(step, line, Event::Instruction(instruction), 0..until)?;
        self.cores[step.core].last = Some(instruction).filter(|_| behind.is_empty());
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

    /// An exception that no line tells, but two instructions do: a level of AArch64 is only left for a higher one by one,
    /// and some instructions do nothing else.
    fn implied(&mut self, step: &lift::Step, executed: &Executed, address: u64) -> ControlFlow<()> {
        let core = &self.cores[step.core];
        let Some(last) = core.last.filter(|last| last.isa == Isa::A64) else { return ControlFlow::Continue(()) };
        if address == last.address.wrapping_add(4) {
            return ControlFlow::Continue(());
        }
        let level_before = core.context.and_then(|context| context.level);
        let has_risen = level_before.zip(level(executed.mode)).is_some_and(|(before, now)| now > before);
        let raises = last.opcode.is_some_and(always_raises);
        if !has_risen && !raises {
            return ControlFlow::Continue(());
        }
        let kind = if raises { ExceptionKind::Synchronous } else { kind_of_vector(address) };
        let event = Event::Exception(Exception { kind, target: Some(address), ..Exception::default() });
        self.tell(step, step.place.line, event, NONE)
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
        self.cores[step.core].last = None;
        let next = step.exceptions.iter().map(|raised| raised.line).find(|line| *line > raised.line);
        // A BR line belongs to the last one.
        let target = led.filter(|_| next.is_none()).map(|branch| branch.target);
        let kind = exception_kind(step.text(&raised.name), raised.vector);
        let cause = step.instruction().filter(|_| raised.line > step.place.line);
        let lines = if cause.is_some() { raised.line..next.unwrap_or(u64::MAX) } else { NONE };
        // Some print the registers of an exception before its line.
        let is_only = cause.is_some() && step.exceptions.len() == 1;
        let class = class(step, if is_only { &ALL } else { &lines });
        let call = cause.filter(|_| is_only && kind == ExceptionKind::Synchronous).and_then(|cause| call(cause, class));
        let event = Event::Exception(Exception { kind, class, call, target, ..Exception::default() });
        self.tell(step, raised.line, event, lines)
    }

    /// A line that tells no step.
    #[cold]
    fn told(&mut self, place: Place, line: &Line<'_>, lifter: &mut Lifter) -> ControlFlow<()> {
        if let Record::Comment(text) = line.record
            && let Some(core) = seam_core(text)
        {
            lifter.enter(core);
        }
        if let (Some(_), Record::Comment(text)) = (self.lowered, line.record)
            && let Some(remark) = Remark::parse(text)
        {
            return self.remark(place, remark, lifter);
        }
        self.note(place, line, lifter)
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

/// An instruction, as far as it is known without the next one; and the facts, if it is a branch. `led`: where a line says
/// that it went.
#[inline]
fn instruction(plain: &Instruction, is_executed: bool, led: Option<u64>) -> (Instruction, Option<Facts>) {
    let mut instruction = Instruction { is_executed: Some(is_executed), ..*plain };
    let facts = branch_facts(&instruction);
    instruction.branch = match (&facts, led) {
        (_, Some(led)) => Some(Branch { taken: true, target: Some(led) }),
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
