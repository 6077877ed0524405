//! Steps of one source of a capture.
//!
//! one source ─▶ instructions, items ─▶ **steps**
//!
//! Positions are offsets in its buffer. Times are timestamps; without timestamps, they are the cycles counted so far.
//! Execution that was not traced is a gap; consecutive gaps of the same kind are one. Events, timestamp markers and
//! instrumentation are notes. A failed transaction is emitted as it was executed, followed by a gap that revokes it.
//! Where times are timestamps, cycle counts are lost, and counted. Processes and threads are those that system events show;
//! of a capture without such events, the process is the context identifier. Data transfers are accesses of the instructions
//! that they belong to (`capture/data.rs`); the others are notes.

mod blocks;
mod cycles;
mod data;
mod passes;
mod points;
mod shards;

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_capture::{Capture, Code};
use unspool_coresight::etm3::OwnElement;
use unspool_coresight::exception::{ExceptionNumber, Numbering};
use unspool_coresight::frame::FrameError;
use unspool_coresight::{self as coresight, Features, Profile, TraceConfig, Transactions, exception};
use unspool_flow::{
    self as flow, Around, Cause, Finding, FlowItem, InstructionSink, Item, Outcome, Range, Transaction,
};
use unspool_isa::decode;
use unspool_model::hold::Hold;
use unspool_model::{
    BlockSink, BlockTrace, Branch, Context, Coverage, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Loss,
    Losses, Security, SourceError, Step, StepSource, TimeUnit,
};

pub(crate) use self::blocks::{BlockBatch, BlockEmitter};
pub use self::cycles::CountedCycles;
use self::data::DataJoin;
pub(crate) use self::points::{CapturePoint, Inside, StepOrPoint};
pub use self::shards::{CaptureShard, Carried, ShardEnd};
use crate::order::{Owner, OwnerSink};
use crate::{Error, Meter, PresentIds, Program, SpaceOptions, Trace, Watch};

/// Steps of one source of a capture, buffer by buffer.
#[derive(Debug)]
pub struct CaptureSteps {
    capture: Capture,
    /// Indices of its traces in [`Trace::all`].
    traces: Vec<usize>,
    program: Arc<Program>,
    coverage: Coverage,
    time_unit: TimeUnit,
    losses: Losses,
    /// Counts the bytes of the buffers as they are read.
    bytes_read: Arc<AtomicU64>,
    core: u32,
}

impl CaptureSteps {
    /// Selects the source by name or trace id. Code in `added` comes before that of the capture.
    pub fn new(capture: Capture, source: Option<&str>, added: &[Code]) -> Result<Self, Error> {
        Self::with_spaces(capture, source, added, &SpaceOptions::default())
    }

    /// As [`new`](Self::new), with a choice of where to find the files of processes.
    pub fn with_spaces(
        capture: Capture,
        source: Option<&str>,
        added: &[Code],
        spaces: &SpaceOptions,
    ) -> Result<Self, Error> {
        added.iter().try_for_each(Code::require_arm)?;
        let mut all = Trace::all(&capture);
        let mut present = PresentIds::default();
        // A recording describes the trace units of all processors.
        all.retain(|trace| source.is_some() || present.may_have(trace));
        let chosen = choose(&all, source)?;
        let (features, _) = all[chosen].features()?;
        if !all[chosen].has_instructions() {
            return Err(all[chosen].no_instructions()?);
        }
        let name = &all[chosen].source().name;
        let named = (0..).zip(Trace::all(&capture)).filter(|(_, trace)| trace.source().name == *name);
        let traces = named.map(|(at, _)| at).collect();
        let (program, _) = Program::with_spaces(&capture, all[chosen].source().core, added, spaces);
        let (mut coverage, time_unit) = (coverage(&features), time_unit(&features));
        coverage = with_config(coverage, &all[chosen].config()?.0);
        if program.has_processes() {
            coverage = coverage.with(Facet::Processes);
        }
        let (losses, bytes_read) = (Losses::default(), Arc::default());
        let program = Arc::new(program);
        Ok(Self { capture, traces, program, coverage, time_unit, losses, bytes_read, core: 0 })
    }

    /// Counts the bytes of the buffers as they are read, for a progress display.
    #[must_use]
    pub fn counting(self, bytes_read: &Arc<AtomicU64>) -> Self {
        Self { bytes_read: Arc::clone(bytes_read), ..self }
    }

