//! Flow: branches, and whether each instruction is where the one before leads to.

use super::super::record::{InstructionView, Level, xattr_mode};
use super::opcode::{Course, Opcode};
use super::{Out, RuleId};
use unspool_isa::Operation;

/// Where execution goes on.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The record before tells so; `None` if it does not.
    next: Option<u64>,
    /// Where execution comes from.
    from: u64,
}

impl Flow {
    /// Is this certainly where execution goes on?
    #[inline]
    pub(super) fn leads_to(&self, pc: u64) -> bool {
        self.next == Some(pc) && is_sanitized(pc)
    }

    /// An instruction is at `pc`; whether that is an address.
    #[inline]
    pub(super) fn arrive(&self, pc: u64, out: &mut Out<'_>) -> bool {
        let is_clean = check_address("pc", pc, out);
        if let Some(next) = self.next
            && next != pc
            && is_clean
            && !is_around_the_end(self.from, next, pc)
        {
            out.add(RuleId::PcContinuity, format_args!("at {pc:#x} instead of {next:#x}"));
        }
        is_clean
    }

    /// From `from` execution goes on at `next`.
    #[inline]
    pub(super) fn leave(&mut self, from: u64, next: Option<u64>) {
        *self = Self { next, from };
    }

    /// Execution goes on somewhere.
    pub(super) fn lose(&mut self) {
        self.next = None;
    }
}

/// Is it sanitised, as far as can be seen?
///
/// How many bits addresses have is not in the trace; 56 is the most that the architecture has, in one range or in two.
#[inline]
pub(super) fn is_sanitized(address: u64) -> bool {
    address >> 56 == 0 || address >> 55 == 0x1ff
}

/// Says so if it is not.
#[inline]
pub(super) fn check_address(name: &str, address: u64, out: &mut Out<'_>) -> bool {
    let is_clean = is_sanitized(address);
    if !is_clean {
        out.add(RuleId::AddressSanitized, format_args!("{name} is {address:#x}"));
    }
    is_clean
}

/// Execution may leave the range of addresses at its end, and what is beyond is cut off by sanitising.
///
/// How large the range is is not in the trace, but it is aligned.
fn is_around_the_end(from: u64, expected: u64, found: u64) -> bool {
    const SMALLEST_RANGE: u32 = 36;
    let has_crossed = (from ^ expected) >> SMALLEST_RANGE != 0;
    has_crossed && (expected ^ found) << (u64::BITS - SMALLEST_RANGE) == 0 && expected != found
}

#[inline]
pub(super) fn is_branch_flag_right(record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> bool {
    let is_right = match opcode.course {
        Course::Unknown => true,
        Course::Behind | Course::Return | Course::Exception => !record.is_branch(),
        Course::Conditional | Course::Direct | Course::Indirect => record.is_branch(),
    };
    if !is_right {
        let word = record.iword();
        let what = if record.is_branch() { "no branch, and has the flag" } else { "a branch without the flag" };
        out.add(RuleId::BranchFlag, format_args!("{word:#010x} is {what}"));
    }
    is_right
}

/// Where a branch leads to, if it tells.
pub(super) fn branch(record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> Option<u64> {
    check_no_access(record, out);
    match (record.trap(), record.ea_valid()) {
        (true, is_taken) => {
            if is_taken || record.ea() != 0 {
                out.add(RuleId::BranchTrap, format_args!("a branch that trapped goes to {:#x}", record.ea()));
            }
            None
        }
        (false, true) => taken(record, opcode, out),
        (false, false) => not_taken(record, opcode, out),
    }
}

fn taken(record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> Option<u64> {
    let (pc, ea) = (record.pc(), record.ea());
    if !check_address("ea", ea, out) {
        return None;
    }
    let target = opcode.target(pc).filter(|_| is_sanitized(pc)).unwrap_or(ea);
    if target != ea && !is_around_the_end(pc, target, ea) {
        out.add(RuleId::BranchTakenTarget, format_args!("goes to {ea:#x} instead of {target:#x}"));
        return None;
    }
    Some(ea)
}

fn not_taken(record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> Option<u64> {
    if record.ea() != 0 {
        out.add(RuleId::BranchNotTaken, format_args!("a branch that is not taken goes to {:#x}", record.ea()));
        return None;
    }
    if matches!(opcode.course, Course::Direct | Course::Indirect) {
        out.add(RuleId::BranchAlwaysTaken, format_args!("{:#010x} is unconditional, and not taken", record.iword()));
        return None;
    }
    Some(record.pc().wrapping_add(4))
}

fn check_no_access(record: InstructionView<'_>, out: &mut Out<'_>) {
    let has_flag = record.is_read() || record.is_write() || record.ea_tagged() || record.extra_eas();
    if has_flag || record.ea_size() != 0 || record.xattr_mode() == xattr_mode::RANGE {
        out.add(RuleId::BranchNoAccess, format_args!("{:#010x} has fields of an access", record.iword()));
    }
}

/// The instruction did not trap: could it do anything else?
#[inline]
pub(super) fn must_trap(level: Option<Level>, record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) {
    let is_call = opcode.access.operation == Operation::SupervisorCall;
    if opcode.course == Course::Exception && (is_call || level == Some(Level::BasicPlus)) {
        out.add(RuleId::ExceptionFlag, format_args!("{:#010x} raises an exception, and did not trap", record.iword()));
    }
}
