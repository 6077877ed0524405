//! Checks of memory accesses against opcodes.
//!
//! Only AArch64 opcodes imply their accesses. Instructions that did not complete are exempt, and so is whatever the
//! opcode leaves open.

use unspool_isa::{Access, Isa, Operation, access};

use super::super::record::InstructionSet;
use super::findings::FindingSink;
use super::rules::RuleId;
use super::step::Step;

/// Checks a step with all of its effects.
pub(super) fn check(step: &Step, has_accesses: bool, out: &mut FindingSink<'_>) {
    let Some(access) = expected(step) else { return };
    if check_none(step, &access, out) {
        return;
    }
    let (is_load, is_store) = (access.reads(), access.writes());
    if is_load != is_store {
        let (right, wrong) = if is_load { (step.read, step.written) } else { (step.written, step.read) };
        check_one(step, &access, right, wrong, has_accesses, out);
    }
}

/// Checks for an access that the opcode does not make; missing accesses may still follow.
pub(super) fn check_unexpected(step: &Step, out: &mut FindingSink<'_>) {
    if let Some(access) = expected(step) {
        check_none(step, &access, out);
    }
}

fn expected(step: &Step) -> Option<Access> {
    let opcode = step.opcode.filter(|_| step.set == InstructionSet::O && step.is_executed && !step.is_exempt)?;
    Some(access(Isa::A64, opcode))
}

/// Checks an instruction without accesses; returns false for any other.
fn check_none(step: &Step, access: &Access, out: &mut FindingSink<'_>) -> bool {
    if access.operation != Operation::None {
        return false;
    }
    if (step.read > 0 || step.written > 0) && step.opcode.is_some_and(never_accesses) {
        out.add_at(step.position, 1, RuleId::AccessUnexpected, format_args!("the instruction accesses no memory"));
    }
    true
}

/// Whether the opcode is data processing or vector arithmetic, where unallocated opcodes have no access either.
fn never_accesses(opcode: u32) -> bool {
    matches!(opcode >> 25 & 0xf, 0b1000 | 0b1001 | 0b0101 | 0b1101 | 0b0111 | 0b1111)
}

/// Checks a load or a store. Instructions that do both are printed in too many ways.
fn check_one(step: &Step, access: &Access, right: u64, wrong: u64, has_accesses: bool, out: &mut FindingSink<'_>) {
    let is_load = access.reads();
    let (verb, other) = if is_load { ("loads", "write") } else { ("stores", "read") };
    if wrong > 0 {
        let detail = format_args!("the instruction {verb}, but the log has a {other}");
        return out.add_at(step.position, 1, RuleId::AccessDirection, detail);
    }
    let is_exact = !access.predicated && !access.suppresses_faults && !access.operation.touches_tags();
    let Some(bytes) = access.bytes.filter(|_| is_exact).map(u64::from) else { return };
    if right == 0 {
        if has_accesses && !access.may_not_write {
            let detail = format_args!("the instruction {verb}, but the log has no access");
            out.add_at(step.position, 1, RuleId::AccessMissing, detail);
        }
    } else if right != bytes {
        let detail = format_args!("the instruction {verb} {bytes} bytes, but the log has {right}");
        out.add_at(step.position, 1, RuleId::AccessSize, detail);
    }
}
