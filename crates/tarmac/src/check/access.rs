//! Accesses to memory against the opcode. Only AArch64, whose opcodes tell; of what the opcode leaves open, and of
//! instructions that did not complete, nothing is asked.

use unspool_isa::{Access, Isa, Operation, access};

use super::super::record::InstructionSet;
use super::Out;
use super::core::Step;
use super::rules::RuleId;

/// All effects of the instruction are there.
pub(super) fn check(step: &Step, has_accesses: bool, out: &mut Out<'_>) {
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

/// Is there an access that the opcode does not have? What is missing may still come.
pub(super) fn check_unexpected(step: &Step, out: &mut Out<'_>) {
    if let Some(access) = expected(step) {
        check_none(step, &access, out);
    }
}

fn expected(step: &Step) -> Option<Access> {
    let opcode = step.opcode.filter(|_| step.set == InstructionSet::O && step.is_executed && !step.is_excused)?;
    Some(access(Isa::A64, opcode))
}

/// True: it has no access, and nothing else is asked.
fn check_none(step: &Step, access: &Access, out: &mut Out<'_>) -> bool {
    if access.operation != Operation::None {
        return false;
    }
    if (step.read > 0 || step.written > 0) && step.opcode.is_some_and(is_without) {
        out.add_at(step.place, 1, RuleId::AccessUnexpected, format_args!("the instruction accesses no memory"));
    }
    true
}

/// Numbers, registers, floating-point and vectors: what is unknown of these has no access either.
fn is_without(opcode: u32) -> bool {
    matches!(opcode >> 25 & 0xf, 0b1000 | 0b1001 | 0b0101 | 0b1101 | 0b0111 | 0b1111)
}

/// A load or a store; what reads and writes is printed in too many ways.
fn check_one(step: &Step, access: &Access, right: u64, wrong: u64, has_accesses: bool, out: &mut Out<'_>) {
    let is_load = access.reads();
    let (verb, other) = if is_load { ("loads", "write") } else { ("stores", "read") };
    if wrong > 0 {
        let detail = format_args!("the instruction {verb}, and the log has a {other}");
        return out.add_at(step.place, 1, RuleId::AccessDirection, detail);
    }
    let is_exact = !access.predicated && !access.suppresses_faults && !access.operation.touches_tags();
    let Some(bytes) = access.bytes.filter(|_| is_exact).map(u64::from) else { return };
    if right == 0 {
        if has_accesses && !access.may_not_write {
            let detail = format_args!("the instruction {verb}, and the log has no access");
            out.add_at(step.place, 1, RuleId::AccessMissing, detail);
        }
    } else if right != bytes {
        let detail = format_args!("the instruction {verb} {bytes} bytes, and the log has {right}");
        out.add_at(step.place, 1, RuleId::AccessSize, detail);
    }
}
