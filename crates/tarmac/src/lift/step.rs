//! A lifted step: an instruction, exception or start of log, with its effects.

use std::ops::Range;

use unspool_model::Lost;

use super::super::read::Position;
use super::super::record::{
    Access, Branch, Byte, Direction, Exception, Instruction, InstructionSet, Line, Picture, PictureKind, Purpose,
    Record, Register, Time,
};
use super::super::registers::Mode;
use super::super::state::Bytes;
use super::super::value::Value;

/// Text stored in a step; see [`Step::text`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span(pub(super) Range<u32>);

/// One step of a core.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// Index of the core in [`Lifter::cores`](super::Lifter::cores).
    pub core: usize,
    /// Number of the instruction, counted per core from 1; without an instruction, that of the last one.
    pub number: u64,
    /// Position of the cause, or of the first line if there is none.
    pub position: Position,
    /// Time of the step; inherited from the previous line if its own has none.
    pub time: Option<Time>,
    /// Cause of the step.
    pub cause: Cause,
    /// Register writes, in order.
    pub registers: Vec<Written>,
    /// Memory accesses, in order.
    pub accesses: Vec<Accessed>,
    /// Exceptions that were taken.
    pub exceptions: Vec<Raised>,
    /// The BR line.
    pub branch: Option<Branch>,
    /// Register and memory lines with another time than the instruction or exception that they belong to.
    pub strays: Lost,
    /// Time of the last instruction or exception, or of the first line.
    now: Option<Time>,
    text: Vec<u8>,
    bytes: Vec<u8>,
    known: Vec<bool>,
    is_begun: bool,
    scratch: Bytes,
}

/// Cause of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cause {
    /// Lines before the first instruction.
    #[default]
    Start,
    /// An instruction.
    Instruction(Executed),
    /// An event that no instruction caused: an interrupt, a reset.
    Asynchronous(Span),
}

/// An instruction of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The address; `None`: in debug state.
    pub address: Option<u64>,
    /// The physical address.
    pub physical: Option<u64>,
    /// The opcode; `None`: the fetch failed.
    pub opcode: Option<u32>,
    /// Number of bytes of the opcode.
    pub length: u8,
    /// The instruction set.
    pub set: Option<InstructionSet>,
    /// Mode and Security state.
    pub mode: Mode,
    /// The mode as printed.
    pub mode_text: Span,
    /// Whether it was executed, that is, its condition held.
    pub is_executed: bool,
    /// Instruction number of the producer.
    pub serial: Option<u64>,
    /// The disassembly.
    pub text: Span,
}

/// A register write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The line number.
    pub line: u64,
    /// Name of the register, as printed.
    pub name: Span,
    /// Bank or state in brackets after the name.
    pub context: Span,
    /// The bit range: highest and lowest bit.
    pub bits: Option<(u16, u16)>,
    /// The value as printed; see [`Step::value`].
    pub value: Span,
    /// Text after the value.
    pub notes: Span,
}

/// A memory access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accessed {
    /// The line number.
    pub line: u64,
    /// Reads or writes.
    pub direction: Direction,
    /// Purpose of the access.
    pub purpose: Purpose,
    /// The address; `None`: a coprocessor transfer.
    pub address: Option<u64>,
    /// The physical address.
    pub physical: Option<u64>,
    /// The physical address space.
    pub space: Span,
    /// Memory type, shareability and cacheability, or other text after the data.
    pub attributes: Span,
    /// Number of bytes.
    pub size: u16,
    /// Whether it was aborted.
    pub is_aborted: bool,
    /// Whether it is exclusive.
    pub is_exclusive: bool,
    /// Whether it is an exclusive store that failed and wrote nothing.
    pub is_failed: bool,
    /// Address and serial number of the instruction that caused it, if the line has them.
    pub(super) owner: Option<(u64, u64)>,
    data: Range<u32>,
}

