//! Logs that were lowered from steps: what remarks say comes before what lines show.
//!
//! A remark that begins a step ends the one before; lines behind it are its effects. Contexts, exceptions and their
//! returns are what remarks say, and nothing is concluded. Registers have the names that they were written with.

use std::ops::ControlFlow;

use unspool_model::{Coverage, Direction, Event, Facet, Instruction, Step};

use super::super::lift::{self, Cause, Executed, Lifter};
use super::super::lower::annotation::{AnnotatedAccess, Annotation, Outcome, core_name};
use super::super::lower::escape::unescape;
use super::super::read::Place;
use super::effects::{Parts, tell_lowered};
use super::to_model::isa;
use super::{Core, StepEmitter, instruction, resolve};

/// Notes that are longer are told in parts.
const LONGEST: usize = 1 << 24;

/// Nobody writes a step with more accesses that remarks tell.
const MOST_PARTS: usize = 1 << 20;

/// What remarks said of a core, and lines did not show yet.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// A step that has begun: what, where and when.
    step: Option<(Event, u64, Option<u64>)>,
    /// The text of a note.
    text: String,
    /// What the next instruction is.
    outcome: Option<Outcome>,
    /// Accesses that following lines are parts of.
    pub(super) parts: Vec<Parts>,
}

impl StepEmitter<'_> {
    /// A comment of the log.
    pub(super) fn remark(&mut self, place: Place, remark: Annotation<'_>, lifter: &mut Lifter) -> ControlFlow<()> {
        match remark {
            // Core 0 is there, even if no line of it comes first.
            Annotation::Covers(..) => enter(0, lifter),
            Annotation::Core(core) => enter(core, lifter),
            Annotation::NoTime => lifter.forget_time(),
            Annotation::Access(whole) => {
                let said = &mut self.core(lifter.core()).said;
                if said.parts.len() < MOST_PARTS {
                    said.parts.push(parts(place.line, &whole));
                }
            }
            Annotation::NoteStart(text) => {
                self.end_step(lifter)?;
                let core = self.core(lifter.core());
                unescape(text, &mut core.said.text);
                if core.said.text.len() > LONGEST {
                    let time = lifter.time().map(|time| self.clock.count(time));
                    self.begin(lifter.core(), Event::Note, place.line, time);
                    self.tell_said(lifter.core(), None, u64::MAX)?;
                }
            }
            Annotation::Instruction(outcome) => {
                self.end_step(lifter)?;
                self.core(lifter.core()).said.outcome = Some(outcome);
            }
            Annotation::Outcome(outcome) => {
                self.end_step(lifter)?;
                let mut outcome = Some(outcome);
                // The last instruction comes first.
                let settle = |instruction: &mut Instruction, _| {
                    if let Some(outcome) = outcome.take() {
                        (instruction.is_executed, instruction.branch) = (outcome.is_executed, outcome.branch);
                    }
                };
                self.core(lifter.core());
                self.cores[lifter.core()].hold.release(None, settle, self.take)?;
            }
            Annotation::Step { event, time, text } => {
                self.end_step(lifter)?;
                let inherited = lifter.time().map(|time| self.clock.count(time));
                let at = lifter.core();
                unescape(text, &mut self.core(at).said.text);
                self.begin(at, event, place.line, time.unwrap_or(inherited));
            }
        }
        ControlFlow::Continue(())
    }

    fn core(&mut self, at: usize) -> &mut Core {
        while self.cores.len() <= at {
            self.cores.push(Core::default());
        }
        &mut self.cores[at]
    }

    /// The step before has all of its lines, be it an instruction or one that a remark began.
    fn end_step(&mut self, lifter: &mut Lifter) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        lifter.end_step(|step| {
            if flow.is_continue() {
                flow = self.step(step);
            }
        });
        flow?;
        let at = lifter.core();
        self.core(at);
        self.tell_said(at, None, u64::MAX)
    }

    /// A step begins.
    fn begin(&mut self, at: usize, event: Event, line: u64, time: Option<u64>) {
        self.core(at).said.step = Some((event, line, time));
    }

    /// Tells the step that a remark began, with the effects that lines show, and those that remarks say before a line.
    pub(super) fn tell_said(&mut self, at: usize, step: Option<&lift::Step>, line: u64) -> ControlFlow<()> {
        let Core { said, hold, .. } = &mut self.cores[at];
        let Some((event, place, time)) = said.step.take() else { return ControlFlow::Continue(()) };
        let told = hold.push();
        (told.core, told.place, told.time, told.event) = (at as u32, place, time, event);
        if event == Event::Note {
            told.set_note(&said.text);
        }
        said.text.clear();
        tell_lowered(step, &mut said.parts, line, told);
        hold.release(None, |_, _| {}, self.take)
    }

    /// A step of a log that was lowered.
    pub(super) fn lowered_step(&mut self, step: &lift::Step, coverage: Coverage) -> ControlFlow<()> {
        match &step.cause {
            Cause::Instruction(executed) => {
                self.tell_said(step.core, None, step.place.line)?;
                self.lowered_instruction(step, executed, coverage)
            }
            _ if self.cores[step.core].said.step.is_some() => self.tell_said(step.core, Some(step), u64::MAX),
            // Somebody took remarks out, and left that of the start.
            _ => {
                let time = step.time.map(|time| self.clock.count(time));
                self.begin(step.core, Event::State, step.place.line, time);
                self.tell_said(step.core, Some(step), u64::MAX)
            }
        }
    }

    fn lowered_instruction(&mut self, step: &lift::Step, executed: &Executed, coverage: Coverage) -> ControlFlow<()> {
        let address = executed.address.unwrap_or_default();
        let time = step.time.map(|time| self.clock.count(time));
        let isa = isa(self.dialect, executed);
        let Core { said, hold, .. } = &mut self.cores[step.core];
        hold.release(Some(address), |instruction, next| conclude(instruction, next, coverage), self.take)?;
        let (opcode, length) = (executed.opcode, executed.length);
        let plain = Instruction { address, opcode, length, isa, ..Instruction::default() };
        let led = step.branch.map(|branch| branch.target);
        let (mut instruction, mut waits) = expect(&plain, executed.is_executed, led, coverage);
        if let Some(outcome) = said.outcome.take() {
            apply(&mut instruction, &outcome);
            waits = false;
        }
        let told = hold.push();
        (told.core, told.place, told.time) = (step.core as u32, step.place.line, time);
        told.event = Event::Instruction(instruction);
        tell_lowered(Some(step), &mut said.parts, u64::MAX, told);
        if waits {
            return ControlFlow::Continue(());
        }
        hold.release(None, |_, _| {}, self.take)
    }
}

