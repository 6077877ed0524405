//! Steps of Arm and RISC-V as an STF file.
//!
//! steps ─▶ **groups**: records where the format has them, comments for the rest ─▶ records
//!
//! Records contain opcodes, targets, forced addresses, general registers, accesses with known data, system calls of
//! RISC-V and Exception levels. Exceptions, times and other facts without a record are in comments, the annotations
//! (`annotation`), which the header announces: other tools skip them, and our reader restores the same steps. A group ends
//! with its opcode, and so does the file: steps after the last instruction precede its opcode, after the annotation
//! `then`.
//!
//! Nothing is invented. An access is followed by its content, by the specification and for the reference reader, so an
//! access of an instruction whose data is not known is lost, and counted. The specification has a number for Arm, but
//! none for its exceptions, so these have no event.
//! Specification: STF 1.3, "Specification of Records".

pub(super) mod annotation;
mod annotation_writer;
pub(super) mod sticky;

use unspool_model::{
    Access, Branch, Coverage, Direction, Event, Exception, Facet, Instruction, Isa, Loss, Losses, RegisterWrite,
    SinkError, Step, StepSink, TimeUnit,
};

use self::annotation::{ANNOUNCEMENT, Part};
use self::annotation_writer::AnnotationWriter;
use super::builder::{Features, RecordSink, SIGNATURE, StfVersion, our_trace_info};
use super::isa::{ARM, RISCV};
use super::record::{self, Record, Register, descriptor};

/// Options for lowering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LowerOptions {
    /// Version of the format.
    pub version: StfVersion,
}

/// Possible losses: accesses without data. Annotations contain everything else that records do not.
pub const LOSSES: &[Loss] = &[Loss::Accesses];

/// Coverage of a file, records and annotations together.
pub fn coverage() -> Coverage {
    Coverage::of(&Facet::ALL)
}

/// Coverage of the file for a source with this coverage. Without data, all accesses are lost.
pub fn carried(source: Coverage) -> Coverage {
    if source.has(Facet::Data) { source } else { source.without(Facet::Accesses) }
}

/// Number of bytes that are written at once.
const WRITE_SIZE: usize = 64 << 10;

/// Maximum size of a group: readers have to hold one.
const MAX_GROUP: usize = 32 << 20;

/// Maximum number of consecutive relative times. Absolute ones allow to start reading in the middle.
const RELATIVE_TIMES: u8 = 200;

/// The RISC-V system call, and the exception that it raises in user mode.
const ECALL: u32 = 0x73;
const USER_CALL: u64 = 8;

/// Writes steps of one core as records.
///
/// ```
/// use unspool_stf::lower::{LowerOptions, Lowerer, coverage};
/// use unspool_model::{Event, Instruction, Step, StepSink, TimeUnit};
///
/// # fn main() -> Result<(), unspool_model::SinkError> {
/// let mut lowerer = Lowerer::new(Vec::new(), coverage(), TimeUnit::Cycles, &LowerOptions::default())?;
/// let mut nop = Step::default();
/// nop.time = Some(7);
/// let opcode = Some(0xd503_201f);
/// nop.event = Event::Instruction(Instruction { address: 0x8000, opcode, length: 4, ..Instruction::default() });
/// lowerer.push(&nop)?;
/// lowerer.finish()?;
/// assert!(lowerer.into_sink().ends_with(&[240, 0x1f, 0x20, 0x03, 0xd5]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lowerer<S> {
    sink: S,
    version: StfVersion,
    coverage: Coverage,
    unit: TimeUnit,
    /// Records that were not written yet. The group of the held instruction is the last, and starts at `group`.
    out: Vec<u8>,
    group: usize,
    held: Option<Held>,
    /// Features that records use, and their offset in the header while it can be changed.
    features: Features,
    features_at: Option<usize>,
    /// Annotations since then, which precede the next instruction.
    pending: Vec<u8>,
    annotations: AnnotationWriter,
    core: Option<u32>,
    /// Next address according to the records.
    next: Option<u64>,
    isa: Isa,
    encoding: u16,
    clock: Clock,
    mode: Mode,
    losses: Losses,
}

