//! Steps of a Tarmac log.
//!
//! lines ─▶ [`super::lift`] ─▶ **steps**: contexts, instructions with their effects, exceptions and their returns
//!
//! Places are lines; times are counted in the unit of the first one. Whether a branch was taken is told by a BR line, by
//! IS or CCFAIL, or by where the core goes on; so branches and exceptions wait for its next instruction. Registers have
//! one name whatever the log calls them: `x0` for X0 and w0, `v1` for V1 and q1. Lines that tell none of this are notes,
//! those of buses and of fetches too; what lines say besides is counted ([`NOT_IN_STEPS`]). Logs that were lowered from steps
//! carry remarks, which come first: [`super::lower`].

mod effects;
mod implied;
pub(super) mod lowered;
mod not_in_steps;
mod notes;
mod start;
mod to_model;

use std::io::Read;
use std::ops::{ControlFlow, Range};

use unspool_isa::{Facts, facts};
use unspool_model::{
    Branch, Context, Coverage, Event, Exception, ExceptionKind, Facet, Instruction, Isa, Loss, Losses, Security,
    SourceError, Step, StepSource, TimeUnit,
};

use self::effects::Effects;
use self::lowered::Said;
use self::notes::{Notes, is_note};
use self::start::Start;
use self::to_model::{call, class, course, exception_kind, has_security, is_handler, isa, level, security};
use super::clock::Clock;
use super::dialect::Dialect;
use super::lift::{self, Cause, Executed, Lifter, Raised};
use super::lower::annotation::{Annotation, cut_core};
use super::read::{Place, ReadError, ReadErrorKind, Reader};
use super::record::{self, Line, Record, Time};
use super::registers::Scene;
use super::restyle::opcode::{decoder_isa, is_branch};
use unspool_model::hold::Hold;

/// Hands out the steps of a log.
pub struct Steps<R> {
    reader: Reader<R>,
    is_big: bool,
    start: Start,
    losses: Losses,
}

impl<R: Read> Steps<R> {
    /// Of a log of which nothing was read but its start. Data is big-endian where that matters and it is said so.
    pub fn new(reader: Reader<R>, big_endian: bool) -> Self {
        let mut start = Start::default();
        reader.look(|line| start.line(line));
        Self { reader, is_big: big_endian, start, losses: Losses::default() }
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
            Facet::Times,
        ]);
        self.start.coverage(match self.reader.dialect() {
            // The lines of these have no modes.
            Dialect::CortexM0 | Dialect::CortexM3 | Dialect::CortexR5 => always.with(Facet::Exceptions),
            // It has no lines for exceptions.
            Dialect::Gem5 => always.with(Facet::Levels).with(Facet::Security),
            _ => always.with(Facet::Exceptions).with(Facet::Levels).with(Facet::Security),
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
        let mut emitter = StepEmitter {
            take,
            dialect,
            lowered,
            says_skips: lowered.is_none() && self.start.says_skips(dialect),
            bare: self.start.security(),
            cores: Vec::new(),
            clock,
            effects: Effects::new(),
            losses: &mut self.losses,
        };
        let mut flow = ControlFlow::Continue(());
        let read = self.reader.each(|place, line| {
            lifter.line(place, line, |step| {
                if flow.is_continue() {
                    flow = emitter.step(step);
                }
            });
            if lowered.is_none() {
                not_in_steps::count(emitter.losses, place.line, &line.record);
            }
            if flow.is_continue() && is_note(&line.record) {
                flow = emitter.told(place, line, &mut lifter);
            }
            flow
        });
        lifter.finish(|step| {
            if flow.is_continue() {
                flow = emitter.step(step);
            }
        });
        if flow.is_continue() {
            // Nothing follows that anybody could stop.
            let _ = emitter.finish();
        }
        emitter.names(lifter.cores());
        read.map(|_| ()).map_err(|error| ended(&error))
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }
}

/// What of a log no step tells.
pub const NOT_IN_STEPS: &[Loss] = &[
    Loss::Instructions,
    Loss::Data,
    Loss::Times,
    Loss::Modes,
    Loss::PhysicalAddresses,
    Loss::Attributes,
    Loss::Unreadable,
];

/// Why no more steps come.
fn ended(error: &ReadError) -> SourceError {
    SourceError { text: error.to_string(), is_damage: !matches!(error.kind, ReadErrorKind::Io(_)) }
}

/// Tells steps of the log as steps of the model.
struct StepEmitter<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    dialect: Dialect,
    /// The log was lowered, from a source that tells this.
    lowered: Option<Coverage>,
    /// The producer says of each branch that is not taken that it is skipped.
    says_skips: bool,
    /// The Security state of modes that do not name one.
    bare: Option<Security>,
    cores: Vec<Core>,
    clock: Clock,
    effects: Effects,
    losses: &'t mut Losses,
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
    /// What was told last of where the core goes is a reset, and where that leads nobody says.
    is_reset: bool,
    /// The first line.
    first: u64,
    notes: Notes,
    said: Said,
}

