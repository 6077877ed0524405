//! Flow: branches, and whether each instruction is where the previous one leads.

use unspool_isa::ControlFlow;

use super::super::record::{InstructionView, Level, xattr_mode};
use super::opcode::{Opcode, is_sanitized};
use super::report::Report;
use super::rules::RuleId;

/// Checks the flow from instruction to instruction.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    next: Next,
    /// Address of the last instruction.
    from: u64,
    /// The last instruction was misaligned, which was reported.
    is_misaligned: bool,
}

/// Address that the previous record leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Next {
    /// Unknown.
    #[default]
    Anywhere,
    At(u64),
    /// This address, or the instruction after it: what did not complete is tried again, or is done by others.
    AtOrAfter(u64),
}

impl Next {
    fn after(pc: u64) -> Self {
        Self::At(pc.wrapping_add(4))
    }
}

impl Flow {
    /// Whether execution certainly continues here.
    #[inline]
    pub(super) fn leads_to(&self, pc: u64) -> bool {
        self.next == Next::At(pc) && is_sanitized(pc) && is_aligned(pc)
    }

    /// Checks that an instruction may be at `pc`. Returns whether that is an address.
    #[inline]
    pub(super) fn arrive(&mut self, pc: u64, out: &mut Report<'_>) -> bool {
        self.check_alignment(pc, out);
        let is_clean = check_address("pc", pc, out);
        match self.next {
            Next::At(next) | Next::AtOrAfter(next) if is_clean && !self.may_be_at(pc) => {
                out.add(RuleId::PcContinuity, format_args!("at {pc:#x} instead of {next:#x}"));
            }
            _ => {}
        }
        is_clean
    }

    /// Execution continues from `from` at `next`.
    #[inline]
    pub(super) fn leave(&mut self, from: u64, next: Next) {
        (self.from, self.next) = (from, next);
    }

    /// Execution continues after the instruction at `pc`, which is where it is expected.
    #[inline]
    pub(super) fn advance(&mut self, pc: u64) {
        *self = Self { next: Next::after(pc), from: pc, is_misaligned: false };
    }

    /// Execution continues anywhere.
    pub(super) fn lose(&mut self) {
        self.next = Next::Anywhere;
    }

    fn may_be_at(&self, pc: u64) -> bool {
        let leads = |next| next == pc || has_wrapped(self.from, next, pc);
        match self.next {
            Next::Anywhere => true,
            Next::At(next) => leads(next),
            Next::AtOrAfter(next) => leads(next) || leads(next.wrapping_add(4)),
        }
    }

    /// A target may be anything as long as nothing is executed there: an exception or another instruction set may
    /// follow.
    fn check_alignment(&mut self, pc: u64, out: &mut Report<'_>) {
        if !is_aligned(pc) && !self.is_misaligned {
            out.add(RuleId::PcAlignment, format_args!("at {pc:#x}"));
        }
        self.is_misaligned = !is_aligned(pc);
    }
}

#[inline]
fn is_aligned(pc: u64) -> bool {
    pc & 0b11 == 0
}

/// Reports an address that is not sanitized.
#[inline]
pub(super) fn check_address(name: &str, address: u64, out: &mut Report<'_>) -> bool {
    let is_clean = is_sanitized(address);
    if !is_clean {
        out.add(RuleId::AddressSanitized, format_args!("{name} is {address:#x}"));
    }
    is_clean
}

/// Whether execution left the address range at its end, where sanitizing cuts off the upper bits.
///
/// The size of the range is not in the trace, but it is aligned.
fn has_wrapped(from: u64, expected: u64, found: u64) -> bool {
    const SMALLEST_RANGE: u32 = 36;
    let has_crossed = (from ^ expected) >> SMALLEST_RANGE != 0;
    has_crossed && (expected ^ found) << (u64::BITS - SMALLEST_RANGE) == 0 && expected != found
}