/// An instruction whose group is incomplete.
#[derive(Debug, Clone, Copy)]
struct Held {
    opcode: u32,
    length: u8,
    /// An event after it was written.
    has_event: bool,
}

impl<S: RecordSink> Lowerer<S> {
    /// A lowerer of the steps of a source with this coverage and unit of time. Nothing is written before the first
    /// instruction.
    pub fn new(sink: S, coverage: Coverage, unit: TimeUnit, options: &LowerOptions) -> Result<Self, SinkError> {
        if !coverage.has(Facet::Instructions) {
            let reason = "STF needs instructions, and the source has none; choose another format";
            return Err(SinkError::Refused { position: None, reason: reason.into() });
        }
        Ok(Self {
            sink,
            version: options.version,
            coverage: carried(coverage),
            unit,
            out: Vec::new(),
            group: 0,
            held: None,
            features: Features::NONE,
            features_at: None,
            pending: Vec::new(),
            annotations: AnnotationWriter::default(),
            core: None,
            next: None,
            isa: Isa::A64,
            encoding: 0,
            clock: Clock::default(),
            mode: Mode::default(),
            losses: Losses::default(),
        })
    }

    /// The sink of the records.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Completes the group of the previous instruction and starts that of this one.
    #[inline]
    fn instruction(&mut self, step: &Step, instruction: &Instruction, opcode: u32) -> Result<(), SinkError> {
        match self.held {
            Some(held) => self.close(held, self.mode.changed())?,
            None => self.write_header(instruction),
        }
        let mut part = Part::Same;
        if !self.pending.is_empty() {
            self.out.append(&mut self.pending);
            part = Part::Now;
        }
        if instruction.isa != self.isa {
            self.change_isa(instruction.isa, &mut part);
        }
        self.clock.write(step.time, &mut self.annotations, &mut self.out, &mut part);
        if self.next != Some(instruction.address) {
            Record::ForcePc(instruction.address).encode(&mut self.out);
        }
        self.outcome(instruction, opcode, &mut part);
        step.registers().for_each(|write| self.register(&write, &mut part));
        step.accesses().for_each(|access| self.access(step.position, &access, &mut part));
        self.held = Some(Held { opcode, length: instruction.length, has_event: false });
        Ok(())
    }

    fn write_header(&mut self, first: &Instruction) {
        let mut features = if self.is_wide() { Features::EVENT64 } else { Features::NONE };
        if first.isa == Isa::Rv64 {
            features = features | Features::RV64;
        }
        let announcement = format!("{ANNOUNCEMENT}{}; time {}", self.coverage, unit_text(self.unit));
        let records = [
            Record::Identifier(*b"STF"),
            Record::Version { major: 1, minor: self.version.minor() },
            Record::Comment(announcement.as_bytes()),
            Record::Comment(SIGNATURE.as_bytes()),
            Record::Isa(if is_riscv(first.isa) { RISCV } else { ARM }),
            Record::InstIem(encoding_mode(first.isa)),
            Record::TraceInfo(our_trace_info()),
            Record::TraceInfoFeature(features.0),
            Record::ForcePc(first.address),
            Record::EndHeader,
        ];
        for record in &records {
            record.encode(&mut self.out);
            if let Record::TraceInfoFeature(_) = record {
                self.features_at = self.out.len().checked_sub(size_of::<u64>());
            }
        }
        self.group = self.out.len();
        self.encoding = encoding_mode(first.isa);
        self.next = Some(first.address);
        self.mode.start();
    }

    /// Completes the group of an instruction.
    #[inline]
    fn close(&mut self, held: Held, changed: Option<u8>) -> Result<(), SinkError> {
        if self.mode.first.is_some() || changed.is_some() {
            let levels = [self.mode.first.take(), changed];
            levels.into_iter().flatten().for_each(|level| self.put_mode(level));
        }
        match held.length {
            2 => put_opcode16(&mut self.out, held.opcode),
            _ => put_opcode32(&mut self.out, held.opcode),
        }
        if self.out.len() >= WRITE_SIZE {
            self.flush()?;
        }
        self.group = self.out.len();
        Ok(())
    }