    /// The program that was executed, with what is known about its processes so far.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Bytes of the buffers that are read.
    pub fn size(&self) -> u64 {
        let all = Trace::all(&self.capture);
        self.traces.iter().filter_map(|at| all.get(*at)).map(|trace| trace.buffer().len()).sum()
    }

    /// The capture.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// The name of the source.
    pub fn source_name(&self) -> &str {
        let first = self.traces.first().and_then(|at| Trace::all(&self.capture).get(*at).copied());
        first.map_or("", |trace| trace.source().name.as_str())
    }

    /// The progress of reading.
    pub(crate) fn meter(&self) -> Meter {
        Meter { read: Arc::clone(&self.bytes_read), size: Some(self.size()) }
    }

    /// Numbers the core in the steps; the default is 0.
    #[must_use]
    pub fn with_core(self, core: u32) -> Self {
        Self { core, ..self }
    }
}

impl CaptureSteps {
    /// Emits the steps of all buffers; `decode` reads one of them.
    fn emit<S: BlockSink>(
        &mut self,
        sink: S,
        mut decode: impl FnMut(&Trace<'_>, &Program, &mut StepEmitter<S>) -> Result<(), Error>,
    ) -> Result<(), SourceError> {
        let all = Trace::all(&self.capture);
        let mut emitter = StepEmitter::new(self.time_unit, sink);
        (emitter.bytes_read, emitter.core) = (Some(Arc::clone(&self.bytes_read)), self.core);
        let mut present = PresentIds::default();
        for trace in self.traces.iter().filter_map(|at| all.get(*at)).filter(|trace| present.may_have(trace)) {
            emitter.start(trace);
            let decoded = decode(trace, &self.program, &mut emitter);
            emitter.end();
            decoded.map_err(SourceError::unreadable)?;
            if emitter.flow.is_break() {
                break;
            }
        }
        self.losses = emitter.losses;
        Ok(())
    }
}

/// A sink of another owner.
struct Borrowed<'s>(&'s mut dyn BlockSink);

impl BlockSink for Borrowed<'_> {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.0.step(step)
    }

    fn blocks(&mut self, trace: &BlockTrace<'_>) -> ControlFlow<()> {
        self.0.blocks(trace)
    }

    fn wants_accesses(&self) -> bool {
        self.0.wants_accesses()
    }
}

/// Facets that a source with these features has.
pub(crate) fn coverage(features: &Features) -> Coverage {
    let has_times = features.timestamps || features.cycle_counting;
    let more = [(features.context_ids || features.vmids, Facet::Processes), (has_times, Facet::Times)];
    let more = more.iter().filter(|(has, _)| *has);
    more.fold(coverage_of_captures(), |coverage, (_, facet)| coverage.with(*facet))
}

/// Coverage with the conditions and accesses that a source with this configuration traces.
fn with_config(coverage: Coverage, config: &TraceConfig) -> Coverage {
    let coverage = if config.traces_conditions() { coverage.with(Facet::Conditions) } else { coverage };
    match (config.traces_data_addresses(), config.traces_data_values()) {
        (true, true) => coverage.with(Facet::Accesses).with(Facet::Data),
        (true, false) => coverage.with(Facet::Accesses),
        (false, _) => coverage,
    }
}

/// Unit of the times of a source with these features. The frequency of timestamps is unknown.
pub(crate) fn time_unit(features: &Features) -> TimeUnit {
    let counts_cycles = features.cycle_counting && !features.timestamps;
    if counts_cycles { TimeUnit::Cycles } else { TimeUnit::Unknown }
}

/// Facets that every capture has.
pub(crate) fn coverage_of_captures() -> Coverage {
    Coverage::of(&[
        Facet::Instructions,
        Facet::Opcodes,
        Facet::Branches,
        Facet::Exceptions,
        Facet::Levels,
        Facet::Security,
    ])
}

