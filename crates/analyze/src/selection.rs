//! Selection of instructions by function, with or without what the function calls.
//!
//! Takes candidates in the order of the trace; produces a choice for each, and stops after a number of ranges.
//! Knows nothing of symbols: functions are address ranges.

use std::ops::Range;

use unspool_model::selection::{Candidate, Choice, Select, Selection};

use crate::calls::{Began, Call, Follower, Instruction, Opcode, Site};

/// Selection of instructions, also by function, and of a bounded number of ranges.
#[derive(Debug)]
pub struct FunctionSelection {
    selection: Selection,
    callees: Option<Callees>,
    max_ranges: Option<u64>,
    ranges: u64,
    /// Index of the last instruction taken.
    last: Option<u64>,
    is_cut_short: bool,
}

impl FunctionSelection {
    /// Restricts `selection` to these functions, if there are any; `with_callees`: and to all that is executed until they
    /// return. At most `max_ranges` runs of consecutive instructions are taken.
    pub fn new(
        mut selection: Selection,
        functions: Vec<Range<u64>>,
        with_callees: bool,
        max_ranges: Option<u64>,
    ) -> Self {
        let callees = if with_callees {
            Some(Callees { functions, cores: Vec::new() })
        } else {
            selection.addresses.extend(functions);
            None
        };
        Self { selection, callees, max_ranges, ranges: 0, last: None, is_cut_short: false }
    }

    /// Whether there were more ranges than allowed.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    fn count(&mut self, candidate: &Candidate) -> Choice {
        let choice = self.selection.count();
        if choice != Choice::Take {
            return choice;
        }
        let follows = self.last.replace(candidate.index).is_some_and(|last| last + 1 == candidate.index);
        self.ranges += u64::from(!follows);
        self.is_cut_short = self.max_ranges.is_some_and(|max| self.ranges > max);
        if self.is_cut_short { Choice::Stop } else { Choice::Take }
    }
}

impl Select for FunctionSelection {
    #[inline]
    fn choose(&mut self, candidate: &Candidate) -> Choice {
        let is_inside = self.callees.as_mut().is_none_or(|callees| callees.is_inside(candidate));
        if is_inside && self.selection.matches(candidate) {
            return self.count(candidate);
        }
        if self.selection.is_over(candidate) { Choice::Stop } else { Choice::Leave }
    }

    fn wants_more(&self) -> bool {
        self.selection.wants_more() && !self.is_cut_short
    }

    fn wants_start(&self) -> bool {
        self.selection.wants_start() && self.callees.is_none()
    }
}

/// Tracks whether one of the functions is on the stack.
#[derive(Debug)]
struct Callees {
    functions: Vec<Range<u64>>,
    cores: Vec<Stack>,
}

/// Call stack of a core.
#[derive(Debug, Default)]
struct Stack {
    follower: Follower,
    number: u64,
    /// Depth at which one of the functions was entered.
    inside: Option<usize>,
}

impl Callees {
    fn is_inside(&mut self, candidate: &Candidate) -> bool {
        let core = candidate.core as usize;
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Stack::default);
        }
        let Some(pc) = candidate.pc else { return self.cores[core].inside.is_some() };
        let is_function = self.functions.iter().any(|function| function.contains(&pc));
        let stack = &mut self.cores[core];
        let is_outermost_left = stack.step(candidate, pc);
        let depth = stack.follower.depth();
        let is_left = stack.inside.is_some_and(|inside| depth < inside || inside == 0 && is_outermost_left);
        if is_left {
            stack.inside = None;
        }
        if is_function && stack.inside.is_none() {
            stack.inside = Some(depth);
        }
        stack.inside.is_some()
    }
}

impl Stack {
    /// Follows an instruction; true: the function in which the trace started has returned.
    fn step(&mut self, candidate: &Candidate, pc: u64) -> bool {
        let site = Site { position: candidate.index, time: candidate.time.unwrap_or(0), number: self.number, pc };
        self.number += 1;
        let code = candidate.code.map(|(isa, opcode)| Opcode { isa, opcode });
        let mut instruction = Instruction::new(site, candidate.length, code);
        instruction.is_executed = candidate.is_executed;
        instruction.is_interrupted = candidate.is_interrupted;
        let mut is_outermost_left = false;
        self.follower.step(&instruction, &mut |_: usize, call: &Call| is_outermost_left |= call.began == Began::Before);
        is_outermost_left
    }
}
