//! Steps of one source of a capture.
//!
//! one source ─▶ instructions, items ─▶ **steps**
//!
//! Places are offsets in its buffer. Times are timestamps; where there are none and cycles are counted, they are the
//! cycles so far. What the trace unit did not tell is a gap; gaps of the same kind that follow one another are one.
//! Events, timestamp markers and what software wrote are notes. What a transaction did that failed is told as it was
//! executed, and the gap behind it says that it did not happen. Where times are timestamps, cycle counts are counted as
//! lost.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use unspool_capture::{Capture, Code};
use unspool_coresight::frame::FrameError;
use unspool_coresight::{self as coresight, Profile, Transactions, exception};
use unspool_flow::{self as flow, Around, Cause, FlowItem, InstructionSink, Item, Transaction};
use unspool_isa::decode;
use unspool_model::hold::Hold;
use unspool_model::{
    Branch, Context, Coverage, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Loss, Losses, Security,
    SourceError, Step, StepSource, TimeUnit,
};

use crate::{Error, Program, Trace, Watch};

/// Hands out the steps of one source of a capture, buffer by buffer.
#[derive(Debug)]
pub struct CaptureSteps {
    capture: Capture,
    /// The places of its traces among all.
    traces: Vec<usize>,
    program: Program,
    coverage: Coverage,
    time_unit: TimeUnit,
    losses: Losses,
}

impl CaptureSteps {
    /// Chooses the source by its name or trace id, and joins it with the code of the capture behind that which is added.
    pub fn new(capture: Capture, source: Option<&str>, added: &[Code]) -> Result<Self, Error> {
        let all = Trace::all(&capture);
        let chosen = choose(&all, source)?;
        let (features, _) = all[chosen].features()?;
        let name = &all[chosen].source().name;
        let traces = (0..all.len()).filter(|at| all[*at].source().name == *name).collect();
        let (program, _) = Program::of(&capture, all[chosen].source().core, added);
        let always = Coverage::of(&[
            Facet::Instructions,
            Facet::Opcodes,
            Facet::Branches,
            Facet::Exceptions,
            Facet::Levels,
            Facet::Security,
        ]);
        let has_times = features.timestamps || features.cycle_counting;
        let more = [(features.context_ids || features.vmids, Facet::Processes), (has_times, Facet::Times)];
        let more = more.iter().filter(|(has, _)| *has);
        let coverage = more.fold(always, |coverage, (_, facet)| coverage.with(*facet));
        // How fast timestamps count nobody says.
        let counts_cycles = features.cycle_counting && !features.timestamps;
        let time_unit = if counts_cycles { TimeUnit::Cycles } else { TimeUnit::Unknown };
        Ok(Self { capture, traces, program, coverage, time_unit, losses: Losses::default() })
    }
}

/// The first trace of the source that is meant.
fn choose(all: &[Trace<'_>], wanted: Option<&str>) -> Result<usize, Error> {
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
    // A name says more than an id, which several sources may have.
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
        let all = Trace::all(&self.capture);
        let mut teller = Teller {
            take,
            step: Step::default(),
            hold: Hold::default(),
            counts_cycles: self.time_unit == TimeUnit::Cycles,
            time: None,
            note: String::new(),
            context: None,
            returned: None,
            interrupted: None,
            gap: None,
            losses: Losses::default(),
            is_microcontroller: false,
            flow: ControlFlow::Continue(()),
        };
        for trace in self.traces.iter().filter_map(|at| all.get(*at)) {
            teller.is_microcontroller = trace.profile() == Profile::Microcontroller;
            let told = trace.instructions(Transactions::Show, &self.program, &mut teller);
            teller.release(None);
            teller.forget();
            told.map_err(|error| SourceError { text: error.to_string(), is_damage: false })?;
            if teller.flow.is_break() {
                break;
            }
        }
        self.losses = teller.losses;
        Ok(())
    }

    fn losses(&self) -> Losses {
        self.losses.clone()
    }
}

/// Tells instructions and items as steps.
struct Teller<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    step: Step,
    /// An exception that waits for its handler, and what came behind it.
    hold: Hold,
    /// Times are cycles.
    counts_cycles: bool,
    time: Option<u64>,
    note: String,
    /// The context that was told.
    context: Option<Context>,
    /// Where the last branch led, which is where an exception return goes on.
    returned: Option<u64>,
    /// Where the program goes on that the last exception interrupted.
    interrupted: Option<u64>,
    /// The last step was this gap.
    gap: Option<Gap>,
    /// M-profile, whose exceptions have other numbers.
    is_microcontroller: bool,
    losses: Losses,
    flow: ControlFlow<()>,
}

impl InstructionSink for Teller<'_> {
    #[inline]
    fn instruction(&mut self, instruction: &flow::Instruction, around: &Around) {
        if self.flow.is_break() {
            return;
        }
        if !self.hold.is_empty() {
            // Execution that goes on where it was interrupted says nothing of the handler, which was not traced.
            let next = Some(instruction.address).filter(|_| self.interrupted != Some(instruction.address));
            self.release(next);
        }
        let branch = branch(instruction);
        self.returned = branch.and_then(|branch| branch.target);
        self.gap = None;
        self.step.clear();
        let time = if self.counts_cycles { around.cycles } else { around.timestamp };
        (self.step.position, self.step.time) = (instruction.offset, time);
        self.step.event = Event::Instruction(Instruction {
            address: instruction.address,
            opcode: Some(instruction.opcode),
            length: instruction.length,
            isa: instruction.isa,
            is_executed: None,
            branch,
            za_index: None,
        });
        if self.flow.is_continue() {
            self.flow = (self.take)(&self.step);
        }
    }

    fn item(&mut self, item: FlowItem) {
        match item {
            Ok(item) => self.found(item.offset, &item.value),
            Err(error) => self.gap(error.offset, Gap::Damaged),
        }
    }
}

