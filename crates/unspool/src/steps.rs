//! Steps of anything that can be opened.
//!
//! ```text
//! path ─▶ what is it? ─▶ ASTF, STF, Tarmac ─▶ their own steps
//!                        └ capture ─▶ one source ─▶ instructions, items ─▶ **steps**
//! ```
//!
//! Places of a capture are offsets in its buffer, times are timestamps. What the trace unit did not tell is a gap; gaps
//! of the same kind that follow one another are one.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use unspool_capture::{Capture, Code};
use unspool_coresight::etm4::{Profile, Transactions, element, packet};
use unspool_coresight::frame::FrameError;
use unspool_flow::{self as flow, Around, Cause, FlowItem, InstructionSink, Item};
use unspool_formats::hold::Hold;
use unspool_formats::{astf, stf, tarmac};
use unspool_isa::{self as isa, Kind, facts};
use unspool_model::{
    Branch, Context, Coverage, Event, Exception, ExceptionKind, Facet, Gap, Instruction, Isa, Security, SourceError,
    Step, StepSource,
};

use crate::{Error, InstructionReceiver, Program, Trace, What};

/// How steps are opened.
#[derive(Debug, Clone, Default)]
pub struct OpenSteps {
    /// Which source of a capture: its name, or its trace id. It has to be said if there are several.
    pub source: Option<String>,
    /// Program code beside that of a capture.
    pub codes: Vec<Code>,
    /// How a Tarmac log is read.
    pub tarmac: tarmac::read::ReadOptions,
    /// Data in a Tarmac log is big-endian.
    pub big_endian: bool,
    /// How many threads decompress; `None`: as many as there are processors.
    pub threads: Option<usize>,
}

/// Opens what is at a path, whatever it is.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::ops::ControlFlow;
/// use unspool::{OpenSteps, open_steps};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hello-ete");
/// let options = OpenSteps { source: Some("0x10".into()), ..OpenSteps::default() };
/// let mut source = open_steps(path.as_ref(), &options)?;
/// let mut instructions = 0;
/// source.each(&mut |step| {
///     instructions += u64::from(step.event.instruction().is_some());
///     ControlFlow::Continue(())
/// })?;
/// # assert!(instructions > 10);
/// # Ok(())
/// # }
/// ```
pub fn open_steps(path: &Path, options: &OpenSteps) -> Result<Box<dyn StepSource + Send>, Error> {
    let name = || path.display().to_string();
    let of_file = |source| Error::File { path: name(), source };
    let open = || File::open(path).map_err(of_file);
    Ok(match What::at(path).map_err(of_file)? {
        What::Astf => {
            let default = astf::read::ReadOptions::default();
            let read = astf::read::ReadOptions { threads: options.threads.unwrap_or(default.threads) };
            let reader =
                astf::read::Reader::new(open()?, read).map_err(|source| Error::Astf { path: name(), source })?;
            Box::new(astf::steps::Steps::new(reader))
        }
        What::Stf => {
            let default = stf::read::ReadOptions::default();
            let read = stf::read::ReadOptions { threads: options.threads.unwrap_or(default.threads) };
            let reader = stf::read::Reader::seekable(open()?, read);
            Box::new(stf::steps::Steps::new(reader.map_err(|source| Error::Stf { path: name(), source })?))
        }
        What::Tarmac => {
            let reader = tarmac::read::Reader::new(open()?, options.tarmac);
            let reader = reader.map_err(|source| Error::Tarmac { path: name(), source })?;
            Box::new(tarmac::steps::Steps::new(reader, options.big_endian))
        }
        What::Capture => {
            let capture = Capture::open(path)?;
            Box::new(CaptureSteps::new(capture, options.source.as_deref(), &options.codes)?)
        }
    })
}

/// Hands out the steps of one source of a capture, buffer by buffer.
#[derive(Debug)]
pub struct CaptureSteps {
    capture: Capture,
    /// The places of its traces among all.
    traces: Vec<usize>,
    program: Program,
    coverage: Coverage,
}

impl CaptureSteps {
    /// Chooses the source by its name or trace id, and joins it with the code of the capture behind that which is added.
    pub fn new(capture: Capture, source: Option<&str>, added: &[Code]) -> Result<Self, Error> {
        let all = Trace::all(&capture);
        let chosen = choose(&all, source)?;
        let (config, _) = all[chosen].config()?;
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
        let more = [(config.context_ids || config.vmids, Facet::Processes), (config.timestamps, Facet::Times)];
        let more = more.iter().filter(|(has, _)| *has);
        let coverage = more.fold(always, |coverage, (_, facet)| coverage.with(*facet));
        Ok(Self { capture, traces, program, coverage })
    }
}