    /// Writes the complete groups. The header declares the features that records up to there use.
    fn flush(&mut self) -> Result<(), SinkError> {
        if let Some(at) = self.features_at.take()
            && let Some(claimed) = self.out.get_mut(at..).and_then(|rest| rest.first_chunk_mut())
        {
            *claimed = (u64::from_le_bytes(*claimed) | self.features.0).to_le_bytes();
        }
        self.sink.write_records(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn put_mode(&mut self, level: u8) {
        let is_wide = self.is_wide();
        let raw = 1 << if is_wide { 62 } else { 30 };
        let data = u64::from(level).to_le_bytes();
        Record::Event(record::Event { raw, is_wide, data: &data }).encode(&mut self.out);
        self.features = self.features | Features::EVENT;
        self.mode.written = Some(level);
    }

    fn is_wide(&self) -> bool {
        self.version == StfVersion::V1_6
    }

    fn change_isa(&mut self, isa: Isa, part: &mut Part) {
        let encoding = encoding_mode(isa);
        if std::mem::replace(&mut self.encoding, encoding) != encoding {
            Record::InstIem(encoding).encode(&mut self.out);
        }
        self.annotations.isa(&mut self.out, part, isa);
        self.isa = isa;
    }

    /// Writes the target of the instruction, and other outcomes that the opcode does not imply.
    #[inline]
    fn outcome(&mut self, instruction: &Instruction, opcode: u32, part: &mut Part) {
        let &Instruction { address, isa, branch, .. } = instruction;
        let mut next = address.wrapping_add(u64::from(instruction.length));
        let mut target_record = None;
        if let Some(Branch { taken: true, target: Some(target) }) = branch {
            (next, target_record) = (target, Some(target));
        } else if let Some(decoded) = annotation::decode_branch(isa, address, opcode) {
            // For an unconditional branch, the absence of a target is annotated.
            if branch != annotation::default_branch(isa, address, opcode) || !decoded.conditional {
                self.annotations.branch(&mut self.out, part, branch);
            }
        } else if branch.is_some() {
            self.annotations.branch(&mut self.out, part, branch);
        }
        if instruction.is_executed != annotation::default_condition(self.coverage, branch) {
            self.annotations.executed(&mut self.out, part, instruction.is_executed);
        }
        if let Some(index) = instruction.za_index {
            self.annotations.za(&mut self.out, part, index);
        }
        if let Some(target) = target_record {
            put_word(&mut self.out, descriptor::INST_PC_TARGET, target.to_le_bytes());
        }
        self.next = Some(next);
    }

    fn register(&mut self, write: &RegisterWrite<'_>, part: &mut Part) {
        match register_record(self.isa, write) {
            Some((kind, number, value)) => {
                put_register(&mut self.out, kind, number, value);
                self.features = self.features | Features::OPERAND_VALUE;
            }
            None => self.annotations.register(&mut self.out, part, write),
        }
    }

    fn access(&mut self, position: u64, access: &Access<'_>, part: &mut Part) {
        let Some((size, kind)) = access_record(access) else { return self.losses.add(Loss::Accesses, position) };
        put_access(&mut self.out, access.address, size, kind);
        for bytes in access.bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(byte, known)| *byte = known.0);
            put_word(&mut self.out, descriptor::INST_MEM_CONTENT, word);
        }
        if access.is_tagged {
            self.annotations.tagged(&mut self.out, part);
        }
    }

    /// Writes an exception or a return directly after the held instruction.
    fn after_held(&mut self, step: &Step, held: Held) {
        let mut part = if held.has_event { Part::Same } else { Part::Then };
        self.held = Some(Held { has_event: true, ..held });
        self.clock.write(step.time, &mut self.annotations, &mut self.out, &mut part);
        match step.event {
            Event::Exception(exception @ Exception { call: Some(call), .. }) if is_ecall(self.isa, held.opcode) => {
                self.annotations.exception(&mut self.out, &mut part, &exception);
                self.system_call(call, exception.target);
            }
            _ => self.annotations.step(&mut self.out, &mut part, step),
        }
        self.annotations.effects(&mut self.out, step);
    }