#[inline]
pub(super) fn is_branch_flag_right(record: InstructionView<'_>, opcode: &Opcode, out: &mut Report<'_>) -> bool {
    let is_right = opcode.is_open || opcode.is_branch() == record.is_branch();
    if !is_right {
        let word = record.iword();
        let what = if record.is_branch() { "not a branch, but has the flag" } else { "a branch without the flag" };
        out.add(RuleId::BranchFlag, format_args!("{word:#010x} is {what}"));
    }
    is_right
}

/// Successor of an instruction that is not a branch.
pub(super) fn after(record: InstructionView<'_>, opcode: &Opcode, level: Option<Level>) -> Next {
    let is_redirected = opcode.flow == ControlFlow::ExceptionReturn && level == Some(Level::BasicPlus);
    if is_redirected { Next::Anywhere } else { Next::after(record.pc()) }
}

/// Successor of an instruction that trapped: a Trap or, if execution continues elsewhere, a Context has to follow.
pub(super) fn after_trap(record: InstructionView<'_>, opcode: &Opcode, level: Option<Level>) -> Next {
    let is_call = opcode.flow == ControlFlow::SupervisorCall;
    if level == Some(Level::Basic) && !is_call { Next::AtOrAfter(record.pc()) } else { Next::Anywhere }
}

/// Successor of a branch.
pub(super) fn branch(record: InstructionView<'_>, opcode: &Opcode, out: &mut Report<'_>) -> Next {
    check_no_access(record, out);
    match (record.trap(), record.ea_valid()) {
        (true, is_taken) => {
            if is_taken || record.ea() != 0 {
                out.add(RuleId::BranchTrap, format_args!("a branch that trapped has the target {:#x}", record.ea()));
            }
            Next::Anywhere
        }
        (false, true) => taken(record, opcode, out),
        (false, false) => not_taken(record, opcode, out),
    }
}

fn taken(record: InstructionView<'_>, opcode: &Opcode, out: &mut Report<'_>) -> Next {
    let (pc, ea) = (record.pc(), record.ea());
    if !check_address("ea", ea, out) {
        return Next::Anywhere;
    }
    let target = opcode.target(pc).filter(|_| is_sanitized(pc)).unwrap_or(ea);
    if target != ea && !has_wrapped(pc, target, ea) {
        out.add(RuleId::BranchTakenTarget, format_args!("the target is {ea:#x} instead of {target:#x}"));
        return Next::Anywhere;
    }
    Next::At(ea)
}

fn not_taken(record: InstructionView<'_>, opcode: &Opcode, out: &mut Report<'_>) -> Next {
    if record.ea() != 0 {
        out.add(RuleId::BranchNotTaken, format_args!("a branch that is not taken has the target {:#x}", record.ea()));
        return Next::Anywhere;
    }
    if opcode.is_branch() && !opcode.conditional {
        out.add(RuleId::BranchAlwaysTaken, format_args!("{:#010x} is unconditional, but not taken", record.iword()));
        return Next::Anywhere;
    }
    Next::after(record.pc())
}

fn check_no_access(record: InstructionView<'_>, out: &mut Report<'_>) {
    let has_flag = record.is_read() || record.is_write() || record.ea_tagged() || record.extra_eas();
    if has_flag || record.ea_size() != 0 || record.xattr_mode() == xattr_mode::RANGE {
        out.add(RuleId::BranchNoAccess, format_args!("{:#010x} has fields of an access", record.iword()));
    }
}

/// Checks an instruction that did not trap but had to.
#[inline]
pub(super) fn must_trap(level: Option<Level>, record: InstructionView<'_>, opcode: &Opcode, out: &mut Report<'_>) {
    let is_call = opcode.flow == ControlFlow::SupervisorCall;
    if opcode.must_trap() && (is_call || level == Some(Level::BasicPlus)) {
        out.add(RuleId::ExceptionFlag, format_args!("{:#010x} raises an exception, but did not trap", record.iword()));
    }
}
