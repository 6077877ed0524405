//! Steps of an STF file.
//!
//! records ─▶ groups ([`super::lift`]) ─▶ **steps**
//!
//! One hart, so one core. Positions are record numbers: the first record of the group of an instruction. A target
//! record means that a branch was taken; without one, execution continues after it. The meaning of process numbers has
//! changed without a new version, so they are not emitted. There is no time, and comments are notes. If the header
//! announces annotations ([`super::lower`]), those contain the rest (`annotated`).

mod annotated;
mod effects;
mod resume;

use std::fmt::Write as _;
use std::io::Read;
use std::ops::ControlFlow;

use unspool_isa::{self as isa, OpcodeCache, access, decode};
use unspool_model::{
    Branch, Context, Coverage, Event, Exception, Facet, Gap, Instruction, Isa, Loss, Losses, SourceError, Step,
    StepSource, TimeUnit, note,
};

use self::annotated::AnnotatedEmitter;
use self::effects::{exception_kind, push_access};
use self::resume::BeforeGroup;
pub use self::resume::{EmitterState, ResumePoint, StepOrPoint};
use super::isa::{ARM, RV32, is_unallocated_in_a64};
use super::lift::{self, Follower};
use super::lower::annotation;
use super::names;
use super::read::{ReadError, ReadErrorKind, Reader};
use super::record::{MemAccess, Record, Register};

/// The steps of a file.
pub struct Steps<R> {
    reader: Reader<R>,
    /// Comments of the header, each with its record number.
    comments: Vec<(u64, Vec<u8>)>,
    /// Announced coverage of annotations, and their unit of time.
    announced: Option<(Coverage, TimeUnit)>,
    losses: Losses,
    /// Where a part of a file starts.
    point: Option<ResumePoint>,
}

impl<R: Read> Steps<R> {
    /// The steps of a file that nothing was read from yet.
    pub fn new(reader: Reader<R>) -> Self {
        let comments = reader.comments();
        let announced = comments.iter().find_map(|(_, comment)| annotation::parse_announcement(comment));
        Self { reader, comments, announced, losses: Losses::default(), point: None }
    }
}

impl<R: Read> StepSource for Steps<R> {
    /// The features in the header are no indication of registers or events: known producers write them without.
    fn coverage(&self) -> Coverage {
        let usual = || {
            Coverage::of(&[
                Facet::Instructions,
                Facet::Opcodes,
                Facet::Branches,
                Facet::Accesses,
                Facet::Data,
                Facet::Registers,
                Facet::Exceptions,
                Facet::Levels,
            ])
        };
        self.announced.map_or_else(usual, |(coverage, _)| coverage)
    }

    fn time_unit(&self) -> TimeUnit {
        self.announced.map_or(TimeUnit::Unknown, |(_, unit)| unit)
    }

    fn each(&mut self, sink: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        if self.point.is_none() && self.header_notes(sink).is_break() {
            return Ok(());
        }
        let (follower, mut damaged) = (&mut self.point.map_or_else(Follower::default, |point| point.follower), None);
        while let Err(error) = self.part(follower, sink, &mut |_| ControlFlow::Continue(())) {
            // What follows damage does not depend on what was before.
            self.point = None;
            let Some(warning) = self.reader.resume(&error, follower) else { return Err(source_error(&error)) };
            damaged.get_or_insert_with(|| SourceError {
                text: warning.to_string(),
                is_damage: true,
                position: Some(error.record),
            });
            let mut gap = Step::default();
            (gap.position, gap.event) = (error.record, Event::Gap(Gap::Damaged));
            if sink(&gap).is_break() {
                break;
            }
        }
        damaged.map_or(Ok(()), Err)
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }
}

/// Contents of a file that are not in steps: bytes of comments that are not text.
pub const NOT_IN_STEPS: &[Loss] = &[Loss::Notes];

impl<R: Read> Steps<R> {
    /// Emits the steps up to the end or the next damage. Nothing is known from before.
    fn part(
        &mut self,
        follower: &mut Follower,
        sink: &mut dyn FnMut(&Step) -> ControlFlow<()>,
        before: &mut dyn FnMut(BeforeGroup<'_, '_>) -> ControlFlow<()>,
    ) -> Result<bool, ReadError> {
        let (state, isa) = (self.point.map(|point| point.state), self.reader.isa());
        let ended;
        match self.announced {
            Some((coverage, _)) => {
                let mut emitter = AnnotatedEmitter::new(sink, coverage);
                state.iter().for_each(|state| (emitter.time, emitter.isa) = (state.time, state.isa));
                ended = self.reader.each_instruction(follower, |group| {
                    let (time, isa) = (emitter.time, emitter.isa);
                    before(BeforeGroup { group, state: &|| EmitterState { time, isa, ..EmitterState::default() } })?;
                    emitter.instruction(group)
                });
                self.losses.add_all(&emitter.losses);
            }
            None => {
                let mut emitter = StepEmitter::new(sink, isa == Some(ARM));
                state.iter().for_each(|state| emitter.restore(state));
                ended = self.reader.each_instruction(follower, |group| {
                    before(BeforeGroup { group, state: &|| emitter.state() })?;
                    emitter.instruction(group)
                });
                self.losses.add_all(&emitter.losses);
            }
        }
        ended
    }

