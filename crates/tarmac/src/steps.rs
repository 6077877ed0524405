//! Steps of the model from a Tarmac log.
//!
//! lines ─▶ [`super::lift`] ─▶ **steps**: contexts, instructions with their effects, exceptions and exception returns
//!
//! The position of a step is its line; times are counted in the unit of the first timestamp. Whether a branch was taken
//! follows from a BR line, from IS or CCFAIL, or from the next instruction of the core, so branches and exceptions are
//! held back until that instruction. A register has one name, whatever the log calls it: `x0` for X0 and w0, `v1` for
//! V1 and q1. Lines that belong to no step, those of buses and fetches too, become notes; what else steps have no field
//! for is counted ([`NOT_IN_STEPS`]). The annotations of a lowered log take precedence: [`super::lower`].

mod effects;
mod emitter;
mod implied;
mod lowered;
mod not_in_steps;
mod notes;
pub(super) mod outcome;
mod start;
mod to_model;

use std::io::Read;
use std::ops::ControlFlow;

use unspool_isa::ControlFlow as Flow;
use unspool_model::{
    Context, Coverage, Event, Exception, ExceptionKind, Facet, Instruction, Isa, Loss, Losses, Lost, SourceError, Step,
    StepSource, TimeUnit,
};

use self::effects::Effects;
use self::emitter::{ALL_LINES, NO_LINES, StepEmitter};
use self::lowered::TO_THE_END;
use self::notes::is_note;
use self::outcome::{conclude, instruction};
use self::start::Start;
use self::to_model::{call, class, exception_kind, has_security, is_handler, isa};
use super::annotation::{Annotation, cut_core};
use super::clock::Clock;
use super::dialect::Dialect;
use super::lift::{self, Cause, Lifter, StepInstruction, TakenException};
use super::read::{Position, ReadError, ReadErrorKind, Reader};
use super::record::{self, Line, Record};
use super::registers::NameContext;

/// Step source over a log.
pub struct Steps<R> {
    reader: Reader<R>,
    is_big_endian: bool,
    start: Start,
    losses: Losses,
}

impl<R: Read> Steps<R> {
    /// Steps of a log of which only the start was read. `big_endian` applies to data whose byte order the dialect
    /// leaves open.
    pub fn new(reader: Reader<R>, big_endian: bool) -> Self {
        let mut start = Start::default();
        reader.look(|line| start.line(line));
        Self { reader, is_big_endian: big_endian, start, losses: Losses::default() }
    }
}

impl<R: Read> StepSource for Steps<R> {
    fn coverage(&self) -> Coverage {
        use Facet::{Accesses, Branches, Conditions, Data, Instructions, Opcodes, Registers, Times};
        let always = Coverage::of(&[Instructions, Opcodes, Conditions, Branches, Accesses, Data, Registers, Times]);
        self.start.coverage(match self.reader.dialect() {
            // The lines of these dialects have no modes.
            Dialect::CortexM0 | Dialect::CortexM3 | Dialect::CortexR5 => always.with(Facet::Exceptions),
            // gem5 prints no exceptions.
            Dialect::Gem5 => always.with(Facet::Levels).with(Facet::Security),
            _ => always.with(Facet::Exceptions).with(Facet::Levels).with(Facet::Security),
        })
    }

    fn time_unit(&self) -> TimeUnit {
        self.start.time_unit()
    }

    fn each(&mut self, emit: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let lowered = self.start.lowered.map(|(coverage, _)| coverage);
        let (dialect, is_big_endian) = match lowered {
            Some(_) => (Dialect::Other, false),
            None => (self.reader.dialect(), self.is_big_endian),
        };
        let lifter = Lifter::new(dialect, is_big_endian);
        let mut lifter = if lowered.is_some() { lifter.trusting() } else { lifter };
        let clock = Clock::of(self.start.time);
        let mut emitter = StepEmitter {
            emit,
            dialect,
            lowered,
            reports_skips: lowered.is_none() && self.start.reports_skips(dialect),
            default_security: self.start.security(),
            cores: Vec::new(),
            clock,
            effects: Effects::new(),
            losses: &mut self.losses,
        };
        let mut flow = ControlFlow::Continue(());
        let read = self.reader.each(|position, line| {
            lifter.line(position, line, |step| {
                if flow.is_continue() {
                    flow = emitter.step(step);
                }
            });
            if lowered.is_none() {
                not_in_steps::count(emitter.losses, position.line, &line.record);
            }
            if flow.is_continue() && is_note(&line.record) {
                flow = emitter.other_line(position, line, &mut lifter);
            }
            flow
        });
        lifter.finish(|step| {
            if flow.is_continue() {
                flow = emitter.step(step);
            }
        });
        if flow.is_continue() {
            // The log is at its end, so there is nothing left to stop.
            let _ = emitter.finish();
        }
        emitter.count_core_names(lifter.cores());
        read.map(|_| ()).map_err(|error| source_error(&error))
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }
}

