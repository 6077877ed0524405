//! A step: what an instruction was and did.

use std::ops::Range;

use super::super::read::Place;
use super::super::record::{
    Access, Branch, Byte, Direction, Exception, Instruction, InstructionSet, Line, Picture, PictureKind, Purpose,
    Record, Register, Time,
};
use super::super::registers::Mode;
use super::super::state::Bytes;
use super::super::value::Value;

/// Text within a step; see [`Step::text`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span(pub(super) Range<u32>);

/// What happened.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Which core: its place among [`Lifter::cores`](super::Lifter::cores).
    pub core: usize,
    /// The number of its instruction, counted for its core from 1; of a step without one, that of the last.
    pub number: u64,
    /// Where its cause is, or its first line if it has none.
    pub place: Place,
    /// When; inherited from the line before if its own does not say.
    pub time: Option<Time>,
    /// Why.
    pub cause: Cause,
    /// Registers that have a new value, in order.
    pub registers: Vec<Written>,
    /// Accesses to memory, in order.
    pub accesses: Vec<Accessed>,
    /// Exceptions that were taken.
    pub exceptions: Vec<Raised>,
    /// Where a branch goes, if a line says so.
    pub branch: Option<Branch>,
    /// Registers and accesses whose lines have another time than the instruction or exception that they belong to.
    pub strays: Strays,
    /// The time of the last instruction or exception, or of the first line.
    now: Option<Time>,
    text: Vec<u8>,
    bytes: Vec<u8>,
    known: Vec<bool>,
    is_begun: bool,
    room: Bytes,
}

/// How many lines have a time of their own, and the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strays {
    /// How many.
    pub count: u64,
    /// The line.
    pub first: u64,
}

impl Strays {
    fn add(&mut self, count: usize, line: u64) {
        if self.count == 0 {
            self.first = line;
        }
        self.count += count as u64;
    }
}

/// Why a step is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cause {
    /// Lines before the first instruction.
    #[default]
    Start,
    /// An instruction.
    Instruction(Executed),
    /// Something that no instruction caused: an interrupt, a reset.
    Asynchronous(Span),
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Where it is; `None`: in debug state.
    pub address: Option<u64>,
    /// Where it is physically.
    pub physical: Option<u64>,
    /// Its opcode; `None`: it could not be fetched.
    pub opcode: Option<u32>,
    /// How many bytes the opcode has.
    pub length: u8,
    /// The instruction set.
    pub set: Option<InstructionSet>,
    /// The mode and the security state.
    pub mode: Mode,
    /// The mode as it was written.
    pub mode_text: Span,
    /// It was executed: its condition did not fail.
    pub is_executed: bool,
    /// Its number, as the producer counts.
    pub serial: Option<u64>,
    /// The disassembly.
    pub text: Span,
}

/// A register that has a new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The line.
    pub line: u64,
    /// Its name, as it was written.
    pub name: Span,
    /// Its context.
    pub context: Span,
    /// Which bits: the highest and the lowest.
    pub bits: Option<(u16, u16)>,
    /// What it holds, as it was written; see [`Step::value`].
    pub value: Span,
    /// What stands behind the value.
    pub notes: Span,
}

/// An access to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accessed {
    /// The line.
    pub line: u64,
    /// Reads or writes.
    pub direction: Direction,
    /// What for.
    pub purpose: Purpose,
    /// Where; `None` of what is exchanged with a coprocessor.
    pub address: Option<u64>,
    /// Where physically.
    pub physical: Option<u64>,
    /// The physical address space, and the attributes.
    pub space: Span,
    /// Memory type, shareability, cacheability; what else was written behind it.
    pub attributes: Span,
    /// How many bytes.
    pub size: u16,
    /// It was aborted.
    pub is_aborted: bool,
    /// It is exclusive.
    pub is_exclusive: bool,
    /// An exclusive store that failed: nothing was written.
    pub is_failed: bool,
    /// The instruction that caused it, if the line says: its address and serial number.
    pub(super) owner: Option<(u64, u64)>,
    data: Range<u32>,
}

/// An exception that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// The line.
    pub line: u64,
    /// When; inherited from the line before if its own does not say.
    pub time: Option<Time>,
    /// The offset of the vector, or the number of the exception.
    pub vector: Option<i64>,
    /// Its name.
    pub name: Span,
}