/// An exception that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// The line number.
    pub line: u64,
    /// Time of the line; inherited from the previous line if it has none.
    pub time: Option<Time>,
    /// Offset of the vector, or number of the exception.
    pub vector: Option<i64>,
    /// Name of the exception.
    pub name: Span,
}

impl Step {
    /// Text of a span.
    pub fn text(&self, span: &Span) -> &[u8] {
        self.text.get(span.0.start as usize..span.0.end as usize).unwrap_or_default()
    }

    /// Value of a register write.
    pub fn value(&self, register: &Written) -> Value<'_> {
        Value(self.text(&register.value))
    }

    /// Bytes of an access, lowest address first; `None`: unknown.
    pub fn data(&self, access: &Accessed) -> impl ExactSizeIterator<Item = Option<u8>> {
        let range = access.data.start as usize..access.data.end as usize;
        let (bytes, known) = (self.bytes.get(range.clone()), self.known.get(range));
        let each = bytes.unwrap_or_default().iter().zip(known.unwrap_or_default());
        each.map(|(byte, is_known)| is_known.then_some(*byte))
    }

    /// The instruction that caused the step.
    pub fn instruction(&self) -> Option<&Executed> {
        match &self.cause {
            Cause::Instruction(executed) => Some(executed),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_begun
    }

    /// Sets the number of the step and advances the counter.
    #[inline]
    pub(super) fn count(&mut self, number: &mut u64) {
        *number += u64::from(self.instruction().is_some());
        self.number = *number;
    }

    pub(super) fn clear(&mut self) {
        self.cause = Cause::Start;
        (self.branch, self.is_begun, self.strays) = (None, false, Lost::default());
        self.registers.clear();
        self.accesses.clear();
        self.exceptions.clear();
        self.text.clear();
        self.bytes.clear();
        self.known.clear();
    }

    #[inline]
    pub(super) fn add(&mut self, position: Position, line: &Line<'_>, time: Option<Time>, is_big_endian: bool) {
        match &line.record {
            Record::Instruction(instruction) => self.cause = Cause::Instruction(self.executed(instruction)),
            Record::Asynchronous(name) => self.cause = Cause::Asynchronous(self.store_text(name)),
            Record::Exception(exception) => self.exception(position.line, time, exception),
            Record::Event(event) if event.is_exception => {
                let (vector, name) = (event.number.map(i64::from), self.store_text(event.name));
                self.exceptions.push(Raised { line: position.line, time, vector, name });
                self.now = time;
            }
            Record::Register(register) => self.register(position.line, register),
            Record::Access(access) | Record::Transfer(access) => self.access(position.line, access, is_big_endian),
            Record::Picture(picture) => self.picture(position.line, picture),
            Record::Branch(branch) => self.branch = Some(*branch),
            _ => return,
        }
        let is_effect = matches!(line.record, Record::Register(_) | Record::Access(_) | Record::Picture(_));
        if !self.is_begun || matches!(line.record, Record::Instruction(_) | Record::Asynchronous(_)) {
            if self.is_begun && time != self.time {
                // The effects precede their cause.
                self.add_strays(self.registers.len() + self.accesses.len(), self.position.line);
            }
            (self.position, self.time, self.now, self.is_begun) = (position, time, time, true);
        } else if time != self.now && is_effect {
            self.add_strays(1, position.line);
        }
    }

    fn add_strays(&mut self, count: usize, line: u64) {
        if self.strays.count == 0 {
            self.strays.first = line;
        }
        self.strays.count += count as u64;
    }

    fn store_text(&mut self, text: &[u8]) -> Span {
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
            mode_text: self.store_text(instruction.mode),
            is_executed: instruction.is_executed,
            serial: instruction.number,
            text: self.store_text(instruction.text),
        }
    }

    fn exception(&mut self, line: u64, time: Option<Time>, exception: &Exception<'_>) {
        let name = self.store_text(exception.name);
        if exception.is_step {
            self.cause = Cause::Asynchronous(name.clone());
        }
        self.exceptions.push(Raised { line, time, vector: exception.vector, name });
        self.now = time;
    }

    fn register(&mut self, line: u64, register: &Register<'_>) {
        let written = Written {
            line,
            name: self.store_text(register.name),
            context: self.store_text(register.context),
            bits: register.bits,
            value: self.store_text(register.value.0),
            notes: if register.notes.is_empty() { Span::default() } else { self.store_text(register.notes) },
        };
        self.registers.push(written);
    }

    fn access(&mut self, line: u64, access: &Access<'_>, is_big_endian: bool) {
        let start = self.bytes.len() as u32;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.set(access, is_big_endian);
        self.bytes.extend_from_slice(&scratch.values);
        self.known.extend_from_slice(&scratch.known);
        self.scratch = scratch;
        let accessed = Accessed {
            line,
            direction: access.direction,
            purpose: access.purpose,
            address: access.address,
            physical: access.physical.map(|physical| physical.address),
            space: self.store_text(access.physical.map_or(b"", |physical| physical.space)),
            attributes: self.store_text(access.notes),
            size: access.size,
            is_aborted: access.is_aborted,
            is_exclusive: access.is_exclusive,
            is_failed: false,
            owner: access.owner,
            data: start..self.bytes.len() as u32,
        };
        self.accesses.push(accessed);
    }

    /// Adds an access for each run of adjacent bytes in a picture.
    fn picture(&mut self, line: u64, picture: &Picture<'_>) {
        let space = self.store_text(picture.physical.map_or(b"", |physical| physical.space));
        let attributes = self.store_text(picture.attributes);
        for (at, bytes) in picture.runs() {
            let (offset, start) = (at as u64, self.bytes.len() as u32);
            self.store_bytes(bytes);
            self.accesses.push(Accessed {
                line,
                direction: picture.kind.direction(),
                purpose: Purpose::Data,
                address: Some(picture.address.wrapping_add(offset)),
                physical: picture.physical.map(|physical| physical.address.wrapping_add(offset)),
                space: space.clone(),
                attributes: attributes.clone(),
                size: bytes.len() as u16,
                is_aborted: picture.kind.is_aborted(),
                is_exclusive: picture.kind == PictureKind::FailedStore,
                is_failed: picture.kind == PictureKind::FailedStore,
                owner: None,
                data: start..self.bytes.len() as u32,
            });
        }
    }

    fn store_bytes(&mut self, bytes: &[Byte]) {
        for byte in bytes {
            let (value, is_known) = match byte {
                Byte::Known(value) => (*value, true),
                _ => (0, false),
            };
            self.bytes.push(value);
            self.known.push(is_known);
        }
    }

    /// Moves effects from `other` for which `belongs(self, other, effect)` holds.
    pub(super) fn move_effects_from(&mut self, other: &mut Self, belongs: impl Fn(&Self, &Self, Effect<'_>) -> bool) {
        let registers = std::mem::take(&mut other.registers);
        let accesses = std::mem::take(&mut other.accesses);
        for mut register in registers {
            if !belongs(self, other, Effect::Register(other.text(&register.name))) {
                other.registers.push(register);
                continue;
            }
            for span in [&mut register.name, &mut register.context, &mut register.value, &mut register.notes] {
                *span = self.store_text(other.text(span));
            }
            self.registers.push(register);
        }
        for mut access in accesses {
            if !belongs(self, other, Effect::Access(&access)) {
                other.accesses.push(access);
                continue;
            }
            for span in [&mut access.space, &mut access.attributes] {
                *span = self.store_text(other.text(span));
            }
            let range = access.data.start as usize..access.data.end as usize;
            access.data = self.bytes.len() as u32..(self.bytes.len() + range.len()) as u32;
            self.bytes.extend_from_slice(&other.bytes[range.clone()]);
            self.known.extend_from_slice(&other.known[range]);
            self.accesses.push(access);
        }
    }
}

pub(super) enum Effect<'a> {
    /// A write to the register of this name.
    Register(&'a [u8]),
    /// A memory access.
    Access(&'a Accessed),
}
