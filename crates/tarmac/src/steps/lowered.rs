//! Steps of lowered logs: logs that [`lower`](super::super::lower) wrote from steps, with annotations in comments.
//!
//! annotations, lifted steps ─▶ **steps**, the same as were lowered
//!
//! Annotations take precedence over lines. One that begins a step ends the previous one; the lines after it are its
//! effects. Contexts, exceptions and exception returns come from annotations only, and nothing is inferred. Registers
//! keep the names in the log.

use std::ops::ControlFlow;

use unspool_model::{Coverage, Event, Instruction, Loss};

use super::super::annotation::escape::unescape;
use super::super::annotation::{AnnotatedAccess, Annotation, Outcome, core_name};
use super::super::lift::{self, Cause, Lifter, StepInstruction};
use super::super::read::Position;
use super::effects::{CompoundAccess, push_lowered_effects};
use super::emitter::{Core, StepEmitter};
use super::outcome::{conclude, expect};
use super::to_model::isa;

/// Number of bytes after which a note is split.
const MAX_NOTE: usize = 1 << 24;

/// Limit on annotated accesses of one step, which bounds memory for a log that was edited.
const MAX_ACCESSES: usize = 1 << 20;

/// Line after all annotations so far: nothing is left for the next step.
pub(super) const TO_THE_END: u64 = u64::MAX;

