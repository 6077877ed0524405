//! Records as instructions: groups that end with an opcode, and where each instruction is.
//!
//! records ─▶ **instructions** with their group
//!
//! Opcodes have no address. Where an instruction is follows from the one before: behind it, or where its target, an
//! event or a forced address says. The rest of a group is looked at when it is asked for.

use std::io::Read;
use std::ops::ControlFlow;

use super::layout::{Layout, Malformed};
use super::read::{Place, ReadError, Reader, Stop};
use super::record::{Event, MemAccess, Record, descriptor};

/// An instruction and its group.
#[derive(Debug, Clone, Copy)]
pub struct Instruction<'b> {
    /// Its number; the first is 1.
    pub number: u64,
    /// Where its group starts.
    pub place: Place,
    /// Where it is.
    pub pc: u64,
    /// Its opcode.
    pub opcode: u32,
    /// 2 or 4 bytes.
    pub length: u8,
    /// Where execution goes on, if a record says so: the last of a target and an event's target.
    pub target: Option<u64>,
    /// A forced address says where it is.
    pub is_forced: bool,
    /// The mode that it is executed in (0 user, 1 supervisor, 2 hypervisor, 3 machine), if that was told.
    pub mode: Option<u64>,
    /// The instruction encoding mode: 1 RV32, 2 RV64.
    pub iem: u16,
    /// How many records the group has, the opcode too.
    pub records: u32,
    /// The group, byte by byte.
    pub bytes: &'b [u8],
    layout: &'b Layout,
}

impl<'b> Instruction<'b> {
    /// All records of the group, in order; the opcode is the last.
    pub fn group(&self) -> impl Iterator<Item = Record<'b>> + use<'b> {
        let (mut rest, layout) = (self.bytes, self.layout);
        std::iter::from_fn(move || {
            let (record, length) = Record::parse(rest, layout).ok()?;
            rest = &rest[length..];
            Some(record)
        })
    }

    /// Its accesses to memory, each with the words that were read or written.
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
#[derive(Debug, Clone, Copy, Default)]
pub struct Follower {
    /// Where the next instruction is, unless its group forces it elsewhere.
    pub next_pc: u64,
    /// The mode that it is executed in, if that was told.
    pub mode: Option<u64>,
    /// The instruction encoding mode: 1 RV32, 2 RV64.
    pub iem: u16,
    /// The instruction set: 1 RISC-V, 2 Arm.
    pub isa: u16,
    /// Instructions so far.
    pub instructions: u64,
}

/// What the records of a group have said so far.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    forced: Option<u64>,
    target: Option<u64>,
    /// The mode behind the instruction.
    mode: Option<u64>,
    iem: Option<u16>,
    isa: Option<u16>,
}

impl Group {
    /// Takes a record that is no opcode.
    #[inline(always)]
    fn record(&mut self, bytes: &[u8], layout: &mut Layout) {
        match bytes[0] {
            descriptor::INST_MEM_ACCESS | descriptor::INST_MEM_CONTENT | descriptor::INST_REG => {}
            descriptor::INST_PC_TARGET | descriptor::EVENT_PC_TARGET => self.target = word(bytes),
            descriptor::FORCE_PC => self.forced = word(bytes),
            _ => self.rarer(bytes, layout),
        }
    }

    #[inline(never)]
    fn rarer(&mut self, bytes: &[u8], layout: &mut Layout) {
        let Ok((record, _)) = Record::parse(bytes, layout) else { return };
        match record {
            Record::Event(event) => self.mode = event.mode().or(self.mode),
            Record::InstIem(iem) => self.iem = Some(iem),
            Record::Isa(isa) => self.isa = Some(isa),
            other => layout.follow(&other),
        }
    }
}

impl Follower {
    /// Takes over what a group says; where its instruction is.
    #[inline(always)]
    fn enter(&mut self, group: &Group) -> u64 {
        if let (None, None, None) = (group.forced, group.iem, group.isa) {
            return self.next_pc;
        }
        self.next_pc = group.forced.unwrap_or(self.next_pc);
        self.iem = group.iem.unwrap_or(self.iem);
        self.isa = group.isa.unwrap_or(self.isa);
        self.next_pc
    }

