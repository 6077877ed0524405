//! Builder of traces: a writer that knows the rules.
//!
//! what a PE does ─▶ **records**, header first, in the order and form of the format
//!
//! Splits, pairs and chains accesses, cuts strings, and removes tags from addresses. Refuses what would make a wrong
//! trace, by the same rules that [`check`](super::check) applies to a file. A refusal leaves no record, so that the
//! caller can correct it and continue. Specification: Arm Architectural Structured Trace Format, issue 0.11.

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

/// Maximum exception class.
const MAX_CLASS: u8 = 0x3f;

/// Maximum bytes of one access in a record.
const MAX_BYTES: u16 = 256;

/// Position in the trace.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    time: Option<u64>,
    state: Option<State>,
    /// Address where execution continues, if it is known.
    next: Option<u64>,
    /// Execution continues elsewhere or at another Exception level: a context has to follow.
    needs_context: bool,
    level_change: LevelChange,
}

/// Direction in which the Exception level may differ from that of the last context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LevelChange {
    /// Not at all, or in any way.
    #[default]
    None,
    /// By an exception: not to a lower one, and not to EL0.
    Up,
    /// By the return from one: not to a higher one.
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
/// // A wrong step is refused.
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
    progress: Progress,
    /// Records of the current call.
    records: Vec<Bytes>,
    /// Accesses of one instruction, in parts that fit into records.
    parts: Vec<Access>,
    /// Checks the trace against all rules of the format.
    checker: Checker,
}

impl<W: Write> Builder<Writer<W>> {
    /// Begins a file: its header, and the records after it as the header specifies. Of the header, only level,
    /// timestamps and storage are used. End it with [`close`](Self::close).
    pub fn create(output: W, header: &Header, options: WriteOptions) -> io::Result<Self> {
        let (level, timestamps) = (header.level(), header.timestamps);
        let header = Header::new(level, timestamps, header.storage());
        Ok(Self::after_header(Writer::new(output, &header, options)?, level, timestamps))
    }

    /// Ends the trace and the file, and returns the output.
    pub fn close(self) -> io::Result<W> {
        self.finish().finish()
    }
}

impl<S: RecordSink> Builder<S> {
    /// Begins a trace with its header. Of the header, only level, timestamps and storage are used.
    pub fn new(mut sink: S, header: &Header) -> io::Result<Self> {
        let (level, timestamps) = (header.level(), header.timestamps);
        sink.write_records(&[Header::new(level, timestamps, header.storage()).to_bytes()])?;
        Ok(Self::after_header(sink, level, timestamps))
    }

    /// Continues after a header that the sink already has.
    pub fn after_header(sink: S, level: Level, timestamps: bool) -> Self {
        let mut checker = Checker::new();
        // The storage breaks no rule, nor does anything else in a header that is made here.
        checker.push(&Header::new(level, timestamps, Storage::Raw).to_bytes(), &mut |_| {});
        Self {
            sink,
            level,
            timestamps,
            regime: None,
            progress: Progress::default(),
            records: Vec::new(),
            parts: Vec::new(),
            checker,
        }
    }

    /// From here on, addresses lose the bits that are no address in this regime.
    pub fn regime(&mut self, regime: Option<Regime>) {
        self.regime = regime;
    }

    /// Adds a string for the reader of the trace.
    pub fn string(&mut self, text: &[u8]) -> Result<(), BuildError> {
        let before = self.progress;
        let size = u16::try_from(text.len()).map_err(|_| BuildError::StringTooLong(text.len()))?;
        self.needs_supported()?;
        let (first, rest) = text.split_at(text.len().min(28));
        self.records.push(StringStart { reserved8: 0, size, string: padded(first) }.to_bytes());
        self.records.extend(rest.chunks(31).map(|part| StringContinuation { string: padded(part) }.to_bytes()));
        self.write(before)
    }

    /// Adds the time in microseconds, for what follows.
    pub fn timestamp(&mut self, value: u64) -> Result<(), BuildError> {
        let before = self.progress;
        if !self.timestamps {
            return Err(BuildError::NoTimestamps);
        }
        if value == u64::MAX {
            return Err(BuildError::TimestampReserved);
        }
        if let Some(last) = self.progress.time.filter(|&last| last >= value) {
            return Err(BuildError::TimestampOrder { value, last });
        }
        self.progress.time = Some(value);
        self.records.push(Timestamp { unit: MICROSECONDS, value, ..Default::default() }.to_bytes());
        self.write(before)
    }

    /// The PE waited from one time to another. Writes one timestamp per distinct time.
    pub fn suspended(&mut self, from: u64, to: u64) -> Result<(), BuildError> {
        if to == u64::MAX {
            return Err(BuildError::TimestampReserved);
        }
        if from > to {
            return Err(BuildError::TimestampOrder { value: to, last: from });
        }
        let from = match self.progress.time {
            Some(last) if last >= from => last.saturating_add(1),
            _ => from,
        };
        if from <= to {
            self.timestamp(from)?;
        }
        if self.progress.time.is_none_or(|last| last < to) { self.timestamp(to) } else { Ok(()) }
    }

