//! Records as instructions: groups that end with an opcode, and the address of each instruction.
//!
//! records ─▶ **instructions** with their group
//!
//! Opcodes have no address. An instruction follows the previous one, unless a target, an event or a forced address
//! redirects execution. The rest of a group is parsed on demand.

use std::ops::ControlFlow;

use super::layout::{Layout, Malformed};
use super::position::{Position, Stop};
use super::record::{Event, MemAccess, Record, Register, descriptor};

/// An instruction and its group.
#[derive(Debug, Clone, Copy)]
pub struct Instruction<'b> {
    /// Its number; the first is 1.
    pub number: u64,
    /// Position of its group.
    pub position: Position,
    /// Its address.
    pub pc: u64,
    /// Its opcode.
    pub opcode: u32,
    /// Its length: 2 or 4 bytes.
    pub length: u8,
    /// Next address, if a record has it: the last target or event target.
    pub target: Option<u64>,
    /// Is its address forced by a record?
    pub is_forced: bool,
    /// Its privilege mode (0 user, 1 supervisor, 2 hypervisor, 3 machine), if known.
    pub mode: Option<u64>,
    /// The instruction encoding mode: 1 RV32, 2 RV64.
    pub iem: u16,
    /// Number of records in the group, including the opcode.
    pub records: u32,
    /// Bytes of the group.
    pub bytes: &'b [u8],
    layout: &'b Layout,
}

impl<'b> Instruction<'b> {
    /// Records of the group in order; the opcode is the last.
    pub fn group(&self) -> impl Iterator<Item = Record<'b>> + use<'b> {
        let (mut rest, layout) = (self.bytes, self.layout);
        std::iter::from_fn(move || {
            let (record, length) = Record::parse(rest, layout).ok()?;
            rest = &rest[length..];
            Some(record)
        })
    }

    /// Accesses to memory, each with its data words.
    pub fn accesses(&self) -> Vec<(MemAccess, Vec<u64>)> {
        let mut accesses: Vec<(MemAccess, Vec<u64>)> = Vec::new();
        for record in self.group() {
            match record {
                Record::InstMemAccess(access) => accesses.push((access, Vec::new())),
                Record::InstMemContent(word) => {
                    if let Some((_, words)) = accesses.last_mut() {
                        words.push(word);
                    }
                }
                _ => {}
            }
        }
        accesses
    }

    /// The events of the group.
    pub fn events(&self) -> impl Iterator<Item = Event<'b>> + use<'b> {
        self.group().filter_map(|record| match record {
            Record::Event(event) => Some(event),
            _ => None,
        })
    }
}

/// Follows execution from group to group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Follower {
    /// Address of the next instruction, unless its group forces another one.
    pub next_pc: u64,
    /// Mode of the next instruction, if known.
    pub mode: Option<u64>,
    /// The instruction encoding mode: 1 RV32, 2 RV64.
    pub iem: u16,
    /// The instruction set: 1 RISC-V, 2 Arm.
    pub isa: u16,
    /// Number of instructions so far.
    pub instructions: u64,
}

/// Properties of a group that are rarely present.
#[derive(Debug, Clone, Copy, Default)]
struct Rare {
    forced: Option<u64>,
    /// The mode after the instruction.
    mode: Option<u64>,
    iem: Option<u16>,
    isa: Option<u16>,
    transactions: u64,
}

/// Progress of a follower in a window.
pub(super) struct Followed {
    pub(super) stop: Stop,
    /// The position after the end mark, if it was reached.
    pub(super) end: Option<Position>,
}

/// Maximum length of a frequent record.
const FREQUENT: usize = 14;

