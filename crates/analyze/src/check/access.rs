//! What an instruction does with memory: told by its opcode, and told by the source.
//!
//! opcode ─▶ **expected**; accesses of a step ─▶ **touched**; both ─▶ findings
//!
//! Sources cut and join accesses as they like, so bytes are added up. Nothing is claimed of vectors whose length is not
//! known, of tags, of prefetches and maintenance, and of opcodes that may be new.

use std::fmt;

use unspool_isa::{Access, Operation, RiscvExtensions, access};
use unspool_model::{Direction, Instruction, Isa, Step};

use super::core::Last;
use super::rules::RuleId;
use super::{Out, Source};

/// How many bytes may be touched in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes {
    least: u64,
    most: u64,
    /// None is fine too.
    or_none: bool,
}

impl Bytes {
    /// Nothing is claimed.
    pub(super) const ANY: Self = Self { least: 0, most: u64::MAX, or_none: true };
    /// None at all.
    pub(super) const NONE: Self = Self { least: 0, most: 0, or_none: true };
    /// At least one.
    const SOME: Self = Self { least: 1, most: u64::MAX, or_none: false };

    pub(super) const fn exactly(bytes: u64) -> Self {
        Self { least: bytes, most: bytes, or_none: false }
    }

    pub(super) const fn maybe(self) -> Self {
        Self { or_none: true, ..self }
    }

    /// Is it the number of bits? No instruction of RISC-V but a vector's has so many bytes.
    fn is_in_bits(self, told: u64) -> bool {
        self.least == self.most && self.most.checked_mul(8) == Some(told)
    }

    fn is_fine(self, told: u64) -> bool {
        if told == 0 { self.or_none } else { (self.least..=self.most).contains(&told) }
    }
}

/// What an opcode says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) reads: Bytes,
    pub(super) writes: Bytes,
}

impl Expected {
    pub(super) const ANY: Self = Self { reads: Bytes::ANY, writes: Bytes::ANY };
    pub(super) const NONE: Self = Self { reads: Bytes::NONE, writes: Bytes::NONE };

    pub(super) const fn read(reads: Bytes) -> Self {
        Self { reads, writes: Bytes::NONE }
    }

    pub(super) const fn write(writes: Bytes) -> Self {
        Self { reads: Bytes::NONE, writes }
    }

    /// Reads and writes in one; some sources tell one of both, or that nothing was written.
    const fn swap(bytes: Bytes) -> Self {
        Self { reads: bytes.maybe(), writes: bytes.maybe() }
    }

    pub(super) const fn maybe(self) -> Self {
        Self { reads: self.reads.maybe(), writes: self.writes.maybe() }
    }
}

/// What a source says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Touched {
    reads: u64,
    writes: u64,
}

impl Touched {
    /// All accesses of a step.
    #[inline]
    pub(super) fn of(step: &Step) -> Self {
        let mut touched = Self::default();
        for access in step.accesses() {
            if matches!(access.direction, Direction::Read | Direction::Both) {
                touched.reads = touched.reads.saturating_add(access.size);
            }
            if matches!(access.direction, Direction::Write | Direction::Both) {
                touched.writes = touched.writes.saturating_add(access.size);
            }
        }
        touched
    }
}

/// One direction: what is expected, what is told, and whether the source has ever told the like.
struct Side {
    verb: &'static str,
    told_as: &'static str,
    bytes: Bytes,
    told: u64,
    is_ever_told: bool,
}

/// Compares what an instruction did with its opcode. `is_whole`: it raised no exception.
#[inline]
pub(super) fn check(last: &Last, is_whole: bool, source: &mut Source, out: &mut Out<'_>) {
    let Touched { reads, writes } = last.touched;
    source.has_reads |= reads > 0;
    source.has_writes |= writes > 0;
    let Some(opcode) = last.instruction.opcode else { return };
    let mut expected = expected(&last.instruction, opcode);
    if last.instruction.is_executed == Some(false) && expected != Expected::ANY {
        expected = Expected::NONE;
    } else if last.known.decoded.conditional {
        expected = expected.maybe();
    }
    if expected.reads.is_fine(reads) && expected.writes.is_fine(writes) {
        return;
    }
    let sides = [
        Side { verb: "reads", told_as: "read", bytes: expected.reads, told: reads, is_ever_told: source.has_reads },
        Side {
            verb: "writes",
            told_as: "written",
            bytes: expected.writes,
            told: writes,
            is_ever_told: source.has_writes,
        },
    ];
    compare(&sides, last, is_whole, source, out);
}