/// What a line says of an instruction, and whether where the core goes on says more.
#[inline]
pub(in super::super) fn expect(
    plain: &Instruction,
    is_executed: bool,
    led: Option<u64>,
    coverage: Coverage,
) -> (Instruction, bool) {
    let (mut instruction, facts) = instruction(plain, is_executed, led);
    let waits = facts.is_some() && instruction.branch.is_none() && coverage.has(Facet::Branches);
    limit(&mut instruction, coverage);
    (instruction, waits)
}

/// The core goes on at `next`: what became of the branch before?
pub(in super::super) fn conclude(instruction: &mut Instruction, next: Option<u64>, coverage: Coverage) {
    if coverage.has(Facet::Branches) {
        resolve(instruction, next, false);
    }
    limit(instruction, coverage);
}

/// Lines always say whether an instruction was executed; the source may not.
fn limit(instruction: &mut Instruction, coverage: Coverage) {
    if !coverage.has(Facet::Conditions) {
        instruction.is_executed = None;
    }
    if !coverage.has(Facet::Branches) {
        instruction.branch = None;
    }
}

fn apply(instruction: &mut Instruction, outcome: &Outcome) {
    if let Some((opcode, length)) = outcome.irregular {
        (instruction.opcode, instruction.length) = (opcode, length);
    }
    instruction.is_executed = outcome.is_executed;
    instruction.branch = outcome.branch;
    instruction.za_index = outcome.za_index;
}

fn enter(core: u32, lifter: &mut Lifter) {
    lifter.enter(core_name(core).as_bytes());
}

fn parts(line: u64, whole: &AnnotatedAccess<'_>) -> Parts {
    let digits = whole.data.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| {
        let text = str::from_utf8(pair).unwrap_or_default();
        u8::from_str_radix(text, 16).map_or((0, 0), |byte| (byte, 0xff))
    };
    let &AnnotatedAccess { direction, address, size, is_tagged, lines, .. } = whole;
    Parts { line, direction, address, size, is_tagged, lines, bytes: digits.map(byte).collect() }
}

/// Tells an access that remarks or lines told.
pub(super) fn tell_whole(parts: &Parts, bytes: &[(u8, u8)], told: &mut Step) {
    let is_known =
        bytes.iter().any(|(_, known)| *known != 0) && parts.direction != Direction::Both || !parts.bytes.is_empty();
    let bytes = if parts.bytes.is_empty() { bytes } else { &parts.bytes };
    told.access_known(parts.direction, parts.address, parts.size, bytes.iter().copied().filter(|_| is_known));
    if parts.is_tagged {
        told.tag_last_access();
    }
}

/// What became of a branch, as a remark says it.
pub(in super::super) fn outcome(instruction: &Instruction) -> Outcome {
    let &Instruction { is_executed, branch, za_index, .. } = instruction;
    Outcome { irregular: None, is_executed, branch, za_index }
}
