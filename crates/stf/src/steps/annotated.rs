//! Steps of a file with annotations.
//!
//! groups ─▶ records and [annotations](super::super::lower::annotation) ─▶ **steps**, the same that were lowered
//!
//! A group contains, in this order: steps before its instruction, the instruction, and steps after it. Comments of
//! other tools are notes, and so are comments of ours that cannot be parsed.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use unspool_model::{Branch, Coverage, Event, Exception, Instruction, Isa, Losses, Step, note};

use super::super::lift;
use super::super::lower::annotation::{self, Annotation, Part};
use super::super::names;
use super::super::record::{MemAccess, Record, Register};
use super::effects::{exception_kind, push_access};

/// Emits groups as steps.
pub(super) struct AnnotatedEmitter<'t> {
    sink: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    coverage: Coverage,
    pub(super) time: Option<u64>,
    pub(super) isa: Isa,
    step: Step,
    /// A step before or after the instruction, while more may be added to it.
    open: Step,
    is_open: bool,
    found: Found,
    /// The access that data may follow, and the data.
    access: Option<MemAccess>,
    data: Vec<u8>,
    /// Names of general registers.
    names: Vec<String>,
    pub(super) losses: Losses,
}

/// Properties of the instruction found so far in its group.
#[derive(Default)]
struct Found {
    target: Option<u64>,
    branch: Option<Option<Branch>>,
    is_executed: Option<Option<bool>>,
    za_index: Option<u8>,
    /// The instruction was emitted.
    is_emitted: bool,
    /// The next event record was emitted already.
    is_event_emitted: bool,
}

impl<'t> AnnotatedEmitter<'t> {
    pub(super) fn new(sink: &'t mut dyn FnMut(&Step) -> ControlFlow<()>, coverage: Coverage) -> Self {
        Self {
            sink,
            coverage,
            time: None,
            isa: Isa::A64,
            step: Step::default(),
            open: Step::default(),
            is_open: false,
            found: Found::default(),
            access: None,
            data: Vec::new(),
            names: (0..=30).map(|number| format!("x{number}")).collect(),
            losses: Losses::default(),
        }
    }

    #[inline]
    pub(super) fn instruction(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        self.step.clear();
        self.found = Found::default();
        if group.records > 1 {
            group.group().try_for_each(|record| self.record(group, &record))?;
            self.close()?;
        }
        if self.found.is_emitted { ControlFlow::Continue(()) } else { self.emit_instruction(group) }
    }

    fn emit_instruction(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        self.end_access();
        let &lift::Instruction { pc: address, opcode, length, .. } = group;
        let branch = match (self.found.target, self.found.branch) {
            (Some(target), _) => Some(Branch { taken: true, target: Some(target) }),
            (None, Some(branch)) => branch,
            (None, None) => annotation::default_branch(self.isa, address, opcode),
        };
        let default = || annotation::default_condition(self.coverage, branch);
        let is_executed = self.found.is_executed.unwrap_or_else(default);
        (self.step.position, self.step.time) = (group.position.record, self.time);
        self.step.event = Event::Instruction(Instruction {
            address,
            opcode: Some(opcode),
            length,
            isa: self.isa,
            is_executed,
            branch,
            za_index: self.found.za_index,
        });
        (self.sink)(&self.step)
    }

