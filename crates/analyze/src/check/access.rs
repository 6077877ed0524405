//! Memory accesses: those that the opcode implies against those that the source reports.
//!
//! opcode ─▶ **expected**; accesses of a step ─▶ **touched**; both ─▶ findings
//!
//! Sources split and merge accesses differently, so only total bytes are compared. Vectors of unknown length, tags,
//! prefetches, cache maintenance and unallocated opcodes are not checked.

use std::fmt;

use unspool_isa::{Access, Operation, access};
use unspool_model::{Instruction, Isa};

use super::control_flow::OTHER_MEANINGS;
use super::last::{Last, Touched};
use super::report::{Reporter, Source};
use super::rules::RuleId;

/// Allowed number of bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes {
    min: u64,
    max: u64,
    /// Whether no access is allowed too.
    or_none: bool,
}

impl Bytes {
    /// Any number.
    pub(super) const ANY: Self = Self { min: 0, max: u64::MAX, or_none: true };
    /// No bytes.
    pub(super) const NONE: Self = Self { min: 0, max: 0, or_none: true };
    /// At least one byte.
    const SOME: Self = Self { min: 1, max: u64::MAX, or_none: false };

    pub(super) const fn exactly(bytes: u64) -> Self {
        Self { min: bytes, max: bytes, or_none: false }
    }

    pub(super) const fn maybe(self) -> Self {
        Self { or_none: true, ..self }
    }

    /// Whether the reported number is in bits. Only vector instructions of RISC-V access that many bytes.
    fn is_in_bits(self, reported: u64) -> bool {
        self.min == self.max && self.max.checked_mul(8) == Some(reported)
    }

    fn allows(self, reported: u64) -> bool {
        if reported == 0 { self.or_none } else { (self.min..=self.max).contains(&reported) }
    }
}

/// Accesses that an opcode implies.
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

    /// Reads and writes in one instruction; some sources report only one of them, or that nothing was written.
    const fn swap(bytes: Bytes) -> Self {
        Self { reads: bytes.maybe(), writes: bytes.maybe() }
    }

    pub(super) const fn maybe(self) -> Self {
        Self { reads: self.reads.maybe(), writes: self.writes.maybe() }
    }
}

/// One direction: expected bytes, reported bytes, and whether the source has ever reported an access in it.
struct Side {
    /// The verb, and its past participle.
    words: [&'static str; 2],
    bytes: Bytes,
    reported: u64,
    is_ever_reported: bool,
}

/// Compares the reported accesses of an instruction with its opcode. `is_whole`: it raised no exception.
#[inline]
pub(super) fn check(last: &Last, is_whole: bool, source: &mut Source, out: &mut Reporter<'_>) {
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
    if expected.reads.allows(reads) && expected.writes.allows(writes) {
        return;
    }
    let sides = [
        Side { words: ["reads", "read"], bytes: expected.reads, reported: reads, is_ever_reported: source.has_reads },
        Side {
            words: ["writes", "written"],
            bytes: expected.writes,
            reported: writes,
            is_ever_reported: source.has_writes,
        },
    ];
    compare(&sides, last, is_whole, source, out);
}

#[cold]
fn compare(sides: &[Side; 2], last: &Last, is_whole: bool, source: &mut Source, out: &mut Reporter<'_>) {
    // An access in the wrong direction is one finding: the missing one in the right direction is not reported too.
    if let Some(side) = sides.iter().find(|side| side.bytes.max == 0 && side.reported > 0) {
        let Side { words: [verb, past], reported, .. } = side;
        return add(RuleId::AccessKind, last, format_args!("{verb} no memory, but {reported} bytes are {past}"), out);
    }
    for &Side { words: [verb, past], bytes, reported, is_ever_reported } in sides {
        let is_open = !is_whole && reported < bytes.min || reported == 0 && !is_ever_reported;
        match () {
            () if is_open || bytes.allows(reported) => {}
            () if reported == 0 => {
                add(RuleId::AccessMissing, last, format_args!("{verb} memory, but nothing is {past}"), out);
            }
            () if last.is_riscv() && bytes.is_in_bits(reported) && (source.is_in_bits || reported >= 32) => {
                source.is_in_bits = true;
            }
            () => {
                let detail = format_args!("{verb} {} bytes, but {reported} are {past}", bytes.max);
                add(RuleId::AccessSize, last, detail, out);
            }
        }
    }
}

fn add(rule: RuleId, last: &Last, detail: fmt::Arguments<'_>, out: &mut Reporter<'_>) {
    let &Instruction { address, opcode, .. } = &last.instruction;
    let opcode = opcode.unwrap_or_default();
    let detail = format_args!("{opcode:#010x} at {address:#x} {detail}");
    out.add(rule, last.position, (address, u64::from(opcode)), detail);
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
    // The data processing groups never access memory, not even in future extensions.
    if matches!(opcode >> 25 & 0xf, 0b0101 | 0b0111 | 0b1000 | 0b1001 | 0b1101 | 0b1111) {
        return Expected::NONE;
    }
    let access = access(Isa::A64, opcode);
    let is_open = access.predicated || access.suppresses_faults;
    let bytes = match access.bytes.map(u64::from) {
        Some(max) if is_open => Bytes { min: 1, max, or_none: true },
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

/// Whether it is a may-be-operation (Zimop, Zcmop), which accesses the shadow stack with Zicfiss.
fn may_be_shadow_stack(opcode: u32) -> bool {
    opcode & 0x7f == 0x73 || opcode & 0xf8ff == 0x6081
}