/// Index of the first trace of the wanted source.
pub(crate) fn choose(all: &[Trace<'_>], wanted: Option<&str>) -> Result<usize, Error> {
    let known = || names(&mut all.iter());
    let Some(wanted) = wanted else {
        let first = all.first().ok_or_else(|| Error::NoSource { wanted: String::new(), known: known() })?;
        let is_one = all.iter().all(|trace| trace.source().name == first.source().name);
        return if is_one { Ok(0) } else { Err(Error::WhichSource { known: known() }) };
    };
    let id = match wanted.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => wanted.parse().ok(),
    };
    let is_meant = |trace: &Trace<'_>| trace.source().name == wanted || id.is_some() && trace.source().id == id;
    let named = all.iter().position(|trace| trace.source().name == wanted);
    let found = named.or_else(|| all.iter().position(is_meant));
    let found = found.ok_or_else(|| Error::NoSource { wanted: wanted.to_string(), known: known() })?;
    let name = &all[found].source().name;
    // A name is unique; several sources may have the same id.
    if name != wanted && all.iter().any(|trace| is_meant(trace) && trace.source().name != *name) {
        let known = names(&mut all.iter().filter(|trace| is_meant(trace)));
        return Err(Error::SharedId { wanted: wanted.to_string(), known });
    }
    Ok(found)
}

