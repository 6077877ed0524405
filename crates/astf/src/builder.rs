//! Records from instructions: a writer that knows the rules.
//!
//! what a PE does ─▶ **records**, header first, in the order and shape that the format asks for
//!
//! Accesses are split, paired and chained here, strings are cut, addresses lose their tags. What would make a wrong trace
//! is refused, by the same rules that [`check`](super::check) holds a file to, and leaves no record behind, so that the
//! caller can mend it and go on.
//! Specification: Arm Architectural Structured Trace Format, "Trace levels" and "Trace format".

mod error;
mod patterns;
mod sink;
mod step;

use std::io::{self, Write};
use std::slice;

use unspool_isa::{ControlFlow, Isa, decode};

pub use self::error::BuildError;
pub use self::sink::RecordSink;
pub use self::step::{Call, CallKind, Effect, Exception, Process, Redirection, State, Step};
use super::access::{Access, Extent};
use super::check::{Checker, Finding, Severity};
use super::layout::Bytes;
use super::record::{
    Context, ExtraEa, Header, Instruction, Level, MICROSECONDS, Storage, StringContinuation, StringStart, Timestamp,
    Trap, trap_type, xattr_mode,
};
use super::sanitize::Regime;
use super::write::{WriteOptions, Writer};

/// The largest exception class.
const MOST_CLASS: u8 = 0x3f;

/// Bytes that one access of a record can have.
const MOST_BYTES: u16 = 256;

/// How far the trace has come.
#[derive(Debug, Clone, Copy, Default)]
struct Course {
    time: Option<u64>,
    state: Option<State>,
    /// Where execution goes on, if that is known.
    next: Option<u64>,
    /// Execution goes on elsewhere, and only a context says where, or at which Exception level.
    left: bool,
    /// What leads to another Exception level.
    turn: Turn,
}

/// What leads to another Exception level than that of the last context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Turn {
    /// Nothing, or what may lead anywhere.
    #[default]
    None,
    /// An exception: not to a lower one, and not to EL0.
    Up,
    /// The return from one: not to a higher one.
    Down,
}

/// Writes a trace, instruction by instruction.
///
/// ```
/// use unspool_astf::builder::{Builder, Effect, State, Step};
/// use unspool_astf::record::{Header, Level, Storage};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let header = Header::new(Level::Basic, false, Storage::Raw);
/// let mut trace = Builder::new(Vec::new(), &header)?;
/// trace.context(&State::default())?;
/// trace.instruction(&Step::plain(0x8000, 0xd503_201f))?; // nop
/// trace.instruction(&Step { effect: Effect::Taken(0x8000), ..Step::plain(0x8004, 0x17ff_ffff) })?; // b 0x8000
/// // What cannot be is refused.
/// assert!(trace.instruction(&Step::plain(0x9000, 0xd503_201f)).is_err());
/// assert_eq!(trace.finish().len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Builder<S> {
    sink: S,
    level: Level,
    timestamps: bool,
    regime: Option<Regime>,
    course: Course,
    /// The records of one thing that happened.
    records: Vec<Bytes>,
    /// The accesses of one instruction, in pieces that records can hold.
    pieces: Vec<Access>,
    /// Holds the trace to all rules of the format.
    checker: Checker,
}

impl<W: Write> Builder<Writer<W>> {
    /// Begins a file: its header, and the records behind it stored as the header says. Of the header, only level,
    /// timestamps and storage are taken. End it with [`close`](Self::close).
    pub fn create(output: W, header: &Header, options: WriteOptions) -> io::Result<Self> {
        let (level, timestamps) = (header.level(), header.timestamps);
        let header = Header::new(level, timestamps, header.storage());
        Ok(Self::behind_header(Writer::new(output, &header, options)?, level, timestamps))
    }

    /// Ends the trace and the file, and gives the output back.
    pub fn close(self) -> io::Result<W> {
        self.finish().finish()
    }
}

impl<S: RecordSink> Builder<S> {
    /// Begins a trace: hands the header on. Of the header, only level, timestamps and storage are taken.
    pub fn new(mut sink: S, header: &Header) -> io::Result<Self> {
        let (level, timestamps) = (header.level(), header.timestamps);
        sink.write_records(&[Header::new(level, timestamps, header.storage()).to_bytes()])?;
        Ok(Self::behind_header(sink, level, timestamps))
    }