    /// Writes the event of a RISC-V system call, the only exception whose number is known.
    fn system_call(&mut self, number: u16, target: Option<u64>) {
        let (is_wide, data) = (self.is_wide(), u64::from(number).to_le_bytes());
        Record::Event(record::Event { raw: USER_CALL, is_wide, data: &data }).encode(&mut self.out);
        self.features = self.features | Features::EVENT;
        if let Some(target) = target {
            Record::EventPcTarget(target).encode(&mut self.out);
            self.next = Some(target);
        }
    }

    /// Holds any other step until the next instruction.
    fn between(&mut self, step: &Step) {
        let mut part = Part::Same;
        self.clock.write(step.time, &mut self.annotations, &mut self.pending, &mut part);
        self.annotations.step(&mut self.pending, &mut part, step);
        self.annotations.effects(&mut self.pending, step);
        match &step.event {
            Event::Gap(_) => self.next = None,
            Event::Context(context) => self.mode.now = context.level.filter(|level| *level <= 3).or(self.mode.now),
            _ => {}
        }
    }

    fn check_core(&mut self, step: &Step) -> Result<(), SinkError> {
        let core = *self.core.get_or_insert(step.core);
        if core == step.core {
            return Ok(());
        }
        let other = step.core;
        refused(
            step,
            format!("an STF file has one core, but core {core} is followed by core {other}; choose one with --core"),
        )
    }
}

impl<S: RecordSink> StepSink for Lowerer<S> {
    #[inline]
    fn push(&mut self, step: &Step) -> Result<(), SinkError> {
        if self.core != Some(step.core) {
            self.check_core(step)?;
        }
        match (&step.event, self.held) {
            (Event::Instruction(instruction), Some(_)) if is_riscv(instruction.isa) != is_riscv(self.isa) => {
                return refused(step, "an STF file has instructions of Arm or of RISC-V, and not of both");
            }
            (Event::Instruction(instruction), _) => match whole_opcode(instruction) {
                Some(opcode) => self.instruction(step, instruction, opcode)?,
                None => self.between(step),
            },
            (Event::Exception(_) | Event::ExceptionReturn { .. }, Some(held)) if self.pending.is_empty() => {
                self.after_held(step, held);
            }
            _ => self.between(step),
        }
        if self.pending.len().max(self.out.len() - self.group) > MAX_GROUP {
            return refused(
                step,
                "too many annotations without an instruction for readers; convert a part of the trace",
            );
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        let Some(held) = self.held.take() else {
            let reason = "an STF file needs an instruction whose opcode is known, and there is none";
            return Err(SinkError::Refused { position: None, reason: reason.into() });
        };
        if !self.pending.is_empty() {
            if !held.has_event {
                self.annotations.part(&mut self.out, Part::Then);
            }
            self.out.append(&mut self.pending);
        }
        self.close(held, None)?;
        self.flush()
    }

    fn losses(&self) -> &Losses {
        &self.losses
    }
}

fn refused(step: &Step, reason: impl Into<String>) -> Result<(), SinkError> {
    Err(SinkError::Refused { position: Some(step.position), reason: reason.into() })
}

/// Time of the last step.
#[derive(Debug, Default)]
struct Clock {
    time: Option<u64>,
    relative: u8,
}

impl Clock {
    /// Writes the time of a step if it changed.
    #[inline]
    fn write(&mut self, time: Option<u64>, writer: &mut AnnotationWriter, out: &mut Vec<u8>, part: &mut Part) {
        if time == self.time {
            return;
        }
        let delta = time.zip(self.time).and_then(|(time, before)| time.checked_sub(before));
        let delta = delta.filter(|_| self.relative < RELATIVE_TIMES);
        self.relative = if delta.is_some() { self.relative + 1 } else { 0 };
        self.time = time;
        writer.time(out, part, time, delta);
    }
}

/// Exception level, which records contain as a mode.
#[derive(Debug, Default)]
struct Mode {
    /// Level of the next instruction, if known.
    now: Option<u8>,
    /// Level of the first instruction, until it is written.
    first: Option<u8>,
    written: Option<u8>,
}

impl Mode {
    fn start(&mut self) {
        (self.first, self.written) = (self.now, self.now);
    }

    #[inline]
    fn changed(&self) -> Option<u8> {
        self.now.filter(|now| Some(*now) != self.written)
    }
}

fn unit_text(unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Unknown => "ticks".into(),
        TimeUnit::Cycles => "cycles".into(),
        TimeUnit::Seconds(power) => format!("10^{power} s"),
    }
}