    /// Emits the comments of other tools in the header.
    fn header_notes(&mut self, sink: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut step = Step::default();
        for (record, comment) in &self.comments {
            let is_announcement = self.announced.is_some() && annotation::parse_announcement(comment).is_some();
            if !is_announcement && !annotation::is_signature(comment) {
                step.clear();
                step.position = *record;
                note::set(&mut step, comment, &mut self.losses);
                sink(&step)?;
            }
        }
        ControlFlow::Continue(())
    }
}

fn source_error(error: &ReadError) -> SourceError {
    let is_damage = !matches!(error.kind, ReadErrorKind::Io(_));
    SourceError { text: error.to_string(), is_damage, position: Some(error.record) }
}

/// Emits groups as steps.
struct StepEmitter<'t> {
    sink: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    /// Instructions are Arm's; one was not A64; one had two bytes.
    is_arm: bool,
    is_aarch32: bool,
    has_halfwords: bool,
    /// An access had a size in bits.
    counts_bits: bool,
    losses: Losses,
    /// The mode emitted last.
    mode: Option<u64>,
    /// Next address according to the records.
    next: Option<u64>,
    step: Step,
    /// The state before the step, then events after it.
    rest: Step,
    /// Bytes of the last access.
    data: Vec<u8>,
    name: String,
    opcodes: OpcodeCache<(Isa, u32), OpcodeFacts>,
}

/// What an opcode decodes to, as far as steps depend on it.
#[derive(Debug, Clone, Copy)]
struct OpcodeFacts {
    /// It is a branch, by the rules of this module.
    is_branch: bool,
    is_conditional: bool,
    /// It returns from an exception.
    returns: bool,
    /// Bytes of its accesses.
    bytes: Option<u16>,
}

impl OpcodeFacts {
    /// Decodes an opcode. AArch32 shares a number with A64, and its branches are not decoded.
    fn of(isa: Isa, opcode: u32) -> Self {
        let decoded = decode(isa, 0, opcode);
        let is_branch = !matches!(isa, Isa::A32 | Isa::T32) && decoded.flow.is_branch();
        Self {
            is_branch,
            is_conditional: is_branch && decoded.conditional,
            returns: is_branch && decoded.flow == isa::ControlFlow::ExceptionReturn,
            bytes: access(isa, opcode).bytes,
        }
    }
}

/// Properties of a group other than effects.
#[derive(Default)]
struct Group {
    target: Option<u64>,
    has_state: bool,
    has_events: bool,
    has_comments: bool,
    is_redirected: bool,
}

impl<'t> StepEmitter<'t> {
    fn new(sink: &'t mut dyn FnMut(&Step) -> ControlFlow<()>, is_arm: bool) -> Self {
        Self {
            sink,
            is_arm,
            is_aarch32: false,
            has_halfwords: false,
            counts_bits: false,
            losses: Losses::default(),
            mode: None,
            next: None,
            step: Step::default(),
            rest: Step::default(),
            data: Vec::new(),
            name: String::new(),
            opcodes: OpcodeCache::new(12),
        }
    }

    #[inline]
    fn facts(&mut self, isa: Isa, opcode: u32) -> OpcodeFacts {
        *self.opcodes.get_or_insert_with((isa, opcode), || OpcodeFacts::of(isa, opcode))
    }

    fn instruction(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        self.step.clear();
        self.step.position = group.position.record;
        let found = if group.records > 1 { self.effects(group) } else { Group::default() };
        if found.has_state {
            (self.sink)(&self.rest)?;
        }
        if found.has_comments {
            self.notes(group)?;
        }
        if group.is_forced && self.next.is_some_and(|next| next != group.pc) {
            self.emit(group, Event::Gap(Gap::Start))?;
        }
        if group.mode != self.mode {
            self.mode = group.mode;
            let level = group.mode.and_then(|mode| u8::try_from(mode).ok());
            self.emit(group, Event::Context(Context { level, ..Context::default() }))?;
        }
        let isa = self.isa(group);
        let facts = self.facts(isa, group.opcode);
        let instruction = executed(group, isa, facts, &found);
        self.step.event = Event::Instruction(instruction);
        (self.sink)(&self.step)?;
        self.next = next(group, &instruction, facts, &found);
        if instruction.branch.is_some() && facts.returns {
            self.emit(group, Event::ExceptionReturn { target: found.target })?;
        }
        if found.has_events { self.events(group) } else { ControlFlow::Continue(()) }
    }

    /// Emits an event of a group without effects.
    fn emit(&mut self, group: &lift::Instruction<'_>, event: Event) -> ControlFlow<()> {
        self.rest.clear();
        (self.rest.position, self.rest.event) = (group.position.record, event);
        (self.sink)(&self.rest)
    }

