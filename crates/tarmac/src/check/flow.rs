//! Where execution goes on: what the opcode says, what a BR line says, and what the next instruction shows.

use unspool_isa::Kind;

use super::super::restyle::opcode::is_branch;
use super::Out;
use super::core::Step;
use super::rules::RuleId;

/// A BR line behind the instruction.
pub(super) fn check_branch(step: &Step, target: u64, out: &mut Out<'_>) {
    let Some(facts) = step.facts.filter(|_| !step.is_excused) else { return };
    if !is_branch(&facts) && facts.kind != Kind::TransactionStart {
        out.add(RuleId::BranchUnexpected, format_args!("the instruction is no branch"));
    } else if !step.is_executed {
        out.add(RuleId::BranchUnexpected, format_args!("the branch was not executed"));
    } else if let Some(direct) = facts.target.filter(|direct| direct.address != target) {
        let direct = direct.address;
        out.add(RuleId::BranchOpcode, format_args!("the target is {target:#x}, and the opcode says {direct:#x}"));
    }
}

/// The next instruction is at `next`.
pub(super) fn check(step: &Step, next: u64, has_branches: bool, out: &mut Out<'_>) {
    if step.is_excused {
        return;
    }
    if let Some((place, target)) = step.branch {
        if target != next {
            let detail = format_args!("the target is {target:#x}, and execution goes on at {next:#x}");
            out.add_at(place, 1, RuleId::BranchTarget, detail);
        }
        return;
    }
    let Some(facts) = step.facts else { return };
    if facts.kind == Kind::TransactionStart {
        return;
    }
    let behind = step.behind();
    let is_taken = step.is_executed && is_branch(&facts);
    let is_conditional = facts.conditional || step.is_in_it || !step.is_executed;
    let is_allowed = match facts.target {
        Some(target) if is_taken => next == target.address || is_conditional && next == behind,
        None if is_taken => true,
        _ => next == behind,
    };
    if !is_allowed {
        let pc = step.address;
        out.add(RuleId::NextPc, format_args!("{pc:#x} does not lead to {next:#x}, and no event is between"));
    } else if has_branches && is_taken && (next != behind || !is_conditional) {
        out.add_at(step.place, 1, RuleId::BranchMissing, format_args!("the branch to {next:#x} has no BR line"));
    }
}
