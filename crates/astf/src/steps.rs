//! Steps of an ASTF file.
//!
//! records ─▶ [`lift`](super::lift) ─▶ **steps**
//!
//! One PE, so one core. Positions are record numbers, times are microseconds. Strings become notes. A mode that the
//! format does not support becomes a context that does not state whether it is AArch64, followed by a gap. A timestamp
//! at which nothing happened becomes a state without contents. Stray records are dropped.

use std::io::Read;
use std::ops::ControlFlow;

use unspool_model::{
    BlockSink, BlockTrace, Branch, Context, Coverage, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa,
    Loss, Losses, Modes, Positions, Security, SourceError, Step, StepSource, TimeUnit,
};

use super::blocks::Blocks;
use super::layout::Bytes;
use super::lift::{Executed, Item, Lifter};
use super::read::{ReadError, ReadErrorKind, Reader};
use super::record::{self, Attribute, Header, Trap, View, trap_type};
use unspool_model::note;

/// A point at which the steps of a file can be read from: before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    /// Offset in the file, for [`resume_input`](super::read::resume_input).
    pub offset: u64,
    /// Number of records there before the instruction.
    pub skip: u64,
    /// Number of its record.
    pub record: u64,
    /// The last Context before it.
    pub context: Option<record::Context>,
    /// The last timestamp before it.
    pub time: Option<u64>,
}

/// Source of the steps of a file.
pub struct Steps<R> {
    reader: Reader<R>,
    /// Where a part of a file starts.
    point: Option<ResumePoint>,
    /// Losses from records to steps.
    not_in_steps: Losses,
}

impl<R: Read> Steps<R> {
    /// A source on a file of which only the header was read.
    pub fn new(reader: Reader<R>) -> Self {
        Self { reader, point: None, not_in_steps: Losses::default() }
    }

    /// A source on a part of a file, whose reader has the [input from that point on](super::read::resume_input).
    pub fn resumed(reader: Reader<R>, point: ResumePoint) -> Self {
        Self { reader, point: Some(point), not_in_steps: Losses::default() }
    }

    /// The header of the file.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Passes on all steps, and before some of the instructions the point to read them from: about every `distance`
    /// records, if the storage has such points.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is damaged.
    pub fn each_with_points(
        &mut self,
        distance: u64,
        take: &mut dyn FnMut(StepOrPoint<'_>) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let take = std::cell::RefCell::new(take);
        let mut next = 0;
        self.emit_batches(
            &mut |step: &Step| (*take.borrow_mut())(StepOrPoint::Step(step)),
            |_, batch, lifter, emitter| {
                for (skip, bytes) in (0..).zip(batch.records) {
                    let (record, time) = lifter.position();
                    if record >= next
                        && let (Some(offset), View::Instruction(_)) = (batch.offset, View::new(bytes))
                    {
                        // Nothing more belongs to the instruction before.
                        lifter.finish(&mut |number, item| emitter.item(number, &item));
                        let point = ResumePoint { offset, skip, record, context: lifter.context(), time };
                        emitter.is_over |= (*take.borrow_mut())(StepOrPoint::Point(&point)).is_break();
                        next = record + distance;
                    }
                    lifter.push(bytes, &mut |number, item| emitter.item(number, &item));
                    if emitter.is_over {
                        return;
                    }
                }
            },
        )
    }

    /// Emits all records, batch by batch.
    fn emit<F: BlockSink + ?Sized>(
        &mut self,
        sink: &mut F,
        mut batch: impl FnMut(&mut Blocks, &[Bytes], &mut Lifter, &mut StepEmitter<'_, F>),
    ) -> Result<(), SourceError> {
        self.emit_batches(sink, |blocks, found, lifter, emitter| batch(blocks, found.records, lifter, emitter))
    }

    /// The same, with the offset of each batch.
    fn emit_batches<F: BlockSink + ?Sized>(
        &mut self,
        sink: &mut F,
        mut batch: impl FnMut(&mut Blocks, FoundBatch<'_>, &mut Lifter, &mut StepEmitter<'_, F>),
    ) -> Result<(), SourceError> {
        let mut emitter = StepEmitter {
            sink,
            step: Step::default(),
            time: None,
            is_time_emitted: true,
            time_record: 0,
            is_over: false,
            not_in_steps: &mut self.not_in_steps,
        };
        let (mut lifter, mut blocks) = (Lifter::new(), Blocks::new(emitter.sink.wants_accesses()));
        lifter.push(&self.reader.header().to_bytes(), &mut |_, _| {});
        let mut skip = 0;
        if let Some(point) = self.point {
            lifter = Lifter::resumed(point.record, point.context, point.time);
            (emitter.time, skip) = (point.time, point.skip);
        }
        let ended = loop {
            if let Err(error) = self.reader.next_records() {
                break Err(ended(&error));
            }
            let offset = self.reader.offset();
            let records = self.reader.records();
            if records.is_empty() {
                break Ok(());
            }
            let skipped = skip.min(records.len() as u64);
            skip -= skipped;
            batch(&mut blocks, FoundBatch { records: &records[skipped as usize..], offset }, &mut lifter, &mut emitter);
            if emitter.is_over {
                return Ok(());
            }
        };
        // The last instruction is as complete as it will ever be.
        lifter.finish(&mut |number, item| emitter.item(number, &item));
        emitter.emit_time();
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
        self.emit(&mut |step: &Step| take(step), |_, records, lifter, emitter| {
            for record in records {
                lifter.push(record, &mut |number, item| emitter.item(number, &item));
                if emitter.is_over {
                    return;
                }
            }
        })
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        self.emit(sink, emit_blocks)
    }

    fn losses(&self) -> Losses {
        self.not_in_steps.clone()
    }
}

/// A step, or the point to read the following ones from.
#[derive(Debug)]
pub enum StepOrPoint<'s> {
    /// A step.
    Step(&'s Step),
    /// The next step is an instruction, at this point.
    Point(&'s ResumePoint),
}

/// Records, and the offset of the first of them.
struct FoundBatch<'b> {
    records: &'b [Bytes],
    offset: Option<u64>,
}

/// Losses from records to steps: bytes of strings that are not text.
pub const NOT_IN_STEPS: &[Loss] = &[Loss::Notes];

/// The error that ends the steps.
fn ended(error: &ReadError) -> SourceError {
    let is_damage = !matches!(error.kind, ReadErrorKind::Io(_));
    SourceError { text: error.to_string(), is_damage, position: Some(error.record) }
}

/// Emits a batch, known blocks at once.
fn emit_blocks<F: BlockSink + ?Sized>(
    blocks: &mut Blocks,
    records: &[Bytes],
    lifter: &mut Lifter,
    emitter: &mut StepEmitter<'_, F>,
) {
    let mut rest = records;
    while !emitter.is_over {
        if let Some(found) = blocks.find(rest) {
            let (position, time) = lifter.position();
            lifter.skip(found.records as u64, &mut |number, item| emitter.item(number, &item));
            let (blocks, executions, accesses) = blocks.found();
            let (next, positions) = (Some(found.next), Positions::From(position));
            emitter.blocks(&BlockTrace { core: 0, blocks, executions, next, positions, time, accesses });
            rest = &rest[found.records..];
        }
        let Some((record, after)) = rest.split_first() else { return };
        blocks.learn(record);
        lifter.push(record, &mut |number, item| emitter.item(number, &item));
        rest = after;
    }
}

/// Emits items as steps.
struct StepEmitter<'t, F: ?Sized> {
    sink: &'t mut F,
    step: Step,
    time: Option<u64>,
    /// A step has this time.
    is_time_emitted: bool,
    /// The record of the last timestamp.
    time_record: u64,
    is_over: bool,
    /// Losses from records to steps.
    not_in_steps: &'t mut Losses,
}

impl<F: BlockSink + ?Sized> StepEmitter<'_, F> {
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

