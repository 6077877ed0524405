//! Steps of an ASTF file.
//!
//! records ─▶ [`lift`](super::lift) ─▶ **steps**
//!
//! One PE, so one core. Places are numbers of records, times are microseconds. Strings are notes. A mode that the format
//! does not support is a context that does not say whether it is AArch64, and a gap behind it. A time at which nothing
//! happened is a state without contents. Records that belong to nothing are no steps.

use std::io::Read;
use std::ops::ControlFlow;

use unspool_model::{
    BlockSink, BlockTrace, Branch, Context, Coverage, Direction, Event, Exception, ExceptionKind, Facet, Gap,
    Instruction, Isa, Loss, Losses, Modes, Security, SourceError, Step, StepSource, TimeUnit,
};

use super::access::Access;
use super::blocks::Blocks;
use super::layout::Bytes;
use super::lift::{Executed, Item, Lifter};
use super::read::{ReadError, ReadErrorKind, Reader};
use super::record::{self, Attribute, Trap, trap_type};
use unspool_model::note;

/// Hands out the steps of a file.
pub struct Steps<R> {
    reader: Reader<R>,
    /// What no step tells.
    untold: Losses,
}

impl<R: Read> Steps<R> {
    /// Of a file of which nothing but the header was read.
    pub fn new(reader: Reader<R>) -> Self {
        Self { reader, untold: Losses::default() }
    }

    /// Tells all records, batch by batch.
    fn tell<F: BlockSink + ?Sized>(
        &mut self,
        sink: &mut F,
        mut batch: impl FnMut(&mut Blocks, &[Bytes], &mut Lifter, &mut Teller<'_, F>),
    ) -> Result<(), SourceError> {
        let mut teller = Teller::new(sink, &mut self.untold);
        let (mut lifter, mut blocks) = (Lifter::new(), Blocks::default());
        lifter.push(&self.reader.header().to_bytes(), &mut |_, _| {});
        let ended = loop {
            match self.reader.next_records() {
                Ok([]) => break Ok(()),
                Ok(records) => batch(&mut blocks, records, &mut lifter, &mut teller),
                Err(error) => break Err(ended(&error)),
            }
            if teller.is_over {
                return Ok(());
            }
        };
        // The last instruction is as complete as it will ever be.
        lifter.finish(&mut |number, item| teller.item(number, &item));
        teller.finish();
        ended
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

    fn time_unit(&self) -> TimeUnit {
        TimeUnit::MICROSECONDS
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.tell(&mut |step: &Step| take(step), |_, records, lifter, teller| {
            for record in records {
                lifter.push(record, &mut |number, item| teller.item(number, &item));
                if teller.is_over {
                    return;
                }
            }
        })
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        self.tell(sink, tell_blocks)
    }

    fn losses(&self) -> Losses {
        self.untold.clone()
    }
}

/// What of a file no step tells: bytes of strings that are no text.
pub const NOT_IN_STEPS: &[Loss] = &[Loss::Notes];

/// Why no more steps come.
fn ended(error: &ReadError) -> SourceError {
    SourceError { text: error.to_string(), is_damage: !matches!(error.kind, ReadErrorKind::Io(_)) }
}

/// Tells a batch, known blocks at once.
fn tell_blocks<F: BlockSink + ?Sized>(
    blocks: &mut Blocks,
    records: &[Bytes],
    lifter: &mut Lifter,
    teller: &mut Teller<'_, F>,
) {
    let mut rest = records;
    while !teller.is_over {
        if let Some(found) = blocks.find(rest) {
            let (position, time) = lifter.position();
            lifter.skip(found.records as u64, &mut |number, item| teller.item(number, &item));
            let (blocks, executions) = blocks.found();
            teller.blocks(&BlockTrace { core: 0, blocks, executions, next: found.next, position, time });
            rest = &rest[found.records..];
        }
        let Some((record, behind)) = rest.split_first() else { return };
        blocks.learn(record);
        lifter.push(record, &mut |number, item| teller.item(number, &item));
        rest = behind;
    }
}

/// Tells items as steps.
struct Teller<'t, F: ?Sized> {
    sink: &'t mut F,
    step: Step,
    time: Option<u64>,
    /// A step has this time.
    is_time_told: bool,
    /// The record of the last timestamp.
    time_record: u64,
    is_over: bool,
    /// What no step tells.
    untold: &'t mut Losses,
}

impl<'t, F: BlockSink + ?Sized> Teller<'t, F> {
    fn new(sink: &'t mut F, untold: &'t mut Losses) -> Self {
        Self { sink, step: Step::default(), time: None, is_time_told: true, time_record: 0, is_over: false, untold }
    }

