//! The last instruction of a core, until its outcome is known.

use unspool_isa::{ControlFlow, Target};
use unspool_model::{Direction, Instruction, Isa, Step};

use super::control_flow::{Known, is_same};
use super::report::Reporter;
use super::rules::RuleId;

/// An instruction whose outcome is still to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) instruction: Instruction,
    pub(super) position: u64,
    pub(super) known: Known,
    pub(super) touched: Touched,
}

/// Bytes that a source reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Touched {
    pub(super) reads: u64,
    pub(super) writes: u64,
}

impl Touched {
    /// Total of the accesses of a step.
    #[inline]
    pub(super) fn of(step: &Step) -> Self {
        let mut touched = Self::default();
        for access in step.accesses() {
            if matches!(access.direction, Direction::Read | Direction::Both) {
                touched.reads = touched.reads.saturating_add(access.size);
            }
            if matches!(access.direction, Direction::Write | Direction::Both) {
                touched.writes = touched.writes.saturating_add(access.size);
            }
        }
        touched
    }
}

impl Last {
    pub(super) fn is_riscv(&self) -> bool {
        self.instruction.isa.is_riscv()
    }

    /// Compares its branch outcome and condition with its opcode.
    pub(super) fn check_outcome(&self, is_whole: bool, out: &mut Reporter<'_>) {
        let Instruction { address, isa, branch, is_executed, .. } = self.instruction;
        let Some(opcode) = self.instruction.opcode else { return };
        let Known { decoded, is_open, is_sure } = self.known;
        let conditional = decoded.conditional;
        let mut add = |rule, detail: std::fmt::Arguments<'_>| {
            let detail = format_args!("{opcode:#010x} at {address:#x} {detail}");
            out.add(rule, self.position, (address, u64::from(opcode)), detail);
        };
        let is_taken = branch.map(|branch| branch.taken);
        // Whether a T32 instruction is conditional depends on a preceding IT instruction.
        let may_fail = conditional || is_open || isa == Isa::T32;
        let is_a32_branch = isa == Isa::A32 && decoded.flow == ControlFlow::Direct;
        match (is_executed, is_taken) {
            (Some(false), _) if !may_fail => {
                add(RuleId::Condition, format_args!("is unconditional, but its condition failed"));
            }
            (Some(false), Some(true)) => add(RuleId::Condition, format_args!("is taken, but its condition failed")),
            (Some(true), Some(false)) if conditional && is_a32_branch => {
                add(RuleId::Condition, format_args!("is not taken, but its condition held"));
            }
            (_, Some(_)) if is_sure => {
                add(RuleId::BranchOpcode, format_args!("is not a branch, but has a branch outcome"));
            }
            (_, Some(false)) if !may_fail && is_whole && decoded.flow.is_branch() => {
                add(RuleId::BranchTaken, format_args!("is unconditional, but is not taken"));
            }
            _ => {}
        }
        let next = address.wrapping_add(u64::from(self.instruction.length));
        // Some sources report a branch that is not taken as taken to the next instruction.
        let reported = branch.filter(|branch| branch.taken).and_then(|branch| branch.target);
        let reported = reported.filter(|reported| !conditional || !is_same(isa, *reported, next));
        if let (Some(reported), Some(Target { address: target, isa })) = (reported, decoded.target)
            && !is_same(isa, reported, target)
        {
            add(RuleId::BranchTarget, format_args!("leads to {target:#x}, but went to {reported:#x}"));
        }
    }
}