/// Whether a log, of which only the start was read, was made of another trace: its annotations contain what lines cannot.
pub fn is_lowered<R: Read>(reader: &Reader<R>) -> bool {
    let mut start = Start::default();
    reader.look(|line| start.line(line));
    start.lowered.is_some()
}

/// Losses that lifting a log to steps can report.
pub const NOT_IN_STEPS: &[Loss] = {
    use Loss::{Attributes, Data, Instructions, Modes, PhysicalAddresses, Times, Unreadable};
    &[Instructions, Data, Times, Modes, PhysicalAddresses, Attributes, Unreadable]
};

fn source_error(error: &ReadError) -> SourceError {
    let is_damage = !matches!(error.kind, ReadErrorKind::Io(_));
    SourceError { text: error.to_string(), is_damage, position: None }
}

impl StepEmitter<'_> {
    fn step(&mut self, step: &lift::Step) -> ControlFlow<()> {
        self.ensure_core(step.core, step.position.line);
        if let Some(coverage) = self.lowered {
            return self.lowered_step(step, coverage);
        }
        if step.differing_times.count > 0 {
            self.losses.add_many(Loss::Times, step.differing_times.count, step.differing_times.first);
        }
        if step.corrected_loads.count > 0 {
            let Lost { count, first } = step.corrected_loads;
            self.losses.add_many(Loss::CorrectedLoads, count, first);
        }
        self.push_notes_before(step.core, step.position.line)?;
        match &step.cause {
            Cause::None => self.start(step),
            Cause::Instruction(executed) => self.instruction(step, executed),
            Cause::Asynchronous(name) => self.asynchronous(step, step.text(name)),
        }
    }

    /// Emits all held steps at the end of the log.
    fn finish(&mut self) -> ControlFlow<()> {
        (0..self.cores.len()).try_for_each(|core| {
            self.emit_annotated(core, None, TO_THE_END)?;
            self.push_all_notes(core)?;
            match self.lowered {
                Some(coverage) => {
                    let conclude = |instruction: &mut _, next| conclude(instruction, next, coverage);
                    self.cores[core].hold.release(None, conclude, self.emit)
                }
                None => self.release(core, None),
            }
        })
    }

    /// Counts the names of cores as lost, where they are more than a number.
    fn count_core_names<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>) {
        for (number, (name, core)) in names.zip(&self.cores).enumerate() {
            if self.lowered.is_none() && not_in_steps::is_custom_name(name, number) {
                self.losses.add(Loss::Attributes, core.first);
            }
        }
    }

    /// A step without a cause: lines before the first instruction, or that no instruction caused, in order.
    fn start(&mut self, step: &lift::Step) -> ControlFlow<()> {
        let until = step.exceptions.first().map_or(u64::MAX, |exception| exception.line);
        let mut effects = step.registers.iter().map(|written| written.line);
        let mut accesses = step.accesses.iter().map(|access| access.line);
        if effects.any(|line| line < until) || accesses.any(|line| line < until) {
            self.push(step, step.position.line, Event::State, 0..until)?;
        }
        step.exceptions.iter().try_for_each(|exception| {
            self.push_notes_before(step.core, exception.line)?;
            self.exception(step, exception, step.branch)
        })
    }

    /// An interrupt or a reset: one exception, which the following lines may name again.
    fn asynchronous(&mut self, step: &lift::Step, name: &[u8]) -> ControlFlow<()> {
        // No exception: registers and memory change in the background.
        if name == b"Background Update" {
            return self.push(step, step.position.line, Event::State, ALL_LINES);
        }
        let named =
            step.exceptions.first().map(|exception| exception_kind(step.text(&exception.name), exception.vector));
        let kind = match exception_kind(name, None) {
            ExceptionKind::Unknown => named.unwrap_or_default(),
            kind => kind,
        };
        self.follow_exception(step.core, kind);
        let target = step.branch.map(|branch| branch.target);
        let class = class(step, &ALL_LINES);
        self.push(
            step,
            step.position.line,
            Event::Exception(Exception { kind, class, target, ..Exception::default() }),
            ALL_LINES,
        )
    }

    fn instruction(&mut self, step: &lift::Step, executed: &StepInstruction) -> ControlFlow<()> {
        let line = step.position.line;
        // With effects before their instruction, exceptions above the line precede the instruction.
        let before = step.exceptions.iter().take_while(|exception| exception.line < line).count();
        let (before, after) = step.exceptions.split_at(before);
        before.iter().try_for_each(|exception| self.exception(step, exception, None))?;
        // In debug state it has no address, only effects.
        let Some(address) = executed.address else { return self.push(step, line, Event::State, ALL_LINES) };
        self.implied(step, executed, address)?;
        // After a reset a loader may set the PC.
        let is_reset = std::mem::take(&mut self.cores[step.core].is_reset);
        self.release(step.core, Some(address).filter(|_| !is_reset))?;
        self.push_notes_up_to(step.core, line)?;
        self.context(step, executed)?;
        let isa = self.cores[step.core].isa;
        let branch_line = step.branch.filter(|_| after.is_empty());
        let (opcode, length) = (executed.opcode, executed.length);
        let plain = Instruction { address, opcode, length, isa, ..Instruction::default() };
        let (instruction, facts) = instruction(&plain, executed.is_executed, branch_line.map(|branch| branch.target));
        let until = after.first().map_or(u64::MAX, |exception| exception.line);
        self.push(step, line, Event::Instruction(instruction), 0..until)?;
        self.cores[step.core].last = Some(instruction).filter(|_| after.is_empty());
        let is_eret =
            facts.is_some_and(|facts| facts.flow == Flow::ExceptionReturn) && executed.is_executed && after.is_empty();
        if is_eret && self.dialect != Dialect::Gem5 {
            let target = branch_line.map(|branch| branch.target);
            self.push(step, line, Event::ExceptionReturn { target }, NO_LINES)?;
        }
        after.iter().try_for_each(|exception| self.exception(step, exception, step.branch))?;
        let is_pending = is_eret || !after.is_empty() || facts.is_some() && instruction.branch.is_none();
        if is_pending {
            return ControlFlow::Continue(());
        }
        // The outcome is known, so nothing has to wait for the next instruction.
        self.cores[step.core].hold.release(None, |_, _| {}, self.emit)
    }

    /// Emits a context step if the state of the core has changed.
    #[inline]
    fn context(&mut self, step: &lift::Step, executed: &StepInstruction) -> ControlFlow<()> {
        let core = &mut self.cores[step.core];
        let isa = isa(self.dialect, executed);
        core.isa = isa;
        if core.name_context.mode.level != executed.mode.level && not_in_steps::has_no_level(executed.mode.level) {
            self.losses.add(Loss::Modes, step.position.line);
        }
        core.name_context = NameContext { mode: executed.mode, is_a64: Some(isa == Isa::A64) };
        let default_security = self.default_security.filter(|_| has_security(executed.mode.level));
        let context = Context {
            level: executed.mode.exception_level(),
            security: executed.mode.security.or(default_security),
            is_aarch64: Some(isa == Isa::A64),
            is_handler: is_handler(executed.mode.level),
            ..Context::default()
        };
        if core.context.replace(context) == Some(context) {
            return ControlFlow::Continue(());
        }
        self.push(step, step.position.line, Event::Context(context), NO_LINES)
    }

    /// An exception line, with the effects up to the next exception.
    fn exception(
        &mut self,
        step: &lift::Step,
        exception: &TakenException,
        branch_line: Option<record::Branch>,
    ) -> ControlFlow<()> {
        let next = step.exceptions.iter().map(|exception| exception.line).find(|line| *line > exception.line);
        // A BR line belongs to the last exception.
        let target = branch_line.filter(|_| next.is_none()).map(|branch| branch.target);
        let kind = exception_kind(step.text(&exception.name), exception.vector);
        self.follow_exception(step.core, kind);
        let cause = step.instruction().filter(|_| exception.line > step.position.line);
        // With effects before their instruction, those above an instruction are its own.
        let is_before = step.instruction().is_some() && cause.is_none();
        let lines = if is_before { NO_LINES } else { exception.line..next.unwrap_or(u64::MAX) };
        // Some producers print the registers of an exception before its line.
        let is_only = cause.is_some() && step.exceptions.len() == 1;
        let class = class(step, if is_only { &ALL_LINES } else { &lines });
        let call = cause.filter(|_| is_only && kind == ExceptionKind::Synchronous).and_then(|cause| call(cause, class));
        let event = Event::Exception(Exception { kind, class, call, target, ..Exception::default() });
        self.push_at(step, exception.line, exception.time, event, lines)
    }

    /// Records that an exception follows the last instruction.
    fn follow_exception(&mut self, core: usize, kind: ExceptionKind) {
        let core = &mut self.cores[core];
        (core.last, core.is_reset) = (None, kind == ExceptionKind::Reset);
    }

    /// A line that belongs to no step: a cut mark, an annotation, or a note.
    #[cold]
    fn other_line(&mut self, position: Position, line: &Line<'_>, lifter: &mut Lifter) -> ControlFlow<()> {
        if let Record::Comment(text) = line.record
            && let Some(core) = cut_core(text)
        {
            lifter.select_core(core);
        }
        if let (Some(_), Record::Comment(text)) = (self.lowered, line.record)
            && let Some(annotation) = Annotation::parse(text)
        {
            return self.annotate(position, annotation, lifter);
        }
        self.note(position, line, lifter)
    }
}