    /// Goes on behind a header that the sink has got already.
    pub fn behind_header(sink: S, level: Level, timestamps: bool) -> Self {
        let mut checker = Checker::new();
        // How the records are stored breaks no rule, nor does anything else in a header that is made here.
        checker.push(&Header::new(level, timestamps, Storage::Raw).to_bytes(), &mut |_| {});
        Self {
            sink,
            level,
            timestamps,
            regime: None,
            course: Course::default(),
            records: Vec::new(),
            pieces: Vec::new(),
            checker,
        }
    }

    /// From here on, addresses lose what is no address in this regime.
    pub fn regime(&mut self, regime: Option<Regime>) {
        self.regime = regime;
    }

    /// A string for the reader of the trace.
    pub fn string(&mut self, text: &[u8]) -> Result<(), BuildError> {
        let before = self.course;
        let size = u16::try_from(text.len()).map_err(|_| BuildError::StringTooLong(text.len()))?;
        self.needs_supported()?;
        let (first, rest) = text.split_at(text.len().min(28));
        self.records.push(StringStart { reserved8: 0, size, string: padded(first) }.to_bytes());
        self.records.extend(rest.chunks(31).map(|part| StringContinuation { string: padded(part) }.to_bytes()));
        self.write(before)
    }

    /// The time in microseconds, for what follows.
    pub fn timestamp(&mut self, value: u64) -> Result<(), BuildError> {
        let before = self.course;
        if !self.timestamps {
            return Err(BuildError::NoTimestamps);
        }
        if value == u64::MAX {
            return Err(BuildError::TimestampReserved);
        }
        if let Some(last) = self.course.time.filter(|&last| last >= value) {
            return Err(BuildError::TimestampOrder { value, last });
        }
        self.course.time = Some(value);
        self.records.push(Timestamp { unit: MICROSECONDS, value, ..Default::default() }.to_bytes());
        self.write(before)
    }

    /// The PE waited from one time to another. As many timestamps are written as there are different times.
    pub fn suspended(&mut self, from: u64, to: u64) -> Result<(), BuildError> {
        if to == u64::MAX {
            return Err(BuildError::TimestampReserved);
        }
        if from > to {
            return Err(BuildError::TimestampOrder { value: to, last: from });
        }
        let from = match self.course.time {
            Some(last) if last >= from => last.saturating_add(1),
            _ => from,
        };
        if from <= to {
            self.timestamp(from)?;
        }
        if self.course.time.is_none_or(|last| last < to) { self.timestamp(to) } else { Ok(()) }
    }

    /// The state of what follows.
    pub fn context(&mut self, state: &State) -> Result<(), BuildError> {
        let before = self.course;
        if self.timestamps && self.course.time.is_none() {
            return Err(BuildError::TimestampMissing);
        }
        for (field, value, most) in [
            ("Exception level", state.el, 3),
            ("vector length", state.evl, 15),
            ("mode of Tag Check Faults", state.tag_check_fault, 3),
        ] {
            fits(field, value, most)?;
        }
        if self.level == Level::Basic {
            self.basic_context(state)?;
        }
        self.check_turn(state)?;
        if state.unsupported || self.course.state.is_some_and(|state| state.unsupported) {
            self.course.next = None;
        }
        self.course.state = Some(*state);
        self.course.left = false;
        self.course.turn = Turn::None;
        if self.level == Level::Basic {
            // What happened elsewhere is not in the trace.
            self.course.next = None;
        }
        self.records.push(context(state).to_bytes());
        self.write(before)
    }

    fn check_turn(&self, state: &State) -> Result<(), BuildError> {
        let from = self.course.state.map_or(state.el, |from| from.el);
        match self.course.turn {
            Turn::Up if state.el == 0 || state.el < from => Err(BuildError::Down { from, to: state.el }),
            Turn::Down if state.el > from => Err(BuildError::Up { from, to: state.el }),
            _ => Ok(()),
        }
    }

    /// An exception was taken, or returned from.
    fn turn(&mut self, turn: Turn) {
        self.course.turn = turn;
        // EL0 takes no exception: a context has to tell who does.
        self.course.left = turn == Turn::Up && self.course.state.is_some_and(|state| state.el == 0);
    }

    fn basic_context(&self, state: &State) -> Result<(), BuildError> {
        if state.unsupported {
            return Err(BuildError::NotInBasic("an unsupported mode"));
        }
        match self.course.state.filter(|first| first.el != state.el) {
            Some(first) => Err(BuildError::OtherLevel { first: first.el, found: state.el }),
            None => Ok(()),
        }
    }