    /// Goes on behind the instruction of a group.
    #[inline(always)]
    fn leave(&mut self, pc: u64, length: u8, group: &Group) {
        self.next_pc = group.target.unwrap_or(pc.wrapping_add(u64::from(length)));
        self.mode = group.mode.or(self.mode);
    }

    /// Hands out the instructions whose groups are complete. The place behind the mark of the end, if it was met.
    #[inline(always)]
    fn go_through(
        &mut self,
        bytes: &[u8],
        start: Place,
        layout: &mut Layout,
        take: &mut impl FnMut(&Instruction<'_>) -> ControlFlow<()>,
    ) -> (Stop, Option<Place>) {
        let (mut done, mut at) = (start, start);
        let mut group = Group::default();
        loop {
            let rest = &bytes[(at.offset - start.offset) as usize..];
            let (opcode, size) = match Next::of(rest, layout) {
                Ok(Next::Opcode(opcode, size)) => (opcode, size),
                Ok(Next::Passed(length)) => {
                    at = at.behind(length);
                    continue;
                }
                Ok(Next::Record(length)) => {
                    at = at.behind(length);
                    group.record(rest, layout);
                    continue;
                }
                Ok(Next::EndOfHeader) => {
                    // The header belongs to no instruction.
                    at = at.behind(1);
                    self.enter(&group);
                    (group, done) = (Group::default(), at);
                    continue;
                }
                // Records before the mark belong to no instruction and are left.
                Ok(Next::End) => return (Stop { done, at, why: None }, Some(at.behind(1))),
                Err(why) => return (Stop { done, at, why: Some(why) }, None),
            };
            at = at.behind(usize::from(size) + 1);
            let pc = self.enter(&group);
            self.instructions += 1;
            let within = (done.offset - start.offset) as usize..(at.offset - start.offset) as usize;
            let flow = take(&Instruction {
                number: self.instructions,
                place: done,
                pc,
                opcode,
                length: size,
                target: group.target,
                is_forced: group.forced.is_some(),
                mode: self.mode,
                iem: self.iem,
                records: (at.record - done.record) as u32,
                bytes: &bytes[within],
                layout,
            });
            self.leave(pc, size, &group);
            (group, done) = (Group::default(), at);
            if flow.is_break() {
                return (Stop { done, at, why: None }, None);
            }
        }
    }
}

/// What comes next, as far as following execution cares.
enum Next {
    /// An opcode, and its bytes.
    Opcode(u32, u8),
    /// A record of so many bytes that says nothing about where execution goes.
    Passed(usize),
    /// Another record.
    Record(usize),
    EndOfHeader,
    End,
}

impl Next {
    /// Frequent records have their length in the code: so the processor guesses it together with the record.
    #[inline(always)]
    fn of(rest: &[u8], layout: &Layout) -> Result<Self, Malformed> {
        Ok(match rest {
            [descriptor::INST_OPCODE32, a, b, c, d, ..] => Self::Opcode(u32::from_le_bytes([*a, *b, *c, *d]), 4),
            [descriptor::INST_OPCODE16, a, b, ..] => Self::Opcode(u32::from_le_bytes([*a, *b, 0, 0]), 2),
            [descriptor::INST_MEM_ACCESS, access @ ..] if access.len() >= 13 => Self::Passed(14),
            [descriptor::INST_MEM_CONTENT, content @ ..] if content.len() >= 8 => Self::Passed(9),
            [descriptor::END_HEADER, ..] => Self::EndOfHeader,
            [descriptor::RESERVE_END, ..] => Self::End,
            _ => Self::Record(layout.length(rest)?),
        })
    }
}

impl<R: Read> Reader<R> {
    /// Hands out instructions until `take` breaks, the trace ends or the rest of it cannot be read. True: there is more.
    /// Records behind the last opcode belong to no instruction: at the end, [`place`](Reader::place) is before them.
    #[inline]
    pub fn each_instruction(
        &mut self,
        follower: &mut Follower,
        mut take: impl FnMut(&Instruction<'_>) -> ControlFlow<()>,
    ) -> Result<bool, ReadError> {
        if self.is_behind_end() {
            return self.nothing_follows();
        }
        let mut end = None;
        let more = self.scan(|bytes, start, layout| {
            let (stop, behind) = follower.go_through(bytes, start, layout, &mut take);
            end = behind;
            stop
        })?;
        match end {
            Some(end) => self.ends_at(end),
            None => Ok(more),
        }
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.get(1..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}