    /// Adds the state for what follows.
    pub fn context(&mut self, state: &State) -> Result<(), BuildError> {
        let before = self.progress;
        if self.timestamps && self.progress.time.is_none() {
            return Err(BuildError::TimestampMissing);
        }
        for (field, value, max) in [
            ("Exception level", state.el, 3),
            ("vector length", state.evl, 15),
            ("mode of Tag Check Faults", state.tag_check_fault, 3),
        ] {
            fits(field, value, max)?;
        }
        if self.level == Level::Basic {
            self.basic_context(state)?;
        }
        self.check_level_change(state)?;
        if state.unsupported || self.progress.state.is_some_and(|state| state.unsupported) {
            self.progress.next = None;
        }
        self.progress.state = Some(*state);
        self.progress.needs_context = false;
        self.progress.level_change = LevelChange::None;
        if self.level == Level::Basic {
            // What happened in between is not in the trace.
            self.progress.next = None;
        }
        self.records.push(context(state).to_bytes());
        self.write(before)
    }

    fn check_level_change(&self, state: &State) -> Result<(), BuildError> {
        let from = self.progress.state.map_or(state.el, |from| from.el);
        match self.progress.level_change {
            LevelChange::Up if state.el == 0 || state.el < from => Err(BuildError::Down { from, to: state.el }),
            LevelChange::Down if state.el > from => Err(BuildError::Up { from, to: state.el }),
            _ => Ok(()),
        }
    }

    /// Records that an exception was taken, or returned from.
    fn change_level(&mut self, change: LevelChange) {
        self.progress.level_change = change;
        // EL0 takes no exception: a context has to state the level that does.
        self.progress.needs_context =
            change == LevelChange::Up && self.progress.state.is_some_and(|state| state.el == 0);
    }

    fn basic_context(&self, state: &State) -> Result<(), BuildError> {
        if state.unsupported {
            return Err(BuildError::NotInBasic("an unsupported mode"));
        }
        match self.progress.state.filter(|first| first.el != state.el) {
            Some(first) => Err(BuildError::OtherLevel { first: first.el, found: state.el }),
            None => Ok(()),
        }
    }

    /// Address where execution continues, if it is known.
    pub fn next(&self) -> Option<u64> {
        self.progress.next
    }

    /// Adds an instruction that was executed or attempted.
    pub fn instruction(&mut self, step: &Step<'_>) -> Result<(), BuildError> {
        self.needs_supported()?;
        if self.progress.state.is_none() || self.progress.needs_context {
            return Err(BuildError::ContextMissing);
        }
        let pc = self.sanitized(step.pc);
        if let Some(expected) = self.progress.next.filter(|&next| next != pc) {
            return Err(BuildError::Discontinuity { expected, found: pc });
        }
        let record = self.first_record(step, pc)?.to_bytes();
        if self.is_usual(step, &record) {
            self.progress.next = Some(self.sanitized(pc.wrapping_add(4)));
            return Ok(self.sink.write_records(slice::from_ref(&record))?);
        }
        let before = self.progress;
        if let Some(what) = wrong_effect(step, self.level, |address| self.sanitized(address)) {
            return Err(BuildError::Effect { opcode: step.opcode, pc, what });
        }
        self.basic_step(step)?;
        step.exception.map_or(Ok(()), |exception| fits("exception class", exception.class, MAX_CLASS))?;
        self.records.push(record);
        self.push_extra();
        let next = self.push_trap(step);
        match (step.exception, step.effect) {
            (Some(_), _) if self.level == Level::Basic => self.progress.needs_context = true,
            (Some(_), _) => self.change_level(LevelChange::Up),
            (None, Effect::ExceptionReturn(_)) => self.change_level(LevelChange::Down),
            _ => {}
        }
        let is_left = self.level == Level::Basic && self.progress.needs_context;
        self.progress.next = (!is_left).then_some(next);
        self.write(before)
    }

    /// Whether the instruction is ordinary: one record, which breaks no rule. Nearly all are.
    #[inline]
    fn is_usual(&mut self, step: &Step<'_>, record: &Bytes) -> bool {
        let is_single = self.parts.len() <= 1 && !matches!(step.effect, Effect::ExceptionReturn(_));
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

    /// The record of the instruction with its first access. If there are more, all of them are in `parts`.
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
        self.parts.clear();
        match step.effect {
            Effect::Taken(target) => (record.ea_valid, record.ea) = (true, self.sanitized(target)),
            // Most have a single access, which is not copied.
            Effect::Accesses([one @ Access { extent: Extent::Bytes(1..=MAX_BYTES), .. }]) => {
                set_access(&mut record, one)?;
                record.ea = self.sanitized(record.ea);
            }
            Effect::Accesses(accesses) => self.split(accesses)?,
            _ => {}
        }
        if let Some(first) = self.parts.first() {
            set_access(&mut record, first)?;
        }
        record.extra_eas = self.parts.len() > 1;
        Ok(record)
    }