    /// Where execution goes on, if that is known.
    pub fn next(&self) -> Option<u64> {
        self.course.next
    }

    /// An instruction was executed, or was tried.
    pub fn instruction(&mut self, step: &Step<'_>) -> Result<(), BuildError> {
        self.needs_supported()?;
        if self.course.state.is_none() || self.course.left {
            return Err(BuildError::ContextMissing);
        }
        let pc = self.sanitized(step.pc);
        if let Some(expected) = self.course.next.filter(|&next| next != pc) {
            return Err(BuildError::Discontinuity { expected, found: pc });
        }
        let record = self.first_record(step, pc)?.to_bytes();
        if self.is_usual(step, &record) {
            self.course.next = Some(self.sanitized(pc.wrapping_add(4)));
            return Ok(self.sink.write_records(slice::from_ref(&record))?);
        }
        let before = self.course;
        if let Some(what) = wrong_effect(step, self.level, |address| self.sanitized(address)) {
            return Err(BuildError::Effect { opcode: step.opcode, pc, what });
        }
        self.basic_step(step)?;
        step.exception.map_or(Ok(()), |exception| fits("exception class", exception.class, MOST_CLASS))?;
        self.records.push(record);
        self.push_extra();
        let next = self.push_trap(step);
        match (step.exception, step.effect) {
            (Some(_), _) if self.level == Level::Basic => self.course.left = true,
            (Some(_), _) => self.turn(Turn::Up),
            (None, Effect::ExceptionReturn(_)) => self.turn(Turn::Down),
            _ => {}
        }
        self.course.next = if self.level == Level::Basic && self.course.left { None } else { Some(next) };
        self.write(before)
    }

    /// Nearly all instructions do what they always do, are told by one record, and break no rule.
    #[inline]
    fn is_usual(&mut self, step: &Step<'_>, record: &Bytes) -> bool {
        let is_single = self.pieces.len() <= 1 && !matches!(step.effect, Effect::ExceptionReturn(_));
        is_single && step.exception.is_none() && self.checker.push_usual(record)
    }

    fn basic_step(&self, step: &Step<'_>) -> Result<(), BuildError> {
        let is_call = step.exception.is_none_or(|exception| exception.call.is_some());
        match step.effect {
            _ if self.level == Level::BasicPlus => Ok(()),
            Effect::ExceptionReturn(_) => Err(BuildError::NotInBasic("the return from an exception")),
            _ if is_call => Ok(()),
            _ => Err(BuildError::NotInBasic("an exception other than a call")),
        }
    }

    /// The record of the instruction with its first access. If there are more, all of them are in `pieces`.
    #[inline]
    fn first_record(&mut self, step: &Step<'_>, pc: u64) -> Result<Instruction, BuildError> {
        let mut record = Instruction {
            trap: step.exception.is_some(),
            is_branch: matches!(step.effect, Effect::Taken(_) | Effect::NotTaken),
            iword: step.opcode,
            pc,
            ..Default::default()
        };
        if let Some(index) = step.sme_index {
            (record.xattr_mode, record.xattr) = (xattr_mode::SME, u64::from(index));
        }
        self.pieces.clear();
        match step.effect {
            Effect::Taken(target) => (record.ea_valid, record.ea) = (true, self.sanitized(target)),
            // Most have one, which needs no room of its own.
            Effect::Accesses([one @ Access { extent: Extent::Bytes(1..=MOST_BYTES), .. }]) => {
                set_access(&mut record, one)?;
                record.ea = self.sanitized(record.ea);
            }
            Effect::Accesses(accesses) => self.split(accesses)?,
            _ => {}
        }
        if let Some(first) = self.pieces.first() {
            set_access(&mut record, first)?;
        }
        record.extra_eas = self.pieces.len() > 1;
        Ok(record)
    }

