//! A lifted step: an instruction, an asynchronous event, or lines without either, with their effects.

use std::ops::Range;

use unspool_model::Lost;

use super::super::opcode::is_load;
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
    pub registers: Vec<RegisterWrite>,
    /// Memory accesses, in order.
    pub accesses: Vec<MemoryAccess>,
    /// Exceptions that were taken.
    pub exceptions: Vec<TakenException>,
    /// The BR line.
    pub branch: Option<Branch>,
    /// Effects whose lines have another time than the instruction or exception that they belong to: how many, and the
    /// first line.
    pub differing_times: Lost,
    /// Accesses of a load that the log calls writes, and that are taken as reads: how many, and the first line.
    pub corrected_loads: Lost,
    /// Time that the effects are expected to have: that of the last instruction or exception, or of the first line.
    expected_time: Option<Time>,
    text: Vec<u8>,
    bytes: Vec<u8>,
    known: Vec<bool>,
    is_begun: bool,
    /// Whether the opcode decides if an access is a write.
    pub(super) corrects_loads: bool,
    scratch: Bytes,
}

/// Cause of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cause {
    /// No cause: lines before the first instruction of a core, or that no instruction caused.
    #[default]
    None,
    /// An instruction.
    Instruction(StepInstruction),
    /// An event that no instruction caused: an interrupt, a reset.
    Asynchronous(Span),
}

/// An instruction of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepInstruction {
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
    /// Whether its condition held; if not, the instruction was skipped.
    pub is_executed: bool,
    /// The number on the line, counted by the producer; [`Step::number`] is counted here.
    pub number: Option<u64>,
    /// The disassembly.
    pub text: Span,
}

/// A register write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterWrite {
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
pub struct MemoryAccess {
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
    /// Text after the data: memory type, shareability and cacheability, or other.
    pub notes: Span,
    /// Number of bytes.
    pub size: u16,
    /// Whether it was aborted.
    pub is_aborted: bool,
    /// Whether it is exclusive.
    pub is_exclusive: bool,
    /// Whether it is an exclusive store that failed and wrote nothing.
    pub is_failed: bool,
    /// Address and number of the instruction that caused it, if the line has them.
    pub(super) owner: Option<(u64, u64)>,
    data: Range<u32>,
}

/// An exception that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenException {
    /// The line number.
    pub line: u64,
    /// Time of the line; inherited from the previous line if it has none.
    pub time: Option<Time>,
    /// Offset of the vector, or number of the exception.
    pub vector: Option<i64>,
    /// Name of the exception.
    pub name: Span,
}

impl StepInstruction {
    /// Whether it only reads memory.
    fn is_load(&self) -> bool {
        self.is_executed && is_load(self.set, self.opcode)
    }
}

impl MemoryAccess {
    /// Whether it is an effect of its step. Fetches and coprocessor transfers are not: their lines become notes, which
    /// have a time of their own.
    pub(in super::super) fn is_effect(&self) -> bool {
        self.address.is_some() && self.purpose != Purpose::Fetch
    }
}

impl Step {
    /// Text of a span.
    pub fn text(&self, span: &Span) -> &[u8] {
        self.text.get(span.0.start as usize..span.0.end as usize).unwrap_or_default()
    }

