//! Steps that are held back until the next address is known.
//!
//! steps of one core ─▶ **held back** ─▶ the same steps with their targets
//!
//! In most sources, the target of a branch, an exception or an exception return is only known from the address of the next
//! instruction. Such steps are held back until then, with the steps that follow them, so that the order is kept.

use std::ops::ControlFlow;

use crate::{Event, Instruction, Step};

/// Maximum number of steps held back.
const MAX_STEPS: usize = 16;

/// Steps of one core that are held back. Their memory is reused.
#[derive(Debug, Default)]
pub struct Hold {
    steps: Vec<Step>,
    length: usize,
}

impl Hold {
    /// Whether no step is held back.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether no further step may be held back.
    pub fn is_full(&self) -> bool {
        self.length >= MAX_STEPS
    }

    /// Adds an empty step.
    pub fn push(&mut self) -> &mut Step {
        if self.length == self.steps.len() {
            self.steps.push(Step::default());
        }
        self.length += 1;
        let step = &mut self.steps[self.length - 1];
        step.clear();
        step
    }

    /// Passes on all held steps; the core continues at `next`, if that is known. `resolve` completes an instruction, given
    /// the address of its successor.
    pub fn release(
        &mut self,
        mut next: Option<u64>,
        mut resolve: impl FnMut(&mut Instruction, Option<u64>),
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let held = &mut self.steps[..self.length];
        self.length = 0;
        for step in held.iter_mut().rev() {
            match &mut step.event {
                Event::Exception(exception) => {
                    exception.target = exception.target.or(next);
                    // The address at which execution would have continued without the exception is unknown.
                    next = None;
                }
                Event::ExceptionReturn { target } => *target = target.or(next),
                Event::Instruction(instruction) => {
                    resolve(instruction, next);
                    next = Some(instruction.address);
                }
                Event::Gap(_) => next = None,
                Event::Context(_) | Event::State | Event::Note => {}
            }
        }
        held.iter().try_for_each(take)
    }
}