/// The first trace of the source that is meant.
fn choose(all: &[Trace<'_>], wanted: Option<&str>) -> Result<usize, Error> {
    let known = || {
        let mut names: Vec<&str> = all.iter().map(|trace| trace.source().name.as_str()).collect();
        names.dedup();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    };
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
    let found = all.iter().position(is_meant);
    found.ok_or_else(|| Error::NoSource { wanted: wanted.to_string(), known: known() })
}

impl StepSource for CaptureSteps {
    fn coverage(&self) -> Coverage {
        self.coverage
    }

    fn each(&mut self, take: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<(), SourceError> {
        let all = Trace::all(&self.capture);
        let mut teller = Teller {
            take,
            step: Step::default(),
            hold: Hold::default(),
            time: None,
            context: None,
            returned: None,
            gap: None,
            is_microcontroller: false,
            flow: ControlFlow::Continue(()),
        };
        for trace in self.traces.iter().filter_map(|at| all.get(*at)) {
            teller.is_microcontroller = trace.profile() == Profile::Microcontroller;
            let told = trace.instructions(Transactions::default(), &self.program, &mut teller);
            teller.release(None);
            teller.forget();
            told.map_err(|error| SourceError { text: error.to_string(), is_damage: false })?;
            if teller.flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Tells instructions and items as steps.
struct Teller<'t> {
    take: &'t mut dyn FnMut(&Step) -> ControlFlow<()>,
    step: Step,
    /// An exception that waits for its handler, and what came behind it.
    hold: Hold,
    time: Option<u64>,
    /// The context that was told.
    context: Option<Context>,
    /// Where the last branch led, which is where an exception return goes on.
    returned: Option<u64>,
    /// The last step was this gap.
    gap: Option<Gap>,
    /// M-profile, whose exceptions have other numbers.
    is_microcontroller: bool,
    flow: ControlFlow<()>,
}

impl InstructionSink for Teller<'_> {
    #[inline]
    fn instruction(&mut self, instruction: &flow::Instruction, around: &Around) {
        if self.flow.is_break() {
            return;
        }
        if !self.hold.is_empty() {
            self.release(Some(instruction.address));
        }
        let branch = branch(instruction);
        self.returned = branch.and_then(|branch| branch.target);
        self.gap = None;
        self.step.clear();
        (self.step.place, self.step.time) = (instruction.offset, around.timestamp);
        self.step.event = Event::Instruction(Instruction {
            address: instruction.address,
            opcode: Some(instruction.opcode),
            length: instruction.length,
            isa: match instruction.isa {
                isa::Isa::A64 => Isa::A64,
                isa::Isa::A32 => Isa::A32,
                isa::Isa::T32 => Isa::T32,
            },
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

impl InstructionReceiver for Teller<'_> {
    fn lost(&mut self, error: FrameError) {
        self.gap(error.offset, Gap::Damaged);
    }

    fn wants_more(&mut self) -> bool {
        self.flow.is_continue()
    }
}

impl Teller<'_> {
    fn found(&mut self, place: u64, item: &Item) {
        match *item {
            Item::Context(found) => self.context(place, &found),
            Item::Timestamp { value, .. } => self.time = Some(value),
            Item::Exception { number, return_address } => {
                let kind = if self.is_microcontroller { ExceptionKind::Unknown } else { kind(number) };
                let exception = Exception { kind, return_address, ..Exception::default() };
                self.tell(place, Event::Exception(exception));
            }
            Item::ExceptionReturn => {
                let target = self.returned.take();
                self.tell(place, Event::ExceptionReturn { target });
            }
            Item::TraceOn => self.gap(place, Gap::Start),
            Item::Overflow => self.gap(place, Gap::Overflow),
            Item::Discard => self.gap(place, Gap::Discard),
            Item::NoCode { address, .. } => self.gap(place, Gap::NoCode(address)),
            Item::Lost { cause, .. } => self.gap(
                place,
                match cause {
                    Cause::NoCode { address, .. } => Gap::NoCode(address),
                    Cause::NoAddress => Gap::Start,
                    Cause::Disagreement => Gap::Contradiction,
                },
            ),
            Item::Finding(_) => self.gap(place, Gap::Contradiction),
            // Nobody knows which these were: tracing starts again behind them.
            Item::Q { .. } => self.gap(place, Gap::Start),
            _ => {}
        }
    }

    /// Contexts are repeated at every synchronisation; a step is only told if something is new.
    fn context(&mut self, place: u64, found: &element::Context) {
        let context = Context {
            level: Some(found.el),
            security: Some(match found.security {
                packet::Security::Secure => Security::Secure,
                packet::Security::NonSecure => Security::NonSecure,
                packet::Security::Root => Security::Root,
                packet::Security::Realm => Security::Realm,
            }),
            is_aarch64: Some(found.aarch64),
            is_handler: None,
            process: found.context_id.map(u64::from),
            thread: None,
            vmid: found.vmid,
            modes: None,
        };
        if self.context.replace(context) != Some(context) {
            self.tell(place, Event::Context(context));
        }
    }

    fn gap(&mut self, place: u64, gap: Gap) {
        if self.gap != Some(gap) {
            self.tell(place, Event::Gap(gap));
            self.gap = Some(gap);
            self.context = None;
        }
    }

    /// A step that is no instruction. An exception waits, and so does what comes behind it.
    fn tell(&mut self, place: u64, event: Event) {
        self.gap = None;
        if self.hold.is_full() {
            self.release(None);
        }
        let waits = !self.hold.is_empty() || matches!(event, Event::Exception(_));
        let step = self.hold.push();
        (step.place, step.time, step.event) = (place, self.time, event);
        if !waits {
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
    let is_branch = outcome.target.is_some() || {
        let kind = facts(instruction.isa, instruction.address, instruction.opcode).kind;
        matches!(kind, Kind::Direct | Kind::Indirect)
    };
    is_branch.then_some(Branch { taken: outcome.taken, target: outcome.target })
}

/// What an exception type of A-profile is.
fn kind(number: u16) -> ExceptionKind {
    match number {
        element::PE_RESET => ExceptionKind::Reset,
        1 => ExceptionKind::Debug,
        2 | 3 | 6 | 7 | 10 | 11 | 12 => ExceptionKind::Synchronous,
        4 => ExceptionKind::SError,
        14 => ExceptionKind::Irq,
        15 => ExceptionKind::Fiq,
        _ => ExceptionKind::Unknown,
    }
}
