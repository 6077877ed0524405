//! Events that two consecutive instructions imply without a line for it: an exception was taken, or lines are missing.
//!
//! last instruction, next instruction ─▶ **an exception**, **a gap**, **a repeated context**, or nothing
//!
//! In AArch64 only an exception leads to a higher Exception level, and some instructions do nothing but raise one. An
//! exception is assumed only where the next instruction can be at a vector; any other contradiction stays as the log
//! has it, for the checks to find.

use std::ops::ControlFlow;

use unspool_model::{Context, Event, Exception, ExceptionKind, Gap, Instruction, Isa};

use super::super::dialect::Dialect;
use super::super::lift::{self, StepInstruction};
use super::emitter::{NO_LINES, StepEmitter};
use super::outcome::branch_facts;
use super::to_model::isa;

impl StepEmitter<'_> {
    /// Handles a next instruction at `address` that does not follow the last one in memory.
    #[inline]
    pub(super) fn implied(&mut self, step: &lift::Step, executed: &StepInstruction, address: u64) -> ControlFlow<()> {
        match self.cores[step.core].last {
            Some(last) if next_address(&last) != address => self.discontinuity(step, executed, &last, address),
            _ => ControlFlow::Continue(()),
        }
    }

    fn discontinuity(
        &mut self,
        step: &lift::Step,
        executed: &StepInstruction,
        last: &Instruction,
        address: u64,
    ) -> ControlFlow<()> {
        let before = self.cores[step.core].context.unwrap_or_default();
        let now = executed.mode.exception_level();
        let has_risen = before.level.zip(now).is_some_and(|(before, now)| now > before);
        if self.dialect == Dialect::Gem5 {
            // It prints no exceptions. Nothing is missing, but the branch before did not lead here, and the context is
            // emitted again.
            if has_risen || !may_follow(last, address) {
                self.release(step.core, None)?;
                let core = &mut self.cores[step.core];
                (core.last, core.context) = (None, None);
            }
            return CONTINUE;
        }
        let raises = last.isa == Isa::A64 && last.opcode.is_some_and(always_raises);
        if last.isa != Isa::A64 || !has_risen && !raises {
            return CONTINUE;
        }
        let is_vector = isa(self.dialect, executed) == Isa::A64
            && now.is_some_and(|now| may_be_vector(address, &before, now))
            && !leads_to(last, address);
        if is_vector {
            let kind = kind_of_vector(address);
            let event = Event::Exception(Exception { kind, target: Some(address), ..Exception::default() });
            return self.push(step, step.position.line, event, NO_LINES);
        }
        if !has_risen {
            // The handler is not in the log: a kernel ran, and the program resumed at another address.
            self.push(step, step.position.line, Event::Gap(Gap::Start), NO_LINES)?;
            let core = &mut self.cores[step.core];
            (core.last, core.context) = (None, None);
        }
        CONTINUE
    }
}

const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());

#[inline]
fn next_address(instruction: &Instruction) -> u64 {
    instruction.address.wrapping_add(u64::from(instruction.length))
}

/// Whether an A64 opcode always raises an exception: SVC, HVC, SMC and BRK.
fn always_raises(opcode: u32) -> bool {
    matches!(opcode & 0xffe0_001f, 0xd400_0001..=0xd400_0003 | 0xd420_0000)
}

/// Whether the instruction is a branch to `address`, by its opcode or a BR line.
fn leads_to(last: &Instruction, address: u64) -> bool {
    let recorded = last.branch.and_then(|branch| branch.target);
    let target = || branch_facts(last).and_then(|facts| facts.target);
    recorded == Some(address) || target().is_some_and(|target| target.address == address)
}

/// Whether an instruction may be a branch to `address`.
fn may_follow(last: &Instruction, address: u64) -> bool {
    // Unknown opcode.
    let Some(_) = last.opcode else { return true };
    branch_facts(last).is_some_and(|facts| facts.target.is_none_or(|target| target.address == address))
}

/// Whether an exception from this state to this level can lead to `address`. Vector tables are aligned to 0x800 bytes
/// and have four entries of 0x80 bytes for each of four origins.
fn may_be_vector(address: u64, from: &Context, level: u8) -> bool {
    let origin = address & 0x600;
    let is_origin = match (from.level, from.is_handler) {
        (None, _) => true,
        (Some(from), _) if from < level => origin == 0x400,
        (Some(from), _) if from > level => false,
        (_, Some(true)) => origin == 0x200,
        (_, Some(false)) => origin == 0,
        (_, None) => origin <= 0x200,
    };
    level > 0 && address & 0x7f == 0 && is_origin
}

/// The kind of exception of an entry in an AArch64 vector table.
fn kind_of_vector(address: u64) -> ExceptionKind {
    let kinds = [ExceptionKind::Synchronous, ExceptionKind::Irq, ExceptionKind::Fiq, ExceptionKind::SError];
    kinds[(address >> 7 & 3) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_by_origin() {
        let rows = [
            (0x5400, Some(0), None, 1, true),
            (0x5480, Some(0), Some(false), 2, true),
            (0x5200, Some(0), None, 1, false),
            (0x5404, Some(0), None, 1, false),
            (0x5200, Some(1), Some(true), 1, true),
            (0x5000, Some(1), Some(true), 1, false),
            (0x5000, Some(1), Some(false), 1, true),
            (0x5280, Some(1), None, 1, true),
            (0x5400, Some(1), None, 1, false),
            (0x5400, Some(2), None, 1, false),
            (0x5000, Some(0), None, 0, false),
            (0x5600, None, None, 1, true),
        ];
        for (address, from, is_handler, to, expected) in rows {
            let from = Context { level: from, is_handler, ..Context::default() };
            assert_eq!(may_be_vector(address, &from, to), expected, "{address:x} from {from:?} to level {to}");
        }
    }
}