impl StepEmitter<'_> {
    /// Handles an annotation.
    pub(super) fn annotate(
        &mut self,
        position: Position,
        annotation: Annotation<'_>,
        lifter: &mut Lifter,
    ) -> ControlFlow<()> {
        match annotation {
            // The coverage is known from the start of the log. Core 0 becomes the first core, whichever prints first.
            Annotation::Covers(..) => select_core(0, lifter),
            Annotation::Core(core) => select_core(core, lifter),
            Annotation::NoTime => lifter.clear_time(),
            Annotation::Access(access) => {
                let accesses = &mut self.core(lifter.core(), 0).annotated.accesses;
                if accesses.len() < MAX_ACCESSES {
                    accesses.push(compound_access(position.line, &access));
                } else {
                    self.losses.add(Loss::Data, position.line);
                }
            }
            Annotation::NoteStart(text) => {
                self.end_step(lifter)?;
                let core = self.core(lifter.core(), 0);
                unescape(text, &mut core.annotated.text);
                if core.annotated.text.len() > MAX_NOTE {
                    let time = lifter.time().map(|time| self.clock.count(time));
                    self.begin(lifter.core(), Event::Note, position.line, time);
                    self.emit_annotated(lifter.core(), None, TO_THE_END)?;
                }
            }
            Annotation::Instruction(outcome) => {
                self.end_step(lifter)?;
                self.core(lifter.core(), 0).annotated.outcome = Some(outcome);
            }
            Annotation::Outcome(outcome) => {
                self.end_step(lifter)?;
                let mut outcome = Some(outcome);
                // At most one instruction is held: the previous one, which the outcome is of.
                let apply_late_outcome = |instruction: &mut Instruction, _| {
                    if let Some(outcome) = outcome.take() {
                        (instruction.is_executed, instruction.branch) = (outcome.is_executed, outcome.branch);
                    }
                };
                self.ensure_core(lifter.core(), 0);
                self.cores[lifter.core()].hold.release(None, apply_late_outcome, self.emit)?;
            }
            Annotation::Step { event, time, text } => {
                self.end_step(lifter)?;
                let inherited = lifter.time().map(|time| self.clock.count(time));
                let at = lifter.core();
                unescape(text, &mut self.core(at, 0).annotated.text);
                self.begin(at, event, position.line, time.unwrap_or(inherited));
            }
        }
        ControlFlow::Continue(())
    }

    /// Ends the current step, whether an instruction or an annotation began it.
    fn end_step(&mut self, lifter: &mut Lifter) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        lifter.end_step(|step| {
            if flow.is_continue() {
                flow = self.step(step);
            }
        });
        flow?;
        let at = lifter.core();
        self.ensure_core(at, 0);
        self.emit_annotated(at, None, TO_THE_END)
    }

    /// Begins a step that is no instruction; the lines that follow are its effects.
    fn begin(&mut self, at: usize, event: Event, line: u64, time: Option<u64>) {
        self.core(at, 0).annotated.step = Some((event, line, time));
    }

    /// Emits the step that an annotation began, if any, with the effects of `step` and the accesses whose
    /// annotations precede `line`.
    pub(super) fn emit_annotated(&mut self, at: usize, step: Option<&lift::Step>, line: u64) -> ControlFlow<()> {
        let Core { annotated, hold, .. } = &mut self.cores[at];
        let Some((event, position, time)) = annotated.step.take() else { return ControlFlow::Continue(()) };
        let out = hold.push();
        (out.core, out.position, out.time, out.event) = (at as u32, position, time, event);
        if event == Event::Note {
            out.set_note(&annotated.text);
        }
        annotated.text.clear();
        push_lowered_effects(step, &mut annotated.accesses, line, out);
        hold.release(None, |_, _| {}, self.emit)
    }

    /// Handles a step of a lowered log.
    pub(super) fn lowered_step(&mut self, step: &lift::Step, coverage: Coverage) -> ControlFlow<()> {
        match &step.cause {
            Cause::Instruction(executed) => {
                self.emit_annotated(step.core, None, step.position.line)?;
                self.lowered_instruction(step, executed, coverage)
            }
            _ if self.cores[step.core].annotated.step.is_some() => {
                self.emit_annotated(step.core, Some(step), TO_THE_END)
            }
            // Effects without an annotation: the log was edited.
            _ => self.state(step),
        }
    }

    /// Emits the effects of a step alone.
    fn state(&mut self, step: &lift::Step) -> ControlFlow<()> {
        let time = step.time.map(|time| self.clock.count(time));
        self.begin(step.core, Event::State, step.position.line, time);
        self.emit_annotated(step.core, Some(step), TO_THE_END)
    }

    fn lowered_instruction(
        &mut self,
        step: &lift::Step,
        executed: &StepInstruction,
        coverage: Coverage,
    ) -> ControlFlow<()> {
        // An instruction in debug state: the log was edited. It has no address, only effects.
        let Some(address) = executed.address else {
            self.losses.add(Loss::Instructions, step.position.line);
            return self.state(step);
        };
        let time = step.time.map(|time| self.clock.count(time));
        let isa = isa(self.dialect, executed);
        let Core { annotated, hold, .. } = &mut self.cores[step.core];
        hold.release(Some(address), |instruction, next| conclude(instruction, next, coverage), self.emit)?;
        let (opcode, length) = (executed.opcode, executed.length);
        let plain = Instruction { address, opcode, length, isa, ..Instruction::default() };
        let target = step.branch.map(|branch| branch.target);
        let (mut instruction, mut is_pending) = expect(&plain, executed.is_executed, target, coverage);
        if let Some(outcome) = annotated.outcome.take() {
            apply_annotation(&mut instruction, &outcome);
            is_pending = false;
        }
        let out = hold.push();
        (out.core, out.position, out.time) = (step.core as u32, step.position.line, time);
        out.event = Event::Instruction(instruction);
        push_lowered_effects(Some(step), &mut annotated.accesses, TO_THE_END, out);
        if is_pending {
            return ControlFlow::Continue(());
        }
        hold.release(None, |_, _| {}, self.emit)
    }
}

/// Replaces what the line of an instruction implies by the annotation before it.
fn apply_annotation(instruction: &mut Instruction, outcome: &Outcome) {
    if let Some((opcode, length)) = outcome.irregular {
        (instruction.opcode, instruction.length) = (opcode, length);
    }
    instruction.is_executed = outcome.is_executed;
    instruction.branch = outcome.branch;
    instruction.za_index = outcome.za_index;
}

fn select_core(core: u32, lifter: &mut Lifter) {
    lifter.select_core(core_name(core).as_bytes());
}

fn compound_access(line: u64, access: &AnnotatedAccess<'_>) -> CompoundAccess {
    let digits = access.data.as_bytes().chunks_exact(2);
    // Value and mask of the known bits; `xx` is unknown.
    let byte = |pair: &[u8]| {
        let text = str::from_utf8(pair).unwrap_or_default();
        u8::from_str_radix(text, 16).map_or((0, 0), |byte| (byte, 0xff))
    };
    let &AnnotatedAccess { direction, address, size, is_tagged, lines, .. } = access;
    CompoundAccess { line, direction, address, size, is_tagged, lines, bytes: digits.map(byte).collect() }
}