    /// Emits the comments of a group.
    fn notes(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        for record in group.group() {
            if let Record::Comment(text) = record {
                self.rest.clear();
                self.rest.position = group.position.record;
                note::set(&mut self.rest, text, &mut self.losses);
                (self.sink)(&self.rest)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Adds registers and accesses to the step.
    fn effects(&mut self, group: &lift::Instruction<'_>) -> Group {
        let mut found = Group::default();
        let mut access = None;
        for record in group.group() {
            match record {
                Record::InstReg(register) => self.register(group, &register, &mut found),
                Record::InstMemAccess(next) => self.access(group, access.replace(next)),
                Record::InstMemContent(word) => self.data.extend_from_slice(&word.to_le_bytes()),
                Record::InstPcTarget(target) => found.target = Some(target),
                Record::EventPcTarget(_) => found.is_redirected = true,
                Record::Event(_) => found.has_events = true,
                Record::Comment(_) => found.has_comments = true,
                _ => {}
            }
        }
        self.access(group, access);
        found
    }

    /// Adds a register: written ones to the step, those with their contents only to the state before it. Those that are
    /// read change nothing.
    fn register(&mut self, group: &lift::Instruction<'_>, register: &Register<'_>, found: &mut Group) {
        let step = match register.operand() {
            Register::DESTINATION => &mut self.step,
            Register::STATE => {
                if !std::mem::replace(&mut found.has_state, true) {
                    self.rest.clear();
                    self.rest.position = group.position.record;
                }
                &mut self.rest
            }
            _ => return,
        };
        self.name.clear();
        // Writing into a string cannot fail.
        let _ = write!(self.name, "{}", names::register(register));
        step.write_register(&self.name, 0, register.value);
    }

    /// Adds an access, which is complete with the data that followed it.
    fn access(&mut self, group: &lift::Instruction<'_>, access: Option<MemAccess>) {
        if let Some(access) = access {
            let size = self.bytes(group, access.size);
            push_access(&mut self.step, &access, size, &self.data);
        }
        self.data.clear();
    }

    /// Size of an access in bytes. Some producers record bits, but bytes for some instructions: the opcode decides.
    /// Where it does not, sizes are in bits if an earlier one was.
    fn bytes(&mut self, group: &lift::Instruction<'_>, size: u16) -> u16 {
        if self.is_arm {
            return size;
        }
        let isa = self.isa(group);
        match self.facts(isa, group.opcode).bytes {
            Some(bytes) if size == bytes => return size,
            Some(bytes) if size == bytes * 8 => self.counts_bits = true,
            _ => {}
        }
        if self.counts_bits { size / 8 } else { size }
    }

    /// The format has one number for all instruction sets of Arm: A64 is assumed until an opcode is not A64.
    fn isa(&mut self, group: &lift::Instruction<'_>) -> Isa {
        if !self.is_arm {
            return if group.iem == RV32 { Isa::Rv32 } else { Isa::Rv64 };
        }
        self.has_halfwords |= group.length == 2;
        self.is_aarch32 |= self.has_halfwords || is_unallocated_in_a64(group.opcode);
        match (self.is_aarch32, self.has_halfwords) {
            (false, _) => Isa::A64,
            (true, false) => Isa::A32,
            (true, true) => Isa::T32,
        }
    }

    /// Emits exceptions after the instruction. Mode changes are emitted before the next one.
    fn events(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        let mut raised: Option<Exception> = None;
        for record in group.group() {
            match record {
                Record::Event(event) => {
                    let Some(kind) = exception_kind(&event) else { continue };
                    let next = Exception { kind, ..Exception::default() };
                    if let Some(exception) = raised.replace(next) {
                        self.emit(group, Event::Exception(exception))?;
                    }
                }
                Record::EventPcTarget(target) => {
                    if let Some(exception) = &mut raised {
                        exception.target = Some(target);
                    }
                }
                _ => {}
            }
        }
        raised.map_or(ControlFlow::Continue(()), |exception| self.emit(group, Event::Exception(exception)))
    }
}

/// The instruction of a group.
fn executed(group: &lift::Instruction<'_>, isa: Isa, facts: OpcodeFacts, found: &Group) -> Instruction {
    let &lift::Instruction { pc: address, opcode, length, .. } = group;
    // A redirected instruction may not have been executed.
    let is_open = found.is_redirected && found.target.is_none();
    let has_outcome = facts.is_branch && !is_open && (found.target.is_some() || facts.is_conditional);
    let branch = has_outcome.then_some(Branch { taken: found.target.is_some(), target: found.target });
    Instruction { address, opcode: Some(opcode), length, isa, is_executed: None, branch, za_index: None }
}

/// Next address according to the records. A forced address after an event, or after a branch without a target, is its
/// target.
fn next(group: &lift::Instruction<'_>, instruction: &Instruction, facts: OpcodeFacts, found: &Group) -> Option<u64> {
    match instruction.branch {
        _ if found.has_events => None,
        Some(branch) => branch.target,
        None if facts.is_branch => None,
        None => Some(group.pc.wrapping_add(u64::from(group.length))),
    }
}