    /// Splits the accesses into parts that fit into records.
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
                    self.parts.push(Access { address, ..*access });
                }
                Extent::Bytes(0) => return Err(BuildError::Access("has at least one byte")),
                Extent::Bytes(1..=MAX_BYTES) => self.parts.push(Access { address, ..*access }),
                Extent::Bytes(bytes) => self.parts.extend((0..bytes).step_by(MAX_BYTES.into()).map(|at| Access {
                    address: address.wrapping_add(at.into()),
                    extent: Extent::Bytes((bytes - at).min(MAX_BYTES)),
                    ..*access
                })),
            }
        }
        Ok(())
    }

    /// Adds the parts after the first: two accesses per record, or one range.
    fn push_extra(&mut self) {
        let mut accesses = self.parts.get(1..).unwrap_or_default();
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

    /// Adds the trap of an instruction, if it has one; returns where execution continues.
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

    /// Execution is redirected, not by an instruction.
    pub fn redirected(&mut self, by: Redirection, target: u64) -> Result<(), BuildError> {
        let before = self.progress;
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
        fits("exception class", ec, MAX_CLASS)?;
        let target_pc = self.sanitized(target);
        self.progress.next = Some(target_pc);
        self.change_level(match by {
            Redirection::Reset | Redirection::ExceptionReturn => LevelChange::None,
            _ => LevelChange::Up,
        });
        let mut trap = Trap { trap_type, ec, is_virtual, target_pc, ..Default::default() };
        if let Redirection::Call { call, .. } = by {
            (trap.syscall_type, trap.syscall_index) = (call.kind as u8, call.index);
        }
        self.records.push(trap.to_bytes());
        self.write(before)
    }

    /// Ends the trace, and returns the sink.
    pub fn finish(self) -> S {
        self.sink
    }

    fn needs_supported(&self) -> Result<(), BuildError> {
        let is_unsupported = self.progress.state.is_some_and(|state| state.unsupported);
        if is_unsupported { Err(BuildError::Unsupported) } else { Ok(()) }
    }

    fn sanitized(&self, address: u64) -> u64 {
        self.regime.map_or(address, |regime| regime.sanitize(address))
    }

    /// Writes the records. If they break a rule, everything is as it was `before`.
    fn write(&mut self, before: Progress) -> Result<(), BuildError> {
        let checked = self.checker.progress.clone();
        let mut broken = None;
        let mut keep = |finding: Finding| {
            if finding.rule.severity == Severity::Error && !OBSERVED.contains(&finding.rule.name) {
                broken.get_or_insert(finding);
            }
        };
        self.records.iter().for_each(|record| self.checker.push(record, &mut keep));
        if let Some(Finding { rule, detail, .. }) = broken {
            self.records.clear();
            self.progress = before;
            self.checker.progress = checked;
            return Err(BuildError::Rule { rule, detail });
        }
        let written = self.sink.write_records(&self.records);
        self.records.clear();
        Ok(written?)
    }
}

/// Rules about what the PE did. A source that observed a violation is written as it is, since the format can contain it.
pub const OBSERVED: [&str; 4] = ["astf-level-change", "astf-trap-level", "astf-trap-vector", "astf-pc-alignment"];

/// Checks the width of a field.
fn fits(field: &'static str, value: u8, max: u8) -> Result<(), BuildError> {
    if value > max { Err(BuildError::TooLarge { field, value: value.into() }) } else { Ok(()) }
}

/// Why the instruction cannot have had this effect.
fn wrong_effect(step: &Step<'_>, level: Level, sanitized: impl Fn(u64) -> u64) -> Option<&'static str> {
    let decoded = decode(Isa::A64, sanitized(step.pc), step.opcode);
    let is_eret = decoded.flow == ControlFlow::ExceptionReturn;
    let is_branch = decoded.flow.is_branch() && !is_eret;
    let direct = decoded.target_address().map(&sanitized);
    match step.effect {
        Effect::Taken(_) if step.exception.is_some() => Some("raised an exception, so it was not taken"),
        Effect::Taken(target) if direct.is_some_and(|direct| direct != sanitized(target)) => Some("has another target"),
        Effect::Taken(_) => None,
        Effect::NotTaken if is_branch && !decoded.conditional && step.exception.is_none() => Some("is always taken"),
        Effect::NotTaken => None,
        Effect::ExceptionReturn(_) if !is_eret => Some("does not return from an exception"),
        Effect::ExceptionReturn(_) if step.exception.is_some() => Some("raised an exception, so it did not return"),
        Effect::ExceptionReturn(_) => None,
        _ if is_branch => Some("is a branch: whether it was taken is missing"),
        _ if is_eret && step.exception.is_none() && level == Level::BasicPlus => {
            Some("returns from an exception: its target is missing")
        }
        _ => None,
    }
}

/// Sets the first access in the record of its instruction.
#[inline]
fn set_access(record: &mut Instruction, access: &Access) -> Result<(), BuildError> {
    (record.ea_valid, record.ea) = (true, access.address);
    (record.is_read, record.is_write, record.ea_tagged) = (access.read, access.write, access.tagged);
    match access.extent {
        Extent::Bytes(bytes) => record.ea_size = size(bytes),
        Extent::Range(_) if record.xattr_mode != xattr_mode::NONE => {
            return Err(BuildError::Access("to a range leaves no field for an index into ZA"));
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
