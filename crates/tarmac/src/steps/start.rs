//! What the start of a log tells beforehand: who made it, what times are counted in, and what it never shows.

use unspool_isa::a64_access;
use unspool_model::{Coverage, Facet, Security, TimeUnit};

use super::super::clock;
use super::super::dialect::Dialect;
use super::super::lower::annotation::Annotation;
use super::super::record::{Instruction, InstructionSet, Line, Record, Stamp, Tag, Time};
use super::super::registers::{self, Mode};
use super::super::restyle::opcode::{facts_of, is_branch, unit};

/// So many instructions that must show something, and do not, are no accident.
const MANY: u32 = 32;

/// What the start of a log tells.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// The log was lowered, and says what its source tells.
    pub(super) lowered: Option<(Coverage, TimeUnit)>,
    /// The first time.
    pub(super) time: Option<Time>,
    /// A line came that says something of a program.
    is_begun: bool,
    accesses: Seen,
    registers: Seen,
    /// The header names Rev 3.
    is_rev3: bool,
    /// Modes name Non-secure state, and others.
    names_nonsecure: bool,
    names_others: bool,
    /// What is behind a branch that has a condition and is said to be executed.
    behind_branch: Option<u64>,
    /// Execution went on there: branches that are not taken look the same.
    is_fallen_through: bool,
}

/// How often something had to be shown, and whether it was.
#[derive(Debug, Default)]
struct Seen {
    wanted: u32,
    is_shown: bool,
}

impl Seen {
    /// It is not shown at all.
    fn is_missing(&self) -> bool {
        !self.is_shown && self.wanted >= MANY
    }
}

impl Start {
    /// One more line of the start.
    pub(super) fn line(&mut self, line: &Line<'_>) {
        if let (None, Stamp::At(time)) = (self.time, line.stamp) {
            self.time = Some(time);
        }
        match &line.record {
            Record::Blank => return,
            Record::Header(header) => {
                self.is_rev3 |= header.revision == 3;
                return;
            }
            Record::Comment(text) if !self.is_begun => {
                if let Some(Annotation::Covers(coverage, unit)) = Annotation::parse(text) {
                    self.lowered = Some((coverage, unit));
                }
            }
            Record::Access(_) | Record::Picture(_) => self.accesses.is_shown = true,
            Record::Register(_) => self.registers.is_shown = true,
            Record::Instruction(instruction) => self.instruction(instruction),
            _ => {}
        }
        self.is_begun = true;
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) {
        match Mode::of(instruction.mode).security {
            Some(registers::Security::NonSecure) => self.names_nonsecure = true,
            Some(_) => self.names_others = true,
            None => {}
        }
        self.is_fallen_through |= self.behind_branch.is_some() && self.behind_branch == instruction.address;
        self.behind_branch = behind_branch(instruction);
        if instruction.is_executed {
            self.accesses.wanted += u32::from(must_access(instruction));
            self.registers.wanted += u32::from(must_write_register(instruction));
        }
    }

    /// Is each branch that is not taken said to be skipped? Fast Models do that; others only say what they were asked.
    pub(super) fn says_skips(&self, dialect: Dialect) -> bool {
        dialect == Dialect::FastModels && !self.is_fallen_through
    }

    /// The Security state of modes that name none. Rev 3 names Non-secure state and nothing else; but most of its
    /// producers name every state, and some know of none.
    pub(super) fn security(&self) -> Option<Security> {
        (self.is_rev3 && self.names_nonsecure && !self.names_others).then_some(Security::Secure)
    }

    /// What the log tells, if such logs can tell `most`.
    pub(super) fn coverage(&self, most: Coverage) -> Coverage {
        if let Some((coverage, _)) = self.lowered {
            return coverage;
        }
        let is_told = |facet: &Facet| match facet {
            Facet::Accesses | Facet::Data => !self.accesses.is_missing(),
            Facet::Registers => !self.registers.is_missing(),
            _ => true,
        };
        most.iter().filter(is_told).fold(Coverage::default(), Coverage::with)
    }

    /// What times are counted in.
    pub(super) fn time_unit(&self) -> TimeUnit {
        match (self.lowered, self.time) {
            (Some((_, unit)), _) => unit,
            (None, Some(time)) => clock::time_unit(time),
            (None, None) => TimeUnit::Unknown,
        }
    }
}

/// What is behind a branch that has a condition, leads elsewhere, and is said to be executed.
fn behind_branch(instruction: &Instruction<'_>) -> Option<u64> {
    let facts = facts_of(instruction).filter(|facts| facts.conditional && instruction.tag == Tag::It)?;
    let behind = instruction.address?.wrapping_add(u64::from(instruction.length));
    (facts.target?.address != behind && instruction.is_executed).then_some(behind)
}

/// Whoever executes it accesses memory.
fn must_access(instruction: &Instruction<'_>) -> bool {
    let is_predicated = instruction.set == Some(InstructionSet::O)
        && instruction.opcode.is_some_and(|opcode| a64_access(opcode).predicated);
    unit(instruction).is_some() && !is_predicated
}

/// Whoever executes it gives a register a value: a constant or a sum in A64, or an instruction of AArch32 that is neither
/// a branch nor a store, of which there are many kinds.
fn must_write_register(instruction: &Instruction<'_>) -> bool {
    match (instruction.set, instruction.opcode) {
        (Some(InstructionSet::O), Some(opcode)) => opcode >> 26 & 0b111 == 0b100 && opcode & 0x1f != 0x1f,
        (Some(_), Some(_)) => {
            unit(instruction).is_none()
                && facts_of(instruction).is_some_and(|facts| !is_branch(&facts) && facts.it == 0)
        }
        _ => false,
    }
}
