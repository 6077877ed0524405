//! What is remembered of a core: its last instruction, and what waits for the next one.

use unspool_isa::{Facts, Isa};

use super::super::record::{Instruction, InstructionSet, Stamp};
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
    pub(super) has_exception: bool,
    /// BR lines tell which branches are taken.
    pub(super) has_branches: bool,
    /// The target that a BR line said.
    pub(super) target: Option<u64>,
    pub(super) is_m_profile: bool,
    pub(super) is_fiq: bool,
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
            has_exception: false,
            has_branches: false,
            target: None,
            is_m_profile: false,
            is_fiq: false,
        }
    }

    /// This is the last instruction now.
    pub(super) fn arrive(&mut self, instruction: &Instruction<'_>) {
        let mode = instruction.mode;
        self.is_m_profile = [&b"thr"[..], b"hand", b"hndl"].iter().any(|start| mode.starts_with(start));
        self.is_fiq = mode.starts_with(b"fiq");
        self.has_exception = false;
        self.target = None;
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

    /// The address that an event is about: of the instruction that caused it, or of the one that would have been next.
    pub(super) fn event_address(&self, is_asynchronous: bool) -> u64 {
        let Some(last) = self.last else { return 0 };
        let next = self.target.or_else(|| last.target()).or_else(|| last.behind());
        if is_asynchronous { next.unwrap_or(0) } else { last.address.unwrap_or(0) }
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