    fn record(&mut self, group: &lift::Instruction<'_>, record: &Record<'_>) -> ControlFlow<()> {
        match record {
            Record::Comment(text) => return self.comment(group, text),
            Record::InstMemContent(word) => self.data.extend_from_slice(&word.to_le_bytes()),
            Record::Event(event) => {
                let Some(kind) = exception_kind(event) else { return ControlFlow::Continue(()) };
                if !std::mem::take(&mut self.found.is_event_emitted) {
                    self.emit_pending(group)?;
                    self.start(group, Event::Exception(Exception { kind, ..Exception::default() }))?;
                }
            }
            Record::EventPcTarget(target) => {
                if let Event::Exception(exception) = &mut self.open.event {
                    exception.target = Some(*target);
                }
            }
            Record::InstPcTarget(target) => {
                self.close()?;
                self.found.target = Some(*target);
            }
            Record::InstReg(register) => return self.register(group, register),
            Record::InstMemAccess(access) => {
                self.close()?;
                self.end_access();
                self.access = Some(*access);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn register(&mut self, group: &lift::Instruction<'_>, register: &Register<'_>) -> ControlFlow<()> {
        self.close()?;
        if register.operand() == Register::STATE {
            self.start(group, Event::State)?;
        } else if register.operand() != Register::DESTINATION {
            return ControlFlow::Continue(());
        }
        let step = if self.is_open { &mut self.open } else { &mut self.step };
        match self.names.get(usize::from(register.number)).filter(|_| register.kind() == Register::INTEGER) {
            Some(name) => step.write_register(name, 0, register.value),
            None => {
                let mut name = String::new();
                // Writing into a string cannot fail.
                let _ = write!(name, "{}", names::register(register));
                step.write_register(&name, 0, register.value);
            }
        }
        ControlFlow::Continue(())
    }

    fn end_access(&mut self) {
        if let Some(access) = self.access.take() {
            push_access(&mut self.step, &access, access.size, &self.data);
        }
        self.data.clear();
    }

    fn comment(&mut self, group: &lift::Instruction<'_>, text: &[u8]) -> ControlFlow<()> {
        let Some((part, annotation)) = annotation::parse(text) else {
            let text = note::text(text, group.position.record, &mut self.losses);
            return self.note(group, &text);
        };
        match part {
            Part::Same => {}
            Part::Now => self.close()?,
            Part::Then => self.emit_pending(group)?,
        }
        self.annotation(group, annotation)
    }

    fn annotation(&mut self, group: &lift::Instruction<'_>, annotation: Annotation<'_>) -> ControlFlow<()> {
        let event = match annotation {
            Annotation::PartOnly => return ControlFlow::Continue(()),
            Annotation::State => Event::State,
            Annotation::Instruction(instruction) => Event::Instruction(instruction),
            Annotation::Exception(exception) => {
                self.found.is_event_emitted = self.found.is_emitted;
                Event::Exception(exception)
            }
            Annotation::Return { target } => Event::ExceptionReturn { target },
            Annotation::Context(context) => Event::Context(context),
            Annotation::Gap(gap) => Event::Gap(gap),
            Annotation::Note(text) => return self.note(group, text),
            other => {
                self.detail(other);
                return ControlFlow::Continue(());
            }
        };
        self.start(group, event)
    }

    /// Applies an annotation that adds to a step or that stays in effect.
    fn detail(&mut self, annotation: Annotation<'_>) {
        match annotation {
            Annotation::Time(time) => self.time = time,
            // A reader that starts in the middle does not know the time yet.
            Annotation::TimeDelta(delta) => self.time = self.time.map(|time| time.wrapping_add(delta)),
            Annotation::Isa(isa) => self.isa = isa,
            Annotation::Executed(is_executed) => self.found.is_executed = Some(is_executed),
            Annotation::Branch(branch) => self.found.branch = Some(branch),
            Annotation::ZaIndex(index) => self.found.za_index = Some(index),
            Annotation::Tagged => self.subject().tag_last_access(),
            Annotation::Access(access) => {
                let step = self.subject();
                step.access_known(access.direction, access.address, access.size, access.data.bytes());
                if access.is_tagged {
                    step.tag_last_access();
                }
            }
            Annotation::Register { name, low, data } => {
                let step = self.subject();
                match unescaped(name) {
                    None => step.write_register_known(name, low, data.bytes()),
                    Some(name) => step.write_register_known(&name, low, data.bytes()),
                }
            }
            _ => {}
        }
    }

    /// The step that effects belong to.
    fn subject(&mut self) -> &mut Step {
        if self.is_open {
            return &mut self.open;
        }
        self.end_access();
        &mut self.step
    }

    fn note(&mut self, group: &lift::Instruction<'_>, text: &str) -> ControlFlow<()> {
        self.start(group, Event::Note)?;
        self.open.set_note(text);
        ControlFlow::Continue(())
    }

    /// Starts a step of its own.
    fn start(&mut self, group: &lift::Instruction<'_>, event: Event) -> ControlFlow<()> {
        self.close()?;
        self.open.clear();
        (self.open.position, self.open.time, self.open.event) = (group.position.record, self.time, event);
        self.is_open = true;
        ControlFlow::Continue(())
    }

    /// Emits the open step.
    #[inline]
    fn close(&mut self) -> ControlFlow<()> {
        if std::mem::take(&mut self.is_open) { (self.sink)(&self.open) } else { ControlFlow::Continue(()) }
    }

    /// Emits the instruction, if it was not emitted yet.
    fn emit_pending(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        self.close()?;
        if std::mem::replace(&mut self.found.is_emitted, true) {
            return ControlFlow::Continue(());
        }
        self.emit_instruction(group)
    }
}

/// The original name of a register, if it was escaped.
fn unescaped(name: &str) -> Option<String> {
    if !name.contains('%') {
        return None;
    }
    let (mut bytes, mut rest) = (Vec::new(), name.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            // An escaped empty name.
            Some(0) => rest = &after[2..],
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
