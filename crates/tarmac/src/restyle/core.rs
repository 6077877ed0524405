//! State of one core: its last instruction, and what waits for the next one.

use unspool_isa::Decoded;

use super::super::opcode::{facts_of, is_load, letter, unit};
use super::super::record::{Exception, Instruction, InstructionSet, Stamp};
use super::super::write::vectors::is_m_profile;
use super::held::HeldEffects;
use super::memory::{AccessSizes, Run};

#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) name: Option<Vec<u8>>,
    pub(super) last: Option<Last>,
    /// Number of the last instruction.
    pub(super) number: u64,
    /// Bytes that the next line may extend, and their timestamp.
    pub(super) run: Option<(Run, Stamp)>,
    /// Timestamp of the step that effects belong to.
    pub(super) step: Option<Stamp>,
    /// Effects that were printed before their instruction.
    pub(super) before: HeldEffects,
    /// Sizes of the accesses in a sequence.
    pub(super) access_sizes: AccessSizes,
    /// An asynchronous event that may be the cause of the next exception.
    pub(super) asynchronous: Option<Vec<u8>>,
    /// The exception since the last instruction.
    pub(super) taken: Option<Taken>,
    /// Whether a BR line was written for that exception.
    pub(super) has_exception_branch: bool,
    /// Whether the log has BR lines, which mark taken branches.
    pub(super) has_branches: bool,
    /// Target in the BR line, and the instruction set there.
    pub(super) target: Option<u64>,
    pub(super) target_set: Option<InstructionSet>,
    pub(super) is_m_profile: bool,
    pub(super) is_fiq: bool,
}

/// An exception since the last instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Its target is the address of the next instruction.
    Exception,
    /// A reset, with the target in its event if there is one: a debugger may have set the PC since.
    Reset(Option<u64>),
}

/// The last instruction, as far as later lines need it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) address: Option<u64>,
    pub(super) length: u8,
    pub(super) set: Option<InstructionSet>,
    pub(super) is_executed: bool,
    pub(super) facts: Option<Decoded>,
    /// Size of its accesses.
    pub(super) unit: Option<u16>,
    /// Whether it only reads memory.
    pub(super) is_load: bool,
    /// Whether a BR line was written for it or is not needed.
    pub(super) has_branch_line: bool,
}

impl Core {
    pub(super) fn new(name: Option<&[u8]>) -> Self {
        Self { name: name.map(<[u8]>::to_vec), ..Self::default() }
    }

    /// Records a new last instruction.
    pub(super) fn set_last(&mut self, instruction: &Instruction<'_>) {
        let mode = instruction.mode;
        self.is_m_profile = [&b"thr"[..], b"hand", b"hndl"].iter().any(|start| mode.starts_with(start));
        self.is_fiq = mode.starts_with(b"fiq");
        (self.taken, self.has_exception_branch) = (None, false);
        (self.target, self.target_set) = (None, None);
        self.last = Some(Last {
            address: instruction.address,
            length: instruction.length,
            set: instruction.set,
            is_executed: instruction.is_executed,
            facts: facts_of(instruction),
            unit: unit(instruction),
            is_load: instruction.is_executed && is_load(instruction.set, instruction.opcode),
            has_branch_line: false,
        });
    }

    /// Size of the accesses of the last instruction.
    pub(super) fn unit(&self) -> Option<u16> {
        self.last.and_then(|last| last.unit)
    }

    /// Number of digits of addresses in Rev 3.
    pub(super) fn digits(&self) -> u8 {
        if self.last.is_some_and(|last| last.set == Some(InstructionSet::O)) { 16 } else { 8 }
    }

    /// Records an exception whose target is not known yet.
    pub(super) fn take_exception(&mut self, taken: Taken) {
        (self.taken, self.has_exception_branch) = (Some(taken), false);
        (self.target, self.target_set) = (None, None);
    }

    /// Records the target of a BR line.
    pub(super) fn set_target(&mut self, target: u64, set: Option<InstructionSet>) {
        self.has_branches = true;
        (self.target, self.target_set) = (Some(target), set);
        self.has_exception_branch = self.taken.is_some();
        if let Some(last) = &mut self.last {
            last.has_branch_line = true;
        }
    }

    /// The address in an event, if Rev 3 lines imply it: that of the instruction that caused it, or where the
    /// interrupted program resumes. On M-profile the return address of a call is the next instruction.
    pub(super) fn event_address(&self, exception: &Exception<'_>, is_asynchronous: bool) -> Option<u64> {
        const CALL: i64 = 11;
        let is_call = exception.vector == Some(CALL) && is_m_profile(CALL, exception.name);
        match self.last {
            _ if is_asynchronous || is_call => self.next(),
            _ if self.taken.is_some() => self.target,
            last => last.and_then(|last| last.address),
        }
    }

    /// The address where execution continues, as far as Rev 3 lines imply it before the next instruction.
    fn next(&self) -> Option<u64> {
        if self.target.is_some() || self.taken.is_some() {
            return self.target;
        }
        let last = self.last?;
        let facts = last.facts?;
        let is_skipped = !last.is_executed && last.set != Some(InstructionSet::O);
        match facts.target {
            _ if is_skipped || !facts.flow.is_branch() => last.fall_through(),
            // A taken branch would have a BR line.
            Some(_) if facts.conditional => last.fall_through().filter(|_| self.has_branches),
            target => target.map(|target| target.address),
        }
    }
}

impl Last {
    /// The address of the following instruction in memory.
    pub(super) fn fall_through(&self) -> Option<u64> {
        self.address.map(|address| address.wrapping_add(u64::from(self.length)))
    }

    /// The direct target, if the instruction was executed.
    pub(super) fn target(&self) -> Option<u64> {
        let facts = self.facts.filter(|_| self.is_executed)?;
        facts.target.map(|target| target.address)
    }

    /// Whether this is a conditional branch printed as executed, which may not have been taken.
    pub(super) fn is_undecided(&self) -> bool {
        self.is_executed && self.facts.is_some_and(|facts| facts.conditional && facts.target.is_some())
    }

    /// Whether this is a skipped A64 branch, for which Rev 3 has no notation.
    pub(super) fn is_skipped_branch(&self) -> bool {
        let facts = self.facts.filter(|_| !self.is_executed && self.set == Some(InstructionSet::O));
        facts.is_some_and(|facts| facts.conditional && facts.target.is_some())
    }

    /// Whether the direct target is the fall-through address.
    pub(super) fn targets_fall_through(&self) -> bool {
        let target = self.facts.and_then(|facts| facts.target).map(|target| target.address);
        target.is_some() && target == self.fall_through()
    }

    /// Target and its instruction set, if this is a taken branch. `next`: where execution continues.
    pub(super) fn taken_target(&self, next: Option<(u64, InstructionSet)>) -> Option<(u64, InstructionSet)> {
        let facts = self.facts.filter(|facts| self.is_executed && facts.flow.is_branch())?;
        let Some(target) = facts.target else { return next };
        let falls_through = next.map(|(address, _)| address) == self.fall_through();
        // Some producers print branches that are not taken as executed.
        if facts.conditional && falls_through && Some(target.address) != self.fall_through() {
            return None;
        }
        letter(target.isa).map(|set| (target.address, set))
    }
}