impl Step {
    /// Text of the step.
    pub fn text(&self, span: &Span) -> &[u8] {
        self.text.get(span.0.start as usize..span.0.end as usize).unwrap_or_default()
    }

    /// The value of a register.
    pub fn value(&self, register: &Written) -> Value<'_> {
        Value(self.text(&register.value))
    }

    /// The bytes of an access, lowest address first; `None`: nobody knows.
    pub fn data(&self, access: &Accessed) -> impl ExactSizeIterator<Item = Option<u8>> {
        let range = access.data.start as usize..access.data.end as usize;
        let (bytes, known) = (self.bytes.get(range.clone()), self.known.get(range));
        let each = bytes.unwrap_or_default().iter().zip(known.unwrap_or_default());
        each.map(|(byte, is_known)| is_known.then_some(*byte))
    }

    /// The instruction, if one caused it.
    pub fn instruction(&self) -> Option<&Executed> {
        match &self.cause {
            Cause::Instruction(executed) => Some(executed),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_begun
    }

    /// Gives it its number.
    #[inline]
    pub(super) fn count(&mut self, number: &mut u64) {
        *number += u64::from(self.instruction().is_some());
        self.number = *number;
    }

    pub(super) fn clear(&mut self) {
        self.cause = Cause::Start;
        (self.branch, self.is_begun, self.strays) = (None, false, Strays::default());
        self.registers.clear();
        self.accesses.clear();
        self.exceptions.clear();
        self.text.clear();
        self.bytes.clear();
        self.known.clear();
    }

    /// Takes a line.
    #[inline]
    pub(super) fn add(&mut self, place: Place, line: &Line<'_>, time: Option<Time>, is_big: bool) {
        match &line.record {
            Record::Instruction(instruction) => self.cause = Cause::Instruction(self.executed(instruction)),
            Record::Asynchronous(name) => self.cause = Cause::Asynchronous(self.keep(name)),
            Record::Exception(exception) => self.exception(place.line, time, exception),
            Record::Event(event) if event.is_exception => {
                let (vector, name) = (event.number.map(i64::from), self.keep(event.name));
                self.exceptions.push(Raised { line: place.line, time, vector, name });
                self.now = time;
            }
            Record::Register(register) => self.register(place.line, register),
            Record::Access(access) | Record::Transfer(access) => self.access(place.line, access, is_big),
            Record::Picture(picture) => self.picture(place.line, picture),
            Record::Branch(branch) => self.branch = Some(*branch),
            _ => return,
        }
        if !self.is_begun || is_cause(&line.record) {
            self.begin(place, time);
        } else if time != self.now && is_effect(&line.record) {
            self.strays.add(1, place.line);
        }
    }

    /// This is its cause, or its first line.
    #[inline]
    fn begin(&mut self, place: Place, time: Option<Time>) {
        if self.is_begun && time != self.time {
            // Effects that came before their cause.
            self.strays.add(self.registers.len() + self.accesses.len(), self.place.line);
        }
        (self.place, self.time, self.now, self.is_begun) = (place, time, time, true);
    }

    fn keep(&mut self, text: &[u8]) -> Span {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(text);
        Span(start..self.text.len() as u32)
    }

    fn executed(&mut self, instruction: &Instruction<'_>) -> Executed {
        Executed {
            address: instruction.address,
            physical: instruction.physical.map(|physical| physical.address),
            opcode: instruction.opcode,
            length: instruction.length,
            set: instruction.set,
            mode: Mode::of(instruction.mode),
            mode_text: self.keep(instruction.mode),
            is_executed: instruction.is_executed,
            serial: instruction.number,
            text: self.keep(instruction.text),
        }
    }

    fn exception(&mut self, line: u64, time: Option<Time>, exception: &Exception<'_>) {
        let name = self.keep(exception.name);
        if exception.is_step {
            self.cause = Cause::Asynchronous(name.clone());
        }
        self.exceptions.push(Raised { line, time, vector: exception.vector, name });
        self.now = time;
    }

    fn register(&mut self, line: u64, register: &Register<'_>) {
        let written = Written {
            line,
            name: self.keep(register.name),
            context: self.keep(register.context),
            bits: register.bits,
            value: self.keep(register.value.0),
            notes: if register.notes.is_empty() { Span::default() } else { self.keep(register.notes) },
        };
        self.registers.push(written);
    }

    fn access(&mut self, line: u64, access: &Access<'_>, is_big: bool) {
        let start = self.bytes.len() as u32;
        let mut room = std::mem::take(&mut self.room);
        room.take(access, is_big);
        self.bytes.extend_from_slice(&room.values);
        self.known.extend_from_slice(&room.known);
        self.room = room;
        let accessed = Accessed {
            line,
            direction: access.direction,
            purpose: access.purpose,
            address: access.address,
            physical: access.physical.map(|physical| physical.address),
            space: self.keep(access.physical.map_or(b"", |physical| physical.space)),
            attributes: self.keep(access.notes),
            size: access.size,
            is_aborted: access.is_aborted,
            is_exclusive: access.is_exclusive,
            is_failed: false,
            owner: access.owner,
            data: start..self.bytes.len() as u32,
        };
        self.accesses.push(accessed);
    }

    /// Bytes of a picture that lie together are one access.
    fn picture(&mut self, line: u64, picture: &Picture<'_>) {
        let space = self.keep(picture.physical.map_or(b"", |physical| physical.space));
        let attributes = self.keep(picture.attributes);
        let mut at = 0;
        while at < picture.bytes.len() {
            let length = picture.bytes[at..].iter().take_while(|byte| **byte != Byte::Untouched).count();
            if length > 0 {
                let offset = at as u64;
                let start = self.bytes.len() as u32;
                self.keep_bytes(&picture.bytes[at..at + length]);
                self.accesses.push(Accessed {
                    line,
                    direction: match picture.kind {
                        PictureKind::Load | PictureKind::AbortedLoad => Direction::Read,
                        _ => Direction::Write,
                    },
                    purpose: Purpose::Data,
                    address: Some(picture.address.wrapping_add(offset)),
                    physical: picture.physical.map(|physical| physical.address.wrapping_add(offset)),
                    space: space.clone(),
                    attributes: attributes.clone(),
                    size: length as u16,
                    is_aborted: matches!(picture.kind, PictureKind::AbortedLoad | PictureKind::AbortedStore),
                    is_exclusive: picture.kind == PictureKind::FailedStore,
                    is_failed: picture.kind == PictureKind::FailedStore,
                    owner: None,
                    data: start..self.bytes.len() as u32,
                });
            }
            at += length + 1;
        }
    }

    fn keep_bytes(&mut self, bytes: &[Byte]) {
        for byte in bytes {
            let (value, is_known) = match byte {
                Byte::Known(value) => (*value, true),
                _ => (0, false),
            };
            self.bytes.push(value);
            self.known.push(is_known);
        }
    }

    /// Takes over effects of another step that are its own: `belongs` is given both, and the effect.
    pub(super) fn take_from(&mut self, other: &mut Self, belongs: impl Fn(&Self, &Self, Effect<'_>) -> bool) {
        let registers = std::mem::take(&mut other.registers);
        let accesses = std::mem::take(&mut other.accesses);
        for mut register in registers {
            if !belongs(self, other, Effect::Register(other.text(&register.name))) {
                other.registers.push(register);
                continue;
            }
            for span in [&mut register.name, &mut register.context, &mut register.value, &mut register.notes] {
                *span = self.keep(other.text(span));
            }
            self.registers.push(register);
        }
        for mut access in accesses {
            if !belongs(self, other, Effect::Access(&access)) {
                other.accesses.push(access);
                continue;
            }
            for span in [&mut access.space, &mut access.attributes] {
                *span = self.keep(other.text(span));
            }
            let range = access.data.start as usize..access.data.end as usize;
            access.data = self.bytes.len() as u32..(self.bytes.len() + range.len()) as u32;
            self.bytes.extend_from_slice(&other.bytes[range.clone()]);
            self.known.extend_from_slice(&other.known[range]);
            self.accesses.push(access);
        }
    }
}

fn is_cause(record: &Record<'_>) -> bool {
    matches!(record, Record::Instruction(_) | Record::Asynchronous(_))
}

fn is_effect(record: &Record<'_>) -> bool {
    matches!(record, Record::Register(_) | Record::Access(_) | Record::Picture(_))
}

/// Something that an instruction did.
pub(super) enum Effect<'a> {
    /// A register of this name has a new value.
    Register(&'a [u8]),
    /// Memory was accessed.
    Access(&'a Accessed),
}