impl Follower {
    /// Emits the instructions whose groups are complete.
    ///
    /// This is the fastest form known. Lengths of frequent records are constants in the code, so that branch prediction
    /// covers record and length together, and properties that most groups do not have are kept apart.
    #[inline(always)]
    pub(super) fn scan(
        &mut self,
        bytes: &[u8],
        start: Position,
        layout: &mut Layout,
        visit: &mut impl FnMut(&Instruction<'_>) -> ControlFlow<()>,
    ) -> Followed {
        let position = |(offset, record): (usize, u64)| Position {
            record: start.record + record,
            offset: start.offset + offset as u64,
        };
        let (mut next_pc, mut instructions, mut transactions) = (self.next_pc, self.instructions, 0);
        let (mut target, mut rare, mut is_rare) = (None, Rare::default(), false);
        // Bytes and records: before the current group, and so far.
        let (mut done, mut at, mut records) = ((0, 0), 0, 0);
        let (why, end) = loop {
            let rest = &bytes[at..];
            let (opcode, size) = match rest.first_chunk::<FREQUENT>() {
                Some([descriptor::INST_OPCODE32, a, b, c, d, ..]) => (u32::from_le_bytes([*a, *b, *c, *d]), 4),
                Some([descriptor::INST_OPCODE16, a, b, ..]) => (u32::from_le_bytes([*a, *b, 0, 0]), 2),
                Some([descriptor::INST_MEM_ACCESS, ..]) => {
                    (at, records) = (at + 14, records + 1);
                    continue;
                }
                Some([descriptor::INST_MEM_CONTENT, ..]) => {
                    (at, records) = (at + 9, records + 1);
                    continue;
                }
                Some([descriptor::INST_REG, _, _, meta, ..]) if meta & 0xf != Register::VECTOR => {
                    (at, records) = (at + 12, records + 1);
                    continue;
                }
                Some([descriptor::INST_PC_TARGET, ..]) => {
                    (at, records, target) = (at + 9, records + 1, word(rest));
                    continue;
                }
                _ => match Next::of(rest, layout, &mut rare) {
                    Ok(Next::Opcode(opcode, size)) => (opcode, size),
                    Ok(Next::Target(length)) => {
                        (at, records, target) = (at + length, records + 1, word(rest));
                        continue;
                    }
                    Ok(Next::Record(length)) => {
                        (at, records, is_rare) = (at + length, records + 1, true);
                        continue;
                    }
                    Ok(Next::EndOfHeader) => {
                        // The header belongs to no instruction.
                        (at, records) = (at + 1, records + 1);
                        next_pc = self.enter(next_pc, &rare);
                        (rare, is_rare, target, done) = (Rare::default(), false, None, (at, records));
                        continue;
                    }
                    // Records before the end mark belong to no instruction and stay in the window.
                    Ok(Next::End) => break (None, Some(position((at + 1, records + 1)))),
                    Err(why) => break (Some(why), None),
                },
            };
            (at, records) = (at + usize::from(size) + 1, records + 1);
            let pc = if is_rare { self.enter(next_pc, &rare) } else { next_pc };
            instructions += 1;
            let flow = visit(&Instruction {
                number: instructions,
                position: position(done),
                pc,
                opcode,
                length: size,
                target,
                is_forced: is_rare && rare.forced.is_some(),
                mode: self.mode,
                iem: self.iem,
                records: (records - done.1) as u32,
                bytes: &bytes[done.0..at],
                layout,
            });
            next_pc = target.take().unwrap_or(pc.wrapping_add(u64::from(size)));
            if is_rare {
                self.mode = rare.mode.or(self.mode);
                transactions += rare.transactions;
                (rare, is_rare) = (Rare::default(), false);
            }
            done = (at, records);
            if flow.is_break() {
                break (None, None);
            }
        };
        let markers = instructions - self.instructions + transactions;
        (self.next_pc, self.instructions) = (next_pc, instructions);
        Followed { stop: Stop { done: position(done), at: position((at, records)), why, markers }, end }
    }

    /// Applies the rare properties of a group; returns the address of its instruction.
    #[inline(never)]
    fn enter(&mut self, next_pc: u64, group: &Rare) -> u64 {
        self.iem = group.iem.unwrap_or(self.iem);
        self.isa = group.isa.unwrap_or(self.isa);
        group.forced.unwrap_or(next_pc)
    }
}

/// A record that is not frequent, or one so near to the end of the window that the longest frequent one would not fit.
enum Next {
    /// An opcode and its length.
    Opcode(u32, u8),
    /// A target, in a record of this length.
    Target(usize),
    /// Another record of this length.
    Record(usize),
    EndOfHeader,
    End,
}

impl Next {
    #[inline(never)]
    fn of(rest: &[u8], layout: &mut Layout, group: &mut Rare) -> Result<Self, Malformed> {
        let (record, length) = Record::parse(rest, layout)?;
        match record {
            Record::InstOpcode32(opcode) => return Ok(Self::Opcode(opcode, 4)),
            Record::InstOpcode16(opcode) => return Ok(Self::Opcode(opcode.into(), 2)),
            Record::InstPcTarget(_) | Record::EventPcTarget(_) => return Ok(Self::Target(length)),
            Record::EndHeader => return Ok(Self::EndOfHeader),
            Record::ReserveEnd => return Ok(Self::End),
            Record::ForcePc(pc) => group.forced = Some(pc),
            Record::Event(event) => group.mode = event.mode().or(group.mode),
            Record::InstIem(iem) => group.iem = Some(iem),
            Record::Isa(isa) => group.isa = Some(isa),
            Record::Transaction(_) => group.transactions += 1,
            other => layout.follow(&other),
        }
        Ok(Self::Record(length))
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.get(1..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}
