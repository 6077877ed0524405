//! Steps of an ASTF file.
//!
//! records ─▶ [`lift`](super::lift) ─▶ **steps**
//!
//! One PE, so one core. Places are numbers of records, times are microseconds. Strings and records that belong to nothing
//! are no steps.

use std::io::Read;
use std::ops::ControlFlow;

use unspool_model::{
    Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Security,
    SourceError, Step, StepSource,
};

use super::access::Access;
use super::lift::{Executed, Item, Lifter};
use super::read::{ReadError, ReadErrorKind, Reader};
use super::record::{self, Trap, trap_type};

/// Hands out the steps of a file.
pub struct Steps<R> {
    reader: Reader<R>,
}

impl<R: Read> Steps<R> {
    /// Of a file of which nothing but the header was read.
    pub fn new(reader: Reader<R>) -> Self {
        Self { reader }
    }
}

impl<R: Read> StepSource for Steps<R> {
    fn coverage(&self) -> Coverage {
        let header = self.reader.header();
        let always = Coverage::of(&[
            Facet::Instructions,
            Facet::Opcodes,
            Facet::Branches,
            Facet::Accesses,
            Facet::Levels,
            Facet::Security,
            Facet::Processes,
        ]);
        // A Basic trace has no traps.
        let more = [(!header.single_el, Facet::Exceptions), (header.timestamps, Facet::Times)];
        more.iter().filter(|(has, _)| *has).fold(always, |coverage, (_, facet)| coverage.with(*facet))
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let mut teller = Teller { take, step: Step::default(), time: None, is_unsupported: false, is_over: false };
        let mut lifter = Lifter::new();
        lifter.push(&self.reader.header().to_bytes(), &mut |_, _| {});
        loop {
            let records = match self.reader.next_records() {
                Ok(records) => records,
                Err(error) => {
                    // The last instruction is as complete as it will ever be.
                    lifter.finish(&mut |number, item| teller.item(number, &item));
                    return Err(ended(&error));
                }
            };
            if records.is_empty() {
                break;
            }
            for record in records {
                lifter.push(record, &mut |number, item| teller.item(number, &item));
                if teller.is_over {
                    return Ok(());
                }
            }
        }
        lifter.finish(&mut |number, item| teller.item(number, &item));
        Ok(())
    }
}

/// Why no more steps come.
fn ended(error: &ReadError) -> SourceError {
    SourceError { text: error.to_string(), is_damage: !matches!(error.kind, ReadErrorKind::Io(_)) }
}

/// Tells items as steps.
struct Teller<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    step: Step,
    time: Option<u64>,
    /// The last context was one whose instructions the format cannot have.
    is_unsupported: bool,
    is_over: bool,
}

impl Teller<'_> {
    fn item(&mut self, number: u64, item: &Item<'_>) {
        match item {
            Item::Instruction(executed) => self.executed(executed),
            Item::Trap(trap) => self.trap(number, trap),
            Item::Context(context) => self.context(number, context),
            Item::Timestamp(timestamp) => self.time = Some(timestamp.value),
            Item::String(_) | Item::Stray(_) => {}
        }
    }

    #[inline]
    fn executed(&mut self, executed: &Executed<'_>) {
        self.begin(executed.record, Event::Instruction(instruction(executed)));
        self.step.time = executed.time;
        for access in executed.accesses {
            self.step.access(direction(access), access.address, access.extent.bytes());
        }
        self.hand_out();
        match &executed.trap {
            Some(trap) => self.trap(executed.record, trap),
            // That it raised one is all that a Basic trace says.
            None if executed.instruction.trap => {
                let exception = Exception { kind: ExceptionKind::Synchronous, ..Exception::default() };
                self.begin(executed.record, Event::Exception(exception));
                self.hand_out();
            }
            None => {}
        }
    }

    fn trap(&mut self, number: u64, trap: &Trap) {
        let target = Some(trap.target_pc);
        let event = match kind(trap.trap_type) {
            None => Event::ExceptionReturn { target },
            Some(kind) => Event::Exception(Exception { kind, target, ..Exception::default() }),
        };
        self.begin(number, event);
        self.hand_out();
    }

    fn context(&mut self, number: u64, context: &record::Context) {
        let was_unsupported = std::mem::replace(&mut self.is_unsupported, context.unsupported);
        if was_unsupported && !context.unsupported {
            self.begin(number, Event::Gap(Gap::Start));
            self.hand_out();
        }
        let told = Context {
            level: Some(context.el),
            security: Some(if context.secure { Security::Secure } else { Security::NonSecure }),
            is_aarch64: (!context.unsupported).then_some(true),
            is_handler: Some(context.handler),
            process: context.pid_valid.then_some(context.pid),
            thread: context.tid_valid.then_some(context.tid),
            vmid: None,
            modes: None,
        };
        self.begin(number, Event::Context(told));
        self.hand_out();
    }

    #[inline]
    fn begin(&mut self, place: u64, event: Event) {
        self.step.clear();
        (self.step.place, self.step.time, self.step.event) = (place, self.time, event);
    }

    #[inline]
    fn hand_out(&mut self) {
        if !self.is_over {
            self.is_over = (self.take)(&self.step).is_break();
        }
    }
}

#[inline]
fn instruction(executed: &Executed<'_>) -> Instruction {
    let record = &executed.instruction;
    Instruction {
        address: record.pc,
        opcode: Some(record.iword),
        length: 4,
        isa: Isa::A64,
        is_executed: None,
        branch: branch(record, executed.trap.as_ref()),
        za_index: None,
    }
}

/// What became of a branch. An exception return is one, and its trap says where it led.
#[inline]
fn branch(record: &record::Instruction, trap: Option<&Trap>) -> Option<Branch> {
    match trap {
        Some(trap) if trap.trap_type == trap_type::EXCEPTION_RETURN => {
            Some(Branch { taken: true, target: Some(trap.target_pc) })
        }
        _ if !record.is_branch => None,
        _ if record.ea_valid => Some(Branch { taken: true, target: Some(record.ea) }),
        // It was tried, and what would have become of it nobody knows.
        _ if record.trap => None,
        _ => Some(Branch { taken: false, target: None }),
    }
}

/// What kind of exception; `None`: the return from one.
fn kind(trap: u8) -> Option<ExceptionKind> {
    Some(match trap {
        trap_type::SYNCHRONOUS => ExceptionKind::Synchronous,
        trap_type::SERROR => ExceptionKind::SError,
        trap_type::IRQ => ExceptionKind::Irq,
        trap_type::FIQ => ExceptionKind::Fiq,
        trap_type::RESET => ExceptionKind::Reset,
        trap_type::EXCEPTION_RETURN => return None,
        _ => ExceptionKind::Unknown,
    })
}

#[inline]
fn direction(access: &Access) -> Direction {
    match (access.read, access.write) {
        (true, true) => Direction::Both,
        (true, false) => Direction::Read,
        (false, true) => Direction::Write,
        (false, false) => Direction::Neither,
    }
}
