//! Outcomes of instructions: whether the condition held and the branch was taken, by the lines and by where the core
//! continues.

use unspool_isa::{Decoded, decode};
use unspool_model::{Branch, Coverage, Facet, Instruction, Isa};

use super::super::annotation::Outcome;

/// The instruction as its line implies it, and whether the next instruction adds to it.
#[inline]
pub(in super::super) fn expect(
    plain: &Instruction,
    is_executed: bool,
    target: Option<u64>,
    coverage: Coverage,
) -> (Instruction, bool) {
    let (mut instruction, facts) = instruction(plain, is_executed, target);
    let is_pending = facts.is_some() && instruction.branch.is_none() && coverage.has(Facet::Branches);
    limit_to_coverage(&mut instruction, coverage);
    (instruction, is_pending)
}

/// Derives the outcome of a branch from `next`, the address where the core continues.
pub(in super::super) fn conclude(instruction: &mut Instruction, next: Option<u64>, coverage: Coverage) {
    if coverage.has(Facet::Branches) {
        resolve(instruction, next, false);
    }
    limit_to_coverage(instruction, coverage);
}

/// Removes what the source does not cover; the lines always say whether an instruction was executed.
fn limit_to_coverage(instruction: &mut Instruction, coverage: Coverage) {
    if !coverage.has(Facet::Conditions) {
        instruction.is_executed = None;
    }
    if !coverage.has(Facet::Branches) {
        instruction.branch = None;
    }
}

/// The outcome of an instruction for an annotation.
pub(in super::super) fn outcome(instruction: &Instruction) -> Outcome {
    let &Instruction { is_executed, branch, za_index, .. } = instruction;
    Outcome { irregular: None, is_executed, branch, za_index }
}

/// An instruction as far as it is known without the next one, and its facts if it is a branch. `target`: the target in
/// a BR line.
#[inline]
pub(super) fn instruction(
    plain: &Instruction,
    is_executed: bool,
    target: Option<u64>,
) -> (Instruction, Option<Decoded>) {
    let mut instruction = Instruction { is_executed: Some(is_executed), ..*plain };
    let facts = branch_facts(&instruction);
    instruction.branch = match (&facts, target) {
        (_, Some(_)) => Some(Branch { taken: true, target }),
        (Some(_), None) if !is_executed => Some(Branch { taken: false, target: None }),
        _ => None,
    };
    if let Some(facts) = &facts {
        set_condition(&mut instruction, facts);
    }
    (instruction, facts)
}

/// Derives the outcome of a branch from `next`, the address where the core continues. `reports_skips`: the producer
/// prints each branch that is not taken as skipped.
pub(super) fn resolve(instruction: &mut Instruction, next: Option<u64>, reports_skips: bool) {
    if instruction.branch.is_none()
        && let Some(facts) = branch_facts(instruction)
    {
        instruction.branch = branch_outcome(instruction, &facts, next, reports_skips);
        set_condition(instruction, &facts);
        let fall_through = instruction.address.wrapping_add(u64::from(instruction.length));
        if instruction.branch.is_none() && next == Some(fall_through) && !reports_skips {
            // Not every producer reports a failed condition.
            instruction.is_executed = None;
        }
    }
}

/// Sets whether the condition of a conditional A64 branch held: it did if the branch was taken. Some producers report
/// it themselves (a skipped CBZ), others only for AArch32.
fn set_condition(instruction: &mut Instruction, facts: &Decoded) {
    if instruction.isa == Isa::A64 && facts.conditional {
        instruction.is_executed = instruction.branch.map(|branch| branch.taken);
    }
}

#[inline]
pub(super) fn branch_facts(instruction: &Instruction) -> Option<Decoded> {
    let facts = decode(instruction.isa, instruction.address, instruction.opcode?);
    (facts.length == instruction.length && facts.flow.is_branch()).then_some(facts)
}

/// The outcome of a branch that was not skipped, by where the core continues. `reports_skips`: the producer prints each
/// branch that is not taken as skipped.
fn branch_outcome(
    instruction: &Instruction,
    facts: &Decoded,
    next: Option<u64>,
    reports_skips: bool,
) -> Option<Branch> {
    let next = next?;
    let fall_through = instruction.address.wrapping_add(u64::from(instruction.length));
    let taken = |target| Branch { taken: true, target: Some(target) };
    // Any T32 instruction can be conditional in an IT block.
    let is_t32 = instruction.isa == Isa::T32;
    match facts.target.map(|target| target.address) {
        Some(target) if !facts.conditional => {
            let may_have_failed = is_t32 && next == fall_through && target != fall_through;
            (!may_have_failed).then(|| taken(target))
        }
        // Taken or not, execution continues there.
        Some(target) if target == fall_through => (reports_skips && next == fall_through).then(|| taken(target)),
        Some(target) if next == target => Some(taken(target)),
        Some(_) if next == fall_through => Some(Branch { taken: false, target: None }),
        // The branch leads to neither: an event without a line is in between.
        Some(_) => None,
        // The target of the branch is unknown.
        None if next == fall_through && (facts.conditional || is_t32) => None,
        None if facts.flow.is_indirect() => Some(taken(next)),
        None => None,
    }
}