    /// Puts the accesses into pieces that records can hold.
    #[inline]
    fn split(&mut self, accesses: &[Access]) -> Result<(), BuildError> {
        let mut writes_range = false;
        for access in accesses {
            let address = self.sanitized(access.address);
            match access.extent {
                Extent::Range(_) if access.read && access.write => {
                    return Err(BuildError::Access("to a range either reads or writes: make two of it"));
                }
                Extent::Range(_) if access.read && writes_range => {
                    return Err(BuildError::Access("to a range that reads comes before one that writes"));
                }
                Extent::Range(_) => {
                    writes_range |= access.write;
                    self.pieces.push(Access { address, ..*access });
                }
                Extent::Bytes(0) => return Err(BuildError::Access("has at least one byte")),
                Extent::Bytes(1..=MOST_BYTES) => self.pieces.push(Access { address, ..*access }),
                Extent::Bytes(bytes) => self.pieces.extend((0..bytes).step_by(MOST_BYTES.into()).map(|at| Access {
                    address: address.wrapping_add(at.into()),
                    extent: Extent::Bytes((bytes - at).min(MOST_BYTES)),
                    ..*access
                })),
            }
        }
        Ok(())
    }

    /// The pieces behind the first: two accesses a record, or one range.
    fn push_extra(&mut self) {
        let mut accesses = self.pieces.get(1..).unwrap_or_default();
        while let [first, rest @ ..] = accesses {
            let mut record = ExtraEa {
                mem0_addr: first.address,
                mem0_tagged: first.tagged,
                mem0_is_read: first.read,
                mem0_is_write: first.write,
                ..Default::default()
            };
            accesses = rest;
            match (first.extent, rest) {
                (Extent::Range(bytes), _) => (record.mem1_addr_range, record.mem1_addr) = (true, bytes),
                (Extent::Bytes(bytes), [second @ Access { extent: Extent::Bytes(others), .. }, rest @ ..]) => {
                    record = ExtraEa {
                        mem0_size: size(bytes),
                        mem1_valid: true,
                        mem1_addr: second.address,
                        mem1_tagged: second.tagged,
                        mem1_is_read: second.read,
                        mem1_is_write: second.write,
                        mem1_size: size(*others),
                        ..record
                    };
                    accesses = rest;
                }
                (Extent::Bytes(bytes), _) => record.mem0_size = size(bytes),
            }
            record.extra_eas = !accesses.is_empty();
            self.records.push(record.to_bytes());
        }
    }

    /// The trap that belongs to an instruction, if there is one; returns where execution goes on.
    fn push_trap(&mut self, step: &Step<'_>) -> u64 {
        let pc = self.sanitized(step.pc);
        if let Some(Exception { class, call, target }) = step.exception {
            let target_pc = self.sanitized(target);
            if self.level == Level::BasicPlus {
                let (syscall_type, syscall_index) = call.map_or((0, 0), |call| (call.kind as u8, call.index));
                let trap = Trap { ec: class, syscall_type, syscall_index, target_pc, ..Default::default() };
                self.records.push(trap.to_bytes());
            }
            return target_pc;
        }
        match step.effect {
            Effect::Taken(target) => self.sanitized(target),
            Effect::ExceptionReturn(target) => {
                let target_pc = self.sanitized(target);
                let trap = Trap { trap_type: trap_type::EXCEPTION_RETURN, target_pc, ..Default::default() };
                self.records.push(trap.to_bytes());
                target_pc
            }
            _ => self.sanitized(pc.wrapping_add(4)),
        }
    }

    /// Execution is redirected, and no instruction is the cause.
    pub fn redirected(&mut self, by: Redirection, target: u64) -> Result<(), BuildError> {
        let before = self.course;
        if self.level == Level::Basic {
            return Err(BuildError::NotInBasic("an exception or a reset"));
        }
        let (trap_type, ec, is_virtual) = match by {
            Redirection::Synchronous(class) | Redirection::Call { class, .. } => (trap_type::SYNCHRONOUS, class, false),
            Redirection::SError { class, is_virtual } => (trap_type::SERROR, class, is_virtual),
            Redirection::Irq { is_virtual } => (trap_type::IRQ, 0, is_virtual),
            Redirection::Fiq { is_virtual } => (trap_type::FIQ, 0, is_virtual),
            Redirection::ExceptionReturn => (trap_type::EXCEPTION_RETURN, 0, false),
            Redirection::Reset => (trap_type::RESET, 0, false),
        };
        fits("exception class", ec, MOST_CLASS)?;
        let target_pc = self.sanitized(target);
        self.course.next = Some(target_pc);
        self.turn(match by {
            Redirection::Reset | Redirection::ExceptionReturn => Turn::None,
            _ => Turn::Up,
        });
        let mut trap = Trap { trap_type, ec, is_virtual, target_pc, ..Default::default() };
        if let Redirection::Call { call, .. } = by {
            (trap.syscall_type, trap.syscall_index) = (call.kind as u8, call.index);
        }
        self.records.push(trap.to_bytes());
        self.write(before)
    }

