//! Steps of a file with annotations.
//!
//! groups ─▶ records and [annotations](super::super::lower::annotation) ─▶ **steps**, the same that were lowered
//!
//! A group contains, in this order: steps before its instruction, the instruction, and steps after it. Comments of other
//! tools are notes, and so are comments of ours that cannot be parsed.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use unspool_model::{Branch, Coverage, Direction, Event, Exception, ExceptionKind, Instruction, Isa, Losses, Step};

use super::super::lift;
use super::super::lower::words::{self, Part, Word};
use super::super::names::{self, EventKind};
use super::super::record::{MemAccess, Record, Register};
use super::{DESTINATION, STATE};
use unspool_model::note;

/// Emits groups as steps.
pub(super) struct Told<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    coverage: Coverage,
    time: Option<u64>,
    isa: Isa,
    step: Step,
    /// A step before or after the instruction, while more may be added to it.
    open: Step,
    is_open: bool,
    said: Said,
    /// The access that data may follow, and the data.
    access: Option<MemAccess>,
    data: Vec<u8>,
    /// Names of general registers.
    names: Vec<String>,
    pub(super) untold: Losses,
}

/// Properties of the instruction found so far in its group.
#[derive(Default)]
struct Said {
    target: Option<u64>,
    branch: Option<Option<Branch>>,
    is_executed: Option<Option<bool>>,
    za_index: Option<u8>,
    /// The instruction was emitted.
    is_behind: bool,
    /// The next event record was emitted already.
    is_event_told: bool,
}

impl<'t> Told<'t> {
    pub(super) fn new(take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>, coverage: Coverage) -> Self {
        Self {
            take,
            coverage,
            time: None,
            isa: Isa::A64,
            step: Step::default(),
            open: Step::default(),
            is_open: false,
            said: Said::default(),
            access: None,
            data: Vec::new(),
            names: (0..=30).map(|number| format!("x{number}")).collect(),
            untold: Losses::default(),
        }
    }

    #[inline]
    pub(super) fn instruction(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        self.step.clear();
        self.said = Said::default();
        if group.records > 1 {
            group.group().try_for_each(|record| self.record(group, &record))?;
            self.close()?;
        }
        if self.said.is_behind { ControlFlow::Continue(()) } else { self.tell_instruction(group) }
    }

    fn tell_instruction(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        self.end_access();
        let &lift::Instruction { pc: address, opcode, length, .. } = group;
        let branch = match (self.said.target, self.said.branch) {
            (Some(target), _) => Some(Branch { taken: true, target: Some(target) }),
            (None, Some(branch)) => branch,
            (None, None) => words::usual_branch(self.isa, address, opcode),
        };
        let usual = || words::usual_condition(self.coverage, branch);
        let is_executed = self.said.is_executed.unwrap_or_else(usual);
        (self.step.position, self.step.time) = (group.position.record, self.time);
        self.step.event = Event::Instruction(Instruction {
            address,
            opcode: Some(opcode),
            length,
            isa: self.isa,
            is_executed,
            branch,
            za_index: self.said.za_index,
        });
        (self.take)(&self.step)
    }

    fn record(&mut self, group: &lift::Instruction<'_>, record: &Record<'_>) -> ControlFlow<()> {
        match record {
            Record::Comment(text) => return self.comment(group, text),
            Record::InstMemContent(word) => self.data.extend_from_slice(&word.to_le_bytes()),
            Record::Event(event) => {
                let kind = match EventKind::of(event) {
                    EventKind::ModeChange | EventKind::Special => return ControlFlow::Continue(()),
                    EventKind::Interrupt => ExceptionKind::Irq,
                    EventKind::Syscall | EventKind::Fault => ExceptionKind::Synchronous,
                };
                if !std::mem::take(&mut self.said.is_event_told) {
                    self.go_behind(group)?;
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
                self.said.target = Some(*target);
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
        if register.operand() == STATE {
            self.start(group, Event::State)?;
        } else if register.operand() != DESTINATION {
            return ControlFlow::Continue(());
        }
        let step = if self.is_open { &mut self.open } else { &mut self.step };
        match self.names.get(usize::from(register.number)).filter(|_| register.kind() == 1) {
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
        if let Some(MemAccess { address, size, kind, .. }) = self.access.take() {
            let direction = match kind {
                1 => Direction::Read,
                2 => Direction::Write,
                _ => Direction::Neither,
            };
            let told = self.data.iter().map(|byte| (*byte, 0xff)).chain(std::iter::repeat((0, 0)));
            let length = if self.data.is_empty() { 0 } else { usize::from(size) };
            self.step.access_known(direction, address, u64::from(size), told.take(length));
        }
        self.data.clear();
    }

    fn comment(&mut self, group: &lift::Instruction<'_>, text: &[u8]) -> ControlFlow<()> {
        let Some((part, word)) = words::parse(text) else {
            let text = note::text(text, group.position.record, &mut self.untold);
            return self.note(group, &text);
        };
        match part {
            Part::Same => {}
            Part::Now => self.close()?,
            Part::Then => self.go_behind(group)?,
        }
        self.word(group, word)
    }

    fn word(&mut self, group: &lift::Instruction<'_>, word: Word<'_>) -> ControlFlow<()> {
        let event = match word {
            Word::Nothing => return ControlFlow::Continue(()),
            Word::State => Event::State,
            Word::Instruction(instruction) => Event::Instruction(instruction),
            Word::Exception(exception) => {
                self.said.is_event_told = self.said.is_behind;
                Event::Exception(exception)
            }
            Word::Return { target } => Event::ExceptionReturn { target },
            Word::Context(context) => Event::Context(context),
            Word::Gap(gap) => Event::Gap(gap),
            Word::Note(text) => return self.note(group, text),
            other => {
                self.detail(other);
                return ControlFlow::Continue(());
            }
        };
        self.start(group, event)
    }

    /// Applies an annotation that adds to a step or that stays in effect.
    fn detail(&mut self, word: Word<'_>) {
        match word {
            Word::Time(time) => self.time = time,
            // A reader that starts in the middle does not know the time yet.
            Word::Later(later) => self.time = self.time.map(|time| time.wrapping_add(later)),
            Word::Isa(isa) => self.isa = isa,
            Word::Executed(is_executed) => self.said.is_executed = Some(is_executed),
            Word::Branch(branch) => self.said.branch = Some(branch),
            Word::Za(index) => self.said.za_index = Some(index),
            Word::Tagged => self.subject().tag_last_access(),
            Word::Access(access) => {
                let step = self.subject();
                step.access_known(access.direction, access.address, access.size, access.data.bytes());
                if access.is_tagged {
                    step.tag_last_access();
                }
            }
            Word::Register { name, low, data } => {
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
        if std::mem::take(&mut self.is_open) { (self.take)(&self.open) } else { ControlFlow::Continue(()) }
    }

    /// Emits the instruction, if it was not emitted yet.
    fn go_behind(&mut self, group: &lift::Instruction<'_>) -> ControlFlow<()> {
        self.close()?;
        if std::mem::replace(&mut self.said.is_behind, true) {
            return ControlFlow::Continue(());
        }
        self.tell_instruction(group)
    }
}

/// The original name of a register, if it was escaped.
fn unescaped(name: &str) -> Option<String> {
    if !name.contains('%') {
        return None;
    }
    let (mut bytes, mut rest) = (Vec::new(), name.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%') {
            // An escaped empty name.
            Some(0) => rest = &behind[2..],
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
