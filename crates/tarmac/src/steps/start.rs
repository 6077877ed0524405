//! Properties of a log that its first lines determine: coverage, unit of time, and habits of the producer.

use unspool_isa::{Isa, access};
use unspool_model::{Coverage, Facet, Security, TimeUnit};

use super::super::annotation::Annotation;
use super::super::clock;
use super::super::dialect::Dialect;
use super::super::opcode::{facts_of, unit};
use super::super::record::{Instruction, InstructionSet, Line, Record, Stamp, Tag, Time};
use super::super::registers::Mode;

/// Minimum number of instructions that would have had an effect, to conclude that the log has no such lines.
const MIN_SAMPLE: u32 = 32;

/// Properties of a log, from its first lines.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// Coverage and unit of time of the source, if the log was lowered.
    pub(super) lowered: Option<(Coverage, TimeUnit)>,
    /// The first timestamp.
    pub(super) time: Option<Time>,
    /// Whether a line other than headers and blanks was seen.
    is_begun: bool,
    accesses: Evidence,
    registers: Evidence,
    /// Whether the header names Rev 3.
    is_rev3: bool,
    /// Whether modes name Non-secure state.
    names_nonsecure: bool,
    /// Whether modes name another Security state.
    names_others: bool,
    /// Fall-through address of the last instruction, if it is a conditional branch that was printed as executed.
    fall_through: Option<u64>,
    /// Whether execution continued there: this producer prints branches that are not taken as executed.
    falls_through: bool,
}

/// Evidence for one kind of line: how often one was due, and whether any was seen.
#[derive(Debug, Default)]
struct Evidence {
    due: u32,
    is_seen: bool,
}

impl Evidence {
    /// Whether the log has no lines of this kind.
    fn is_missing(&self) -> bool {
        !self.is_seen && self.due >= MIN_SAMPLE
    }
}

impl Start {
    /// Takes the next line.
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
            Record::Access(_) | Record::Picture(_) => self.accesses.is_seen = true,
            Record::Register(_) => self.registers.is_seen = true,
            Record::Instruction(instruction) => self.instruction(instruction),
            _ => {}
        }
        self.is_begun = true;
    }

    fn instruction(&mut self, instruction: &Instruction<'_>) {
        match Mode::of(instruction.mode).security {
            Some(Security::NonSecure) => self.names_nonsecure = true,
            Some(_) => self.names_others = true,
            None => {}
        }
        self.falls_through |= self.fall_through.is_some() && self.fall_through == instruction.address;
        self.fall_through = fall_through(instruction);
        if instruction.is_executed {
            self.accesses.due += u32::from(must_access(instruction));
            self.registers.due += u32::from(must_write_register(instruction));
        }
    }

    /// Whether the producer prints each branch that is not taken as skipped. Fast Models do; others only print failed
    /// conditions.
    pub(super) fn reports_skips(&self, dialect: Dialect) -> bool {
        dialect == Dialect::FastModels && !self.falls_through
    }

    /// The Security state of modes that name none. In Rev 3 only Non-secure state is named, but most producers name
    /// every state, and some know of none.
    pub(super) fn security(&self) -> Option<Security> {
        (self.is_rev3 && self.names_nonsecure && !self.names_others).then_some(Security::Secure)
    }

    /// Coverage of the log, within `of_dialect`, the coverage of its dialect.
    pub(super) fn coverage(&self, of_dialect: Coverage) -> Coverage {
        if let Some((coverage, _)) = self.lowered {
            return coverage;
        }
        let is_covered = |facet: &Facet| match facet {
            Facet::Accesses | Facet::Data => !self.accesses.is_missing(),
            Facet::Registers => !self.registers.is_missing(),
            _ => true,
        };
        of_dialect.iter().filter(is_covered).fold(Coverage::default(), Coverage::with)
    }

    pub(super) fn time_unit(&self) -> TimeUnit {
        match (self.lowered, self.time) {
            (Some((_, unit)), _) => unit,
            (None, Some(time)) => clock::time_unit(time),
            (None, None) => TimeUnit::Unknown,
        }
    }
}

/// The fall-through address of a conditional branch that was printed as executed and whose target differs.
fn fall_through(instruction: &Instruction<'_>) -> Option<u64> {
    let facts = facts_of(instruction).filter(|facts| facts.conditional && instruction.tag == Tag::It)?;
    let next = instruction.address?.wrapping_add(u64::from(instruction.length));
    (facts.target?.address != next && instruction.is_executed).then_some(next)
}

/// Whether the instruction always accesses memory.
fn must_access(instruction: &Instruction<'_>) -> bool {
    let is_predicated = instruction.set == Some(InstructionSet::O)
        && instruction.opcode.is_some_and(|opcode| access(Isa::A64, opcode).predicated);
    unit(instruction).is_some() && !is_predicated
}

/// Whether the instruction always writes a register: a constant or a sum in A64; in AArch32, anything but a branch or a
/// memory access, as a rough measure.
fn must_write_register(instruction: &Instruction<'_>) -> bool {
    match (instruction.set, instruction.opcode) {
        (Some(InstructionSet::O), Some(opcode)) => opcode >> 26 & 0b111 == 0b100 && opcode & 0x1f != 0x1f,
        (Some(_), Some(_)) => {
            unit(instruction).is_none()
                && facts_of(instruction).is_some_and(|facts| !facts.flow.is_branch() && facts.it == 0)
        }
        _ => false,
    }
}