impl StepEmitter<'_> {
    fn step(&mut self, step: &lift::Step) -> ControlFlow<()> {
        while self.cores.len() <= step.core {
            self.cores.push(Core { first: step.place.line, ..Core::default() });
        }
        if let Some(coverage) = self.lowered {
            return self.lowered_step(step, coverage);
        }
        if step.strays.count > 0 {
            self.losses.add_many(Loss::Times, step.strays.count, step.strays.first);
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

    /// Counts the names of cores, which steps number.
    fn names<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>) {
        for (number, (name, core)) in names.zip(&self.cores).enumerate() {
            if self.lowered.is_none() && not_in_steps::is_name(name, number) {
                self.losses.add(Loss::Attributes, core.first);
            }
        }
    }

    /// Lines before the first instruction, or such that no instruction caused, in their order.
    fn start(&mut self, step: &lift::Step) -> ControlFlow<()> {
        let until = step.exceptions.first().map_or(u64::MAX, |raised| raised.line);
        let mut effects = step.registers.iter().map(|written| written.line);
        let mut accesses = step.accesses.iter().map(|access| access.line);
        if effects.any(|line| line < until) || accesses.any(|line| line < until) {
            self.tell(step, step.place.line, Event::State, 0..until)?;
        }
        step.exceptions.iter().try_for_each(|raised| {
            self.notes_before(step.core, raised.line)?;
            self.exception(step, raised, step.branch)
        })
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
        self.pass(step.core, kind);
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
        // Behind a reset a loader may set the PC.
        let is_reset = std::mem::take(&mut self.cores[step.core].is_reset);
        self.release(step.core, Some(address).filter(|_| !is_reset))?;
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
        if is_eret && self.dialect != Dialect::Gem5 {
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
        if core.scene.mode.level != executed.mode.level && not_in_steps::is_untold(executed.mode.level) {
            self.losses.add(Loss::Modes, step.place.line);
        }
        core.scene = Scene { mode: executed.mode, is_a64: Some(isa == Isa::A64) };
        let context = Context {
            level: level(executed.mode),
            security: executed.mode.security.map(security).or(self.bare.filter(|_| has_security(executed.mode.level))),
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
        self.pass(step.core, kind);
        let cause = step.instruction().filter(|_| raised.line > step.place.line);
        // What comes before an instruction, where effects do, are its own.
        let is_before = step.instruction().is_some() && cause.is_none();
        let lines = if is_before { NONE } else { raised.line..next.unwrap_or(u64::MAX) };
        // Some print the registers of an exception before its line.
        let is_only = cause.is_some() && step.exceptions.len() == 1;
        let class = class(step, if is_only { &ALL } else { &lines });
        let call = cause.filter(|_| is_only && kind == ExceptionKind::Synchronous).and_then(|cause| call(cause, class));
        let event = Event::Exception(Exception { kind, class, call, target, ..Exception::default() });
        self.tell_at(step, raised.line, raised.time, event, lines)
    }

    /// An exception comes behind the last instruction.
    fn pass(&mut self, core: usize, kind: ExceptionKind) {
        let core = &mut self.cores[core];
        (core.last, core.is_reset) = (None, kind == ExceptionKind::Reset);
    }

    /// A line that tells no step.
    #[cold]
    fn told(&mut self, place: Place, line: &Line<'_>, lifter: &mut Lifter) -> ControlFlow<()> {
        if let Record::Comment(text) = line.record
            && let Some(core) = cut_core(text)
        {
            lifter.enter(core);
        }
        if let (Some(_), Record::Comment(text)) = (self.lowered, line.record)
            && let Some(remark) = Annotation::parse(text)
        {
            return self.remark(place, remark, lifter);
        }
        self.note(place, line, lifter)
    }

    /// Puts a step behind those that wait, with the effects that these lines show.
    #[inline]
    fn tell(&mut self, step: &lift::Step, place: u64, event: Event, lines: Range<u64>) -> ControlFlow<()> {
        self.tell_at(step, place, step.time, event, lines)
    }

    /// The same at another time than that of the step.
    #[inline]
    fn tell_at(
        &mut self,
        step: &lift::Step,
        place: u64,
        time: Option<Time>,
        event: Event,
        lines: Range<u64>,
    ) -> ControlFlow<()> {
        if self.cores[step.core].hold.is_full() {
            self.release(step.core, None)?;
        }
        let time = time.map(|time| self.clock.count(time));
        let core = &mut self.cores[step.core];
        let told = core.hold.push();
        (told.core, told.place, told.time, told.event) = (step.core as u32, place, time, event);
        self.effects.tell(step, &lines, &core.scene, told);
        ControlFlow::Continue(())
    }

    /// Hands out what waits: the core goes on there, if that is known.
    #[inline]
    fn release(&mut self, core: usize, next: Option<u64>) -> ControlFlow<()> {
        let says_skips = self.says_skips;
        self.cores[core].hold.release(next, |instruction, next| resolve(instruction, next, says_skips), self.take)
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

/// The core goes on at `next`: what became of the branch before? `says_skips`: the producer says of each branch that is not
/// taken that it is skipped.
fn resolve(instruction: &mut Instruction, next: Option<u64>, says_skips: bool) {
    if instruction.branch.is_none()
        && let Some(facts) = branch_facts(instruction)
    {
        instruction.branch = course(instruction, &facts, next, says_skips);
        settle(instruction, &facts);
        let behind = instruction.address.wrapping_add(u64::from(instruction.length));
        if instruction.branch.is_none() && next == Some(behind) && !says_skips {
            // Not everybody says that a condition failed.
            instruction.is_executed = None;
        }
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
    let facts = facts(decoder_isa(instruction.isa), instruction.address, instruction.opcode?);
    (facts.length == instruction.length && is_branch(&facts)).then_some(facts)
}
