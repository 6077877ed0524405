//! Ranges: accesses whose size is in a register.

use unspool_isa::Operation;

use super::opcode::Opcode;
use super::rules::RuleId;
use super::subject::{One, Sum, Verdict, ensure};

/// Whether the instruction may have a range. Unknown ones may.
pub(super) fn may_have(opcode: &Opcode, word: u32) -> bool {
    match opcode.access.operation {
        Operation::Set { .. } | Operation::Copy { .. } | Operation::TlbInvalidateRange => true,
        Operation::Prefetch => Opcode::is_range_prefetch(word),
        Operation::None => !opcode.is_memoryless && !opcode.flow.is_branch() && !opcode.flow.is_exception(),
        _ => false,
    }
}

/// Checks a range of `size` bytes.
pub(super) fn judge(one: &One<'_>, size: u64) -> Verdict {
    let access = one.access;
    ensure(may_have(one.opcode, one.word), RuleId::RangeInstruction, "has a range")?;
    ensure(!(access.read && access.write), RuleId::RangeOneDirection, "has a range that is read and written")?;
    match one.opcode.access.operation {
        Operation::TlbInvalidateRange => ensure(!access.tagged, RuleId::TlbRange, "checks no tags, but is tagged"),
        operation @ (Operation::Set { .. } | Operation::Copy { .. }) => {
            ensure(access.read || access.write, RuleId::RangeOneDirection, "has a range without direction")?;
            ensure(access.write || operation.reads(), RuleId::MopsRange, "is a memory set, but reads")?;
            let is_excused = size != 0 || one.trap;
            ensure(!access.tagged || is_excused, RuleId::RangeZeroUntagged, "has an empty range that is tagged")
        }
        _ => Ok(()),
    }
}

/// Checks all ranges of a copy that did not trap.
pub(super) fn judge_copy(sum: &Sum) -> Verdict {
    ensure(sum.has_read && sum.has_write, RuleId::MopsRange, "is a memory copy, but does not read and write")?;
    judge_order(sum)
}

/// Checks the order of the ranges of an instruction, whether it trapped or not.
pub(super) fn judge_order(sum: &Sum) -> Verdict {
    ensure(!sum.has_read_after_write, RuleId::RangeReadFirst, "writes before it reads")
}
