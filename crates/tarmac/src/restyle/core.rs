//! What is remembered of a core: its last instruction, and what waits for the next one.

use unspool_isa::{Facts, Isa};

use super::super::record::{Exception, Instruction, InstructionSet, Stamp};
use super::super::write::vectors::is_m_profile;
use super::before::Before;
use super::memory::{Cuts, Run};
use super::opcode::{facts_of, is_branch, unit};

/// A core.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) name: Option<Vec<u8>>,
    pub(super) last: Option<Last>,
    /// The number of the last instruction.
    pub(super) number: u64,
    /// Bytes that the next line may go on with, and when they were accessed.
    pub(super) run: Option<(Run, Stamp)>,
    /// The time of the step that effects belong to.
    pub(super) step: Option<Stamp>,
    /// What was printed before the instruction that did it.
    pub(super) before: Before,
    /// How accesses were cut.
    pub(super) cuts: Cuts,
    /// An asynchronous event that may turn out to be the cause of an exception.
    pub(super) asynchronous: Option<Vec<u8>>,
    /// An exception was taken since the last instruction.
    pub(super) taken: Option<Taken>,
    /// A BR line for it was written.
    pub(super) is_taken_told: bool,
    /// BR lines tell which branches are taken.
    pub(super) has_branches: bool,
    /// The target that a BR line said, and the instruction set there.
    pub(super) target: Option<u64>,
    pub(super) target_set: Option<InstructionSet>,
    pub(super) is_m_profile: bool,
    pub(super) is_fiq: bool,
}

/// An exception that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It leads to where execution goes on.
    Exception,
    /// A reset leads to where its event says, if anybody says: a debugger may have led elsewhere since.
    Reset(Option<u64>),
}

/// An instruction, as far as what follows needs it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) address: Option<u64>,
    pub(super) length: u8,
    pub(super) set: Option<InstructionSet>,
    pub(super) is_executed: bool,
    pub(super) facts: Option<Facts>,
    /// How large its accesses are.
    pub(super) unit: Option<u16>,
    /// A BR line for it was written, or there is none.
    pub(super) is_told: bool,
}

impl Core {
    pub(super) fn new(name: Option<&[u8]>) -> Self {
        Self {
            name: name.map(<[u8]>::to_vec),
            last: None,
            number: 0,
            run: None,
            step: None,
            before: Before::default(),
            cuts: Cuts::default(),
            asynchronous: None,
            taken: None,
            is_taken_told: false,
            has_branches: false,
            target: None,
            target_set: None,
            is_m_profile: false,
            is_fiq: false,
        }
    }

    /// This is the last instruction now.
    pub(super) fn arrive(&mut self, instruction: &Instruction<'_>) {
        let mode = instruction.mode;
        self.is_m_profile = [&b"thr"[..], b"hand", b"hndl"].iter().any(|start| mode.starts_with(start));
        self.is_fiq = mode.starts_with(b"fiq");
        (self.taken, self.is_taken_told) = (None, false);
        (self.target, self.target_set) = (None, None);
        self.last = Some(Last {
            address: instruction.address,
            length: instruction.length,
            set: instruction.set,
            is_executed: instruction.is_executed,
            facts: facts_of(instruction),
            unit: unit(instruction),
            is_told: false,
        });
    }

    /// How large the accesses of the last instruction are.
    pub(super) fn unit(&self) -> Option<u16> {
        self.last.and_then(|last| last.unit)
    }

    /// How many digits addresses have in Rev 3.
    pub(super) fn digits(&self) -> u8 {
        if self.last.is_some_and(|last| last.set == Some(InstructionSet::O)) { 16 } else { 8 }
    }

    /// An exception is taken, and no line says yet where it leads.
    pub(super) fn take(&mut self, taken: Taken) {
        (self.taken, self.is_taken_told) = (Some(taken), false);
        (self.target, self.target_set) = (None, None);
    }

    /// A BR line says where execution goes on.
    pub(super) fn lead(&mut self, target: u64, set: Option<InstructionSet>) {
        self.has_branches = true;
        (self.target, self.target_set) = (Some(target), set);
        self.is_taken_told = self.taken.is_some();
        if let Some(last) = &mut self.last {
            last.is_told = true;
        }
    }

    /// The address that an event is about, if lines of Rev 3 tell it: that of the instruction that caused it, or where the
    /// interrupted program goes on. On M-profile a call returns behind itself.
    pub(super) fn event_address(&self, exception: &Exception<'_>, is_asynchronous: bool) -> Option<u64> {
        const CALL: i64 = 11;
        let is_call = exception.vector == Some(CALL) && is_m_profile(CALL, exception.name);
        match self.last {
            _ if is_asynchronous || is_call => self.next(),
            _ if self.taken.is_some() => self.target,
            last => last.and_then(|last| last.address),
        }
    }

    /// Where execution goes on, as far as lines of Rev 3 tell before the next instruction.
    fn next(&self) -> Option<u64> {
        if self.target.is_some() || self.taken.is_some() {
            return self.target;
        }
        let last = self.last?;
        let facts = last.facts?;
        let is_skipped = !last.is_executed && last.set != Some(InstructionSet::O);
        match facts.target {
            _ if is_skipped || !is_branch(&facts) => last.behind(),
            // One that was taken would have a BR line.
            Some(_) if facts.conditional => last.behind().filter(|_| self.has_branches),
            target => target.map(|target| target.address),
        }
    }
}

impl Last {
    /// The address behind it.
    pub(super) fn behind(&self) -> Option<u64> {
        self.address.map(|address| address.wrapping_add(u64::from(self.length)))
    }

    /// Where it goes for certain, being a branch that is taken.
    pub(super) fn target(&self) -> Option<u64> {
        let facts = self.facts.filter(|_| self.is_executed)?;
        facts.target.map(|target| target.address)
    }

    /// Is it a branch that may not be taken, and says nothing of that?
    pub(super) fn is_open(&self) -> bool {
        self.is_executed && self.facts.is_some_and(|facts| facts.conditional && facts.target.is_some())
    }

    /// Is it a branch that was skipped, of which Rev 3 has no word for that?
    pub(super) fn is_skipped_branch(&self) -> bool {
        let facts = self.facts.filter(|_| !self.is_executed && self.set == Some(InstructionSet::O));
        facts.is_some_and(|facts| facts.conditional && facts.target.is_some())
    }

    /// The target that its opcode says is the address behind it.
    pub(super) fn leads_behind(&self) -> bool {
        let target = self.facts.and_then(|facts| facts.target).map(|target| target.address);
        target.is_some() && target == self.behind()
    }

    /// Where it went, and the instruction set there, if it is a branch that was taken; `next` is where execution goes on.
    pub(super) fn went(&self, next: Option<(u64, InstructionSet)>) -> Option<(u64, InstructionSet)> {
        let facts = self.facts.filter(|facts| self.is_executed && is_branch(facts))?;
        let Some(target) = facts.target else { return next };
        let is_behind = next.map(|(address, _)| address) == self.behind();
        // Some say of branches that were not taken that they were executed.
        if facts.conditional && is_behind && Some(target.address) != self.behind() {
            return None;
        }
        Some((target.address, set(target.isa)))
    }
}

fn set(isa: Isa) -> InstructionSet {
    match isa {
        Isa::A64 => InstructionSet::O,
        Isa::A32 => InstructionSet::A,
        Isa::T32 => InstructionSet::T,
    }
}
