//! Steps that wait for what follows them.
//!
//! steps of one core ─▶ **held back** ─▶ the same, with where each led
//!
//! Where a branch, an exception or an exception return led is where the core goes on, and most sources say no more of it
//! than that. So these wait until it does, a few at most, and what came behind them waits too: the order stays.

use std::ops::ControlFlow;

use crate::{Event, Instruction, Step};

/// Steps that may wait.
const MOST: usize = 16;

/// Steps of one core that wait. Their memory is used again.
#[derive(Debug, Default)]
pub struct Hold {
    steps: Vec<Step>,
    length: usize,
}

impl Hold {
    /// Nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// No more may wait.
    pub fn is_full(&self) -> bool {
        self.length >= MOST
    }

    /// Room for one more step.
    pub fn push(&mut self) -> &mut Step {
        if self.length == self.steps.len() {
            self.steps.push(Step::default());
        }
        self.length += 1;
        let step = &mut self.steps[self.length - 1];
        step.clear();
        step
    }

    /// Hands out all that waits: the core goes on at `next`, if that is known. `resolve` completes an instruction that is
    /// directly followed by it.
    pub fn release(
        &mut self,
        mut next: Option<u64>,
        mut resolve: impl FnMut(&mut Instruction, Option<u64>),
        take: &mut dyn FnMut(&Step) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let waiting = &mut self.steps[..self.length];
        self.length = 0;
        for step in waiting.iter_mut().rev() {
            match &mut step.event {
                Event::Exception(exception) => {
                    exception.target = exception.target.or(next);
                    // Where execution would have gone on without it, nobody says.
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
        waiting.iter().try_for_each(take)
    }
}
