//! Steps of one executed block, as both recorders emit them.
//!
//! instructions, their accesses, data and register values ─▶ **steps** ─▶ sink
//!
//! The recorder decides which instructions were executed and in which order the parts of a step are added; this module makes
//! the parts.

use std::iter::{self, Peekable};
use std::ops::ControlFlow;
use std::slice;

use unspool_model::{BlockSink, Direction, Event, Instruction, Step};
use unspool_wire::{Access, Data};

use crate::atomics::Atomics;
use crate::registers::{RegisterNames, RegisterValue};

/// Consumer of the steps.
pub(crate) type Sink<'s> = &'s mut dyn BlockSink;

pub(crate) struct BlockEmitter<'e, A: Iterator> {
    pub(crate) core: u32,
    pub(crate) time: Option<u64>,
    /// Number of instructions of the core that were emitted.
    pub(crate) emitted: &'e mut u64,
    pub(crate) step: &'e mut Step,
    pub(crate) names: &'e RegisterNames,
    pub(crate) atomics: &'e Atomics,
    /// Accesses of the block in order, with their data.
    pub(crate) accesses: Peekable<A>,
    pub(crate) values: Peekable<slice::Iter<'e, RegisterValue>>,
}

impl<'e, A: Iterator<Item = (Access, Option<Data>)>> BlockEmitter<'e, A> {
    /// Emits a step with the register values that hold before an instruction, whatever wrote them.
    pub(crate) fn state_before(&mut self, index: usize, sink: Sink<'_>) -> ControlFlow<()> {
        if self.values.peek().is_none() {
            return ControlFlow::Continue(());
        }
        let is_before = |value: &&RegisterValue| {
            usize::from(value.index) < index || value.is_before && usize::from(value.index) == index
        };
        let now = iter::from_fn(|| self.values.next_if(is_before));
        match self.names.state(self.step, (self.core, *self.emitted), now) {
            true => sink.step(self.step),
            false => ControlFlow::Continue(()),
        }
    }

    /// Adds the accesses up to those of an instruction that are to be kept.
    #[inline]
    pub(crate) fn accesses(&mut self, index: usize, implies_reads: bool, keep: impl Fn(&Access) -> bool) {
        while let Some((access, data)) = self.accesses.next_if(|(access, _)| usize::from(access.index) <= index) {
            let Access { is_write, address, size, .. } = access;
            if self.atomics.is_comparison(&access) || !keep(&access) {
                continue;
            }
            if implies_reads && self.atomics.is_modification(&access) && self.step.accesses().len() == 0 {
                self.step.access(Direction::Read, address, size.into());
            }
            let direction = if is_write { Direction::Write } else { Direction::Read };
            match data.filter(|_| !self.atomics.hides_data(&access)) {
                Some(Data(words)) => {
                    let bytes = words.into_iter().flat_map(u64::to_le_bytes).take(size.into());
                    self.step.access_known(direction, address, size.into(), bytes.map(|byte| (byte, 0xff)));
                }
                None => self.step.access(direction, address, size.into()),
            }
        }
    }

    /// Adds the register values that an instruction wrote.
    pub(crate) fn values(&mut self, index: usize) {
        let is_now = |value: &&RegisterValue| !value.is_before && usize::from(value.index) == index;
        iter::from_fn(|| self.values.next_if(is_now)).for_each(|value| self.names.put(self.step, value));
    }

    /// Emits the instruction with its step.
    #[inline]
    pub(crate) fn instruction(&mut self, instruction: Instruction, sink: Sink<'_>) -> ControlFlow<()> {
        (self.step.core, self.step.position, self.step.time) = (self.core, *self.emitted, self.time);
        self.step.event = Event::Instruction(instruction);
        *self.emitted += 1;
        sink.step(self.step)
    }
}

/// Number of instructions of a block to emit, if `skipped` to `count` were executed, and whether that reaches the limit of
/// the core.
pub(crate) fn within_limit(limit: u64, emitted: u64, skipped: usize, count: usize) -> (usize, bool) {
    let wanted = usize::try_from(limit.saturating_sub(emitted)).unwrap_or(usize::MAX);
    let within = count.min(skipped.saturating_add(wanted));
    (within, within < count || wanted == 0)
}

/// Where and when a step is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) core: u32,
    pub(crate) position: u64,
    pub(crate) time: Option<u64>,
}

/// Emits a step that is not an instruction.
pub(crate) fn emit_event(step: &mut Step, at: At, event: Event, note: &str, sink: Sink<'_>) -> ControlFlow<()> {
    step.clear();
    (step.core, step.position, step.time, step.event) = (at.core, at.position, at.time, event);
    if !note.is_empty() {
        step.set_note(note);
    }
    sink.step(step)
}