    fn timestamp(&mut self, number: u64, value: u64) {
        self.emit_time();
        (self.time, self.is_time_emitted, self.time_record) = (Some(value), false, number);
    }

    /// Emits the last time if nothing happened at it: there are two where a PE was suspended.
    fn emit_time(&mut self) {
        if !self.is_time_emitted {
            self.push(self.time_record, Event::State);
        }
    }

    fn string(&mut self, number: u64, text: &[u8]) {
        self.begin(number, Event::Note);
        note::set(&mut self.step, text, self.not_in_steps);
        self.push_step();
    }

    #[inline]
    fn executed(&mut self, executed: &Executed<'_>) {
        self.begin(executed.record, Event::Instruction(instruction(executed)));
        self.step.time = executed.time;
        for access in executed.accesses {
            self.step.access(access.direction(), access.address, access.extent.bytes());
            if access.tagged {
                self.step.tag_last_access();
            }
        }
        self.push_step();
        match &executed.trap {
            Some(trap) => self.trap(executed.record, trap),
            // A Basic trace records only that there was an exception.
            None if executed.instruction.trap => {
                let exception = Exception { kind: ExceptionKind::Synchronous, ..Exception::default() };
                self.push(executed.record, Event::Exception(exception));
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
        self.push(number, event);
    }

    fn context(&mut self, number: u64, context: &record::Context) {
        let context_reported = Context {
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
        self.push(number, Event::Context(context_reported));
        if context.unsupported {
            self.push(number, Event::Gap(Gap::Start));
        }
    }

    /// Emits a step that is nothing but an event.
    fn push(&mut self, position: u64, event: Event) {
        self.begin(position, event);
        self.push_step();
    }

    #[inline]
    fn begin(&mut self, position: u64, event: Event) {
        self.step.clear();
        self.is_time_emitted = true;
        (self.step.position, self.step.time, self.step.event) = (position, self.time, event);
    }

    #[inline]
    fn push_step(&mut self) {
        if !self.is_over {
            self.is_over = self.sink.step(&self.step).is_break();
        }
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) {
        self.is_time_emitted = true;
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

/// Outcome of a branch. An exception return is one, and its trap has the target.
#[inline]
fn branch(record: &record::Instruction, trap: Option<&Trap>) -> Option<Branch> {
    match trap {
        Some(trap) if trap.trap_type == trap_type::EXCEPTION_RETURN => {
            Some(Branch { taken: true, target: Some(trap.target_pc) })
        }
        _ if !record.is_branch => None,
        _ if record.ea_valid => Some(Branch { taken: true, target: Some(record.ea) }),
        // It was attempted, and its outcome is unknown.
        _ if record.trap => None,
        _ => Some(Branch { taken: false, target: None }),
    }
}

/// Kind of an exception; `None`: the return from one.
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

/// Whether it may be virtual.
fn is_asynchronous(kind: ExceptionKind) -> bool {
    matches!(kind, ExceptionKind::SError | ExceptionKind::Irq | ExceptionKind::Fiq)
}