    fn item(&mut self, number: u64, item: &Item<'_>) {
        match item {
            Item::Instruction(executed) => self.executed(executed),
            Item::Trap(trap) => self.trap(number, trap),
            Item::Context(context) => self.context(number, context),
            Item::Timestamp(timestamp) => self.timestamp(number, timestamp.value),
            Item::String(text) => self.string(number, text),
            Item::Stray(_) => {}
        }
    }

    /// The trace ends.
    fn finish(&mut self) {
        self.tell_time();
    }

    fn timestamp(&mut self, number: u64, value: u64) {
        self.tell_time();
        (self.time, self.is_time_told, self.time_record) = (Some(value), false, number);
    }

    /// Nothing happened at the last time: there are two where a PE was suspended.
    fn tell_time(&mut self) {
        if !self.is_time_told {
            self.begin(self.time_record, Event::State);
            self.hand_out();
        }
    }

    fn string(&mut self, number: u64, text: &[u8]) {
        self.begin(number, Event::Note);
        note::set(&mut self.step, text, self.untold);
        self.hand_out();
    }

    #[inline]
    fn executed(&mut self, executed: &Executed<'_>) {
        self.begin(executed.record, Event::Instruction(instruction(executed)));
        self.step.time = executed.time;
        for access in executed.accesses {
            self.step.access(direction(access), access.address, access.extent.bytes());
            if access.tagged {
                self.step.tag_last_access();
            }
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
            Some(kind) => Event::Exception(Exception {
                kind,
                class: matches!(kind, ExceptionKind::Synchronous | ExceptionKind::SError).then_some(trap.ec),
                call: (trap.syscall_type != 0).then_some(trap.syscall_index),
                is_virtual: is_asynchronous(kind).then_some(trap.is_virtual),
                return_address: None,
                target,
            }),
        };
        self.begin(number, event);
        self.hand_out();
    }

    fn context(&mut self, number: u64, context: &record::Context) {
        let told = Context {
            level: Some(context.el),
            security: Some(if context.secure { Security::Secure } else { Security::NonSecure }),
            is_aarch64: (!context.unsupported).then_some(true),
            is_handler: Some(context.handler),
            process: context.pid_valid.then_some(context.pid),
            thread: context.tid_valid.then_some(context.tid),
            vmid: None,
            modes: Some(Modes {
                streaming: context.pstate_sm,
                dit: context.pstate_dit,
                ssbs: context.pstate_ssbs,
                vector_length: context.evl,
                tag_check_fault: context.mte_tcf,
            }),
        };
        self.begin(number, Event::Context(told));
        self.hand_out();
        if context.unsupported {
            self.begin(number, Event::Gap(Gap::Start));
            self.hand_out();
        }
    }

    #[inline]
    fn begin(&mut self, position: u64, event: Event) {
        self.step.clear();
        self.is_time_told = true;
        (self.step.position, self.step.time, self.step.event) = (position, self.time, event);
    }

    #[inline]
    fn hand_out(&mut self) {
        if !self.is_over {
            self.is_over = self.sink.step(&self.step).is_break();
        }
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) {
        self.is_time_told = true;
        if !self.is_over {
            self.is_over = self.sink.blocks(trace).is_break();
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
        za_index: match record.attribute() {
            Attribute::SmeIndex(index) => Some(index),
            Attribute::None | Attribute::Range(_) => None,
        },
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

/// Is it one that may be virtual?
fn is_asynchronous(kind: ExceptionKind) -> bool {
    matches!(kind, ExceptionKind::SError | ExceptionKind::Irq | ExceptionKind::Fiq)
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