impl Watch for Teller<'_> {
    fn lost(&mut self, error: FrameError) {
        self.gap(error.offset, Gap::Damaged);
    }

    fn wants_more(&mut self) -> bool {
        self.flow.is_continue()
    }
}

impl Teller<'_> {
    fn found(&mut self, position: u64, item: &Item) {
        match *item {
            Item::Context(found) => self.context(position, &found),
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
            Item::Marker => self.note(position, format_args!("timestamp marker: the next timestamp is of here")),
            Item::Instrumentation { el, value } => self.note(position, format_args!("EL{el} wrote {value:#x}")),
            Item::Transaction(transaction) => self.transaction(position, transaction),
            Item::Exception { number, return_address } => {
                let kind = if self.is_microcontroller { ExceptionKind::Unknown } else { kind(number) };
                let exception = Exception { kind, return_address, ..Exception::default() };
                self.interrupted = return_address;
                self.tell(position, Event::Exception(exception));
            }
            Item::ExceptionReturn => {
                let target = self.returned.take();
                self.tell(position, Event::ExceptionReturn { target });
            }
            Item::TraceOn => self.gap(position, Gap::Start),
            Item::Overflow => self.gap(position, Gap::Overflow),
            Item::Discard => self.gap(position, Gap::Discard),
            Item::NoCode { address, .. } => self.gap(position, Gap::NoCode(address)),
            Item::Lost { cause, .. } => self.gap(
                position,
                match cause {
                    Cause::NoCode { address, .. } => Gap::NoCode(address),
                    Cause::NoAddress => Gap::Start,
                    Cause::Disagreement => Gap::Contradiction,
                },
            ),
            Item::Finding(_) => self.gap(position, Gap::Contradiction),
            // Nobody knows which these were: tracing starts again behind them.
            Item::Q { .. } => self.gap(position, Gap::Start),
            _ => {}
        }
    }

    /// Contexts are repeated at every synchronisation; a step is only told if something is new.
    fn context(&mut self, position: u64, found: &coresight::Context) {
        let context = Context {
            level: Some(found.el),
            security: Some(match found.security {
                coresight::Security::Secure => Security::Secure,
                coresight::Security::NonSecure => Security::NonSecure,
                coresight::Security::Root => Security::Root,
                coresight::Security::Realm => Security::Realm,
            }),
            is_aarch64: Some(found.aarch64),
            is_handler: None,
            process: found.context_id.map(u64::from),
            thread: None,
            vmid: found.vmid,
            modes: None,
        };
        if self.context.replace(context) != Some(context) {
            self.tell(position, Event::Context(context));
        }
    }

    fn transaction(&mut self, position: u64, transaction: Transaction) {
        if transaction == Transaction::Failure {
            self.gap(position, Gap::TransactionFailed);
        }
        self.note(position, format_args!("{}", transaction_text(transaction)));
    }

    fn gap(&mut self, position: u64, gap: Gap) {
        if self.gap != Some(gap) {
            self.tell(position, Event::Gap(gap));
            self.gap = Some(gap);
            self.context = None;
        }
    }

    /// Something that steps have no word for.
    fn note(&mut self, position: u64, text: std::fmt::Arguments<'_>) {
        let mut note = std::mem::take(&mut self.note);
        note.clear();
        // Writing into a string cannot fail.
        let _ = note.write_fmt(text);
        self.wait(position, |step| step.set_note(&note));
        self.note = note;
    }

    /// A step that is no instruction.
    fn tell(&mut self, position: u64, event: Event) {
        self.gap = None;
        self.wait(position, |step| step.event = event);
    }

    /// An exception waits, and so does what comes behind it.
    fn wait(&mut self, position: u64, fill: impl FnOnce(&mut Step)) {
        if self.hold.is_full() {
            self.release(None);
        }
        let is_behind = !self.hold.is_empty();
        let step = self.hold.push();
        (step.position, step.time) = (position, self.time);
        fill(step);
        if !is_behind && !matches!(step.event, Event::Exception(_)) {
            self.release(None);
        }
    }

    /// Hands out what waits: execution goes on there, if that is known.
    fn release(&mut self, next: Option<u64>) {
        if self.flow.is_continue() {
            self.flow = self.hold.release(next, |_, _| {}, self.take);
        }
    }

    /// Another buffer comes, of another time.
    fn forget(&mut self) {
        (self.time, self.context, self.returned, self.gap) = (None, None, None, None);
    }
}

/// What became of a branch. Others that trace has an element for (ISB, WFI) are none.
#[inline]
fn branch(instruction: &flow::Instruction) -> Option<Branch> {
    let outcome = instruction.branch?;
    let is_branch =
        outcome.target.is_some() || decode(instruction.isa, instruction.address, instruction.opcode).flow.is_branch();
    is_branch.then_some(Branch { taken: outcome.taken, target: outcome.target })
}

/// What an exception type of A-profile is.
fn kind(number: u16) -> ExceptionKind {
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

fn transaction_text(transaction: Transaction) -> &'static str {
    match transaction {
        Transaction::Start => "a transaction starts",
        Transaction::Commit => "the transaction succeeded",
        Transaction::Failure => "the transaction failed",
    }
}