    /// Ends the trace, and gives back what took it.
    pub fn finish(self) -> S {
        self.sink
    }

    fn needs_supported(&self) -> Result<(), BuildError> {
        let is_unsupported = self.course.state.is_some_and(|state| state.unsupported);
        if is_unsupported { Err(BuildError::Unsupported) } else { Ok(()) }
    }

    fn sanitized(&self, address: u64) -> u64 {
        self.regime.map_or(address, |regime| regime.sanitize(address))
    }

    /// Hands the records on. If they break a rule, everything is as it was `before`.
    fn write(&mut self, before: Course) -> Result<(), BuildError> {
        let mark = self.checker.mark();
        let mut broken = None;
        let mut keep = |finding: Finding| {
            if finding.rule.severity == Severity::Error {
                broken.get_or_insert(finding);
            }
        };
        self.records.iter().for_each(|record| self.checker.push(record, &mut keep));
        if let Some(Finding { rule, detail, .. }) = broken {
            self.records.clear();
            self.course = before;
            self.checker.go_back(mark);
            return Err(BuildError::Rule { rule, detail });
        }
        let written = self.sink.write_records(&self.records);
        self.records.clear();
        Ok(written?)
    }
}

/// A field has only so many bits.
fn fits(field: &'static str, value: u8, most: u8) -> Result<(), BuildError> {
    if value > most { Err(BuildError::TooLarge { field, value: value.into() }) } else { Ok(()) }
}

/// What is wrong with the effect that an instruction is said to have had.
fn wrong_effect(step: &Step<'_>, level: Level, sanitized: impl Fn(u64) -> u64) -> Option<&'static str> {
    let decoded = decode(Isa::A64, sanitized(step.pc), step.opcode);
    let is_eret = decoded.flow == ControlFlow::ExceptionReturn;
    let is_branch = decoded.flow.is_branch() && !is_eret;
    let direct = decoded.target_address().map(&sanitized);
    match step.effect {
        Effect::Taken(_) if step.exception.is_some() => Some("raised an exception, so it was not taken"),
        Effect::Taken(target) if direct.is_some_and(|direct| direct != sanitized(target)) => Some("goes elsewhere"),
        Effect::Taken(_) => None,
        Effect::NotTaken if is_branch && !decoded.conditional && step.exception.is_none() => Some("is always taken"),
        Effect::NotTaken => None,
        Effect::ExceptionReturn(_) if !is_eret => Some("does not return from an exception"),
        Effect::ExceptionReturn(_) if step.exception.is_some() => Some("raised an exception, so it did not return"),
        Effect::ExceptionReturn(_) => None,
        _ if is_branch => Some("is a branch: tell whether it was taken"),
        _ if is_eret && step.exception.is_none() && level == Level::BasicPlus => {
            Some("returns from an exception: tell where to")
        }
        _ => None,
    }
}

/// Puts the first access into the record of its instruction.
#[inline]
fn set_access(record: &mut Instruction, access: &Access) -> Result<(), BuildError> {
    (record.ea_valid, record.ea) = (true, access.address);
    (record.is_read, record.is_write, record.ea_tagged) = (access.read, access.write, access.tagged);
    match access.extent {
        Extent::Bytes(bytes) => record.ea_size = size(bytes),
        Extent::Range(_) if record.xattr_mode != xattr_mode::NONE => {
            return Err(BuildError::Access("to a range leaves no room for an index into ZA"));
        }
        Extent::Range(bytes) => (record.xattr_mode, record.xattr) = (xattr_mode::RANGE, bytes),
    }
    Ok(())
}

/// The size field of an access of 1 to 256 bytes.
fn size(bytes: u16) -> u8 {
    (bytes - 1) as u8
}

fn context(state: &State) -> Context {
    let tid = state.process.and_then(|process| process.tid);
    Context {
        pstate_sm: state.streaming,
        pstate_dit: state.dit,
        pstate_ssbs: state.ssbs,
        evl: state.evl,
        unsupported: state.unsupported,
        mte_tcf: state.tag_check_fault,
        el: state.el,
        secure: state.secure,
        handler: state.handler,
        pid_valid: state.process.is_some(),
        tid_valid: tid.is_some(),
        pid: state.process.map_or(0, |process| process.pid),
        tid: tid.unwrap_or(0),
        ..Default::default()
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded[..bytes.len()].copy_from_slice(bytes);
    padded
}