    /// Value of a register write.
    pub fn value(&self, register: &RegisterWrite) -> Value<'_> {
        Value(self.text(&register.value))
    }

    /// Bytes of an access, lowest address first; `None`: unknown.
    pub fn data(&self, access: &MemoryAccess) -> impl ExactSizeIterator<Item = Option<u8>> {
        let range = access.data.start as usize..access.data.end as usize;
        let (bytes, known) = (self.bytes.get(range.clone()), self.known.get(range));
        let each = bytes.unwrap_or_default().iter().zip(known.unwrap_or_default());
        each.map(|(byte, is_known)| is_known.then_some(*byte))
    }

    /// The instruction that caused the step.
    pub fn instruction(&self) -> Option<&StepInstruction> {
        match &self.cause {
            Cause::Instruction(executed) => Some(executed),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_begun
    }

    /// Numbers the step. `last`: the number of the last instruction of the core, advanced if this is one.
    #[inline]
    pub(super) fn assign_number(&mut self, last: &mut u64) {
        *last += u64::from(self.instruction().is_some());
        self.number = *last;
    }

    /// Empties the step and keeps its buffers and core. Position, time and number are set again before it is emitted.
    pub(super) fn clear(&mut self) {
        self.cause = Cause::None;
        (self.branch, self.is_begun) = (None, false);
        (self.differing_times, self.corrected_loads) = (Lost::default(), Lost::default());
        self.registers.clear();
        self.accesses.clear();
        self.exceptions.clear();
        self.text.clear();
        self.bytes.clear();
        self.known.clear();
    }

    /// Adds a line: as the cause of the step, as an exception, or as an effect. The first line gives the step its
    /// position and time, and the line of the cause replaces them. Lines that no step contains are ignored.
    #[inline]
    pub(super) fn add(&mut self, position: Position, line: &Line<'_>, time: Option<Time>, is_big_endian: bool) {
        match &line.record {
            Record::Instruction(instruction) => self.cause = Cause::Instruction(self.executed(instruction)),
            Record::Asynchronous(name) => self.cause = Cause::Asynchronous(self.store_text(name)),
            Record::Exception(exception) => self.exception(position.line, time, exception),
            Record::Event(event) if event.is_exception => {
                let (vector, name) = (event.number.map(i64::from), self.store_text(event.name));
                self.exceptions.push(TakenException { line: position.line, time, vector, name });
                self.expected_time = time;
            }
            Record::Register(register) => self.register(position.line, register),
            Record::Access(access) | Record::Transfer(access) => self.access(position.line, access, is_big_endian),
            Record::Picture(picture) => self.picture(position.line, picture),
            Record::Branch(branch) => self.branch = Some(*branch),
            _ => return,
        }
        let is_effect = match &line.record {
            Record::Register(_) | Record::Picture(_) => true,
            Record::Access(_) => self.accesses.last().is_some_and(MemoryAccess::is_effect),
            _ => false,
        };
        if !self.is_begun || matches!(line.record, Record::Instruction(_) | Record::Asynchronous(_)) {
            if self.is_begun && time != self.time {
                // The effects so far precede their cause and have another time.
                let accesses = self.accesses.iter().filter(|access| access.is_effect()).count();
                self.add_differing_times(self.registers.len() + accesses, self.position.line);
            }
            (self.position, self.time, self.expected_time, self.is_begun) = (position, time, time, true);
        } else if time != self.expected_time && is_effect {
            self.add_differing_times(1, position.line);
        }
    }

    fn add_differing_times(&mut self, count: usize, line: u64) {
        if self.differing_times.count == 0 && count > 0 {
            self.differing_times.first = line;
        }
        self.differing_times.count += count as u64;
    }

    fn store_text(&mut self, text: &[u8]) -> Span {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(text);
        Span(start..self.text.len() as u32)
    }

    fn executed(&mut self, instruction: &Instruction<'_>) -> StepInstruction {
        StepInstruction {
            address: instruction.address,
            physical: instruction.physical.map(|physical| physical.address),
            opcode: instruction.opcode,
            length: instruction.length,
            set: instruction.set,
            mode: Mode::of(instruction.mode),
            mode_text: self.store_text(instruction.mode),
            is_executed: instruction.is_executed,
            number: instruction.number,
            text: self.store_text(instruction.text),
        }
    }

    fn exception(&mut self, line: u64, time: Option<Time>, exception: &Exception<'_>) {
        let name = self.store_text(exception.name);
        if exception.is_step {
            self.cause = Cause::Asynchronous(name.clone());
        }
        self.exceptions.push(TakenException { line, time, vector: exception.vector, name });
        self.expected_time = time;
    }

    fn register(&mut self, line: u64, register: &Register<'_>) {
        let written = RegisterWrite {
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
        let is_load = |step: &Self| step.instruction().is_some_and(StepInstruction::is_load);
        let mut direction = access.direction;
        // After an exception, accesses are those of its entry.
        if self.corrects_loads && access.is_judged_by_opcode() && self.exceptions.is_empty() && is_load(self) {
            direction = Direction::Read;
            self.corrected_loads.add(line);
        }
        let accessed = MemoryAccess {
            line,
            direction,
            purpose: access.purpose,
            address: access.address,
            physical: access.physical.map(|physical| physical.address),
            space: self.store_text(access.physical.map_or(b"", |physical| physical.space)),
            notes: self.store_text(access.notes),
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
        let notes = self.store_text(picture.attributes);
        for (at, bytes) in picture.runs() {
            let (offset, start) = (at as u64, self.bytes.len() as u32);
            self.store_bytes(bytes);
            self.accesses.push(MemoryAccess {
                line,
                direction: picture.kind.direction(),
                purpose: Purpose::Data,
                address: Some(picture.address.wrapping_add(offset)),
                physical: picture.physical.map(|physical| physical.address.wrapping_add(offset)),
                space: space.clone(),
                notes: notes.clone(),
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
            for span in [&mut access.space, &mut access.notes] {
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
    Access(&'a MemoryAccess),
}
