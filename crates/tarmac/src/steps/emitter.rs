//! The converter from lifted steps to steps of the model, with its state per core.
//!
//! Steps are held back until their outcome is known; annotations and notes wait for the step that they belong to.

use std::ops::{ControlFlow, Range};

use unspool_model::hold::Hold;
use unspool_model::{Context, Coverage, Event, Gap, Instruction, Isa, Losses, Security, Step};

use super::super::annotation::Outcome;
use super::super::clock::Clock;
use super::super::dialect::Dialect;
use super::super::lift;
use super::super::record::Time;
use super::super::registers::NameContext;
use super::effects::{CompoundAccess, Effects};
use super::outcome::resolve;

pub(super) const ALL_LINES: Range<u64> = 0..u64::MAX;
pub(super) const NO_LINES: Range<u64> = 0..0;

/// Converts the steps of the lifter to steps of the model.
pub(super) struct StepEmitter<'t> {
    pub(super) emit: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    pub(super) dialect: Dialect,
    /// Coverage of the source, if the log was lowered.
    pub(super) lowered: Option<Coverage>,
    /// Whether the producer prints each branch that is not taken as skipped.
    pub(super) reports_skips: bool,
    /// The Security state of modes that name none.
    pub(super) default_security: Option<Security>,
    pub(super) cores: Vec<Core>,
    pub(super) clock: Clock,
    pub(super) effects: Effects,
    pub(super) losses: &'t mut Losses,
}

#[derive(Default)]
pub(super) struct Core {
    pub(super) context: Option<Context>,
    pub(super) isa: Isa,
    /// Mode and instruction set, which decide what register names mean.
    pub(super) name_context: NameContext,
    pub(super) hold: Hold,
    /// The last instruction, unless an exception or a gap followed.
    pub(super) last: Option<Instruction>,
    /// Whether the last exception was a reset, whose target no line gives.
    pub(super) is_reset: bool,
    /// The first line of the core.
    pub(super) first: u64,
    /// Notes that are held back.
    pub(super) notes: Vec<Note>,
    pub(super) annotated: Annotated,
}

/// Annotations of a core that still wait for their lines.
#[derive(Debug, Default)]
pub(super) struct Annotated {
    /// The step that has begun: event, line and time.
    pub(super) step: Option<(Event, u64, Option<u64>)>,
    /// Text of the note.
    pub(super) text: String,
    /// Properties of the next instruction.
    pub(super) outcome: Option<Outcome>,
    /// Accesses that the following lines are parts of.
    pub(super) accesses: Vec<CompoundAccess>,
}

/// A line that belongs to no step.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) line: u64,
    pub(super) time: Option<u64>,
    pub(super) text: String,
    /// The gap that the line marks.
    pub(super) gap: Option<Gap>,
}

impl StepEmitter<'_> {
    /// Creates a core if it is new; `line`: its first line.
    pub(super) fn ensure_core(&mut self, at: usize, line: u64) {
        while self.cores.len() <= at {
            self.cores.push(Core { first: line, ..Core::default() });
        }
    }

    /// A core, created if it is new.
    pub(super) fn core(&mut self, at: usize, line: u64) -> &mut Core {
        self.ensure_core(at, line);
        &mut self.cores[at]
    }

    /// Appends a step to the held ones, with the effects in these lines.
    #[inline]
    pub(super) fn push(
        &mut self,
        step: &lift::Step,
        position: u64,
        event: Event,
        lines: Range<u64>,
    ) -> ControlFlow<()> {
        self.push_at(step, position, step.time, event, lines)
    }

    /// Like `push`, at a time other than that of the step.
    #[inline]
    pub(super) fn push_at(
        &mut self,
        step: &lift::Step,
        position: u64,
        time: Option<Time>,
        event: Event,
        lines: Range<u64>,
    ) -> ControlFlow<()> {
        if self.cores[step.core].hold.is_full() {
            self.release(step.core, None)?;
        }
        let time = time.map(|time| self.clock.count(time));
        let core = &mut self.cores[step.core];
        let out = core.hold.push();
        (out.core, out.position, out.time, out.event) = (step.core as u32, position, time, event);
        self.effects.push(step, &lines, &core.name_context, out);
        ControlFlow::Continue(())
    }

    /// Emits the held steps. `next`: the address where the core continues, if known.
    #[inline]
    pub(super) fn release(&mut self, core: usize, next: Option<u64>) -> ControlFlow<()> {
        let reports_skips = self.reports_skips;
        self.cores[core].hold.release(next, |instruction, next| resolve(instruction, next, reports_skips), self.emit)
    }
}