#[cold]
fn compare(sides: &[Side; 2], last: &Last, is_whole: bool, source: &mut Source, out: &mut Out<'_>) {
    // What does the wrong thing is not asked for the right one too.
    if let Some(side) = sides.iter().find(|side| side.bytes.most == 0 && side.told > 0) {
        let Side { verb, told_as, told, .. } = side;
        return add(RuleId::AccessKind, last, format_args!("{verb} no memory, and {told} bytes are {told_as}"), out);
    }
    for &Side { verb, told_as, bytes, told, is_ever_told } in sides {
        let is_open = !is_whole && told < bytes.least || told == 0 && !is_ever_told;
        match () {
            () if is_open || bytes.is_fine(told) => {}
            () if told == 0 => {
                add(RuleId::AccessMissing, last, format_args!("{verb} memory, and nothing is {told_as}"), out);
            }
            () if last.is_riscv() && bytes.is_in_bits(told) && (source.is_in_bits || told >= 32) => {
                source.is_in_bits = true;
            }
            () => {
                let detail = format_args!("{verb} {} bytes, and {told} are {told_as}", bytes.most);
                add(RuleId::AccessSize, last, detail, out);
            }
        }
    }
}

fn add(rule: RuleId, last: &Last, detail: fmt::Arguments<'_>, out: &mut Out<'_>) {
    let &Instruction { address, opcode, .. } = &last.instruction;
    let opcode = opcode.unwrap_or_default();
    let detail = format_args!("{opcode:#010x} at {address:#x} {detail}");
    out.add(rule, last.place, (address, u64::from(opcode)), detail);
}

#[inline]
fn expected(instruction: &Instruction, opcode: u32) -> Expected {
    match instruction.isa {
        Isa::A64 => a64(opcode),
        isa if isa.is_riscv() => riscv(isa, opcode),
        // Another length is another instruction.
        Isa::T32 if Isa::T32.length((opcode >> 16) as u16) != instruction.length => Expected::ANY,
        isa => aarch32(&access(isa, opcode)),
    }
}

fn aarch32(access: &Access) -> Expected {
    match (access.operation, access.bytes) {
        (Operation::Load, Some(bytes)) => Expected::read(Bytes::exactly(bytes.into())),
        (Operation::Store, Some(bytes)) => Expected::write(Bytes::exactly(bytes.into())),
        _ => Expected::ANY,
    }
}

#[inline]
fn a64(opcode: u32) -> Expected {
    // Whatever will be added, what processes data does not touch memory.
    if matches!(opcode >> 25 & 0xf, 0b0101 | 0b0111 | 0b1000 | 0b1001 | 0b1101 | 0b1111) {
        return Expected::NONE;
    }
    let access = access(Isa::A64, opcode);
    let is_open = access.predicated || access.suppresses_faults;
    let bytes = match access.bytes.map(u64::from) {
        Some(most) if is_open => Bytes { least: 1, most, or_none: true },
        Some(bytes) => Bytes::exactly(bytes),
        None if is_open => Bytes::ANY,
        None => Bytes::SOME,
    };
    match access.operation {
        Operation::Load => Expected::read(bytes),
        Operation::Store if access.may_not_write => Expected::write(bytes.maybe()),
        Operation::Store => Expected::write(bytes),
        Operation::LoadStore => Expected::swap(bytes),
        Operation::Zero | Operation::Set { tagged: false, .. } => Expected::write(Bytes::ANY),
        _ => Expected::ANY,
    }
}

/// Extensions that give other meanings to opcodes.
const OTHER_MEANINGS: RiscvExtensions = RiscvExtensions { zcmp: true, zcmt: true };

fn riscv(isa: Isa, opcode: u32) -> Expected {
    if OTHER_MEANINGS.claims(opcode) {
        return Expected::ANY;
    }
    let access = access(isa, opcode);
    let bytes = access.bytes.map_or(Bytes::ANY, |bytes| Bytes::exactly(u64::from(bytes)));
    match access.operation {
        Operation::Load => Expected::read(bytes),
        Operation::Store if access.may_not_write => Expected::write(bytes.maybe()),
        Operation::Store | Operation::Zero => Expected::write(bytes),
        Operation::LoadStore => Expected::swap(bytes),
        Operation::None if !may_be_shadow_stack(opcode) => Expected::NONE,
        _ => Expected::ANY,
    }
}

/// What computes nothing today (Zimop, Zcmop) pushes and pops with Zicfiss.
fn may_be_shadow_stack(opcode: u32) -> bool {
    opcode & 0x7f == 0x73 || opcode & 0xf8ff == 0x6081
}
