//! Flow: branches, and whether each instruction is where the one before leads to.

use super::super::record::{InstructionView, Level, xattr_mode};
use super::opcode::Opcode;
use super::{Out, RuleId};
use unspool_isa::ControlFlow;

/// Where execution goes on.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    next: Next,
    /// Where execution comes from.
    from: u64,
    /// The last instruction was at no multiple of 4; that was said.
    is_misaligned: bool,
}

/// Where the record before leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Next {
    /// It does not tell.
    #[default]
    Anywhere,
    At(u64),
    /// To this address, or to the instruction behind it: what did not complete is tried again, or is done by others.
    AtOrBehind(u64),
}

impl Next {
    fn behind(pc: u64) -> Self {
        Self::At(pc.wrapping_add(4))
    }
}

impl Flow {
    /// Is this certainly where execution goes on?
    #[inline]
    pub(super) fn leads_to(&self, pc: u64) -> bool {
        self.next == Next::At(pc) && is_sanitized(pc) && is_aligned(pc)
    }

    /// An instruction is at `pc`; whether that is an address.
    #[inline]
    pub(super) fn arrive(&mut self, pc: u64, out: &mut Out<'_>) -> bool {
        self.check_alignment(pc, out);
        let is_clean = check_address("pc", pc, out);
        match self.next {
            Next::At(next) | Next::AtOrBehind(next) if is_clean && !self.may_be_at(pc) => {
                out.add(RuleId::PcContinuity, format_args!("at {pc:#x} instead of {next:#x}"));
            }
            _ => {}
        }
        is_clean
    }

    /// From `from` execution goes on at `next`.
    #[inline]
    pub(super) fn leave(&mut self, from: u64, next: Next) {
        (self.from, self.next) = (from, next);
    }

    /// From an instruction where it should be execution goes on behind it.
    #[inline]
    pub(super) fn go_on(&mut self, pc: u64) {
        *self = Self { next: Next::behind(pc), from: pc, is_misaligned: false };
    }

    /// Execution goes on somewhere.
    pub(super) fn lose(&mut self) {
        self.next = Next::Anywhere;
    }

    fn may_be_at(&self, pc: u64) -> bool {
        let leads = |next| next == pc || is_around_the_end(self.from, next, pc);
        match self.next {
            Next::Anywhere => true,
            Next::At(next) => leads(next),
            Next::AtOrBehind(next) => leads(next) || leads(next.wrapping_add(4)),
        }
    }

    /// A target may be anything, so long as nothing is executed there: the exception comes then, or another instruction
    /// set.
    fn check_alignment(&mut self, pc: u64, out: &mut Out<'_>) {
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
    let is_right = opcode.is_open || opcode.is_branch() == record.is_branch();
    if !is_right {
        let word = record.iword();
        let what = if record.is_branch() { "no branch, and has the flag" } else { "a branch without the flag" };
        out.add(RuleId::BranchFlag, format_args!("{word:#010x} is {what}"));
    }
    is_right
}

/// Where an instruction leads to that is no branch.
pub(super) fn behind(record: InstructionView<'_>, opcode: &Opcode, level: Option<Level>) -> Next {
    let is_redirected = opcode.flow == ControlFlow::ExceptionReturn && level == Some(Level::BasicPlus);
    if is_redirected { Next::Anywhere } else { Next::behind(record.pc()) }
}

/// Where an instruction leads to that trapped. A Trap tells, or else a Context has to if execution goes on elsewhere.
pub(super) fn behind_trap(record: InstructionView<'_>, opcode: &Opcode, level: Option<Level>) -> Next {
    let is_call = opcode.flow == ControlFlow::SupervisorCall;
    if level == Some(Level::Basic) && !is_call { Next::AtOrBehind(record.pc()) } else { Next::Anywhere }
}

/// Where a branch leads to.
pub(super) fn branch(record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> Next {
    check_no_access(record, out);
    match (record.trap(), record.ea_valid()) {
        (true, is_taken) => {
            if is_taken || record.ea() != 0 {
                out.add(RuleId::BranchTrap, format_args!("a branch that trapped goes to {:#x}", record.ea()));
            }
            Next::Anywhere
        }
        (false, true) => taken(record, opcode, out),
        (false, false) => not_taken(record, opcode, out),
    }
}

fn taken(record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> Next {
    let (pc, ea) = (record.pc(), record.ea());
    if !check_address("ea", ea, out) {
        return Next::Anywhere;
    }
    let target = opcode.target(pc).filter(|_| is_sanitized(pc)).unwrap_or(ea);
    if target != ea && !is_around_the_end(pc, target, ea) {
        out.add(RuleId::BranchTakenTarget, format_args!("goes to {ea:#x} instead of {target:#x}"));
        return Next::Anywhere;
    }
    Next::At(ea)
}

fn not_taken(record: InstructionView<'_>, opcode: &Opcode, out: &mut Out<'_>) -> Next {
    if record.ea() != 0 {
        out.add(RuleId::BranchNotTaken, format_args!("a branch that is not taken goes to {:#x}", record.ea()));
        return Next::Anywhere;
    }
    if opcode.is_branch() && !opcode.conditional {
        out.add(RuleId::BranchAlwaysTaken, format_args!("{:#010x} is unconditional, and not taken", record.iword()));
        return Next::Anywhere;
    }
    Next::behind(record.pc())
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
    let is_call = opcode.flow == ControlFlow::SupervisorCall;
    if opcode.must_trap() && (is_call || level == Some(Level::BasicPlus)) {
        out.add(RuleId::ExceptionFlag, format_args!("{:#010x} raises an exception, and did not trap", record.iword()));
    }
}