fn names(traces: &mut dyn Iterator<Item = &Trace<'_>>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in traces.map(|trace| trace.source().name.as_str()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

impl StepSource for CaptureSteps {
    fn coverage(&self) -> Coverage {
        self.coverage
    }

    fn time_unit(&self) -> TimeUnit {
        self.time_unit
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        self.emit(
            |step: &Step| take(step),
            |trace, program, emitter| trace.instructions_with_owners(Transactions::Show, program, emitter).map(drop),
        )
    }

    fn follow(&mut self, sink: &mut dyn BlockSink) -> Result<(), SourceError> {
        let mut batch = BlockBatch::default();
        self.emit(Borrowed(sink), |trace, program, emitter| emitter.follow(trace, program, &mut batch))
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }
}

/// Converts instructions and items to steps.
pub(crate) struct StepEmitter<S> {
    sink: S,
    step: Step,
    /// An exception that waits for the address of its handler, and the steps after it.
    hold: Hold,
    counts_cycles: bool,
    time: Option<u64>,
    note: String,
    context: Option<Context>,
    /// The context in the trace.
    traced: Option<coresight::Context>,
    /// On whose behalf code is executed, as far as system events show it.
    owner: Owner,
    /// Target of the last branch, which is that of an exception return.
    returned: Option<u64>,
    /// Return address of the last exception.
    interrupted: Option<u64>,
    /// Kind of gap, if the last step was one.
    gap: Option<Gap>,
    /// What came first, for a shard that does not know what came before it.
    first: First,
    /// M-profile, which numbers exceptions differently.
    pub(crate) is_microcontroller: bool,
    core: u32,
    losses: Losses,
    bytes_read: Option<Arc<AtomicU64>>,
    /// Bytes of this buffer that are counted.
    counted: u64,
    /// Every instruction has an atom, which shows whether its condition held.
    has_conditions: bool,
    /// Steps that wait for their data, if data are traced.
    join: Option<DataJoin>,
    flow: ControlFlow<()>,
}

/// First steps of a shard.
#[derive(Debug, Clone, Copy, Default)]
struct First {
    /// A context or a gap was emitted: the context no longer depends on the shard before.
    has_context: bool,
    /// The context, if it was emitted before any gap.
    context: Option<Context>,
    /// Something other than a note was emitted.
    is_past: bool,
    /// The gap that it starts with.
    gap: Option<Gap>,
}

impl<S: BlockSink> InstructionSink for StepEmitter<S> {
    #[inline]
    fn instruction(&mut self, instruction: &flow::Instruction, around: &Around) {
        if self.flow.is_break() {
            return;
        }
        if self.is_holding() {
            self.continue_at(Some(instruction.address));
        }
        let branch = branch(instruction);
        self.returned = branch.and_then(|branch| branch.target);
        (self.gap, self.first.is_past) = (None, true);
        self.step.clear();
        let time = if self.counts_cycles { around.cycles } else { around.timestamp };
        (self.step.core, self.step.position, self.step.time) = (self.core, instruction.offset, time);
        self.step.event = Event::Instruction(Instruction {
            address: instruction.address,
            opcode: Some(instruction.opcode),
            length: instruction.length,
            isa: instruction.isa,
            branch,
            // A branch that is not taken may have been executed.
            is_executed: (self.has_conditions && branch.is_none_or(|branch| branch.taken))
                .then(|| instruction.branch.is_none_or(|outcome| outcome.taken)),
            ..Instruction::default()
        });
        if self.flow.is_continue() {
            let Self { join, sink, step, .. } = self;
            self.flow = match join {
                Some(join) => join.step(step, &mut |step| sink.step(step)),
                None => sink.step(step),
            };
        }
    }

    fn item(&mut self, item: FlowItem) {
        match item {
            Ok(item) => self.found(item.offset, &item.value),
            Err(error) => self.gap(error.offset, Gap::Damaged),
        }
    }
}

impl<S> OwnerSink for StepEmitter<S> {
    fn owner(&mut self, owner: Owner) {
        self.owner = owner;
    }
}

impl<S: BlockSink> Watch for StepEmitter<S> {
    fn lost(&mut self, error: FrameError) {
        self.gap(error.offset, Gap::Damaged);
    }

    fn wants_more(&mut self) -> bool {
        self.flow.is_continue()
    }

    fn progress(&mut self, read: u64, _total: u64) {
        if let Some(total) = &self.bytes_read {
            total.fetch_add(read.saturating_sub(self.counted), Ordering::Relaxed);
        }
        self.counted = read;
    }
}

impl<S: BlockSink> StepEmitter<S> {
    pub(crate) fn new(time_unit: TimeUnit, sink: S) -> Self {
        Self {
            sink,
            step: Step::default(),
            hold: Hold::default(),
            counts_cycles: time_unit == TimeUnit::Cycles,
            time: None,
            note: String::new(),
            context: None,
            traced: None,
            owner: Owner::default(),
            returned: None,
            interrupted: None,
            gap: None,
            first: First::default(),
            losses: Losses::default(),
            is_microcontroller: false,
            core: 0,
            bytes_read: None,
            counted: 0,
            has_conditions: false,
            join: None,
            flow: ControlFlow::Continue(()),
        }
    }

    /// Starts a buffer.
    pub(crate) fn start(&mut self, trace: &Trace<'_>) {
        self.is_microcontroller = trace.profile() == Profile::Microcontroller;
        self.counted = 0;
        let config = trace.config().ok().map(|(config, _)| config);
        self.has_conditions = config.is_some_and(|config| config.traces_conditions());
        let config = config.filter(TraceConfig::traces_data_addresses);
        self.join = config.map(|config| DataJoin::new(config.traces_coprocessor_transfers()));
    }

    /// Whether steps have more than a block does: outcomes of conditions, or accesses.
    pub(crate) fn needs_instructions(&self) -> bool {
        self.has_conditions || self.join.is_some()
    }

    /// Reads one buffer, blocks at once where they contain all there is.
    fn follow(&mut self, trace: &Trace<'_>, program: &Program, batch: &mut BlockBatch) -> Result<(), Error> {
        if self.needs_instructions() {
            return trace.instructions_with_owners(Transactions::Show, program, self).map(drop);
        }
        let mut emitter = BlockEmitter { steps: self, batch };
        let decoded = trace.flow_with_owners(Transactions::Show, program, &mut emitter);
        emitter.end();
        decoded.map(drop)
    }

    /// Passes on blocks; `returned`: the target of the branch at the end of the last.
    fn blocks(&mut self, trace: &BlockTrace<'_>, returned: Option<u64>) {
        (self.gap, self.returned, self.first.is_past) = (None, returned, true);
        if self.flow.is_continue() {
            self.flow = self.sink.blocks(trace);
        }
    }

    /// Passes on the instructions of a range. Execution continues at `next`, if known.
    fn range(&mut self, range: &Range<'_>, next: Option<u64>, offset: u64, around: &Around) {
        let (isa, mut address) = (range.isa(), range.start());
        for (index, &opcode) in (1..).zip(range.opcodes()) {
            let (length, ends_range) = (isa.opcode_length(opcode), index == range.opcodes().len());
            let outcome = Outcome { taken: range.taken(), target: next.filter(|_| range.taken()) };
            let branch = (ends_range && range.has_outcome()).then_some(outcome);
            let instruction = flow::Instruction { address, opcode, isa, length, ends_range, branch, offset };
            self.instruction(&instruction, around);
            address = address.wrapping_add(length.into()) & isa.address_mask();
        }
    }

    /// Whether an exception waits for the address of its handler.
    fn is_holding(&self) -> bool {
        !self.hold.is_empty()
    }

    /// Execution continues at this address.
    fn continue_at(&mut self, next: Option<u64>) {
        // Execution that resumes at the return address does not show the handler, which was not traced.
        self.release(next.filter(|next| self.interrupted != Some(*next)));
    }

    /// Ends a buffer: emits the steps held back, and forgets the state before the next one.
    pub(crate) fn end(&mut self) {
        self.release(None);
        let Self { join, sink, .. } = self;
        if let Some(join) = join
            && self.flow.is_continue()
        {
            self.flow = join.end(&mut |step| sink.step(step));
        }
        (self.time, self.context, self.returned, self.gap) = (None, None, None, None);
        (self.traced, self.owner) = (None, Owner::default());
    }

    fn found(&mut self, position: u64, item: &Item) {
        if let (Item::Timestamp { .. } | Item::Map(_), Some(traced), true) = (item, self.traced, self.context.is_some())
        {
            // System events may have changed the owner.
            self.context(position, &traced);
        }
        match *item {
            Item::Context(found) => {
                self.traced = Some(found);
                self.context(position, &found);
            }
            Item::Timestamp { value, cycles } if !self.counts_cycles => {
                self.time = Some(value);
                self.losses.add_many(Loss::CycleCounts, cycles.is_some().into(), position);
            }
            Item::CycleCount(Some(_)) if !self.counts_cycles => self.losses.add(Loss::CycleCounts, position),
            Item::CycleCount(Some(cycles)) if self.counts_cycles => {
                self.time = Some(self.time.unwrap_or(0).saturating_add(cycles.into()));
            }
            Item::Event { mask } => (0..4).filter(|event| mask >> event & 1 == 1).for_each(|event| {
                self.note(position, format_args!("event {event}"));
            }),
            Item::Trigger => self.note(position, format_args!("trigger")),
            Item::Marker => self.note(position, format_args!("timestamp marker: the next timestamp is of here")),
            Item::Instrumentation { el, value } => self.note(position, format_args!("EL{el} wrote {value:#x}")),
            Item::Transaction(transaction) => self.transaction(position, transaction),
            Item::Exception { number, return_address } => {
                let kind = if self.is_microcontroller { ExceptionKind::Unknown } else { kind(number) };
                let return_address = return_address.filter(|_| !number.is_tail_chained(return_address));
                let exception = Exception { kind, return_address, ..Exception::default() };
                self.interrupted = return_address;
                self.emit(position, Event::Exception(exception));
            }
            Item::ExceptionReturn => {
                let target = self.returned.take();
                self.emit(position, Event::ExceptionReturn { target });
            }
            Item::TraceOn => self.gap(position, Gap::Start),
            Item::Overflow => self.gap(position, Gap::Overflow),
            Item::Discard { .. } => self.gap(position, Gap::Discard),
            Item::NoCode { address, .. } => self.gap(position, Gap::NoCode(address)),
            Item::Lost { cause, .. } => self.gap(
                position,
                match cause {
                    Cause::NoCode { address, .. } | Cause::Ambiguous { address } => Gap::NoCode(address),
                    Cause::NoAddress => Gap::Start,
                    Cause::Disagreement => Gap::Contradiction,
                },
            ),
            Item::Finding(Finding::AmbiguousImage { address }) => self.gap(position, Gap::NoCode(address)),
            Item::Finding(_) => self.gap(position, Gap::Contradiction),
            // The instructions of a Q element are unknown: tracing starts again after them.
            Item::Q { .. } => self.gap(position, Gap::Start),
            Item::Etm3(own) => self.data(position, &own),
            _ => {}
        }
    }

    /// The context of steps in a context of the trace.
    fn context_of(&self, found: &coresight::Context) -> Context {
        Context {
            level: found.level(),
            security: Some(match found.security {
                coresight::Security::Secure => Security::Secure,
                coresight::Security::NonSecure => Security::NonSecure,
                coresight::Security::Root => Security::Root,
                coresight::Security::Realm => Security::Realm,
            }),
            is_aarch64: Some(found.aarch64),
            process: self.owner.process.or(found.context_id.filter(|_| self.owner.thread.is_none())).map(u64::from),
            thread: self.owner.thread.map(u64::from),
            vmid: found.vmid,
            ..Context::default()
        }
    }

    /// Contexts are repeated at every synchronization; only a changed one is a step.
    fn context(&mut self, position: u64, found: &coresight::Context) {
        let context = self.context_of(found);
        if self.context.replace(context) != Some(context) {
            if !std::mem::replace(&mut self.first.has_context, true) {
                self.first.context = Some(context);
            }
            self.emit(position, Event::Context(context));
        }
    }

    /// A data transfer becomes part of its instruction; everything else is a note.
    fn data(&mut self, position: u64, own: &OwnElement) {
        if !self.join.as_mut().is_some_and(|join| join.data(own)) {
            self.note(position, format_args!("{own}"));
        }
    }

    fn transaction(&mut self, position: u64, transaction: Transaction) {
        if transaction == Transaction::Failure {
            self.gap(position, Gap::TransactionFailed);
        }
        let text = match transaction {
            Transaction::Start => "a transaction starts",
            Transaction::Commit => "the transaction succeeded",
            Transaction::Failure => "the transaction failed",
        };
        self.note(position, format_args!("{text}"));
    }

    fn gap(&mut self, position: u64, gap: Gap) {
        if self.gap != Some(gap) {
            if !self.first.is_past {
                self.first.gap = Some(gap);
            }
            self.first.has_context = true;
            self.emit(position, Event::Gap(gap));
            self.gap = Some(gap);
            self.context = None;
        }
    }

    fn note(&mut self, position: u64, text: std::fmt::Arguments<'_>) {
        let mut note = std::mem::take(&mut self.note);
        note.clear();
        // Writing into a string cannot fail.
        let _ = note.write_fmt(text);
        self.wait(position, |step| step.set_note(&note));
        self.note = note;
    }

    /// Emits a step that is not an instruction.
    fn emit(&mut self, position: u64, event: Event) {
        (self.gap, self.first.is_past) = (None, true);
        self.wait(position, |step| step.event = event);
    }

    /// Holds back an exception and the steps after it; other steps are emitted at once.
    fn wait(&mut self, position: u64, fill: impl FnOnce(&mut Step)) {
        if self.hold.is_full() {
            self.release(None);
        }
        let is_after = !self.hold.is_empty();
        let step = self.hold.push();
        (step.core, step.position, step.time) = (self.core, position, self.time);
        fill(step);
        if !is_after && !matches!(step.event, Event::Exception(_)) {
            self.release(None);
        }
    }

    /// Emits the steps held back. `next`: address at which execution continues, if known.
    fn release(&mut self, next: Option<u64>) {
        if self.flow.is_continue() {
            let Self { hold, join, sink, .. } = self;
            self.flow = match join {
                Some(join) => hold.release(next, |_, _| {}, &mut |step| join.step(step, &mut |step| sink.step(step))),
                None => hold.release(next, |_, _| {}, &mut |step| sink.step(step)),
            };
        }
    }
}

/// Outcome of a branch. Other P0 instructions (ISB, WFI) have none.
#[inline]
fn branch(instruction: &flow::Instruction) -> Option<Branch> {
    let outcome = instruction.branch?;
    let is_branch =
        outcome.target.is_some() || decode(instruction.isa, instruction.address, instruction.opcode).flow.is_branch();
    is_branch.then_some(Branch { taken: outcome.taken, target: outcome.target })
}

fn kind(number: ExceptionNumber) -> ExceptionKind {
    match number.numbering {
        Numbering::Etm4 => kind_in_etm4(number.value),
        Numbering::Armv7 => kind_in_armv7(number.value),
        Numbering::Armv7M | Numbering::Etm4M => ExceptionKind::Unknown,
    }
}

fn kind_in_armv7(number: u16) -> ExceptionKind {
    match number {
        exception::armv7::DEBUG_ENTRY => ExceptionKind::Debug,
        exception::armv7::RESET => ExceptionKind::Reset,
        2 | 3 | 5 | exception::armv7::UNDEFINED | 10 | 11 | 12 => ExceptionKind::Synchronous,
        4 => ExceptionKind::SError,
        14 => ExceptionKind::Irq,
        15 => ExceptionKind::Fiq,
        _ => ExceptionKind::Unknown,
    }
}

fn kind_in_etm4(number: u16) -> ExceptionKind {
    match number {
        exception::PE_RESET => ExceptionKind::Reset,
        1 => ExceptionKind::Debug,
        2 | 3 | 6 | 7 | 10 | 11 | 12 => ExceptionKind::Synchronous,
        4 => ExceptionKind::SError,
        14 => ExceptionKind::Irq,
        15 => ExceptionKind::Fiq,
        _ => ExceptionKind::Unknown,
    }
}
