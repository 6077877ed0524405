//! Cache of decoded instructions, and the outcome of a branch from the next address.

use unspool_coresight::unit::Executed;
use unspool_coresight::{SubIsa, Target};
use unspool_isa::{ControlFlow, decode};
use unspool_model::{Instruction, Isa};

/// Instruction that waits for its successor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) known: Known,
    /// Outcome and target of a branch, if the step has them.
    pub(super) taken: Option<bool>,
    pub(super) branch_target: Option<u64>,
}

impl Pending {
    #[inline(always)]
    pub(super) fn new(known: &Known, instruction: &Instruction) -> Self {
        let taken = instruction.branch.map(|branch| branch.taken);
        let branch_target = instruction.branch.and_then(|branch| branch.target);
        let skipped = instruction.is_executed.filter(|is_executed| !is_executed);
        let mut known = *known;
        if !known.executed.class.is_branch() {
            known.executed.taken = skipped.is_none();
        }
        Self { known, taken: taken.or(skipped), branch_target }
    }
}

/// Decoded instruction. Half a cache line: there is one for each instruction of a loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) executed: Executed,
    /// Target of a direct branch; meaningless without `target_isa`.
    pub(super) target: u64,
    pub(super) target_isa: Option<SubIsa>,
    pub(super) opcode: u32,
    pub(super) isa: Isa,
    pub(super) it: u8,
}

impl Known {
    /// Whether this is the decoded form of `instruction`.
    #[inline(always)]
    pub(super) fn is_of(&self, instruction: &Instruction) -> bool {
        self.executed.address == instruction.address
            && self.isa == instruction.isa
            && Some(self.opcode) == instruction.opcode
    }

    #[inline(always)]
    pub(super) fn next(&self) -> Target {
        let all = if self.isa == Isa::A64 { u64::MAX } else { 0xffff_ffff };
        let address = self.executed.address.wrapping_add(u64::from(self.executed.length)) & all;
        Target { address, isa: self.executed.isa }
    }

    #[inline(always)]
    pub(super) fn target(&self) -> Option<Target> {
        self.target_isa.map(|isa| Target { address: self.target, isa })
    }

    /// Whether it calls a higher Exception level. Many sources report no class for that exception.
    pub(super) fn is_call(&self) -> bool {
        decode(self.isa, self.executed.address, self.opcode).flow == ControlFlow::SupervisorCall
    }
}

pub(super) const KNOWN: usize = 1 << 15;

/// Cache index of an address. Code at distant addresses seldom collides.
#[inline(always)]
pub(super) fn slot(address: u64) -> usize {
    (address >> 1 ^ address >> 16) as usize % KNOWN
}

/// Whether a branch was taken, given that execution continues at `next`; `None`: it cannot. `taken`: as reported.
#[inline]
pub(super) fn outcome(branch: &Known, taken: Option<bool>, next: Target) -> Option<bool> {
    let falls_through = next == branch.next() && branch.executed.conditional;
    let branches = branch.target().is_none_or(|target| target == next);
    match (branches, falls_through) {
        (true, true) => Some(taken.unwrap_or(branch.target().is_some())),
        (false, false) => None,
        (branches, _) => Some(branches),
    }
}
