//! What is remembered of an instruction, so that it is looked at once, and what follows from where the next one is.

use unspool_coresight::etm4::unit::Executed;
use unspool_coresight::{SubIsa, Target};
use unspool_isa as isa;
use unspool_model::{Instruction, Isa};

/// An instruction that waits for what follows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) known: Known,
    /// What the step says of a branch.
    pub(super) taken: Option<bool>,
    pub(super) led_to: Option<u64>,
}

impl Pending {
    #[inline(always)]
    pub(super) fn new(known: &Known, instruction: &Instruction) -> Self {
        let (taken, led_to) = said(instruction);
        Self { known: *known, taken, led_to }
    }
}

/// What is known of an instruction that was met before. Half a cache line: there is one for each instruction of a loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) executed: Executed,
    /// Where a direct branch leads; without meaning if there is no instruction set.
    pub(super) target: u64,
    pub(super) target_isa: Option<SubIsa>,
    pub(super) opcode: u32,
    pub(super) isa: Isa,
    pub(super) it: u8,
}

impl Known {
    /// Is it of this instruction?
    #[inline(always)]
    pub(super) fn is_of(&self, instruction: &Instruction) -> bool {
        self.executed.address == instruction.address
            && self.isa == instruction.isa
            && Some(self.opcode) == instruction.opcode
    }

    #[inline(always)]
    pub(super) fn behind(&self) -> Target {
        let all = if self.isa == Isa::A64 { u64::MAX } else { 0xffff_ffff };
        let address = self.executed.address.wrapping_add(u64::from(self.executed.length)) & all;
        Target { address, isa: self.executed.isa }
    }

    #[inline(always)]
    pub(super) fn target(&self) -> Option<Target> {
        self.target_isa.map(|isa| Target { address: self.target, isa })
    }

    /// Is it an instruction that calls a higher Exception level? Many sources say no more of the exception than that.
    pub(super) fn is_call(&self) -> bool {
        match self.isa {
            Isa::A64 => isa::a64_access(self.opcode).operation == isa::Operation::SupervisorCall,
            Isa::A32 => self.opcode >> 24 & 0xf == 0xf && self.opcode >> 28 != 0xf,
            Isa::T32 => self.opcode >> 8 == 0xdf,
            Isa::Rv32 | Isa::Rv64 => false,
        }
    }
}

/// How many instructions are known at a time.
pub(super) const KNOWN: usize = 1 << 15;

/// The place of an instruction among those that are known: pieces of code that are far apart seldom share one.
#[inline(always)]
pub(super) fn place(address: u64) -> usize {
    (address >> 1 ^ address >> 16) as usize % KNOWN
}

/// What a step says of a branch: was it taken, and where did it lead?
#[inline]
fn said(instruction: &Instruction) -> (Option<bool>, Option<u64>) {
    let taken = instruction.branch.map(|branch| branch.taken);
    let led_to = instruction.branch.and_then(|branch| branch.target);
    (taken.or(instruction.is_executed.filter(|is_executed| !is_executed)), led_to)
}

/// Did the branch, of which the source may say that it was taken, lead there by being so? `None`: it cannot lead there.
#[inline]
pub(super) fn outcome(branch: &Known, taken: Option<bool>, next: Target) -> Option<bool> {
    let falls_through = next == branch.behind() && branch.executed.conditional;
    let branches = branch.target().is_none_or(|target| target == next);
    match (branches, falls_through) {
        (true, true) => Some(taken.unwrap_or(branch.target().is_some())),
        (false, false) => None,
        (branches, _) => Some(branches),
    }
}
