//! Checks of control flow: opcode against BR line against next instruction.

use unspool_isa::ControlFlow;

use super::findings::FindingSink;
use super::rules::RuleId;
use super::step::Step;

/// Checks a BR line against its instruction.
pub(super) fn check_branch(step: &Step, target: u64, out: &mut FindingSink<'_>) {
    let Some(facts) = step.facts.filter(|_| !step.is_exempt) else { return };
    if !facts.flow.is_branch() && facts.flow != ControlFlow::TransactionStart {
        out.add(RuleId::BranchUnexpected, format_args!("the instruction is not a branch"));
    } else if !step.is_executed {
        out.add(RuleId::BranchUnexpected, format_args!("the branch was not executed"));
    } else if let Some(direct) = facts.target.filter(|direct| direct.address != target) {
        let direct = direct.address;
        out.add(RuleId::BranchOpcode, format_args!("the target is {target:#x}, but the opcode encodes {direct:#x}"));
    }
}

/// Checks a step against the address of the next instruction.
pub(super) fn check(step: &Step, next: u64, has_branches: bool, out: &mut FindingSink<'_>) {
    if step.is_exempt {
        return;
    }
    if let Some((position, target)) = step.branch {
        if target != next {
            let detail = format_args!("the target is {target:#x}, but execution continues at {next:#x}");
            out.add_at(position, 1, RuleId::BranchTarget, detail);
        }
        return;
    }
    let Some(facts) = step.facts else { return };
    if facts.flow == ControlFlow::TransactionStart {
        return;
    }
    let fall_through = step.fall_through();
    let is_taken = step.is_executed && facts.flow.is_branch();
    let is_conditional = facts.conditional || step.is_in_it || !step.is_executed;
    let is_allowed = match facts.target {
        Some(target) if is_taken => next == target.address || is_conditional && next == fall_through,
        None if is_taken => true,
        _ => next == fall_through,
    };
    if !is_allowed {
        let pc = step.address;
        out.add(RuleId::NextPc, format_args!("{pc:#x} does not lead to {next:#x}, and there is no event in between"));
    } else if has_branches && is_taken && (next != fall_through || !is_conditional) {
        out.add_at(step.position, 1, RuleId::BranchMissing, format_args!("the branch to {next:#x} has no BR line"));
    }
}
