//! What two instructions say together, where no line stands between them: an exception was taken, or something is missing.
//!
//! instruction, the next one ─▶ **an exception**, **a gap**, **a context that is told again**, or nothing
//!
//! A level of AArch64 is only left for a higher one by an exception, and some instructions do nothing else than raise one.
//! But only where the next instruction can stand at a vector: what cannot be is left as the log has it, for others to find.

use std::ops::ControlFlow;

use unspool_model::{Context, Event, Exception, ExceptionKind, Gap, Instruction, Isa};

use super::super::dialect::Dialect;
use super::super::lift::{self, Executed};
use super::to_model::{isa, level};
use super::{NONE, StepEmitter, branch_facts};

impl StepEmitter<'_> {
    /// The core goes on at `address`, and its last instruction is somewhere else.
    #[inline]
    pub(super) fn implied(&mut self, step: &lift::Step, executed: &Executed, address: u64) -> ControlFlow<()> {
        match self.cores[step.core].last {
            Some(last) if behind(&last) != address => self.elsewhere(step, executed, &last, address),
            _ => ControlFlow::Continue(()),
        }
    }

    fn elsewhere(
        &mut self,
        step: &lift::Step,
        executed: &Executed,
        last: &Instruction,
        address: u64,
    ) -> ControlFlow<()> {
        let before = self.cores[step.core].context.unwrap_or_default();
        let now = level(executed.mode);
        let has_risen = before.level.zip(now).is_some_and(|(before, now)| now > before);
        if self.dialect == Dialect::Gem5 {
            return if has_risen || !may_follow(last, address) { self.unannounced(step.core) } else { GO_ON };
        }
        let raises = last.isa == Isa::A64 && last.opcode.is_some_and(always_raises);
        if last.isa != Isa::A64 || !has_risen && !raises {
            return GO_ON;
        }
        let is_vector = isa(self.dialect, executed) == Isa::A64
            && now.is_some_and(|now| may_be_vector(address, &before, now))
            && !leads_to(last, address);
        if is_vector {
            let kind = kind_of_vector(address);
            let event = Event::Exception(Exception { kind, target: Some(address), ..Exception::default() });
            return self.tell(step, step.place.line, event, NONE);
        }
        if !has_risen {
            // Who took the exception is not in the log: a kernel answers, and the program goes on elsewhere.
            self.tell(step, step.place.line, Event::Gap(Gap::Start), NONE)?;
            let core = &mut self.cores[step.core];
            (core.last, core.context) = (None, None);
        }
        GO_ON
    }

    /// A producer that has no lines for exceptions shows one: nothing is missing, but the branch before it did not lead
    /// here, and in which state the core goes on is told again.
    fn unannounced(&mut self, core: usize) -> ControlFlow<()> {
        self.release(core, None)?;
        (self.cores[core].last, self.cores[core].context) = (None, None);
        GO_ON
    }
}

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

#[inline]
fn behind(instruction: &Instruction) -> u64 {
    instruction.address.wrapping_add(u64::from(instruction.length))
}

/// Does an opcode of A64 do nothing but raise an exception? SVC, HVC, SMC and BRK.
fn always_raises(opcode: u32) -> bool {
    matches!(opcode & 0xffe0_001f, 0xd400_0001..=0xd400_0003 | 0xd420_0000)
}

/// Is it a branch to there, as its opcode or a line says?
fn leads_to(last: &Instruction, address: u64) -> bool {
    let told = last.branch.and_then(|branch| branch.target);
    let target = || branch_facts(last).and_then(|facts| facts.target);
    told == Some(address) || target().is_some_and(|target| target.address == address)
}

/// May an instruction lead elsewhere than behind it, and there?
fn may_follow(last: &Instruction, address: u64) -> bool {
    // Nobody knows what it is.
    let Some(_) = last.opcode else { return true };
    branch_facts(last).is_some_and(|facts| facts.target.is_none_or(|target| target.address == address))
}

/// Can an exception from this state to this level lead there? Tables are aligned to 0x800 bytes, and for each of four
/// origins there are four entries of 0x80.
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

/// What kind of exception the entry of a vector table of AArch64 is for.
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