/// Encoding mode. The specification leaves those of Arm open: the numbers are those of the width, as for RISC-V.
fn encoding_mode(isa: Isa) -> u16 {
    if matches!(isa, Isa::A64 | Isa::Rv64) { 2 } else { 1 }
}

fn is_riscv(isa: Isa) -> bool {
    matches!(isa, Isa::Rv32 | Isa::Rv64)
}

fn is_ecall(isa: Isa, opcode: u32) -> bool {
    is_riscv(isa) && opcode == ECALL
}

/// The opcode, if a record can contain it.
#[inline]
fn whole_opcode(instruction: &Instruction) -> Option<u32> {
    let opcode = instruction.opcode?;
    let fits = instruction.length == 4 || instruction.length == 2 && opcode <= 0xffff;
    fits.then_some(opcode)
}

/// Type, number and value of a register, if a record can contain the whole write: a general register, or a
/// floating-point register of RISC-V. The architectures number those like the format.
#[inline]
fn register_record(isa: Isa, write: &RegisterWrite<'_>) -> Option<(u8, u16, [u8; 8])> {
    let bytes: &[(u8, u8); 8] = write.bytes.try_into().ok()?;
    let (letter, number) = match write.name.as_bytes() {
        [letter, ones @ b'0'..=b'9'] => (letter, u16::from(ones - b'0')),
        [letter, tens @ b'1'..=b'3', ones @ b'0'..=b'9'] => {
            (letter, u16::from(tens - b'0') * 10 + u16::from(ones - b'0'))
        }
        _ => return None,
    };
    let kind = match (isa, letter) {
        (Isa::A64, b'x') if number <= 30 => Register::INTEGER,
        (Isa::Rv64, b'x') if number <= 31 => Register::INTEGER,
        (Isa::Rv64, b'f') if number <= 31 => Register::FLOAT,
        _ => return None,
    };
    let is_known = bytes.iter().all(|byte| byte.1 == 0xff);
    (is_known && write.low == 0).then(|| (kind, number, bytes.map(|byte| byte.0)))
}

/// Size and direction of an access, if records can contain it with all of its data.
#[inline]
fn access_record(access: &Access<'_>) -> Option<(u16, u8)> {
    let kind = match access.direction {
        Direction::Read => 1,
        Direction::Write => 2,
        Direction::Both | Direction::Neither => return None,
    };
    let size = u16::try_from(access.size).ok()?;
    let is_known = access.bytes.len() == usize::from(size) && access.bytes.iter().all(|byte| byte.1 == 0xff);
    (is_known && size > 0).then_some((size, kind))
}

/// Writes a destination register.
#[inline]
fn put_register(out: &mut Vec<u8>, kind: u8, number: u16, value: [u8; 8]) {
    let [low, high] = number.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = value;
    out.extend_from_slice(&[
        descriptor::INST_REG,
        low,
        high,
        Register::DESTINATION << 4 | kind,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
    ]);
}

#[inline]
fn put_access(out: &mut Vec<u8>, address: u64, size: u16, kind: u8) {
    let [low, high] = size.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = address.to_le_bytes();
    out.extend_from_slice(&[descriptor::INST_MEM_ACCESS, a, b, c, d, e, f, g, h, low, high, 0, 0, kind]);
}

#[inline]
fn put_word(out: &mut Vec<u8>, descriptor: u8, word: [u8; 8]) {
    let [a, b, c, d, e, f, g, h] = word;
    out.extend_from_slice(&[descriptor, a, b, c, d, e, f, g, h]);
}

#[inline]
fn put_opcode32(out: &mut Vec<u8>, opcode: u32) {
    let [a, b, c, d] = opcode.to_le_bytes();
    out.extend_from_slice(&[descriptor::INST_OPCODE32, a, b, c, d]);
}

#[inline]
fn put_opcode16(out: &mut Vec<u8>, opcode: u32) {
    let [a, b, ..] = opcode.to_le_bytes();
    out.extend_from_slice(&[descriptor::INST_OPCODE16, a, b]);
}
